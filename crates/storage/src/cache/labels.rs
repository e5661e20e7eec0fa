//! Label sets, each once: a series that is in the head and in six buckets is one object, so that
//! uniting them compares addresses, not text.

use std::sync::Arc;

use hashbrown::HashTable;
use icecore_model::Labels;
use parking_lot::Mutex;

use super::budget::Budget;
use super::shelf::{Cached, Shelf};

impl Cached for Labels {
    /// Nothing: [`LabelSets`] accounts for what is shared.
    fn heap_bytes(&self) -> usize {
        0
    }
}

pub(crate) struct LabelSets {
    known: Mutex<SharedSets>,
    budget: Arc<Budget>,
}

#[derive(Default)]
struct SharedSets {
    sets: HashTable<Labels>,
    /// Sets that sweeps were allowed to look at and have not yet.
    allowance: usize,
}

/// Sets that one sweep may look at, on average. While a query holds more sets than the cache has
/// room for, every batch of it sweeps and finds nothing to forget: looking at all of them each time
/// took a minute for a million series.
const SWEEP_ALLOWANCE: usize = 4096;

impl LabelSets {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            known: Mutex::default(),
            budget: Arc::clone(budget),
        }
    }

    /// Replaces label sets by the equal ones that are known already.
    pub(crate) fn share<'l>(&self, sets: impl Iterator<Item = &'l mut Labels>) {
        let mut known = self.known.lock();
        for labels in sets {
            let hash = labels.fingerprint() as u64;
            match known.sets.find(hash, |other| other == labels) {
                Some(same) => *labels = same.clone(),
                None => {
                    self.budget.add(bytes_of(labels));
                    let hash_of = |other: &Labels| other.fingerprint() as u64;
                    known.sets.insert_unique(hash, labels.clone(), hash_of);
                }
            }
        }
    }

    /// Forgets sets that nobody else holds, now or (when there are many sets) a few sweeps later.
    pub(super) fn sweep(&self) {
        let mut known = self.known.lock();
        known.allowance += SWEEP_ALLOWANCE;
        if known.allowance < known.sets.len() {
            return;
        }
        known.allowance = 0;
        known.sets.retain(|labels| {
            let used = labels.is_shared();
            if !used {
                self.budget.take(bytes_of(labels));
            }
            used
        });
    }
}

fn bytes_of(labels: &Labels) -> usize {
    labels.heap_bytes() + 2 * size_of::<Labels>()
}

/// Label sets of the series in the head, by reference.
pub(crate) struct HeadLabels {
    pub(super) sets: Shelf<Labels>,
    /// References are given to other series after some were removed; the count of removals at which
    /// `sets` was filled.
    removals: Mutex<u64>,
}

impl HeadLabels {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            sets: Shelf::new(budget, false),
            removals: Mutex::new(0),
        }
    }

    /// The labels of series; those that are not known are made. The caller makes sure that no
    /// series is removed meanwhile.
    pub(crate) fn of(
        &self,
        series: &[u32],
        removals: u64,
        shared: &LabelSets,
        make: impl Fn(u32) -> Labels,
    ) -> Vec<Labels> {
        {
            let mut known = self.removals.lock();
            if *known != removals {
                self.sets.clear();
                *known = removals;
            }
        }
        let mut found: Vec<Option<Labels>> = Vec::with_capacity(series.len());
        self.sets
            .get_many(series.iter().copied(), |labels| found.push(labels.cloned()));
        let missing = found
            .iter()
            .zip(series)
            .filter(|(found, _)| found.is_none());
        let mut made: Vec<(u32, Labels)> = missing.map(|(_, s)| (*s, make(*s))).collect();
        if !made.is_empty() {
            shared.share(made.iter_mut().map(|(_, labels)| labels));
            self.sets.insert_many(made.iter().cloned());
        }
        let mut made = made.into_iter();
        let mut labels = Vec::with_capacity(series.len());
        for found in found {
            labels.extend(found.or_else(|| made.next().map(|(_, labels)| labels)));
        }
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_forgotten_within_a_number_of_sweeps_that_follows_their_count() {
        let sets = LabelSets::new(&Arc::new(Budget::new(0)));
        let name = |n: usize| Labels::from_pairs([("n", n.to_string())]);
        let mut held: Vec<Labels> = (0..3 * SWEEP_ALLOWANCE).map(name).collect();
        sets.share(held.iter_mut());
        sets.sweep();
        drop(held);
        // The first sweep saved its allowance, so the third has enough for all of them.
        sets.sweep();
        assert_eq!(sets.known.lock().sets.len(), 3 * SWEEP_ALLOWANCE);
        sets.sweep();
        assert!(sets.known.lock().sets.is_empty());
        assert_eq!(sets.budget.bytes(), 0);
    }
}
