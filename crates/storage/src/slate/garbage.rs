//! Bytes at rest: segments joined into one run each, and files that nothing refers to deleted, for
//! somebody who waits for it. By itself the same happens within minutes.
//!
//! ```text
//! join ─► every file is the newest of its kind ─► release ─► (age, readers) ─► delete
//! ```
//!
//! What keeps a file on the store:
//! - the manifest, as long as the file is a part of a segment;
//! - a checkpoint, which is an older manifest that is kept. The compactor makes one whenever it
//!   replaces files, for readers that still use them, and it lasts for `gc_min_age`. Readers of
//!   other programs may have their own, or none (`readers`); as long as there is one of those,
//!   nothing is hurried.
//!   Snapshots (`snapshots`) are checkpoints with a name and are never touched here;
//! - its age: SlateDB deletes a file only when a memtable was written out and a compaction was
//!   begun after it, since what is newer may be about to be listed.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use chrono::TimeDelta;
use futures::StreamExt;
use slatedb::Checkpoint;
use slatedb::compactor::SourceId;
use slatedb::object_store::path::Path;
use tokio::time::Instant;
use tracing::warn;

use super::engine::Engine;
use super::joins::is_joined;
use super::readers::may_be_read;
use super::scheduler::is_journal;
use super::tuning::{self, HurriedAges};
use crate::error::{Error, Result};

/// How often to look whether the compactor is done.
const JOIN_POLL: Duration = Duration::from_millis(200);

/// Checkpoints are stored in whole seconds.
const CHECKPOINT_PRECISION: TimeDelta = TimeDelta::seconds(1);

/// A manifest, or a file of the log.
struct NumberedFile {
    number: u64,
    bytes: u64,
}

impl Engine {
    /// Writes memtables out and joins the files that segments, all but those of the journal, have
    /// now into one run each. False when that took longer than until `deadline`; the compactor goes
    /// on with what it has begun.
    pub(crate) async fn join(&self, deadline: Instant) -> Result<bool> {
        if !self.options.compaction {
            return Ok(true);
        }
        self.flush_memtable().await?;
        let mut left = self.unjoined();
        for prefix in left.keys() {
            self.joins.insert(prefix.clone());
        }
        let mut all = true;
        while !left.is_empty() {
            let manifest = self.db.manifest();
            left.retain(|prefix, fresh| {
                let unfinished = manifest.segment(prefix).is_some_and(|segment| {
                    // What came after the call is not waited for.
                    let mut files = segment.l0().iter();
                    segment.compacted().len() > 1
                        || files.any(|view| fresh.contains(&SourceId::SstView(view.id)))
                });
                if !unfinished {
                    self.joins.remove(prefix);
                }
                unfinished
            });
            if !left.is_empty() && Instant::now() >= deadline {
                all = false;
                break;
            }
            tokio::time::sleep(JOIN_POLL).await;
        }
        for prefix in left.keys() {
            self.joins.remove(prefix);
        }
        Ok(all)
    }

    /// Segments that are not one run, with their fresh files.
    fn unjoined(&self) -> BTreeMap<Bytes, HashSet<SourceId>> {
        let manifest = self.db.manifest();
        let wanted = manifest.segments().iter();
        let wanted = wanted.filter(|segment| !is_journal(segment.prefix()));
        let unjoined =
            wanted.filter(|segment| !is_joined(segment) && !self.drains.contains(segment.prefix()));
        unjoined
            .map(|segment| {
                let fresh = segment.l0().iter();
                let fresh = fresh.map(|view| SourceId::SstView(view.id)).collect();
                (segment.prefix().clone(), fresh)
            })
            .collect()
    }

    /// Returns `true` if a program beside this one reads the database, or may do so.
    pub(crate) async fn is_read_elsewhere(&self) -> Result<bool> {
        Ok(self.own_checkpoints().await?.is_none())
    }

    /// The checkpoints without a name, if all of them are of this program. One with a name is a
    /// snapshot: it keeps its files by itself, whatever happens to the others.
    async fn own_checkpoints(&self) -> Result<Option<Vec<Checkpoint>>> {
        if may_be_read(&self.location) {
            return Ok(None);
        }
        let found = self.admin().list_checkpoints(None).await;
        let found = found.map_err(Error::store("listing checkpoints"))?;
        let mut unnamed = found;
        unnamed.retain(|checkpoint| checkpoint.name.is_none());
        let own = unnamed.iter().all(|checkpoint| self.is_own(checkpoint));
        Ok(own.then_some(unnamed))
    }

    /// Gives up what the compactor keeps for readers, and returns the ages that files must have
    /// before [`Engine::delete_garbage`] may delete them. `None` when somebody else reads the
    /// database, who may need them.
    pub(crate) async fn release_files(&self) -> Result<Option<HurriedAges>> {
        if !self.options.compaction {
            return Ok(None);
        }
        let failed = || Error::store("releasing old files");
        let Some(checkpoints) = self.own_checkpoints().await? else {
            return Ok(None);
        };
        let admin = self.admin();
        for checkpoint in checkpoints {
            let deleted = admin.delete_checkpoint(checkpoint.id).await;
            deleted.map_err(failed())?;
        }
        Ok(Some(tuning::hurried_ages(&self.options, &self.location)))
    }

    /// Whether the compactor of this database made a checkpoint.
    fn is_own(&self, checkpoint: &Checkpoint) -> bool {
        let lifetime = tuning::checkpoint_lifetime(&self.options);
        let Ok(lifetime) = TimeDelta::from_std(lifetime) else {
            return false;
        };
        let lasts = checkpoint
            .expire_time
            .map(|expires| (expires - checkpoint.create_time - lifetime).abs());
        checkpoint.name.is_none() && lasts.is_some_and(|off| off <= CHECKPOINT_PRECISION)
    }

    /// Bytes of manifests and of files of the log that nothing refers to.
    pub(crate) async fn log_garbage_bytes(&self) -> Result<u64> {
        let replayed = self.db.manifest().replay_after_wal_id();
        let logs = self.numbered_files("wal").await?;
        let logs = logs.iter().filter(|file| file.number < replayed);
        let logs: u64 = logs.map(|file| file.bytes).sum();
        let mut manifests = self.numbered_files("manifest").await?;
        manifests.sort_unstable_by_key(|file| file.number);
        manifests.pop();
        let manifests: u64 = manifests.iter().map(|file| file.bytes).sum();
        Ok(logs.saturating_add(manifests))
    }

    /// Files of a directory that are named by their number.
    async fn numbered_files(&self, directory: &str) -> Result<Vec<NumberedFile>> {
        let directory = Path::from(format!("{}/{directory}", self.path));
        let mut listing = self.store.list(Some(&directory));
        let mut files = Vec::new();
        while let Some(file) = listing.next().await {
            let file = file.map_err(|cause| {
                Error::Unavailable(
                    format!("the files of the database cannot be listed: {cause}").into(),
                )
            })?;
            let name = file.location.filename().unwrap_or_default();
            let number = name.split('.').next().and_then(|name| name.parse().ok());
            files.extend(number.map(|number| NumberedFile {
                number,
                bytes: file.size,
            }));
        }
        Ok(files)
    }

    /// Deletes what nothing refers to and is old enough. No reader of this process may use files
    /// that were replaced before [`Engine::release_files`].
    pub(crate) async fn delete_garbage(&self) {
        let hurried = tuning::hurried_garbage(&self.options, &self.location);
        if let Err(cause) = self.collector.collect(hurried).await {
            warn!(%cause, "old files are not deleted for now");
        }
    }
}
