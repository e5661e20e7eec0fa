//! A log that gets shorter while it is read.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use parking_lot::Mutex;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    self, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use tokio::sync::{Notify, oneshot};

use super::{bucket_key, eventually, in_memory, open, put};
use crate::slate::engine::Engine;
use crate::slate::follower::Follower;
use crate::slate::read_view::View;
use crate::slate::reader::open_reader;

/// A store whose first request for the log waits until something else is done.
#[derive(Debug)]
struct Interrupted {
    inner: Arc<dyn ObjectStore>,
    /// Until it was asked for the log.
    meanwhile: Mutex<Option<Meanwhile>>,
    later_manifests: LaterManifests,
}

/// The answer to a look for later manifests, which only a reader that settles takes.
#[derive(Debug)]
enum LaterManifests {
    Listed,
    Refused,
    /// Never answered: tells that the look has begun.
    Silent(Notify),
}

#[derive(Debug)]
struct Meanwhile {
    begun: oneshot::Sender<()>,
    done: oneshot::Receiver<()>,
}

impl Interrupted {
    fn over(store: &Arc<dyn ObjectStore>, later_manifests: LaterManifests) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(store),
            meanwhile: Mutex::default(),
            later_manifests,
        })
    }

    async fn wait(&self, place: &Path) {
        let is_log = place.as_ref().contains("/wal");
        let meanwhile = is_log.then(|| self.meanwhile.lock().take()).flatten();
        if let Some(Meanwhile { begun, done }) = meanwhile {
            begun.send(()).unwrap();
            done.await.unwrap();
        }
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Interrupted {
    async fn put_opts(
        &self,
        _: &Path,
        _: PutPayload,
        _: PutOptions,
    ) -> object_store::Result<PutResult> {
        unreachable!("a reader writes nothing")
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        unreachable!("a reader writes nothing")
    }

    async fn get_opts(&self, place: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.wait(place).await;
        self.inner.get_opts(place, options).await
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        unreachable!("a reader deletes nothing")
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        match &self.later_manifests {
            LaterManifests::Listed => self.inner.list_with_offset(prefix, offset),
            LaterManifests::Refused => {
                let refusal = object_store::Error::Generic {
                    store: "test",
                    source: "refused".into(),
                };
                stream::once(async move { Err(refusal) }).boxed()
            }
            LaterManifests::Silent(begun) => {
                begun.notify_one();
                stream::pending().boxed()
            }
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> object_store::Result<()> {
        unreachable!("a reader writes nothing")
    }
}

/// Reads while the log is put into a file, and deleted, behind the reader's back. SlateDB takes a
/// file of the log that is missing for the end of the log.
async fn while_shortening<T>(
    engine: &Engine,
    interrupted: &Interrupted,
    reading: impl Future<Output = T>,
) -> T {
    let (begun, asked) = oneshot::channel();
    let (finish, done) = oneshot::channel();
    *interrupted.meanwhile.lock() = Some(Meanwhile { begun, done });
    let shortening = async {
        // The reader has its manifest.
        asked.await.unwrap();
        engine.flush_memtable().await.unwrap();
        let replayed = engine.db().manifest().replay_after_wal_id();
        for number in 0..replayed {
            let file = Path::from(format!("db/wal/{number:020}.sst"));
            // There may be none of that number.
            let _ = interrupted.inner.delete(&file).await;
        }
        finish.send(()).unwrap();
    };
    let (read, ()) = tokio::join!(reading, shortening);
    read
}

async fn write(engine: &Engine, ids: RangeInclusive<u32>) {
    for id in ids {
        put(engine, bucket_key(60, id), b"x").await.unwrap();
    }
}

async fn check_all(view: &View, ids: RangeInclusive<u32>) {
    for id in ids {
        let found = view.get(&bucket_key(60, id)).await.unwrap();
        assert!(found.is_some(), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_collected_while_it_is_read_hides_nothing() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    write(&engine, 1..=3).await;
    let interrupted = Interrupted::over(&store, LaterManifests::Listed);
    let reading = open_reader(&options, Some(Arc::clone(&interrupted) as _));
    let reader = while_shortening(&engine, &interrupted, reading).await;
    let reader = reader.unwrap();
    check_all(&reader.view(), 1..=3).await;
    reader.close().await.unwrap();
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_collected_while_it_is_followed_hides_nothing() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    write(&engine, 1..=3).await;
    let interrupted = Interrupted::over(&store, LaterManifests::Listed);
    let follower = Follower::over(&options, Arc::clone(&interrupted) as _, Duration::ZERO);
    let opened = while_shortening(&engine, &interrupted, follower.state()).await;
    check_all(&opened.unwrap().view(), 1..=3).await;
    // Given back, it is moved on.
    write(&engine, 4..=6).await;
    let stepped = while_shortening(&engine, &interrupted, follower.state()).await;
    check_all(&stepped.unwrap().view(), 1..=6).await;
    engine.close().await.unwrap();
}

/// Waits until the readers on a store are gone: each has the store for as long as it polls.
async fn released(store: Arc<Interrupted>) {
    let left = Arc::downgrade(&store);
    drop(store);
    eventually("readers are closed", async || left.strong_count() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_settle_is_closed() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    put(&engine, bucket_key(60, 1), b"x").await.unwrap();

    let refusing = Interrupted::over(&store, LaterManifests::Refused);
    let read = open_reader(&options, Some(Arc::clone(&refusing) as _)).await;
    assert!(read.is_err());
    released(refusing).await;

    let refusing = Interrupted::over(&store, LaterManifests::Refused);
    let follower = Follower::over(&options, Arc::clone(&refusing) as _, Duration::ZERO);
    assert!(follower.state().await.is_err());
    drop(follower);
    released(refusing).await;

    // A request that ends while the store is silent.
    let silent = Interrupted::over(&store, LaterManifests::Silent(Notify::new()));
    let follower = Follower::over(&options, Arc::clone(&silent) as _, Duration::ZERO);
    let LaterManifests::Silent(begun) = &silent.later_manifests else {
        unreachable!("it was made so");
    };
    tokio::select! {
        answer = follower.state() => panic!("an answer without manifests: {}", answer.is_ok()),
        () = begun.notified() => {}
    }
    drop(follower);
    released(silent).await;
    engine.close().await.unwrap();
}
