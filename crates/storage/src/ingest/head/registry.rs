//! From label bytes to series references: the part of the head that every request walks through.
//!
//! ```text
//! label bytes ─ guess: same bytes as the successor of the last series? ─► reference
//!             └ lookup: seeded XXH3-128 in a sharded table ─────────────► reference
//!             └ neither: a new series, created under the sequencer (`super::append`)
//! ```
//!
//! Holds always:
//! - References are dense and given out in arrival order, so a scrape's order is memory order.
//! - A known series is found by a 128-bit hash with a secret seed, without comparing labels: an
//!   attacker cannot aim at a collision, and chance needs 2^64 series.
//! - The main table knows each series by its canonical bytes (sorted, no empty values); other
//!   encodings of the same labels are aliases.
//! - References are only reused while no request is under way (the head's gate).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use hashbrown::{HashMap, HashTable};
use parking_lot::RwLock;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Index of a series in the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SeriesRef(pub(crate) u32);

/// Series per page of the tables that are indexed by reference.
pub(crate) const PAGE_SERIES: usize = 1024;

/// References that can exist at once: the hard cap on series in the head.
pub(crate) const SERIES_REFS_MAX: usize = PAGE_SERIES * PAGES_MAX;

const PAGES_MAX: usize = 1 << 16;
const SHARDS: usize = 64;

/// Aliases per series that are remembered at most; others are resolved by parsing.
const ALIASES_PER_SHARD_MAX: usize = 1 << 17;

/// Hash of the label bytes of a series, with this process' seed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LabelHash(u128);

pub(crate) struct Registry {
    seed: u64,
    pages: Box<[OnceLock<Box<[Identity]>>]>,
    shards: Box<[RwLock<Shard>]>,
}

#[derive(Default)]
struct Shard {
    by_canonical: HashTable<u32>,
    aliases: HashMap<u128, u32>,
}

/// How a series is recognised. Atomics only so that a guess may read while a slot is reused; a torn
/// read cannot match a 128-bit hash.
#[derive(Default)]
struct Identity {
    hash_low: AtomicU64,
    hash_high: AtomicU64,
    /// Length of the canonical label bytes; 0 for an unused reference.
    length: AtomicU32,
    /// The series that followed this one last time, plus one; 0: none seen yet.
    successor: AtomicU32,
}

impl Registry {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            pages: (0..PAGES_MAX).map(|_| OnceLock::new()).collect(),
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, bytes: &[u8]) -> LabelHash {
        LabelHash(xxh3_128_with_seed(bytes, self.seed))
    }

    /// Whether `bytes` begins with the labels of the series that follows `last`.
    #[inline]
    pub(crate) fn guess(
        &self,
        last: Option<SeriesRef>,
        bytes: &[u8],
    ) -> Option<(SeriesRef, usize)> {
        let next = match last {
            Some(last) => match self.identity(last)?.successor.load(Relaxed) {
                0 => last.0 + 1,
                successor => successor - 1,
            },
            None => 0,
        };
        let candidate = SeriesRef(next);
        let identity = self.identity(candidate)?;
        let length = identity.length.load(Relaxed) as usize;
        if length == 0 || length > bytes.len() {
            return None;
        }
        (identity.hash() == self.hash(&bytes[..length])).then_some((candidate, length))
    }

    #[inline]
    pub(crate) fn lookup(&self, hash: LabelHash) -> Option<SeriesRef> {
        let shard = self.shard(hash).read();
        let found = shard
            .by_canonical
            .find(hash.0 as u64, |r| self.is(*r, hash));
        // An alias may outlive its series for a while.
        let alias = || shard.aliases.get(&hash.0).filter(|r| self.is_used(**r));
        found.or_else(alias).map(|r| SeriesRef(*r))
    }

    /// Remembers that `next` follows `last` in what clients send.
    #[inline]
    pub(crate) fn link(&self, last: SeriesRef, next: SeriesRef) {
        if let Some(identity) = self.identity(last) {
            identity.successor.store(next.0 + 1, Relaxed);
        }
    }

    /// Enters a new series under its canonical bytes.
    pub(crate) fn insert(&self, series: SeriesRef, hash: LabelHash, length: usize) {
        let page = self.pages[series.0 as usize / PAGE_SERIES]
            .get_or_init(|| (0..PAGE_SERIES).map(|_| Identity::default()).collect());
        let identity = &page[series.0 as usize % PAGE_SERIES];
        identity.hash_low.store(hash.0 as u64, Relaxed);
        identity.hash_high.store((hash.0 >> 64) as u64, Relaxed);
        identity.successor.store(0, Relaxed);
        identity.length.store(length as u32, Relaxed);
        let mut shard = self.shard(hash).write();
        shard
            .by_canonical
            .insert_unique(hash.0 as u64, series.0, |r| self.hash_low(*r));
    }

    /// Remembers another encoding of the labels of a series.
    pub(crate) fn insert_alias(&self, series: SeriesRef, hash: LabelHash) {
        let mut shard = self.shard(hash).write();
        if shard.aliases.len() >= ALIASES_PER_SHARD_MAX {
            shard.aliases.clear();
        }
        shard.aliases.insert(hash.0, series.0);
    }

    /// Forgets series. The caller holds the gate, so nobody carries their references. What clients
    /// sent otherwise than canonically is left to [`Registry::remove_aliases`], a walk over all of
    /// it.
    pub(crate) fn remove(&self, removed: &[SeriesRef]) {
        for series in removed {
            let Some(identity) = self.identity(*series) else {
                continue;
            };
            let hash = identity.hash();
            let mut shard = self.shard(hash).write();
            let entry = shard
                .by_canonical
                .find_entry(hash.0 as u64, |r| *r == series.0);
            if let Ok(entry) = entry {
                entry.remove();
            }
            identity.length.store(0, Relaxed);
        }
    }

    /// Forgets other encodings of series that are forgotten, before their references are reused.
    pub(crate) fn remove_aliases(&self, removed: &[SeriesRef]) {
        let removed: std::collections::HashSet<u32> = removed.iter().map(|r| r.0).collect();
        for shard in &self.shards {
            shard
                .write()
                .aliases
                .retain(|_, series| !removed.contains(series));
        }
    }

    #[inline]
    fn identity(&self, series: SeriesRef) -> Option<&Identity> {
        let page = self.pages.get(series.0 as usize / PAGE_SERIES)?.get()?;
        Some(&page[series.0 as usize % PAGE_SERIES])
    }

    fn shard(&self, hash: LabelHash) -> &RwLock<Shard> {
        &self.shards[(hash.0 >> 122) as usize % SHARDS]
    }

    fn is(&self, series: u32, hash: LabelHash) -> bool {
        self.identity(SeriesRef(series))
            .is_some_and(|identity| identity.hash() == hash)
    }

    fn is_used(&self, series: u32) -> bool {
        self.identity(SeriesRef(series))
            .is_some_and(|identity| identity.length.load(Relaxed) != 0)
    }

    fn hash_low(&self, series: u32) -> u64 {
        self.identity(SeriesRef(series))
            .map_or(0, |identity| identity.hash_low.load(Relaxed))
    }
}

impl Identity {
    #[inline]
    fn hash(&self) -> LabelHash {
        let high = u128::from(self.hash_high.load(Relaxed)) << 64;
        LabelHash(high | u128::from(self.hash_low.load(Relaxed)))
    }
}
