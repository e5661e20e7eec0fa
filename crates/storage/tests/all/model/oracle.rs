//! The map that the database is compared with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use icecore_model::{Exemplar, Histogram, Labels, Matcher, Metadata, SeriesSamples};

use icecore_records::exemplar_series;

use super::steps::Question;
use crate::requests::Entry;
use crate::support::HOUR;

/// What lies at one timestamp.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Bits, because NaNs count.
    Float(u64),
    Histogram(Arc<Histogram>),
}

/// A value with the start it came with (0: none).
pub(crate) type Stored = (Value, i64);

/// Everything that was acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) samples: BTreeMap<Labels, BTreeMap<i64, Stored>>,
    pub(crate) exemplars: BTreeMap<Labels, Vec<Exemplar>>,
    pub(crate) metadata: BTreeMap<String, Metadata>,
}

impl Oracle {
    /// Takes over one request: floats in order, then histograms, as the database promises.
    pub(crate) fn write(&mut self, entries: &[Entry]) {
        for (labels, time, stored) in floats(entries).chain(histograms(entries)) {
            self.samples.entry(labels).or_default().insert(time, stored);
        }
        for entry in entries {
            match entry {
                Entry::Exemplar { labels, exemplar } => {
                    let known = self.exemplars.entry(canonical(labels)).or_default();
                    if !known.contains(exemplar) {
                        known.push(exemplar.clone());
                    }
                }
                Entry::Metadata { family, metadata } => {
                    self.metadata.insert(family.clone(), metadata.clone());
                }
                _ => {}
            }
        }
    }

    /// Forgets what a deletion names.
    pub(crate) fn delete(&mut self, question: &Question) {
        let named = |labels: &Labels| {
            let mut selectors = question.selectors.iter();
            selectors.any(|matchers| matches(matchers, labels))
        };
        let inside = |time: i64| (question.start_ms..=question.end_ms).contains(&time);
        self.samples.retain(|labels, samples| {
            samples.retain(|time, _| !(inside(*time) && named(labels)));
            !samples.is_empty()
        });
        self.exemplars.retain(|labels, exemplars| {
            exemplars.retain(|e| !(inside(e.timestamp_ms) && named(labels)));
            !exemplars.is_empty()
        });
    }

    /// Series with something in an hour that the range overlaps, whatever buckets the hours lie in.
    pub(crate) fn series(&self, question: &Question) -> Vec<Labels> {
        let touches = |time: &i64| {
            let (start, end) = hour_of(*time);
            start <= question.end_ms && end > question.start_ms
        };
        let with_samples = self
            .samples
            .iter()
            .filter(|(_, samples)| samples.keys().any(touches))
            .map(|(labels, _)| labels);
        let with_exemplars = self
            .exemplars
            .iter()
            .filter(|(_, exemplars)| exemplars.iter().any(|e| touches(&e.timestamp_ms)))
            .map(|(labels, _)| labels);
        let all: BTreeSet<&Labels> = with_samples.chain(with_exemplars).collect();
        let wanted = |labels: &&&Labels| {
            question.selectors.is_empty()
                || question
                    .selectors
                    .iter()
                    .any(|matchers| matches(matchers, labels))
        };
        all.iter().filter(wanted).map(|l| (*l).clone()).collect()
    }

    /// The exemplars of the series that match any selector, in the range, in order.
    pub(crate) fn exemplars(
        &self,
        selectors: &[Vec<Matcher>],
        start_ms: i64,
        end_ms: i64,
    ) -> Vec<(Labels, Vec<Exemplar>)> {
        let wanted = |labels: &Labels| {
            selectors.is_empty() || selectors.iter().any(|matchers| matches(matchers, labels))
        };
        let mut found = Vec::new();
        for (labels, exemplars) in self.exemplars.iter().filter(|(l, _)| wanted(l)) {
            let mut inside = exemplars.clone();
            inside.retain(|e| (start_ms..=end_ms).contains(&e.timestamp_ms));
            inside.sort_by(exemplar_series::order);
            if !inside.is_empty() {
                found.push((labels.clone(), inside));
            }
        }
        found
    }

    /// The samples of the series that match, in the range, without empty series.
    pub(crate) fn select(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
    ) -> BTreeMap<Labels, BTreeMap<i64, Stored>> {
        let mut found = BTreeMap::new();
        for (labels, samples) in &self.samples {
            let inside: BTreeMap<i64, Stored> = samples
                .range(start_ms..=end_ms)
                .map(|(time, stored)| (*time, stored.clone()))
                .collect();
            if matches(matchers, labels) && !inside.is_empty() {
                found.insert(labels.clone(), inside);
            }
        }
        found
    }
}

/// The hour of a time, as its start and end.
pub(crate) fn hour_of(time: i64) -> (i64, i64) {
    let start = time - time % HOUR;
    (start, start + HOUR)
}

/// A series of an answer in the oracle's words.
pub(crate) fn stored(series: &SeriesSamples) -> BTreeMap<i64, Stored> {
    let mut found = BTreeMap::new();
    let floats = &series.floats;
    assert_eq!(floats.timestamps.len(), floats.values.len());
    assert!(
        floats.timestamps.is_sorted_by(|a, b| a < b),
        "floats ascend"
    );
    assert!(
        series
            .histograms
            .is_sorted_by(|a, b| a.timestamp_ms < b.timestamp_ms),
        "histograms ascend"
    );
    for (time, value) in floats.timestamps.iter().zip(&floats.values) {
        found.insert(*time, (Value::Float(value.to_bits()), 0));
    }
    for sample in &series.histograms {
        let value = Value::Histogram(Arc::clone(&sample.histogram));
        let twice = found.insert(sample.timestamp_ms, (value, 0));
        assert_eq!(twice, None, "a float and a histogram at one time");
    }
    for (time, start) in &series.start_timestamps {
        let sample = found.get_mut(time);
        sample
            .unwrap_or_else(|| panic!("start without sample at {time}"))
            .1 = *start;
    }
    found
}

/// The final value that each request of several leaves at each place, in no particular order.
pub(crate) fn candidates(requests: &[Vec<Entry>]) -> BTreeMap<(Labels, i64), Vec<Stored>> {
    let mut found: BTreeMap<(Labels, i64), Vec<Stored>> = BTreeMap::new();
    for request in requests {
        let mut alone = Oracle::default();
        alone.write(request);
        for (labels, samples) in alone.samples {
            for (time, stored) in samples {
                found
                    .entry((labels.clone(), time))
                    .or_default()
                    .push(stored);
            }
        }
    }
    found
}

fn matches(matchers: &[Matcher], labels: &Labels) -> bool {
    matchers
        .iter()
        .all(|matcher| matcher.matches(labels.get(matcher.name()).unwrap_or("")))
}

fn floats(entries: &[Entry]) -> impl Iterator<Item = (Labels, i64, Stored)> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Float {
            labels,
            time,
            value,
            start,
        } => Some((
            canonical(labels),
            *time,
            (Value::Float(value.to_bits()), *start),
        )),
        _ => None,
    })
}

fn histograms(entries: &[Entry]) -> impl Iterator<Item = (Labels, i64, Stored)> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Histogram {
            labels,
            time,
            value,
            start,
        } => Some((
            canonical(labels),
            *time,
            (Value::Histogram(Arc::new(value.clone())), *start),
        )),
        _ => None,
    })
}

fn canonical(labels: &[(String, String)]) -> Labels {
    Labels::from_pairs(
        labels
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .cloned(),
    )
}
