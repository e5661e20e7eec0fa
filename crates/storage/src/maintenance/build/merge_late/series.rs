//! What becomes of some series: their late samples, rolled up, in the windows of each level, and as
//! they are in the remnants that have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::Labels;
use icecore_model::retention::{RetentionClass, RetentionPolicy};
use icecore_model::rollup::{
    Edge, HistogramEdge, HistogramWindow, Resolution, SeriesWindows, Window,
};
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::{Bucket, SeriesId, forward_index, key};
use rayon::prelude::*;
use roaring::RoaringBitmap;

use super::super::batches::{SeriesRecords, SourceRecord};
use super::super::series::{EncodedSeries, SampleCounts, encode_series, unite};
use super::super::windows::{CountedWindows, RollUp, samples_in, stored_windows};
use crate::buckets::record_kind::RecordKind;
use crate::buckets::time_columns::TimesPlacement;
use crate::error::{Error, Result};
use crate::stored::SharedColumns;

/// A bucket of windows that overlays are merged into.
#[derive(Clone)]
pub(super) struct Target {
    /// Its place among the sources.
    pub(super) at: usize,
    roll_up: RollUp,
    /// As it was last written.
    pub(super) meta: BucketMeta,
    /// Whether it has got new series. Those of all batches are in label order: one run.
    gave_ids: bool,
}

impl Target {
    pub(super) fn new(at: usize, bucket: Bucket, resolution: Resolution, meta: BucketMeta) -> Self {
        let roll_up = RollUp {
            target: bucket,
            resolution,
            lean: meta.rollup.is_lean,
            left_out: 0,
            coarsens: false,
        };
        Self {
            at,
            roll_up,
            meta,
            gave_ids: false,
        }
    }

    pub(super) fn bucket(&self) -> Bucket {
        self.roll_up.target
    }

    fn resolution(&self) -> Resolution {
        self.roll_up.resolution
    }

    fn new_id(&mut self) -> Result<SeriesId> {
        let id = SeriesId(self.meta.next_series_id);
        let next = id.0.checked_add(1);
        self.meta.next_series_id = next.ok_or_else(|| {
            Error::LimitReached(format!("bucket {} has 2^32 series", self.bucket()))
        })?;
        if !self.gave_ids {
            self.meta.run_starts.push(id);
            self.gave_ids = true;
        }
        Ok(id)
    }

    /// Takes note of what a series has now, and had before.
    fn count(&mut self, now: &EncodedSeries, before: Counted) {
        let meta = &mut self.meta;
        let changed = |counted: u64, now: u64, before: u64| (counted + now).saturating_sub(before);
        meta.float_samples = changed(meta.float_samples, now.floats, before.floats);
        meta.histogram_samples = changed(meta.histogram_samples, now.histograms, before.histograms);
        let rollup = &mut meta.rollup;
        rollup.windows = changed(rollup.windows, now.windows, before.windows);
        rollup.histogram_windows = changed(
            rollup.histogram_windows,
            now.histogram_windows,
            before.histogram_windows,
        );
        meta.has_histograms |= now.histogram_windows > 0;
        if let Some((first_ms, last_ms)) = now.range_ms {
            meta.min_timestamp_ms = meta.min_timestamp_ms.min(first_ms);
            meta.max_timestamp_ms = meta.max_timestamp_ms.max(last_ms);
        }
    }
}

/// A remnant that gets what came late of its series.
#[derive(Clone)]
pub(super) struct RemnantTarget {
    /// Its place among the sources.
    pub(super) at: usize,
    pub(super) bucket: Bucket,
    /// As it was last written.
    pub(super) meta: BucketMeta,
}

impl RemnantTarget {
    /// What a series has in it with what came late, which counts where both have a sample.
    fn complete(
        &self,
        id: u32,
        (older, late): (Vec<SourceRecord>, &[SourceRecord]),
        (buckets, columns): (&[Bucket], &[SharedColumns]),
    ) -> Result<Completed> {
        let of = |records| unite(buckets, columns, &SeriesRecords { id, records });
        let is_inside = |record: &&SourceRecord| self.bucket.overlaps(buckets[record.source]);
        let late = late.iter().filter(is_inside).cloned().collect();
        let kinds: Vec<RecordKind> = older.iter().map(|record| record.kind).collect();
        let (older, late) = (of(older)?, of(late)?);
        let before = older.counted();
        let united = older.under(late);
        let encoded = encode_series(self.bucket, &united, &TimesPlacement::Own)?;
        let keys = kinds
            .into_iter()
            .map(|kind| kind.key(self.bucket, SeriesId(id)));
        let is_written = |key: &Bytes| encoded.records.iter().any(|(written, _)| written == key);
        Ok(Completed {
            added: united.counted().since(before),
            gone: keys.filter(|key| !is_written(key)).collect(),
            encoded,
        })
    }

    fn count(&mut self, completed: &Completed) {
        let (meta, added) = (&mut self.meta, completed.added);
        meta.float_samples += added.floats;
        meta.histogram_samples += added.histograms;
        meta.exemplars += added.exemplars;
        meta.has_histograms |= added.histograms > 0;
        meta.has_start_timestamps |= completed.encoded.has_starts;
        if let Some((first_ms, last_ms)) = completed.encoded.range_ms {
            meta.min_timestamp_ms = meta.min_timestamp_ms.min(first_ms);
            meta.max_timestamp_ms = meta.max_timestamp_ms.max(last_ms);
        }
    }
}

/// What a series has in a remnant afterwards.
struct Completed {
    encoded: EncodedSeries,
    /// Keys of what it had of a kind of which nothing is left.
    gone: Vec<Bytes>,
    added: SampleCounts,
}

/// All that overlays are merged into.
pub(super) struct MergeTargets {
    pub(super) windows: Vec<Target>,
    pub(super) remnants: Vec<RemnantTarget>,
    pub(super) policy: Arc<RetentionPolicy>,
}

impl MergeTargets {
    /// Whether the policy keeps a class at the level of a target, or at one that is made of it.
    fn keeps(&self, class: RetentionClass, target: &Target) -> bool {
        let mut levels = self.policy.levels().iter().map(|level| level.resolution);
        let is_kept = |level| !self.policy.retain(class, level).is_not_kept();
        levels.any(|level| level >= target.resolution() && is_kept(level))
    }
}

/// Some series, with all that overlays and targets have of them.
#[derive(Default)]
pub(super) struct Chunk {
    /// In label order.
    pub(super) series: Vec<ChunkSeries>,
    /// By source.
    pub(super) columns: Vec<SharedColumns>,
}

pub(super) struct ChunkSeries {
    pub(super) records: SeriesRecords,
    /// Its id in each target that has it.
    pub(super) ids: Vec<Option<u32>>,
    /// The same in remnants.
    pub(super) in_remnants: Vec<Option<u32>>,
    /// Its forward record, if some target does not have it or classes are told apart.
    pub(super) forward: Option<Bytes>,
}

impl ChunkSeries {
    /// The overlays with late samples of it that have no place: no remnant there has it, and no
    /// level of which there are windows keeps it. Those windows would go without regard to them. Of
    /// a series that nothing keeps there are none.
    fn without_place(
        &self,
        class: RetentionClass,
        buckets: &[Bucket],
        into: &MergeTargets,
    ) -> Vec<Bucket> {
        let remnants = into.remnants.iter().zip(&self.in_remnants);
        let remnants = remnants.filter(|(_, id)| id.is_some());
        let windows = into.windows.iter();
        let windows = windows.filter(|target| into.keeps(class, target));
        let places = remnants.map(|(remnant, _)| remnant.bucket);
        let places: Vec<Bucket> = places.chain(windows.map(Target::bucket)).collect();
        let overlays = self.records.records.iter().map(|r| buckets[r.source]);
        let overlays = overlays.filter(|_| into.policy.reaches(class, Resolution::RAW));
        let is_inside = |overlay: Bucket| {
            let mut places = places.iter();
            places.any(|place| place.size >= overlay.size && place.overlaps(overlay))
        };
        overlays.filter(|overlay| !is_inside(*overlay)).collect()
    }
}

/// What is to be written in one go.
pub(super) struct Writes {
    pub(super) puts: Vec<(Bytes, Bytes)>,
    pub(super) postings: BTreeMap<Bytes, RoaringBitmap>,
    /// The records of overlays, and windows of which nothing is left.
    pub(super) deletes: Vec<Bytes>,
    pub(super) targets: Vec<Target>,
    pub(super) remnants: Vec<RemnantTarget>,
    /// Series that had something.
    pub(super) series: u64,
}

/// What a series has in a target before and afterwards.
struct Merged {
    target: usize,
    id: Option<u32>,
    /// Only finer levels keep what it gets.
    stands_in: bool,
    before: Counted,
    after: CountedWindows,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    floats: u64,
    histograms: u64,
    windows: u64,
    histogram_windows: u64,
}

impl Counted {
    fn of(windows: &SeriesWindows) -> Self {
        let SeriesWindows { floats, histograms } = windows;
        Self {
            floats: floats.iter().map(samples_in).sum(),
            histograms: histograms.iter().map(HistogramWindow::samples).sum(),
            windows: floats.len() as u64,
            histogram_windows: histograms.len() as u64,
        }
    }
}

impl Chunk {
    /// Merges the samples of the first sources, which are overlays, into windows and remnants.
    pub(super) fn merge(
        self,
        buckets: &[Bucket],
        overlays: usize,
        mut into: MergeTargets,
    ) -> Result<Writes> {
        let (series, columns) = (self.series, self.columns);
        let merged = series.into_par_iter().map(|mut series| {
            let records = std::mem::take(&mut series.records.records);
            let (late, mut stored): (Vec<_>, Vec<_>) =
                (records.into_iter()).partition(|record| record.source < overlays);
            let deletes = late.iter().map(|r| r.kind.key(buckets[r.source], r.id));
            let deletes: Vec<Bytes> = deletes.collect();
            series.records.records = late;
            let from = (buckets, &columns[..]);
            let completed = complete_series(&series, &mut stored, from, &into.remnants)?;
            let merged = merge_series(&series, stored, from, &into)?;
            Ok((series, deletes, merged, completed))
        });
        let merged: Vec<_> = merged.collect::<Result<_>>()?;
        let mut writes = Writes {
            puts: Vec::new(),
            postings: BTreeMap::new(),
            deletes: Vec::new(),
            targets: Vec::new(),
            remnants: Vec::new(),
            series: 0,
        };
        let mut targets = std::mem::take(&mut into.windows);
        let mut numbered = Vec::new();
        for (series, deletes, merged, completed) in merged {
            let mut gone = Vec::new();
            for (remnant, completed) in completed {
                into.remnants[remnant].count(&completed);
                writes.puts.extend(completed.encoded.records);
                gone.extend(completed.gone);
            }
            writes.series += u64::from(!deletes.is_empty());
            writes.deletes.extend(deletes);
            writes.deletes.extend(gone);
            for of_target in merged {
                let target = &mut targets[of_target.target];
                let id = match of_target.id {
                    Some(id) => SeriesId(id),
                    None => writes.add_series(target, &series)?,
                };
                numbered.push((id, of_target));
            }
        }
        let encoded = numbered.into_par_iter().map(|(id, merged)| {
            let encoded = targets[merged.target]
                .roll_up
                .encode_windows(id, &merged.after)?;
            Ok((encoded, merged))
        });
        let encoded: Vec<(EncodedSeries, Merged)> = encoded.collect::<Result<_>>()?;
        for (encoded, merged) in encoded {
            let target = &mut targets[merged.target];
            target.count(&encoded, merged.before);
            target.meta.rollup.stands_in |= merged.stands_in;
            let (bucket, id) = (target.bucket(), SeriesId(encoded.id));
            let gone = |kind: RecordKind, before: u64, now: u64| {
                (before > 0 && now == 0).then(|| kind.key(bucket, id))
            };
            let (before, now) = (merged.before, &encoded);
            writes
                .deletes
                .extend(gone(RecordKind::Windows, before.windows, now.windows));
            writes.deletes.extend(gone(
                RecordKind::HistogramWindows,
                before.histogram_windows,
                now.histogram_windows,
            ));
            writes.puts.extend(encoded.records);
        }
        writes.targets = targets;
        writes.remnants = into.remnants;
        Ok(writes)
    }
}

impl Writes {
    /// Adds a series to a target: its forward record and its places in the index.
    fn add_series(&mut self, target: &mut Target, series: &ChunkSeries) -> Result<SeriesId> {
        let id = target.new_id()?;
        let bucket = target.bucket();
        let forward = series.forward.clone().unwrap_or_default();
        let labels = labels_of(&forward)?;
        for (name, value) in labels.iter() {
            let key = key::inverted_index(bucket, name, value);
            self.postings.entry(key).or_default().insert(id.0);
        }
        self.puts.push((key::forward_index(bucket, id), forward));
        Ok(id)
    }
}

fn labels_of(forward: &Bytes) -> Result<Labels> {
    let decoded = forward_index::decode(forward);
    let decoded = decoded.map_err(Error::corrupt("a series of an overlay"))?;
    Ok(decoded.labels)
}

/// What a series has in each remnant that has it, with its late samples. Takes what is stored of it
/// there.
fn complete_series(
    series: &ChunkSeries,
    stored: &mut Vec<SourceRecord>,
    from: (&[Bucket], &[SharedColumns]),
    remnants: &[RemnantTarget],
) -> Result<Vec<(usize, Completed)>> {
    let late = &series.records.records;
    let mut completed = Vec::new();
    for (number, remnant) in remnants.iter().enumerate() {
        let Some(id) = series.in_remnants[number] else {
            continue;
        };
        let of_remnant = stored.extract_if(.., |record| record.source == remnant.at);
        let older: Vec<SourceRecord> = of_remnant.collect();
        if late
            .iter()
            .any(|r| remnant.bucket.overlaps(from.0[r.source]))
        {
            completed.push((number, remnant.complete(id, (older, late), from)?));
        }
    }
    Ok(completed)
}

/// What the late samples of a series, which it has alone now, make of its windows in each target.
fn merge_series(
    series: &ChunkSeries,
    windows: Vec<SourceRecord>,
    (buckets, columns): (&[Bucket], &[SharedColumns]),
    into: &MergeTargets,
) -> Result<Vec<Merged>> {
    let mut merged = Vec::new();
    if series.records.records.is_empty() {
        return Ok(merged);
    }
    let (mut of_target, mut windows) = (Vec::new(), windows);
    let class = match &series.forward {
        Some(forward) => into.policy.class_of(&labels_of(forward)?),
        None => RetentionClass::DEFAULT,
    };
    let without_place = series.without_place(class, buckets, into);
    for (number, target) in into.windows.iter().enumerate() {
        let id = series.ids[number];
        let stands_in = without_place.iter().any(|o| target.bucket().overlaps(*o));
        let late = target
            .roll_up
            .of_samples(buckets, columns, &series.records)?;
        if late.windows.is_empty() {
            continue;
        }
        of_target.clear();
        of_target.extend(windows.extract_if(.., |record| record.source == target.at));
        let mut after = stored_windows(buckets, &of_target)?;
        let before = Counted::of(&after);
        let (floats, histograms) = replaced(&after, &late.windows);
        after.merge_late(late.windows);
        merged.push(Merged {
            target: number,
            id,
            stands_in,
            before,
            after: CountedWindows {
                windows: after,
                float_samples: (before.floats + late.float_samples).saturating_sub(floats),
                histogram_samples: (before.histograms + late.histogram_samples)
                    .saturating_sub(histograms),
            },
        });
    }
    Ok(merged)
}

/// The samples at the start of windows, floats and histograms, whose place late ones take.
fn replaced(rolled: &SeriesWindows, late: &SeriesWindows) -> (u64, u64) {
    let floats = late.floats.iter().filter(|w| w.edge != Edge::None);
    let histograms = late.histograms.iter();
    let histograms = histograms.filter(|w| w.edge != HistogramEdge::None);
    let starts = floats.map(|w| w.start_ms);
    let starts: Vec<i64> = starts.chain(histograms.map(|w| w.start_ms)).collect();
    let is_replaced = |start_ms: i64| starts.contains(&start_ms);
    let has_float = |w: &&Window| matches!(w.edge, Edge::Sample(_)) && is_replaced(w.start_ms);
    let has_histogram = |w: &&HistogramWindow| {
        matches!(w.edge, HistogramEdge::Sample(_)) && is_replaced(w.start_ms)
    };
    (
        rolled.floats.iter().filter(has_float).count() as u64,
        rolled.histograms.iter().filter(has_histogram).count() as u64,
    )
}
