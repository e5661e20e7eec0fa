//! Levels: raw samples, and windows of each resolution that samples were rolled up to.
//!
//! ```text
//! raw   1 h, 2 h, … 16 h, 64 h, 256 h, 512 h
//! 5m    32 h
//! 1h    128 h, 1024 h
//! ```
//!
//! Holds always:
//! - The sizes of raw buckets are fixed. Each other size belongs to one resolution for as long as a
//!   bucket of it exists, so that a size and a start name one bucket; its meta says which
//!   resolution that is.
//! - Buckets of one level do not overlap; those of different levels hold the same time.

use std::collections::{BTreeMap, BTreeSet};

use icecore_model::rollup::{Resolution, WindowFields};
use icecore_model::{BucketSize, BucketStart};
use icecore_records::Bucket;

use super::ladder;

/// Which resolution the buckets of a size hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelSizes(BTreeMap<BucketSize, Resolution>);

impl LevelSizes {
    /// `None` for a size that nobody uses.
    pub(crate) fn resolution(&self, size: BucketSize) -> Option<Resolution> {
        if ladder::is_raw(size) {
            return Some(Resolution::RAW);
        }
        self.0.get(&size).copied()
    }

    /// Notes that buckets of a size hold windows.
    pub(crate) fn learn(&mut self, size: BucketSize, resolution: Resolution) {
        self.0.insert(size, resolution);
    }

    /// The size that windows are rolled up into: the one that is in use, or the smallest that is
    /// free and holds enough windows. `None` when all are taken.
    pub(crate) fn target(&self, resolution: Resolution) -> Option<BucketSize> {
        let used = self.0.iter().find(|(_, used)| **used == resolution);
        if let Some((size, _)) = used {
            return Some(*size);
        }
        let fits = |size: &BucketSize| {
            let windows = size.duration_ms() / resolution.ms().max(1);
            windows >= WINDOWS_MIN && !self.0.contains_key(size)
        };
        ladder::rolled_sizes().find(fits)
    }
}

/// Windows that a bucket has at least: its index costs as much as a hundred of them.
const WINDOWS_MIN: i64 = 64;

/// The listed buckets of all levels, and which hours of rolled ones are out of date.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    raw: BTreeSet<Bucket>,
    rolled: BTreeMap<Resolution, BTreeSet<Bucket>>,
    sizes: LevelSizes,
    /// Hours that were written to after their windows were made, by the bucket of those.
    dirty: BTreeMap<Bucket, BTreeSet<BucketStart>>,
    /// Buckets whose windows have no deviations and no changes.
    lean: BTreeSet<Bucket>,
}

impl Listed {
    /// Buckets of sizes that are not known are left out.
    pub(crate) fn new(
        all: impl IntoIterator<Item = Bucket>,
        sizes: LevelSizes,
        dirty: BTreeMap<Bucket, BTreeSet<BucketStart>>,
    ) -> Self {
        let mut listed = Self {
            sizes,
            dirty,
            ..Self::default()
        };
        for bucket in all {
            listed.insert(bucket);
        }
        listed
    }

    pub(crate) fn raw(&self) -> &BTreeSet<Bucket> {
        &self.raw
    }

    /// The rolled levels, finest first.
    pub(crate) fn rolled(&self) -> &BTreeMap<Resolution, BTreeSet<Bucket>> {
        &self.rolled
    }

    /// The buckets of a level.
    pub(crate) fn level(&self, resolution: Resolution) -> Option<&BTreeSet<Bucket>> {
        if resolution.is_raw() {
            return Some(&self.raw);
        }
        self.rolled.get(&resolution)
    }

    /// The levels that there are, finest first.
    pub(crate) fn resolutions(&self) -> impl Iterator<Item = Resolution> {
        let rolled = self.rolled.keys().copied();
        std::iter::once(Resolution::RAW).chain(rolled)
    }

    pub(crate) fn sizes(&self) -> &LevelSizes {
        &self.sizes
    }

    pub(crate) fn dirty(&self) -> &BTreeMap<Bucket, BTreeSet<BucketStart>> {
        &self.dirty
    }

    /// Whether the windows of a bucket have these fields.
    pub(crate) fn has_fields(&self, bucket: Bucket, fields: WindowFields) -> bool {
        let kept = WindowFields::ALL.without(WindowFields::M2 | WindowFields::CHANGES);
        kept.contains(fields) || !self.lean.contains(&bucket)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Bucket> {
        let rolled = self.rolled.values().flatten();
        self.raw.iter().chain(rolled).copied()
    }

    pub(crate) fn contains(&self, bucket: Bucket) -> bool {
        self.level_of(bucket)
            .is_some_and(|set| set.contains(&bucket))
    }

    pub(crate) fn insert(&mut self, bucket: Bucket) {
        match self.sizes.resolution(bucket.size) {
            Some(Resolution::RAW) => {
                self.raw.insert(bucket);
            }
            Some(resolution) => {
                self.rolled.entry(resolution).or_default().insert(bucket);
            }
            None => {}
        }
    }

    pub(crate) fn remove(&mut self, bucket: Bucket) {
        self.raw.remove(&bucket);
        for set in self.rolled.values_mut() {
            set.remove(&bucket);
        }
        self.rolled.retain(|_, set| !set.is_empty());
        self.dirty.remove(&bucket);
        self.lean.remove(&bucket);
    }

    /// A bucket holds windows of a resolution, lean ones or full ones. Before it is inserted.
    pub(crate) fn learn(&mut self, bucket: Bucket, resolution: Resolution, lean: bool) {
        self.sizes.learn(bucket.size, resolution);
        if lean {
            self.lean.insert(bucket);
        }
    }

    /// Says which hours of a rolled bucket are out of date.
    pub(crate) fn set_dirty(&mut self, bucket: Bucket, hours: BTreeSet<BucketStart>) {
        if hours.is_empty() {
            self.dirty.remove(&bucket);
        } else {
            self.dirty.insert(bucket, hours);
        }
    }

    /// The rolled buckets that hold an hour, finest level first.
    pub(crate) fn rolled_around(&self, hour: BucketStart) -> impl Iterator<Item = Bucket> {
        let around = move |set: &BTreeSet<Bucket>| super::list::covering(set, Bucket::hour(hour));
        self.rolled.values().filter_map(around)
    }

    fn level_of(&self, bucket: Bucket) -> Option<&BTreeSet<Bucket>> {
        self.level(self.sizes.resolution(bucket.size)?)
    }
}
