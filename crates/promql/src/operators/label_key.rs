//! The part of a label set by which rows are grouped or joined, as bytes.
//!
//! Comparing bytes is exact (no hash that could collide) and needs no allocation for a key that is
//! known.

use std::collections::HashMap;

use icecore_model::{Labels, METRIC_NAME};

/// Which labels count.
#[derive(Clone, Debug)]
pub(super) struct LabelKey {
    /// Sorted, unique.
    names: Vec<String>,
    /// All labels but `names` and the metric name, rather than only `names`.
    excluding: bool,
}

impl LabelKey {
    pub(super) fn new(names: &[String], excluding: bool) -> Self {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        Self { names, excluding }
    }

    /// Writes the key of a label set.
    pub(super) fn write(&self, labels: &Labels, key: &mut Vec<u8>) {
        key.clear();
        if !self.excluding {
            for name in &self.names {
                push(key, labels.get(name).unwrap_or_default());
            }
            return;
        }
        for (name, value) in labels.iter().filter(|(name, _)| self.counts(name)) {
            push(key, name);
            push(key, value);
        }
    }

    /// The labels that count.
    pub(super) fn project(&self, labels: &Labels) -> Labels {
        Labels::from_sorted(labels.iter().filter(|(name, _)| self.counts(name)))
    }

    pub(super) fn counts(&self, name: &str) -> bool {
        let listed = self
            .names
            .binary_search_by(|n| n.as_str().cmp(name))
            .is_ok();
        match self.excluding {
            true => !listed && name != METRIC_NAME,
            false => listed,
        }
    }
}

fn push(key: &mut Vec<u8>, text: &str) {
    key.extend_from_slice(&(text.len() as u32).to_le_bytes());
    key.extend_from_slice(text.as_bytes());
}

/// Numbers keys in the order in which they are first seen.
#[derive(Debug, Default)]
pub(super) struct KeyNumbers {
    numbers: HashMap<Box<[u8]>, usize>,
}

impl KeyNumbers {
    /// The number of a key, and whether it is new.
    pub(super) fn number(&mut self, key: &[u8]) -> (usize, bool) {
        if let Some(number) = self.numbers.get(key) {
            return (*number, false);
        }
        let number = self.numbers.len();
        self.numbers.insert(key.into(), number);
        (number, true)
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// Labels that say what a metric is: its name, and type and unit, which go when the name goes.
const METRIC_LABELS: [&str; 3] = [METRIC_NAME, "__type__", "__unit__"];

pub(super) fn is_metric_label(name: &str) -> bool {
    METRIC_LABELS.contains(&name)
}

/// A label set without metric name, type and unit.
pub(super) fn without_name(labels: &Labels) -> Labels {
    Labels::from_sorted(labels.iter().filter(|(name, _)| !is_metric_label(name)))
}
