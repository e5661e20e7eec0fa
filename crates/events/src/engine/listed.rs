//! Lists of records for people to look at: numbered, the newest ones, up to a limit.
//!
//! Holds always:
//! - Only the numbers of entries are in memory. Their records, which may have payloads, are read a
//!   few at a time, when somebody asks for them.
//! - A number is given once, whatever becomes of its write. After a write of unknown outcome the
//!   numbers of what it may have added and of what it may have removed are both listed, so that
//!   nothing that is stored is forgotten; those without a record are left out of pages.

use std::collections::VecDeque;
use std::ops::Range;

use icecore_model::event::EventSnapshot;
use icecore_model::{CatalogChange, CatalogRecord, StoreError};

use crate::catalog_key;

/// Records that are read at once: with the longest payloads some 20 MB.
const READ_AT_ONCE: usize = 64;

/// Bytes of records that one page has, about; it ends before its limit if they are large.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// Some entries, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage<T> {
    pub items: Vec<T>,
    /// Whether older ones follow.
    pub has_more: bool,
}

/// The numbers of the entries of a list.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    key: fn(u64) -> Vec<u8>,
    /// Growing.
    numbers: VecDeque<u64>,
    last: u64,
}

impl Entries {
    /// The entries that are stored.
    pub(super) async fn load(
        snapshot: &dyn EventSnapshot,
        key: fn(u64) -> Vec<u8>,
        mut keys: Range<Vec<u8>>,
    ) -> Result<Self, StoreError> {
        let mut numbers = VecDeque::new();
        loop {
            let records = snapshot.records(keys.clone(), READ_AT_ONCE).await?;
            let listed = records.iter();
            numbers.extend(listed.filter_map(|(key, _)| catalog_key::read_listed(key)));
            match records.last() {
                Some((last, _)) if records.len() == READ_AT_ONCE => {
                    keys.start = catalog_key::only(last.clone()).end;
                }
                _ => break,
            }
        }
        Ok(Self {
            key,
            last: numbers.back().copied().unwrap_or_default(),
            numbers,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The changes that add entries and remove the oldest beyond a limit, and the numbers of what
    /// they remove.
    pub(super) fn add(
        &mut self,
        values: Vec<Vec<u8>>,
        limit: usize,
    ) -> (Vec<CatalogChange>, Vec<u64>) {
        let mut changes = Vec::new();
        let mut removed = Vec::new();
        let surplus = values.len().saturating_sub(limit);
        for value in values.into_iter().skip(surplus) {
            self.last += 1;
            self.numbers.push_back(self.last);
            changes.push(CatalogChange {
                key: (self.key)(self.last),
                value: Some(value),
            });
        }
        while self.numbers.len() > limit {
            if let Some(oldest) = self.numbers.pop_front() {
                changes.push(self.removed(oldest));
                removed.push(oldest);
            }
        }
        (changes, removed)
    }

    /// Lists entries again whose removal may have failed.
    pub(super) fn put_back(&mut self, numbers: &[u64]) {
        for number in numbers {
            if let Err(at) = self.numbers.binary_search(number) {
                self.numbers.insert(at, *number);
            }
        }
    }

    /// The change that removes an entry.
    pub(super) fn remove(&mut self, number: u64) -> CatalogChange {
        if let Ok(at) = self.numbers.binary_search(&number) {
            self.numbers.remove(at);
        }
        self.removed(number)
    }

    fn removed(&self, number: u64) -> CatalogChange {
        CatalogChange {
            key: (self.key)(number),
            value: None,
        }
    }

    /// Keys of the oldest entries that are newer than a number, as many as are read at once, and
    /// the number of the last.
    pub(super) fn oldest_above(&self, number: u64) -> Option<(Range<Vec<u8>>, u64)> {
        let from = self.numbers.partition_point(|known| *known <= number);
        let until = self.numbers.len().min(from + READ_AT_ONCE);
        let keys = self.keys(from..until)?;
        Some((keys, *self.numbers.get(until - 1)?))
    }

    /// Keys of the newest entries that are older than a number, at most so many.
    fn newest_below(&self, number: Option<u64>, limit: usize) -> Option<Range<Vec<u8>>> {
        let until = number.map_or(self.numbers.len(), |number| {
            self.numbers.partition_point(|known| *known < number)
        });
        let from = until.saturating_sub(limit.min(READ_AT_ONCE));
        self.keys(from..until)
    }

    fn keys(&self, places: Range<usize>) -> Option<Range<Vec<u8>>> {
        let last = places
            .end
            .checked_sub(1)
            .filter(|last| *last >= places.start)?;
        let (first, last) = (self.numbers.get(places.start)?, self.numbers.get(last)?);
        Some((self.key)(*first)..catalog_key::only((self.key)(*last)).end)
    }
}

/// A page of a list.
pub(super) async fn read_page<T>(
    snapshot: &dyn EventSnapshot,
    entries: &Entries,
    mut below: Option<u64>,
    limit: usize,
    decode: fn(&CatalogRecord) -> Option<T>,
) -> Result<ListPage<T>, StoreError> {
    let mut items = Vec::new();
    let mut bytes = 0;
    while let Some(keys) = entries.newest_below(below, limit.saturating_sub(items.len())) {
        for record in snapshot
            .records(keys.clone(), READ_AT_ONCE)
            .await?
            .iter()
            .rev()
        {
            if bytes > PAGE_BYTES_MAX {
                return Ok(ListPage {
                    items,
                    has_more: true,
                });
            }
            bytes += record.1.len();
            items.extend(decode(record));
        }
        below = catalog_key::read_listed(&keys.start);
    }
    let has_more = entries.newest_below(below, 1).is_some();
    Ok(ListPage { items, has_more })
}
