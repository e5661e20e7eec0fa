//! Merging small files: many little ones become one, in one batch.
//!
//! ```text
//! files of a group, small and side by side ─► events in order ─► one file ─► one batch: it is
//!                                                             listed, they are not any more
//! ```
//!
//! A quiet service gets a file with each seal, a busy one a file with each 200 000 events. Those
//! that are replaced can still be read for a while, because views that began before have them in
//! their list.
//!
//! Holds always:
//! - A file that has half of what a merged one may have is never read again to be merged, so that
//!   an event is rewritten a few times, and not with each merge.
//! - Sealing goes on meanwhile: `files` is held for the batch alone, and for dropping files, not
//!   while the lists of snapshots are read.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::StoreError;
use icecore_model::event::{EventBatch, EventFileInfo};

use super::Engine;
use super::accept::unavailable;
use super::file_list::{self, EventFile};
use super::kept_files::KeptFiles;
use super::merge_events::MergedEvents;
use super::prepared::on_cpu;
use super::seal::{EncodedFile, FileGroup, Unlisted, indexed_fields, path_of};
use crate::{FileBytes, FileRows, FileScan, FileSize, Problem};

/// Bytes of files that are merged into one. The new file is in memory while it is made, and some
/// thousand events of each file that it is made of.
const MERGED_BYTES_MAX: u64 = 128 << 20;

/// Files that are read at once, unless more are needed to be worth it.
const RUN_FILES_MAX: usize = 16;

impl Engine {
    /// Merges what is worth it. Returns how many files have been retired.
    pub(super) async fn merge_files(&self) -> Result<usize, Problem> {
        let _merging = self.merging.lock().await;
        let snapshot = self.store.snapshot().await.map_err(unavailable)?;
        let files = file_list::all_files(&*snapshot).await;
        let files = files.map_err(unavailable)?;
        let mut merged = 0;
        for run in self.runs(&files) {
            self.merge_run(run).await.map_err(unavailable)?;
            merged += run.len();
            self.metrics.merged_files.add(run.len() as u64);
        }
        Ok(merged)
    }

    /// Neighbours of one group that are merged, in the order of the list.
    fn runs<'a>(&self, files: &'a [EventFile]) -> Vec<&'a [EventFile]> {
        let now_s = self.clock.now_ms().div_euclid(1000);
        let max_events = self.options.merge_up_to_events;
        let is_half = |events: u64, bytes: u64| {
            events.saturating_mul(2) >= max_events || bytes.saturating_mul(2) >= MERGED_BYTES_MAX
        };
        let groups = files.chunk_by(|a, b| group_of(a) == group_of(b));
        let mut runs = Vec::new();
        for group in groups {
            // A week that is over gets no more files: even two are worth it.
            let is_over = group[0].week.next().end_s() <= now_s;
            let enough = if is_over { 2 } else { self.options.merge_files };
            let mut from = 0;
            while from < group.len() {
                let (mut events, mut bytes) = (0, 0);
                let mut length = 0;
                for file in group[from..].iter().take(RUN_FILES_MAX.max(enough)) {
                    let fits = events + file.events <= max_events
                        && bytes + file.bytes <= MERGED_BYTES_MAX;
                    if !fits || is_half(file.events, file.bytes) {
                        break;
                    }
                    events += file.events;
                    bytes += file.bytes;
                    length += 1;
                }
                if length >= 2 && (length >= enough || is_half(events, bytes)) {
                    runs.push(&group[from..from + length]);
                }
                from += length.max(1);
            }
        }
        runs
    }

    async fn merge_run(&self, run: &[EventFile]) -> Result<(), StoreError> {
        let merged = self.merged_file(run).await?;
        let content = Bytes::from(merged.content);
        self.store.files().put(&merged.file.path, content).await?;
        let mut records: Vec<_> = run.iter().map(EventFile::retired).collect();
        records.push(merged.file.listed());
        let batch = EventBatch {
            records,
            ..EventBatch::default()
        };
        let mut work = self.files.lock().await;
        if let Err(error) = self.store.write(batch).await
            && !self.is_listed(&merged.file).await?
        {
            return Err(error);
        }
        work.retire(run, self.clock.elapsed_ms());
        Ok(())
    }

    /// One file with the events of some.
    async fn merged_file(&self, run: &[EventFile]) -> Result<EncodedFile, StoreError> {
        let mut rows = Vec::with_capacity(run.len());
        for file in run {
            rows.push(self.open_file(file).await?);
        }
        let mut events = MergedEvents::new(rows).await?;
        let mut part = events.next_part().await?;
        let first = part
            .first()
            .ok_or_else(|| StoreError("files without events".into()))?;
        let group = FileGroup {
            service: run[0].service,
            week: run[0].week,
            event_type: run[0].event_type,
            first_seq: run[0].first_seq,
            last_seq: run[run.len() - 1].last_seq,
            epoch: self.store.epoch(),
        };
        let path = path_of(first, &group, self.format.extension());
        let (min_started_ns, mut max_started_ns) = (first.started_ns, first.started_ns);
        let listed = |of: fn(&EventFile) -> u64| run.iter().map(of).sum::<u64>();
        let size = FileSize {
            events: usize::try_from(listed(|file| file.events)).unwrap_or(usize::MAX),
            bytes: usize::try_from(listed(|file| file.bytes)).unwrap_or_default(),
        };
        let indexed = indexed_fields(&self.memory.lock().registry, first);
        let mut writer = self.format.begin(&indexed, size)?;
        while let Some(last) = part.last() {
            max_started_ns = last.started_ns;
            writer = on_cpu(move || {
                let rows: Vec<_> = part.iter().collect();
                writer.push(&rows).map(|()| writer)
            })
            .await??;
            part = events.next_part().await?;
        }
        // Whatever a reader leaves out would be lost for good.
        for (file, read) in run.iter().zip(events.events_read()) {
            if read != file.events {
                let path = &file.path;
                return Err(StoreError(format!(
                    "{path} has not as many events as listed"
                )));
            }
        }
        let content = on_cpu(move || writer.finish()).await??;
        let file = EventFile {
            service: group.service,
            week: group.week,
            event_type: group.event_type,
            first_seq: group.first_seq,
            last_seq: group.last_seq,
            path,
            events: listed(|file| file.events),
            bytes: content.len() as u64,
            min_started_ns,
            max_started_ns,
        };
        Ok(EncodedFile { file, content })
    }

    async fn open_file(&self, file: &EventFile) -> Result<Box<dyn FileRows>, StoreError> {
        let (store, path) = (self.store.clone(), Arc::<str>::from(file.path.as_str()));
        let bytes = FileBytes {
            size: file.bytes,
            read: Arc::new(move |range| {
                let (store, path) = (store.clone(), path.clone());
                Box::pin(async move { store.files().read(&path, range).await })
            }),
        };
        let all = FileScan {
            started_ns: i64::MIN..i64::MAX,
            newest_first: false,
            event: None,
            condition: None,
        };
        self.format.open(bytes, all).await
    }

    async fn is_listed(&self, file: &EventFile) -> Result<bool, StoreError> {
        let snapshot = self.store.snapshot().await?;
        let key = crate::catalog_key::only(file.key());
        Ok(!snapshot.records(key, 1).await?.is_empty())
    }

    /// Drops files that nobody lists any more: retired ones after a while, and what a crash has
    /// left behind.
    pub(super) async fn clean_up(&self) -> Result<(), Problem> {
        let mut kept = self.merging.lock().await;
        self.drop_unlisted(&mut kept).await.map_err(unavailable)
    }

    /// A file is dropped when it has not been listed for a while: whatever a batch was answered
    /// with, views that began before it took the file off the list may be reading it until then.
    async fn drop_unlisted(&self, kept: &mut KeptFiles) -> Result<(), StoreError> {
        // Present first and looked up then: a file that is in neither was written in between.
        let mut present = self.store.files().list().await?;
        let newest_ms = present.iter().map(|file| file.modified_ms).max();
        self.leave_unlisted(&mut present).await?;
        // Sealing does not wait for the lists of snapshots: the first look reads all of them.
        let paths = present.iter().map(|file| file.path.clone()).collect();
        let not_kept: HashSet<String> = self.not_kept(kept, paths).await?.into_iter().collect();
        let mut work = self.files.lock().await;
        // A seal that is tried again may have listed some since.
        self.leave_unlisted(&mut present).await?;
        let (now_ms, grace) = (self.clock.elapsed_ms(), self.options.file_grace);
        let long_ago_ms = now_ms.saturating_sub(grace.as_millis() as i64);
        let orphan_ms = self.options.orphan_age.as_millis() as i64;
        // By the clock that has dated the files, or by the time for which it has been known here.
        let old_ms = newest_ms.unwrap_or_default().saturating_sub(orphan_ms);
        let known_long_ms = now_ms.saturating_sub(orphan_ms);
        let mut before = std::mem::take(&mut work.unlisted);
        let mut due = Vec::new();
        for file in present {
            let known = before.remove(&file.path);
            let known = known.unwrap_or(Unlisted {
                since_ms: now_ms,
                is_retired: false,
            });
            let is_old =
                known.is_retired || file.modified_ms <= old_ms || known.since_ms <= known_long_ms;
            let is_free = not_kept.contains(&file.path);
            if is_free && known.since_ms <= long_ago_ms && is_old {
                due.push((file.path.clone(), known.is_retired));
            }
            work.unlisted.insert(file.path, known);
        }
        let mut failed = Ok(());
        for (path, is_retired) in due {
            // One that cannot be deleted keeps no other.
            if let Err(error) = self.store.files().delete(&path).await {
                failed = Err(error);
                continue;
            }
            work.unlisted.remove(&path);
            if is_retired {
                self.metrics.dropped_files.add(1);
            } else {
                tracing::info!(path, "dropped a file that nothing refers to");
                self.metrics.dropped_orphans.add(1);
            }
        }
        failed
    }

    /// Removes the files from `files` that are listed now.
    async fn leave_unlisted(&self, files: &mut Vec<EventFileInfo>) -> Result<(), StoreError> {
        let snapshot = self.store.snapshot().await?;
        let listed = file_list::all_files(&*snapshot).await?;
        let listed: HashSet<&str> = listed.iter().map(|file| file.path.as_str()).collect();
        files.retain(|file| !listed.contains(file.path.as_str()));
        Ok(())
    }
}

fn group_of(file: &EventFile) -> (u32, icecore_model::event::Week, u32) {
    (file.service, file.week, file.event_type)
}
