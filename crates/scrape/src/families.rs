//! Metadata of a target's metric families: type, help and unit.
//!
//! Holds always: what did not change since it was stored is not written again, and what could not
//! be stored is.

use std::collections::HashMap;

use icecore_model::{Metadata, MetricType, SampleSink};

/// Families of one target that are remembered; what exceeds it is not stored as metadata.
const FAMILIES_MAX: usize = 100_000;

/// Scrapes after which a family that did not come again is forgotten, as in Prometheus.
const FORGOTTEN_AFTER: u64 = 10;

#[derive(Default)]
pub(super) struct Families {
    known: HashMap<String, Family>,
    scrape: u64,
    /// Whether something is known that is not stored.
    changed: bool,
}

#[derive(Default)]
struct Family {
    metadata: Metadata,
    seen: u64,
    stored: bool,
}

impl Families {
    pub(super) fn begin(&mut self) {
        self.scrape += 1;
    }

    pub(super) fn set_type(&mut self, family: &str, metric_type: MetricType) {
        let changed = |metadata: &mut Metadata| {
            let other = metadata.metric_type != metric_type;
            metadata.metric_type = metric_type;
            other
        };
        self.update(family, changed);
    }

    pub(super) fn set_help(&mut self, family: &str, help: &str) {
        self.update(family, |metadata| replace(&mut metadata.help, help));
    }

    pub(super) fn set_unit(&mut self, family: &str, unit: &str) {
        self.update(family, |metadata| replace(&mut metadata.unit, unit));
    }

    /// Writes what changed.
    pub(super) fn write(&mut self, sink: &mut dyn SampleSink) {
        if !self.changed {
            return;
        }
        self.changed = false;
        for (name, family) in &mut self.known {
            if !family.stored {
                family.stored = true;
                sink.metadata(name, family.metadata.clone());
            }
        }
    }

    /// What this scrape wrote is not stored.
    pub(super) fn failed(&mut self) {
        for family in self.known.values_mut() {
            if family.seen == self.scrape {
                family.stored = false;
                self.changed = true;
            }
        }
    }

    /// What this scrape wrote is stored.
    pub(super) fn commit(&mut self) {
        // Rarely, because it scans all of them.
        if self.scrape.is_multiple_of(FORGOTTEN_AFTER) {
            let oldest = self.scrape.saturating_sub(FORGOTTEN_AFTER);
            self.known.retain(|_, family| family.seen > oldest);
        }
    }

    pub(super) fn get(&self, family: &str) -> Option<&Metadata> {
        self.known.get(family).map(|family| &family.metadata)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Metadata)> {
        self.known
            .iter()
            .map(|(name, family)| (name.as_str(), &family.metadata))
    }

    fn update(&mut self, name: &str, change: impl FnOnce(&mut Metadata) -> bool) {
        if !self.known.contains_key(name) {
            if self.known.len() >= FAMILIES_MAX {
                return;
            }
            self.known.insert(name.to_owned(), Family::default());
        }
        let Some(family) = self.known.get_mut(name) else {
            return;
        };
        family.seen = self.scrape;
        if change(&mut family.metadata) {
            family.stored = false;
        }
        self.changed |= !family.stored;
    }
}

fn replace(text: &mut String, by: &str) -> bool {
    if text == by {
        return false;
    }
    text.clear();
    text.push_str(by);
    true
}
