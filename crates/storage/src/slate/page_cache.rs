//! The cache of decoded pages of SlateDB's files: blocks, indexes, filters and statistics.
//!
//! ```text
//! fetch ─► shard of the key ─ hit ─► entry, now the most recently used
//!             └ miss ─► one load per key at a time, a task of its own ─► shard, all its waiters
//! ```
//!
//! Holds always:
//! - A shard has at most its part of the capacity, or one entry that is larger than that.
//! - The least recently used entries go first.
//! - A load goes on when its fetches are dropped or not polled: it waits for no caller.
//! - A load that fails, fails for all its waiters at once. SlateDB reads without the cache then.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use lru::LruCache;
use parking_lot::Mutex;
use slatedb::Error;
use slatedb::db_cache::{CacheFetch, CacheLoader, CachedEntry, CachedKey, DbCache};
use tokio::sync::oneshot;

/// The number of shards. Each has its part of the capacity; with few, one large index still fits.
const SHARDS: usize = 4;

/// Bytes that an entry takes besides its value: the key, the links of the list, the slot of the
/// table, the counters of shared pointers.
const ENTRY_OVERHEAD: usize = 256;

/// The outcome of a load, for each of its waiters.
type Load = Shared<BoxFuture<'static, Result<CachedEntry, Arc<str>>>>;

/// A bounded cache that shares loads between concurrent fetches of one key.
pub(crate) struct PageCache {
    state: Arc<State>,
}

struct State {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    loads: Mutex<HashMap<CachedKey, Load>>,
}

impl PageCache {
    /// Creates a cache of at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            state: Arc::new(State {
                shards: std::array::from_fn(|_| Mutex::new(Shard::new(capacity / SHARDS))),
                hasher: RandomState::new(),
                loads: Mutex::default(),
            }),
        }
    }

    async fn fetch(&self, key: CachedKey, loader: CacheLoader) -> Result<CacheFetch, Error> {
        if let Some(entry) = self.state.get(&key) {
            return Ok(CacheFetch::hit(entry));
        }
        let (load, new) = {
            let mut loads = self.state.loads.lock();
            // A load that ended since the lookup has left its entry.
            if let Some(entry) = self.state.get(&key) {
                return Ok(CacheFetch::hit(entry));
            }
            match loads.get(&key) {
                Some(load) => (load.clone(), None),
                None => {
                    let (load, listed) = self.state.new_load(key.clone());
                    loads.insert(key, load.clone());
                    (load, Some(listed))
                }
            }
        };
        let is_new = new.is_some();
        if let Some(listed) = new {
            // Without the lock: a runtime that is being shut down drops the task here.
            tokio::spawn(listed.run(loader));
        }
        match load.await {
            Ok(entry) if is_new => Ok(CacheFetch::miss(entry)),
            Ok(entry) => Ok(CacheFetch::hit(entry)),
            Err(cause) => Err(Error::unavailable(format!("cannot load a page: {cause}"))),
        }
    }
}

impl State {
    fn shard(&self, key: &CachedKey) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    fn get(&self, key: &CachedKey) -> Option<CachedEntry> {
        self.shard(key).lock().entries.get(key).cloned()
    }

    fn insert(&self, key: CachedKey, entry: CachedEntry) {
        let evicted = self.shard(&key).lock().insert(key, entry);
        // Without the lock: a large entry may take the room of hundreds.
        drop(evicted);
    }

    /// Creates the load of a key: what its waiters wait for, and what a task has to run.
    fn new_load(self: &Arc<Self>, key: CachedKey) -> (Load, ListedLoad) {
        let (outcome, waiting) = oneshot::channel();
        let listed = ListedLoad {
            state: Arc::clone(self),
            key,
            outcome: Some(outcome),
        };
        // A receiver whose task has used up its turn would not register its waker, so that a waiter
        // which takes over from a dropped one might never be told.
        let load = tokio::task::unconstrained(waiting).map(|loaded| match loaded {
            Ok(Ok(entry)) => Ok(entry),
            Ok(Err(error)) => Err(Arc::from(error.to_string())),
            Err(_) => Err(Arc::from("a panic, or the end of the process")),
        });
        (load.boxed().shared(), listed)
    }
}

/// A load in the table. It leaves the table when it ends, however it ends, and its waiters are told
/// after that.
struct ListedLoad {
    state: Arc<State>,
    key: CachedKey,
    outcome: Option<oneshot::Sender<Result<CachedEntry, Error>>>,
}

impl ListedLoad {
    async fn run(mut self, loader: CacheLoader) {
        let loaded = loader().await;
        if let Ok(entry) = &loaded {
            self.state.insert(self.key.clone(), entry.clone());
        }
        let outcome = self.outcome.take();
        drop(self);
        if let Some(outcome) = outcome {
            // Nothing waits for it if all fetches were dropped.
            let _ = outcome.send(loaded);
        }
    }
}

impl Drop for ListedLoad {
    fn drop(&mut self) {
        self.state.loads.lock().remove(&self.key);
    }
}

#[async_trait]
impl DbCache for PageCache {
    async fn get_block(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.state.get(key))
    }

    async fn get_index(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.state.get(key))
    }

    async fn get_filter(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.state.get(key))
    }

    async fn get_stats(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.state.get(key))
    }

    async fn insert(&self, key: CachedKey, value: CachedEntry) {
        self.state.insert(key, value);
    }

    async fn remove(&self, key: &CachedKey) {
        self.state.shard(key).lock().remove(key);
    }

    fn entry_count(&self) -> u64 {
        let shards = &self.state.shards;
        let counts = shards.iter().map(|shard| shard.lock().entries.len());
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

    /// Inserts an entry and returns those that had to go for it.
    #[must_use]
    fn insert(&mut self, key: CachedKey, entry: CachedEntry) -> Vec<CachedEntry> {
        let mut evicted = Vec::new();
        self.bytes += bytes_of(&entry);
        if let Some(replaced) = self.entries.put(key, entry) {
            self.bytes -= bytes_of(&replaced);
            evicted.push(replaced);
        }
        // The newest entry stays whatever its size: a page that is read again and again must not be
        // loaded each time.
        while self.bytes > self.capacity && self.entries.len() > 1 {
            let Some((_, oldest)) = self.entries.pop_lru() else {
                break;
            };
            self.bytes -= bytes_of(&oldest);
            evicted.push(oldest);
        }
        evicted
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use slatedb::db_cache::CacheLookup;
    use tokio::sync::Semaphore;

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
            let bytes = held_bytes(&cache);
            assert!(bytes <= room, "{bytes} bytes of {room}");
        }
        let count = cache.entry_count();
        // Shards are not equally full.
        assert!((16..=32).contains(&count), "{count} entries");
        for (key, _) in &pages {
            cache.remove(key).await;
        }
        assert_eq!(cache.entry_count(), 0);
        assert_eq!(held_bytes(&cache), 0);
        assert!(cache.state.loads.lock().is_empty());
    }

    #[tokio::test]
    async fn the_least_recently_used_goes_first() {
        let pages = pages(3).await;
        let mut shard = Shard::new(2 * bytes_of(&pages[0].1) + ENTRY_OVERHEAD);
        let insert = |shard: &mut Shard, at: usize| {
            let (key, entry) = pages[at].clone();
            shard.insert(key, entry).len()
        };
        assert_eq!(insert(&mut shard, 0), 0);
        assert_eq!(insert(&mut shard, 1), 0);
        assert!(shard.entries.get(&pages[0].0).is_some());
        assert_eq!(insert(&mut shard, 2), 1);
        let stays = |key| shard.entries.contains(key);
        assert!(stays(&pages[0].0) && stays(&pages[2].0) && !stays(&pages[1].0));
        // The same again replaces itself.
        let bytes = shard.bytes;
        assert_eq!(insert(&mut shard, 2), 1);
        assert_eq!(shard.bytes, bytes);
    }

    #[tokio::test]
    async fn an_entry_that_is_read_stays_longer() {
        // Of nine pages, three are in one of four shards.
        let pages = pages(9).await;
        let size = bytes_of(&pages[0].1);
        let cache = PageCache::new(SHARDS * (2 * size + ENTRY_OVERHEAD));
        let shards = cache.state.shards.iter();
        let mut by_shard = shards.map(|shard| {
            let is_here = |(key, _): &&_| std::ptr::eq(cache.state.shard(key), shard);
            pages.iter().filter(is_here).collect::<Vec<_>>()
        });
        let of_one = by_shard.find(|pages| pages.len() >= 3).expect("nine pages");
        let get = async |at: usize| cache.get_block(&of_one[at].0).await.expect("a lookup");
        for at in [0, 1] {
            let (key, entry) = of_one[at].clone();
            cache.insert(key, entry).await;
        }
        assert!(get(0).await.is_some());
        let (key, entry) = of_one[2].clone();
        cache.insert(key, entry).await;
        assert!(get(0).await.is_some() && get(1).await.is_none() && get(2).await.is_some());
    }

    #[tokio::test]
    async fn an_entry_larger_than_its_shard_stays_until_the_next() {
        let pages = pages(2).await;
        let mut shard = Shard::new(10);
        for (key, entry) in pages {
            drop(shard.insert(key.clone(), entry));
            assert_eq!(shard.entries.len(), 1);
            assert!(shard.entries.contains(&key));
        }
    }

    fn held_bytes(cache: &PageCache) -> usize {
        let shards = cache.state.shards.iter();
        shards.map(|shard| shard.lock().bytes).sum()
    }

    /// Loads that wait until the test lets them go on.
    #[derive(Clone)]
    struct Gate {
        begun: Arc<AtomicUsize>,
        open: Arc<Semaphore>,
    }

    impl Gate {
        fn new() -> Self {
            Self {
                begun: Arc::default(),
                open: Arc::new(Semaphore::new(0)),
            }
        }

        /// A loader that takes its outcome from `then` once the gate is open.
        fn before(&self, then: CacheLoader) -> CacheLoader {
            let gate = self.clone();
            Box::new(move || {
                Box::pin(async move {
                    gate.begun.fetch_add(1, SeqCst);
                    gate.open.acquire().await.expect("it stays").forget();
                    then().await
                })
            })
        }

        fn open(&self) {
            self.open.add_permits(1);
        }
    }

    /// Starts fetches of one key that share a load, each in a task of its own.
    async fn fetches(
        cache: &Arc<PageCache>,
        key: &CachedKey,
        mut loader: impl FnMut() -> CacheLoader,
    ) -> Vec<tokio::task::JoinHandle<Result<CacheFetch, Error>>> {
        let started: Arc<AtomicUsize> = Arc::default();
        let fetches: Vec<_> = (0..8)
            .map(|_| {
                let (cache, key, loader) = (cache.clone(), key.clone(), loader());
                let started = started.clone();
                tokio::spawn(async move {
                    let mut fetch = std::pin::pin!(cache.fetch_block(key, loader));
                    assert!(futures::poll!(&mut fetch).is_pending());
                    started.fetch_add(1, SeqCst);
                    fetch.await
                })
            })
            .collect();
        while started.load(SeqCst) < fetches.len() {
            tokio::task::yield_now().await;
        }
        fetches
    }

    #[tokio::test]
    async fn fetches_of_one_key_share_a_load() {
        let (key, entry) = pages(1).await.remove(0);
        let cache = Arc::new(PageCache::new(1 << 20));
        let gate = Gate::new();
        let fetches = fetches(&cache, &key, || gate.before(loads(&entry))).await;
        // For as many loads as there are fetches: if there are several, the test counts them.
        fetches.iter().for_each(|_| gate.open());
        let mut misses = 0;
        for fetch in fetches {
            let fetch = fetch.await.expect("no panic").expect("an entry");
            misses += usize::from(fetch.lookup == CacheLookup::Miss);
        }
        assert_eq!((misses, gate.begun.load(SeqCst)), (1, 1));
        assert!(cache.state.loads.lock().is_empty());
    }

    /// With one after the other, the last of many would wait for a store that fails slowly many
    /// times as long.
    #[tokio::test]
    async fn a_load_that_fails_or_panics_fails_for_all_at_once() {
        let (key, entry) = pages(1).await.remove(0);
        let cache = Arc::new(PageCache::new(1 << 20));
        let panics =
            || -> CacheLoader { Box::new(|| Box::pin(async { panic!("a loader's bug") })) };
        for (failing, cause) in [(fails as fn() -> CacheLoader, "broken"), (panics, "panic")] {
            let gate = Gate::new();
            let fetches = fetches(&cache, &key, || gate.before(failing())).await;
            gate.open();
            for fetch in fetches {
                let error = fetch.await.expect("no panic").err().expect("it failed");
                assert!(error.to_string().contains(cause), "{error}");
            }
            assert_eq!(gate.begun.load(SeqCst), 1);
            assert!(cache.state.loads.lock().is_empty());
        }
        let fetch = cache.fetch(key, loads(&entry)).await.expect("an entry");
        assert_eq!(fetch.lookup, CacheLookup::Miss);
    }

    #[tokio::test]
    async fn a_load_goes_on_without_the_fetch_that_began_it() {
        let (key, entry) = pages(1).await.remove(0);
        let cache = Arc::new(PageCache::new(1 << 20));
        for is_dropped in [true, false] {
            let gate = Gate::new();
            let mut first = cache.fetch(key.clone(), gate.before(loads(&entry))).boxed();
            assert!(futures::poll!(&mut first).is_pending());
            // From here on it is not polled.
            let first = (!is_dropped).then_some(first);
            gate.open();
            let second = cache.fetch(key.clone(), fails()).await;
            assert_eq!(second.expect("an entry").lookup, CacheLookup::Hit);
            drop(first);
            assert!(cache.state.loads.lock().is_empty());
            cache.remove(&key).await;
        }
    }

    /// Tasks that are still polled while a runtime ends must not keep it from ending.
    #[test]
    fn a_load_fails_when_its_runtime_has_ended() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (key, entry) = runtime.block_on(pages(1)).remove(0);
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        let cache = PageCache::new(1 << 20);
        let _ended = handle.enter();
        // A worker drops the task that it does not run any more, soon.
        let fetch = futures::executor::block_on(cache.fetch(key, loads(&entry)));
        let error = fetch.err().expect("no load");
        assert!(
            error.to_string().contains("the end of the process"),
            "{error}"
        );
        assert!(cache.state.loads.lock().is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_at_once_leave_nothing_behind() {
        let pages = Arc::new(pages(16).await);
        let cache = Arc::new(PageCache::new(8 * bytes_of(&pages[0].1)));
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let (pages, cache) = (pages.clone(), cache.clone());
                tokio::spawn(async move {
                    for step in 0..500 {
                        let (key, entry) = &pages[(step * 7 + task * 3) % pages.len()];
                        let fetch = cache.fetch(key.clone(), loads(entry)).await;
                        assert_eq!(fetch.expect("an entry").entry.size(), entry.size());
                        if step % 50 == 0 {
                            cache.remove(key).await;
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        assert!(cache.state.loads.lock().is_empty());
        for shard in &cache.state.shards {
            let shard = shard.lock();
            let held = shard.entries.iter().map(|(_, entry)| bytes_of(entry));
            assert_eq!(held.sum::<usize>(), shard.bytes);
            assert!(shard.bytes <= shard.capacity || shard.entries.len() == 1);
        }
    }
}
