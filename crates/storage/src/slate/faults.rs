//! An object store that fails on purpose, for tests.
//!
//! Holds always:
//! - What fails is a function of the seed, the kind of operation, the path and how often that path
//!   was asked for. The order in which tasks run does not matter, so a run can be repeated.
//! - A failed operation was either applied completely or not at all, as on a real store; only a
//!   crash before the rename leaves a staged file, which no reader takes for an object.
//! - After the power is off nothing is applied and nothing is answered with success.

mod plan;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    self as store, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, UploadPart,
};

use plan::Shared;
pub use plan::{Fault, FaultCounts, FaultPlan, Operation};

/// Wraps a store and makes some of its operations fail.
#[derive(Clone)]
pub struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    shared: Arc<Shared>,
    /// Root of a local store, where a crash can leave a staged file behind.
    directory: Option<PathBuf>,
}

impl FaultStore {
    /// Faults in front of any store. A crash before the rename is then a plain power-off.
    pub fn new(inner: Arc<dyn ObjectStore>, plan: FaultPlan) -> Self {
        Self {
            inner,
            shared: Arc::new(Shared::new(plan)),
            directory: None,
        }
    }

    /// Faults in front of a local directory, which must exist.
    pub fn local(directory: impl Into<PathBuf>, plan: FaultPlan) -> store::Result<Self> {
        let directory = directory.into();
        let inner = LocalFileSystem::new_with_prefix(&directory)?;
        Ok(Self {
            directory: Some(directory),
            ..Self::new(Arc::new(inner), plan)
        })
    }

    /// Switches the probabilities of the plan on or off. Scripted faults and the power are apart.
    pub fn set_enabled(&self, enabled: bool) {
        self.shared.set_enabled(enabled);
    }

    /// Makes the next `times` operations of this kind fail whose path contains `path_part`.
    pub fn script(&self, operation: Operation, path_part: &str, fault: Fault, times: usize) {
        self.shared.script(operation, path_part, fault, times);
    }

    /// Ends all scripted faults.
    pub fn end_script(&self) {
        self.shared.end_script();
    }

    /// From now on nothing is applied and every operation fails at once, for good.
    pub fn power_off(&self) {
        self.shared.power_off();
    }

    /// The power goes off after this many more puts.
    pub fn power_off_after(&self, puts: usize) {
        self.shared.power_off_after(puts);
    }

    pub fn is_off(&self) -> bool {
        self.shared.is_off()
    }

    /// What has been injected so far.
    pub fn counts(&self) -> FaultCounts {
        self.shared.counts()
    }

    /// Runs one operation under the plan.
    async fn run<T>(
        &self,
        operation: Operation,
        path: &Path,
        apply: impl Future<Output = store::Result<T>> + Send,
    ) -> store::Result<T> {
        if operation == Operation::Put {
            self.shared.count_put();
        }
        self.shared.check_power()?;
        self.shared.delay(operation, path).await;
        match self.shared.draw(operation, path) {
            Some(Fault::NotApplied) => Err(self.shared.failed("not applied", operation, path)),
            Some(Fault::AppliedButError) => {
                self.shared.check_power()?;
                apply.await?;
                Err(self.shared.failed("applied", operation, path))
            }
            Some(Fault::CrashBeforeRename) => {
                self.shared.power_off();
                Err(self.shared.no_power())
            }
            None => {
                self.shared.check_power()?;
                let result = apply.await;
                // Whoever asked has lost power meanwhile and never hears of it.
                self.shared.check_power()?;
                result
            }
        }
    }

    /// What a local store leaves of a put when the machine stops before the rename: a staged file,
    /// with all of the content or a part of it.
    fn leave_staged_file(&self, location: &Path, payload: &PutPayload) {
        let Some(directory) = &self.directory else {
            return;
        };
        let content = Bytes::from(payload.clone());
        let kept = self.shared.torn_length(location, content.len());
        let target = directory.join(format!("{location}#1"));
        if let Some(parent) = target.parent() {
            let _ = std::fs::create_dir_all(parent);
        }
        // A crash that cannot even leave a trace is still a crash.
        let _ = std::fs::write(target, content.slice(..kept));
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({:?})", self.inner)
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> store::Result<PutResult> {
        // A local store refuses attributes before it does anything, and SlateDB then asks again
        // without them: that question is no operation of its own.
        if self.directory.is_some() && !options.attributes.is_empty() {
            self.shared.check_power()?;
            return self.inner.put_opts(location, payload, options).await;
        }
        let off_before = self.shared.is_off();
        let apply = self.inner.put_opts(location, payload.clone(), options);
        let result = self.run(Operation::Put, location, apply).await;
        if !off_before && self.shared.crashed_at(location) {
            self.leave_staged_file(location, &payload);
        }
        result
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> store::Result<Box<dyn MultipartUpload>> {
        self.shared.check_power()?;
        let inner = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(FaultyUpload {
            inner,
            faults: self.clone(),
            location: location.clone(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> store::Result<GetResult> {
        let apply = self.inner.get_opts(location, options);
        self.run(Operation::Get, location, apply).await
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> store::Result<Vec<Bytes>> {
        let apply = self.inner.get_ranges(location, ranges);
        self.run(Operation::Get, location, apply).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, store::Result<Path>>,
    ) -> BoxStream<'static, store::Result<Path>> {
        let faults = self.clone();
        locations
            .then(move |location| {
                let faults = faults.clone();
                async move {
                    let location = location?;
                    let apply = faults.inner.delete(&location);
                    faults.run(Operation::Delete, &location, apply).await?;
                    Ok(location)
                }
            })
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
        let place = prefix.cloned().unwrap_or_default();
        let apply = self.inner.list_with_delimiter(prefix);
        self.run(Operation::List, &place, apply).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> store::Result<()> {
        let apply = self.inner.copy_opts(from, to, options);
        self.run(Operation::Put, to, apply).await
    }

    async fn rename_opts(
        &self,
        from: &Path,
        to: &Path,
        options: RenameOptions,
    ) -> store::Result<()> {
        let apply = self.inner.rename_opts(from, to, options);
        self.run(Operation::Put, to, apply).await
    }
}

impl FaultStore {
    fn listing(
        &self,
        prefix: Option<&Path>,
        listed: BoxStream<'static, store::Result<ObjectMeta>>,
    ) -> BoxStream<'static, store::Result<ObjectMeta>> {
        let faults = self.clone();
        let place = prefix.cloned().unwrap_or_default();
        stream::once(async move {
            let checked = faults.run(Operation::List, &place, async { Ok(()) }).await;
            match checked {
                Ok(()) => listed,
                Err(fault) => stream::once(async { Err(fault) }).boxed(),
            }
        })
        .flatten()
        .boxed()
    }
}

/// A multipart upload whose completion can fail. Its parts are no objects yet.
#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    faults: FaultStore,
    location: Path,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> store::Result<PutResult> {
        let apply = self.inner.complete();
        self.faults.run(Operation::Put, &self.location, apply).await
    }

    async fn abort(&mut self) -> store::Result<()> {
        self.inner.abort().await
    }
}
