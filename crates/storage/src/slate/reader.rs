//! Reads the database of another process and writes nothing, for `inspect`, `check` and shards.
//!
//! Holds always:
//! - All reads of one reader show one state of the database: that of the moment of opening, or of
//!   the last [`Reader::step`].
//! - No object is created, changed or deleted: the reader takes the latest manifest and no
//!   checkpoint, hence the writer's garbage collector deletes files that the reader is about to
//!   read when they are old enough (`readers` keeps it from hurrying). Such a read fails,
//!   [`is_vanished`] recognises it, and the caller starts over with a new reader.
//! - What the writer has acknowledged up to that moment is seen, whether it lies in files or still
//!   in the WAL. SlateDB takes a WAL that its collector shortens meanwhile for one that ends there,
//!   so that a state counts only if no later manifest has let go of a part of the WAL
//!   ([`Reader::settle`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use slatedb::admin::Admin;
use slatedb::config::DbReaderOptions;
use slatedb::db_cache::DbCache;
use slatedb::object_store::path::Path;
use slatedb::object_store::{self, ObjectStore};
use slatedb::{DbReader, DbReaderMode, ErrorKind};
use slatedb_common::clock::SystemClock;
use tokio::runtime::Handle;

use super::engine::{block_and_meta_cache, open_error};
use super::first_contact;
use super::location::StoreLocation;
use super::merge_operator::RecordMergeOperator;
use super::object_store::{OpenedStore, open_store};
use super::read_view::View;
use super::readers::ReaderLock;
use super::segment_extractor::SegmentExtractor;
use super::stepped_clock::SteppedClock;
use super::tuning;
use crate::error::{Error, Result, with_sources, without_document};
use crate::options::StoreOptions;

/// Steps of a reader because the WAL was shortened while it was read. That takes a memtable
/// that is written out: seconds, where a step takes a few requests.
const SETTLING_MAX: u32 = 8;

/// Attempts at listing manifests while the store fails, and the pause after the first one.
const LOOKS_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// A database opened beside its writer.
pub(crate) struct Reader {
    reader: Arc<DbReader>,
    store: Arc<dyn ObjectStore>,
    path: Path,
    location: StoreLocation,
    clock: Arc<SteppedClock>,
    _lock: Option<ReaderLock>,
}

/// How far a reader has come: a later position is never the same as an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReaderPosition {
    manifest: u64,
    seq: u64,
}

/// Opens a database that exists, without taking it from its writer.
pub(crate) async fn open_reader(
    options: &StoreOptions,
    store_override: Option<Arc<dyn ObjectStore>>,
) -> Result<Reader> {
    let opened = open_store(options, store_override, false)?;
    if !first_contact::look(&opened, options).await? {
        return Err(Error::Invalid(
            format!("there is no database at {}", opened.location).into(),
        ));
    }
    let cache = block_and_meta_cache(options);
    let reader = open_pinned(&opened, options, DbReaderMode::FollowLatest, cache).await?;
    let settled = reader.settle().await;
    if settled.is_err() {
        // One that is not closed keeps what it has replayed. Nothing depends on how it ends.
        let _ = reader.close().await;
    }
    settled.map(|()| reader)
}

/// Opens a reader that shows the state that `mode` says, for as long as it is open.
pub(super) async fn open_pinned(
    opened: &OpenedStore,
    options: &StoreOptions,
    mode: DbReaderMode,
    cache: Arc<dyn DbCache>,
) -> Result<Reader> {
    // From before the first look at the manifest on.
    let lock = ReaderLock::acquire(&opened.location);
    let reader = open_unseen(opened, options, mode, cache).await?;
    Ok(Reader {
        _lock: lock,
        ..reader
    })
}

/// [`open_pinned`] for the writer itself, to which the reader is none of another program.
pub(super) async fn open_unseen(
    opened: &OpenedStore,
    options: &StoreOptions,
    mode: DbReaderMode,
    cache: Arc<dyn DbCache>,
) -> Result<Reader> {
    let clock = SteppedClock::new();
    let reader = DbReader::builder(opened.path.clone(), Arc::clone(&opened.store))
        .with_reader_mode(mode)
        .with_merge_operator(Arc::new(RecordMergeOperator))
        .with_segment_extractor(Arc::new(SegmentExtractor))
        .with_db_cache(cache, 0)
        .with_system_clock(Arc::clone(&clock) as Arc<dyn SystemClock>)
        .with_options(DbReaderOptions {
            object_store_max_retries: Some(tuning::retries(options)),
            ..DbReaderOptions::default()
        })
        .build()
        .await
        .map_err(|cause| {
            if is_vanished(&cause) {
                Error::store("opening the database while its writer removes files")(cause)
            } else {
                open_error(&opened.location, cause)
            }
        })?;
    Ok(Reader {
        reader: Arc::new(reader),
        store: Arc::clone(&opened.store),
        path: opened.path.clone(),
        location: opened.location.clone(),
        clock,
        _lock: None,
    })
}

impl Reader {
    /// Moves on to the latest state. Nobody may be reading: what is read before and after is of two
    /// states. What cannot be had of the latest state leaves the one before, and nobody is told.
    pub(super) async fn step(&self) {
        self.clock.step().await;
    }

    /// Moves on until all of the WAL that the state needs was there while it was read.
    pub(super) async fn settle(&self) -> Result<()> {
        let mut moves = 0;
        while self.has_lost_log().await? {
            if moves == SETTLING_MAX {
                return Err(Error::Unavailable(
                    format!(
                        "the writer of {} replaces its log faster than it can be read from here",
                        self.location
                    )
                    .into(),
                ));
            }
            moves += 1;
            self.step().await;
        }
        Ok(())
    }

    /// Returns `true` if a manifest after the one of this state has let go of files of the WAL:
    /// they may have been deleted before they were read.
    async fn has_lost_log(&self) -> Result<bool> {
        let manifest = self.reader.manifest();
        let failed = || Error::store("looking for a later manifest");
        let later = Path::from(format!("{}/manifest", self.path));
        let known = Path::from(format!("{later}/{:020}.manifest", manifest.id()));
        let mut attempts = 1;
        let first = loop {
            let mut listed = self.store.list_with_offset(Some(&later), &known);
            match listed.next().await.transpose() {
                Err(_) if attempts < LOOKS_MAX => attempts += 1,
                first => break first.map_err(|cause| unreadable_manifests(&cause))?,
            }
            tokio::time::sleep(PAUSE * attempts).await;
        };
        if first.is_none() {
            return Ok(false);
        }
        let admin = Admin::builder(self.path.clone(), Arc::clone(&self.store)).build();
        let latest = admin.read_manifest(None).await.map_err(failed())?;
        let replayed = manifest.replay_after_wal_id();
        Ok(latest.is_some_and(|latest| latest.replay_after_wal_id() > replayed))
    }

    pub(super) fn position(&self) -> ReaderPosition {
        let status = self.reader.status();
        ReaderPosition {
            manifest: status.current_manifest.id(),
            seq: status.durable_seq,
        }
    }

    pub(crate) fn view(&self) -> View {
        View::Reader(Arc::clone(&self.reader))
    }

    /// Prefixes of the segments that hold anything, sorted.
    pub(crate) fn segments(&self) -> Vec<Bytes> {
        let segments = self.reader.status().list_segments();
        segments.into_iter().map(|segment| segment.prefix).collect()
    }

    /// File bytes of each segment, as the manifest estimates them.
    pub(crate) fn segment_bytes(&self) -> HashMap<Bytes, u64> {
        let manifest = self.reader.manifest();
        let sizes = manifest.segments().iter().map(|segment| {
            let fresh: u64 = segment.l0().iter().map(|file| file.estimate_size()).sum();
            let compacted = segment.compacted().iter().map(|run| run.estimate_size());
            (segment.prefix().clone(), fresh + compacted.sum::<u64>())
        });
        sizes.collect()
    }

    pub(crate) fn location(&self) -> &StoreLocation {
        &self.location
    }

    pub(crate) async fn close(&self) -> Result<()> {
        self.reader
            .close()
            .await
            .map_err(Error::store("closing the reader"))
    }
}

/// A reader that is closed when it is dropped.
pub(crate) struct OwnedReader(Arc<Reader>);

impl OwnedReader {
    pub(crate) fn new(reader: Reader) -> Self {
        Self(Arc::new(reader))
    }
}

impl std::ops::Deref for OwnedReader {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.0
    }
}

impl Drop for OwnedReader {
    /// A reader has a task of its own, which ends when it is closed.
    fn drop(&mut self) {
        let reader = Arc::clone(&self.0);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                // Nothing depends on it.
                let _ = reader.close().await;
            });
        }
    }
}

fn unreadable_manifests(cause: &object_store::Error) -> Error {
    let told = without_document(&with_sources(cause));
    Error::Unavailable(format!("the manifests of the database cannot be listed: {told}").into())
}

/// Whether work failed only because a file is not there: the writer deleted it meanwhile, or it is
/// lost.
pub(crate) fn has_vanished(error: &Error) -> bool {
    matches!(error, Error::Store { source, .. } if is_vanished(source))
}

/// Whether a read failed because a file it needed has been deleted by the writer's garbage
/// collector, so that starting over with a new reader is the answer.
pub(crate) fn is_vanished(error: &slatedb::Error) -> bool {
    // A file that is missing is reported as data that is wrong, with the store's error as source;
    // behind a cache the source is wrapped several times.
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if is_not_found(cause) {
            return true;
        }
        source = cause.source();
    }
    // A WAL that was cut off while it was being replayed has no store error behind it.
    error.kind() == ErrorKind::Data && error.to_string().contains("wal truncated")
}

fn is_not_found(cause: &(dyn std::error::Error + 'static)) -> bool {
    let found = cause.downcast_ref::<object_store::Error>().or_else(|| {
        cause
            .downcast_ref::<Arc<object_store::Error>>()
            .map(AsRef::as_ref)
    });
    matches!(found, Some(object_store::Error::NotFound { .. }))
}
