//! The chunks of a batch: from the cache, else from records and from the head's streams.
//!
//! Holds always:
//! - A chunk of an hour is decoded whole and kept, so that the next selection of the hour only
//!   copies values. A stream that is damaged further on is still read as far as the range needs it,
//!   and not kept. Chunks of larger buckets are made by `super::coarse`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::BucketSize;
use icecore_model::BucketStart;
use icecore_records::{Bucket, DecodeError, SeriesId, histogram_series, key, start_timestamps};
use rayon::prelude::*;

use super::coarse::{self, ReadColumns};
use super::resolve::{CONCURRENT_BUCKETS, Resolution};
use crate::cache::{Chunk, HeadChunk, ReadCache, Scratch, SideRecords, Times};
use crate::error::{Error, Result};
use crate::read::Reader;
use crate::slate::fetch::fetch;
use crate::slate::fetch::join_bounded;
use crate::stored;

/// The suffix of a series' key under which its start timestamps lie.
const STARTS_SUFFIX: u8 = 1;

/// The chunks of a range of places in [`Resolution::stored`]; `None` while they are not read.
pub(super) type StoredChunks = Vec<Option<Arc<Chunk>>>;

/// The records of a series in a bucket; empty where there is none.
#[derive(Default)]
pub(super) struct Records {
    pub(super) samples: Bytes,
    starts: Bytes,
    histograms: Bytes,
}

/// What was read of places whose chunks are missing.
#[derive(Default)]
pub(super) struct Missing {
    /// By offset of the place; neighbours are of one bucket.
    records: Vec<(usize, Records)>,
    /// By index of the bucket.
    columns: Vec<(usize, ReadColumns)>,
}

/// What the cache has of the given places. What is asked for again is kept unpacked from then on,
/// while there is room for it.
pub(super) fn look_up_stored(
    cache: &ReadCache,
    resolved: &Resolution,
    places: Range<usize>,
    range_ms: (i64, i64),
) -> StoredChunks {
    let mut chunks: StoredChunks = vec![None; places.len()];
    for (bucket, offsets) in by_bucket(resolved, &places, |_| true) {
        let stored = &resolved.stored[places.clone()];
        if resolved.buckets[bucket].1.resolution_ms > 0 {
            // Windows are no samples (`super::windows`).
            let nothing = Arc::new(Chunk::empty());
            offsets
                .iter()
                .for_each(|at| chunks[*at] = Some(Arc::clone(&nothing)));
            continue;
        }
        let ids = offsets.iter().map(|at| stored[*at].id.0);
        let mut next = offsets.iter();
        let known = &resolved.buckets[bucket].0.cache.chunks;
        known.get_many(ids, |found| {
            if let Some(at) = next.next() {
                chunks[*at] = found.cloned();
            }
        });
        if resolved.buckets[bucket].0.bucket.size == BucketSize::HOUR || !cache.is_roomy() {
            continue;
        }
        let mut packed = offsets;
        packed.retain(|at| chunks[*at].as_ref().is_some_and(|c| c.is_packed(range_ms)));
        if packed.is_empty() {
            continue;
        }
        let unpack = |at: usize| Some((at, Arc::new(chunks[at].as_ref()?.unpacked(range_ms)?)));
        let unpacked: Vec<_> = packed.into_par_iter().filter_map(unpack).collect();
        let kept = unpacked.iter();
        known.insert_many(kept.map(|(at, chunk)| (stored[*at].id.0, Arc::clone(chunk))));
        for (at, chunk) in unpacked {
            chunks[at] = Some(chunk);
        }
    }
    chunks
}

/// Offsets of the wanted places, by bucket, ascending by id.
pub(super) fn by_bucket(
    resolved: &Resolution,
    places: &Range<usize>,
    wanted: impl Fn(usize) -> bool,
) -> Vec<(usize, Vec<usize>)> {
    let stored = &resolved.stored[places.clone()];
    let mut lists: Vec<Vec<usize>> = vec![Vec::new(); resolved.buckets.len()];
    for (at, place) in stored.iter().enumerate().filter(|(at, _)| wanted(*at)) {
        lists[place.bucket as usize].push(at);
    }
    let mut lists: Vec<(usize, Vec<usize>)> = lists.into_iter().enumerate().collect();
    lists.retain(|(_, offsets)| !offsets.is_empty());
    for (_, offsets) in &mut lists {
        if !offsets.is_sorted_by_key(|at| stored[*at].id) {
            offsets.sort_unstable_by_key(|at| stored[*at].id);
        }
    }
    lists
}

/// Reads the records of the places whose chunks are missing. Every one of them has an entry then.
pub(super) async fn read_missing(
    reader: &Reader,
    resolved: &Resolution,
    places: Range<usize>,
    chunks: &StoredChunks,
) -> Result<Missing> {
    let mut reads = Vec::new();
    for (bucket, offsets) in by_bucket(resolved, &places, |at| chunks[at].is_none()) {
        reads.push(read_bucket(reader, resolved, bucket, places.start, offsets));
    }
    let mut all = Missing::default();
    for read in join_bounded(reads, CONCURRENT_BUCKETS).await? {
        all.records.extend(read.records);
        all.columns.extend(read.columns);
    }
    Ok(all)
}

async fn read_bucket(
    reader: &Reader,
    resolved: &Resolution,
    bucket: usize,
    first: usize,
    offsets: Vec<usize>,
) -> Result<Missing> {
    let (from, meta) = &resolved.buckets[bucket];
    let gets = reader.context.options.read.concurrent_gets;
    let id_at = |offset: &usize| resolved.stored[first + offset].id;
    let ids: Vec<u32> = offsets.iter().map(|at| id_at(at).0).collect();
    let mut records: HashMap<SeriesId, Records> = HashMap::with_capacity(ids.len());
    let key_of = |id| key::time_series(from.bucket, id);
    for record in fetch(&from.view, &ids, key_of, meta.has_start_timestamps, gets).await? {
        let found = records.entry(record.id).or_default();
        match record.suffix {
            0 => found.samples = record.value,
            STARTS_SUFFIX => found.starts = record.value,
            // Written by a newer version; nothing that this one needs.
            _ => {}
        }
    }
    if meta.has_histograms {
        let key_of = |id| key::histogram_series(from.bucket, id);
        for record in fetch(&from.view, &ids, key_of, false, gets).await? {
            records.entry(record.id).or_default().histograms = record.value;
        }
    }
    let mut columns = Vec::new();
    if from.bucket.size != BucketSize::HOUR {
        let samples = records.values().map(|records| &records.samples);
        columns.push((bucket, coarse::read_columns(from, samples, gets).await?));
    }
    let found = offsets.into_iter().map(|at| {
        let records = records.remove(&id_at(&at)).unwrap_or_default();
        (at, records)
    });
    Ok(Missing {
        records: found.collect(),
        columns,
    })
}

/// Decodes what was read, keeps it and completes the chunks.
pub(super) fn decode_missing(
    resolved: &Resolution,
    first: usize,
    read: Missing,
    chunks: &mut StoredChunks,
    range_ms: (i64, i64),
) -> Result<()> {
    let mut columns = HashMap::with_capacity(read.columns.len());
    for (bucket, read) in read.columns {
        columns.insert(bucket, read.decode(&resolved.buckets[bucket].0)?);
    }
    let decode = |scratch: &mut Scratch, (at, records): (usize, Records)| {
        let place = resolved.stored[first + at];
        let from = &resolved.buckets[place.bucket as usize].0;
        let lost = from.lost_by(place.id);
        if let Some(columns) = columns.get(&(place.bucket as usize)) {
            let side = coarse_side(from.bucket, place.id, &records)?.without(&lost);
            let chunk = coarse::decode(from, place.id, &records.samples, columns, side, &lost)?;
            return Ok((at, Arc::new(chunk), true));
        }
        let decoded = decode_records(&records, &lost, &from.cache.times, range_ms, scratch);
        decoded
            .map(|(chunk, whole)| (at, chunk, whole))
            .map_err(|cause| corrupt(from.bucket, cause))
    };
    let decoded: Result<Vec<(usize, Arc<Chunk>, bool)>> = read
        .records
        .into_par_iter()
        .map_init(Scratch::default, decode)
        .collect();
    // By bucket they came, by bucket they are kept.
    for same in decoded?.chunk_by(|a, b| {
        let bucket = |at: usize| resolved.stored[first + at].bucket;
        bucket(a.0) == bucket(b.0)
    }) {
        let bucket = resolved.stored[first + same[0].0].bucket as usize;
        let whole = same.iter().filter(|(_, _, whole)| *whole);
        let kept = whole.map(|(at, chunk, _)| (resolved.stored[first + at].id.0, chunk.clone()));
        resolved.buckets[bucket].0.cache.chunks.insert_many(kept);
        for (at, chunk, _) in same {
            chunks[*at] = Some(Arc::clone(chunk));
        }
    }
    Ok(())
}

fn corrupt(bucket: Bucket, cause: DecodeError) -> Error {
    let bucket = bucket.start.minutes();
    Error::corrupt(format!("samples in bucket {bucket}"))(cause)
}

/// What a larger bucket has of a series beside floats.
fn coarse_side(bucket: Bucket, id: SeriesId, records: &Records) -> Result<SideRecords> {
    let histograms = if records.histograms.is_empty() {
        Vec::new()
    } else {
        stored::histograms(bucket, id, &records.histograms)?
    };
    let starts = decode_starts(records).map_err(|cause| corrupt(bucket, cause))?;
    Ok(SideRecords { histograms, starts })
}

fn decode_starts(records: &Records) -> Result<Vec<(i64, i64)>, DecodeError> {
    if records.starts.is_empty() {
        Ok(Vec::new())
    } else {
        start_timestamps::decode(&records.starts)
    }
}

/// Also says whether the chunk is whole.
fn decode_records(
    records: &Records,
    lost: &[(i64, i64)],
    times: &Times,
    range_ms: (i64, i64),
    scratch: &mut Scratch,
) -> Result<(Arc<Chunk>, bool), DecodeError> {
    let side = SideRecords {
        histograms: if records.histograms.is_empty() {
            Vec::new()
        } else {
            histogram_series::decode(&records.histograms)?
        },
        starts: decode_starts(records)?,
    };
    let side = side.without(lost);
    decode_stream(&records.samples, lost, side, times, range_ms, scratch)
}

fn decode_stream(
    stream: &[u8],
    lost: &[(i64, i64)],
    side: SideRecords,
    times: &Times,
    (start_ms, end_ms): (i64, i64),
    scratch: &mut Scratch,
) -> Result<(Arc<Chunk>, bool), DecodeError> {
    let whole = scratch.decode(stream).is_ok();
    if !whole {
        scratch.decode_range(stream, start_ms, end_ms)?;
    }
    scratch.leave_out(lost);
    Ok((Arc::new(Chunk::of(scratch, side, times)), whole))
}

/// Only what the range needs.
fn decode_passing(
    stream: &[u8],
    times: &Times,
    (start_ms, end_ms): (i64, i64),
    scratch: &mut Scratch,
) -> Result<(Arc<Chunk>, bool), DecodeError> {
    scratch.decode_range(stream, start_ms, end_ms)?;
    Ok((Arc::new(Chunk::passing(scratch, times)), false))
}

/// The chunks of parts of the head, in their order; `None` where a part has no stream.
pub(super) fn head_chunks(
    cache: &ReadCache,
    resolved: &Resolution,
    parts: &[(u32, u32)],
    range_ms: (i64, i64),
) -> Result<(Vec<Option<Arc<Chunk>>>, HeadHits)> {
    let mut chunks: Vec<Option<Arc<Chunk>>> = vec![None; parts.len()];
    let mut hits = HeadHits::default();
    // Few hours, many series: a list per hour, found by trying the last one first.
    let mut hours: Vec<(BucketStart, Vec<usize>)> = Vec::new();
    for (at, (_, part)) in parts.iter().enumerate() {
        let part = &resolved.head_parts[*part as usize];
        if part.known.is_some() {
            chunks[at] = part.known.clone();
            hits.hits += 1;
        }
        if part.stream.is_empty() {
            continue;
        }
        let hour = part.hour;
        match hours.iter_mut().find(|(known, _)| *known == hour) {
            Some((_, list)) => list.push(at),
            None => hours.push((hour, vec![at])),
        }
    }
    for (hour, list) in hours {
        let kept = cache.head_hour(hour);
        let part_at = |at: usize| &resolved.head_parts[parts[at].1 as usize];
        let mut missing = Vec::new();
        let mut next = list.iter();
        kept.chunks
            .get_many(list.iter().map(|at| parts[*at].0), |found| {
                let Some(at) = next.next() else { return };
                match found.filter(|found| found.is_of(part_at(*at))) {
                    Some(found) => chunks[*at] = Some(Arc::clone(&found.chunk)),
                    None => missing.push(*at),
                }
            });
        hits.hits += (list.len() - missing.len()) as u64;
        hits.misses += missing.len() as u64;
        if missing.is_empty() {
            continue;
        }
        let decode = |scratch: &mut Scratch, at: usize| {
            let (stream, times) = (&part_at(at).stream, &kept.times);
            let decoded = if resolved.keeps_head {
                let side = SideRecords::default();
                decode_stream(stream, &[], side, times, range_ms, scratch)
            } else {
                decode_passing(stream, times, range_ms, scratch)
            };
            decoded
                .map(|(chunk, whole)| (at, chunk, whole))
                .map_err(Error::corrupt("samples in the head"))
        };
        let decoded: Result<Vec<(usize, Arc<Chunk>, bool)>> = missing
            .into_par_iter()
            .map_init(Scratch::default, decode)
            .collect();
        let decoded = decoded?;
        if resolved.keeps_head {
            let whole = decoded.iter().filter(|(_, _, whole)| *whole);
            kept.chunks.insert_many(whole.map(|(at, chunk, _)| {
                let kept = HeadChunk::new(part_at(*at), Arc::clone(chunk));
                (parts[*at].0, kept)
            }));
        }
        for (at, chunk, _) in decoded {
            chunks[at] = Some(chunk);
        }
    }
    Ok((chunks, hits))
}

#[derive(Default)]
pub(super) struct HeadHits {
    pub(super) hits: u64,
    pub(super) misses: u64,
}
