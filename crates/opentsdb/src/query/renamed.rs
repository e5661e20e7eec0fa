//! Series under the names that their UIDs have now. What was written before and after a renaming
//! lies in two stored series, and is one here.

use std::collections::BTreeMap;

use icecore_model::{Labels, METRIC_NAME};

use super::series_key::SeriesKey;
use super::steps::Selected;
use crate::uid::{UidKind, Uids};

/// Whether any name may be stored under another one.
pub(super) fn has_renames(uids: &Uids) -> bool {
    let has_former = |kind: &UidKind| uids.read(*kind).has_former_names();
    UidKind::ALL.iter().any(has_former)
}

/// What stored labels are called now.
pub(super) fn current_labels(labels: &Labels, uids: &Uids) -> Labels {
    let current = |kind: UidKind, stored: &str| {
        let space = uids.read(kind);
        let current = space.current_name(stored);
        current.map_or_else(|| stored.to_owned(), ToString::to_string)
    };
    let pairs = labels.iter().map(|(name, value)| {
        if name == METRIC_NAME {
            (name.to_owned(), current(UidKind::Metric, value))
        } else {
            (current(UidKind::Tagk, name), current(UidKind::Tagv, value))
        }
    });
    Labels::from_pairs(pairs)
}

/// Series that wait until all parts of them are there.
#[derive(Default)]
pub(super) struct Parts(BTreeMap<SeriesKey, Selected>);

impl Parts {
    pub(super) fn add(&mut self, part: Selected) {
        match self.0.get_mut(&part.key) {
            Some(known) => {
                known.points.merge(&part.points);
                match (&mut known.rolled, part.rolled) {
                    (Some(known), Some(rolled)) => known.merge(rolled),
                    (known, rolled) => *known = known.take().or(rolled),
                }
            }
            None => {
                self.0.insert(part.key.clone(), part);
            }
        }
    }

    pub(super) fn into_series(self) -> Vec<Selected> {
        self.0.into_values().collect()
    }
}
