//! SlateDB's settings, each with the reason for its value.
//!
//! Holds always:
//! - A journal segment that is never compacted cannot stall writes. SlateDB counts L0 files per
//!   segment tree, not globally (despite its documentation): all of a tree's files against
//!   `l0_max_ssts`, and those that cover one key against `l0_max_ssts_per_key`. Journal keys
//!   ascend, so their files do not overlap and only the first limit concerns them; it is set out of
//!   reach.
//! - Polls are quick where they cost nothing (a local directory) and slower where each one is a
//!   request that is paid for.

use std::time::Duration;

use bytes::Bytes;
use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, CompressionCodec, GarbageCollectorDirectoryOptions,
    GarbageCollectorOptions, Settings, SstBlockSize,
};
use slatedb::{BlockCachePolicy, CacheTarget};

use super::location::StoreLocation;
use super::scheduler::{JOBS_MAX, REWRITES_MAX};
use crate::error::{Error, Result};
use crate::options::{Compression, StoreOptions};

/// L0 files of one segment. An epoch of the journal collects one per memtable, about one each ten
/// seconds at most; this is out of its reach and still bounds the manifest.
const L0_FILES_MAX: usize = 1 << 14;

/// L0 files that may hold one key before memtables wait for compaction, and writes and a clean stop
/// with them. Compaction starts at four. With 32, sixty restarts within five minutes, each too
/// short for a compaction, made a stop take half a minute; slower reads are the lesser evil.
pub(crate) const L0_FILES_PER_KEY_MAX: usize = 512;

/// Largest file that compaction writes. SlateDB's 256 MiB needs gigabytes of memory for a few jobs.
const COMPACTED_SST_BYTES: usize = 64 << 20;

/// WAL files are needed until their memtable is flushed, which SlateDB ensures by itself. The age
/// is for readers that just opened one; there are hundreds of files a second, so it is kept short.
const WAL_MIN_AGE_MAX: Duration = Duration::from_secs(60);

pub(crate) fn settings(options: &StoreOptions, location: &StoreLocation) -> Result<Settings> {
    if options.unflushed_bytes_max < options.l0_sst_bytes.saturating_mul(2) {
        return Err(Error::Invalid(format!(
            "the limit on unflushed bytes ({}) must be at least twice the L0 size ({}): with less, writes wait for a flush that never starts",
            options.unflushed_bytes_max, options.l0_sst_bytes
        ).into()));
    }
    Ok(Settings {
        flush_interval: Some(options.wal_flush_interval),
        manifest_poll_interval: poll_interval(location),
        l0_sst_size_bytes: options.l0_sst_bytes,
        max_wal_flushes_before_l0_flush: wal_files_max(location),
        l0_max_ssts: L0_FILES_MAX,
        // Without compaction in this process nothing here can bring the number down, and a limit
        // would stop writes for good.
        l0_max_ssts_per_key: if options.compaction {
            L0_FILES_PER_KEY_MAX
        } else {
            L0_FILES_MAX
        },
        // Two files are built at once: each is a second copy of its share of the memtable.
        l0_flush_parallelism: 2,
        max_unflushed_bytes: options.unflushed_bytes_max,
        compression_codec: codec(options.compression),
        compactor_options: None,
        // `collector` does it.
        garbage_collector_options: None,
        object_store_max_retries: None,
        ..Settings::default()
    })
}

pub(crate) fn compactor(options: &StoreOptions, location: &StoreLocation) -> CompactorOptions {
    CompactorOptions {
        poll_interval: poll_interval(location),
        commit_compacted_interval: poll_interval(location).min(Duration::from_secs(1)),
        max_concurrent_compactions: JOBS_MAX,
        checkpoint_lifetime: checkpoint_lifetime(options),
        worker: Some(worker(options, location)),
        object_store_max_retries: None,
        ..CompactorOptions::default()
    }
}

/// Protects the files of running reads after a compaction or drain has replaced them: the very
/// thing `gc_min_age` promises. SlateDB's 15 minutes would keep a directory large.
pub(super) fn checkpoint_lifetime(options: &StoreOptions) -> Duration {
    options.gc_min_age.max(Duration::from_secs(1))
}

fn worker(options: &StoreOptions, location: &StoreLocation) -> CompactionWorkerOptions {
    CompactionWorkerOptions {
        max_concurrent_compactions: REWRITES_MAX,
        compactions_poll_interval: poll_interval(location),
        max_sst_size: COMPACTED_SST_BYTES,
        max_fetch_tasks: 2,
        bytes_to_fetch: 1 << 20,
        // Splitting one job over cores is for large machines; here it would multiply buffers.
        max_subcompactions: 1,
        compression_codec: codec(options.compacted_compression),
        object_store_max_retries: None,
        ..CompactionWorkerOptions::default()
    }
}

/// The ages at which files that nothing refers to may be deleted when somebody waits for it and no
/// reader of this process is left that could need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HurriedAges {
    /// Of files with records. SlateDB itself keeps those that may be about to be listed; two polls
    /// are for what this process has read of a manifest and not used yet.
    pub(crate) records: Duration,
    /// Of manifests and files of the log.
    pub(crate) logs: Duration,
}

pub(super) fn hurried_ages(options: &StoreOptions, location: &StoreLocation) -> HurriedAges {
    HurriedAges {
        records: poll_interval(location) * 2,
        logs: hurried_log_age(options, location),
    }
}

/// SlateDB writes a manifest as the next number after the one it knows. Were that one deleted
/// already because others came after it, a writer that lags behind would succeed and its write be
/// lost. It learns of others at every poll, so ten of them are safe by far; and where writes may
/// hang (a remote store) boundary files keep it from happening at all.
fn hurried_log_age(options: &StoreOptions, location: &StoreLocation) -> Duration {
    let poll = poll_interval(location);
    options.gc_min_age.min(poll * 10).max(poll * 2)
}

pub(super) fn hurried_garbage(
    options: &StoreOptions,
    location: &StoreLocation,
) -> GarbageCollectorOptions {
    let ages = hurried_ages(options, location);
    let hurried = StoreOptions {
        gc_min_age: ages.logs,
        ..options.clone()
    };
    let mut garbage = garbage(&hurried, location);
    if let Some(files) = &mut garbage.compacted_options {
        files.min_age = ages.records;
    }
    garbage
}

pub(super) fn garbage(options: &StoreOptions, location: &StoreLocation) -> GarbageCollectorOptions {
    let directory = |min_age| {
        Some(GarbageCollectorDirectoryOptions {
            interval: Some(options.gc_interval),
            min_age,
            dry_run: false,
        })
    };
    GarbageCollectorOptions {
        manifest_options: directory(options.gc_min_age),
        compacted_options: directory(options.gc_min_age),
        compactions_options: directory(options.gc_min_age),
        wal_options: directory(options.gc_min_age.min(WAL_MIN_AGE_MAX)),
        // A fence that is deleted could let a stale writer acknowledge a write that nobody will
        // read. They are empty files, one per start.
        wal_fence_options: None,
        // Only clones need it.
        detach_options: None,
        // They are advanced with If-Match, which a local directory does not have.
        boundary_files_enabled: !location.is_local(),
        object_store_max_retries: None,
        ..GarbageCollectorOptions::default()
    }
}

pub(crate) fn block_size(options: &StoreOptions) -> Result<SstBlockSize> {
    Ok(match options.block_bytes >> 10 {
        1 => SstBlockSize::Block1Kib,
        2 => SstBlockSize::Block2Kib,
        4 => SstBlockSize::Block4Kib,
        8 => SstBlockSize::Block8Kib,
        16 => SstBlockSize::Block16Kib,
        32 => SstBlockSize::Block32Kib,
        64 => SstBlockSize::Block64Kib,
        _ => {
            return Err(Error::Invalid(
                format!(
                    "block size {} is not 1, 2, 4, 8, 16, 32 or 64 KiB",
                    options.block_bytes
                )
                .into(),
            ));
        }
    })
}

/// What a flush leaves in the block cache: everything but the journal, which nobody reads until a
/// restart and which would push out what queries need.
pub(crate) fn cache_policy() -> BlockCachePolicy {
    let journal = icecore_records::key::journal_epoch_prefix(0);
    let journal_first = journal.slice(..journal.len().min(2));
    let journal_after: Vec<u8> = match journal_first.split_last() {
        Some((tag, version)) => [version, &[(tag | 0x0F).saturating_add(1)]].concat(),
        None => Vec::new(),
    };
    BlockCachePolicy::default().with_flush_targets(&[
        CacheTarget::data(..journal_first),
        CacheTarget::data(Bytes::from(journal_after)..),
        CacheTarget::Index,
        CacheTarget::Filters,
    ])
}

pub(crate) fn retries(options: &StoreOptions) -> u32 {
    u32::try_from(options.retries_max).unwrap_or(u32::MAX)
}

fn poll_interval(location: &StoreLocation) -> Duration {
    match location {
        // Nobody else has it, and whoever tests with it does not want to wait.
        StoreLocation::Memory => Duration::from_millis(50),
        StoreLocation::Local(_) => Duration::from_secs(1),
        StoreLocation::Remote { .. } => Duration::from_secs(5),
    }
}

/// WAL files after which the memtable is flushed however small it is: it bounds what a restart has
/// to open. Local commits come every few milliseconds and local files open fast.
fn wal_files_max(location: &StoreLocation) -> u64 {
    match location {
        StoreLocation::Local(_) | StoreLocation::Memory => 16_384,
        StoreLocation::Remote { .. } => 4_096,
    }
}

fn codec(compression: Compression) -> Option<CompressionCodec> {
    match compression {
        Compression::None => None,
        Compression::Lz4 => Some(CompressionCodec::Lz4),
        Compression::Zstd => Some(CompressionCodec::Zstd),
    }
}
