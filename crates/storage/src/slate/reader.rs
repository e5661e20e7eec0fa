//! Reads the database of another process and writes nothing, for `inspect` and `check`.
//!
//! Holds always:
//! - No object is created, changed or deleted: the reader follows the latest manifest and takes no
//!   checkpoint, hence nothing keeps the writer's garbage collector from deleting files that the
//!   reader is about to read. Such a read fails, [`is_vanished`] recognises it, and the caller starts
//!   over with a new reader.
//! - What the writer has acknowledged up to the moment of opening is seen, whether it lies in files
//!   or still in the WAL.

use std::sync::Arc;
use std::time::Duration;

use slatedb::config::DbReaderOptions;
use slatedb::object_store::{self, ObjectStore};
use slatedb::{DbReader, DbReaderMode, ErrorKind};

use super::engine::{block_and_meta_cache, open_error};
use super::first_contact;
use super::location::StoreLocation;
use super::merge_operator::RecordMergeOperator;
use super::object_store::open_store;
use super::read_view::View;
use super::segment_extractor::SegmentExtractor;
use super::tuning;
use crate::error::{Error, Result};
use crate::options::StoreOptions;

/// How often the reader looks for a newer manifest. Each poll also tails the WAL; a check of minutes
/// is better served by a state that moves rarely than by one that vanishes under it.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// A database opened beside its writer.
pub(crate) struct Reader {
    reader: Arc<DbReader>,
    location: StoreLocation,
}

/// Opens a database that exists, without taking it from its writer.
pub(crate) async fn open_reader(
    options: &StoreOptions,
    store_override: Option<Arc<dyn ObjectStore>>,
) -> Result<Reader> {
    let opened = open_store(options, store_override, false)?;
    if !first_contact::look(&opened, options).await? {
        return Err(Error::Invalid(format!(
            "there is no database at {}",
            opened.location
        )));
    }
    let reader = DbReader::builder(opened.path.clone(), Arc::clone(&opened.store))
        .with_reader_mode(DbReaderMode::FollowLatest)
        .with_merge_operator(Arc::new(RecordMergeOperator))
        .with_segment_extractor(Arc::new(SegmentExtractor))
        .with_db_cache(block_and_meta_cache(options), 0)
        .with_options(DbReaderOptions {
            manifest_poll_interval: POLL_INTERVAL,
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
        location: opened.location,
    })
}

impl Reader {
    pub(crate) fn view(&self) -> View {
        View::Reader(Arc::clone(&self.reader))
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
