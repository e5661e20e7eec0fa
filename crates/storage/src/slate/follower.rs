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
//! - Nothing is asked of the store unless somebody asks for a state, and a step reads what is new
//!   alone: opening reads all of the WAL that is not in files yet.
//! - Nothing is written: see [`super::reader`].

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use slatedb::DbReaderMode;
use slatedb::db_cache::DbCache;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::engine::block_and_meta_cache;
use super::first_contact;
use super::object_store::{OpenedStore, open_store};
use super::read_view::View;
use super::reader::{Reader, has_vanished, open_pinned};
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

/// How often opening is tried while the writer removes files that it needs.
const ATTEMPTS_MAX: u32 = 4;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Follower {
    options: StoreOptions,
    /// There as soon as it could be opened: a directory may be made later.
    opened: OnceLock<OpenedStore>,
    cache: Arc<dyn DbCache>,
    /// How old a state may be when it is handed out.
    age_max: Duration,
    latest: Mutex<Option<Latest>>,
    states: Arc<Semaphore>,
}

struct Latest {
    state: Arc<FollowedState>,
    as_of: Instant,
    steps: usize,
}

/// A state of a database, for as long as it is held.
pub(crate) struct FollowedState {
    reader: Arc<Reader>,
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
            age_max,
            latest: Mutex::default(),
            states: Arc::new(Semaphore::new(STATES_MAX)),
        }
    }

    /// The store that the database lies on.
    pub(crate) fn store(&self) -> Result<&OpenedStore> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = open_store(&self.options, None, false)?;
        Ok(self.opened.get_or_init(|| opened))
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
            if !is_read && known.steps < STEPS_MAX {
                let stepped = timeout(STEP_TIME_MAX, known.state.reader.step()).await;
                if stepped.is_ok() {
                    known.as_of = as_of;
                    known.steps += 1;
                    return Ok(Arc::clone(&known.state));
                }
            }
        }
        // What nobody reads makes room.
        *latest = None;
        let state = Arc::new(self.open(store).await?);
        *latest = Some(Latest {
            state: Arc::clone(&state),
            as_of,
            steps: 0,
        });
        Ok(state)
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
                opened => break opened?,
            }
        };
        Ok(FollowedState {
            reader: Arc::new(reader),
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

impl Drop for FollowedState {
    /// A reader has a task of its own, which ends when it is closed.
    fn drop(&mut self) {
        let reader = Arc::clone(&self.reader);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                // Nothing depends on it.
                let _ = reader.close().await;
            });
        }
    }
}
