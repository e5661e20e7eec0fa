//! Tells "my own earlier attempt" from "somebody else" when a local create finds the file present.
//!
//! SlateDB creates WAL files and manifests only if they are absent: that is how a second writer is
//! noticed. A create can fail after it was applied, on a local store when syncing the directory
//! fails. SlateDB then repeats it and finds the file. Stores that keep attributes tell it whose
//! file that is (it stores an id with each object); `LocalFileSystem` keeps none, and SlateDB would
//! take its own file for another writer's fence and close. This wrapper remembers which creates
//! ended in an error, and when such a one then finds its file present, compares the content.
//!
//! Holds always:
//! - A create that was never attempted before and finds a file is answered with `AlreadyExists`,
//!   untouched: a real fence is never hidden.
//! - A file recognised as our own is written once more in place before success is reported, because
//!   the failure may have been the sync itself. It holds the same bytes before and after.
//!
//! Equal content is enough to know our own file. WAL files and manifests hold sequence numbers and
//! the writer's epoch. Only the empty fence files of two writers that open at the same moment can
//! be equal, and whichever of them has the lower epoch learns so from the manifest it reads next.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    self as store, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions,
};
use tracing::info;

/// Creates remembered as unanswered. SlateDB writes one WAL file and one manifest at a time and
/// repeats each until it is answered, so a handful is in use; the cap is for what nobody foresaw.
const UNANSWERED_MAX: usize = 1024;

/// A local store that recognises its own files.
pub(crate) struct LocalCreates {
    inner: Arc<dyn ObjectStore>,
    unanswered: Mutex<BTreeSet<Path>>,
}

impl LocalCreates {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self {
            inner,
            unanswered: Mutex::default(),
        }
    }

    async fn create(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> store::Result<PutResult> {
        let attempt = self
            .inner
            .put_opts(location, payload.clone(), options.clone())
            .await;
        match attempt {
            Ok(result) => {
                self.forget(location);
                Ok(result)
            }
            Err(conflict @ store::Error::AlreadyExists { .. }) => {
                if !self.is_unanswered(location) {
                    return Err(conflict);
                }
                if !self.holds(location, &payload).await? {
                    self.forget(location);
                    return Err(conflict);
                }
                info!(%location, "a failed create turned out to be applied");
                let again = PutOptions {
                    mode: PutMode::Overwrite,
                    ..options
                };
                let result = self.inner.put_opts(location, payload, again).await?;
                self.forget(location);
                Ok(result)
            }
            // The store refused the request as such; nothing was applied.
            Err(
                refusal @ (store::Error::NotImplemented { .. }
                | store::Error::NotSupported { .. }
                | store::Error::InvalidPath { .. }),
            ) => Err(refusal),
            Err(unclear) => {
                self.remember(location);
                Err(unclear)
            }
        }
    }

    /// Whether the file holds exactly these bytes.
    async fn holds(&self, location: &Path, payload: &PutPayload) -> store::Result<bool> {
        let present = self.inner.get(location).await?;
        if present.meta.size != payload.content_length() as u64 {
            return Ok(false);
        }
        Ok(present.bytes().await? == Bytes::from(payload.clone()))
    }

    fn is_unanswered(&self, location: &Path) -> bool {
        self.unanswered.lock().contains(location)
    }

    fn remember(&self, location: &Path) {
        let mut unanswered = self.unanswered.lock();
        if unanswered.len() >= UNANSWERED_MAX {
            // The names count upwards, so the first is the oldest of its kind.
            unanswered.pop_first();
        }
        unanswered.insert(location.clone());
    }

    fn forget(&self, location: &Path) {
        self.unanswered.lock().remove(location);
    }
}

impl fmt::Debug for LocalCreates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalCreates({:?})", self.inner)
    }
}

impl fmt::Display for LocalCreates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for LocalCreates {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> store::Result<PutResult> {
        if matches!(options.mode, PutMode::Create) {
            self.create(location, payload, options).await
        } else {
            self.inner.put_opts(location, payload, options).await
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> store::Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[std::ops::Range<u64>],
    ) -> store::Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, store::Result<Path>>,
    ) -> BoxStream<'static, store::Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, store::Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(
        &self,
        from: &Path,
        to: &Path,
        options: RenameOptions,
    ) -> store::Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}
