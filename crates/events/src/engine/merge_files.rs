//! Merging small files: many little ones become one, in one batch.
//!
//! A quiet service gets a file with each seal. Neighbours of one service, week and type are read,
//! sorted and written as one; the batch that lists it retires those that it is made of. They can
//! still be read for a while, because views that began before have them in their list.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::StoreError;
use icecore_model::event::EventBatch;

use super::Engine;
use super::accept::unavailable;
use super::file_list::{self, EventFile};
use super::prepared::on_cpu;
use super::seal::{FileGroup, FileWork, Unlisted, encode_file};
use crate::{FileBytes, FileScan, Problem, StoredEvent};

/// Bytes of files that are merged into one: their events are in memory at once.
const MERGED_BYTES_MAX: u64 = 64 << 20;

impl Engine {
    /// Merges what is worth it. Returns how many files have been retired.
    pub(super) async fn merge_files(&self) -> Result<usize, Problem> {
        let mut work = self.files.lock().await;
        let snapshot = self.store.snapshot().await.map_err(unavailable)?;
        let files = file_list::all_files(&*snapshot).await;
        let files = files.map_err(unavailable)?;
        let mut merged = 0;
        for run in self.runs(&files) {
            self.merge_run(&mut work, run).await.map_err(unavailable)?;
            merged += run.len();
            self.metrics.merged_files.add(run.len() as u64);
        }
        Ok(merged)
    }

    /// Neighbours of one group that are merged, in the order of the list.
    fn runs<'a>(&self, files: &'a [EventFile]) -> Vec<&'a [EventFile]> {
        let now_s = self.clock.now_ms().div_euclid(1000);
        let max_events = self.options.merge_up_to_events;
        let groups = files.chunk_by(|a, b| group_of(a) == group_of(b));
        let mut runs = Vec::new();
        for group in groups {
            // A week that is over gets no more files: even two are worth it.
            let is_over = group[0].week.next().end_s() <= now_s;
            let enough = if is_over { 2 } else { self.options.merge_files };
            let mut from = 0;
            while from < group.len() {
                let (mut events, mut bytes) = (0, 0);
                let length = group[from..].iter().take_while(|file| {
                    events += file.events;
                    bytes += file.bytes;
                    events <= max_events && bytes <= MERGED_BYTES_MAX
                });
                let length = length.count();
                if length >= enough.max(2) {
                    runs.push(&group[from..from + length]);
                }
                from += length.max(1);
            }
        }
        runs
    }

    async fn merge_run(&self, work: &mut FileWork, run: &[EventFile]) -> Result<(), StoreError> {
        let mut events = Vec::new();
        for file in run {
            self.read_file(file, &mut events).await?;
        }
        let group = FileGroup {
            service: run[0].service,
            week: run[0].week,
            event_type: run[0].event_type,
            first_seq: run[0].first_seq,
            last_seq: run[run.len() - 1].last_seq,
        };
        let (format, registry) = (self.format.clone(), self.memory.lock().registry.clone());
        let merged = on_cpu(move || encode_file(&*format, &registry, &group, events)).await??;
        let content = Bytes::from(merged.content);
        self.store.files().put(&merged.file.path, content).await?;
        let mut records: Vec<_> = run.iter().map(EventFile::retired).collect();
        records.push(merged.file.listed());
        let batch = EventBatch {
            records,
            ..EventBatch::default()
        };
        if let Err(error) = self.store.write(batch).await
            && !self.is_listed(&merged.file).await?
        {
            return Err(error);
        }
        work.retire(run, self.clock.elapsed_ms());
        Ok(())
    }

    async fn read_file(
        &self,
        file: &EventFile,
        events: &mut Vec<StoredEvent<'static>>,
    ) -> Result<(), StoreError> {
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
        let before = events.len();
        let mut rows = self.format.open(bytes, all).await?;
        while let Some(batch) = rows.next_batch().await? {
            events.extend(batch);
        }
        // Whatever a reader leaves out would be lost for good.
        if (events.len() - before) as u64 != file.events {
            let path = &file.path;
            return Err(StoreError(format!(
                "{path} has not as many events as listed"
            )));
        }
        Ok(())
    }

    async fn is_listed(&self, file: &EventFile) -> Result<bool, StoreError> {
        let snapshot = self.store.snapshot().await?;
        let key = crate::catalog_key::only(file.key());
        Ok(!snapshot.records(key, 1).await?.is_empty())
    }

    /// Drops files that nobody lists any more: retired ones after a while, and what a crash has
    /// left behind.
    pub(super) async fn clean_up(&self) -> Result<(), Problem> {
        let mut work = self.files.lock().await;
        self.drop_unlisted(&mut work).await.map_err(unavailable)
    }

    /// A file is dropped when it has not been listed for a while: whatever a batch was answered
    /// with, views that began before it took the file off the list may be reading it until then.
    async fn drop_unlisted(&self, work: &mut FileWork) -> Result<(), StoreError> {
        // Present first and looked up then: a file that is in neither was written in between.
        let mut present = self.store.files().list().await?;
        let snapshot = self.store.snapshot().await?;
        let listed = file_list::all_files(&*snapshot).await?;
        let listed: HashSet<&str> = listed.iter().map(|file| file.path.as_str()).collect();
        present.retain(|file| !listed.contains(file.path.as_str()));
        let (now_ms, grace) = (self.clock.elapsed_ms(), self.options.file_grace);
        let long_ago_ms = now_ms.saturating_sub(grace.as_millis() as i64);
        let orphan_ms = self.options.orphan_age.as_millis() as i64;
        let old_ms = self.clock.now_ms().saturating_sub(orphan_ms);
        let mut before = std::mem::take(&mut work.unlisted);
        let mut due = Vec::new();
        for file in present {
            let known = before.remove(&file.path);
            let known = known.unwrap_or(Unlisted {
                since_ms: now_ms,
                is_retired: false,
            });
            let is_old = known.is_retired || file.modified_ms <= old_ms;
            if known.since_ms <= long_ago_ms && is_old {
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
}

fn group_of(file: &EventFile) -> (u32, icecore_model::event::Week, u32) {
    (file.service, file.week, file.event_type)
}
