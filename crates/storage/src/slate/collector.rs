//! Garbage collection: files that nothing refers to are deleted when they are old enough.
//!
//! ```text
//! tables      named by the tick clock ───────────────────────────┐
//! manifests, ─► dated by the store ─► dates told by the tick clock ─► SlateDB's collector
//! log files
//! ```
//!
//! SlateDB's collector takes one clock. Tables have their age in their name, by the tick clock;
//! manifests, files of the log and lists of compactions have the date that the store gave them, and
//! the two clocks may be years apart. So the collector gets the tick clock and a store whose dates
//! are told by it, too.
//!
//! Holds always:
//! - What the store dates is no older, for the collector, than it is: its present is the date of
//!   the newest manifest plus the time that has passed since that was first seen here.
//! - A file is no younger than a later one of its kind: they are numbered. So files from a time
//!   when the store's clock was ahead do not stay until it gets there again.
//! - When the store's clock steps ahead while it is looked at, as that of a directory can, nothing
//!   is deleted until all that was written before the step is old enough. A step between two
//!   processes is not seen: what nothing refers to may go early then.
//! - It ends with the database, whether that is closed, fenced or has failed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryFutureExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use slatedb::config::GarbageCollectorOptions;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    self as store, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
};
use slatedb::{DbStatus, GarbageCollectorBuilder};
use slatedb_common::clock::SystemClock as _;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::slate_metrics::SlateMetrics;
use super::tick_clock::TickClock;

/// By how much the store's clock is ahead of what was expected when it was set ahead: more than a
/// slow answer explains.
const STEP: Duration = Duration::from_secs(60);

/// Collects the garbage of one database.
pub(super) struct Collector {
    path: Path,
    store: Arc<dyn ObjectStore>,
    clock: Arc<TickClock>,
    metrics: SlateMetrics,
    /// By the age of files.
    options: GarbageCollectorOptions,
    store_time: Mutex<StoreTime>,
}

impl Collector {
    /// Of a database whose opening began then and has written a manifest.
    pub(super) fn new(
        path: Path,
        store: Arc<dyn ObjectStore>,
        clock: Arc<TickClock>,
        metrics: SlateMetrics,
        options: GarbageCollectorOptions,
        began: Instant,
    ) -> Self {
        Self {
            path,
            store,
            clock,
            metrics,
            store_time: Mutex::new(StoreTime::starting(began, longest_age(&options))),
            options,
        }
    }

    /// Deletes what is old enough.
    pub(super) async fn collect_regularly(&self) -> store::Result<()> {
        self.collect(self.options.clone()).await
    }

    /// Deletes what is old enough by `options`. What cannot be deleted is logged, and is tried
    /// again the next time.
    pub(super) async fn collect(&self, options: GarbageCollectorOptions) -> store::Result<()> {
        let looked = Instant::now();
        let newest = self.newest_manifest().await?;
        let listed = Instant::now();
        let Some(store_now) = self.store_time.lock().present(newest, looked, listed) else {
            warn!("the clock of the store was set ahead: old files are not deleted for a while");
            return Ok(());
        };
        let dated = DatedStore {
            inner: Arc::clone(&self.store),
            ahead: self.clock.now().signed_duration_since(store_now),
        };
        GarbageCollectorBuilder::new(self.path.clone(), Arc::new(dated))
            .with_options(options)
            .with_system_clock(Arc::clone(&self.clock) as _)
            .with_metrics_recorder(self.metrics.recorder())
            .build()
            .run_gc_once()
            .await;
        Ok(())
    }

    async fn newest_manifest(&self) -> store::Result<ObjectMeta> {
        let manifests = Path::from(format!("{}/manifest", self.path));
        let listed = self.store.list(Some(&manifests));
        let is_manifest = |file: &ObjectMeta| file.location.as_ref().ends_with(".manifest");
        let listed = listed.try_filter(|file| std::future::ready(is_manifest(file)));
        let newest = listed.try_fold(None, |newest: Option<ObjectMeta>, file| {
            let later = newest.filter(|newest| newest.location > file.location);
            std::future::ready(Ok(Some(later.unwrap_or(file))))
        });
        newest.await?.ok_or_else(|| store::Error::NotFound {
            path: manifests.to_string(),
            source: "a database has a manifest".into(),
        })
    }
}

/// Collects every `interval` until the database is closed.
pub(super) async fn run(
    collector: Arc<Collector>,
    interval: Duration,
    mut status: watch::Receiver<DbStatus>,
) {
    let closed = status.wait_for(|status| status.close_reason.is_some());
    let rounds = async {
        loop {
            if let Err(cause) = collector.collect_regularly().await {
                warn!(%cause, "old files are not deleted for now");
            }
            tokio::time::sleep(interval).await;
        }
    };
    tokio::select! {
        _ = closed => {}
        () = rounds => {}
    }
}

/// The age at which any file may go.
fn longest_age(options: &GarbageCollectorOptions) -> Duration {
    let kinds = [
        options.manifest_options,
        options.wal_options,
        options.compacted_options,
        options.compactions_options,
    ];
    let ages = kinds.iter().flatten().map(|kind| kind.min_age);
    ages.max().unwrap_or_default()
}

/// Estimates the present of the store's clock.
#[derive(Debug)]
struct StoreTime {
    newest: Option<NewestManifest>,
    /// When the last look began.
    looked: Instant,
    /// The time without deletions after the clock was set ahead.
    rest: Duration,
    /// The end of that.
    rest_end: Option<Instant>,
}

/// The newest manifest, which was written between two looks.
#[derive(Debug)]
struct NewestManifest {
    file: ObjectMeta,
    /// When it was not there yet.
    after: Instant,
    /// When it was there.
    by: Instant,
}

impl StoreTime {
    /// Begins before the newest manifest is written.
    fn starting(began: Instant, rest: Duration) -> Self {
        Self {
            newest: None,
            looked: began,
            rest,
            rest_end: None,
        }
    }

    /// Returns the present of the store's clock, or some time before it. None during the rest after
    /// a step. The look began at `looked` and ends now: `newest` may have been written meanwhile.
    fn present(
        &mut self,
        newest: ObjectMeta,
        looked: Instant,
        now: Instant,
    ) -> Option<DateTime<Utc>> {
        let after = std::mem::replace(&mut self.looked, looked);
        match &self.newest {
            Some(known) if known.file.location == newest.location => {}
            known => {
                let latest = known
                    .as_ref()
                    .map(|known| known.file.last_modified + (now - known.after));
                if latest.is_some_and(|latest| newest.last_modified > latest + STEP) {
                    self.rest_end = Some(now + self.rest);
                }
                self.newest = Some(NewestManifest {
                    file: newest,
                    after,
                    by: now,
                });
            }
        }
        self.rest_end = self.rest_end.filter(|end| now < *end);
        let known = self.newest.as_ref().filter(|_| self.rest_end.is_none());
        known.map(|known| known.file.last_modified + (now - known.by))
    }
}

/// A store whose dates are told by another clock.
struct DatedStore {
    inner: Arc<dyn ObjectStore>,
    /// Of that clock.
    ahead: TimeDelta,
}

/// Tells dates by a clock that is ahead, and no file of a kind as younger than a later one.
fn told(mut files: Vec<ObjectMeta>, ahead: TimeDelta) -> Vec<ObjectMeta> {
    // Numbers have as many digits everywhere.
    files.sort_unstable_by(|a, b| a.location.cmp(&b.location));
    let mut later: Option<(String, DateTime<Utc>)> = None;
    for file in files.iter_mut().rev() {
        let kind = kind(&file.location);
        let date = file.last_modified.checked_add_signed(ahead);
        let date = date.unwrap_or(file.last_modified);
        let latest = later.take().filter(|later| later.0 == kind);
        let date = latest.map_or(date, |latest| latest.1.min(date));
        file.last_modified = date;
        later = Some((kind, date));
    }
    files
}

/// Files of one directory with one ending are numbered together.
fn kind(place: &Path) -> String {
    let place = place.as_ref();
    let (directory, name) = place.rsplit_once('/').unwrap_or(("", place));
    let ending = name.split_once('.').map_or("", |(_, ending)| ending);
    format!("{directory}/*.{ending}")
}

impl DatedStore {
    fn listing(
        &self,
        listed: BoxStream<'static, store::Result<ObjectMeta>>,
    ) -> BoxStream<'static, store::Result<ObjectMeta>> {
        let ahead = self.ahead;
        let all = listed.try_collect::<Vec<ObjectMeta>>();
        let told = all.map_ok(move |files| stream::iter(told(files, ahead).into_iter().map(Ok)));
        stream::once(told).try_flatten().boxed()
    }
}

impl fmt::Debug for DatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatedStore({:?})", self.inner)
    }
}

impl fmt::Display for DatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for DatedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> store::Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
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
        self.listing(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, store::Result<ObjectMeta>> {
        self.listing(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> store::Result<ListResult> {
        let mut listed = self.inner.list_with_delimiter(prefix).await?;
        listed.objects = told(listed.objects, self.ahead);
        Ok(listed)
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

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn date(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(ms).unwrap()
    }

    fn file(place: &str, modified_ms: i64) -> ObjectMeta {
        ObjectMeta {
            location: Path::from(place),
            last_modified: date(modified_ms),
            size: 1,
            e_tag: None,
            version: None,
        }
    }

    fn dates(files: Vec<ObjectMeta>) -> Vec<(String, i64)> {
        let dates = files.into_iter();
        dates
            .map(|file| {
                (
                    file.location.to_string(),
                    file.last_modified.timestamp_millis(),
                )
            })
            .collect()
    }

    #[test]
    fn dates_are_told_by_another_clock() {
        let files = vec![file("db/wal/01.sst", 1_000), file("db/wal/02.sst", 2_000)];
        let told = told(files, TimeDelta::milliseconds(500));
        let expected = [("db/wal/01.sst", 1_500), ("db/wal/02.sst", 2_500)];
        assert_eq!(
            dates(told),
            expected.map(|(place, ms)| (place.to_owned(), ms))
        );
    }

    /// The clock was a year ahead when the second was written.
    #[test]
    fn a_file_is_no_younger_than_a_later_one_of_its_kind() {
        let year_ms = 365 * 86_400_000;
        let files = vec![
            file("db/wal/03.sst", 3_000),
            file("db/manifest/02.manifest", 9_000),
            file("db/wal/01.sst", 1_000),
            file("db/wal/02.sst", year_ms),
            file("db/wal/gc.boundary", 7_000),
        ];
        let expected = [
            ("db/manifest/02.manifest", 9_000),
            ("db/wal/01.sst", 1_000),
            ("db/wal/02.sst", 3_000),
            ("db/wal/03.sst", 3_000),
            ("db/wal/gc.boundary", 7_000),
        ];
        let expected = expected.map(|(place, ms)| (place.to_owned(), ms));
        assert_eq!(dates(told(files, TimeDelta::zero())), expected);
    }

    #[tokio::test]
    async fn the_present_of_the_store_follows_its_newest_manifest() {
        let start = Instant::now();
        let mut time = StoreTime::starting(start, 5 * MINUTE);
        let mut present = |id: u32, modified_ms, minutes| {
            let newest = file(&format!("db/manifest/{id:02}.manifest"), modified_ms);
            let now = start + minutes * MINUTE;
            let present = time.present(newest, now, now);
            present.map(|present| present.timestamp_millis())
        };
        assert_eq!(present(1, 1_000, 0), Some(1_000));
        assert_eq!(present(1, 1_000, 2), Some(121_000), "time passes");
        assert_eq!(
            present(2, 100_000, 2),
            Some(100_000),
            "it was written before it was seen"
        );
        // A clock that is set back is followed, and one that is set ahead after a rest.
        assert_eq!(present(3, 5_000, 3), Some(5_000));
        assert_eq!(present(4, 9_000_000, 4), None);
        assert_eq!(present(4, 9_000_000, 8), None);
        assert_eq!(present(5, 9_240_000, 8), None);
        assert_eq!(present(5, 9_240_000, 9), Some(9_300_000));
    }

    /// A manifest is seen long after it was written where looks are seldom.
    #[tokio::test]
    async fn a_manifest_that_is_seen_at_once_is_no_step_of_the_clock() {
        let start = Instant::now();
        let mut time = StoreTime::starting(start, 5 * MINUTE);
        let mut present = |id: u32, written_s: i64, looked_s: u64| {
            let newest = file(&format!("db/manifest/{id:02}.manifest"), written_s * 1_000);
            let now = start + Duration::from_secs(looked_s);
            let present = time.present(newest, now, now);
            present.map(|present| present.timestamp_millis() / 1_000)
        };
        // The store's clock began at zero, too: what is told is never later.
        assert_eq!(present(1, 1, 600), Some(1));
        assert_eq!(present(2, 1_195, 1_200), Some(1_195));
        assert_eq!(present(3, 1_201, 1_800), Some(1_201));
        assert_eq!(present(3, 1_201, 2_400), Some(1_801));
        assert_eq!(present(4, 2_999, 3_000), Some(2_999));
        assert_eq!(present(5, 3_599 + 3_600, 3_600), None, "an hour ahead");
    }

    #[tokio::test]
    async fn a_manifest_that_is_written_during_a_long_look_tells_no_later_time() {
        let start = Instant::now();
        let mut time = StoreTime::starting(start, 5 * MINUTE);
        let mut present = |id: u32, written_s: i64, looked_s: u64, listed_s: u64| {
            let newest = file(&format!("db/manifest/{id:02}.manifest"), written_s * 1_000);
            let [looked, now] = [looked_s, listed_s].map(|s| start + Duration::from_secs(s));
            let present = time.present(newest, looked, now);
            present.map(|present| present.timestamp_millis() / 1_000)
        };
        assert_eq!(present(1, 1, 2, 2), Some(1));
        // The next one was written at the end of a look of ten minutes, and is no step.
        assert_eq!(present(2, 601, 3, 603), Some(601));
        assert_eq!(present(2, 601, 700, 710), Some(708), "by 710 at most");
        assert_eq!(present(3, 1_400, 1_410, 1_411), Some(1_400));
    }
}
