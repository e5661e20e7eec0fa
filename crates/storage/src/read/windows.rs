//! Time whose samples were rolled up: windows, or the samples that are left of them.
//!
//! Holds always:
//! - Each part of the time comes from the level that the plan names: raw samples of rolled parts,
//!   and windows of raw parts, are left out. Samples that came late are in the windows.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::rollup::{
    HistogramWindow, JoinedWindows, Segment, WindowColumns, WindowFields, WindowRoom,
};
use icecore_model::{FloatColumns, Levels, RolledSamples, RolledTime, SeriesSamples, TimeColumn};
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::key;
use icecore_records::rollup_series::Decoder;
use rayon::prelude::*;

use super::chunks::by_bucket;
use super::late::LateSamples;
use super::left_samples;
use super::postings::BucketView;
use super::resolve::{CONCURRENT_BUCKETS, Resolution, ResolvedSeries};
use crate::cache::WindowRecords;
use crate::error::Result;
use crate::read::Reader;
use crate::slate::fetch::{fetch, join_bounded};
use crate::stored::{self, is_lost};

/// The records of windows of a batch.
struct BatchRecords {
    /// Where it begins in [`Resolution::stored`].
    first: usize,
    /// By place; nothing where there are samples.
    records: Vec<WindowRecords>,
}

/// The windows of a series, one list for each rolled segment; no lists of histograms where there is
/// none.
pub(super) struct LevelWindows {
    pub(super) floats: Vec<WindowColumns>,
    pub(super) histograms: Vec<Vec<HistogramWindow>>,
}

/// What lasts from batch to batch of a selection.
pub(super) struct WindowMemory {
    /// Where the windows of a series begin, by rolled segment. Series mostly have windows at the
    /// same times, so those of the last series are what the next ones are compared with.
    starts: Vec<TimeColumn>,
    room: WindowRoom,
}

impl WindowMemory {
    pub(super) fn new() -> Self {
        Self {
            starts: Vec::new(),
            room: WindowRoom::new(),
        }
    }
}

/// Completes the series of a batch, which have what raw buckets and the head have, from the first
/// to the last time of the selection.
pub(super) async fn complete(
    reader: &Arc<Reader>,
    resolved: &Arc<Resolution>,
    batch: Range<usize>,
    series: Vec<SeriesSamples>,
    (rolled, range_ms): (RolledTime, (i64, i64)),
    memory: &mut WindowMemory,
) -> Result<Vec<SeriesSamples>> {
    if resolved.levels.are_raw(range_ms.0) {
        return Ok(series);
    }
    let places = super::select::places_of(&resolved.series[batch.clone()]);
    let records = Arc::new(read_records(reader, resolved, places).await?);
    let resolved = Arc::clone(resolved);
    let (known, room) = (std::mem::take(&mut memory.starts), memory.room.share());
    let complete = move || {
        let of_batch = resolved.series[batch].par_iter().zip(series);
        let assembler = || WindowAssembler::new(&known, &room);
        of_batch
            .map_init(assembler, |assembler, (places, series)| {
                let of = resolved
                    .levels
                    .of(&series.labels, resolved.buckets_of(places));
                let (levels, late_time) = (&of.plan.levels, &of.plan.late);
                let mut series = since(series, of.since_ms);
                let late = LateSamples::take(&mut series, late_time);
                let (wanted, stored) = (fields(rolled), (&*resolved, &*records));
                let is_merged = !late.is_empty() && rolled != RolledTime::Samples;
                // A window is merged with all that it has.
                let read = if is_merged { WindowFields::ALL } else { wanted };
                let mut windows = assembler.windows_of(stored, levels, places, read)?;
                if is_merged {
                    late.merge_into(levels.segments.iter(), &mut windows, wanted);
                }
                let time = (rolled, range_ms, room.share());
                Ok(with_windows(levels, (series, late), windows, time))
            })
            .collect::<Result<_>>()
    };
    let series: Vec<SeriesSamples> = reader.context.pool.run(complete).await??;
    let last = series
        .iter()
        .rev()
        .find_map(|series| series.rolled.as_ref());
    if let Some(last) = last {
        memory.starts = last.windows.iter().map(|of| of.starts.clone()).collect();
    }
    Ok(series)
}

fn fields(rolled: RolledTime) -> WindowFields {
    match rolled {
        RolledTime::Samples => WindowFields::COUNTS | WindowFields::FIRST | WindowFields::LAST,
        RolledTime::Windows(_, fields) => fields,
    }
}

/// From the cache, else from the store.
async fn read_records(
    reader: &Reader,
    resolved: &Resolution,
    places: Range<usize>,
) -> Result<BatchRecords> {
    let is_rolled = |at: usize| {
        let bucket = resolved.stored[places.start + at].bucket;
        resolved.buckets[bucket as usize].1.resolution_ms > 0
    };
    let first = places.start;
    let id_at = |offset: usize| resolved.stored[first + offset].id.0;
    let mut records = vec![WindowRecords::default(); places.len()];
    let mut reads = Vec::new();
    for (bucket, offsets) in by_bucket(resolved, &places, is_rolled) {
        let known = &resolved.buckets[bucket].0.cache.windows;
        let (mut missing, mut next) = (Vec::new(), offsets.iter());
        known.get_many(offsets.iter().map(|at| id_at(*at)), |found| {
            match (next.next(), found) {
                (Some(at), Some(found)) => records[*at] = found.clone(),
                (Some(at), None) => missing.push(*at),
                (None, _) => {}
            }
        });
        if !missing.is_empty() {
            reads.push(read_missing(
                reader,
                &resolved.buckets[bucket],
                missing,
                id_at,
            ));
        }
    }
    let read_any = !reads.is_empty();
    for read in join_bounded(reads, CONCURRENT_BUCKETS).await? {
        for (at, found) in read {
            records[at] = found;
        }
    }
    if read_any {
        reader.buckets.cache().make_room();
    }
    Ok(BatchRecords { first, records })
}

/// Reads the records of some places of a bucket, and keeps them: next time they are not looked up.
async fn read_missing(
    reader: &Reader,
    (from, meta): &(BucketView, BucketMeta),
    offsets: Vec<usize>,
    id_at: impl Fn(usize) -> u32,
) -> Result<Vec<(usize, WindowRecords)>> {
    let ids: Vec<u32> = offsets.iter().map(|at| id_at(*at)).collect();
    let key_of = |id| key::rollup_series(from.bucket, id);
    let gets = reader.context.options.read.concurrent_gets;
    // Those of histograms lie right behind.
    let has_histograms = meta.rollup.histogram_windows > 0;
    let mut by_id: HashMap<u32, WindowRecords> = HashMap::with_capacity(ids.len());
    for record in fetch(&from.view, &ids, key_of, has_histograms, gets).await? {
        let found = by_id.entry(record.id.0).or_default();
        // A copy: what was read is a part of a block, which it would keep.
        let value = Bytes::copy_from_slice(&record.value);
        match record.suffix {
            0 => found.floats = value,
            HISTOGRAMS_SUFFIX => found.histograms = value,
            // Written by a newer version; nothing that this one needs.
            _ => {}
        }
    }
    let found = offsets.into_iter().zip(ids);
    let found: Vec<_> = found
        .map(|(at, id)| (at, id, by_id.remove(&id).unwrap_or_default()))
        .collect();
    let kept = found.iter().map(|(_, id, records)| (*id, records.clone()));
    from.cache.windows.insert_many(kept);
    Ok(found
        .into_iter()
        .map(|(at, _, records)| (at, records))
        .collect())
}

/// The byte behind a series' key under which its windows of histograms lie.
const HISTOGRAMS_SUFFIX: u8 = 1;

/// Puts the windows of a series together. Kept from series to series, because they mostly have
/// windows at the same times.
struct WindowAssembler<'m> {
    decoder: Decoder,
    /// Those of the last series.
    starts: Vec<TimeColumn>,
    /// Lists of starts that turned out to be known.
    unused: Vec<Vec<i64>>,
    room: &'m WindowRoom,
}

impl<'m> WindowAssembler<'m> {
    fn new(starts: &[TimeColumn], room: &'m WindowRoom) -> Self {
        Self {
            decoder: Decoder::default(),
            starts: starts.to_vec(),
            unused: Vec::new(),
            room,
        }
    }

    fn windows_of(
        &mut self,
        (resolved, records): (&Resolution, &BatchRecords),
        levels: &Levels,
        series: &ResolvedSeries,
        fields: WindowFields,
    ) -> Result<LevelWindows> {
        let rolled = levels.segments.iter();
        let rolled: Vec<_> = rolled.filter(|s| !s.resolution.is_raw()).collect();
        self.starts.resize(rolled.len(), TimeColumn::default());
        let like = self.starts.iter();
        let (room, unused) = (self.room, &mut self.unused);
        let mut floats: Vec<_> = like
            .map(|like| {
                let mut starts = unused.pop().unwrap_or_default();
                starts.clear();
                starts.reserve_exact(like.len());
                JoinedWindows::within(room.take(), starts)
            })
            .collect();
        let mut histograms = vec![Vec::new(); rolled.len()];
        for place in series.stored.start as usize..series.stored.end as usize {
            let stored = &records.records[place - records.first];
            if stored.floats.is_empty() && stored.histograms.is_empty() {
                continue;
            }
            let at = resolved.stored[place];
            let (from, meta) = &resolved.buckets[at.bucket as usize];
            // A deletion takes whole windows.
            let lost = from.lost_by(at.id);
            let is_left = |start_ms: i64| !is_lost(&lost, start_ms);
            for (level, segment) in rolled.iter().enumerate() {
                let same_level = segment.resolution.ms() == i64::from(meta.resolution_ms);
                let start_ms = segment.start_ms.max(from.bucket.start_ms());
                let end_ms = segment.end_ms.min(from.bucket.end_ms());
                if !same_level || start_ms >= end_ms {
                    continue;
                }
                let (bucket, id, range) = (from.bucket, at.id, start_ms..end_ms);
                if !stored.floats.is_empty() {
                    let wanted = (fields, range.clone());
                    let decoder = (&mut self.decoder, &stored.floats[..]);
                    let mut apart = JoinedWindows::default();
                    let out = if lost.is_empty() {
                        &mut floats[level]
                    } else {
                        &mut apart
                    };
                    stored::append_windows(bucket, id, wanted, decoder, out)?;
                    if !lost.is_empty() {
                        let mut left = apart.finish(&TimeColumn::default());
                        left.retain(is_left);
                        floats[level].append(left);
                    }
                }
                if !stored.histograms.is_empty() {
                    let (value, fields) = (&stored.histograms, fields.of_histograms());
                    let mut found = stored::histogram_windows_in(bucket, id, value, fields, range)?;
                    found.retain(|window| is_left(window.start_ms));
                    histograms[level].append(&mut found);
                }
            }
        }
        let joined = floats.into_iter().zip(&mut self.starts);
        let unused = &mut self.unused;
        let floats = joined.map(|(windows, like)| {
            let (windows, starts) = windows.finish_beside(like);
            unused.push(starts);
            like.clone_from(&windows.starts);
            windows
        });
        let floats = floats.collect();
        if histograms.iter().all(Vec::is_empty) {
            histograms.clear();
        }
        Ok(LevelWindows { floats, histograms })
    }
}

fn with_windows(
    levels: &Arc<Levels>,
    (mut series, late): (SeriesSamples, LateSamples),
    windows: LevelWindows,
    (rolled, range_ms, room): (RolledTime, (i64, i64), WindowRoom),
) -> SeriesSamples {
    keep_raw(levels, &mut series);
    if levels.segments.is_empty() {
        return series;
    }
    let rolled_samples = RolledSamples {
        levels: Arc::clone(levels),
        windows: windows.floats,
        histograms: windows.histograms,
        room,
    };
    match rolled {
        RolledTime::Windows(..) => series.rolled = Some(rolled_samples),
        RolledTime::Samples => {
            late.rejoin(&mut series);
            left_samples::splice(&mut series, &rolled_samples, range_ms);
        }
    }
    series
}

/// Leaves out raw samples that are too old.
fn since(mut series: SeriesSamples, since_ms: i64) -> SeriesSamples {
    let times = &series.floats.timestamps;
    let first = times.partition_point(|time| *time < since_ms);
    if first > 0 {
        let timestamps = times.slice(first..times.len());
        let values = series.floats.values.split_off(first);
        series.floats = FloatColumns { timestamps, values };
    }
    let is_kept = |time: i64| time >= since_ms;
    series
        .histograms
        .retain(|sample| is_kept(sample.timestamp_ms));
    series.start_timestamps.retain(|(time, _)| is_kept(*time));
    series
}

/// Leaves out what does not lie in a raw segment.
fn keep_raw(levels: &Levels, series: &mut SeriesSamples) {
    let is_raw = |time: i64| {
        let at = levels.segments.partition_point(|s| s.end_ms <= time);
        levels
            .segments
            .get(at)
            .is_none_or(|s| s.resolution.is_raw())
    };
    let times = &series.floats.timestamps;
    let parts = raw_parts(&levels.segments, times);
    match &parts[..] {
        [all] if *all == (0..times.len()) => {}
        [one] => {
            let values = series.floats.values[one.clone()].to_vec();
            series.floats = FloatColumns {
                timestamps: times.slice(one.clone()),
                values,
            };
        }
        parts => {
            let times = parts.iter().flat_map(|part| &times[part.clone()]).copied();
            let values = parts
                .iter()
                .flat_map(|part| &series.floats.values[part.clone()]);
            series.floats = FloatColumns {
                timestamps: times.collect(),
                values: values.copied().collect(),
            };
        }
    }
    series
        .histograms
        .retain(|sample| is_raw(sample.timestamp_ms));
    series.start_timestamps.retain(|(time, _)| is_raw(*time));
}

/// The samples that lie in raw segments, or outside of all.
fn raw_parts(segments: &[Segment], times: &[i64]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut from = 0;
    for segment in segments.iter().filter(|s| !s.resolution.is_raw()) {
        let start = times.partition_point(|time| *time < segment.start_ms);
        if from < start {
            parts.push(from..start);
        }
        from = times
            .partition_point(|time| *time < segment.end_ms)
            .max(from);
    }
    if from < times.len() || parts.is_empty() {
        parts.push(from..times.len());
    }
    parts
}
