//! Label names, label values and series, without samples.
//!
//! Time is filtered by the hour: what has a sample in an hour that the range touches is in the
//! answer, whether the hour lies in the head, in a bucket of its own or in a larger one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use hashbrown::HashTable;
use icecore_model::{Labels, Matcher, MemoryBudget, Reservation};
use icecore_records::{ParsedKey, RecordType, inverted_index, key};
use rayon::slice::ParallelSliceMut;
use roaring::RoaringBitmap;
use slatedb::KeyValue;

use super::gather::{Gather, gather};
use super::postings::{BucketView, corrupt};
use super::presence::{is_cut, present};
use super::resolve::{CONCURRENT_BUCKETS, Memory, bucket_meta_of, reserve, views_of};
use crate::error::{Error, Result};
use crate::ingest::head::SeriesLabels;
use crate::read::Reader;
use crate::slate::fetch::successor;
use crate::slate::read_view::ScanKind;

/// Values of a label that a scan for names passes before it is opened anew behind them: reading
/// past a record costs about 2 µs, opening a scan about 100.
const VALUES_PASSED_MAX: usize = 64;

/// What a name or value takes in a set beside its text, about.
const TEXT_BYTES: usize = 64;

/// Series of a name or value that are looked into first, where only one has to have samples.
const FIRST_LOOK: usize = 4;

/// What to look for: series that match any of the selectors (all series when there are none) and
/// have a sample in an hour between `start_ms` and `end_ms`.
#[derive(Clone, Debug, Default)]
pub struct LabelQuery {
    pub selectors: Vec<Vec<Matcher>>,
    pub start_ms: i64,
    pub end_ms: i64,
    /// At most this many results, in order.
    pub limit: Option<usize>,
    /// What is held for the answer is taken from this.
    pub memory: Option<Arc<MemoryBudget>>,
}

impl LabelQuery {
    fn range_ms(&self) -> (i64, i64) {
        (self.start_ms, self.end_ms)
    }

    fn limit(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }
}

/// Label sets in label order; many of them are made as they are asked for.
pub struct SeriesList {
    labels: SeriesLabels,
    held: Option<Reservation>,
}

impl SeriesList {
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn truncate(&mut self, len: usize) {
        self.labels.truncate(len);
    }

    /// Some of them, as far as there are so many.
    pub fn part(&self, places: Range<usize>) -> Vec<Labels> {
        let end = places.end.min(self.len());
        self.labels.of(places.start.min(end)..end)
    }

    /// Every pair with the number of series that have it, in no order.
    pub(crate) fn count_pairs(&self) -> Vec<((&str, &str), u64)> {
        self.labels.count_pairs()
    }

    /// The metrics of series that have a label, each with the number of these, in no order.
    pub(crate) fn count_metrics_with(&self, label: &str) -> Vec<(&str, u64)> {
        self.labels.count_metrics_with(label)
    }

    /// All of them, made.
    pub fn into_labels(self) -> Vec<Labels> {
        drop(self.held);
        self.labels.into_made()
    }
}

/// The series themselves, in label order.
pub(crate) async fn series(reader: &Arc<Reader>, query: &LabelQuery) -> Result<SeriesList> {
    let everything = vec![Vec::new()];
    let selectors = if query.selectors.is_empty() {
        &everything
    } else {
        &query.selectors
    };
    let sets = Sets::default();
    let (sets, mut held) = gather(reader, selectors, query.range_ms(), &query.memory, sets).await?;
    let limit = query.limit();
    let sort = move || {
        let mut labels = sets.into_sorted();
        labels.truncate(limit);
        if let Some(held) = &mut held {
            held.set(labels.heap_bytes())?;
        }
        Ok(SeriesList { labels, held })
    };
    reader.context.pool.run(sort).await?
}

/// Label names in use, sorted.
pub(crate) async fn label_names(reader: &Arc<Reader>, query: &LabelQuery) -> Result<Vec<String>> {
    texts(reader, query, LabelField::Names).await
}

/// Values of a label, sorted.
pub(crate) async fn label_values(
    reader: &Arc<Reader>,
    name: &str,
    query: &LabelQuery,
) -> Result<Vec<String>> {
    texts(reader, query, LabelField::ValuesOf(name.into())).await
}

async fn texts(
    reader: &Arc<Reader>,
    query: &LabelQuery,
    picked: LabelField,
) -> Result<Vec<String>> {
    let texts = Texts {
        picked,
        set: BTreeSet::new(),
        bytes: 0,
    };
    let texts = if query.selectors.is_empty() {
        all_texts(reader, query, texts).await?
    } else {
        let (selectors, memory) = (&query.selectors, &query.memory);
        gather(reader, selectors, query.range_ms(), memory, texts)
            .await?
            .0
    };
    Ok(texts.set.into_iter().take(query.limit()).collect())
}

/// Different label sets.
#[derive(Default)]
struct Sets {
    /// The series of the head, for as long as there is nothing else.
    head: Option<SeriesLabels>,
    sets: HashTable<Labels>,
    bytes: usize,
}

impl Sets {
    /// In label order.
    fn into_sorted(mut self) -> SeriesLabels {
        if self.sets.is_empty() {
            return self.head.take().unwrap_or_default();
        }
        self.take_in_head();
        let mut sets: Vec<Labels> = self.sets.into_iter().collect();
        sets.par_sort_unstable();
        SeriesLabels::Made(sets)
    }

    fn take_in_head(&mut self) {
        if let Some(head) = self.head.take() {
            head.into_made().into_iter().for_each(|l| self.insert(l));
        }
    }

    fn insert(&mut self, labels: Labels) {
        let hash_of = |labels: &Labels| labels.fingerprint() as u64;
        let hash = hash_of(&labels);
        if self.sets.find(hash, |other| *other == labels).is_none() {
            // Its place in the table and in the sorted list.
            self.bytes += labels.heap_bytes() + 4 * size_of::<Labels>();
            self.sets.insert_unique(hash, labels, hash_of);
        }
    }
}

impl Gather for Sets {
    fn add_head(&mut self, labels: SeriesLabels) {
        if self.sets.is_empty() && self.head.is_none() {
            self.head = Some(labels);
            return;
        }
        self.take_in_head();
        labels.into_made().into_iter().for_each(|l| self.insert(l));
    }

    fn is_new(&mut self, labels: &Labels) -> bool {
        self.take_in_head();
        let hash = labels.fingerprint() as u64;
        self.sets.find(hash, |other| other == labels).is_none()
    }

    fn add(&mut self, labels: Labels) {
        self.take_in_head();
        self.insert(labels);
    }

    fn heap_bytes(&self) -> usize {
        self.bytes + self.head.as_ref().map_or(0, SeriesLabels::heap_bytes)
    }

    fn series(&self) -> usize {
        self.sets.len() + self.head.as_ref().map_or(0, SeriesLabels::len)
    }
}

/// What of a label pair is asked for.
#[derive(Clone)]
enum LabelField {
    Names,
    ValuesOf(Box<str>),
}

impl LabelField {
    fn of<'p>(&self, name: &'p str, value: &'p str) -> Option<&'p str> {
        match self {
            Self::Names => Some(name),
            Self::ValuesOf(wanted) => (**wanted == *name).then_some(value),
        }
    }
}

/// Names or values.
struct Texts {
    picked: LabelField,
    set: BTreeSet<String>,
    bytes: usize,
}

impl Texts {
    fn add_text(&mut self, text: &str) {
        if !self.set.contains(text) {
            self.bytes += text.len() + TEXT_BYTES;
            self.set.insert(text.into());
        }
    }
}

impl Gather for Texts {
    fn add_head(&mut self, labels: SeriesLabels) {
        let picked = self.picked.clone();
        labels.each_pair(|name, value| {
            if let Some(text) = picked.of(name, value) {
                self.add_text(text);
            }
        });
    }

    fn is_new(&mut self, labels: &Labels) -> bool {
        let mut texts = labels.iter().filter_map(|(n, v)| self.picked.of(n, v));
        texts.any(|text| !self.set.contains(text))
    }

    fn add(&mut self, labels: Labels) {
        let picked = self.picked.clone();
        let texts = labels.iter().filter_map(|(n, v)| picked.of(n, v));
        texts.for_each(|text| self.add_text(text));
    }

    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

/// Names or values of all series, from the index alone.
async fn all_texts(reader: &Arc<Reader>, query: &LabelQuery, mut texts: Texts) -> Result<Texts> {
    let mut held = reserve(&query.memory, 0)?;
    let mut count = |texts: &Texts| match &mut held {
        Some(held) => held.set(texts.bytes),
        None => Ok(()),
    };
    let (head, range_ms) = (reader.head.clone(), reader.kept(query.range_ms()));
    let of_head = move || {
        let picked = texts.picked.clone();
        let mut add = |name: &str, value: &str| {
            if let Some(text) = picked.of(name, value) {
                texts.add_text(text);
            }
        };
        if let Some(head) = head {
            head.each_pair_in(range_ms.0, range_ms.1, &mut add);
        }
        texts
    };
    let mut texts = reader.context.pool.run(of_head).await?;
    count(&texts)?;
    let leased = reader.lease_finest(range_ms).leased;
    let views = views_of(reader, &leased)?;
    let (cut, whole): (Vec<_>, Vec<_>) =
        (views.into_iter()).partition(|view| is_cut(view.bucket, range_ms));
    let picked = texts.picked.clone();
    let scans = stream::iter(whole).map(|view| scan_whole(view, &picked));
    let mut scans = std::pin::pin!(scans.buffered(CONCURRENT_BUCKETS));
    while let Some(found) = scans.next().await {
        found?.iter().for_each(|text| texts.add_text(text));
        count(&texts)?;
    }
    for view in cut {
        let candidates = scan_cut(&view, &texts, &query.memory).await?;
        let found = with_samples(reader, &view, candidates, range_ms).await?;
        found.iter().for_each(|text| texts.add_text(text));
        count(&texts)?;
    }
    Ok(texts)
}

async fn scan_whole(view: BucketView, picked: &LabelField) -> Result<BTreeSet<String>> {
    match picked {
        LabelField::Names => scan_names(&view).await,
        LabelField::ValuesOf(name) => scan_values(&view, name).await,
    }
}

/// Names or values that only some series of a bucket have, with the ids of these.
struct Candidates {
    ids: BTreeMap<String, RoaringBitmap>,
    _held: Option<Reservation>,
}

/// What the index of a bucket has beside what is known.
async fn scan_cut(from: &BucketView, known: &Texts, memory: &Memory) -> Result<Candidates> {
    let prefix = match &known.picked {
        LabelField::Names => key::record_prefix(RecordType::InvertedIndex, from.bucket),
        LabelField::ValuesOf(name) => key::inverted_label_prefix(from.bucket, name),
    };
    let mut records = from.view.scan_prefix(&prefix, ScanKind::Cached).await?;
    let mut ids: BTreeMap<String, RoaringBitmap> = BTreeMap::new();
    let mut held = reserve(memory, 0)?;
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading label names and values"))?
    {
        let Some((name, value)) = pair_of(&record, from)? else {
            continue;
        };
        let Some(text) = known.picked.of(&name, &value) else {
            continue;
        };
        if known.set.contains(text) {
            continue;
        }
        let found = inverted_index::decode(&record.value);
        let mut found = found.map_err(|cause| corrupt(&record.key, cause))?;
        if let Some(tombstones) = &from.tombstones {
            found -= &tombstones.erased;
        }
        if let Some(held) = &mut held {
            held.grow(text.len() + TEXT_BYTES + found.serialized_size())?;
        }
        *ids.entry(text.into()).or_default() |= found;
    }
    Ok(Candidates { ids, _held: held })
}

/// The candidates of which some series has samples in the hours of a range. A few series of each
/// are looked into first, because that decides most of them.
async fn with_samples(
    reader: &Arc<Reader>,
    from: &BucketView,
    mut candidates: Candidates,
    range_ms: (i64, i64),
) -> Result<Vec<String>> {
    let meta = bucket_meta_of(from).await?;
    let mut look = FIRST_LOOK;
    let mut found = Vec::new();
    while !candidates.ids.is_empty() {
        let mut ids = RoaringBitmap::new();
        for of_text in candidates.ids.values() {
            ids.extend(of_text.iter().take(look));
        }
        let has_samples = present(reader, (from, &meta), &ids, range_ms).await?;
        candidates.ids.retain(|text, left| {
            if !left.is_disjoint(&has_samples) {
                found.push(text.clone());
                return false;
            }
            *left -= &ids;
            !left.is_empty()
        });
        look = look.saturating_mul(16);
    }
    Ok(found)
}

/// Walks from label name to label name: over a few values record by record, over many with a new
/// scan behind them. Not with `DbIterator::seek`: in SlateDB 0.18 it loses the record that follows
/// a merged one.
async fn scan_names(from: &BucketView) -> Result<BTreeSet<String>> {
    let (view, bucket) = (&from.view, from.bucket);
    let all = key::record_prefix(RecordType::InvertedIndex, bucket);
    let end = successor(&all).map_or(Bound::Unbounded, Bound::Excluded);
    let mut names = BTreeSet::new();
    let mut next = Some(all);
    while let Some(start) = next.take() {
        let range = (Bound::Included(start), end.clone());
        let mut records = view.scan(range, ScanKind::Cached).await?;
        let mut of_last_name = Bytes::new();
        let mut passed = 0;
        while let Some(record) = records
            .next()
            .await
            .map_err(Error::store("reading label names"))?
        {
            if !of_last_name.is_empty() && record.key.starts_with(&of_last_name) {
                passed += 1;
                if passed == VALUES_PASSED_MAX {
                    next = successor(&of_last_name);
                    break;
                }
            } else if let Some((name, _)) = pair_of(&record, from)? {
                of_last_name = key::inverted_label_prefix(bucket, &name);
                passed = 0;
                names.insert(name);
            }
        }
    }
    Ok(names)
}

async fn scan_values(from: &BucketView, name: &str) -> Result<BTreeSet<String>> {
    let prefix = key::inverted_label_prefix(from.bucket, name);
    let mut records = from.view.scan_prefix(&prefix, ScanKind::Cached).await?;
    let mut values = BTreeSet::new();
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading label values"))?
    {
        values.extend(pair_of(&record, from)?.map(|(_, value)| value));
    }
    Ok(values)
}

/// The label pair of a record, unless all of its series were deleted.
fn pair_of(record: &KeyValue, from: &BucketView) -> Result<Option<(String, String)>> {
    let Ok(ParsedKey::InvertedIndex { name, value, .. }) = ParsedKey::parse(&record.key) else {
        return Ok(None);
    };
    if let Some(tombstones) = &from.tombstones
        && !tombstones.erased.is_empty()
    {
        let ids = inverted_index::decode(&record.value);
        let ids = ids.map_err(|cause| corrupt(&record.key, cause))?;
        if ids.is_subset(&tombstones.erased) {
            return Ok(None);
        }
    }
    Ok(Some((name, value)))
}
