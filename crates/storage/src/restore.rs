//! Restore: a snapshot becomes a database of its own, in another place.
//!
//! ```text
//! snapshot ─ every record, in key order ─► new database, with a progress mark
//!          ─► compared ─► mark removed
//! ```
//!
//! Files of events are copied, too: all that there are, because what a snapshot needs is not
//! deleted while it is there (`crate::events`).
//!
//! Holds always:
//! - Nothing of the new database refers to the old one: records are copied, not files.
//! - It is complete when this returns: both were read once more and are the same, record by record.
//!   Until then it has a mark, and nobody opens it.
//! - Each batch moves the mark in the same write, so a repeat goes on where it was cut off. A place
//!   where anything else lies is refused, and a database there is not taken from its writer.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use icecore_records::key;
use icecore_records::restore_mark::{self, RestoreMark};
use slatedb::object_store::ObjectStore;
use slatedb::{DbIterator, KeyValue, WriteBatch};
use tracing::info;

use crate::error::{Error, Result};
use crate::options::StoreOptions;
use crate::slate::engine::Engine;
use crate::slate::event_files::EventFiles;
use crate::slate::object_store::{OpenedStore, open_store};
use crate::slate::read_view::{ScanKind, View};
use crate::slate::reader::{Reader, open_reader};
use crate::slate::snapshots::{Snapshot, open_snapshot};

/// What is written in one go.
const BATCH_RECORDS: usize = 4096;
const BATCH_BYTES: usize = 4 << 20;

/// Records after which the memtable is written out: small ones take ten times their bytes in
/// memory.
const MEMTABLE_RECORDS_MAX: usize = 1 << 18;

/// Where a snapshot is, and where it goes.
#[derive(Clone)]
pub struct Restore {
    pub from: StoreOptions,
    pub snapshot: String,
    pub to: StoreOptions,
    /// Object stores to use in place of those that the locations name (tests).
    pub stores: Option<(Arc<dyn ObjectStore>, Arc<dyn ObjectStore>)>,
}

/// How far a restore is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreProgress {
    /// Whether everything is copied and is being compared.
    pub comparing: bool,
    pub records: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Bytes of files that have been gone through, and of all.
    pub file_bytes: u64,
    pub file_bytes_total: u64,
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    pub snapshot: Snapshot,
    pub records: u64,
    pub bytes: u64,
    /// Whether it went on where an earlier one was cut off.
    pub resumed: bool,
}

/// Copies a snapshot into a new database, and compares them.
pub async fn restore(
    restore: Restore,
    mut tell: impl FnMut(RestoreProgress),
) -> Result<RestoreReport> {
    let (from_store, to_store) = restore.stores.clone().unzip();
    let from = open_store(&restore.from, from_store, false)?;
    let (snapshot, source) = open_snapshot(&from, &restore.from, &restore.snapshot).await?;
    let to = open_store(&restore.to, to_store.clone(), true)?;
    let mark = mark_of(&to, &restore.to, &to_store, &snapshot).await?;
    let resumed = !mark.last_key.is_empty();
    let target = Engine::open(&restore.to, to_store).await?;
    let mut files = Files::of(&source);
    let copied = copy(&source.view(), &target, mark, &mut files, &mut tell).await;
    let copied = match copied {
        Ok(mark) => copy_event_files(&from, &restore, &target)
            .await
            .map(|()| mark),
        Err(cause) => Err(cause),
    };
    let done = match copied {
        Ok(mark) => finish(&source.view(), &target, mark, &mut files, &mut tell).await,
        Err(cause) => Err(cause),
    };
    let closed = target.close().await;
    let mark = done?;
    closed?;
    source.close().await?;
    let (records, bytes) = (mark.records, mark.bytes);
    info!(snapshot = snapshot.name, records, bytes, to = %to.location, "snapshot restored");
    Ok(RestoreReport {
        snapshot,
        records,
        bytes,
        resumed,
    })
}

async fn copy_event_files(from: &OpenedStore, restore: &Restore, target: &Engine) -> Result<()> {
    let from = EventFiles::at(from, restore.from.retries_max);
    let (files, bytes) = EventFiles::of(target).copy_all(&from).await?;
    info!(files, bytes, "files of events copied");
    Ok(())
}

/// The mark that a restore of this snapshot left at the place, or a fresh one if nothing lies
/// there.
async fn mark_of(
    to: &OpenedStore,
    options: &StoreOptions,
    store: &Option<Arc<dyn ObjectStore>>,
    snapshot: &Snapshot,
) -> Result<RestoreMark> {
    let fresh = RestoreMark {
        snapshot: snapshot.id.clone(),
        ..RestoreMark::default()
    };
    let first = to.store.list(Some(&to.path)).next().await.transpose();
    let first = first.map_err(|cause| {
        Error::Unavailable(format!("cannot look into {}: {cause}", to.location).into())
    })?;
    let refuse = |why: &str| Err(Error::Invalid(format!("{} {why}", to.location).into()));
    let not_empty = "is not empty: a restore makes a new database";
    if first.is_none() {
        // Files of events are copied when there is a database with a mark.
        let strangers = EventFiles::at(to, options.retries_max).list().await?;
        return if strangers.is_empty() {
            Ok(fresh)
        } else {
            refuse(not_empty)
        };
    }
    // Reading only: whoever writes there is not disturbed.
    let Ok(reader) = open_reader(options, store.clone()).await else {
        return refuse(not_empty);
    };
    let found = reader.view().get(&key::restore_mark()).await;
    let any = first_record(&reader.view()).await;
    reader.close().await?;
    match found?.map(|value| restore_mark::decode(&value)) {
        Some(Ok(mark)) if mark.snapshot == snapshot.id => Ok(mark),
        Some(_) => refuse("holds an unfinished restore of another snapshot: remove it first"),
        // Cut off between making the database and writing the mark.
        None if !any? => Ok(fresh),
        None => refuse(not_empty),
    }
}

async fn first_record(view: &View) -> Result<bool> {
    let mut records = scan(view, &Bytes::new()).await?;
    Ok(next(&mut records).await?.is_some())
}

async fn scan(view: &View, after: &Bytes) -> Result<DbIterator> {
    let start = if after.is_empty() {
        Bound::Unbounded
    } else {
        Bound::Excluded(after.clone())
    };
    view.scan((start, Bound::Unbounded), ScanKind::Once).await
}

async fn next(records: &mut DbIterator) -> Result<Option<KeyValue>> {
    let record = records.next().await;
    record.map_err(Error::store("reading records"))
}

/// Copies what lies behind the mark. Returns the mark as it is then.
async fn copy(
    source: &View,
    target: &Engine,
    mut mark: RestoreMark,
    files: &mut Files,
    tell: &mut impl FnMut(RestoreProgress),
) -> Result<RestoreMark> {
    let mut records = scan(source, &mark.last_key).await?;
    let mut since_memtable = 0;
    loop {
        let (mut batch, mut count, mut bytes) = (WriteBatch::new(), 0, 0);
        let mut more = true;
        while more && count < BATCH_RECORDS && bytes < BATCH_BYTES {
            let Some(record) = next(&mut records).await? else {
                more = false;
                continue;
            };
            count += 1;
            bytes += record.key.len() + record.value.len();
            mark.last_key = record.key.clone();
            batch.put_bytes(record.key, record.value);
        }
        mark.records += count as u64;
        mark.bytes += bytes as u64;
        batch.put_bytes(key::restore_mark(), restore_mark::encode(&mark));
        let writing = || Error::store("writing records");
        target.db().write(batch).await.map_err(writing())?;
        target.db().flush().await.map_err(writing())?;
        since_memtable += count;
        if since_memtable >= MEMTABLE_RECORDS_MAX {
            since_memtable = 0;
            target.flush_memtable().await?;
        }
        tell(files.progress(&mark.last_key, false, mark.records, mark.bytes));
        if !more {
            return Ok(mark);
        }
    }
}

/// Compares both databases and takes the mark away.
async fn finish(
    source: &View,
    target: &Engine,
    mark: RestoreMark,
    files: &mut Files,
    tell: &mut impl FnMut(RestoreProgress),
) -> Result<RestoreMark> {
    target.flush_memtable().await?;
    let mut expected = scan(source, &Bytes::new()).await?;
    let mut found = scan(&target.live_view(), &Bytes::new()).await?;
    let (mut records, mut bytes) = (0, 0);
    let marked = key::restore_mark();
    loop {
        let wanted = next(&mut expected).await?;
        let mut copied = next(&mut found).await?;
        if copied.as_ref().is_some_and(|record| record.key == marked) {
            copied = next(&mut found).await?;
        }
        let same = match (&wanted, &copied) {
            (Some(a), Some(b)) => a.key == b.key && a.value == b.value,
            (None, None) => break,
            _ => false,
        };
        let Some(record) = wanted.filter(|_| same) else {
            return Err(Error::Corrupt(format!(
                "the copy is not what it should be behind {records} records: remove it and restore again"
            ).into()));
        };
        records += 1;
        bytes += (record.key.len() + record.value.len()) as u64;
        if records % BATCH_RECORDS as u64 == 0 {
            tell(files.progress(&record.key, true, records, bytes));
        }
    }
    tell(files.progress(&[u8::MAX], true, records, bytes));
    let mut batch = WriteBatch::new();
    batch.delete(marked);
    let ending = || Error::store("ending a restore");
    let handle = target.db().write(batch).await.map_err(ending())?;
    target.flush_memtable().await?;
    handle.await_durable().await.map_err(ending())?;
    Ok(RestoreMark {
        records,
        bytes,
        ..mark
    })
}

/// Bytes of files by segment, which tell how far a walk in key order is.
struct Files {
    segments: Vec<(Bytes, u64)>,
    total: u64,
}

impl Files {
    fn of(source: &Reader) -> Self {
        let mut segments: Vec<(Bytes, u64)> = source.segment_bytes().into_iter().collect();
        segments.sort_unstable();
        Self {
            total: segments.iter().map(|(_, bytes)| bytes).sum(),
            segments,
        }
    }

    fn progress(&self, at: &[u8], comparing: bool, records: u64, bytes: u64) -> RestoreProgress {
        // A segment counts as gone through when the walk is behind it.
        let passed = self.segments.iter();
        let passed = passed.take_while(|(prefix, _)| prefix[..] < *at && !at.starts_with(prefix));
        RestoreProgress {
            comparing,
            records,
            bytes,
            file_bytes: passed.map(|(_, bytes)| bytes).sum(),
            file_bytes_total: self.total,
        }
    }
}
