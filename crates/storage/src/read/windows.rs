//! Time whose samples were rolled up: windows, or the samples that are left of them.
//!
//! Holds always:
//! - Each part of the time comes from the level that the plan names: raw samples of rolled parts,
//!   and windows of raw parts, are left out. Samples that came late are in the windows.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::rollup::{HistogramWindow, Segment, WindowColumns, WindowFields};
use icecore_model::{FloatColumns, Levels, RolledSamples, RolledTime, SeriesSamples, TimeColumn};
use icecore_records::key;
use icecore_records::rollup_series::Decoder;
use rayon::prelude::*;

use super::chunks::by_bucket;
use super::late::LateSamples;
use super::left_samples;
use super::resolve::{CONCURRENT_BUCKETS, Resolution, ResolvedSeries};
use crate::error::Result;
use crate::read::Reader;
use crate::slate::fetch::{fetch, join_bounded};
use crate::stored::{self, is_lost};

/// The records of windows of a batch, by place in [`Resolution::stored`].
#[derive(Default)]
struct WindowRecords {
    floats: HashMap<usize, Bytes>,
    histograms: HashMap<usize, Bytes>,
}

/// The windows of a series, one list for each rolled segment; no lists of histograms where there is
/// none.
pub(super) struct LevelWindows {
    pub(super) floats: Vec<WindowColumns>,
    pub(super) histograms: Vec<Vec<HistogramWindow>>,
}

/// Completes the series of a batch, which have what raw buckets and the head have, from the first
/// to the last time of the selection.
pub(super) async fn complete(
    reader: &Arc<Reader>,
    resolved: &Arc<Resolution>,
    batch: Range<usize>,
    series: Vec<SeriesSamples>,
    (rolled, range_ms): (RolledTime, (i64, i64)),
) -> Result<Vec<SeriesSamples>> {
    if resolved.levels.are_raw(range_ms.0) {
        return Ok(series);
    }
    let places = super::select::places_of(&resolved.series[batch.clone()]);
    let records = Arc::new(read_records(reader, resolved, places).await?);
    let resolved = Arc::clone(resolved);
    let complete = move || {
        let of_batch = resolved.series[batch].par_iter().zip(series);
        of_batch
            .map_init(WindowAssembler::default, |assembler, (places, series)| {
                let of = resolved.levels.of(&series.labels);
                let mut series = since(series, of.since_ms);
                let late = LateSamples::take(&mut series, of.late);
                let (wanted, stored) = (fields(rolled), (&*resolved, &*records));
                let is_merged = !late.is_empty() && rolled != RolledTime::Samples;
                // A window is merged with all that it has.
                let read = if is_merged { WindowFields::ALL } else { wanted };
                let mut windows = assembler.windows_of(stored, of.levels, places, read)?;
                if is_merged {
                    late.merge_into(of.levels.segments.iter(), &mut windows, wanted);
                }
                let time = (rolled, range_ms);
                Ok(with_windows(of.levels, (series, late), windows, time))
            })
            .collect::<Result<_>>()
    };
    reader.context.pool.run(complete).await?
}

fn fields(rolled: RolledTime) -> WindowFields {
    match rolled {
        RolledTime::Samples => WindowFields::COUNTS | WindowFields::FIRST | WindowFields::LAST,
        RolledTime::Windows(_, fields) => fields,
    }
}

async fn read_records(
    reader: &Reader,
    resolved: &Resolution,
    places: Range<usize>,
) -> Result<WindowRecords> {
    let is_rolled = |at: usize| {
        let bucket = resolved.stored[places.start + at].bucket;
        resolved.buckets[bucket as usize].1.resolution_ms > 0
    };
    let gets = reader.context.options.read.concurrent_gets;
    let mut reads = Vec::new();
    for (bucket, offsets) in by_bucket(resolved, &places, is_rolled) {
        let ((from, meta), first) = (&resolved.buckets[bucket], places.start);
        let has_histograms = meta.rollup.histogram_windows > 0;
        reads.push(async move {
            let id_at = |offset: &usize| resolved.stored[first + offset].id;
            let ids: Vec<u32> = offsets.iter().map(|at| id_at(at).0).collect();
            let key_of = |id| key::rollup_series(from.bucket, id);
            // Those of histograms lie right behind.
            let found = fetch(&from.view, &ids, key_of, has_histograms, gets).await?;
            let found = found.into_iter().map(|r| ((r.id, r.suffix), r.value));
            let by_id: HashMap<_, _> = found.collect();
            let of_kind = |suffix: u8| {
                let found = offsets.iter().filter_map(|at| {
                    let value = by_id.get(&(id_at(at), suffix))?.clone();
                    Some((first + at, value))
                });
                found.collect::<Vec<_>>()
            };
            Ok((of_kind(0), of_kind(HISTOGRAMS_SUFFIX)))
        });
    }
    let mut records = WindowRecords::default();
    for (floats, histograms) in join_bounded(reads, CONCURRENT_BUCKETS).await? {
        records.floats.extend(floats);
        records.histograms.extend(histograms);
    }
    Ok(records)
}

/// The byte behind a series' key under which its windows of histograms lie.
const HISTOGRAMS_SUFFIX: u8 = 1;

/// Puts the windows of a series together. Kept from series to series, because they mostly have
/// windows at the same times.
#[derive(Default)]
struct WindowAssembler {
    decoder: Decoder,
    /// Where the windows of the last series began, by rolled segment.
    starts: Vec<TimeColumn>,
}

impl WindowAssembler {
    fn windows_of(
        &mut self,
        (resolved, records): (&Resolution, &WindowRecords),
        levels: &Levels,
        series: &ResolvedSeries,
        fields: WindowFields,
    ) -> Result<LevelWindows> {
        let rolled = levels.segments.iter();
        let mut rolled = rolled
            .filter(|segment| !segment.resolution.is_raw())
            .map(|segment| (segment, Vec::new(), Vec::new()))
            .collect::<Vec<_>>();
        self.starts.resize(rolled.len(), TimeColumn::default());
        let decoder = &mut self.decoder;
        for place in series.stored.start as usize..series.stored.end as usize {
            let (of_floats, of_histograms) =
                (records.floats.get(&place), records.histograms.get(&place));
            if of_floats.is_none() && of_histograms.is_none() {
                continue;
            }
            let at = resolved.stored[place];
            let (from, meta) = &resolved.buckets[at.bucket as usize];
            // A deletion takes whole windows.
            let lost = from.lost_by(at.id);
            let is_left = |start_ms: i64| !is_lost(&lost, start_ms);
            for (segment, floats, histograms) in &mut rolled {
                let same_level = segment.resolution.ms() == i64::from(meta.resolution_ms);
                let start_ms = segment.start_ms.max(from.bucket.start_ms());
                let end_ms = segment.end_ms.min(from.bucket.end_ms());
                if !same_level || start_ms >= end_ms {
                    continue;
                }
                let (bucket, id, range) = (from.bucket, at.id, start_ms..end_ms);
                if let Some(value) = of_floats {
                    let range = range.clone();
                    let mut found =
                        stored::window_columns(bucket, id, value, fields, range, decoder)?;
                    if !lost.is_empty() {
                        found.retain(is_left);
                    }
                    floats.push(found);
                }
                if let Some(value) = of_histograms {
                    let fields = fields.of_histograms();
                    let mut found = stored::histogram_windows_in(bucket, id, value, fields, range)?;
                    found.retain(|window| is_left(window.start_ms));
                    histograms.append(&mut found);
                }
            }
        }
        let (mut floats, mut histograms) = (Vec::new(), Vec::new());
        for ((_, parts, of_histograms), starts) in rolled.into_iter().zip(&mut self.starts) {
            let of_floats = WindowColumns::concat(parts, starts);
            starts.clone_from(&of_floats.starts);
            floats.push(of_floats);
            histograms.push(of_histograms);
        }
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
    (rolled, range_ms): (RolledTime, (i64, i64)),
) -> SeriesSamples {
    keep_raw(levels, &mut series);
    if levels.segments.is_empty() {
        return series;
    }
    let rolled_samples = RolledSamples {
        levels: Arc::clone(levels),
        windows: windows.floats,
        histograms: windows.histograms,
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
