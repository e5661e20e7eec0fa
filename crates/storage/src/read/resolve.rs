//! Which series a selection has, and where each of them lies.
//!
//! Holds always:
//! - One entry per label set, in label order, whatever number of buckets has it.
//! - When everything is in the cache, one task on the CPU pool does all of it.

use std::ops::Range;
use std::sync::Arc;

use icecore_model::{Labels, Matcher, SelectHints};
use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::{SeriesId, forward_index, key};
use roaring::RoaringBitmap;

use super::fetch::{Fetched, fetch};
use super::postings::{BucketView, corrupt, resolve};
use super::unite::Union;
use super::{Leased, buckets_in, join_bounded};
use crate::error::{Error, Result};
use crate::head::{HeadSelection, PartCopy, SeriesRef};
use crate::inner::Inner;
use crate::slate::read_view::View;

/// Buckets that are resolved at once.
pub(super) const CONCURRENT_BUCKETS: usize = 8;

/// A consistent view with the series that match.
pub(crate) struct Resolved {
    /// Oldest first.
    pub(super) buckets: Vec<(BucketView, BucketMeta)>,
    /// In label order.
    pub(crate) series: Vec<ResolvedSeries>,
    /// Where the series are stored, one series after the other, oldest bucket first.
    pub(super) stored: Vec<StoredAt>,
    pub(super) head_parts: Vec<PartCopy>,
}

pub(crate) struct ResolvedSeries {
    pub(crate) labels: Labels,
    /// Its reference in the head and its parts among [`Resolved::head_parts`].
    pub(super) head: Option<(SeriesRef, Range<u32>)>,
    /// Its places among [`Resolved::stored`].
    pub(super) stored: Range<u32>,
}

#[derive(Clone, Copy)]
pub(super) struct StoredAt {
    /// Index of the bucket.
    pub(super) bucket: u32,
    pub(super) id: SeriesId,
}

/// Ids of one bucket, with their labels as far as they are known.
struct Matching {
    from: BucketView,
    meta: BucketMeta,
    ids: Vec<u32>,
    labels: Vec<Option<Labels>>,
}

/// Resolves matchers over head and buckets.
pub(crate) async fn resolve_series(
    inner: &Arc<Inner>,
    matchers: &[Matcher],
    range_ms: (i64, i64),
    hints: &SelectHints,
) -> Result<Resolved> {
    let (wanted, labels_only) = (matchers.to_vec(), hints.labels_only);
    let (head, cache) = (Arc::clone(&inner.head), Arc::clone(&inner.cache));
    let in_head = inner
        .pool
        .run(move || head.select(&wanted, range_ms, labels_only, &cache))
        .await?;
    let leased = buckets_in(inner, range_ms.0, range_ms.1);
    let views = views_of(inner, &leased)?;
    let mut searches = Vec::with_capacity(views.len());
    for view in views {
        searches.push(match_bucket(inner, view, matchers));
    }
    let matching = join_bounded(searches, CONCURRENT_BUCKETS).await?;
    let series_max = inner.options.read.series_max;
    if matching.iter().any(|found| found.ids.len() > series_max) {
        return Err(too_many(series_max));
    }
    let limit = hints.series_limit;
    let cache = Arc::clone(&inner.cache);
    let look_up = move || {
        // Labels and postings were added, which selections without samples would do for ever.
        cache.make_room();
        look_up(in_head, matching, series_max, limit)
    };
    let looked_up = inner.pool.run(look_up).await??;
    let (in_head, mut matching) = match looked_up {
        LookedUp::All(resolved) => return Ok(resolved),
        LookedUp::Some(in_head, matching) => (in_head, matching),
    };
    let mut reads = Vec::with_capacity(matching.len());
    for found in &mut matching {
        reads.push(read_labels(inner, found));
    }
    join_bounded(reads, CONCURRENT_BUCKETS).await?;
    let unite = move || unite(in_head, matching, series_max, limit);
    inner.pool.run(unite).await?
}

/// Buckets with what is known of them, all of one moment.
pub(crate) fn views_of(inner: &Inner, leased: &Leased) -> Result<Vec<BucketView>> {
    let buckets = &leased.buckets;
    let pin = || {
        // Before the snapshot: it shows records that were cleaned if the tombstones are gone.
        let tombstones: Vec<_> = buckets.iter().map(|b| inner.tombstones.of(*b)).collect();
        Ok::<_, Error>((tombstones, inner.engine.snapshot()?))
    };
    let ((tombstones, view), caches) = inner.cache.pin(buckets, pin)?;
    let pinned = buckets.iter().zip(tombstones).zip(caches);
    let views = pinned.map(|((bucket, tombstones), cache)| BucketView {
        bucket: *bucket,
        tombstones,
        view: view.clone(),
        cache,
        _lease: Arc::clone(&leased.lease),
    });
    Ok(views.collect())
}

async fn match_bucket(inner: &Inner, from: BucketView, matchers: &[Matcher]) -> Result<Matching> {
    let meta = bucket_meta_of(&from).await?;
    let mut ids: RoaringBitmap = resolve(inner, &from, matchers, meta.next_series_id).await?;
    if let Some(tombstones) = &from.tombstones {
        ids -= &tombstones.erased;
    }
    Ok(Matching {
        from,
        meta,
        ids: ids.iter().collect(),
        labels: Vec::new(),
    })
}

pub(crate) async fn bucket_meta_of(from: &BucketView) -> Result<BucketMeta> {
    if let Some(meta) = from.cache.meta.get() {
        return Ok(meta.clone());
    }
    let meta = read_bucket_meta(&from.view, from.bucket).await?;
    Ok(from.cache.meta.get_or_init(|| meta).clone())
}

async fn read_bucket_meta(view: &View, bucket: icecore_records::Bucket) -> Result<BucketMeta> {
    let key = key::bucket_meta(bucket);
    match view.get(&key).await? {
        Some(value) => bucket_meta::decode(&value).map_err(|cause| corrupt(&key, cause)),
        None => Err(Error::Corrupt(format!(
            "bucket {} is listed but has no BucketMeta",
            bucket.start
        ))),
    }
}

enum LookedUp {
    All(Resolved),
    /// Labels have to be read first.
    Some(HeadSelection, Vec<Matching>),
}

/// Finds labels in the cache and, if those are all, unites the series.
fn look_up(
    in_head: HeadSelection,
    mut matching: Vec<Matching>,
    series_max: usize,
    limit: Option<usize>,
) -> Result<LookedUp> {
    let mut missing = false;
    for found in &mut matching {
        let (ids, labels) = (found.ids.iter().copied(), &mut found.labels);
        labels.reserve(ids.len());
        found.from.cache.labels.get_many(ids, |known| {
            missing |= known.is_none();
            labels.push(known.cloned());
        });
    }
    if missing {
        return Ok(LookedUp::Some(in_head, matching));
    }
    unite(in_head, matching, series_max, limit).map(LookedUp::All)
}

/// Reads the labels that are not known from the forward index.
async fn read_labels(inner: &Inner, found: &mut Matching) -> Result<()> {
    let missing = found.ids.iter().zip(&found.labels);
    let missing = missing.filter(|(_, labels)| labels.is_none());
    let missing: Vec<u32> = missing.map(|(id, _)| *id).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (bucket, gets) = (found.from.bucket, inner.options.read.concurrent_gets);
    let key_of = move |id| key::forward_index(bucket, id);
    let mut records = fetch(&found.from.view, &missing, key_of, false, gets).await?;
    let (cache, shared) = (Arc::clone(&found.from.cache), Arc::clone(&inner.cache));
    let decode = move || {
        records.sort_unstable_by_key(|record| record.id);
        let mut sets = Vec::with_capacity(records.len());
        for Fetched { id, value, .. } in records {
            let labels = forward_index::label_bindings(&value)
                .and_then(forward_index::decode_bindings)
                .map_err(|cause| corrupt(&key_of(id), cause))?;
            sets.push((id.0, labels));
        }
        shared.label_sets.share(sets.iter_mut().map(|(_, l)| l));
        cache.labels.insert_many(sets.iter().cloned());
        Ok::<_, Error>(sets)
    };
    let mut read = inner.pool.run(decode).await??.into_iter().peekable();
    for (id, labels) in found.ids.iter().zip(&mut found.labels) {
        if labels.is_none() {
            // Without a forward record it is no series: an interrupted flush may leave postings.
            *labels = read.next_if(|(read, _)| read == id).map(|(_, l)| l);
        }
    }
    Ok(())
}

fn unite(
    in_head: HeadSelection,
    matching: Vec<Matching>,
    series_max: usize,
    limit: Option<usize>,
) -> Result<Resolved> {
    let mut union = Union::new(in_head.series.iter().map(|series| series.labels.clone()));
    let mut buckets = Vec::with_capacity(matching.len());
    for (at, found) in matching.into_iter().enumerate() {
        let ids = found.ids.into_iter().zip(found.labels);
        union.add(
            at as u32,
            ids.filter_map(|(id, labels)| Some((labels?, id))),
        );
        if union.len() > series_max {
            return Err(too_many(series_max));
        }
        buckets.push((found.from, found.meta));
    }
    if union.len() > series_max {
        return Err(too_many(series_max));
    }
    let (series, stored) = union.into_series(limit.unwrap_or(usize::MAX));
    let series = series.into_iter().map(|united| ResolvedSeries {
        labels: united.labels,
        head: united.first.map(|at| {
            let found = &in_head.series[at as usize];
            (found.series, found.parts.clone())
        }),
        stored: united.others,
    });
    Ok(Resolved {
        series: series.collect(),
        stored: stored
            .into_iter()
            .map(|(bucket, id)| StoredAt {
                bucket,
                id: SeriesId(id),
            })
            .collect(),
        buckets,
        head_parts: in_head.parts,
    })
}

fn too_many(series_max: usize) -> Error {
    Error::LimitReached(format!(
        "the selection matches more than {series_max} series (read.series_max)"
    ))
}
