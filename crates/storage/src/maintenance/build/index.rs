//! The inverted index of the target: the postings of all sources for a label pair, under new ids.
//!
//! Holds always:
//! - Pairs come in key order. An id that is no series of the target is left out, and so is a pair
//!   without ids.

use std::collections::VecDeque;
use std::ops::Bound;

use bytes::Bytes;
use icecore_records::{Bucket, RecordType, inverted_index, key};
use rayon::prelude::*;
use roaring::RoaringBitmap;

use super::series_map::SeriesMap;
use super::sources::Source;
use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};

/// What a page of a source holds at most.
const PAGE_RECORDS: usize = 2048;
const PAGE_BYTES: usize = 1 << 20;

/// The label pairs of all sources, page by page. A pair is named by what follows the bucket in its
/// key.
pub(super) struct PairMerge {
    cursors: Vec<PairCursor>,
}

struct PairCursor {
    bucket: Bucket,
    /// The last pair that was read.
    after: Bytes,
    done: bool,
    page: VecDeque<(Bytes, Bytes)>,
}

/// The postings of the sources for one pair.
pub(super) struct Pair {
    name: Bytes,
    /// With the number of their source.
    postings: Vec<(usize, Bytes)>,
}

/// A pair of the target.
pub(super) struct NewPair {
    /// What follows the bucket in the key.
    pub(super) name: Bytes,
    pub(super) value: Bytes,
    pub(super) ids: u64,
}

impl PairMerge {
    /// All pairs behind `after`; empty: all.
    pub(super) fn new(sources: &[Source], after: &[u8]) -> Self {
        let cursor = |source: &Source| PairCursor {
            bucket: source.bucket,
            after: Bytes::copy_from_slice(after),
            done: false,
            page: VecDeque::new(),
        };
        Self {
            cursors: sources.iter().map(cursor).collect(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.cursors.iter().all(|c| c.done && c.page.is_empty())
    }

    /// Reads on where nothing is left; returns how many bytes that were.
    pub(super) async fn read(&mut self, view: &View) -> Result<usize> {
        let mut bytes = 0;
        for cursor in &mut self.cursors {
            if cursor.page.is_empty() && !cursor.done {
                bytes += cursor.read(view).await?;
            }
        }
        Ok(bytes)
    }

    /// The pairs that are known to be complete, in order.
    pub(super) fn take(&mut self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        let starves = |c: &PairCursor| c.page.is_empty() && !c.done;
        while !self.cursors.iter().any(starves) {
            let fronts = self.cursors.iter().filter_map(|c| c.page.front());
            let Some(name) = fronts.map(|(name, _)| name).min().cloned() else {
                break;
            };
            let mut postings = Vec::new();
            for (source, cursor) in self.cursors.iter_mut().enumerate() {
                if cursor.page.front().is_some_and(|front| front.0 == name)
                    && let Some((_, value)) = cursor.page.pop_front()
                {
                    postings.push((source, value));
                }
            }
            pairs.push(Pair { name, postings });
        }
        pairs
    }
}

impl PairCursor {
    async fn read(&mut self, view: &View) -> Result<usize> {
        let prefix = key::record_prefix(RecordType::InvertedIndex, self.bucket);
        let mut start = prefix.to_vec();
        start.extend_from_slice(&self.after);
        let start = if self.after.is_empty() {
            Bound::Included(start.into())
        } else {
            Bound::Excluded(start.into())
        };
        let end = Bound::Excluded(end_of(&prefix));
        let mut scan = view.scan((start, end), ScanKind::Once).await?;
        let mut bytes = 0;
        let reading = || Error::store("reading postings");
        self.done = true;
        while let Some(record) = scan.next().await.map_err(reading())? {
            bytes += record.key.len() + record.value.len();
            let name = record.key.slice(prefix.len().min(record.key.len())..);
            self.page.push_back((name, record.value));
            if self.page.len() >= PAGE_RECORDS || bytes >= PAGE_BYTES {
                self.done = false;
                break;
            }
        }
        if let Some((name, _)) = self.page.back() {
            self.after = name.clone();
        }
        Ok(bytes)
    }
}

/// The first key behind all that begin with a segment's prefix.
fn end_of(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            break;
        }
    }
    end.into()
}

/// Unites the postings of pairs under the ids of the target.
pub(super) fn remap(pairs: Vec<Pair>, sources: &[Bucket], map: &SeriesMap) -> Result<Vec<NewPair>> {
    let remapped = pairs.into_par_iter().map(|pair| {
        let mut all = RoaringBitmap::new();
        for (source, value) in &pair.postings {
            let ids = inverted_index::decode(value).map_err(|cause| {
                let name = String::from_utf8_lossy(&pair.name).replace('\0', "=");
                let bucket = sources.get(*source).map(Bucket::to_string);
                let bucket = bucket.unwrap_or_default();
                let what = format!("postings of {name:?} in bucket {bucket}");
                Error::corrupt(what)(cause)
            })?;
            all |= new_ids(&ids, *source, map);
        }
        let value = inverted_index::encode(&mut all);
        if !inverted_index::decode(&value).is_ok_and(|decoded| decoded == all) {
            return Err(Error::Corrupt(
                format!(
                    "postings of {:?} do not decode to what was encoded",
                    pair.name
                )
                .into(),
            ));
        }
        Ok(NewPair {
            name: pair.name,
            value,
            ids: all.len(),
        })
    });
    let mut remapped: Vec<NewPair> = remapped.collect::<Result<_>>()?;
    remapped.retain(|pair| pair.ids > 0);
    Ok(remapped)
}

fn new_ids(ids: &RoaringBitmap, source: usize, map: &SeriesMap) -> RoaringBitmap {
    let mut new: Vec<u32> = ids.iter().filter_map(|id| map.new_id(source, id)).collect();
    // Of one run they are sorted.
    if !new.is_sorted() {
        new.sort_unstable();
    }
    new.dedup();
    RoaringBitmap::from_sorted_iter(new)
        .expect("the ids were just sorted and are without repetitions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postings_are_united_under_new_ids() {
        let map = SeriesMap::of(
            vec![
                vec![Some(4), Some(7), None, Some(1)],
                vec![Some(7), Some(9)],
            ],
            10,
        );
        let posting = |ids: &[u32]| {
            let mut ids: RoaringBitmap = ids.iter().copied().collect();
            inverted_index::encode(&mut ids)
        };
        let name = Bytes::from_static(b"a\0b");
        // Id 2 is no series, id 50 is not known at all.
        let pair = Pair {
            name: name.clone(),
            postings: vec![(0, posting(&[0, 1, 2, 3])), (1, posting(&[0, 50]))],
        };
        let nothing = Pair {
            name,
            postings: vec![(0, posting(&[2]))],
        };
        let found = remap(vec![pair, nothing], &[], &map).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].value, posting(&[1, 4, 7]));
        let broken = Pair {
            name: Bytes::new(),
            postings: vec![(0, Bytes::from_static(b"?"))],
        };
        assert!(remap(vec![broken], &[], &map).is_err());
    }

    #[test]
    fn the_end_of_a_prefix_is_behind_all_of_it() {
        assert_eq!(end_of(b"ab"), "ac");
        assert_eq!(end_of(b"a\xff\xff"), "b");
    }
}
