//! Exemplars of the series that match, from head and buckets.
//!
//! Holds always:
//! - The head is copied before the list of buckets is read, as for samples: a flush in between
//!   shows an exemplar twice, and the second one is dropped here.
//! - Labels of a bucket are read only for series that have exemplars in it.
//! - An exemplar is shown for as long as the raw samples of its own series are kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_model::{Exemplar, Labels, Matcher};
use icecore_records::{exemplar_series, forward_index, key};
use roaring::RoaringBitmap;

use super::postings::{BucketView, corrupt, resolve};
use super::resolve::{CONCURRENT_BUCKETS, bucket_meta_of, views_of};
use crate::error::{Error, Result};
use crate::read::Reader;
use crate::slate::fetch::fetch;
use crate::slate::fetch::join_bounded;
use crate::stored::is_lost;

/// What to look for: exemplars from `start_ms` to `end_ms`, both included, of series that match any
/// of the selectors (of all series when there are none).
#[derive(Clone, Debug)]
pub struct ExemplarQuery {
    pub selectors: Vec<Vec<Matcher>>,
    pub start_ms: i64,
    pub end_ms: i64,
}

impl ExemplarQuery {
    fn wants(&self, exemplar: &Exemplar) -> bool {
        (self.start_ms..=self.end_ms).contains(&exemplar.timestamp_ms)
    }

    fn too_many(max: usize) -> Error {
        Error::LimitReached(format!(
            "the selection has more than {max} exemplars (read.exemplars_max)"
        ))
    }
}

/// Series in label order, each with its exemplars in time order.
pub type ExemplarList = Vec<(Labels, Vec<Exemplar>)>;

/// Series in label order, their exemplars in time order, each once. Series without any are left
/// out.
pub(crate) async fn exemplars(reader: &Arc<Reader>, query: ExemplarQuery) -> Result<ExemplarList> {
    let max = reader.context.options.read.exemplars_max;
    let mut query = query;
    let kept_since = reader.buckets.kept_since();
    query.start_ms = query.start_ms.max(kept_since.raw_since_ms());
    if query.selectors.is_empty() {
        query.selectors.push(Vec::new());
    }
    let query = Arc::new(query);
    let in_head = match reader.head.clone() {
        Some(head) => {
            let wanted = Arc::clone(&query);
            let find = move || {
                let keep = |exemplar: &Exemplar| wanted.wants(exemplar);
                head.exemplars(&wanted.selectors, keep, max)
            };
            let found = reader.context.pool.run(find).await?;
            found.ok_or_else(|| ExemplarQuery::too_many(max))?
        }
        None => Vec::new(),
    };
    let leased = reader.buckets.lease(query.start_ms, query.end_ms);
    let mut reads = Vec::with_capacity(leased.buckets.len());
    for view in views_of(reader, &leased)? {
        reads.push(in_bucket(reader, view, &query));
    }
    let in_buckets = join_bounded(reads, CONCURRENT_BUCKETS).await?;
    let unite = move || {
        let found = in_buckets.into_iter().flatten().chain(in_head);
        let kept = found.map(|(labels, mut exemplars)| {
            let since_ms = kept_since.raw_since_ms_of(&labels);
            exemplars.retain(|exemplar| exemplar.timestamp_ms >= since_ms);
            (labels, exemplars)
        });
        unite(kept.filter(|(_, exemplars)| !exemplars.is_empty()), max)
    };
    reader.context.pool.run(unite).await?
}

async fn in_bucket(
    reader: &Reader,
    from: BucketView,
    query: &ExemplarQuery,
) -> Result<ExemplarList> {
    let meta = bucket_meta_of(&from).await?;
    let (view, bucket) = (&from.view, from.bucket);
    if meta.exemplars == 0 {
        return Ok(ExemplarList::new());
    }
    let gets = reader.context.options.read.concurrent_gets;
    let mut ids = RoaringBitmap::new();
    for matchers in &query.selectors {
        ids |= resolve(reader, &from, matchers, meta.next_series_id).await?;
    }
    if let Some(tombstones) = &from.tombstones {
        ids -= &tombstones.erased;
    }
    let ids: Vec<u32> = ids.iter().collect();
    let key_of = |id| key::exemplar_series(bucket, id);
    let mut by_id: BTreeMap<u32, Vec<Exemplar>> = BTreeMap::new();
    let mut count = 0;
    for record in fetch(view, &ids, key_of, false, gets).await? {
        let mut found = exemplar_series::decode(&record.value)
            .map_err(|cause| corrupt(&key_of(record.id), cause))?;
        let lost = from.lost_by(record.id);
        found.retain(|e| query.wants(e) && !is_lost(&lost, e.timestamp_ms));
        count += found.len();
        if count > reader.context.options.read.exemplars_max {
            return Err(ExemplarQuery::too_many(
                reader.context.options.read.exemplars_max,
            ));
        }
        if !found.is_empty() {
            by_id.insert(record.id.0, found);
        }
    }
    let ids: Vec<u32> = by_id.keys().copied().collect();
    let key_of = |id| key::forward_index(bucket, id);
    let mut found = ExemplarList::with_capacity(ids.len());
    for record in fetch(view, &ids, key_of, false, gets).await? {
        let forward = forward_index::decode(&record.value)
            .map_err(|cause| corrupt(&key_of(record.id), cause))?;
        let exemplars = by_id.remove(&record.id.0).unwrap_or_default();
        found.push((forward.labels, exemplars));
    }
    Ok(found)
}

fn unite(parts: impl Iterator<Item = (Labels, Vec<Exemplar>)>, max: usize) -> Result<ExemplarList> {
    let mut by_labels: BTreeMap<Labels, Vec<Exemplar>> = BTreeMap::new();
    for (labels, exemplars) in parts {
        by_labels.entry(labels).or_default().extend(exemplars);
    }
    let mut count = 0;
    for exemplars in by_labels.values_mut() {
        exemplars.sort_unstable_by(exemplar_series::order);
        exemplars.dedup();
        count += exemplars.len();
    }
    if count > max {
        Err(ExemplarQuery::too_many(max))
    } else {
        Ok(by_labels.into_iter().collect())
    }
}
