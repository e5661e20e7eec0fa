//! Lists of records for people to look at: numbered, the newest ones, up to limits of their number,
//! bytes and age.
//!
//! Holds always:
//! - Only numbers, sizes and times of entries are in memory. Their records, which may have
//!   payloads, are read a few at a time, when they are asked for.
//! - The age of an entry is by the guarded clock.
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

/// The field of a record with the guarded time at which it was listed, in milliseconds.
pub(super) const LISTED_MS: &str = "listed_ms";

/// The limits of a list; the oldest entries go.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListLimits {
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

/// An entry of a list, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) number: u64,
    /// Of its record.
    bytes: usize,
    listed_ms: i64,
}

/// The entries of a list.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    key: fn(u64) -> Vec<u8>,
    /// In the order of their numbers, which grow.
    listed: VecDeque<Listed>,
    bytes: usize,
    last: u64,
}

impl Entries {
    /// The entries that are stored. Those that do not say when they were listed count from now.
    pub(super) async fn load(
        snapshot: &dyn EventSnapshot,
        key: fn(u64) -> Vec<u8>,
        mut keys: Range<Vec<u8>>,
        guarded_ms: i64,
    ) -> Result<Self, StoreError> {
        let mut listed = VecDeque::new();
        loop {
            let records = snapshot.records(keys.clone(), READ_AT_ONCE).await?;
            let read = records.iter().filter_map(|(key, value)| {
                Some(Listed {
                    number: catalog_key::read_listed(key)?,
                    bytes: value.len(),
                    listed_ms: listed_ms(value).unwrap_or(guarded_ms),
                })
            });
            listed.extend(read);
            match records.last() {
                Some((last, _)) if records.len() == READ_AT_ONCE => {
                    keys.start = catalog_key::only(last.clone()).end;
                }
                _ => break,
            }
        }
        Ok(Self {
            key,
            last: listed.back().map_or(0, |last: &Listed| last.number),
            bytes: listed.iter().map(|entry| entry.bytes).sum(),
            listed,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// The changes that add entries and remove the oldest beyond the limits, and what they remove.
    pub(super) fn add(
        &mut self,
        values: Vec<Vec<u8>>,
        listed_ms: i64,
        limits: ListLimits,
    ) -> (Vec<CatalogChange>, Vec<Listed>) {
        let mut changes = Vec::new();
        let surplus = values.len().saturating_sub(limits.entries);
        for value in values.into_iter().skip(surplus) {
            self.last += 1;
            self.bytes += value.len();
            self.listed.push_back(Listed {
                number: self.last,
                bytes: value.len(),
                listed_ms,
            });
            changes.push(CatalogChange {
                key: (self.key)(self.last),
                value: Some(value),
            });
        }
        let added = changes.len();
        let mut removed = Vec::new();
        while self.listed.len() > limits.entries
            // What has just come stays, however large it is.
            || (self.bytes > limits.bytes && self.listed.len() > added)
        {
            removed.extend(self.pop_oldest());
        }
        changes.extend(removed.iter().map(|entry| self.removed(entry.number)));
        (changes, removed)
    }

    /// The changes that remove entries listed before a time, and what they remove.
    pub(super) fn expire(&mut self, before_ms: i64) -> (Vec<CatalogChange>, Vec<Listed>) {
        let mut removed = Vec::new();
        while let Some(oldest) = self.listed.front()
            && oldest.listed_ms < before_ms
        {
            removed.extend(self.pop_oldest());
        }
        let changes = removed.iter().map(|entry| self.removed(entry.number));
        (changes.collect(), removed)
    }

    fn pop_oldest(&mut self) -> Option<Listed> {
        let oldest = self.listed.pop_front()?;
        self.bytes -= oldest.bytes;
        Some(oldest)
    }

    /// Lists entries again whose removal may have failed.
    pub(super) fn put_back(&mut self, removed: &[Listed]) {
        for entry in removed {
            if let Err(at) = self.place_of(entry.number) {
                self.listed.insert(at, *entry);
                self.bytes += entry.bytes;
            }
        }
    }

    /// The change that removes an entry, and the entry if it was listed.
    pub(super) fn remove(&mut self, number: u64) -> (CatalogChange, Option<Listed>) {
        let at = self.place_of(number).ok();
        let entry = at.and_then(|at| self.listed.remove(at));
        self.bytes -= entry.map_or(0, |entry| entry.bytes);
        (self.removed(number), entry)
    }

    fn place_of(&self, number: u64) -> Result<usize, usize> {
        self.listed
            .binary_search_by_key(&number, |entry| entry.number)
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
        let from = self.listed.partition_point(|entry| entry.number <= number);
        let until = self.listed.len().min(from + READ_AT_ONCE);
        let keys = self.keys(from..until)?;
        Some((keys, self.listed.get(until - 1)?.number))
    }

    /// Keys of the newest entries that are older than a number, at most so many.
    fn newest_below(&self, number: Option<u64>, limit: usize) -> Option<Range<Vec<u8>>> {
        let until = number.map_or(self.listed.len(), |number| {
            self.listed.partition_point(|entry| entry.number < number)
        });
        let from = until.saturating_sub(limit.min(READ_AT_ONCE));
        self.keys(from..until)
    }

    fn keys(&self, places: Range<usize>) -> Option<Range<Vec<u8>>> {
        let last = places
            .end
            .checked_sub(1)
            .filter(|last| *last >= places.start)?;
        let (first, last) = (self.listed.get(places.start)?, self.listed.get(last)?);
        Some((self.key)(first.number)..catalog_key::only((self.key)(last.number)).end)
    }
}

/// When a record was listed, as it says.
fn listed_ms(value: &[u8]) -> Option<i64> {
    let record: serde_json::Value = serde_json::from_slice(value).ok()?;
    record[LISTED_MS].as_i64()
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
