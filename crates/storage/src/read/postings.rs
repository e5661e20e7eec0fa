//! Which ids of a bucket satisfy matchers.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::{Matcher, ValueLookup};
use icecore_records::tombstones::Tombstones;
use icecore_records::{Bucket, DecodeError, ParsedKey, SeriesId, inverted_index, key};
use roaring::RoaringBitmap;
use slatedb::DbIterator;

use crate::buckets::lease::Lease;
use crate::cache::{BucketCache, ValueList};
use crate::error::{Error, Reason, Result};
use crate::read::Reader;
use crate::slate::fetch::{join_bounded, successor};
use crate::slate::read_view::{ScanKind, View};

/// Values of a label up to which their list is kept: a label with more is not one that regular
/// expressions are for.
const LIST_VALUES_MAX: usize = 1 << 16;

/// Values up to which a walk is shorter than handing it to another thread.
const WALKED_IN_PLACE_MAX: usize = 256;

/// One bucket of a selection: what is known of it, and where the rest is read.
#[derive(Clone)]
pub(crate) struct BucketView {
    pub(crate) bucket: Bucket,
    pub(crate) view: View,
    /// Of one state of the bucket, as its records and its tombstones are.
    pub(crate) cache: Arc<BucketCache>,
    /// What was deleted from it.
    pub(crate) tombstones: Option<Arc<Tombstones>>,
    /// Keeps the bucket from being drained for as long as somebody can read it through this.
    pub(super) _lease: Arc<Lease>,
}

impl BucketView {
    /// The ranges that a series has lost; none, mostly.
    pub(crate) fn lost_by(&self, series: SeriesId) -> Vec<(i64, i64)> {
        let tombstones = self.tombstones.as_ref();
        tombstones.map_or_else(Vec::new, |tombstones| tombstones.ranges_of(series))
    }
}

/// The ids that satisfy all matchers; `all` are the ids there are, for selections that only
/// exclude.
pub(crate) async fn resolve(
    reader: &Reader,
    from: &BucketView,
    matchers: &[Matcher],
    all: u32,
) -> Result<RoaringBitmap> {
    let (mut excluding, mut including): (Vec<_>, Vec<_>) =
        matchers.iter().partition(|matcher| matcher.matches_empty());
    including.sort_by_key(|matcher| cost(matcher));
    excluding.sort_by_key(|matcher| cost(matcher));
    let search = Search { reader, from };
    let mut found: Option<RoaringBitmap> = None;
    for matcher in including {
        let accepted = search.collect(matcher, true).await?;
        let both = match found {
            Some(found) => found & accepted,
            None => accepted,
        };
        if both.is_empty() {
            return Ok(both);
        }
        found = Some(both);
    }
    let mut found = found.unwrap_or_else(|| (0..all).collect());
    for matcher in excluding {
        if found.is_empty() {
            break;
        }
        found -= search.collect(matcher, false).await?;
    }
    Ok(found)
}

/// Cheap matchers first: they may leave nothing for the expensive ones.
fn cost(matcher: &Matcher) -> usize {
    match matcher.lookup() {
        ValueLookup::Literals(values) => values.len(),
        ValueLookup::Prefix(_) => 1 << 20,
        ValueLookup::All | ValueLookup::NonEmpty | ValueLookup::Scan => 1 << 30,
    }
}

struct Search<'s> {
    reader: &'s Reader,
    from: &'s BucketView,
}

impl Search<'_> {
    /// The ids whose value of the matcher's label it accepts (or refuses).
    async fn collect(&self, matcher: &Matcher, accepts: bool) -> Result<RoaringBitmap> {
        // What a matcher looks up is what it names: what `=` accepts and what `!=` refuses.
        let named = accepts != matcher.is_negative();
        match matcher.lookup() {
            ValueLookup::Literals(values) if named => self.get_all(matcher.name(), values).await,
            ValueLookup::Prefix(prefix) if named => self.filter(matcher, accepts, prefix).await,
            _ => self.filter(matcher, accepts, "").await,
        }
    }

    async fn get_all(&self, name: &str, values: &[String]) -> Result<RoaringBitmap> {
        if let [value] = values {
            return Ok(RoaringBitmap::clone(&*self.get(name, value).await?));
        }
        let mut gets = Vec::with_capacity(values.len());
        for value in values {
            gets.push(self.get(name, value));
        }
        let found = join_bounded(gets, self.reader.context.options.read.concurrent_gets).await?;
        let mut all = RoaringBitmap::new();
        found.iter().for_each(|ids| all |= &**ids);
        Ok(all)
    }

    async fn get(&self, name: &str, value: &str) -> Result<Arc<RoaringBitmap>> {
        let cache = &self.from.cache;
        if let Some(ids) = cache.pair(name, value) {
            return Ok(ids);
        }
        let key = key::inverted_index(self.from.bucket, name, value);
        let ids = match self.from.view.get(&key).await? {
            Some(value) => Arc::new(decode(&key, &value)?),
            None => Arc::default(),
        };
        cache.keep_pair(name, value, &ids);
        Ok(ids)
    }

    /// The ids of the values with a prefix that the matcher accepts (or refuses).
    async fn filter(
        &self,
        matcher: &Matcher,
        accepts: bool,
        prefix: &str,
    ) -> Result<RoaringBitmap> {
        let cache = &self.from.cache;
        if let Some(list) = cache.list(matcher.name(), prefix) {
            return self.walk(list, matcher, accepts).await;
        }
        let mut records = self.scan(matcher.name(), prefix).await?;
        let mut found = RoaringBitmap::new();
        let mut list = ValueList::new();
        while let Some(record) = records
            .next()
            .await
            .map_err(Error::store("reading postings"))?
        {
            let parsed =
                ParsedKey::parse(&record.key).map_err(|cause| corrupt(&record.key, cause))?;
            let ParsedKey::InvertedIndex { value, .. } = parsed else {
                continue;
            };
            let wanted = matcher.matches(&value) == accepts;
            if !wanted && list.len() > LIST_VALUES_MAX {
                continue;
            }
            let ids = Arc::new(decode(&record.key, &record.value)?);
            if wanted {
                found |= &*ids;
            }
            if list.len() <= LIST_VALUES_MAX {
                list.push((value.into(), ids));
            }
        }
        if list.len() <= LIST_VALUES_MAX {
            list.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            cache.keep_list(matcher.name(), prefix, &Arc::new(list));
        }
        Ok(found)
    }

    async fn walk(
        &self,
        list: Arc<ValueList>,
        matcher: &Matcher,
        accepts: bool,
    ) -> Result<RoaringBitmap> {
        if list.len() <= WALKED_IN_PLACE_MAX {
            return Ok(walk(&list, matcher, accepts));
        }
        let matcher = matcher.clone();
        let walk = move || walk(&list, &matcher, accepts);
        self.reader.context.pool.run(walk).await
    }

    async fn scan(&self, name: &str, prefix: &str) -> Result<DbIterator> {
        let first = key::inverted_index(self.from.bucket, name, prefix);
        let end = successor(&first);
        let range = (
            Bound::Included(first),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        );
        self.from.view.scan(range, ScanKind::Cached).await
    }
}

fn walk(list: &ValueList, matcher: &Matcher, accepts: bool) -> RoaringBitmap {
    let mut found = RoaringBitmap::new();
    for (value, ids) in list {
        if matcher.matches(value) == accepts {
            found |= &**ids;
        }
    }
    found
}

fn decode(key: &Bytes, value: &Bytes) -> Result<RoaringBitmap> {
    inverted_index::decode(value).map_err(|cause| corrupt(key, cause))
}

/// Names the record that cannot be read.
pub(super) fn corrupt(key: &Bytes, cause: DecodeError) -> Error {
    let name = ParsedKey::parse(key).map_or_else(|_| format!("{key:?}"), |key| key.to_string());
    Error::Corrupt(Reason::caused(name, cause))
}
