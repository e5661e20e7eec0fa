//! Who sent what and whether it was acknowledged.

use std::collections::BTreeMap;

use super::Dice;
use crate::requests::Entry;
use crate::support::{Content, HOUR, T0};

/// One request of a writer. Its marker is a sample that only this request writes.
#[derive(Clone, Debug)]
pub(super) struct Request {
    series: String,
    marker: i64,
    samples: Vec<(i64, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Acknowledged,
    /// Under way when the power went: it is there as a whole or not at all.
    Unknown,
}

/// What each writer has sent, in order. Writers have series of their own.
pub(super) struct Ledger {
    writers: Vec<Vec<(Request, Fate)>>,
    next_marker: i64,
}

impl Request {
    pub(super) fn entries(&self) -> Vec<Entry> {
        let all = self.all_samples();
        all.map(|(series, time, value)| Entry::float(&series, time, value))
            .collect()
    }

    fn marker_series(&self) -> String {
        format!("{}-marker", self.series)
    }

    fn all_samples(&self) -> impl Iterator<Item = (String, i64, f64)> {
        let marker = (self.marker_series(), self.marker, 1.0);
        let samples = self.samples.iter();
        samples
            .map(|(time, value)| (self.series.clone(), *time, *value))
            .chain([marker])
    }
}

impl Ledger {
    pub(super) fn new(writers: usize) -> Self {
        Self {
            writers: vec![Vec::new(); writers],
            next_marker: 0,
        }
    }

    /// Requests of a writer for one life: in order, late, repeated, over three hours.
    pub(super) fn requests(
        &mut self,
        writer: usize,
        seed: u64,
    ) -> impl Iterator<Item = Request> + use<> {
        // Far more markers than a life has requests.
        let first_marker = self.next_marker;
        self.next_marker += 100_000;
        let mut dice = Dice(seed);
        (0..100_000).map(move |i| {
            let samples = (0..1 + dice.below(6)).map(|_| {
                let hour = dice.below(3) as i64;
                let time = T0 + hour * HOUR + dice.below(400) as i64 * 1000;
                (time, dice.below(1 << 40) as f64)
            });
            Request {
                series: format!("w{writer}"),
                marker: T0 - 20 * HOUR + first_marker + i,
                samples: samples.collect(),
            }
        })
    }

    pub(super) fn enter(&mut self, writer: usize, fates: Vec<(Request, Fate)>) {
        self.writers[writer].extend(fates);
    }

    /// After a restart: requests of unknown fate are there, from now on for good, or they are not.
    pub(super) fn settle(&mut self, found: &Content) {
        for requests in &mut self.writers {
            requests.retain_mut(|(request, fate)| {
                let there = found
                    .get(&request.marker_series())
                    .is_some_and(|samples| samples.contains_key(&request.marker));
                let keep = *fate == Fate::Acknowledged || there;
                *fate = Fate::Acknowledged;
                keep
            });
        }
    }

    /// What the database has to hold, neither more nor less.
    pub(super) fn content(&self) -> Content {
        let mut content: BTreeMap<String, BTreeMap<i64, u64>> = BTreeMap::new();
        for (request, _) in self.writers.iter().flatten() {
            for (series, time, value) in request.all_samples() {
                let samples = content.entry(series).or_default();
                samples.insert(time, value.to_bits());
            }
        }
        content
    }
}
