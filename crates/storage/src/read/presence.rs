//! Which series of a bucket have samples or exemplars in a range.
//!
//! An hour is as fine as requests without samples ask: a bucket of one hour has what its index has.
//! A larger bucket of which the range leaves hours out is looked into, so that an answer does not
//! depend on whether its hours were coarsened.

use std::sync::Arc;

use icecore_model::rollup::{JoinedWindows, WindowFields};
use icecore_model::{BucketSize, HOUR_MS};
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::rollup_series::Decoder;
use icecore_records::{Bucket, SeriesId, exemplar_series, key};
use roaring::RoaringBitmap;

use super::chunks::{decode_missing, look_up_stored, read_missing};
use super::postings::{BucketView, corrupt};
use super::resolve::{Resolution, StoredAt};
use crate::cache::Chunk;
use crate::error::{Error, Result};
use crate::read::Reader;
use crate::slate::fetch::fetch;
use crate::stored::{self, is_lost};

/// Series that are looked into at a time.
const BATCH_SERIES: usize = 1024;

/// No time at all: nobody wants values unpacked.
const NO_TIMES: (i64, i64) = (i64::MAX, i64::MIN);

/// The range widened to whole hours.
pub(super) fn whole_hours((start_ms, end_ms): (i64, i64)) -> (i64, i64) {
    let start_ms = start_ms.div_euclid(HOUR_MS).saturating_mul(HOUR_MS);
    let end_ms = end_ms.div_euclid(HOUR_MS).saturating_add(1);
    (start_ms, end_ms.saturating_mul(HOUR_MS).saturating_sub(1))
}

/// Whether a range leaves hours of a bucket out.
pub(super) fn is_cut(bucket: Bucket, range_ms: (i64, i64)) -> bool {
    let (start_ms, end_ms) = whole_hours(range_ms);
    bucket.size != BucketSize::HOUR
        && (start_ms > bucket.start_ms() || end_ms < bucket.end_ms() - 1)
}

/// Those of `ids` that have something in the hours of a range.
pub(super) async fn present(
    reader: &Arc<Reader>,
    (from, meta): (&BucketView, &BucketMeta),
    ids: &RoaringBitmap,
    range_ms: (i64, i64),
) -> Result<RoaringBitmap> {
    let mut found = RoaringBitmap::new();
    let mut left = ids.iter();
    loop {
        let batch: Vec<u32> = left.by_ref().take(BATCH_SERIES).collect();
        if batch.is_empty() {
            return Ok(found);
        }
        let with_samples = with_samples(reader, (from, meta), batch.clone(), range_ms).await?;
        if meta.exemplars > 0 {
            let others = batch.iter().copied();
            let others = others.filter(|id| with_samples.binary_search(id).is_err());
            let others: Vec<u32> = others.collect();
            found.extend(with_exemplars(reader, from, &others, range_ms).await?);
        }
        found.extend(with_samples);
    }
}

/// Those of some series that have exemplars; one may have nothing else.
async fn with_exemplars(
    reader: &Reader,
    from: &BucketView,
    ids: &[u32],
    range_ms: (i64, i64),
) -> Result<Vec<u32>> {
    let (start_ms, end_ms) = whole_hours(range_ms);
    let key_of = |id| key::exemplar_series(from.bucket, id);
    let gets = reader.context.options.read.concurrent_gets;
    let mut found = Vec::new();
    for record in fetch(&from.view, ids, key_of, false, gets).await? {
        let exemplars = exemplar_series::decode(&record.value)
            .map_err(|cause| corrupt(&key_of(record.id), cause))?;
        let lost = from.lost_by(record.id);
        let mut times = exemplars.iter().map(|exemplar| exemplar.timestamp_ms);
        if times.any(|time| (start_ms..=end_ms).contains(&time) && !is_lost(&lost, time)) {
            found.push(record.id.0);
        }
    }
    Ok(found)
}

/// Those of some series that have samples, ascending.
async fn with_samples(
    reader: &Arc<Reader>,
    (from, meta): (&BucketView, &BucketMeta),
    ids: Vec<u32>,
    range_ms: (i64, i64),
) -> Result<Vec<u32>> {
    if meta.resolution_ms > 0 {
        return with_windows(reader, (from, meta), &ids, range_ms).await;
    }
    let stored = ids.iter().map(|id| StoredAt {
        bucket: 0,
        id: SeriesId(*id),
    });
    let places = 0..ids.len();
    let resolved = Arc::new(Resolution {
        buckets: vec![(from.clone(), meta.clone())],
        stored: stored.collect(),
        ..Resolution::default()
    });
    let (of_lookup, cache) = (Arc::clone(&resolved), Arc::clone(reader.buckets.cache()));
    let all = places.clone();
    let look_up = move || look_up_stored(&cache, &of_lookup, all, NO_TIMES);
    let mut chunks = reader.context.pool.run(look_up).await?;
    let read = read_missing(reader, &resolved, places, &chunks).await?;
    let cache = Arc::clone(reader.buckets.cache());
    let decode = move || {
        decode_missing(&resolved, 0, read, &mut chunks, range_ms)?;
        cache.make_room();
        let hours = whole_hours(range_ms);
        let of_chunks = ids.into_iter().zip(chunks);
        let present = of_chunks.filter(|(_, chunk)| {
            let chunk = chunk.as_ref();
            chunk.is_some_and(|chunk| has_samples(chunk, hours))
        });
        Ok::<_, Error>(present.map(|(id, _)| id).collect())
    };
    reader.context.pool.run(decode).await?
}

/// The same for a bucket of windows, where a window counts whole.
async fn with_windows(
    reader: &Arc<Reader>,
    (from, meta): (&BucketView, &BucketMeta),
    ids: &[u32],
    range_ms: (i64, i64),
) -> Result<Vec<u32>> {
    let (start_ms, end_ms) = whole_hours(range_ms);
    let start_ms = start_ms.saturating_sub(i64::from(meta.resolution_ms) - 1);
    let range = start_ms.max(from.bucket.start_ms())..end_ms.min(from.bucket.end_ms());
    let gets = reader.context.options.read.concurrent_gets;
    let key_of = |id| key::rollup_series(from.bucket, id);
    // Those of histograms lie right behind.
    let has_histograms = meta.rollup.histogram_windows > 0;
    let records = fetch(&from.view, ids, key_of, has_histograms, gets).await?;
    let (bucket, from) = (from.bucket, from.clone());
    let find = move || {
        let (mut found, mut decoder) = (Vec::new(), Decoder::default());
        for record in records {
            let (id, value, range) = (record.id, &record.value, range.clone());
            let none = WindowFields::NONE;
            let lost = from.lost_by(id);
            let is_there = |start_ms: i64| !is_lost(&lost, start_ms);
            let has_windows = if record.suffix == 0 {
                let mut windows = JoinedWindows::default();
                let record = (&mut decoder, &value[..]);
                stored::append_windows(bucket, id, (none, range), record, &mut windows)?;
                windows.starts().iter().any(|start_ms| is_there(*start_ms))
            } else {
                let windows = stored::histogram_windows_in(bucket, id, value, none, range)?;
                windows.iter().any(|window| is_there(window.start_ms))
            };
            found.extend(has_windows.then_some(id.0));
        }
        found.sort_unstable();
        found.dedup();
        Ok::<_, Error>(found)
    };
    reader.context.pool.run(find).await?
}

fn has_samples(chunk: &Chunk, (start_ms, end_ms): (i64, i64)) -> bool {
    let within = |time: i64| (start_ms..=end_ms).contains(&time);
    let histograms = chunk.side.iter().flat_map(|side| &side.histograms);
    !chunk.times.range(start_ms, end_ms).is_empty()
        || (histograms.filter(|entry| entry.value.is_some())).any(|e| within(e.timestamp_ms))
}

#[cfg(test)]
mod tests {
    use icecore_model::BucketStart;

    use super::*;

    #[test]
    fn a_range_is_widened_to_hours() {
        assert_eq!(whole_hours((0, 0)), (0, HOUR_MS - 1));
        assert_eq!(whole_hours((-1, HOUR_MS)), (-HOUR_MS, 2 * HOUR_MS - 1));
        let (start_ms, end_ms) = whole_hours((i64::MIN, i64::MAX));
        assert!(start_ms < -HOUR_MS << 20 && end_ms > HOUR_MS << 20);
    }

    #[test]
    fn a_bucket_is_cut_where_the_range_leaves_hours_out() {
        let coarse = Bucket {
            start: BucketStart(240),
            size: BucketSize::from_exponent(3).unwrap(),
        };
        let (first, last) = (coarse.start_ms(), coarse.end_ms() - 1);
        assert!(!is_cut(coarse, (first, last)));
        assert!(!is_cut(coarse, (first + HOUR_MS - 1, last - HOUR_MS + 1)));
        assert!(is_cut(coarse, (first + HOUR_MS, last)));
        assert!(is_cut(coarse, (first, last - HOUR_MS)));
        assert!(!is_cut(coarse, (i64::MIN, i64::MAX)));
        let hour = Bucket {
            size: BucketSize::HOUR,
            ..coarse
        };
        assert!(!is_cut(hour, (first + 5, first + 6)));
    }
}
