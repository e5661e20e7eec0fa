//! Time whose samples were rolled up: windows, or the samples that are left of them.
//!
//! Holds always:
//! - Each part of the time comes from the level that the plan names: raw samples of rolled parts,
//!   and windows of raw parts, are left out.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::rollup::{Edge, Segment, WindowColumns, WindowFields};
use icecore_model::{
    FloatColumns, Levels, RolledSamples, RolledTime, STALE_NAN_BITS, SeriesSamples,
};
use icecore_records::key;
use icecore_records::rollup_series::Decoder;
use rayon::prelude::*;

use super::chunks::by_bucket;
use super::resolve::{CONCURRENT_BUCKETS, Resolution, ResolvedSeries};
use crate::error::Result;
use crate::read::Reader;
use crate::slate::fetch::{fetch, join_bounded};
use crate::stored::{self, is_lost};

/// The records of windows of a batch, by place in [`Resolution::stored`].
type WindowRecords = HashMap<usize, Bytes>;

/// Completes the series of a batch, which have what raw buckets and the head have.
pub(super) async fn complete(
    reader: &Arc<Reader>,
    resolved: &Arc<Resolution>,
    batch: Range<usize>,
    series: Vec<SeriesSamples>,
    rolled: RolledTime,
) -> Result<Vec<SeriesSamples>> {
    if resolved.levels.segments.is_empty() {
        return Ok(series);
    }
    let places = super::select::places_of(&resolved.series[batch.clone()]);
    let records = Arc::new(read_records(reader, resolved, places).await?);
    let resolved = Arc::clone(resolved);
    let complete = move || {
        let of_batch = resolved.series[batch].par_iter().zip(series);
        of_batch
            .map_init(Decoder::default, |decoder, (places, series)| {
                let windows = windows_of(&resolved, places, &records, fields(rolled), decoder)?;
                Ok(with_windows(&resolved.levels, series, windows, rolled))
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
        let (from, first) = (&resolved.buckets[bucket].0, places.start);
        reads.push(async move {
            let id_at = |offset: &usize| resolved.stored[first + offset].id;
            let ids: Vec<u32> = offsets.iter().map(|at| id_at(at).0).collect();
            let key_of = |id| key::rollup_series(from.bucket, id);
            let found = fetch(&from.view, &ids, key_of, false, gets).await?;
            let by_id: HashMap<_, _> = found.into_iter().map(|r| (r.id, r.value)).collect();
            let found = offsets.into_iter().filter_map(|at| {
                let value = by_id.get(&id_at(&at))?.clone();
                Some((first + at, value))
            });
            Ok(found.collect::<Vec<_>>())
        });
    }
    let read = join_bounded(reads, CONCURRENT_BUCKETS).await?;
    Ok(read.into_iter().flatten().collect())
}

/// The windows of a series, one list for each rolled segment.
fn windows_of(
    resolved: &Resolution,
    series: &ResolvedSeries,
    records: &WindowRecords,
    fields: WindowFields,
    decoder: &mut Decoder,
) -> Result<Vec<WindowColumns>> {
    let rolled = resolved.levels.segments.iter();
    let mut rolled = rolled
        .filter(|segment| !segment.resolution.is_raw())
        .map(|segment| (segment, WindowColumns::default()))
        .collect::<Vec<_>>();
    for place in series.stored.start as usize..series.stored.end as usize {
        let Some(value) = records.get(&place) else {
            continue;
        };
        let at = resolved.stored[place];
        let (from, meta) = &resolved.buckets[at.bucket as usize];
        for (segment, windows) in &mut rolled {
            let same_level = segment.resolution.ms() == i64::from(meta.resolution_ms);
            let start_ms = segment.start_ms.max(from.bucket.start_ms());
            let end_ms = segment.end_ms.min(from.bucket.end_ms());
            if same_level && start_ms < end_ms {
                let (bucket, range) = (from.bucket, start_ms..end_ms);
                let found = stored::window_columns(bucket, at.id, value, fields, range, decoder);
                let mut found = found?;
                // A deletion takes whole windows.
                let lost = from.lost_by(at.id);
                if !lost.is_empty() {
                    found.retain(|start_ms| !is_lost(&lost, start_ms));
                }
                windows.append(found);
            }
        }
    }
    Ok(rolled.into_iter().map(|(_, windows)| windows).collect())
}

fn with_windows(
    levels: &Arc<Levels>,
    mut series: SeriesSamples,
    windows: Vec<WindowColumns>,
    rolled: RolledTime,
) -> SeriesSamples {
    keep_raw(levels, &mut series);
    match rolled {
        RolledTime::Windows(..) => {
            series.rolled = Some(RolledSamples {
                levels: Arc::clone(levels),
                windows,
            });
        }
        RolledTime::Samples => {
            series.floats = spliced(&series.floats, &windows);
        }
    }
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

/// The samples that are left of windows, among the raw ones.
fn spliced(raw: &FloatColumns, windows: &[WindowColumns]) -> FloatColumns {
    let stale = f64::from_bits(STALE_NAN_BITS);
    let mut samples: Vec<(i64, f64)> = Vec::new();
    for windows in windows {
        for (at, start_ms) in windows.starts.iter().enumerate() {
            match windows.edges[at] {
                Edge::None => {}
                Edge::Sample(value) => samples.push((*start_ms, value)),
                Edge::Stale => samples.push((*start_ms, stale)),
            }
            if let Some(interior) = windows.interior(at) {
                samples.push((interior.first_ms, interior.first));
                if interior.last_ms > interior.first_ms {
                    samples.push((interior.last_ms, interior.last));
                }
            }
        }
    }
    if samples.is_empty() {
        return raw.clone();
    }
    samples.extend(
        raw.timestamps
            .iter()
            .copied()
            .zip(raw.values.iter().copied()),
    );
    samples.sort_by_key(|sample| sample.0);
    FloatColumns {
        timestamps: samples.iter().map(|sample| sample.0).collect(),
        values: samples.into_iter().map(|sample| sample.1).collect(),
    }
}
