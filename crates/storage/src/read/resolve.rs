//! Which series a selection has, and where each of them lies.
//!
//! Holds always:
//! - One entry per label set, in label order, whatever number of buckets has it.
//! - When everything is in the cache, one task on the CPU pool does all of it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use icecore_model::rollup::{RollupChoice, WindowFields};
use icecore_model::{Labels, Matcher, MemoryBudget, Reservation, RolledTime, SelectHints};
use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::{Bucket, SeriesId, forward_index, key};
use roaring::RoaringBitmap;

use super::postings::{BucketView, corrupt, resolve};
use super::presence::{is_cut, present};
use super::unite::{UNION_ENTRY_BYTES, Union};
use crate::buckets::LeasedBuckets;
use crate::cache::PartCopy;
use crate::cache::ReadCache;
use crate::error::{Error, Result};
use crate::ingest::head::{HeadSelection, SeriesLabels, SeriesRef};
use crate::read::{ClassLevels, LeasedLevels, Reader};
use crate::slate::fetch::join_bounded;
use crate::slate::fetch::{FetchedRecord, fetch};
use crate::slate::read_view::View;

/// Series whose selection is small work, a few milliseconds at most.
const SMALL_SERIES: usize = 16 << 10;

/// Buckets that are resolved at once.
pub(super) const CONCURRENT_BUCKETS: usize = 8;

/// A consistent view with the series that match.
#[derive(Default)]
pub(crate) struct Resolution {
    /// Oldest first.
    pub(super) buckets: Vec<(BucketView, BucketMeta)>,
    /// In label order.
    pub(crate) series: Vec<ResolvedSeries>,
    pub(crate) labels: SeriesLabels,
    /// Where the series are stored, one series after the other, oldest bucket first.
    pub(super) stored: Vec<StoredAt>,
    pub(super) head_parts: Vec<PartCopy>,
    /// Whether what the parts decode to is kept in the cache.
    pub(super) keeps_head: bool,
    pub(super) levels: ClassLevels,
    /// What all of it takes from the query's memory.
    pub(super) _held: Option<Reservation>,
}

pub(crate) struct ResolvedSeries {
    /// Its reference in the head and its parts among [`Resolution::head_parts`].
    pub(super) head: Option<(SeriesRef, Range<u32>)>,
    /// Its places among [`Resolution::stored`].
    pub(super) stored: Range<u32>,
}

#[derive(Clone, Copy)]
pub(super) struct StoredAt {
    /// Index of the bucket.
    pub(super) bucket: u32,
    pub(super) id: SeriesId,
}

/// Ids of one bucket, with their labels as far as they are known.
pub(super) struct Matching {
    pub(super) from: BucketView,
    pub(super) meta: BucketMeta,
    pub(super) ids: Vec<u32>,
    pub(super) labels: Vec<Option<Labels>>,
    /// Memory that the ids take until they are united.
    _held: Option<Reservation>,
}

impl Matching {
    /// Some ids of the same bucket. Their memory is counted by `found`.
    pub(super) fn of(found: &Self, ids: Vec<u32>) -> Self {
        Self {
            from: found.from.clone(),
            meta: found.meta.clone(),
            ids,
            labels: Vec::new(),
            _held: None,
        }
    }

    /// Leaves out series without samples in the hours of a range.
    async fn retain_present(&mut self, reader: &Arc<Reader>, range_ms: (i64, i64)) -> Result<()> {
        if !self.ids.is_empty() && is_cut(self.from.bucket, range_ms) {
            let ids = std::mem::take(&mut self.ids).into_iter().collect();
            let found = present(reader, (&self.from, &self.meta), &ids, range_ms).await?;
            self.ids = found.iter().collect();
        }
        Ok(())
    }

    /// Finds labels in the cache; whether those are all.
    pub(super) fn look_up_labels(&mut self) -> bool {
        let mut missing = false;
        let (ids, labels) = (self.ids.iter().copied(), &mut self.labels);
        labels.reserve(ids.len());
        self.from.cache.labels.get_many(ids, |known| {
            missing |= known.is_none();
            labels.push(known.cloned());
        });
        !missing
    }
}

/// Bytes that a series of a bucket takes while series are united: its id and its labels here, its
/// entry in the union, sorted, and its place in the end.
const UNITING_BYTES: usize =
    size_of::<u32>() + size_of::<Option<Labels>>() + UNION_ENTRY_BYTES + size_of::<StoredAt>();

/// The memory of whoever asks, if it is limited.
pub(super) type Memory = Option<Arc<MemoryBudget>>;

pub(super) fn reserve(memory: &Memory, bytes: usize) -> Result<Option<Reservation>> {
    let held = memory.as_ref().map(|memory| memory.reserve(bytes));
    Ok(held.transpose()?)
}

/// Resolves matchers over head and buckets.
pub(crate) async fn resolve_series(
    reader: &Arc<Reader>,
    matchers: &[Matcher],
    range_ms: (i64, i64),
    hints: &SelectHints,
) -> Result<Resolution> {
    let (choice, fields) = match hints.rolled {
        RolledTime::Samples => (RollupChoice::default(), WindowFields::NONE),
        RolledTime::Windows(choice, fields) => (choice, fields),
    };
    let (in_head, head_held, levels, views) = loop {
        let merges = reader.buckets.merges();
        let head_hours = reader.head_hours();
        let (in_head, held) = select_in_head(reader, matchers, range_ms, hints).await?;
        reader.context.pauses.pass("select.head").await;
        let LeasedLevels { leased, levels } =
            reader.lease(&head_hours, range_ms, (&choice, fields));
        let views = views_of(reader, &leased)?;
        if reader.buckets.merges() == merges {
            break (in_head, held, levels, views);
        }
    };
    let mut searches = Vec::with_capacity(views.len());
    for view in views {
        searches.push(match_bucket(reader, view, matchers, &hints.memory));
    }
    let mut found = Found {
        cache: Arc::clone(reader.buckets.cache()),
        in_head,
        matching: join_bounded(searches, CONCURRENT_BUCKETS).await?,
        series_max: reader.context.options.read.series_max,
        limit: hints.series_limit.unwrap_or(usize::MAX),
        memory: hints.memory.clone(),
        levels,
        _head_held: head_held,
    };
    found.check_count(found.matching.iter().map(|m| m.ids.len()).max())?;
    if hints.labels_only {
        // Samples say for themselves whether they are in the range.
        for matching in &mut found.matching {
            matching.retain_present(reader, range_ms).await?;
        }
    }
    let is_small = found.series() <= SMALL_SERIES;
    let look_up = move || {
        // Labels and postings were added, which selections without samples would do for ever.
        found.cache.make_room();
        if found.look_up_labels() {
            found.unite().map(LabelLookup::All)
        } else {
            Ok(LabelLookup::Some(found))
        }
    };
    let mut found = match reader.context.pool.run_small(is_small, look_up).await?? {
        LabelLookup::All(resolved) => return Ok(resolved),
        LabelLookup::Some(found) => found,
    };
    let mut reads = Vec::with_capacity(found.matching.len());
    for matching in &mut found.matching {
        reads.push(read_labels(reader, matching));
    }
    join_bounded(reads, CONCURRENT_BUCKETS).await?;
    reader.context.pool.run(move || found.unite()).await?
}

/// What the head has of a selection, and the memory that it takes.
async fn select_in_head(
    reader: &Arc<Reader>,
    matchers: &[Matcher],
    range_ms: (i64, i64),
    hints: &SelectHints,
) -> Result<(HeadSelection, Option<Reservation>)> {
    let (wanted, labels_only) = (matchers.to_vec(), hints.labels_only);
    let (head, cache) = (reader.head.clone(), Arc::clone(reader.buckets.cache()));
    let memory = hints.memory.clone();
    let select = move || {
        let found = head.map(|head| head.select(&wanted, range_ms, labels_only, &cache));
        let found = found.unwrap_or_default();
        let held = reserve(&memory, found.heap_bytes())?;
        Ok::<_, Error>((found, held))
    };
    let in_memory = reader
        .head
        .as_ref()
        .map_or(0, |head| head.series.load(Relaxed));
    let is_small = in_memory <= SMALL_SERIES;
    reader.context.pool.run_small(is_small, select).await?
}

/// Buckets with what is known of them, all of one moment.
pub(crate) fn views_of(reader: &Reader, leased: &LeasedBuckets) -> Result<Vec<BucketView>> {
    let buckets = &leased.buckets;
    let pin = || {
        // Before the snapshot: it shows records that were cleaned if the tombstones are gone.
        let tombstones: Vec<_> = buckets
            .iter()
            .map(|b| reader.buckets.tombstones().of(*b))
            .collect();
        Ok::<_, Error>((tombstones, reader.context.engine.snapshot()?))
    };
    let ((tombstones, view), caches) = reader.buckets.cache().pin(buckets, pin)?;
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

/// The ids of a bucket that match. The labels come later.
pub(super) async fn match_bucket(
    reader: &Reader,
    from: BucketView,
    matchers: &[Matcher],
    memory: &Memory,
) -> Result<Matching> {
    let meta = bucket_meta_of(&from).await?;
    let mut ids: RoaringBitmap = resolve(reader, &from, matchers, meta.next_series_id).await?;
    if let Some(tombstones) = &from.tombstones {
        ids -= &tombstones.erased;
    }
    let held = reserve(memory, ids.len() as usize * UNITING_BYTES)?;
    Ok(Matching {
        from,
        meta,
        ids: ids.iter().collect(),
        labels: Vec::new(),
        _held: held,
    })
}

pub(crate) async fn bucket_meta_of(from: &BucketView) -> Result<BucketMeta> {
    if let Some(meta) = from.cache.meta.get() {
        return Ok(meta.clone());
    }
    let meta = read_bucket_meta(&from.view, from.bucket).await?;
    Ok(from.cache.meta.get_or_init(|| meta).clone())
}

async fn read_bucket_meta(view: &View, bucket: Bucket) -> Result<BucketMeta> {
    let key = key::bucket_meta(bucket);
    match view.get(&key).await? {
        Some(value) => bucket_meta::decode(&value).map_err(|cause| corrupt(&key, cause)),
        None => Err(Error::Corrupt(
            format!("bucket {} is listed but has no BucketMeta", bucket.start).into(),
        )),
    }
}

enum LabelLookup {
    All(Resolution),
    /// Labels have to be read first.
    Some(Found),
}

/// Reads the labels that are not known from the forward index.
pub(super) async fn read_labels(reader: &Reader, found: &mut Matching) -> Result<()> {
    let missing = found.ids.iter().zip(&found.labels);
    let missing = missing.filter(|(_, labels)| labels.is_none());
    let missing: Vec<u32> = missing.map(|(id, _)| *id).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (bucket, gets) = (
        found.from.bucket,
        reader.context.options.read.concurrent_gets,
    );
    let key_of = move |id| key::forward_index(bucket, id);
    let mut records = fetch(&found.from.view, &missing, key_of, false, gets).await?;
    let (cache, shared) = (
        Arc::clone(&found.from.cache),
        Arc::clone(reader.buckets.cache()),
    );
    let decode = move || {
        records.sort_unstable_by_key(|record| record.id);
        let mut sets = Vec::with_capacity(records.len());
        for FetchedRecord { id, value, .. } in records {
            let labels = forward_index::label_bindings(&value)
                .and_then(forward_index::decode_bindings)
                .map_err(|cause| corrupt(&key_of(id), cause))?;
            sets.push((id.0, labels));
        }
        shared.label_sets.share(sets.iter_mut().map(|(_, l)| l));
        cache.labels.insert_many(sets.iter().cloned());
        Ok::<_, Error>(sets)
    };
    let mut read = reader
        .context
        .pool
        .run(decode)
        .await??
        .into_iter()
        .peekable();
    for (id, labels) in found.ids.iter().zip(&mut found.labels) {
        if labels.is_none() {
            // Without a forward record it is no series: an interrupted flush may leave postings.
            *labels = read.next_if(|(read, _)| read == id).map(|(_, l)| l);
        }
    }
    Ok(())
}

/// What was found, before it is united.
struct Found {
    cache: Arc<ReadCache>,
    in_head: HeadSelection,
    matching: Vec<Matching>,
    series_max: usize,
    /// Series of the answer.
    limit: usize,
    memory: Memory,
    levels: ClassLevels,
    /// Memory of what was copied from the head.
    _head_held: Option<Reservation>,
}

impl Found {
    /// Finds labels in the cache; whether those are all.
    fn look_up_labels(&mut self) -> bool {
        let mut missing = false;
        for found in &mut self.matching {
            missing |= !found.look_up_labels();
        }
        !missing
    }

    /// Series that were found, those of several buckets several times.
    fn series(&self) -> usize {
        let stored: usize = self.matching.iter().map(|found| found.ids.len()).sum();
        self.in_head.series.len() + stored
    }

    fn check_count(&self, series: Option<usize>) -> Result<()> {
        if series.is_some_and(|series| series > self.series_max) {
            Err(too_many(self.series_max))
        } else {
            Ok(())
        }
    }

    fn unite(self) -> Result<Resolution> {
        self.check_count(Some(self.in_head.series.len()))?;
        let keeps_head =
            (self.cache).has_room_for(self.in_head.parts.iter().map(PartCopy::decoded_bytes).sum());
        let (memory, levels) = (self.memory.clone(), self.levels.clone());
        let resolved = if self.matching.iter().all(|found| found.ids.is_empty()) {
            self.only_head(keeps_head)
        } else {
            self.head_and_buckets(keeps_head)?
        };
        let held = reserve(&memory, resolved.heap_bytes())?;
        Ok(Resolution {
            levels,
            _held: held,
            ..resolved
        })
    }

    /// Nothing has to be united.
    fn only_head(self, keeps_head: bool) -> Resolution {
        let HeadSelection {
            series,
            mut labels,
            parts,
        } = self.in_head;
        labels.truncate(self.limit);
        let series = series.into_iter().take(self.limit);
        let series = series.map(|found| ResolvedSeries {
            head: Some((found.series, found.parts)),
            stored: 0..0,
        });
        Resolution {
            buckets: Vec::new(),
            series: series.collect(),
            labels,
            stored: Vec::new(),
            head_parts: parts,
            keeps_head,
            levels: ClassLevels::default(),
            _held: None,
        }
    }

    fn head_and_buckets(self, keeps_head: bool) -> Result<Resolution> {
        let series_max = self.series_max;
        let in_head = self.in_head;
        let mut buckets = Vec::with_capacity(self.matching.len());
        let mut union = Union::new(in_head.labels.into_made());
        for (at, found) in self.matching.into_iter().enumerate() {
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
        let (united, stored) = union.into_series(self.limit);
        let mut labels = Vec::with_capacity(united.len());
        let mut series = Vec::with_capacity(united.len());
        for united in united {
            labels.push(united.labels);
            let head = united.first.map(|at| &in_head.series[at as usize]);
            series.push(ResolvedSeries {
                head: head.map(|found| (found.series, found.parts.clone())),
                stored: united.others,
            });
        }
        let stored_at = |(bucket, id)| StoredAt {
            bucket,
            id: SeriesId(id),
        };
        Ok(Resolution {
            buckets,
            series,
            labels: SeriesLabels::Made(labels),
            stored: stored.into_iter().map(stored_at).collect(),
            head_parts: in_head.parts,
            keeps_head,
            levels: ClassLevels::default(),
            _held: None,
        })
    }
}

impl Resolution {
    /// The buckets that a series is in.
    pub(super) fn buckets_of(&self, series: &ResolvedSeries) -> impl Iterator<Item = Bucket> {
        let places = series.stored.start as usize..series.stored.end as usize;
        let places = self.stored[places].iter();
        places.map(|place| self.buckets[place.bucket as usize].0.bucket)
    }

    /// Bytes held, about.
    fn heap_bytes(&self) -> usize {
        let parts: usize = self.head_parts.iter().map(PartCopy::held_bytes).sum();
        parts
            + self.labels.heap_bytes()
            + self.series.capacity() * size_of::<ResolvedSeries>()
            + self.stored.capacity() * size_of::<StoredAt>()
            + self.buckets.capacity() * size_of::<(BucketView, BucketMeta)>()
    }
}

pub(super) fn too_many(series_max: usize) -> Error {
    Error::LimitReached(format!(
        "the selection matches more than {series_max} series (read.series_max)"
    ))
}
