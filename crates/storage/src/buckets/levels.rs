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
//! - A bucket of windows can be made again from its sources until those are gone. Where sources are
//!   gone their level is not whole: what might come there late is not all there was.
//! - What comes there late nevertheless lies in overlays: raw buckets in the time of a bucket of
//!   windows whose sources are gone, and of no other time. They are no part of the raw level.
//! - A bucket of windows says which series it has left out. One that lacks series which its level
//!   should have is made again where its sources have them; until then, and where they are gone, a
//!   finer level that has them counts in its place.
//! - What came late of series that only finer levels keep lies in windows as well, if those levels
//!   are gone there. A bucket that has such samples stands in for those levels: it says so, it is
//!   kept for as long, and what is made of it has all of its series. The same holds of what is made
//!   of windows that lack series, which may have got late samples of those.
//! - Series that are kept for longer than the others have their samples in remnants when the level
//!   goes. A remnant has all or nothing of a series: what it has of it is all that the raw level
//!   had in its time. It is no part of that level either, which is not whole there any more.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use icecore_model::retention::RetentionPolicy;
use icecore_model::rollup::{Resolution, WindowFields, rolled_size};
use icecore_model::{BucketSize, BucketStart};
use icecore_records::Bucket;
use icecore_records::bucket_meta::BucketMeta;

use super::ladder::{self, LargerSize};
use super::left_out::{self, Groups, LeftOut};
use super::list;

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

    /// The size that windows are rolled up into; `None` when all are taken.
    pub(crate) fn target(&self, resolution: Resolution) -> Option<BucketSize> {
        let is_free = |size| self.0.get(&size).is_none_or(|user| *user == resolution);
        rolled_size(resolution, is_free)
    }

    /// What the buckets of a level become later. `None` if that is nothing, or if another of these
    /// levels, or of those that there are, has the size or will need it.
    pub(crate) fn larger(
        &self,
        resolution: Resolution,
        levels: impl IntoIterator<Item = Resolution>,
    ) -> Option<LargerSize> {
        let larger = ladder::larger(self.target(resolution)?)?;
        let mut sizes = self.clone();
        for level in levels.into_iter().filter(|level| !level.is_raw()) {
            if let Some(size) = sizes.target(level) {
                sizes.0.insert(size, level);
            }
        }
        let user = sizes.0.get(&larger.size);
        user.is_none_or(|user| *user == resolution)
            .then_some(larger)
    }
}

/// What is known of a bucket of windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RolledBucket {
    pub(crate) resolution: Resolution,
    /// What it was made of, or could be made of again.
    pub(crate) source: Resolution,
    /// The sources are culled: this is what is left. Levels up to that of the sources have gone.
    pub(crate) sources_gone: bool,
    /// Without deviations and changes.
    pub(crate) is_lean: bool,
    /// Hours that were written to after their windows were made.
    pub(crate) dirty: BTreeSet<BucketStart>,
    /// `None`: it does not say so.
    pub(crate) left_out: Option<Groups>,
    /// It has late samples of series that only finer levels keep: it is kept for as long as those.
    pub(crate) stands_in: bool,
}

impl RolledBucket {
    /// `None` for the meta of a raw bucket.
    pub(crate) fn of(meta: &BucketMeta) -> Option<Self> {
        let resolution = meta
            .resolution()
            .filter(|resolution| !resolution.is_raw())?;
        Some(Self {
            resolution,
            source: meta.rollup.source,
            sources_gone: meta.rollup.sources_gone,
            is_lean: meta.rollup.is_lean,
            dirty: meta.dirty_hours.iter().copied().map(BucketStart).collect(),
            left_out: meta.rollup.left_out.clone(),
            stands_in: meta.rollup.stands_in,
        })
    }

    /// Whether its windows have these fields.
    pub(crate) fn has_fields(&self, fields: WindowFields) -> bool {
        let lean = WindowFields::ALL.without(WindowFields::M2 | WindowFields::CHANGES);
        !self.is_lean || lean.contains(fields)
    }
}

/// The listed buckets of all levels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    raw: BTreeSet<Bucket>,
    overlays: BTreeSet<Bucket>,
    /// With the hours of which no windows hold what they have.
    remnants: BTreeMap<Bucket, BTreeSet<BucketStart>>,
    /// No set is empty.
    rolled: BTreeMap<Resolution, BTreeSet<Bucket>>,
    facts: BTreeMap<Bucket, RolledBucket>,
    sizes: LevelSizes,
    left_out: LeftOut,
}

impl Listed {
    pub(crate) fn new(
        raw: impl IntoIterator<Item = Bucket>,
        rolled: impl IntoIterator<Item = (Bucket, RolledBucket)>,
    ) -> Self {
        let mut listed = Self::default();
        for bucket in raw {
            listed.insert(bucket);
        }
        for (bucket, facts) in rolled {
            listed.insert_rolled(bucket, facts);
        }
        listed
    }

    pub(crate) fn raw(&self) -> &BTreeSet<Bucket> {
        &self.raw
    }

    /// Raw samples that wait to be merged into windows whose own samples are gone.
    pub(crate) fn overlays(&self) -> &BTreeSet<Bucket> {
        &self.overlays
    }

    /// The overlays that have something of a window.
    pub(crate) fn overlays_in(&self, window: Bucket) -> Vec<Bucket> {
        list::in_range(&self.overlays, window.start_ms(), window.end_ms() - 1)
    }

    /// Samples of series that are kept for longer than the others.
    pub(crate) fn remnants(&self) -> impl Iterator<Item = Bucket> {
        self.remnants.keys().copied()
    }

    /// The remnants that have something of a range of time, both ends included.
    pub(crate) fn remnants_in(&self, start_ms: i64, end_ms: i64) -> impl Iterator<Item = Bucket> {
        let has_some = move |b: &Bucket| b.start_ms() <= end_ms && b.end_ms() > start_ms;
        self.remnants().filter(has_some)
    }

    /// Whether what a remnant has of some hours is in no windows.
    pub(crate) fn is_alone(&self, remnant: Bucket) -> bool {
        let alone = self.remnants.get(&remnant);
        alone.is_some_and(|hours| !hours.is_empty())
    }

    /// Says of which hours no windows hold what a remnant has.
    pub(crate) fn set_alone(&mut self, remnant: Bucket, hours: BTreeSet<BucketStart>) {
        if let Some(known) = self.remnants.get_mut(&remnant) {
            *known = hours;
        }
    }

    /// The remnants of which some hours are in no windows any more once some buckets have gone,
    /// with all such hours of them.
    pub(crate) fn left_alone(&self, going: &[Bucket]) -> Vec<(Bucket, BTreeSet<BucketStart>)> {
        let windows = going
            .iter()
            .filter(|bucket| self.facts.contains_key(bucket));
        let windows: BTreeSet<Bucket> = windows.copied().collect();
        let mut left_alone = Vec::new();
        for (remnant, known) in &self.remnants {
            let inside = windows.iter().filter(|bucket| bucket.overlaps(*remnant));
            let hours = inside.flat_map(|bucket| bucket.each_hour());
            let hours = hours.filter(|hour| {
                let is_going = |bucket: Bucket| windows.contains(&bucket);
                remnant.contains(hour.start_ms()) && self.rolled_around(*hour).all(is_going)
            });
            let all: BTreeSet<BucketStart> = hours.chain(known.iter().copied()).collect();
            if all.len() > known.len() {
                left_alone.push((*remnant, all));
            }
        }
        left_alone
    }

    /// The hours of raw buckets that no windows hold.
    pub(crate) fn hours_without_windows(&self, raw: &[Bucket]) -> BTreeSet<BucketStart> {
        let hours = raw.iter().flat_map(|bucket| bucket.each_hour());
        hours
            .filter(|hour| self.rolled_around(*hour).next().is_none())
            .collect()
    }

    /// Whether a remnant keeps a level from being whole in a window: nothing is made of raw samples
    /// in its time any more.
    fn is_cut_by_remnant(&self, resolution: Resolution, window: Bucket) -> bool {
        let (start_ms, end_ms) = (window.start_ms(), window.end_ms());
        self.remnants_in(start_ms, end_ms - 1).any(|remnant| {
            let level = self
                .rolled
                .get(&resolution)
                .filter(|_| !resolution.is_raw());
            let Some(level) = level else {
                return true;
            };
            // What lies there without windows, and what came there since.
            let mut alone = self.remnants[&remnant].range(window.hours());
            let first_ms = start_ms.max(remnant.start_ms());
            let last_ms = end_ms.min(remnant.end_ms()) - 1;
            let raw = list::in_range(&self.raw, first_ms, last_ms).into_iter();
            let mut hours = raw.flat_map(|bucket| bucket.each_hour());
            alone.next().is_some()
                || hours.any(|hour| {
                    let is_within = (first_ms..=last_ms).contains(&hour.start_ms());
                    is_within && list::covering(level, Bucket::hour(hour)).is_none()
                })
        })
    }

    /// The buckets of windows whose sources are gone, smallest first.
    pub(crate) fn gone(&self) -> impl Iterator<Item = Bucket> {
        let gone = self.facts.iter().filter(|(_, facts)| facts.sources_gone);
        gone.map(|(bucket, _)| *bucket)
    }

    /// Time that takes no samples because its own are gone. Where late ones are merged it takes
    /// some, except where a raw bucket of other time lies in it, too: they would get into that one.
    pub(crate) fn closed_time(&self, merges: bool) -> Vec<Range<i64>> {
        let gone = self.gone().map(|gone| gone.start_ms()..gone.end_ms());
        if !merges {
            return gone.collect();
        }
        let common = gone.flat_map(|gone| {
            let raw = list::in_range(&self.raw, gone.start, gone.end - 1).into_iter();
            raw.map(move |raw| gone.start.max(raw.start_ms())..gone.end.min(raw.end_ms()))
        });
        common.collect()
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

    /// The buckets of a level that have something of a window.
    pub(crate) fn level_in(&self, resolution: Resolution, window: Bucket) -> Vec<Bucket> {
        let level = self.level(resolution);
        level.map_or_else(Vec::new, |level| {
            list::in_range(level, window.start_ms(), window.end_ms() - 1)
        })
    }

    /// The levels that there are, finest first.
    pub(crate) fn resolutions(&self) -> impl Iterator<Item = Resolution> {
        let rolled = self.rolled.keys().copied();
        std::iter::once(Resolution::RAW).chain(rolled)
    }

    pub(crate) fn sizes(&self) -> &LevelSizes {
        &self.sizes
    }

    /// What is known of a bucket of windows that is listed.
    pub(crate) fn facts(&self, bucket: Bucket) -> Option<&RolledBucket> {
        self.facts.get(&bucket)
    }

    pub(crate) fn facts_mut(&mut self, bucket: Bucket) -> Option<&mut RolledBucket> {
        self.facts.get_mut(&bucket)
    }

    /// The buckets of windows, with what is known of them.
    pub(crate) fn all_rolled(&self) -> impl Iterator<Item = (Bucket, &RolledBucket)> {
        self.facts.iter().map(|(bucket, facts)| (*bucket, facts))
    }

    /// Whether hours of a bucket of windows are out of date, or series of it.
    pub(crate) fn is_dirty(&self, bucket: Bucket) -> bool {
        let facts = self.facts(bucket);
        facts.is_some_and(|facts| !facts.dirty.is_empty()) || self.is_incomplete(bucket)
    }

    /// What levels leave out from now on.
    pub(crate) fn set_policy(&mut self, policy: Option<&RetentionPolicy>) {
        self.left_out.set_policy(policy);
    }

    /// The same buckets, with the policy of others.
    pub(crate) fn under_policy_of(self, others: &Self) -> Self {
        Self {
            left_out: others.left_out.clone(),
            ..self
        }
    }

    pub(crate) fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// The series that a bucket does not have. One of samples has all.
    fn left_out_of(&self, bucket: Bucket) -> &Groups {
        let Some(facts) = self.facts(bucket) else {
            return left_out::NOTHING;
        };
        let assumed = || self.left_out.assumed(facts.resolution);
        facts.left_out.as_ref().unwrap_or_else(assumed)
    }

    /// Those of them that its level should have.
    fn lacks(&self, bucket: Bucket) -> impl Iterator<Item = u64> {
        let facts = self.facts(bucket);
        let wanted = facts.map_or(left_out::NOTHING, |f| self.left_out.of(f.resolution));
        self.left_out_of(bucket).difference(wanted).copied()
    }

    /// Whether something of these stands in for finer levels. What is made of them does the same.
    pub(crate) fn stand_in(&self, sources: &[Bucket]) -> bool {
        let mut facts = sources.iter().filter_map(|source| self.facts(*source));
        facts.any(|facts| facts.stands_in)
    }

    /// Whether these may have late samples of series that they say they have left out. Which ones
    /// is not known, so nothing is left out of what is made of them: no level has a sample that a
    /// coarser one lacks without saying so.
    pub(crate) fn pass_all_on(&self, windows: &[Bucket]) -> bool {
        let mut all = windows.iter();
        self.stand_in(windows) || all.any(|bucket| self.lacks(*bucket).next().is_some())
    }

    /// What a bucket of windows does not have that is made of others now.
    pub(crate) fn made_without(&self, resolution: Resolution, sources: &[Bucket]) -> Groups {
        if self.pass_all_on(sources) {
            let left_out = sources.iter().flat_map(|source| self.left_out_of(*source));
            return left_out.copied().collect();
        }
        let lacking = sources.iter().flat_map(|source| self.lacks(*source));
        let own = self.left_out.of(resolution).iter().copied();
        own.chain(lacking).collect()
    }

    /// Whether a bucket of windows lacks series that it would have if it were made again. Where the
    /// policy does not name its level it is not.
    pub(crate) fn is_incomplete(&self, bucket: Bucket) -> bool {
        let facts = self.facts(bucket).filter(|facts| !facts.sources_gone);
        let facts = facts.filter(|facts| self.left_out.is_named(facts.resolution));
        let Some(facts) = facts.filter(|_| self.lacks(bucket).next().is_some()) else {
            return false;
        };
        let sources = self.level_in(facts.source, bucket);
        let made = self.made_without(facts.resolution, &sources);
        self.lacks(bucket).any(|group| !made.contains(&group))
    }

    /// Whether a bucket has all series of a finer one, as far as its level should have them.
    pub(crate) fn has_series_of(&self, bucket: Bucket, finer: Bucket) -> bool {
        let absent = self.left_out_of(finer);
        self.lacks(bucket).all(|group| absent.contains(&group))
    }

    /// Whether nothing of a window has gone from a level, and it was a level when something could
    /// go. Otherwise what it has, or gets, is not all that there was.
    pub(crate) fn is_whole(&self, resolution: Resolution, window: Bucket) -> bool {
        if self.is_cut_by_remnant(resolution, window) {
            return false;
        }
        let coarser = self
            .rolled
            .range(resolution..)
            .skip_while(|(level, _)| **level == resolution);
        let (start_ms, last_ms) = (window.start_ms(), window.end_ms() - 1);
        let mut around = coarser.flat_map(|(_, level)| list::in_range(level, start_ms, last_ms));
        !around.any(|bucket| {
            let facts = self.facts(bucket).filter(|facts| facts.sources_gone);
            facts.is_some_and(|facts| {
                facts.source >= resolution || self.level_in(resolution, bucket).is_empty()
            })
        })
    }

    /// What is known of a bucket that holds the windows of others, which are all that there is of
    /// its time and do not change any more. Says why it cannot be made of them.
    pub(crate) fn coarsened(
        &self,
        target: Bucket,
        parts: &[Bucket],
    ) -> Result<RolledBucket, String> {
        let facts = parts.iter().filter_map(|part| self.facts(*part));
        let facts: Vec<&RolledBucket> = facts.collect();
        let Some(first) = facts.first().filter(|_| facts.len() == parts.len()) else {
            return Err(format!("not all parts of {target} are listed"));
        };
        if self.level_in(first.resolution, target) != parts {
            return Err(format!(
                "there are other buckets in {target} than its parts"
            ));
        }
        // Time without a bucket is open to samples, and would not be any more.
        let covered = parts.windows(2).all(|p| p[0].end_ms() == p[1].start_ms());
        let ends = (parts[0].start_ms(), parts[parts.len() - 1].end_ms());
        if !covered || ends != (target.start_ms(), target.end_ms()) {
            return Err(format!("{target} is not covered by its parts"));
        }
        if !facts
            .iter()
            .all(|facts| facts.sources_gone && facts.dirty.is_empty())
        {
            return Err(format!("parts of {target} may be made again"));
        }
        // Which fields there are is one answer for a bucket.
        if !facts.iter().all(|facts| facts.is_lean == first.is_lean) {
            return Err(format!("parts of {target} have different fields"));
        }
        let mut finer = self.resolutions().take_while(|r| *r < first.resolution);
        if finer.any(|finer| !self.level_in(finer, target).is_empty()) {
            return Err(format!("something finer is left of {target}"));
        }
        // Levels up to the coarsest source are gone; where it was a finer one there was no other.
        let source = facts.iter().map(|facts| facts.source).max();
        let left_out = parts.iter().flat_map(|part| self.left_out_of(*part));
        Ok(RolledBucket {
            source: source.unwrap_or(first.source),
            left_out: Some(left_out.copied().collect()),
            stands_in: self.stand_in(parts),
            ..(*first).clone()
        })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Bucket> {
        let rolled = self.facts.keys();
        let raw = self.raw.iter().chain(&self.overlays);
        raw.chain(self.remnants.keys()).chain(rolled).copied()
    }

    pub(crate) fn contains(&self, bucket: Bucket) -> bool {
        self.holds_samples(bucket) || self.facts.contains_key(&bucket)
    }

    /// Whether a bucket holds samples as they came.
    pub(crate) fn holds_samples(&self, bucket: Bucket) -> bool {
        let is_raw = self.raw.contains(&bucket) || self.overlays.contains(&bucket);
        is_raw || self.remnants.contains_key(&bucket)
    }

    /// A bucket of raw samples. Its size says whether it is a remnant.
    pub(crate) fn insert(&mut self, bucket: Bucket) {
        if ladder::is_remnant(bucket.size) {
            self.remnants.insert(bucket, bucket.each_hour().collect());
        } else {
            self.raw.insert(bucket);
        }
    }

    pub(crate) fn insert_overlay(&mut self, bucket: Bucket) {
        self.raw.remove(&bucket);
        self.overlays.insert(bucket);
    }

    pub(crate) fn insert_rolled(&mut self, bucket: Bucket, facts: RolledBucket) {
        self.sizes.0.insert(bucket.size, facts.resolution);
        self.rolled
            .entry(facts.resolution)
            .or_default()
            .insert(bucket);
        self.facts.insert(bucket, facts);
    }

    pub(crate) fn remove(&mut self, bucket: Bucket) {
        self.raw.remove(&bucket);
        self.overlays.remove(&bucket);
        self.remnants.remove(&bucket);
        if self.facts.remove(&bucket).is_none() {
            return;
        }
        for set in self.rolled.values_mut() {
            set.remove(&bucket);
        }
        self.rolled.retain(|_, set| !set.is_empty());
        if self.facts.keys().all(|other| other.size != bucket.size) {
            self.sizes.0.remove(&bucket.size);
        }
    }

    /// The same windows and remnants beside other raw buckets, some of which are known to be
    /// overlays.
    pub(crate) fn with_raw(&self, raw: BTreeSet<Bucket>) -> Self {
        let rolled = self.facts.clone();
        let overlays: Vec<Bucket> = raw.intersection(&self.overlays).copied().collect();
        let mut listed = Self::new(raw, rolled);
        listed.remnants.clone_from(&self.remnants);
        listed.left_out.clone_from(&self.left_out);
        for overlay in overlays {
            listed.insert_overlay(overlay);
        }
        listed
    }

    /// The rolled buckets that hold an hour, finest level first.
    pub(crate) fn rolled_around(&self, hour: BucketStart) -> impl Iterator<Item = Bucket> {
        let around = move |set: &BTreeSet<Bucket>| list::covering(set, Bucket::hour(hour));
        self.rolled.values().filter_map(around)
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::Matcher;
    use icecore_model::retention::{Override, Retention};

    use super::*;

    fn bucket(exponent: u8, hour: i64) -> Bucket {
        let size = BucketSize::from_exponent(exponent).unwrap();
        let start = size.bucket_of(hour * icecore_model::HOUR_MS).unwrap();
        Bucket { size, start }
    }

    fn rolled(resolution: Resolution, source: Resolution, sources_gone: bool) -> RolledBucket {
        RolledBucket {
            resolution,
            source,
            sources_gone,
            is_lean: false,
            dirty: BTreeSet::new(),
            left_out: Some(Groups::new()),
            stands_in: false,
        }
    }

    const RAW: Resolution = Resolution::RAW;
    const FIVE: Resolution = Resolution::FIVE_MINUTES;
    const HOURLY: Resolution = Resolution::HOUR;

    #[test]
    fn a_size_belongs_to_a_resolution_for_as_long_as_it_is_used() {
        let (five, hourly) = (bucket(6, 0), bucket(8, 0));
        let mut listed = Listed::new([bucket(5, 0)], [(five, rolled(FIVE, RAW, false))]);
        assert_eq!(listed.sizes().resolution(five.size), Some(FIVE));
        assert_eq!(listed.sizes().target(FIVE), Some(five.size));
        assert_eq!(listed.sizes().target(HOURLY), Some(hourly.size));
        listed.remove(five);
        assert_eq!(listed.sizes().resolution(five.size), None);
        assert!(listed.rolled().is_empty());
        assert_eq!(listed.all().collect::<Vec<_>>(), [bucket(5, 0)]);
    }

    #[test]
    fn a_larger_size_is_taken_where_nobody_needs_it() {
        let hourly = bucket(8, 0);
        let listed = Listed::new([], [(hourly, rolled(HOURLY, RAW, true))]);
        let four = Resolution::from_name("4h").unwrap();
        let larger = |levels: &[Resolution]| {
            let larger = listed.sizes().larger(HOURLY, levels.iter().copied());
            larger.map(|larger| larger.size.exponent())
        };
        assert_eq!(larger(&[RAW, FIVE, HOURLY]), Some(11));
        assert_eq!(larger(&[RAW, HOURLY, four]), None, "windows of 4 h need it");
        assert_eq!(listed.sizes().larger(FIVE, [RAW, FIVE, HOURLY]), None);
        let large = (bucket(11, 0), rolled(HOURLY, RAW, true));
        let listed = Listed::new([], [large]);
        assert_eq!(listed.sizes().target(HOURLY), Some(hourly.size));
        assert!(listed.sizes().larger(HOURLY, [RAW, HOURLY]).is_some());
    }

    #[test]
    fn parts_that_agree_become_one() {
        let parts: Vec<Bucket> = (0..8).map(|at| bucket(8, at * 128)).collect();
        let target = bucket(11, 0);
        let of = |change: &dyn Fn(usize, &mut RolledBucket), raw: &[Bucket]| {
            let facts = parts.iter().enumerate().map(|(at, part)| {
                let mut facts = rolled(HOURLY, FIVE, true);
                change(at, &mut facts);
                (*part, facts)
            });
            Listed::new(raw.iter().copied(), facts)
        };
        let same = of(
            &|at, facts| facts.source = [RAW, FIVE][at / 7],
            &[bucket(1, 1024)],
        );
        assert_eq!(
            same.coarsened(target, &parts),
            Ok(rolled(HOURLY, FIVE, true))
        );
        assert!(same.coarsened(target, &parts[1..]).is_err());
        let mut hole = same.clone();
        hole.remove(parts[3]);
        let left: Vec<Bucket> = hole.all_rolled().map(|(bucket, _)| bucket).collect();
        assert!(
            hole.coarsened(target, &left).is_err(),
            "a hole takes samples"
        );
        for different in [
            of(&|at, facts| facts.sources_gone = at != 5, &[]),
            of(&|at, facts| facts.is_lean = at == 5, &[]),
            of(&|_, _| {}, &[bucket(1, 1023)]),
        ] {
            assert!(different.coarsened(target, &parts).is_err());
        }
    }

    /// The default levels; windows of an hour, or both, do not have series of a team.
    fn policy_without(team: &str, levels: &[Resolution]) -> RetentionPolicy {
        let policy = RetentionPolicy::default_levels();
        let without = Override {
            matchers: vec![Matcher::equal("team", team)],
            retain: levels.iter().map(|r| (*r, Retention::NOT_KEPT)).collect(),
        };
        let (delay_ms, late_data) = (policy.rollup_delay_ms(), policy.late_data());
        RetentionPolicy::new(policy.levels().to_vec(), delay_ms, late_data, vec![without]).unwrap()
    }

    #[test]
    fn windows_lack_what_another_policy_left_out() {
        let (five, hourly) = (bucket(6, 0), bucket(8, 0));
        let mut listed = Listed::new(
            [bucket(5, 0)],
            [
                (five, rolled(FIVE, RAW, false)),
                (hourly, rolled(HOURLY, FIVE, false)),
            ],
        );
        listed.set_policy(Some(&policy_without("a", &[FIVE, HOURLY])));
        let left_out = listed.made_without(FIVE, &[bucket(5, 0)]);
        assert_eq!(left_out.len(), 1);
        assert_eq!(listed.made_without(HOURLY, &[five]), left_out);
        for rolled in [five, hourly] {
            listed.facts_mut(rolled).unwrap().left_out = Some(left_out.clone());
            assert!(!listed.is_dirty(rolled), "as the policy says");
        }
        // Those of an hour have to wait for what they are made of.
        let default = RetentionPolicy::default_levels();
        listed.set_policy(Some(&default));
        assert!(listed.is_incomplete(five) && !listed.is_incomplete(hourly));
        assert!(!listed.has_series_of(hourly, bucket(5, 0)));
        assert!(listed.has_series_of(hourly, five));
        let mut made = listed.clone();
        made.facts_mut(five).unwrap().left_out = Some(Groups::new());
        assert!(!made.is_incomplete(five) && made.is_incomplete(hourly));
        // What is gone does not come back, and what is made of the rest lacks it, too.
        let mut gone = listed.clone();
        gone.facts_mut(five).unwrap().sources_gone = true;
        assert!(!gone.is_incomplete(five) && !gone.is_incomplete(hourly));
        assert_eq!(gone.made_without(HOURLY, &[five]), left_out);
        // Other series. It may have late samples of those that it lacks, so nothing is left out.
        listed.set_policy(Some(&policy_without("b", &[HOURLY])));
        assert!(listed.is_incomplete(five));
        assert_eq!(listed.made_without(HOURLY, &[five]), left_out);
        // Where it lacks none, they are.
        listed.facts_mut(five).unwrap().left_out = Some(Groups::new());
        assert_eq!(listed.made_without(HOURLY, &[five]).len(), 1);
        listed.facts_mut(five).unwrap().left_out = Some(left_out);
        // Nobody makes windows again that no policy wants.
        listed.set_policy(None);
        assert!(!listed.is_dirty(five) && !listed.has_series_of(five, bucket(5, 0)));
    }

    #[test]
    fn a_larger_bucket_lacks_what_its_parts_lack() {
        let parts: Vec<Bucket> = (0..8).map(|at| bucket(8, at * 128)).collect();
        let facts = parts.iter().enumerate().map(|(at, part)| {
            let mut facts = rolled(HOURLY, FIVE, true);
            facts.left_out = Some(Groups::from([at as u64 / 4]));
            (*part, facts)
        });
        let mut listed = Listed::new([], facts);
        let left_out = |listed: &Listed| {
            let target = listed.coarsened(bucket(11, 0), &parts).unwrap();
            target.left_out.unwrap()
        };
        assert_eq!(left_out(&listed), Groups::from([0, 1]));
        // One that does not say it has left out what the first policy said.
        listed.facts_mut(parts[7]).unwrap().left_out = None;
        listed.set_policy(Some(&policy_without("a", &[HOURLY])));
        assert_eq!(left_out(&listed).len(), 3);
    }

    #[test]
    fn a_level_is_whole_until_something_of_it_has_gone() {
        let (five, hourly) = (bucket(6, 32), bucket(8, 0));
        let of = |five_gone, hourly_source, hourly_gone| {
            let hourly_facts = rolled(HOURLY, hourly_source, hourly_gone);
            Listed::new(
                [],
                [(five, rolled(FIVE, RAW, five_gone)), (hourly, hourly_facts)],
            )
        };
        let whole = |listed: &Listed, hour| {
            [RAW, FIVE, HOURLY].map(|level| listed.is_whole(level, bucket(1, hour)))
        };
        assert_eq!(whole(&of(false, FIVE, false), 40), [true, true, true]);
        // Raw samples of 5m have gone: only of its time.
        assert_eq!(whole(&of(true, FIVE, false), 40), [false, true, true]);
        assert_eq!(whole(&of(true, FIVE, false), 64), [true, true, true]);
        // Windows of 5m went where raw had gone before.
        assert_eq!(whole(&of(true, FIVE, true), 100), [false, false, true]);
        // Made of raw, beside 5m.
        assert_eq!(whole(&of(false, RAW, true), 100), [false, true, true]);
        // A level that was added later.
        let one_minute = Resolution::from_name("1m").unwrap();
        assert!(!of(false, RAW, true).is_whole(one_minute, bucket(1, 100)));
        assert!(of(false, RAW, false).is_whole(one_minute, bucket(1, 100)));
    }
}
