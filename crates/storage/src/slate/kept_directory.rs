//! A local store that never makes a directory twice.
//!
//! `LocalFileSystem` creates whatever directory a put needs. When the directory of a running
//! database is removed, renamed or unmounted, the next commit would make it anew, and samples would
//! be acknowledged that no later start can find: their WAL file lies in a directory without a
//! manifest.
//!
//! Holds always:
//! - A directory of the database in which a file was seen or written is kept open. Before and after
//!   each put the path must still lead to that very directory; the open file keeps its number from
//!   being given to another.
//! - Once a manifest was seen, there is one.
//! - What was removed ends the database: nothing that is written from then on could be read. What
//!   was moved or unmounted fails like any store that is out of reach, and goes on when it is back.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::future::ready;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    self as store, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, UploadPart,
};
use slatedb_common::retry::NonRetryable;
use tokio::sync::Mutex as Busy;
use tokio::task::JoinError;

/// For how long a file system that has answered is expected to answer at once.
const FRESH: Duration = Duration::from_millis(100);

/// How far the clock that files are stamped with may be behind.
const FILE_CLOCK_TICK: Duration = Duration::from_millis(20);

/// The directories of one database, as they were found.
#[derive(Debug)]
pub(crate) struct KeptDirectories {
    /// The storage directory, absolute.
    root: PathBuf,
    /// Where SlateDB keeps its manifests.
    manifests: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Directories that were there once, kept open.
    kept: BTreeMap<PathBuf, File>,
    /// The newest manifest that was seen; empty until there is a database.
    newest_manifest: Option<PathBuf>,
    /// When everything was found where it belongs; not since something was found missing.
    seen: Option<Instant>,
}

/// What became of a directory.
#[derive(Debug, PartialEq, Eq)]
enum Gone {
    /// It does not exist any more, wherever one looks.
    Removed(String),
    /// Something else, or nothing, lies where it was.
    Moved(String),
}

impl KeptDirectories {
    /// The directories below `root`, of which none is known yet. `root` exists.
    pub(crate) fn new(root: &FilePath, database: &Path) -> io::Result<Self> {
        // As the store resolves it: a symbolic link that is changed later has no effect.
        let root = root.canonicalize()?;
        let manifests = root.join(database.as_ref()).join("manifest");
        let kept = Self {
            root,
            manifests,
            state: Mutex::default(),
        };
        kept.keep(&kept.root)?;
        Ok(kept)
    }

    /// Takes note of the database that lies there: from now on it must stay.
    pub(crate) fn arm(&self) -> io::Result<()> {
        let Some(manifest) = self.newest_listed()? else {
            return Ok(());
        };
        if let Some(database) = self.manifests.parent() {
            self.keep(database)?;
        }
        self.keep(&self.manifests)?;
        self.state.lock().newest_manifest = Some(manifest);
        Ok(())
    }

    fn newest_listed(&self) -> io::Result<Option<PathBuf>> {
        let entries = match std::fs::read_dir(&self.manifests) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(cause),
        };
        let mut newest = None;
        for entry in entries {
            let path = entry?.path();
            if is_manifest(&path) {
                newest = newest.max(Some(path));
            }
        }
        Ok(newest)
    }

    /// Keeps a directory open, unless one is kept for that path.
    fn keep(&self, directory: &FilePath) -> io::Result<()> {
        if self.state.lock().kept.contains_key(directory) {
            return Ok(());
        }
        let opened = File::open(directory)?;
        let mut state = self.state.lock();
        state.kept.entry(directory.to_owned()).or_insert(opened);
        Ok(())
    }

    /// After a successful put: its directory, and a manifest if it is one, are known from now on.
    fn note(&self, location: &Path) -> io::Result<()> {
        let file = self.file(location);
        // Beside the database lie files of events, in more directories than may be open at once.
        let of_database = |directory: &&FilePath| {
            let database = self.manifests.parent();
            database.is_some_and(|database| directory.starts_with(database))
        };
        if let Some(parent) = file.parent().filter(of_database) {
            self.keep(parent)?;
        }
        if file.parent() == Some(self.manifests.as_path()) && is_manifest(&file) {
            if let Some(database) = self.manifests.parent() {
                self.keep(database)?;
            }
            let mut state = self.state.lock();
            let newer = Some(file).max(state.newest_manifest.take());
            state.newest_manifest = newer;
        }
        Ok(())
    }

    fn file(&self, location: &Path) -> PathBuf {
        self.root.join(location.as_ref())
    }

    /// Whether everything that was there still is, as far as it concerns a file at `location`.
    fn check(&self, location: &Path) -> Result<(), Gone> {
        let mut state = self.state.lock();
        state.seen = None;
        self.look(&mut state, &self.file(location))?;
        state.seen = Some(Instant::now());
        Ok(())
    }

    fn look(&self, state: &mut State, file: &FilePath) -> Result<(), Gone> {
        let database = self.manifests.parent();
        let of_database = [Some(self.root.as_path()), database, Some(&self.manifests)];
        for directory in of_database.into_iter().chain([file.parent()]).flatten() {
            if let Some(kept) = state.kept.get(directory) {
                is_there(directory, kept)?;
            }
        }
        let Some(newest) = &state.newest_manifest else {
            return Ok(());
        };
        if newest.exists() {
            return Ok(());
        }
        // Another writer may have written newer ones and removed it.
        match self.newest_listed() {
            Ok(Some(newer)) => {
                state.newest_manifest = Some(newer);
                Ok(())
            }
            Ok(None) => Err(Gone::Removed(format!(
                "the manifest of the database is gone from {}",
                self.manifests.display()
            ))),
            Err(cause) => Err(Gone::Moved(format!(
                "{} cannot be read: {cause}",
                self.manifests.display()
            ))),
        }
    }

    /// After a put that began at `began`: either everything is where it was, or what the put has
    /// made is taken back.
    fn confirm(&self, location: &Path, began: SystemTime, done: bool) -> store::Result<()> {
        if let Err(gone) = self.check(location) {
            self.take_back(location, began, done);
            return Err(gone.into());
        }
        if done {
            self.note(location)
                .map_err(|cause| unreadable(location, cause))?;
        }
        Ok(())
    }

    /// Whether all is where it was and nothing new is to be noted, if that can be said at once: for
    /// every commit, where a change of threads would cost more. A file system that has not answered
    /// of late may hang, and with it whoever holds the lock.
    fn is_plainly_there(&self, location: &Path) -> bool {
        let Some(mut state) = self.state.try_lock() else {
            return false;
        };
        if state.seen.is_none_or(|seen| seen.elapsed() >= FRESH) {
            return false;
        }
        let file = self.file(location);
        let is_kept = |directory: &FilePath| {
            let kept = state.kept.get(directory);
            kept.is_some_and(|kept| is_there(directory, kept).is_ok())
        };
        // Where these paths lead where they did, so do those of the directories above.
        let there = file.parent().is_some_and(is_kept) && is_kept(&self.manifests);
        let newest = &state.newest_manifest;
        let there = there && newest.as_ref().is_some_and(|newest| newest.exists());
        state.seen = there.then(Instant::now);
        there && !is_manifest(&file)
    }

    /// Takes back what a put has made where the directory was, so that it can be put back.
    fn take_back(&self, location: &Path, began: SystemTime, done: bool) {
        let file = self.file(location);
        let stranger = |directory: &FilePath| {
            let state = self.state.lock();
            let kept = state.kept.get(directory);
            kept.is_none_or(|kept| is_there(directory, kept).is_err())
        };
        // Only empty directories can be removed this way, and only those that are not ours.
        let below_root = file.ancestors().skip(1);
        let below_root = below_root.take_while(|directory| *directory != self.root);
        let strangers: Vec<&FilePath> = below_root.filter(|at| stranger(at)).collect();
        if strangers.is_empty() {
            return;
        }
        // It is no part of any database; that it stays would do no harm but be confusing. What a
        // put that failed has found there is another's.
        if done {
            let _ = std::fs::remove_file(&file);
        }
        for directory in strangers {
            let _ = std::fs::remove_dir(directory);
        }
        // Where a file system was unmounted, an older directory shows, which stays.
        if stranger(&self.root) && is_made_since(&self.root, began) {
            let _ = std::fs::remove_dir(&self.root);
        }
    }
}

/// Whether a path leads to the directory that is kept.
fn is_there(directory: &FilePath, kept: &File) -> Result<(), Gone> {
    let shown = directory.display();
    let Ok(wanted) = kept.metadata() else {
        return Err(Gone::Moved(format!("{shown} cannot be read any more")));
    };
    if wanted.nlink() == 0 {
        return Err(Gone::Removed(format!("{shown} was removed")));
    }
    match std::fs::metadata(directory) {
        Ok(found) if (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()) => Ok(()),
        Ok(_) => Err(Gone::Moved(format!(
            "{shown} is another directory than the one that was opened"
        ))),
        Err(cause) => Err(Gone::Moved(format!("{shown} is not there: {cause}"))),
    }
}

/// Whether a directory is as young as a put that began then. Not where the file system does not
/// say.
fn is_made_since(directory: &FilePath, began: SystemTime) -> bool {
    let made = std::fs::metadata(directory).and_then(|found| found.created());
    made.is_ok_and(|made| made + FILE_CLOCK_TICK >= began)
}

fn is_manifest(file: &FilePath) -> bool {
    file.extension().is_some_and(|ending| ending == "manifest")
}

impl From<Gone> for store::Error {
    fn from(gone: Gone) -> Self {
        let source: Box<dyn std::error::Error + Send + Sync> = match gone {
            Gone::Removed(what) => {
                let told = format!(
                    "{what} while the database was in use: what is written now could not be found again"
                );
                Box::new(NonRetryable(told.into()))
            }
            Gone::Moved(what) => format!(
                "{what}: it was moved or unmounted while the database was in use; put it back and writing goes on"
            )
            .into(),
        };
        Self::Generic {
            store: "LocalFileSystem",
            source,
        }
    }
}

/// A local store over directories that are kept.
#[derive(Clone)]
pub(crate) struct KeptStore {
    inner: Arc<dyn ObjectStore>,
    directories: Arc<KeptDirectories>,
}

impl KeptStore {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, directories: Arc<KeptDirectories>) -> Self {
        Self { inner, directories }
    }

    async fn check(&self, location: &Path) -> store::Result<()> {
        let (directories, location) = (Arc::clone(&self.directories), location.clone());
        blocking(move || directories.check(&location).map_err(store::Error::from)).await
    }

    /// What holds for everything that makes a file at `location`. Whoever waits for a put may be
    /// gone before it ends, as when a database is closed; what it has made is then looked at all
    /// the same, hence a task of its own.
    async fn guarded<T: Send + 'static>(
        &self,
        location: &Path,
        put: impl Future<Output = store::Result<T>> + Send + 'static,
    ) -> store::Result<T> {
        if !self.directories.is_plainly_there(location) {
            self.check(location).await?;
        }
        let (directories, location) = (Arc::clone(&self.directories), location.clone());
        let guarded = tokio::spawn(async move {
            let began = SystemTime::now();
            let result = put.await;
            // One that failed may have made a directory before.
            let done = result.is_ok();
            if !(done && directories.is_plainly_there(&location)) {
                blocking(move || directories.confirm(&location, began, done)).await?;
            }
            result
        });
        joined(guarded.await)
    }

    /// A file that is missing because its directory is, is no file that is missing.
    async fn explained<T>(&self, location: &Path, got: store::Result<T>) -> store::Result<T> {
        if let Err(store::Error::NotFound { .. }) = &got {
            self.check(location).await?;
        }
        got
    }
}

/// File system calls may hang on a network mount.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> store::Result<T> + Send + 'static,
) -> store::Result<T> {
    joined(tokio::task::spawn_blocking(call).await)
}

fn joined<T>(ended: Result<store::Result<T>, JoinError>) -> store::Result<T> {
    ended.unwrap_or_else(|cause| Err(store::Error::JoinError { source: cause }))
}

fn unreadable(location: &Path, cause: io::Error) -> store::Error {
    store::Error::Generic {
        store: "LocalFileSystem",
        source: format!("the directory of {location} cannot be opened: {cause}").into(),
    }
}

impl fmt::Debug for KeptStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeptStore({:?})", self.inner)
    }
}

impl fmt::Display for KeptStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for KeptStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> store::Result<PutResult> {
        let (inner, at) = (Arc::clone(&self.inner), location.clone());
        let put = async move { inner.put_opts(&at, payload, options).await };
        self.guarded(location, put).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> store::Result<Box<dyn MultipartUpload>> {
        let (inner, at) = (Arc::clone(&self.inner), location.clone());
        let begun = async move { inner.put_multipart_opts(&at, options).await };
        let inner = self.guarded(location, begun).await?;
        Ok(Box::new(KeptUpload {
            inner: Arc::new(Busy::new(inner)),
            store: self.clone(),
            location: location.clone(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> store::Result<GetResult> {
        let got = self.inner.get_opts(location, options).await;
        self.explained(location, got).await
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[std::ops::Range<u64>],
    ) -> store::Result<Vec<Bytes>> {
        let got = self.inner.get_ranges(location, ranges).await;
        self.explained(location, got).await
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
        let (inner, from, at) = (Arc::clone(&self.inner), from.clone(), to.clone());
        let copied = async move { inner.copy_opts(&from, &at, options).await };
        self.guarded(to, copied).await
    }

    async fn rename_opts(
        &self,
        from: &Path,
        to: &Path,
        options: RenameOptions,
    ) -> store::Result<()> {
        let (inner, from, at) = (Arc::clone(&self.inner), from.clone(), to.clone());
        let renamed = async move { inner.rename_opts(&from, &at, options).await };
        self.guarded(to, renamed).await
    }
}

/// An upload in parts, whose file appears when it is complete.
#[derive(Debug)]
struct KeptUpload {
    /// Taken only while it is completed, by a task that outlives whoever waits for it.
    inner: Arc<Busy<Box<dyn MultipartUpload>>>,
    store: KeptStore,
    location: Path,
}

#[async_trait]
impl MultipartUpload for KeptUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        match self.inner.try_lock() {
            Ok(mut inner) => inner.put_part(data),
            Err(_) => Box::pin(ready(Err(store::Error::Generic {
                store: "LocalFileSystem",
                source: "a part came after the last one".into(),
            }))),
        }
    }

    async fn complete(&mut self) -> store::Result<PutResult> {
        let inner = Arc::clone(&self.inner);
        let completed = async move { inner.lock().await.complete().await };
        self.store.guarded(&self.location, completed).await
    }

    async fn abort(&mut self) -> store::Result<()> {
        self.inner.lock().await.abort().await
    }
}

#[cfg(test)]
mod tests {
    use slatedb::object_store::local::LocalFileSystem;
    use slatedb::object_store::{ObjectStoreExt as _, PutMode};

    use super::*;

    const FIRST: &str = "db/manifest/00000000000000000001.manifest";
    const WAL: &str = "db/wal/00000000000000000001.sst";

    /// A database of one manifest and one WAL file, in `directory/data`.
    async fn database(directory: &tempfile::TempDir) -> (PathBuf, KeptStore) {
        let root = directory.path().join("data");
        std::fs::create_dir(&root).unwrap();
        let local = LocalFileSystem::new_with_prefix(&root).unwrap();
        let kept = KeptDirectories::new(&root, &Path::from("db")).unwrap();
        let kept = KeptStore::new(Arc::new(local), Arc::new(kept));
        put(&kept, FIRST).await.unwrap();
        put(&kept, WAL).await.unwrap();
        (root, kept)
    }

    async fn put(kept: &KeptStore, location: &str) -> store::Result<PutResult> {
        let create = PutOptions::from(PutMode::Create);
        let payload = PutPayload::from_static(b"x");
        kept.put_opts(&Path::from(location), payload, create).await
    }

    fn is_final(refused: &store::Error) -> bool {
        NonRetryable::find(refused).is_some()
    }

    #[tokio::test]
    async fn a_removed_directory_is_not_made_again() {
        let directory = tempfile::tempdir().unwrap();
        for removed in ["data", "data/db", "data/db/manifest", "data/db/wal"] {
            let directory = tempfile::tempdir_in(directory.path()).unwrap();
            let (_, kept) = database(&directory).await;
            let removed = directory.path().join(removed);
            std::fs::remove_dir_all(&removed).unwrap();
            let refused = put(&kept, "db/wal/00000000000000000002.sst").await;
            let refused = refused.unwrap_err();
            assert!(is_final(&refused), "{}: {refused}", removed.display());
            assert!(!removed.exists(), "{}", removed.display());
            // Reading finds out as well.
            let refused = kept.get(&Path::from(FIRST)).await;
            if !removed.ends_with("wal") {
                assert!(is_final(&refused.unwrap_err()), "{}", removed.display());
            }
        }
    }

    #[tokio::test]
    async fn a_moved_directory_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let (root, kept) = database(&directory).await;
        let away = directory.path().join("away");
        std::fs::rename(&root, &away).unwrap();
        let refused = put(&kept, "db/wal/00000000000000000002.sst").await;
        let refused = refused.unwrap_err();
        assert!(!is_final(&refused), "{refused}");
        assert!(refused.to_string().contains("put it back"), "{refused}");
        assert!(!root.exists());
        // An empty directory in its place, as an unmounted one leaves it, is not taken for it.
        std::fs::create_dir(&root).unwrap();
        assert!(put(&kept, "db/wal/00000000000000000002.sst").await.is_err());
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
        let read = kept.get(&Path::from(WAL)).await.unwrap_err();
        assert!(!matches!(read, store::Error::NotFound { .. }), "{read}");
        std::fs::remove_dir(&root).unwrap();
        std::fs::rename(&away, &root).unwrap();
        put(&kept, "db/wal/00000000000000000002.sst").await.unwrap();
    }

    #[tokio::test]
    async fn a_missing_manifest_ends_it_and_a_newer_one_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let (root, kept) = database(&directory).await;
        let second = root.join("db/manifest/00000000000000000002.manifest");
        std::fs::rename(root.join(FIRST), &second).unwrap();
        put(&kept, "db/wal/00000000000000000002.sst").await.unwrap();
        std::fs::remove_file(&second).unwrap();
        let refused = put(&kept, "db/wal/00000000000000000003.sst").await;
        let refused = refused.unwrap_err();
        assert!(is_final(&refused), "{refused}");
        assert!(refused.to_string().contains("manifest"), "{refused}");
    }

    /// A put before which something else happens.
    fn put_after(
        kept: &KeptStore,
        location: &Path,
        before: impl FnOnce() + Send + 'static,
    ) -> impl Future<Output = store::Result<PutResult>> + Send + 'static {
        let (inner, location) = (Arc::clone(&kept.inner), location.clone());
        async move {
            tokio::task::spawn_blocking(before).await.unwrap();
            inner.put(&location, PutPayload::from_static(b"x")).await
        }
    }

    /// The directory goes between the look before a put and the put itself.
    #[tokio::test]
    async fn what_a_put_made_meanwhile_is_taken_back() {
        for moved in ["data/db", "data"] {
            let directory = tempfile::tempdir().unwrap();
            let (_, kept) = database(&directory).await;
            let (moved, away) = (directory.path().join(moved), directory.path().join("away"));
            let location = Path::from("db/wal/00000000000000000002.sst");
            let put = {
                let (moved, away) = (moved.clone(), away.clone());
                put_after(&kept, &location, move || {
                    std::fs::rename(&moved, &away).unwrap();
                })
            };
            let refused = kept.guarded(&location, put).await.unwrap_err();
            assert!(!is_final(&refused), "{refused}");
            assert!(!moved.exists(), "it was made again");
            std::fs::rename(&away, &moved).unwrap();
            kept.check(&location).await.unwrap();
        }
    }

    /// As when a database is closed while a put is under way.
    #[tokio::test]
    async fn a_put_that_nobody_waits_for_takes_back_what_it_made() {
        let directory = tempfile::tempdir().unwrap();
        let (root, kept) = database(&directory).await;
        let location = Path::from("db/wal/00000000000000000002.sst");
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let put = {
            let root = root.clone();
            put_after(&kept, &location, move || {
                std::fs::remove_dir_all(&root).unwrap();
                begun.send(()).unwrap();
                let _ = gone.recv();
            })
        };
        let store = kept.clone();
        let waiting = tokio::spawn(async move { store.guarded(&location, put).await });
        has_begun.await.unwrap();
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        drop(go);
        // Only the put itself holds the directories by then.
        while Arc::strong_count(&kept.directories) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(!root.exists(), "it was made again");
    }

    /// As when a file system is unmounted: what it was mounted on was there before.
    #[tokio::test]
    async fn an_older_directory_in_the_place_of_the_kept_one_stays() {
        let directory = tempfile::tempdir().unwrap();
        let under = directory.path().join("under");
        std::fs::create_dir(&under).unwrap();
        std::thread::sleep(2 * FILE_CLOCK_TICK);
        let (root, kept) = database(&directory).await;
        let location = Path::from("db/wal/00000000000000000002.sst");
        let put = {
            let (root, away) = (root.clone(), directory.path().join("away"));
            put_after(&kept, &location, move || {
                std::fs::rename(&root, away).unwrap();
                std::fs::rename(under, &root).unwrap();
            })
        };
        kept.guarded(&location, put).await.unwrap_err();
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
    }
}
