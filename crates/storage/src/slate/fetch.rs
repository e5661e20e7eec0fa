//! Records of many series: neighbours with one scan, scattered ones with concurrent gets.

use std::ops::Bound;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use icecore_records::SeriesId;

use super::read_view::{ScanKind, View};
use crate::error::{Error, Result};

/// Ids missing between two wanted ones up to which a scan goes on: reading past a record costs
/// about 2 µs, a get of its own 20 to 35.
const GAP_MAX: u32 = 12;

/// Neighbours from which a scan pays: opening one costs about as much as four gets.
const SCAN_MIN: usize = 5;

/// A record found, with the id from its key and what follows the id in the key.
pub(crate) struct FetchedRecord {
    pub(crate) id: SeriesId,
    /// 0 for the record under the plain key, else the byte behind the id.
    pub(crate) suffix: u8,
    pub(crate) value: Bytes,
}

/// Reads the records of `ids` (ascending) under `key_of(id)`, with `suffixes` also those under that
/// key plus one byte. Order is that of ids within a scan, otherwise arbitrary.
pub(crate) async fn fetch(
    view: &View,
    ids: &[u32],
    key_of: impl Fn(SeriesId) -> Bytes + Copy + Send + Sync,
    suffixes: bool,
    concurrent_gets: usize,
) -> Result<Vec<FetchedRecord>> {
    let groups = ids.chunk_by(|a, b| b - a <= GAP_MAX + 1);
    let mut reads = Vec::new();
    for group in groups {
        reads.push(fetch_group(view, group, key_of, suffixes));
    }
    let found = join_bounded(reads, concurrent_gets).await?;
    Ok(found.into_iter().flatten().collect())
}

async fn fetch_group(
    view: &View,
    ids: &[u32],
    key_of: impl Fn(SeriesId) -> Bytes + Copy,
    suffixes: bool,
) -> Result<Vec<FetchedRecord>> {
    if ids.len() >= SCAN_MIN || suffixes {
        scan(view, ids, key_of, suffixes).await
    } else {
        get_each(view, ids, key_of).await
    }
}

async fn get_each(
    view: &View,
    ids: &[u32],
    key_of: impl Fn(SeriesId) -> Bytes,
) -> Result<Vec<FetchedRecord>> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let id = SeriesId(*id);
        if let Some(value) = view.get(&key_of(id)).await? {
            found.push(FetchedRecord {
                id,
                suffix: 0,
                value,
            });
        }
    }
    Ok(found)
}

async fn scan(
    view: &View,
    ids: &[u32],
    key_of: impl Fn(SeriesId) -> Bytes,
    suffixes: bool,
) -> Result<Vec<FetchedRecord>> {
    let (Some(first), Some(last)) = (ids.first(), ids.last()) else {
        return Ok(Vec::new());
    };
    let start = key_of(SeriesId(*first));
    let plain_len = start.len();
    // Everything under the last id, whatever follows it in the key.
    let mut end = key_of(SeriesId(*last)).to_vec();
    end.push(0xff);
    let range = (Bound::Included(start), Bound::Included(Bytes::from(end)));
    let mut records = view.scan(range, ScanKind::Cached).await?;
    let mut found = Vec::with_capacity(ids.len());
    let mut wanted = ids.iter().copied().peekable();
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading records"))?
    {
        let Some(id) = id_of(&record.key, plain_len) else {
            continue;
        };
        while wanted.peek().is_some_and(|next| *next < id) {
            wanted.next();
        }
        let suffix = record.key.get(plain_len).copied().unwrap_or(0);
        if wanted.peek() == Some(&id) && (suffixes || suffix == 0) {
            found.push(FetchedRecord {
                id: SeriesId(id),
                suffix,
                value: record.value,
            });
        }
    }
    Ok(found)
}

/// The id is the last four bytes of a plain key.
fn id_of(key: &[u8], plain_len: usize) -> Option<u32> {
    let bytes = key.get(plain_len.checked_sub(4)?..plain_len)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Runs futures with at most `concurrent` of them under way; results are in order.
pub(crate) async fn join_bounded<T, F: Future<Output = Result<T>>>(
    futures: Vec<F>,
    concurrent: usize,
) -> Result<Vec<T>> {
    stream::iter(futures)
        .buffered(concurrent.max(1))
        .try_collect()
        .await
}

/// The first key that does not begin with `prefix`.
pub(crate) fn successor(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key.into())
}
