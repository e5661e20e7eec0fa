//! The cache of decoded pages of SlateDB's files: blocks, indexes, filters and statistics.
//!
//! ```text
//! fetch ─► shard of the key ─ hit ─► entry, now the most recently used
//!             └ miss ─► one load per key at a time; the others wait for its entry ─► shard
//! ```
//!
//! Holds always:
//! - A shard has at most its part of the capacity, or one entry that is larger than that.
//! - The least recently used entries go first.
//! - A load that fails or is cancelled passes to the next waiter, which runs its own loader.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use async_trait::async_trait;
use lru::LruCache;
use parking_lot::Mutex;
use slatedb::Error;
use slatedb::db_cache::{CacheFetch, CacheLoader, CachedEntry, CachedKey, DbCache};
use tokio::sync::OnceCell;

/// The number of shards. Each has its part of the capacity; with few, one large index still fits.
const SHARDS: usize = 4;

/// Bytes that an entry takes besides its value: the key, the links of the list, the slot of the
/// table.
const ENTRY_OVERHEAD: usize = 128;

/// A bounded cache that shares loads between concurrent fetches of one key.
pub(crate) struct PageCache {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    loads: Mutex<HashMap<CachedKey, Arc<OnceCell<CachedEntry>>>>,
}

impl PageCache {
    /// Creates a cache of at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(Shard::new(capacity / SHARDS))),
            hasher: RandomState::new(),
            loads: Mutex::default(),
        }
    }

    fn shard(&self, key: &CachedKey) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    fn get(&self, key: &CachedKey) -> Option<CachedEntry> {
        self.shard(key).lock().entries.get(key).cloned()
    }

    async fn fetch(&self, key: CachedKey, loader: CacheLoader) -> Result<CacheFetch, Error> {
        if let Some(entry) = self.get(&key) {
            return Ok(CacheFetch::hit(entry));
        }
        let load = Load::join(self, key);
        // A load that ended since the lookup has left its entry.
        if let Some(entry) = self.get(&load.key) {
            return Ok(CacheFetch::hit(entry));
        }
        let mut loaded = false;
        let load_it = || {
            loaded = true;
            loader()
        };
        let entry = load.cell.get_or_try_init(load_it).await?.clone();
        if !loaded {
            return Ok(CacheFetch::hit(entry));
        }
        let shard = self.shard(&load.key);
        shard.lock().insert(load.key.clone(), entry.clone());
        Ok(CacheFetch::miss(entry))
    }
}

#[async_trait]
impl DbCache for PageCache {
    async fn get_block(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.get(key))
    }

    async fn get_index(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.get(key))
    }

    async fn get_filter(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.get(key))
    }

    async fn get_stats(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.get(key))
    }

    async fn insert(&self, key: CachedKey, value: CachedEntry) {
        self.shard(&key).lock().insert(key, value);
    }

    async fn remove(&self, key: &CachedKey) {
        self.shard(key).lock().remove(key);
    }

    fn entry_count(&self) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.lock().entries.len());
        counts.sum::<usize>() as u64
    }

    async fn fetch_block(&self, key: CachedKey, load: CacheLoader) -> Result<CacheFetch, Error> {
        self.fetch(key, load).await
    }

    async fn fetch_index(&self, key: CachedKey, load: CacheLoader) -> Result<CacheFetch, Error> {
        self.fetch(key, load).await
    }

    async fn fetch_filter(&self, key: CachedKey, load: CacheLoader) -> Result<CacheFetch, Error> {
        self.fetch(key, load).await
    }

    async fn fetch_stats(&self, key: CachedKey, load: CacheLoader) -> Result<CacheFetch, Error> {
        self.fetch(key, load).await
    }
}

/// Entries in the order of their last use, and their size.
struct Shard {
    entries: LruCache<CachedKey, CachedEntry>,
    bytes: usize,
    capacity: usize,
}

impl Shard {
    fn new(capacity: usize) -> Self {
        Self {
            entries: LruCache::unbounded(),
            bytes: 0,
            capacity,
        }
    }

    fn insert(&mut self, key: CachedKey, entry: CachedEntry) {
        self.bytes += bytes_of(&entry);
        if let Some(replaced) = self.entries.put(key, entry) {
            self.bytes -= bytes_of(&replaced);
        }
        // The newest entry stays whatever its size: a page that is read again and again must not be
        // loaded each time.
        while self.bytes > self.capacity && self.entries.len() > 1 {
            let Some((_, evicted)) = self.entries.pop_lru() else {
                return;
            };
            self.bytes -= bytes_of(&evicted);
        }
    }

    fn remove(&mut self, key: &CachedKey) {
        if let Some(removed) = self.entries.pop(key) {
            self.bytes -= bytes_of(&removed);
        }
    }
}

fn bytes_of(entry: &CachedEntry) -> usize {
    entry.size() + ENTRY_OVERHEAD
}

/// A share in the load of one key. The last share to go takes the load out of the table, also when
/// its fetch is cancelled.
struct Load<'a> {
    cache: &'a PageCache,
    key: CachedKey,
    cell: Arc<OnceCell<CachedEntry>>,
}

impl<'a> Load<'a> {
    fn join(cache: &'a PageCache, key: CachedKey) -> Self {
        let cell = cache.loads.lock().entry(key.clone()).or_default().clone();
        Self { cache, key, cell }
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        let mut loads = self.cache.loads.lock();
        // Under the lock, so that of two shares that go at once one sees that it is the last.
        drop(std::mem::take(&mut self.cell));
        let is_last = |cell: &Arc<_>| Arc::strong_count(cell) == 1;
        if loads.get(&self.key).is_some_and(is_last) {
            loads.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use slatedb::db_cache::CacheLookup;
    use tokio::sync::Notify;

    use super::*;

    // Keys and entries can only be made by SlateDB, so they are taken from a database that reads
    // through a cache which notes them.
    struct Seen(Mutex<Vec<(CachedKey, CachedEntry)>>);

    #[async_trait]
    impl DbCache for Seen {
        async fn get_block(&self, _: &CachedKey) -> Result<Option<CachedEntry>, Error> {
            Ok(None)
        }

        async fn get_index(&self, _: &CachedKey) -> Result<Option<CachedEntry>, Error> {
            Ok(None)
        }

        async fn get_filter(&self, _: &CachedKey) -> Result<Option<CachedEntry>, Error> {
            Ok(None)
        }

        async fn get_stats(&self, _: &CachedKey) -> Result<Option<CachedEntry>, Error> {
            Ok(None)
        }

        async fn insert(&self, key: CachedKey, value: CachedEntry) {
            self.0.lock().push((key, value));
        }

        async fn remove(&self, _: &CachedKey) {}

        fn entry_count(&self) -> u64 {
            0
        }
    }

    /// Returns `count` pages of about four kilobytes with different keys.
    async fn pages(count: usize) -> Vec<(CachedKey, CachedEntry)> {
        let seen = Arc::new(Seen(Mutex::default()));
        let store = Arc::new(slatedb::object_store::memory::InMemory::new());
        let db = slatedb::Db::builder("pages", store)
            .with_db_cache(seen.clone(), 0)
            .build()
            .await
            .expect("an empty database");
        let value = [7; 4_096];
        for number in 0..count {
            db.put(number.to_be_bytes(), value).await.expect("a put");
        }
        let options = slatedb::config::FlushOptions {
            flush_type: slatedb::config::FlushType::MemTable,
        };
        db.flush_with_options(options).await.expect("a flush");
        for number in 0..count {
            db.get(number.to_be_bytes()).await.expect("a value");
        }
        db.close().await.expect("an end");
        let mut pages: HashMap<CachedKey, CachedEntry> = HashMap::new();
        pages.extend(seen.0.lock().drain(..));
        let blocks = pages.into_iter().filter(|(_, entry)| entry.size() > 4_000);
        let blocks: Vec<_> = blocks.take(count).collect();
        assert_eq!(blocks.len(), count, "a block for each value");
        blocks
    }

    fn loads(entry: &CachedEntry) -> CacheLoader {
        let entry = entry.clone();
        Box::new(move || Box::pin(async move { Ok(entry) }))
    }

    fn fails() -> CacheLoader {
        Box::new(|| Box::pin(async { Err(Error::invalid("broken".into())) }))
    }

    #[tokio::test]
    async fn entries_are_found_until_their_room_is_needed() {
        let pages = pages(64).await;
        let room = 32 * bytes_of(&pages[0].1);
        let cache = PageCache::new(room);
        for (key, entry) in &pages {
            let fetch = cache.fetch(key.clone(), loads(entry)).await;
            assert_eq!(fetch.expect("an entry").lookup, CacheLookup::Miss);
            let fetch = cache.fetch(key.clone(), fails()).await;
            assert_eq!(fetch.expect("an entry").lookup, CacheLookup::Hit);
            let bytes: usize = cache.shards.iter().map(|shard| shard.lock().bytes).sum();
            assert!(bytes <= room, "{bytes} bytes of {room}");
        }
        let count = cache.entry_count();
        // Shards are not equally full.
        assert!((16..=32).contains(&count), "{count} entries");
        for (key, _) in &pages {
            cache.remove(key).await;
        }
        assert_eq!(cache.entry_count(), 0);
        assert!(cache.shards.iter().all(|shard| shard.lock().bytes == 0));
        assert!(cache.loads.lock().is_empty());
    }

    #[tokio::test]
    async fn the_least_recently_used_goes_first() {
        let pages = pages(3).await;
        let mut shard = Shard::new(2 * bytes_of(&pages[0].1) + ENTRY_OVERHEAD);
        shard.insert(pages[0].0.clone(), pages[0].1.clone());
        shard.insert(pages[1].0.clone(), pages[1].1.clone());
        assert!(shard.entries.get(&pages[0].0).is_some());
        shard.insert(pages[2].0.clone(), pages[2].1.clone());
        let stays = |key| shard.entries.contains(key);
        assert!(stays(&pages[0].0) && stays(&pages[2].0) && !stays(&pages[1].0));
        // The same again replaces itself.
        let bytes = shard.bytes;
        shard.insert(pages[2].0.clone(), pages[2].1.clone());
        assert_eq!(shard.bytes, bytes);
    }

    #[tokio::test]
    async fn an_entry_larger_than_its_shard_stays_until_the_next() {
        let pages = pages(2).await;
        let mut shard = Shard::new(10);
        for (key, entry) in pages {
            shard.insert(key.clone(), entry);
            assert_eq!(shard.entries.len(), 1);
            assert!(shard.entries.contains(&key));
        }
    }

    #[tokio::test]
    async fn fetches_of_one_key_share_a_load() {
        let (key, entry) = pages(1).await.remove(0);
        let cache = Arc::new(PageCache::new(1 << 20));
        let (count, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let fetches: Vec<_> = (0..8)
            .map(|_| {
                let (cache, key, entry) = (cache.clone(), key.clone(), entry.clone());
                let (count, go) = (count.clone(), go.clone());
                let loader: CacheLoader = Box::new(move || {
                    Box::pin(async move {
                        count.fetch_add(1, SeqCst);
                        go.notified().await;
                        Ok(entry)
                    })
                });
                tokio::spawn(async move { cache.fetch(key, loader).await })
            })
            .collect();
        while count.load(SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        go.notify_one();
        let mut misses = 0;
        for fetch in fetches {
            let fetch = fetch.await.expect("no panic").expect("an entry");
            misses += usize::from(fetch.lookup == CacheLookup::Miss);
        }
        assert_eq!((misses, count.load(SeqCst)), (1, 1));
        assert!(cache.loads.lock().is_empty());
    }

    #[tokio::test]
    async fn a_load_that_fails_or_is_cancelled_leaves_it_to_the_next() {
        let (key, entry) = pages(1).await.remove(0);
        let cache = Arc::new(PageCache::new(1 << 20));
        assert!(cache.fetch(key.clone(), fails()).await.is_err());
        assert!(cache.loads.lock().is_empty());

        let never: CacheLoader = Box::new(|| Box::pin(std::future::pending()));
        let stuck = {
            let (cache, key) = (cache.clone(), key.clone());
            tokio::spawn(async move { cache.fetch(key, never).await })
        };
        while cache.loads.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        let next = {
            let (cache, key, loader) = (cache.clone(), key.clone(), loads(&entry));
            tokio::spawn(async move { cache.fetch(key, loader).await })
        };
        stuck.abort();
        let fetch = next.await.expect("no panic").expect("an entry");
        assert_eq!(fetch.lookup, CacheLookup::Miss);
        assert!(stuck.await.is_err());
        assert!(cache.loads.lock().is_empty());
    }
}
