//! Reads the database of another process and writes nothing, for `inspect`, `check` and shards.
//!
//! Holds always:
//! - All reads of one reader show one state of the database: that of the moment of opening, or of
//!   the last [`Reader::step`].
//! - No object is created, changed or deleted: the reader takes the latest manifest and no
//!   checkpoint, hence nothing keeps the writer's garbage collector from deleting files that the
//!   reader is about to read. Such a read fails, [`is_vanished`] recognises it, and the caller
//!   starts over with a new reader.
//! - What the writer has acknowledged up to that moment is seen, whether it lies in files or still
//!   in the WAL.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::config::DbReaderOptions;
use slatedb::db_cache::DbCache;
use slatedb::object_store::{self, ObjectStore};
use slatedb::{DbReader, DbReaderMode, ErrorKind};
use slatedb_common::clock::SystemClock;

use super::engine::{block_and_meta_cache, open_error};
use super::first_contact;
use super::location::StoreLocation;
use super::merge_operator::RecordMergeOperator;
use super::object_store::{OpenedStore, open_store};
use super::read_view::View;
use super::segment_extractor::SegmentExtractor;
use super::stepped_clock::SteppedClock;
use super::tuning;
use crate::error::{Error, Result};
use crate::options::StoreOptions;

/// A database opened beside its writer.
pub(crate) struct Reader {
    reader: Arc<DbReader>,
    location: StoreLocation,
    clock: Arc<SteppedClock>,
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
    open_pinned(&opened, options, DbReaderMode::FollowLatest, cache).await
}

/// Opens a reader that shows the state that `mode` says, for as long as it is open.
pub(super) async fn open_pinned(
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
        location: opened.location.clone(),
        clock,
    })
}

impl Reader {
    /// Moves on to the latest state. Nobody may be reading: what is read before and after is of two
    /// states. What cannot be had of the latest state leaves the one before, and nobody is told.
    pub(super) async fn step(&self) {
        self.clock.step().await;
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
