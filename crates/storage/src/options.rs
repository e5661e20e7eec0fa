//! Every setting of the storage engine, with the reason for its default.
//!
//! The server's configuration registry maps file keys, flags and environment variables onto these
//! fields; nothing here parses text.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, Result};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// All settings of a [`Database`](crate::Database).
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub store: StoreOptions,
    pub journal: JournalOptions,
    pub head: HeadOptions,
    pub limits: Limits,
    pub read: ReadOptions,
    pub maintenance: MaintenanceOptions,
}

/// Where the data lies and how SlateDB keeps it.
#[derive(Clone)]
pub struct StoreOptions {
    /// A directory, or a URL: `file://`, `memory://`, `s3://bucket/prefix`, `gs://`, `az://`.
    pub location: String,
    /// S3 endpoint; empty for AWS itself or `AWS_ENDPOINT_URL`.
    pub endpoint: String,
    /// S3 region; empty for `AWS_REGION` or us-east-1, which S3-compatible servers accept.
    pub region: String,
    /// Credentials; empty for the usual environment variables and instance roles.
    pub access_key_id: String,
    pub secret_access_key: String,
    /// Address buckets as `endpoint/bucket`: what most S3-compatible servers expect.
    pub path_style: bool,
    /// Call fsync on files and directories of a local store: without it, acknowledged samples can
    /// be lost on power failure (about 57 ns of CPU per sample).
    pub fsync: bool,
    /// How long the first contact with the store may take: a wrong endpoint or bucket should be an
    /// error that a person sees, not a hang.
    pub open_timeout: Duration,
    /// How often a read is repeated before the query that needs it fails, and any request while the
    /// database is opened, which is for a few minutes. Writes of a running database are repeated
    /// until they succeed.
    pub retries_max: usize,
    /// Open a local directory although another process has it, which then ends. Never a default:
    /// two processes on one directory are nearly always a mistake.
    pub take_over: bool,
    /// SlateDB block size. 16 KiB: four times fewer index entries than the 4 KiB default, still
    /// cheap to fetch for a single series. 64 KiB saves nothing more, with zstd neither.
    pub block_bytes: usize,
    /// Codec of blocks as they are written first, to the WAL and by flushes. lz4 is nearly free;
    /// zstd saves a fifth of the bytes for a third more CPU in a flush.
    pub compression: Compression,
    /// Codec of blocks that compaction writes. They are rewritten seldom and stay for long, so zstd
    /// pays here: against lz4 it saves a quarter of coarse samples, half of the labels and a third
    /// of the inverted index.
    pub compacted_compression: Compression,
    /// Cache of decoded data blocks: room for a dashboard's worth of recent hours on a small host.
    pub block_cache_bytes: usize,
    /// Cache of SST indexes and filters, kept apart so that a large scan cannot evict them.
    pub meta_cache_bytes: usize,
    /// Size at which the memtable becomes an L0 file. Small, because it is held in memory several
    /// times over while it is written.
    pub l0_sst_bytes: usize,
    /// Bytes that may wait in memtables before writes block. Four L0 files: fewer was seen to hang.
    pub unflushed_bytes_max: usize,
    /// SlateDB's own WAL timer. The commit loop flushes long before it; it is the safety net
    /// without which a bucket flush was seen to hang.
    pub wal_flush_interval: Duration,
    /// Whether this process compacts and collects garbage.
    pub compaction: bool,
    /// How often files that nothing refers to are looked for.
    pub gc_interval: Duration,
    /// How long such a file is kept for readers that may still use it.
    pub gc_min_age: Duration,
}

impl fmt::Debug for StoreOptions {
    /// Names the location only: the rest includes secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("location", &self.location)
            .finish_non_exhaustive()
    }
}

/// Codec of stored blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    None,
    #[default]
    Lz4,
    Zstd,
}

/// The journal and its commit loop.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Least time between two commits. `None`: 2 ms on a local directory (a gathering time for
    /// small requests), 200 ms on a remote store, where each commit is a PUT that costs money.
    pub commit_interval: Option<Duration>,
    /// An epoch ends after this many bytes: replay and draining work epoch by epoch.
    pub epoch_bytes_max: usize,
    /// An epoch ends at each multiple of this time: with an hour, it holds the samples of one hour,
    /// and is drained when that is flushed.
    pub epoch_age_max: Duration,
    /// Buckets that keep an epoch alive for longer than this are flushed although they are still
    /// being written to: it bounds what a restart has to replay.
    pub epoch_keep_max: Duration,
    /// Bytes waiting for the commit loop before new requests get 503.
    pub queue_bytes_max: usize,
    /// How long a request waits for its commit before it gets 503. It stays in head and queue, and
    /// is written when the store is back. What Prometheus waits for a remote write by default.
    pub commit_timeout: Duration,
    /// Refuse to start when a journal record cannot be read, instead of reporting it and going on.
    pub strict_recovery: bool,
}

/// The head and its flushes.
#[derive(Clone, Debug)]
pub struct HeadOptions {
    /// Memory of samples above which buckets are flushed early, largest first. `None`: a sixteenth
    /// of the machine's memory.
    pub flush_bytes: Option<usize>,
    /// Memory of samples above which writes get 503 with `Retry-After` until flushes catch up.
    /// `None`: an eighth of the machine's memory.
    pub bytes_max: Option<usize>,
    /// Memory of series (labels, index, tables) above which new series are refused; no flush gives
    /// it back. `None`: a quarter of the machine's memory.
    pub series_bytes_max: Option<usize>,
    /// A bucket is flushed when it ended this long ago and nothing was written to it for as long.
    /// Two minutes cover usual remote-write lag, so that hours are written once.
    pub flush_grace: Duration,
    /// How long a series may be idle before the head forgets it. Above the longest usual scrape
    /// interval, so that slow series are not created again at each scrape.
    pub series_idle_max: Duration,
    /// Records per write batch of a flush; larger ones measured no faster.
    pub flush_batch_records: usize,
    /// Bytes per write batch of a flush.
    pub flush_batch_bytes: usize,
}

/// What a request may contain and the process may hold.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Active series in the head.
    pub series_max: usize,
    /// New series one request may create.
    pub new_series_per_request_max: usize,
    /// Labels per series.
    pub labels_per_series_max: usize,
    /// Bytes of a label name.
    pub label_name_bytes_max: usize,
    /// Bytes of a label value.
    pub label_value_bytes_max: usize,
    /// Samples (floats, histograms, exemplars) per request.
    pub samples_per_request_max: usize,
    /// How far ahead of this machine's clock a timestamp may be. Clocks differ by minutes at most;
    /// a timestamp in the wrong unit is far off.
    pub future_max: Duration,
    /// Hours of long ago (not within twelve of now) from which on a request may open no further
    /// ones. Hours around now are not counted. Enough for a year of hours, or for decades of days:
    /// history that is sent series by series would otherwise be flushed anew with each of them.
    pub open_buckets_max: usize,
    /// Hour buckets one request may touch.
    pub buckets_per_request_max: usize,
    /// Exemplars kept per series and hour.
    pub exemplars_per_series_max: usize,
    /// Metric families with metadata.
    pub metadata_max: usize,
    /// Bytes of the help text of a metric; longer ones are cut.
    pub help_bytes_max: usize,
    /// Series sent as deltas whose running totals are kept. A float takes about 250 bytes, a
    /// histogram its buckets more.
    pub delta_series_max: usize,
    /// How long a running total is kept after its last point. Longer than a sender that keeps a
    /// queue through an outage resends, because a point resent after that would be added again;
    /// short enough that the series of yesterday's processes do not fill the table.
    pub delta_idle: Duration,
}

/// Limits of one read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Series one selection may resolve.
    pub series_max: usize,
    /// Samples one selection may return.
    pub samples_max: usize,
    /// Exemplars one query may return: they are held in memory together, a few hundred bytes each.
    pub exemplars_max: usize,
    /// Point gets that one selection has under way at once.
    pub concurrent_gets: usize,
    /// Memory of decoded samples, labels and index records of what was read before, and of cells of
    /// events. An hour of a series takes about 0.6 KiB in it: the default holds 10 000 series for
    /// half a day, and grows only as far as queries ask. A cell of a counter takes 45 bytes.
    pub chunk_cache_bytes: usize,
    /// Series per batch of a streamed answer.
    pub batch_series: usize,
}

/// Coarsening and what else goes on behind the requests.
#[derive(Clone, Debug)]
pub struct MaintenanceOptions {
    /// Whether this process coarsens buckets by itself; a run that somebody asks for always does.
    pub enabled: bool,
    /// How long a window must have been closed, and its hours without a write, before it is
    /// coarsened: what comes later costs a rewrite of its own.
    pub delay: Duration,
    /// How long the records of a bucket are kept after a coarser one took its place, for readers in
    /// other processes that still have the old list. Longer than a query may take.
    pub grace: Duration,
    /// Bytes per second that jobs read and write at most, so that ingest and queries have the
    /// machine.
    pub read_bytes_per_second: usize,
    pub write_bytes_per_second: usize,
}

impl MaintenanceOptions {
    /// Rates below this would let a job run for days and hold back flushes as long.
    const RATE_MIN: usize = 64 * KIB;

    /// Refuses what cannot work.
    pub(crate) fn check(&self) -> Result<()> {
        let rates = [
            (
                "maintenance.read_bytes_per_second",
                self.read_bytes_per_second,
            ),
            (
                "maintenance.write_bytes_per_second",
                self.write_bytes_per_second,
            ),
        ];
        for (name, rate) in rates {
            if rate < Self::RATE_MIN {
                let min = Self::RATE_MIN;
                return Err(Error::Invalid(
                    format!("{name} = {rate} is less than {min}").into(),
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn delay_ms(&self) -> i64 {
        i64::try_from(self.delay.as_millis()).unwrap_or(i64::MAX)
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            location: "./icecore-data".into(),
            endpoint: String::new(),
            region: String::new(),
            access_key_id: String::new(),
            secret_access_key: String::new(),
            path_style: true,
            fsync: true,
            open_timeout: Duration::from_secs(10),
            retries_max: 120,
            take_over: false,
            block_bytes: 16 * KIB,
            compression: Compression::default(),
            compacted_compression: Compression::Zstd,
            block_cache_bytes: 64 * MIB,
            meta_cache_bytes: 128 * MIB,
            l0_sst_bytes: 16 * MIB,
            unflushed_bytes_max: 64 * MIB,
            wal_flush_interval: Duration::from_millis(100),
            compaction: true,
            gc_interval: Duration::from_secs(60),
            gc_min_age: Duration::from_secs(300),
        }
    }
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            commit_interval: None,
            epoch_bytes_max: 64 * MIB,
            epoch_age_max: Duration::from_secs(3600),
            epoch_keep_max: Duration::from_secs(3 * 3600),
            queue_bytes_max: 64 * MIB,
            commit_timeout: Duration::from_secs(30),
            strict_recovery: false,
        }
    }
}

impl Default for HeadOptions {
    fn default() -> Self {
        Self {
            flush_bytes: None,
            bytes_max: None,
            series_bytes_max: None,
            flush_grace: Duration::from_secs(120),
            series_idle_max: Duration::from_secs(3600),
            flush_batch_records: 4096,
            flush_batch_bytes: 2 * MIB,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            series_max: 10_000_000,
            new_series_per_request_max: 1_000_000,
            labels_per_series_max: 64,
            label_name_bytes_max: KIB,
            label_value_bytes_max: 4 * KIB,
            samples_per_request_max: 1_000_000,
            future_max: Duration::from_secs(3600),
            open_buckets_max: 10_000,
            buckets_per_request_max: 1000,
            exemplars_per_series_max: 1000,
            metadata_max: 100_000,
            help_bytes_max: 4 * KIB,
            delta_series_max: 1_000_000,
            delta_idle: Duration::from_secs(6 * 3600),
        }
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            series_max: 2_000_000,
            samples_max: 500_000_000,
            exemplars_max: 100_000,
            concurrent_gets: 32,
            chunk_cache_bytes: 128 * MIB,
            batch_series: 1024,
        }
    }
}

impl Default for MaintenanceOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            delay: Duration::from_secs(30 * 60),
            grace: Duration::from_secs(5 * 60),
            read_bytes_per_second: 32 * MIB,
            write_bytes_per_second: 8 * MIB,
        }
    }
}
