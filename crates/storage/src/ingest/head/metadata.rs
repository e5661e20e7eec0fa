//! What clients say about metric families, and when they last did.

use std::collections::BTreeMap;

use icecore_model::{HOUR_MS, Metadata};

use super::Head;
use super::batch::BatchBuffers;

/// What is known about metric families, by name.
pub(crate) type MetadataMap = BTreeMap<String, FamilyMetadata>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FamilyMetadata {
    pub(crate) metadata: Metadata,
    /// When it was last said. A catalog that does not say so was written by an older version: then
    /// it is when this process began.
    pub(crate) seen_ms: i64,
}

impl FamilyMetadata {
    /// As the catalog has it.
    pub(crate) fn seen_hour(&self) -> u32 {
        u32::try_from(self.seen_ms.div_euclid(HOUR_MS)).unwrap_or(0)
    }
}

/// What series of a family are named beside its own name.
const SUFFIXES: [&str; 7] = [
    "", "_total", "_bucket", "_sum", "_count", "_created", "_info",
];

/// The families that a metric may be of, the likeliest first: its own name, or that of the family
/// it is a part of. Families of OpenTelemetry are named like their series, `_total` and unit
/// included.
pub(crate) fn families_of(name: &str) -> impl Iterator<Item = &str> {
    SUFFIXES
        .iter()
        .filter_map(move |suffix| name.strip_suffix(suffix))
}

/// The metrics that a family may have.
fn metrics_of(family: &str) -> impl Iterator<Item = String> {
    SUFFIXES
        .iter()
        .map(move |suffix| format!("{family}{suffix}"))
}

impl Head {
    /// Whether a family has series in the head.
    pub(crate) fn has_metrics_of(&self, family: &str) -> bool {
        let index = self.index();
        metrics_of(family).any(|name| index.has_metric(&name))
    }

    /// Forgets what was said of these families, if nobody has said it again since `seen_before_ms`
    /// and no series of them has come. Returns what is forgotten.
    pub(crate) fn forget_metadata(
        &self,
        families: impl IntoIterator<Item = String>,
        seen_before_ms: i64,
    ) -> MetadataMap {
        // Series of a request are entered before its metadata, and in this order others lock.
        let index = self.index();
        let mut known = self.metadata.write();
        let mut forgotten = MetadataMap::new();
        for family in families {
            let is_old = |known: &FamilyMetadata| known.seen_ms < seen_before_ms;
            let is_used = metrics_of(&family).any(|name| index.has_metric(&name));
            if !is_used && known.get(&family).is_some_and(is_old) {
                forgotten.extend(known.remove_entry(&family));
            }
        }
        forgotten
    }

    /// Takes back what could not be forgotten, where nothing was said since.
    pub(crate) fn remember_metadata(&self, forgotten: MetadataMap) {
        let mut known = self.metadata.write();
        for (family, metadata) in forgotten {
            known.entry(family).or_insert(metadata);
        }
    }

    /// Takes over what clients say about metrics, as far as it is new.
    pub(super) fn update_metadata(&self, batch: &mut BatchBuffers, now_ms: i64) {
        if batch.metadata.is_empty() {
            return;
        }
        let mut known = self.metadata.write();
        let mut full = 0;
        batch.metadata.retain(|(family, metadata)| {
            if let Some(known) = known.get_mut(family) {
                known.seen_ms = known.seen_ms.max(now_ms);
                let is_new = known.metadata != *metadata;
                if is_new {
                    known.metadata.clone_from(metadata);
                }
                return is_new;
            }
            if known.len() >= self.limits.metadata_max {
                full += 1;
                return false;
            }
            let said = FamilyMetadata {
                metadata: metadata.clone(),
                seen_ms: now_ms,
            };
            known.insert(family.clone(), said);
            true
        });
        drop(known);
        if !batch.metadata.is_empty() {
            self.catalog.write().metadata_changed();
        }
        for _ in 0..full {
            let reason = "metadata of more metrics than limits.metadata_max".to_string();
            batch.reject(reason, true);
        }
    }
}
