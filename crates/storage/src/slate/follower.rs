//! Follows the database of another process for as long as somebody asks for it.
//!
//! ```text
//! latest state ─┬ young enough ──────────────► shared
//!               ├ old, nobody reads it ──────► one step: what the writer has added since
//!               └ old, somebody reads it ────► another reader is opened beside it
//! ```
//!
//! Holds always:
//! - A state does not change while somebody has it.
//! - A step that has failed is not taken for one that has found nothing new. SlateDB logs a poll
//!   that fails and stays where it was, so that errors of the store are counted here, and a reader
//!   that has brought nothing for a while is replaced: opening fails where a poll would. A state of
//!   which a part of the log was gone before it was read is none either ([`Reader::settle`]).
//! - Nothing is asked of the store unless somebody asks for a state, and a step reads what is new
//!   alone: opening reads all of the WAL that is not in files yet.
//! - Nothing is written: see [`super::reader`].

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use slatedb::DbReaderMode;
use slatedb::db_cache::DbCache;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::engine::block_and_meta_cache;
use super::first_contact;
use super::health::StoreHealth;
use super::object_store::{OpenedStore, open_store};
use super::observed_store::ObservedStore;
use super::read_view::View;
use super::reader::{OwnedReader, ReaderPosition, has_vanished, open_pinned};
use crate::error::{Error, Result};
use crate::options::StoreOptions;

/// Cache of blocks, and of indexes and filters, of one database. It is another process's business
/// to have what is asked often in memory; here it is for the pages of one query.
const BLOCK_CACHE_BYTES: usize = 32 << 20;
const META_CACHE_BYTES: usize = 16 << 20;

/// States of one database at a time. Who needs a newer one waits for an old one to be given back.
const STATES_MAX: usize = 4;

/// Steps of a reader before another one is opened: each leaves a table of its own in memory until
/// the writer has put its content into a file.
const STEPS_MAX: usize = 128;

/// How long a step may take. Longer ones are given up, with the reader.
const STEP_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a reader may bring nothing new before another one is opened. An instance that gets
/// events writes every few seconds; of one that gets none little is read.
const STANDSTILL_MAX: Duration = Duration::from_secs(60);

/// How often opening is tried while the writer removes files that it needs.
const ATTEMPTS_MAX: u32 = 4;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Follower {
    options: StoreOptions,
    /// There as soon as it could be opened: a directory may be made later.
    opened: OnceLock<OpenedStore>,
    cache: Arc<dyn DbCache>,
    /// What the store has answered, whoever asked.
    health: Arc<StoreHealth>,
    /// How old a state may be when it is handed out.
    age_max: Duration,
    standstill_max: Duration,
    latest: Mutex<Option<Latest>>,
    states: Arc<Semaphore>,
}

struct Latest {
    state: Arc<FollowedState>,
    as_of: Instant,
    steps: usize,
    /// Where the reader was last, and since when it is there.
    position: ReaderPosition,
    reached: Instant,
}

/// A state of a database, for as long as it is held.
pub(crate) struct FollowedState {
    reader: OwnedReader,
    _counted: OwnedSemaphorePermit,
}

impl Follower {
    /// Nothing is asked of the store yet: the database need not be there.
    pub(crate) fn new(options: &StoreOptions, age_max: Duration) -> Self {
        let options = StoreOptions {
            block_cache_bytes: options.block_cache_bytes.min(BLOCK_CACHE_BYTES),
            meta_cache_bytes: options.meta_cache_bytes.min(META_CACHE_BYTES),
            ..options.clone()
        };
        Self {
            cache: block_and_meta_cache(&options),
            options,
            opened: OnceLock::new(),
            health: Arc::default(),
            age_max,
            standstill_max: STANDSTILL_MAX,
            latest: Mutex::default(),
            states: Arc::new(Semaphore::new(STATES_MAX)),
        }
    }

    /// Follows a database on a given store.
    #[cfg(test)]
    pub(super) fn over(
        options: &StoreOptions,
        store: Arc<dyn slatedb::object_store::ObjectStore>,
        age_max: Duration,
    ) -> Self {
        let follower = Self::new(options, age_max);
        let opened = open_store(options, Some(store), false).unwrap();
        let opened = follower.observed(opened);
        assert!(follower.opened.set(opened).is_ok());
        follower
    }

    /// The store that the database lies on.
    pub(crate) fn store(&self) -> Result<&OpenedStore> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = open_store(&self.options, None, false)?;
        Ok(self.opened.get_or_init(|| self.observed(opened)))
    }

    fn observed(&self, opened: OpenedStore) -> OpenedStore {
        let health = Arc::clone(&self.health);
        let observed = ObservedStore::new(opened.store, health, self.options.retries_max);
        OpenedStore {
            store: Arc::new(observed),
            ..opened
        }
    }

    /// A state that is no older than allowed.
    pub(crate) async fn state(&self) -> Result<Arc<FollowedState>> {
        let mut latest = self.latest.lock().await;
        if let Some(known) = latest.as_ref().filter(|l| l.as_of.elapsed() < self.age_max) {
            return Ok(Arc::clone(&known.state));
        }
        let as_of = Instant::now();
        let store = self.store()?;
        // A step that fails leaves the state before it; this tells why.
        if !first_contact::is_there(store, &self.options).await? {
            *latest = None;
            let missing = format!("there is no database at {}", store.location);
            return Err(Error::Invalid(missing.into()));
        }
        if let Some(known) = latest.as_mut() {
            let is_read = Arc::strong_count(&known.state) > 1;
            if !is_read && known.steps < STEPS_MAX && self.step(known, as_of).await {
                return Ok(Arc::clone(&known.state));
            }
        }
        // What nobody reads makes room.
        *latest = None;
        let state = Arc::new(self.open(store).await?);
        *latest = Some(Latest {
            position: state.reader.position(),
            state: Arc::clone(&state),
            as_of,
            reached: as_of,
            steps: 0,
        });
        Ok(state)
    }

    /// Moves on to what the writer has now, if it can be seen that this has worked.
    async fn step(&self, latest: &mut Latest, as_of: Instant) -> bool {
        let errors = self.errors();
        let reader = &latest.state.reader;
        let stepping = async {
            reader.step().await;
            reader.settle().await
        };
        let stepped = timeout(STEP_TIME_MAX, stepping).await;
        if !matches!(stepped, Ok(Ok(()))) || self.errors() != errors {
            return false;
        }
        let position = latest.state.reader.position();
        if position != latest.position {
            (latest.position, latest.reached) = (position, as_of);
        } else if as_of.duration_since(latest.reached) >= self.standstill_max {
            return false;
        }
        latest.as_of = as_of;
        latest.steps += 1;
        true
    }

    fn errors(&self) -> u64 {
        self.health.figures().errors.iter().sum()
    }

    async fn open(&self, store: &OpenedStore) -> Result<FollowedState> {
        let counted = Arc::clone(&self.states).acquire_owned().await;
        let counted = counted.map_err(|_| Error::Closed("nothing is read any more".into()))?;
        let mut attempts = 1;
        let reader = loop {
            let (mode, cache) = (DbReaderMode::FollowLatest, Arc::clone(&self.cache));
            match open_pinned(store, &self.options, mode, cache).await {
                Err(error) if has_vanished(&error) && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    tokio::time::sleep(ATTEMPT_PAUSE).await;
                }
                // Closed also when settling fails, or the request ends before it has settled.
                opened => break OwnedReader::new(opened?),
            }
        };
        reader.settle().await?;
        Ok(FollowedState {
            reader,
            _counted: counted,
        })
    }
}

impl FollowedState {
    pub(crate) fn view(&self) -> View {
        self.reader.view()
    }

    /// Prefixes of the segments that hold anything, sorted.
    pub(crate) fn segments(&self) -> Vec<Bytes> {
        self.reader.segments()
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;
    use slatedb::object_store::ObjectStore;
    use slatedb::object_store::memory::InMemory;
    use slatedb::object_store::path::Path;
    use slatedb::object_store::{ObjectStoreExt as _, PutPayload};

    use super::super::engine::Engine;
    use super::super::faults::{Fault, FaultPlan, FaultStore, Operation};
    use super::*;

    const KEY: &[u8] = &[1, 0x31, 0, 0, 0, 60, 0, 0, 0, 1];

    /// A writer, and somebody who follows it over a store of its own that can fail.
    struct Followed {
        store: Arc<InMemory>,
        faults: FaultStore,
        engine: Engine,
        follower: Follower,
    }

    impl Followed {
        async fn new(standstill_max: Duration) -> Self {
            let options = StoreOptions {
                location: "memory://".to_owned(),
                retries_max: 1,
                ..StoreOptions::default()
            };
            let store = Arc::new(InMemory::new());
            let shared = || Arc::clone(&store) as Arc<dyn ObjectStore>;
            let engine = Engine::open(&options, Some(shared())).await.unwrap();
            let faults = FaultStore::new(shared(), FaultPlan::quiet(0));
            let raw = Arc::new(faults.clone());
            let mut follower = Follower::over(&options, raw, Duration::ZERO);
            follower.standstill_max = standstill_max;
            Self {
                store,
                faults,
                engine,
                follower,
            }
        }

        async fn put(&self, value: &'static str) {
            let value = Bytes::from_static(value.as_bytes());
            let put = self.engine.db().put_bytes(Bytes::from_static(KEY), value);
            put.await.unwrap().await_durable().await.unwrap();
        }

        async fn get(&self) -> Result<Option<Bytes>> {
            self.follower.state().await?.view().get(KEY).await
        }
    }

    /// What the writer has acknowledged is seen, or the look is an error.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_poll_that_fails_is_an_error_and_not_an_old_answer() {
        let followed = Followed::new(STANDSTILL_MAX).await;
        followed.put("one").await;
        assert_eq!(followed.get().await.unwrap().unwrap(), "one");
        followed.put("two").await;
        assert_eq!(followed.get().await.unwrap().unwrap(), "two");
        for part in ["wal", "manifest"] {
            followed.put("three").await;
            let (faults, times) = (&followed.faults, usize::MAX);
            faults.script(Operation::Get, part, Fault::NotApplied, times);
            let answer = followed.get().await;
            assert!(answer.is_err(), "{part}: {answer:?}");
            followed.faults.end_script();
            assert_eq!(followed.get().await.unwrap().unwrap(), "three");
        }
        followed.engine.close().await.unwrap();
    }

    /// A file that cannot be read is no error of the store.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_reader_that_stands_still_is_replaced() {
        let followed = Followed::new(Duration::ZERO).await;
        followed.put("one").await;
        assert_eq!(followed.get().await.unwrap().unwrap(), "one");
        assert_eq!(followed.get().await.unwrap().unwrap(), "one", "nothing new");
        let store = Arc::clone(&followed.store);
        let next = Path::from(format!("db/wal/{:020}.sst", last_log(&*store).await + 1));
        let damaged = PutPayload::from_static(&[7; 256]);
        store.put(&next, damaged).await.unwrap();
        assert!(followed.get().await.is_err());
    }

    /// The number of the last file of the log.
    async fn last_log(store: &dyn ObjectStore) -> u64 {
        let files = store.list(Some(&Path::from("db/wal")));
        let files: Vec<_> = files.try_collect().await.unwrap();
        let number = |path: &Path| path.filename()?.strip_suffix(".sst")?.parse::<u64>().ok();
        let numbers = files.iter().filter_map(|file| number(&file.location));
        numbers.max().unwrap()
    }
}
