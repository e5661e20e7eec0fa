//! Which id each series of a flush has in its bucket.
//!
//! Holds always:
//! - The forward index decides: an id belongs to the labels that lie under it.
//! - Ids from `next_series_id` on are left by a flush that did not reach its commit. They keep
//!   their series, and this flush writes their index records (again), also where the series are of
//!   another hour of the bucket: behind its commit nobody else would.
//! - New series continue after the largest id, in label order.
//! - An id of a series that was deleted is not used again: the series comes back under a new one.
//! - Only hours have a dictionary. In a larger bucket, which gets late samples only, a series is
//!   found by its place in label order.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Bound;

use bytes::Bytes;
use icecore_model::{BucketSize, Labels};
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::{Bucket, ParsedKey, SeriesId, forward_index, key, series_dictionary};

use roaring::RoaringBitmap;

use super::hour::bindings_fingerprint;
use crate::error::{Error, Result};
use crate::ingest::Ingest;
use crate::ingest::head::LabelOrder;
use crate::slate::fetch::join_bounded;
use crate::slate::read_view::{ScanKind, View};

/// With fewer than one in this many of a bucket's series, they are looked up one by one.
const SCAN_SHARE: usize = 16;

/// Records that are read past in the time of one get.
const GET_RECORDS: u64 = 12;

/// Whether series of a bucket are found by fingerprint.
pub(super) fn has_dictionary(bucket: Bucket) -> bool {
    bucket.size == BucketSize::HOUR
}

pub(super) struct IdAssignment {
    /// By place in label order.
    pub(super) ids: Vec<SeriesId>,
    /// Places whose index records must be written, ascending by id.
    pub(super) unindexed: Vec<usize>,
    /// Series that this flush does not have, whose index records must be written, too: their ids
    /// and forward records.
    pub(super) left_over: Vec<(SeriesId, Bytes)>,
    /// First ids of the runs that this flush adds.
    pub(super) run_starts: Vec<SeriesId>,
    pub(super) next_id: u32,
}

pub(super) async fn assign_ids(
    ingest: &Ingest,
    bucket: Bucket,
    meta: &BucketMeta,
    erased: Option<&RoaringBitmap>,
    order: &LabelOrder,
) -> Result<IdAssignment> {
    let known = meta.next_series_id;
    let view = ingest.context.engine.live_view();
    let mut search = Search {
        ingest,
        view,
        bucket,
        order,
        ids: vec![None; order.series().len()],
        known,
        left_over: Vec::new(),
        wanted: None,
        erased: ErasedIds(erased),
    };
    let few = if has_dictionary(bucket) {
        search.ids.len() < known as usize / SCAN_SHARE
    } else {
        gets_of(meta) * search.ids.len() as u64 * GET_RECORDS < u64::from(known)
    };
    if known > 0 && !(few && search.look_up_each(meta).await?) {
        search.scan(0, Some(known)).await?;
    }
    let after = search.scan(known, None).await?;
    let mut next_id = known.max(after);
    let mut ids = Vec::with_capacity(search.ids.len());
    for found in &search.ids {
        let id = match found {
            Some(id) => *id,
            None => {
                let id = SeriesId(next_id);
                next_id = next_id.checked_add(1).ok_or_else(|| {
                    Error::LimitReached(format!("bucket {} has 2^32 series", bucket.start))
                })?;
                id
            }
        };
        ids.push(id);
    }
    let mut unindexed: Vec<usize> = (0..ids.len()).filter(|at| ids[*at].0 >= known).collect();
    unindexed.sort_unstable_by_key(|at| ids[*at]);
    let used: RoaringBitmap = unindexed.iter().map(|at| ids[*at].0).collect();
    let mut left_over = search.left_over;
    left_over.retain(|(id, _)| !used.contains(id.0));
    let run_starts = if next_id > known {
        new_run_starts(SeriesId(known), unindexed.iter().map(|at| (ids[*at], *at)))
    } else {
        Vec::new()
    };
    Ok(IdAssignment {
        ids,
        unindexed,
        left_over,
        run_starts,
        next_id,
    })
}

/// Where the ids from `known` on begin a run in label order. Flushes that did not reach their
/// commit may have given out some of them, each its own run. `by_id` are the ids that this flush
/// uses, with their places in label order.
fn new_run_starts(
    known: SeriesId,
    by_id: impl Iterator<Item = (SeriesId, usize)>,
) -> Vec<SeriesId> {
    let mut starts = vec![known];
    let mut expected = (known.0, 0);
    for (id, place) in by_id {
        let goes_on = id.0 == expected.0 && place >= expected.1;
        if !goes_on && id != known {
            starts.push(id);
        }
        expected = (id.0.wrapping_add(1), place);
    }
    starts
}

struct Search<'i> {
    ingest: &'i Ingest,
    view: View,
    bucket: Bucket,
    order: &'i LabelOrder,
    ids: Vec<Option<SeriesId>>,
    /// The first id that no commit knows of, and the series from there on.
    known: u32,
    left_over: Vec<(SeriesId, Bytes)>,
    /// Places in label order by fingerprint, made when a scan meets the first record.
    wanted: Option<HashMap<u128, Vec<usize>>>,
    erased: ErasedIds<'i>,
}

/// Series that were deleted: their ids are not used again.
#[derive(Clone, Copy)]
struct ErasedIds<'i>(Option<&'i RoaringBitmap>);

impl ErasedIds<'_> {
    fn has(self, id: SeriesId) -> bool {
        self.0.is_some_and(|erased| erased.contains(id.0))
    }
}

impl Search<'_> {
    /// Reads forward records from `first` to before `end` and notes those that are wanted. Returns
    /// the id after the last one seen.
    async fn scan(&mut self, first: u32, end: Option<u32>) -> Result<u32> {
        let end = match end {
            Some(end) => Bound::Excluded(key::forward_index(self.bucket, SeriesId(end))),
            None => Bound::Included(key::forward_index(self.bucket, SeriesId(u32::MAX))),
        };
        let start = Bound::Included(key::forward_index(self.bucket, SeriesId(first)));
        let mut records = self.view.scan((start, end), ScanKind::Once).await?;
        let mut after = first;
        while let Some(record) = records
            .next()
            .await
            .map_err(Error::store("reading series"))?
        {
            let Ok(ParsedKey::ForwardIndex { series, .. }) = ParsedKey::parse(&record.key) else {
                continue;
            };
            after = series.0.saturating_add(1);
            self.note(series, &record.value);
        }
        Ok(after)
    }

    fn note(&mut self, id: SeriesId, value: &Bytes) {
        if self.erased.has(id) {
            return;
        }
        if id.0 >= self.known {
            self.left_over.push((id, value.clone()));
        }
        let Ok(bindings) = forward_index::label_bindings(value) else {
            return;
        };
        let fingerprint = bindings_fingerprint(bindings);
        let (ingest, order) = (self.ingest, self.order);
        let wanted = self.wanted.get_or_insert_with(|| {
            let index = ingest.head.index();
            let mut wanted: HashMap<u128, Vec<usize>> = HashMap::new();
            for (at, series) in order.series().iter().enumerate() {
                wanted
                    .entry(index.labels(*series).fingerprint())
                    .or_default()
                    .push(at);
            }
            wanted
        });
        let Some(places) = wanted.get(&fingerprint) else {
            return;
        };
        let Ok(labels) = forward_index::decode_bindings(bindings) else {
            return;
        };
        let index = self.ingest.head.index();
        for at in places {
            if index.labels(self.order.series()[*at]) == labels {
                self.ids[*at] = Some(id);
            }
        }
    }

    /// Looks series up, several at a time. False when that is not possible because a forward record
    /// is missing in the order.
    async fn look_up_each(&mut self, meta: &BucketMeta) -> Result<bool> {
        let known = meta.next_series_id;
        let labels: Vec<Labels> = {
            let index = self.ingest.head.index();
            self.order
                .series()
                .iter()
                .map(|series| index.labels(*series))
                .collect()
        };
        let (view, bucket, erased) = (&self.view, self.bucket, self.erased);
        let concurrent = self.ingest.context.options.read.concurrent_gets;
        let found = if has_dictionary(bucket) {
            let look_ups = labels
                .iter()
                .map(|labels| look_up(view, bucket, erased, labels));
            join_bounded(look_ups.collect(), concurrent).await?
        } else {
            let searches = labels
                .iter()
                .map(|labels| search(view, bucket, meta, erased, labels));
            let found = join_bounded(searches.collect(), concurrent).await?;
            let Some(found) = found.into_iter().collect() else {
                return Ok(false);
            };
            found
        };
        let below = |id: Option<SeriesId>| id.filter(|id| id.0 < known);
        self.ids = found.into_iter().map(below).collect();
        Ok(true)
    }
}

/// Runs of ids in label order.
fn runs(meta: &BucketMeta) -> impl Iterator<Item = std::ops::Range<u32>> {
    let ends = meta.run_starts.iter().skip(1).map(|start| start.0);
    let ends = ends.chain([meta.next_series_id]);
    let runs = meta.run_starts.iter().zip(ends);
    runs.map(|(start, end)| start.0..end)
}

/// Gets that a search for one series takes.
fn gets_of(meta: &BucketMeta) -> u64 {
    let gets =
        |run: std::ops::Range<u32>| u64::from(u32::BITS - (run.end - run.start).leading_zeros());
    runs(meta).map(gets).sum()
}

/// The id of a label set in a bucket whose runs are in label order. `None` when a record is missing
/// on the way.
async fn search(
    view: &View,
    bucket: Bucket,
    meta: &BucketMeta,
    erased: ErasedIds<'_>,
    labels: &Labels,
) -> Result<Option<Option<SeriesId>>> {
    for mut run in runs(meta) {
        while !run.is_empty() {
            let middle = SeriesId(run.start + (run.end - run.start) / 2);
            let value = view.get(&key::forward_index(bucket, middle)).await?;
            let Some(Ok(record)) = value.map(|value| forward_index::decode(&value)) else {
                return Ok(None);
            };
            match record.labels.cmp(labels) {
                // A later run may have the series that came after its deletion.
                Ordering::Equal if erased.has(middle) => break,
                Ordering::Equal => return Ok(Some(Some(middle))),
                Ordering::Less => run.start = middle.0 + 1,
                Ordering::Greater => run.end = middle.0,
            }
        }
    }
    Ok(Some(None))
}

/// The id of a label set in a bucket, by dictionary and forward index.
async fn look_up(
    view: &View,
    bucket: Bucket,
    erased: ErasedIds<'_>,
    labels: &Labels,
) -> Result<Option<SeriesId>> {
    let Some(value) = view
        .get(&key::series_dictionary(bucket, labels.fingerprint()))
        .await?
    else {
        return Ok(None);
    };
    let ids = series_dictionary::decode(&value)
        .map_err(Error::corrupt(format!("dictionary of bucket {bucket}")))?;
    for id in ids.into_iter().filter(|id| !erased.has(*id)) {
        let Some(value) = view.get(&key::forward_index(bucket, id)).await? else {
            continue;
        };
        let record = forward_index::decode(&value);
        if record.is_ok_and(|record| record.labels == *labels) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_begin_where_label_order_does() {
        let check = |by_id: &[(u32, usize)], expected: &[u32]| {
            let by_id = by_id.iter().map(|(id, place)| (SeriesId(*id), *place));
            let starts: Vec<u32> = new_run_starts(SeriesId(5), by_id)
                .iter()
                .map(|s| s.0)
                .collect();
            assert_eq!(starts, expected);
        };
        check(&[(5, 0), (6, 1), (7, 2)], &[5]);
        // Two flushes were cut short before this one: three runs.
        check(&[(5, 1), (6, 3), (7, 0), (8, 4), (9, 2)], &[5, 7, 9]);
        // An id that this flush knows nothing of.
        check(&[(5, 0), (7, 1)], &[5, 7]);
        check(&[(6, 0)], &[5, 6]);
    }
}
