//! Which level answers which part of a range of time.
//!
//! Holds always:
//! - A level counts for an hour when it has a bucket there in which the hour is up to date. Raw
//!   counts where there is a raw bucket, or something in the head.
//! - Where several count, the coarsest that the selection prefers is read, if it has what is needed
//!   of windows, else the finest. A level that the selection excludes is never read.
//! - Borders lie on the borders of hours, or of the widest windows where those are wider: no window
//!   crosses them.
//! - The choice depends on the selection and the list of buckets, not on any sample.

use std::collections::BTreeSet;

use icecore_model::rollup::{Resolution, RollupChoice, Segment, WindowFields};
use icecore_model::{BucketStart, HOUR_MS, Levels, MINUTE_MS};
use icecore_records::Bucket;

use crate::buckets::levels::Listed;
use crate::buckets::list;

/// What is read of which buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LevelPlan {
    pub(crate) levels: Levels,
    /// Oldest first, of one start the smallest first; raw and rolled ones.
    pub(crate) buckets: Vec<Bucket>,
}

/// Plans the reading of a range, both ends included. `head` are the hours that the head has
/// something of.
pub(crate) fn plan(
    listed: &Listed,
    head: &BTreeSet<BucketStart>,
    (start_ms, end_ms): (i64, i64),
    (choice, fields): (&RollupChoice, WindowFields),
) -> LevelPlan {
    let raw = list::in_range(listed.raw(), start_ms, end_ms);
    if listed.rolled().is_empty() {
        return LevelPlan {
            levels: Levels::default(),
            buckets: raw,
        };
    }
    let widest = listed
        .rolled()
        .keys()
        .map(|resolution| resolution.ms())
        .max();
    let mut cover = Cover {
        listed,
        head,
        choice,
        fields,
        unit_ms: widest.unwrap_or(0).max(HOUR_MS),
        excluded: None,
    };
    let mut segments: Vec<Segment> = Vec::new();
    for (start_ms, end_ms) in cover.intervals(&raw, start_ms, end_ms) {
        let resolution = cover.level_at(start_ms, end_ms);
        match segments.last_mut() {
            Some(last) if last.resolution == resolution => last.end_ms = end_ms,
            _ => segments.push(Segment {
                start_ms,
                end_ms,
                resolution,
            }),
        }
    }
    let mut buckets: BTreeSet<(BucketStart, Bucket)> = BTreeSet::new();
    for segment in &segments {
        let last_ms = segment.end_ms - 1;
        let of_level = match listed.rolled().get(&segment.resolution) {
            Some(rolled) => list::in_range(rolled, segment.start_ms, last_ms),
            None => list::in_range(listed.raw(), segment.start_ms, last_ms),
        };
        buckets.extend(of_level.into_iter().map(|bucket| (bucket.start, bucket)));
    }
    let excluded = cover.excluded;
    if segments.iter().all(|segment| segment.resolution.is_raw()) {
        segments.clear();
    }
    LevelPlan {
        levels: Levels { segments, excluded },
        buckets: buckets.into_iter().map(|(_, bucket)| bucket).collect(),
    }
}

struct Cover<'c> {
    listed: &'c Listed,
    head: &'c BTreeSet<BucketStart>,
    choice: &'c RollupChoice,
    /// What the selection needs of windows.
    fields: WindowFields,
    /// What is answered by one level.
    unit_ms: i64,
    excluded: Option<(Resolution, i64)>,
}

impl Cover<'_> {
    /// The parts of a range within which nothing changes, in time order, widened to whole units.
    fn intervals(&self, raw: &[Bucket], start_ms: i64, end_ms: i64) -> Vec<(i64, i64)> {
        let floor = |ms: i64| ms.div_euclid(self.unit_ms).saturating_mul(self.unit_ms);
        let behind = |last_ms: i64| floor(last_ms).saturating_add(self.unit_ms);
        let range = floor(start_ms)..behind(end_ms);
        let mut borders = BTreeSet::from([range.start, range.end]);
        let mut add = |from_ms: i64, to_ms: i64| {
            let ends = [floor(from_ms), behind(to_ms - 1)];
            borders.extend(ends.iter().filter(|border| range.contains(border)));
        };
        for bucket in raw {
            add(bucket.start_ms(), bucket.end_ms());
        }
        let hour = |hour: &BucketStart| (hour.start_ms(), hour.start_ms() + HOUR_MS);
        for set in self.listed.rolled().values() {
            for bucket in list::in_range(set, start_ms, end_ms) {
                add(bucket.start_ms(), bucket.end_ms());
                let dirty = self.listed.dirty().get(&bucket);
                for (from_ms, to_ms) in dirty.into_iter().flatten().map(hour) {
                    add(from_ms, to_ms);
                }
            }
        }
        for (from_ms, to_ms) in self.head.iter().map(hour) {
            add(from_ms, to_ms);
        }
        let borders: Vec<i64> = borders.into_iter().collect();
        borders.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// The level of an interval, by its first unit: the others are like it.
    fn level_at(&mut self, start_ms: i64, end_ms: i64) -> Resolution {
        let minutes = |ms: i64| u32::try_from(ms / MINUTE_MS).map(BucketStart);
        let behind_ms = start_ms.saturating_add(self.unit_ms);
        let (Ok(first), Ok(behind)) = (minutes(start_ms), minutes(behind_ms)) else {
            return Resolution::RAW;
        };
        let in_head = self.head.range(first..behind).next().is_some();
        let has_raw = in_head || {
            let raw = list::in_range(self.listed.raw(), start_ms, behind_ms - 1);
            !raw.is_empty()
        };
        // Whether the windows of a level hold all that was written.
        let is_clean = |bucket: Bucket| {
            let dirty = self.listed.dirty().get(&bucket);
            !in_head && dirty.is_none_or(|hours| hours.range(first..behind).next().is_none())
        };
        let covering = |(resolution, set): (&Resolution, &BTreeSet<Bucket>)| {
            let bucket = list::covering(set, Bucket::hour(first));
            let bucket = bucket.filter(|bucket| is_clean(*bucket))?;
            Some((*resolution, self.listed.has_fields(bucket, self.fields)))
        };
        let rolled = self.listed.rolled().iter().filter_map(covering);
        // Finest first.
        let raw = has_raw.then_some((Resolution::RAW, true));
        let existing: Vec<(Resolution, bool)> = raw.into_iter().chain(rolled).collect();
        let mut coarsest_first = existing.iter().rev();
        let preferred = coarsest_first.find(|(r, is_enough)| *is_enough && self.choice.prefers(*r));
        let permitted = existing.iter().find(|(r, _)| self.choice.permits(*r));
        if let (None, Some(finest)) = (permitted, existing.first()) {
            self.excluded = Some((finest.0, end_ms));
        }
        let chosen = preferred.or(permitted);
        chosen.map_or(Resolution::RAW, |(resolution, _)| *resolution)
    }
}

#[cfg(test)]
mod tests;
