//! Which ids of a bucket satisfy matchers.

use std::ops::Bound;

use bytes::Bytes;
use icecore_model::{Matcher, ValueLookup};
use icecore_records::{Bucket, DecodeError, ParsedKey, inverted_index, key};
use roaring::RoaringBitmap;

use super::join_bounded;
use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};

/// The ids that satisfy all matchers; `all` are the ids there are, for selections that only exclude.
pub(crate) async fn resolve(
    view: &View,
    bucket: Bucket,
    matchers: &[Matcher],
    all: u32,
    concurrent_gets: usize,
) -> Result<RoaringBitmap> {
    let (mut excluding, mut including): (Vec<_>, Vec<_>) =
        matchers.iter().partition(|matcher| matcher.matches_empty());
    including.sort_by_key(|matcher| cost(matcher));
    excluding.sort_by_key(|matcher| cost(matcher));
    let search = Search {
        view,
        bucket,
        concurrent_gets,
    };
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

struct Search<'v> {
    view: &'v View,
    bucket: Bucket,
    concurrent_gets: usize,
}

impl Search<'_> {
    /// The ids whose value of the matcher's label it accepts (or refuses).
    async fn collect(&self, matcher: &Matcher, accepts: bool) -> Result<RoaringBitmap> {
        // What a matcher looks up is what it names: what `=` accepts and what `!=` refuses.
        let named = accepts != matcher.is_negative();
        match matcher.lookup() {
            ValueLookup::Literals(values) if named => self.get_all(matcher.name(), values).await,
            ValueLookup::Prefix(prefix) if named => self.scan(matcher, accepts, prefix).await,
            _ => self.scan(matcher, accepts, "").await,
        }
    }

    async fn get_all(&self, name: &str, values: &[String]) -> Result<RoaringBitmap> {
        let mut gets = Vec::with_capacity(values.len());
        for value in values {
            gets.push(self.get(key::inverted_index(self.bucket, name, value)));
        }
        let found = join_bounded(gets, self.concurrent_gets).await?;
        Ok(found
            .into_iter()
            .fold(RoaringBitmap::new(), |all, some| all | some))
    }

    async fn get(&self, key: Bytes) -> Result<RoaringBitmap> {
        match self.view.get(&key).await? {
            Some(value) => decode(&key, &value),
            None => Ok(RoaringBitmap::new()),
        }
    }

    async fn scan(&self, matcher: &Matcher, accepts: bool, prefix: &str) -> Result<RoaringBitmap> {
        let first = key::inverted_index(self.bucket, matcher.name(), prefix);
        let end = successor(&first);
        let range = (
            Bound::Included(first),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let mut records = self.view.scan(range, ScanKind::Cached).await?;
        let mut found = RoaringBitmap::new();
        while let Some(record) = records
            .next()
            .await
            .map_err(Error::store("reading postings"))?
        {
            let parsed =
                ParsedKey::parse(&record.key).map_err(|cause| corrupt(&record.key, cause))?;
            if let ParsedKey::InvertedIndex { value, .. } = parsed
                && matcher.matches(&value) == accepts
            {
                found |= decode(&record.key, &record.value)?;
            }
        }
        Ok(found)
    }
}

fn decode(key: &Bytes, value: &Bytes) -> Result<RoaringBitmap> {
    inverted_index::decode(value).map_err(|cause| corrupt(key, cause))
}

/// Names the record that cannot be read.
pub(super) fn corrupt(key: &Bytes, cause: DecodeError) -> Error {
    let name = ParsedKey::parse(key).map_or_else(|_| format!("{key:?}"), |key| key.to_string());
    Error::Corrupt(format!("{name}: {cause}"))
}

/// The first key that does not begin with `prefix`.
pub(super) fn successor(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key.into())
}
