//! Files of events: they lie beside SlateDB's own, on the same object store.
//!
//! ```text
//! directory, or bucket/prefix ─┬ db/       SlateDB's, whose garbage collection knows no others
//!                              └ events/   these
//! ```
//!
//! Holds always:
//! - A file that was put is durable, and is there as a whole or not at all.
//! - A path names a file below `events/`, and the listing shows it as it was given.
//! - What fails is repeated as often as reads of a running database are.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, TryStreamExt as _};
use icecore_model::BoxFuture;
use icecore_model::event::EventFileInfo;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    self as store, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutPayload,
};
use slatedb_common::retry::NonRetryable;
use tracing::debug;

use super::engine::Engine;
use super::location::StoreLocation;
use super::object_store::OpenedStore;
use super::staged_files::is_staged;
use crate::error::{Error, Reason, Result, with_sources, without_document};

/// What all paths begin with.
pub(crate) const DIRECTORY: &str = "events";

/// Bytes of a path. Object stores take 1024 with what the location adds.
const PATH_BYTES_MAX: usize = 900;

/// Larger files are sent in parts of this size: one request has to end within a minute.
const PART_BYTES: usize = 16 << 20;

/// Pauses between attempts: the first, then twice as long each time, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// The files of events of one database.
#[derive(Clone)]
pub(crate) struct EventFiles {
    store: Arc<dyn ObjectStore>,
    location: StoreLocation,
    retries_max: usize,
}

impl EventFiles {
    pub(crate) fn of(engine: &Engine) -> Self {
        Self {
            store: Arc::clone(&engine.store),
            location: engine.location.clone(),
            retries_max: engine.options.retries_max,
        }
    }

    /// Those of a database that is not open.
    pub(crate) fn at(opened: &OpenedStore, retries_max: usize) -> Self {
        Self {
            store: Arc::clone(&opened.store),
            location: opened.location.clone(),
            retries_max,
        }
    }

    /// Writes a file as a whole, in place of one with that name.
    pub(crate) async fn put(&self, path: &str, content: Bytes) -> Result<()> {
        let place = self.place(path)?;
        let put = || self.put_once(&place, &content).boxed();
        self.repeat("write", path, put).await
    }

    async fn put_once(&self, place: &Path, content: &Bytes) -> store::Result<()> {
        if content.len() > PART_BYTES {
            return self.put_in_parts(place, content).await;
        }
        let payload = PutPayload::from_bytes(content.clone());
        self.store.put(place, payload).await.map(drop)
    }

    async fn put_in_parts(&self, place: &Path, content: &Bytes) -> store::Result<()> {
        let mut upload = self.store.put_multipart(place).await?;
        for start in (0..content.len()).step_by(PART_BYTES) {
            let part = content.slice(start..content.len().min(start + PART_BYTES));
            if let Err(cause) = upload.put_part(PutPayload::from_bytes(part)).await {
                // What is left of it is no file; a store forgets it after some days.
                let _ = upload.abort().await;
                return Err(cause);
            }
        }
        upload.complete().await.map(drop)
    }

    /// Reads a part of a file, all of which must be there.
    pub(crate) async fn read(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let place = self.place(path)?;
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let read = || self.store.get_range(&place, range.clone()).boxed();
        let found = self.repeat("read", path, read).await?;
        if found.len() as u64 == range.end - range.start {
            Ok(found)
        } else {
            Err(Error::Corrupt(
                format!("{path} ends before byte {}", range.end).into(),
            ))
        }
    }

    /// Deletes a file; one that is not there is fine.
    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        let place = self.place(path)?;
        let delete = || self.store.delete(&place).map(or_missing).boxed();
        self.repeat("delete", path, delete).await?;
        self.remove_empty_directories(&place).await;
        Ok(())
    }

    /// What is known of a file, if there is one.
    pub(crate) async fn info(&self, path: &str) -> Result<Option<EventFileInfo>> {
        let place = self.place(path)?;
        let look = || self.store.head(&place).map(or_missing).boxed();
        let found = self.repeat("look at", path, look).await?;
        Ok(found.and_then(|found| self.described(&found)))
    }

    /// All files, by path.
    pub(crate) async fn list(&self) -> Result<Vec<EventFileInfo>> {
        let all = Path::from(self.location.path_of(DIRECTORY));
        let list = || {
            let listed = self.store.list(Some(&all));
            listed.try_collect::<Vec<ObjectMeta>>().boxed()
        };
        let found = self.repeat("list", DIRECTORY, list).await?;
        let mut files: Vec<EventFileInfo> = found
            .iter()
            .filter_map(|file| self.described(file))
            .collect();
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// Copies all files of another database that are not here yet. Returns how many there are, and
    /// their bytes.
    pub(crate) async fn copy_all(&self, from: &Self) -> Result<(u64, u64)> {
        let (mut files, mut bytes) = (0, 0);
        for file in from.list().await? {
            let copied = self.info(&file.path).await?;
            if copied.is_none_or(|copied| copied.bytes != file.bytes) {
                let content = from.read(&file.path, 0..file.bytes).await;
                // What goes while this runs is not needed by a snapshot.
                if content.is_err() && from.info(&file.path).await?.is_none() {
                    continue;
                }
                self.put(&file.path, content?).await?;
            }
            files += 1;
            bytes += file.bytes;
        }
        Ok((files, bytes))
    }

    fn described(&self, file: &ObjectMeta) -> Option<EventFileInfo> {
        let prefix = self.location.path_of("");
        let path = file.location.as_ref().strip_prefix(prefix.as_str())?;
        Some(EventFileInfo {
            path: path.to_owned(),
            bytes: file.size,
            modified_ms: file.last_modified.timestamp_millis(),
        })
    }

    /// Where a file lies in the store.
    fn place(&self, path: &str) -> Result<Path> {
        let refuse = |why: &str| {
            let shown: String = path.chars().take(200).collect();
            Err(Error::Invalid(
                format!("{shown:?} is no path of a file of events: {why}").into(),
            ))
        };
        let below = path.strip_prefix(DIRECTORY);
        let Some(below) = below.and_then(|below| below.strip_prefix('/')) else {
            return refuse("it does not begin with events/");
        };
        if path.len() > PATH_BYTES_MAX {
            return refuse("it is too long");
        }
        if below
            .split('/')
            .any(|part| part.is_empty() || is_staged(part))
        {
            return refuse("a part of it is empty, or named as unfinished files are");
        }
        match Path::parse(self.location.path_of(path)) {
            Ok(place) => Ok(place),
            Err(cause) => refuse(&cause.to_string()),
        }
    }

    /// Does something until it succeeds, is pointless, or was tried often enough.
    async fn repeat<'w, T>(
        &self,
        what: &str,
        path: &str,
        work: impl Fn() -> BoxFuture<'w, store::Result<T>>,
    ) -> Result<T> {
        let (mut attempts, mut pause) = (0, FIRST_PAUSE);
        loop {
            let cause = match work().await {
                Ok(done) => return Ok(done),
                Err(cause) => cause,
            };
            if let store::Error::NotFound { .. } = cause {
                return Err(Error::Corrupt(Reason::caused(
                    format!("{path} is missing"),
                    cause,
                )));
            }
            attempts += 1;
            let told = without_document(&with_sources(&cause));
            if attempts > self.retries_max || is_final(&cause) {
                let failed = format!("cannot {what} {path}: {told}");
                return Err(Error::Unavailable(failed.into()));
            }
            debug!(
                path,
                attempts,
                cause = told,
                "cannot {what} a file of events: trying again"
            );
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// A local directory keeps directories of which the last file was deleted. Only empty ones can
    /// be removed this way; a put that needs one meanwhile fails and is repeated.
    async fn remove_empty_directories(&self, place: &Path) {
        let Some(root) = self.location.directory().map(PathBuf::from) else {
            return;
        };
        let file = root.join(place.as_ref());
        let all = root.join(DIRECTORY);
        let removed = tokio::task::spawn_blocking(move || {
            let below = file.ancestors().skip(1);
            for directory in below.take_while(|directory| *directory != all) {
                if std::fs::remove_dir(directory).is_err() {
                    return;
                }
            }
        });
        // That they stay does no harm.
        let _ = removed.await;
    }
}

/// A file that is missing is an answer, too.
fn or_missing<T>(answer: store::Result<T>) -> store::Result<Option<T>> {
    match answer {
        Err(store::Error::NotFound { .. }) => Ok(None),
        answer => answer.map(Some),
    }
}

/// Whether asking again is pointless.
fn is_final(cause: &store::Error) -> bool {
    NonRetryable::find(cause).is_some()
        || matches!(
            cause,
            store::Error::InvalidPath { .. }
                | store::Error::NotSupported { .. }
                | store::Error::NotImplemented { .. }
                | store::Error::PermissionDenied { .. }
                | store::Error::Unauthenticated { .. }
        )
}

#[cfg(test)]
mod tests {
    use slatedb::object_store::memory::InMemory;

    use super::*;

    fn files(location: &str) -> EventFiles {
        EventFiles {
            store: Arc::new(InMemory::new()),
            location: StoreLocation::parse(location).unwrap(),
            retries_max: 0,
        }
    }

    #[tokio::test]
    async fn files_lie_beside_the_database_and_keep_their_names() {
        for (location, place) in [
            ("memory://", "events/a=1/b.parquet"),
            ("s3://bucket", "events/a=1/b.parquet"),
            ("s3://bucket/x/y", "x/y/events/a=1/b.parquet"),
        ] {
            let files = files(location);
            let path = "events/a=1/b.parquet";
            files.put(path, Bytes::from_static(b"abc")).await.unwrap();
            let stored = files.store.head(&Path::from(place)).await.unwrap();
            assert_eq!(stored.size, 3, "{location}");
            let listed = files.list().await.unwrap();
            assert_eq!(listed[0].path, path, "{location}");
            assert_eq!(files.info(path).await.unwrap(), Some(listed[0].clone()));
            // Whose names only begin like theirs.
            let other = Path::from(files.location.path_of("eventsx/c"));
            files.store.put(&other, "x".into()).await.unwrap();
            assert_eq!(files.list().await.unwrap().len(), 1, "{location}");
        }
    }

    #[tokio::test]
    async fn a_copy_is_complete_and_can_be_gone_on_with() {
        let (from, to) = (files("memory://"), files("s3://bucket/x"));
        for (path, content) in [("events/a", "one"), ("events/b/c", "three")] {
            from.put(path, content.into()).await.unwrap();
        }
        to.put("events/b/c", "cut".into()).await.unwrap();
        for _ in 0..2 {
            assert_eq!(to.copy_all(&from).await.unwrap(), (2, 8));
            assert_eq!(to.read("events/a", 0..3).await.unwrap(), "one");
            assert_eq!(to.read("events/b/c", 0..5).await.unwrap(), "three");
        }
    }
}
