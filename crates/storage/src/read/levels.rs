//! Which level answers which part of a range of time.
//!
//! Holds always:
//! - A level counts for an hour when it has a bucket there in which the hour is up to date. Raw
//!   counts where there is a raw bucket, or something in the head. A level of which something is
//!   gone does not count, one that is older than it is kept only where no coarser one counts that
//!   is as fine as the policy says, and one that does not keep these series only where nothing else
//!   does. Windows that lack series which another level has do not count beside it: they were made
//!   under a policy that left them out.
//! - Where several count, the coarsest that the selection prefers is read, if it has what is needed
//!   of windows, else the finest. A level that the selection excludes is never read.
//! - Borders lie on the borders of hours, or of the widest windows where those are wider: no window
//!   crosses them.
//! - The choice depends on the selection, the list of buckets and which remnants have a series, not
//!   on any sample.
//! - Where samples are gone, raw ones came late: they are merged into the windows of the level that
//!   is read, and never stand for themselves.
//! - A remnant has all that the raw level had of its series. For those, and for no others, raw
//!   counts in its time although the level is gone; late samples stand for themselves then.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use icecore_model::rollup::{Permission, Resolution, RollupChoice, Segment, WindowFields};
use icecore_model::{BucketStart, HOUR_MS, Levels, MINUTE_MS};
use icecore_records::Bucket;

use crate::buckets::kept_since::KeptSince;
use crate::buckets::levels::{Listed, RolledBucket};
use crate::buckets::list;
use crate::buckets::ranges::{contain, joined, without};

/// What is read of which buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LevelPlan {
    pub(crate) levels: Levels,
    /// Oldest first, of one start the smallest first; raw and rolled ones.
    pub(crate) buckets: Vec<Bucket>,
    pub(crate) late: LateTime,
    /// What is different for series that remnants have, in time order.
    pub(crate) remnants: Vec<RemnantTime>,
}

/// The time of which series that a remnant has are read from it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RemnantTime {
    pub(crate) bucket: Bucket,
    /// In order; never empty.
    pub(crate) ranges: Vec<Range<i64>>,
}

/// How a series is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SeriesPlan {
    pub(crate) levels: Arc<Levels>,
    pub(crate) late: Arc<LateTime>,
}

impl LevelPlan {
    /// How a series is read that these remnants have.
    pub(crate) fn of_series(&self, has: impl Fn(Bucket) -> bool) -> SeriesPlan {
        let remnants = self.remnants.iter().filter(|remnant| has(remnant.bucket));
        let raw = joined(remnants.flat_map(|r| r.ranges.iter().cloned()).collect());
        let mut levels = self.levels.clone();
        if !raw.is_empty() {
            levels.segments = with_raw(&levels.segments, &raw);
            // Nothing is said of what lies before: other series tell of it.
            levels.excluded = levels.excluded.filter(|(_, end_ms)| {
                let is_raw = |range: &Range<i64>| range.start < *end_ms && *end_ms <= range.end;
                !raw.iter().any(is_raw)
            });
        }
        SeriesPlan {
            levels: Arc::new(levels),
            late: Arc::new(LateTime {
                gone: without(&self.late.gone, &raw),
                merged: without(&self.late.merged, &raw),
            }),
        }
    }
}

/// The same segments, but raw in some ranges; none if all are raw then.
fn with_raw(segments: &[Segment], raw: &[Range<i64>]) -> Vec<Segment> {
    let mut parts: Vec<Segment> = Vec::new();
    for segment in segments {
        let time = segment.start_ms..segment.end_ms;
        let rolled = without(std::slice::from_ref(&time), raw);
        let kept = rolled.iter().map(|range| (range, segment.resolution));
        let as_raw = without(std::slice::from_ref(&time), &rolled);
        let as_raw = as_raw.iter().map(|range| (range, Resolution::RAW));
        let of = |(range, resolution): (&Range<i64>, Resolution)| Segment {
            start_ms: range.start,
            end_ms: range.end,
            resolution,
        };
        parts.extend(kept.chain(as_raw).map(of));
    }
    parts.sort_by_key(|segment| segment.start_ms);
    parts.dedup_by(|later, earlier| {
        let is_same = later.resolution == earlier.resolution;
        if is_same {
            earlier.end_ms = later.end_ms;
        }
        is_same
    });
    if parts.iter().all(|segment| segment.resolution.is_raw()) {
        parts.clear();
    }
    parts
}

/// Where raw samples are none of the raw level; ranges are in order and do not overlap.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LateTime {
    /// Where samples are gone.
    pub(crate) gone: Vec<Range<i64>>,
    /// The part of it where those that came late are merged into the windows that are read.
    pub(crate) merged: Vec<Range<i64>>,
}

/// Plans the reading of a range, both ends included. `head` are the hours that the head has
/// something of.
pub(crate) fn plan(
    listed: &Listed,
    kept_since: &KeptSince,
    head: &BTreeSet<BucketStart>,
    (start_ms, end_ms): (i64, i64),
    (choice, fields): (&RollupChoice, WindowFields),
) -> LevelPlan {
    if start_ms > end_ms {
        return LevelPlan::default();
    }
    let mut raw = list::in_range(listed.raw(), start_ms, end_ms);
    raw.extend(listed.remnants_in(start_ms, end_ms));
    if listed.rolled().is_empty() {
        raw.sort_by_key(|bucket| (bucket.start, *bucket));
        return LevelPlan {
            buckets: raw,
            ..LevelPlan::default()
        };
    }
    let widest = listed
        .rolled()
        .keys()
        .map(|resolution| resolution.ms())
        .max();
    let mut cover = Cover {
        listed,
        kept_since,
        head,
        choice,
        permission: choice.among(listed.rolled().keys().copied()),
        fields,
        unit_ms: widest.unwrap_or(0).max(HOUR_MS),
        excluded: None,
    };
    let mut segments: Vec<Segment> = Vec::new();
    let gone = joined(gone_in(listed, start_ms, end_ms));
    let mut from_remnants: BTreeMap<Bucket, Vec<Range<i64>>> = BTreeMap::new();
    for (start_ms, end_ms) in cover.intervals(&raw, start_ms, end_ms) {
        let resolution = cover.level_at((start_ms, end_ms), false);
        // Where only raw samples are permitted, raw is what is left if there is nothing.
        let is_without = !resolution.is_raw() || contain(&gone, start_ms);
        if is_without
            && let Some(remnant) = listed.remnants_in(start_ms, start_ms).next()
            && cover.level_at((start_ms, end_ms), true).is_raw()
        {
            let ranges = from_remnants.entry(remnant).or_default();
            ranges.push(start_ms..end_ms);
        }
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
    let mut merged = Vec::new();
    for segment in &segments {
        let last_ms = segment.end_ms - 1;
        let of_level = match listed.rolled().get(&segment.resolution) {
            Some(rolled) => list::in_range(rolled, segment.start_ms, last_ms),
            None => {
                let mut of_level = list::in_range(listed.raw(), segment.start_ms, last_ms);
                of_level.extend(listed.remnants_in(segment.start_ms, last_ms));
                of_level
            }
        };
        for bucket in &of_level {
            let facts = listed.facts(*bucket).filter(|facts| facts.sources_gone);
            merged.extend(facts.map(|_| {
                segment.start_ms.max(bucket.start_ms())..segment.end_ms.min(bucket.end_ms())
            }));
        }
        buckets.extend(of_level.into_iter().map(|bucket| (bucket.start, bucket)));
    }
    let late = LateTime {
        gone,
        merged: joined(merged),
    };
    for range in &late.merged {
        let overlays = list::in_range(listed.overlays(), range.start, range.end - 1);
        buckets.extend(overlays.into_iter().map(|bucket| (bucket.start, bucket)));
    }
    let remnants = from_remnants.into_iter().map(|(bucket, ranges)| {
        let ranges = joined(ranges);
        RemnantTime { bucket, ranges }
    });
    let remnants: Vec<RemnantTime> = remnants.collect();
    for RemnantTime { bucket, ranges } in &remnants {
        buckets.insert((bucket.start, *bucket));
        for range in ranges {
            let overlays = list::in_range(listed.overlays(), range.start, range.end - 1);
            buckets.extend(overlays.into_iter().map(|bucket| (bucket.start, bucket)));
        }
    }
    let excluded = cover.excluded;
    if segments.iter().all(|segment| segment.resolution.is_raw()) {
        segments.clear();
    }
    LevelPlan {
        levels: Levels { segments, excluded },
        buckets: buckets.into_iter().map(|(_, bucket)| bucket).collect(),
        late,
        remnants,
    }
}

/// The time of a range whose samples are gone.
fn gone_in(listed: &Listed, start_ms: i64, end_ms: i64) -> Vec<Range<i64>> {
    let gone = listed
        .gone()
        .map(|bucket| bucket.start_ms()..bucket.end_ms());
    gone.filter(|gone| gone.start <= end_ms && gone.end > start_ms)
        .collect()
}

struct Cover<'c> {
    listed: &'c Listed,
    kept_since: &'c KeptSince,
    head: &'c BTreeSet<BucketStart>,
    choice: &'c RollupChoice,
    permission: Permission,
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
                let dirty = self.listed.facts(bucket).map(|facts| &facts.dirty);
                for (from_ms, to_ms) in dirty.into_iter().flatten().map(hour) {
                    add(from_ms, to_ms);
                }
            }
        }
        for (from_ms, to_ms) in self.head.iter().map(hour) {
            add(from_ms, to_ms);
        }
        let since = self
            .kept_since
            .levels
            .values()
            .map(|since_ms| floor(*since_ms));
        borders.extend(since.filter(|border| range.contains(border)));
        let borders: Vec<i64> = borders.into_iter().collect();
        borders.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// The level of an interval, by its first unit: the others are like it. With a remnant for
    /// series that it has.
    fn level_at(&mut self, (start_ms, end_ms): (i64, i64), has_remnant: bool) -> Resolution {
        let minutes = |ms: i64| u32::try_from(ms / MINUTE_MS).map(BucketStart);
        let behind_ms = start_ms.saturating_add(self.unit_ms);
        let (Ok(first), Ok(behind)) = (minutes(start_ms), minutes(behind_ms)) else {
            return Resolution::RAW;
        };
        let in_head = self.head.range(first..behind).next().is_some();
        let has_raw = in_head || has_remnant || {
            let raw = list::in_range(self.listed.raw(), start_ms, behind_ms - 1);
            !raw.is_empty()
        };
        let rolled = self.listed.rolled().iter().filter_map(|(resolution, set)| {
            let bucket = list::covering(set, Bucket::hour(first))?;
            Some((*resolution, bucket, self.listed.facts(bucket)?))
        });
        let rolled: Vec<(Resolution, Bucket, &RolledBucket)> = rolled.collect();
        let gone = rolled.iter().filter(|(.., facts)| facts.sources_gone);
        let gone = gone.map(|(.., facts)| facts.source).max();
        let is_whole = |resolution: Resolution| {
            (has_remnant && resolution.is_raw()) || gone.is_none_or(|gone| resolution > gone)
        };
        // Whether the windows of a level hold all that was written.
        let is_clean = |bucket: Bucket, facts: &RolledBucket| {
            let is_written = in_head || facts.dirty.range(first..behind).next().is_some();
            facts.sources_gone || !(is_written || self.listed.is_incomplete(bucket))
        };
        let rolled = rolled.into_iter();
        let rolled = rolled.filter(|(_, bucket, facts)| is_clean(*bucket, facts));
        let rolled = rolled.map(|(r, bucket, facts)| (r, bucket, facts.has_fields(self.fields)));
        // Finest first. Raw samples are of all series, in whatever bucket they are.
        let raw = has_raw.then_some((Resolution::RAW, Bucket::hour(first), true));
        let existing = raw.into_iter().chain(rolled);
        let existing: Vec<_> = existing.filter(|(r, ..)| is_whole(*r)).collect();
        // Of two that lack what the other has, the finer one counts.
        let has = |bucket: Bucket, other: Bucket| self.listed.has_series_of(bucket, other);
        let has_all = |(resolution, bucket): (Resolution, Bucket)| {
            let mut others = existing.iter().map(|(r, other, _)| (*r, *other));
            others.all(|(r, other)| {
                has(bucket, other) || (r > resolution && !has(other, bucket)) || r == resolution
            })
        };
        let complete = existing.iter().filter(|(r, of, _)| has_all((*r, *of)));
        let complete: Vec<_> = complete.copied().collect();
        let existing = if complete.is_empty() {
            existing
        } else {
            complete
        };
        let existing: Vec<_> = existing.into_iter().map(|(r, _, of)| (r, of)).collect();
        let not_kept = &self.kept_since.not_kept;
        let (mut existing, others): (Vec<_>, Vec<_>) =
            (existing.into_iter()).partition(|(resolution, _)| !not_kept.contains(resolution));
        if existing.is_empty() {
            // On the way to a coarser level that is kept.
            existing = others;
        }
        // What waits to be culled still stands in for a level that is not made yet, or made again.
        while let [(finest, _), (next, _), ..] = existing[..]
            && self.kept_since.is_older(finest, end_ms)
            && !self.kept_since.is_kept_between((finest, next), end_ms)
        {
            existing.remove(0);
        }
        let mut coarsest_first = existing.iter().rev();
        let preferred = coarsest_first.find(|(r, is_enough)| *is_enough && self.choice.prefers(*r));
        let permitted = existing.iter().find(|(r, _)| self.permission.permits(*r));
        if let (None, Some(finest), false) = (permitted, existing.first(), has_remnant) {
            self.excluded = Some((finest.0, end_ms));
        }
        let chosen = preferred.or(permitted);
        chosen.map_or(Resolution::RAW, |(resolution, _)| *resolution)
    }
}

#[cfg(test)]
mod tests;
