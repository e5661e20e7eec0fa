//! Series by the text that names them: what was checked once is not checked again.
//!
//! ```text
//! metric and tags as sent ─► label bytes, whose names are valid and whose UIDs are durable
//! ```

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use parking_lot::{RwLock, RwLockReadGuard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of texts and labels that are kept; when there are more, all are forgotten.
const CACHE_BYTES_MAX: usize = 128 << 20;

/// What an entry takes besides its bytes.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// Shared by all requests.
#[derive(Debug)]
pub(crate) struct SeriesCache {
    table: RwLock<SeriesTable>,
}

impl Default for SeriesCache {
    fn default() -> Self {
        // Clients choose the texts: with a random seed they cannot choose ones that collide.
        let seed = RandomState::new().hash_one(0u8);
        Self {
            table: RwLock::new(SeriesTable::new(seed, 0)),
        }
    }
}

impl SeriesCache {
    /// What is known while no name was taken from an id since; otherwise nothing.
    pub(crate) fn read(&self, renames: u64) -> RwLockReadGuard<'_, SeriesTable> {
        let table = self.table.read();
        if table.renames == renames {
            return table;
        }
        drop(table);
        self.table.write().forget(renames);
        self.table.read()
    }

    /// Adds series that are durable.
    pub(crate) fn extend(&self, fresh: SeriesTable) {
        let mut table = self.table.write();
        if table.renames != fresh.renames {
            return;
        }
        for entry in fresh.entries {
            table.insert(entry);
        }
    }

    pub(crate) fn clear(&self) {
        let mut table = self.table.write();
        let renames = table.renames;
        table.forget(renames);
    }

    pub(crate) fn len(&self) -> usize {
        self.table.read().entries.len()
    }
}

#[derive(Debug)]
pub(crate) struct SeriesTable {
    seed: u64,
    /// [`crate::uid::Uids::renames`] when the first entry was made.
    renames: u64,
    entries: HashTable<Entry>,
    bytes: usize,
}

/// A text and its label bytes, one behind the other.
#[derive(Debug)]
struct Entry {
    bytes: Box<[u8]>,
    key_length: usize,
}

impl Entry {
    fn key(&self) -> &[u8] {
        &self.bytes[..self.key_length]
    }

    fn size(&self) -> usize {
        self.bytes.len() + ENTRY_OVERHEAD_BYTES
    }
}

impl SeriesTable {
    fn new(seed: u64, renames: u64) -> Self {
        Self {
            seed,
            renames,
            entries: HashTable::new(),
            bytes: 0,
        }
    }

    /// An empty one that hashes alike.
    pub(crate) fn empty(&self) -> Self {
        Self::new(self.seed, self.renames)
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    /// The label bytes of a text.
    #[inline]
    pub(crate) fn get(&self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        let entry = self.entries.find(hash, |entry| entry.key() == key)?;
        Some(&entry.bytes[entry.key_length..])
    }

    /// Adds a text that is not there yet.
    pub(crate) fn add(&mut self, key: &[u8], labels: &[u8]) {
        self.insert(Entry {
            bytes: [key, labels].concat().into(),
            key_length: key.len(),
        });
    }

    fn insert(&mut self, entry: Entry) {
        let hash = self.hash(entry.key());
        if self.get(hash, entry.key()).is_some() {
            return;
        }
        if self.bytes + entry.size() > CACHE_BYTES_MAX {
            self.forget(self.renames);
        }
        self.bytes += entry.size();
        let seed = self.seed;
        let rehash = |entry: &Entry| xxh3_64_with_seed(entry.key(), seed);
        self.entries.insert_unique(hash, entry, rehash);
    }

    fn forget(&mut self, renames: u64) {
        *self = Self::new(self.seed, renames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_until_a_name_changes() {
        let cache = SeriesCache::default();
        let find = |renames| {
            let table = cache.read(renames);
            let hash = table.hash(b"m host=a");
            table.get(hash, b"m host=a").map(<[u8]>::to_vec)
        };
        assert_eq!(find(0), None);
        let mut fresh = cache.read(0).empty();
        fresh.add(b"m host=a", b"labels");
        cache.extend(fresh);
        assert_eq!(find(0).as_deref(), Some(&b"labels"[..]));
        assert_eq!(cache.len(), 1);
        let mut late = cache.read(0).empty();
        assert_eq!(find(1), None);
        // A request that began before the change.
        late.add(b"m host=a", b"labels");
        cache.extend(late);
        assert_eq!(find(1), None);
    }

    #[test]
    fn a_full_cache_begins_anew() {
        let cache = SeriesCache::default();
        let labels = vec![b'x'; CACHE_BYTES_MAX / 3];
        for key in [b"a", b"b", b"c", b"d"] {
            let mut fresh = cache.read(0).empty();
            fresh.add(key, &labels);
            cache.extend(fresh);
        }
        assert_eq!(cache.len(), 2);
    }
}
