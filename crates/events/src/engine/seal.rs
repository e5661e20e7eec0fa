//! Sealing: events of the tail become files.
//!
//! ```text
//! flushed blocks ─► by service, week and type, sorted ─► files ─► one batch: their records, sealed
//! ```
//!
//! Holds always:
//! - Only flushed blocks are sealed, so that a replay finds everything that is not in cells.
//! - Files are named by the blocks that their events came in, and by who has written them: one that
//!   is still at it when another process has taken over changes none of that one's files. What a
//!   crash leaves behind is an orphan that `clean_up` drops.
//! - After an error it is read what the store has, and no event is put into two files.
//! - Events of weeks that retention has dropped are put into no file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::StoreError;
use icecore_model::event::{EventBatch, EventWindow, Week};

use super::Engine;
use super::accept::unavailable;
use super::file_list::EventFile;
use super::prepared::on_cpu;
use super::retention::is_over;
use super::tail::TailBlock;
use crate::{Field, FileFormat, Problem, Registry, StoredEvent};

/// What those who work on files know. There is one at a time.
#[derive(Default)]
pub(super) struct FileWork {
    /// Whether a batch has ended with an error, and it could not be read what became of it.
    is_uncertain: bool,
    /// Files that are present and not listed. Readers may still be at them.
    pub(super) unlisted: HashMap<String, Unlisted>,
    /// Cells that were dropped, so that it is not done again and again.
    pub(super) dropped_cells: HashSet<(EventWindow, Week, u32)>,
    /// The day on which sets without cells were last looked for.
    pub(super) culled_day: Option<i64>,
    /// When the tail was last sealed, by [`icecore_model::Clock::elapsed_ms`].
    pub(super) sealed_at_ms: i64,
}

/// Since when a file is not listed, as far as it is known here.
pub(super) struct Unlisted {
    /// By [`icecore_model::Clock::elapsed_ms`].
    pub(super) since_ms: i64,
    /// Whether a batch has taken it off the list for certain; if not, it may be about to be listed.
    pub(super) is_retired: bool,
}

impl FileWork {
    /// Takes note of files that were on the list until now.
    pub(super) fn retire<'f>(
        &mut self,
        files: impl IntoIterator<Item = &'f EventFile>,
        now_ms: i64,
    ) {
        let retired = files.into_iter().map(|file| {
            let unlisted = Unlisted {
                since_ms: now_ms,
                is_retired: true,
            };
            (file.path.clone(), unlisted)
        });
        self.unlisted.extend(retired);
    }
}

/// A file that is to be written.
pub(super) struct EncodedFile {
    pub(super) file: EventFile,
    pub(super) content: Vec<u8>,
}

impl Engine {
    /// Seals all blocks that are flushed.
    pub(super) async fn seal(&self) -> Result<(), Problem> {
        let mut work = self.files.lock().await;
        let began_ms = self.clock.elapsed_ms();
        let sealed = self.seal_flushed(&mut work).await.map(|_| ());
        work.sealed_at_ms = self.clock.elapsed_ms();
        let seconds = (work.sealed_at_ms - began_ms) as f64 / 1e3;
        self.metrics.seal_seconds.observe(seconds);
        if sealed.is_err() {
            self.metrics.failed_seals.add(1);
        }
        sealed.map_err(unavailable)
    }

    /// Seals all blocks that are flushed. Returns the number of events that were too old for a
    /// file.
    pub(super) async fn seal_flushed(&self, work: &mut FileWork) -> Result<u64, StoreError> {
        if work.is_uncertain {
            self.forget_sealed(work).await?;
        }
        let mut expired = 0;
        loop {
            let (blocks, registry) = {
                let memory = self.memory.lock();
                let flushed = memory.mark().seq;
                let blocks = memory.tail.oldest(flushed, self.options.seal_bytes);
                (blocks, memory.registry.clone())
            };
            if blocks.is_empty() {
                return Ok(expired);
            }
            expired += self.seal_blocks(work, blocks, registry).await?;
            self.metrics.seals.add(1);
        }
    }

    async fn seal_blocks(
        &self,
        work: &mut FileWork,
        blocks: Vec<Arc<TailBlock>>,
        registry: Arc<Registry>,
    ) -> Result<u64, StoreError> {
        let Some(last_seq) = blocks.last().map(|block| block.seq()) else {
            return Ok(0);
        };
        let format = self.format.clone();
        let epoch = self.store.epoch();
        let now_s = self.store.guarded_ms().div_euclid(1000);
        let encode = move || encode_blocks(&*format, &registry, &blocks, epoch, now_s);
        let (files, expired) = on_cpu(encode).await??;
        let mut batch = EventBatch {
            sealed: Some(last_seq),
            ..EventBatch::default()
        };
        let mut events = 0;
        for EncodedFile { file, content } in files {
            self.store
                .files()
                .put(&file.path, Bytes::from(content))
                .await?;
            batch.records.push(file.listed());
            events += file.events;
        }
        if let Err(error) = self.store.write(batch).await {
            work.is_uncertain = true;
            if self.forget_sealed(work).await? < last_seq {
                return Err(error);
            }
            tracing::warn!(%error, last_seq, "sealed in spite of an error");
        }
        self.metrics.sealed_events.add(events);
        self.memory.lock().sealed(last_seq);
        Ok(expired)
    }

    /// Reads up to where blocks are in files.
    async fn forget_sealed(&self, work: &mut FileWork) -> Result<u64, StoreError> {
        let sealed = self.store.snapshot().await?.sealed();
        work.is_uncertain = false;
        self.memory.lock().sealed(sealed);
        Ok(sealed)
    }
}

/// Service, week and type.
type GroupKey = (u32, Week, u32);

/// The files of some blocks, and the number of events that are too old for one. CPU work.
fn encode_blocks(
    format: &dyn FileFormat,
    registry: &Registry,
    blocks: &[Arc<TailBlock>],
    epoch: u64,
    now_s: i64,
) -> Result<(Vec<EncodedFile>, u64), StoreError> {
    let seqs = |block: Option<&Arc<TailBlock>>| block.map_or(0, |block| block.seq());
    let (first_seq, last_seq) = (seqs(blocks.first()), seqs(blocks.last()));
    let mut groups: BTreeMap<GroupKey, Vec<StoredEvent<'_>>> = BTreeMap::new();
    let mut expired = 0;
    for block in blocks {
        for event in block.events()? {
            let service = registry.services.get(&*event.service);
            let number = service.map_or(0, |service| service.number);
            let event_type = service.and_then(|service| service.types.get(&*event.event_type));
            let week = Week::of(event.started_ns.div_euclid(1_000_000_000));
            if event_type.is_some_and(|known| is_over(week, known.retention, now_s)) {
                expired += 1;
                continue;
            }
            let key = (number, week, event_type.map_or(0, |known| known.number));
            groups.entry(key).or_default().push(event);
        }
    }
    let files = groups.into_iter().map(|((service, week, number), events)| {
        let group = FileGroup {
            service,
            week,
            event_type: number,
            first_seq,
            last_seq,
            epoch,
        };
        encode_file(format, registry, &group, events)
    });
    let files: Result<Vec<EncodedFile>, StoreError> = files.collect();
    Ok((files?, expired))
}

/// What a file has.
pub(super) struct FileGroup {
    pub(super) service: u32,
    pub(super) week: Week,
    pub(super) event_type: u32,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    /// Of the opening for writing that makes it.
    pub(super) epoch: u64,
}

/// Encodes events of one group, in any order. CPU work.
fn encode_file(
    format: &dyn FileFormat,
    registry: &Registry,
    group: &FileGroup,
    mut events: Vec<StoredEvent<'_>>,
) -> Result<EncodedFile, StoreError> {
    events.sort_by_key(|event| (event.started_ns, event.id));
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return Err(StoreError("a file without events".into()));
    };
    let content = format.encode(&indexed_fields(registry, first), &events)?;
    let file = EventFile {
        service: group.service,
        week: group.week,
        event_type: group.event_type,
        first_seq: group.first_seq,
        last_seq: group.last_seq,
        path: path_of(first, group, format.extension()),
        events: events.len() as u64,
        bytes: content.len() as u64,
        min_started_ns: first.started_ns,
        max_started_ns: last.started_ns,
    };
    Ok(EncodedFile { file, content })
}

/// The attributes that files of an event's type have columns for.
pub(super) fn indexed_fields(registry: &Registry, event: &StoredEvent<'_>) -> Vec<Field> {
    let service = registry.services.get(&*event.service);
    let event_type = service.and_then(|service| service.types.get(&*event.event_type));
    event_type.map_or_else(Vec::new, |known| known.indexed_fields())
}

pub(super) fn path_of(event: &StoredEvent<'_>, group: &FileGroup, extension: &str) -> String {
    let mut path = String::from("events/service=");
    push_part(&mut path, &event.service, group.service);
    let _ = write!(path, "/week={}/type=", group.week);
    push_part(&mut path, &event.event_type, group.event_type);
    let (first, last, epoch) = (group.first_seq, group.last_seq, group.epoch);
    let _ = write!(path, "/{first}-{last}-{epoch}.{extension}");
    path
}

/// Bytes of a name in a path. File systems have a limit for each part of a path.
const PART_BYTES_MAX: usize = 120;

/// A name as a part of a path: what is not plain is escaped, so that no two names share a path and
/// none leads elsewhere. A long one is cut, and its number is added.
fn push_part(path: &mut String, name: &str, number: u32) {
    let start = path.len();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
                path.push(char::from(byte));
            }
            _ => {
                let _ = write!(path, "%{byte:02X}");
            }
        }
    }
    if path.len() - start > PART_BYTES_MAX {
        path.truncate(start + PART_BYTES_MAX);
        let _ = write!(path, "~{number}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_parts_of_paths() {
        let part = |name: &str| {
            let mut path = String::new();
            push_part(&mut path, name, 7);
            path
        };
        assert_eq!(part("order.placed-1_a"), "order.placed-1_a");
        let long = "é".repeat(128);
        assert_eq!(part(&long).len(), PART_BYTES_MAX + 2);
        assert!(part(&long).ends_with("~7"));
        assert_eq!(part("a/../b"), "a%2F..%2Fb");
        assert_eq!(part("ü %"), "%C3%BC%20%25");
    }
}
