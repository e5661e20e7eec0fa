//! Reads records of the catalog: what the head has of them, then what the store has.

use std::iter::Peekable;
use std::ops::{Bound, Range};
use std::vec;

use icecore_model::CatalogRecord;
use icecore_records::{ParsedKey, key};

use crate::error::{Error, Result};
use crate::ingest::head::{Head, PendingRecord};
use crate::slate::read_view::{ScanKind, View};

/// Records with these keys in key order, at most `limit`.
///
/// The head is copied first: a flush in between shows a record twice, which is resolved, and cannot
/// hide one.
pub(crate) async fn catalog_records(
    head: &Head,
    view: &View,
    keys: Range<Vec<u8>>,
    limit: usize,
) -> Result<Vec<CatalogRecord>> {
    let (Some(first), Some(end)) = (
        key::catalog_record(&keys.start),
        key::catalog_record(&keys.end),
    ) else {
        return Err(Error::Invalid(
            "a range of the catalog outside of its records".into(),
        ));
    };
    let mut changes = head.catalog.read().range(keys).into_iter().peekable();
    let mut found: Vec<CatalogRecord> = Vec::new();
    if first >= end {
        return Ok(found);
    }
    let range = (Bound::Included(first), Bound::Excluded(end));
    let mut stored = view.scan(range, ScanKind::Cached).await?;
    while found.len() < limit
        && let Some(record) = stored
            .next()
            .await
            .map_err(Error::store("reading the catalog"))?
    {
        let Ok(ParsedKey::CatalogRecord { key }) = ParsedKey::parse(&record.key) else {
            continue;
        };
        take_before(&mut changes, &key, &mut found);
        if let Some((key, change)) = changes.next_if(|(changed, _)| *changed == key) {
            found.extend(change.value.map(|value| (key, value)));
        } else {
            found.push((key, record.value.to_vec()));
        }
    }
    let rest = changes.filter_map(|(key, change)| Some((key, change.value?)));
    found.extend(rest);
    found.truncate(limit);
    Ok(found)
}

/// Takes the changes of records that the store does not have, up to a key.
fn take_before(
    changes: &mut Peekable<vec::IntoIter<(Vec<u8>, PendingRecord)>>,
    key: &[u8],
    found: &mut Vec<CatalogRecord>,
) {
    while let Some((new, change)) = changes.next_if(|(changed, _)| changed.as_slice() < key) {
        found.extend(change.value.map(|value| (new, value)));
    }
}
