//! Watches what the store answers, and decides when to stop asking.
//!
//! SlateDB repeats what fails for as long as it is told to. It is told: always. Here it is decided
//! when that is enough, because it depends on what is asked for and when.
//!
//! | request | repeated |
//! | --- | --- |
//! | anything while the database is opened or closed | `retries_max` times |
//! | a write, or a manifest, of a running database | until it succeeds: what is in the head is worth waiting for |
//! | another read | `retries_max` times for one file; then the query or the job that needs it fails |
//!
//! Holds always: once the database has ended ([`StoreHealth::end`]) nothing is written.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    self as store, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, UploadPart,
};
use slatedb_common::retry::NonRetryable;

use super::health::{StoreHealth, StoreOperation};
use crate::error::{with_sources, without_document};

/// Files whose reads fail that are remembered. Beyond that, reads are repeated for longer.
const FAILING_READS_MAX: usize = 1024;

/// A store whose answers are counted.
#[derive(Clone)]
pub(crate) struct ObservedStore {
    inner: Arc<dyn ObjectStore>,
    watched: Watched,
}

#[derive(Clone)]
struct Watched {
    health: Arc<StoreHealth>,
    retries_max: usize,
    failing_reads: Arc<Mutex<BTreeMap<Path, usize>>>,
}

impl ObservedStore {
    pub(crate) fn new(
        inner: Arc<dyn ObjectStore>,
        health: Arc<StoreHealth>,
        retries_max: usize,
    ) -> Self {
        Self {
            inner,
            watched: Watched {
                health,
                retries_max,
                failing_reads: Arc::default(),
            },
        }
    }

    async fn write<T>(
        &self,
        location: &Path,
        write: impl Future<Output = store::Result<T>> + Send,
    ) -> store::Result<T> {
        self.watched.write(location, write).await
    }
}

impl Watched {
    async fn write<T>(
        &self,
        location: &Path,
        write: impl Future<Output = store::Result<T>> + Send,
    ) -> store::Result<T> {
        if let Some(reason) = self.health.ended() {
            return Err(given_up(reason.into()));
        }
        let under_way = UnderWay::begin(&self.health);
        let answer = write.await;
        drop(under_way);
        self.answered(StoreOperation::Put, location, answer)
    }

    fn answered<T>(
        &self,
        operation: StoreOperation,
        location: &Path,
        answer: store::Result<T>,
    ) -> store::Result<T> {
        match answer {
            Ok(answer) => {
                self.health.succeeded(operation);
                if operation == StoreOperation::Get {
                    self.read_succeeded(location);
                }
                Ok(answer)
            }
            Err(cause) if is_expected(&cause) => Err(cause),
            Err(cause) => Err(self.failed(operation, location, cause)),
        }
    }

    fn failed(
        &self,
        operation: StoreOperation,
        location: &Path,
        cause: store::Error,
    ) -> store::Error {
        let told = without_document(&with_sources(&cause));
        let told = format!("{} of {location}: {told}", operation.name());
        let in_a_row = self.health.failed(operation, told);
        let repeated = if !self.health.repeats_writes() {
            in_a_row
        } else if operation == StoreOperation::Get && !decides_who_writes(location) {
            self.read_failed(location)
        } else {
            return cause;
        };
        if repeated > self.retries_max {
            given_up(Box::new(cause))
        } else {
            cause
        }
    }

    fn read_succeeded(&self, location: &Path) {
        let mut failing = self.failing_reads.lock();
        if !failing.is_empty() {
            failing.remove(location);
        }
    }

    /// How often a file could not be read by now; it begins anew after the last time.
    fn read_failed(&self, location: &Path) -> usize {
        let mut failing = self.failing_reads.lock();
        if failing.len() >= FAILING_READS_MAX && !failing.contains_key(location) {
            return 0;
        }
        let count = failing.entry(location.clone()).or_default();
        *count += 1;
        let count = *count;
        if count > self.retries_max {
            failing.remove(location);
        }
        count
    }
}

/// Counts a write until its end, also when nobody waits for it any more.
struct UnderWay<'h>(&'h StoreHealth);

impl<'h> UnderWay<'h> {
    fn begin(health: &'h StoreHealth) -> Self {
        health.write_began();
        Self(health)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.write_ended();
    }
}

/// What SlateDB asks for to learn whether something is there, or whether the store can do it.
fn is_expected(cause: &store::Error) -> bool {
    matches!(
        cause,
        store::Error::NotFound { .. }
            | store::Error::AlreadyExists { .. }
            | store::Error::Precondition { .. }
            | store::Error::NotModified { .. }
            | store::Error::NotSupported { .. }
            | store::Error::NotImplemented { .. }
    )
}

/// Whether a file is read to learn who the writer is: manifests, and files of the log after a put
/// whose answer was lost. Without an answer SlateDB would take the process for fenced.
fn decides_who_writes(location: &Path) -> bool {
    location.as_ref().ends_with(".manifest") || location.parts().any(|part| part.as_ref() == "wal")
}

/// An error after which SlateDB does not ask again.
fn given_up(cause: Box<dyn StdError + Send + Sync>) -> store::Error {
    store::Error::Generic {
        store: "icecore",
        source: Box::new(NonRetryable(cause)),
    }
}

impl fmt::Debug for ObservedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObservedStore({:?})", self.inner)
    }
}

impl fmt::Display for ObservedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for ObservedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> store::Result<PutResult> {
        let put = self.inner.put_opts(location, payload, options);
        self.write(location, put).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> store::Result<Box<dyn MultipartUpload>> {
        let begun = self.inner.put_multipart_opts(location, options);
        let inner = self.write(location, begun).await?;
        Ok(Box::new(ObservedUpload {
            inner,
            watched: self.watched.clone(),
            location: location.clone(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> store::Result<GetResult> {
        let got = self.inner.get_opts(location, options).await;
        let mut got = self.watched.answered(StoreOperation::Get, location, got)?;
        if let GetResultPayload::Stream(body) = got.payload {
            let (watched, location) = (self.watched.clone(), location.clone());
            let body =
                body.map_err(move |cause| watched.failed(StoreOperation::Get, &location, cause));
            got.payload = GetResultPayload::Stream(body.boxed());
        }
        Ok(got)
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[std::ops::Range<u64>],
    ) -> store::Result<Vec<Bytes>> {
        let got = self.inner.get_ranges(location, ranges).await;
        self.watched.answered(StoreOperation::Get, location, got)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, store::Result<Path>>,
    ) -> BoxStream<'static, store::Result<Path>> {
        // Handed on as they come, because a store may delete many with one request; which of them
        // failed is in the error.
        let watched = self.watched.clone();
        let deleted = self.inner.delete_stream(locations);
        deleted
            .map(move |answer| watched.answered(StoreOperation::Delete, &Path::default(), answer))
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, store::Result<ObjectMeta>> {
        let listed = self.inner.list(prefix);
        self.listing(prefix, listed)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, store::Result<ObjectMeta>> {
        let listed = self.inner.list_with_offset(prefix, offset);
        self.listing(prefix, listed)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> store::Result<ListResult> {
        let listed = self.inner.list_with_delimiter(prefix).await;
        let place = prefix.cloned().unwrap_or_default();
        self.watched.answered(StoreOperation::List, &place, listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> store::Result<()> {
        let copied = self.inner.copy_opts(from, to, options);
        self.write(to, copied).await
    }

    async fn rename_opts(
        &self,
        from: &Path,
        to: &Path,
        options: RenameOptions,
    ) -> store::Result<()> {
        let renamed = self.inner.rename_opts(from, to, options);
        self.write(to, renamed).await
    }
}

impl ObservedStore {
    fn listing(
        &self,
        prefix: Option<&Path>,
        listed: BoxStream<'static, store::Result<ObjectMeta>>,
    ) -> BoxStream<'static, store::Result<ObjectMeta>> {
        let (watched, place) = (self.watched.clone(), prefix.cloned().unwrap_or_default());
        listed
            .map(move |entry| watched.answered(StoreOperation::List, &place, entry))
            .boxed()
    }
}

/// An upload in parts whose failures are counted.
struct ObservedUpload {
    inner: Box<dyn MultipartUpload>,
    watched: Watched,
    location: Path,
}

impl fmt::Debug for ObservedUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObservedUpload({})", self.location)
    }
}

#[async_trait]
impl MultipartUpload for ObservedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let part = self.inner.put_part(data);
        let (watched, location) = (self.watched.clone(), self.location.clone());
        async move { watched.write(&location, part).await }.boxed()
    }

    async fn complete(&mut self) -> store::Result<PutResult> {
        let completed = self.inner.complete();
        self.watched.write(&self.location, completed).await
    }

    async fn abort(&mut self) -> store::Result<()> {
        self.inner.abort().await
    }
}
