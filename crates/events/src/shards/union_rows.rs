//! Events of all shards, one shard after the other: each has its own files and its own tail.
//!
//! Sequence numbers are given by each shard. To those who find a file by them they have the shard
//! in their first byte, so that a block of one shard is never looked for in a file of another.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use icecore_model::BoxFuture;
use icecore_model::event::{EventId, Week};

use super::union::{Part, UnionView};
use crate::search::{EventRows, RowFile, SeenValue, TailPart};
use crate::{FileFormat, Problem, Registry, StoredEvent};

/// Where the number of the shard is in a sequence number. No instance gives out 2^56 of them.
const SHARD_SHIFT: u32 = 56;

fn tagged(shard: usize, seq: u64) -> u64 {
    ((shard as u64) << SHARD_SHIFT) | seq
}

impl EventRows for UnionView {
    fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    fn now_ms(&self) -> i64 {
        self.now_ms
    }

    fn guarded_ms(&self) -> i64 {
        self.guarded_ms
    }

    fn tail_parts(&self, service: Option<&str>, event_type: Option<&str>) -> Vec<TailPart> {
        let mut parts = Vec::new();
        let mut before = 0;
        for part in &self.parts {
            let of_shard = EventRows::tail_parts(&part.view, service, event_type);
            parts.extend(of_shard.into_iter().map(|tail| TailPart {
                at: before + tail.at,
                ..tail
            }));
            before += part.view.tail().len();
        }
        parts
    }

    fn tail_events(&self, tail: &TailPart) -> Result<Vec<StoredEvent<'_>>, Problem> {
        let mut at = tail.at;
        for part in &self.parts {
            let blocks = part.view.tail().len();
            if at < blocks {
                let events = EventRows::tail_events(&part.view, &TailPart { at, ..*tail });
                return events.map_err(|problem| part.named(problem));
            }
            at -= blocks;
        }
        Ok(Vec::new())
    }

    fn files(
        &self,
        service: u32,
        weeks: Range<Week>,
        event_type: Option<u32>,
    ) -> BoxFuture<'_, Result<Vec<RowFile>, Problem>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for (shard, part) in self.parts.iter().enumerate() {
                let files = part_files(part, service, weeks.clone(), event_type).await?;
                all.extend(files.into_iter().map(|file| RowFile {
                    first_seq: tagged(shard, file.first_seq),
                    last_seq: tagged(shard, file.last_seq),
                    ..file
                }));
            }
            Ok(all)
        })
    }

    fn format(&self) -> &Arc<dyn FileFormat> {
        // Shards are read with the format of the own instance, which is always there.
        self.parts[0].view.format()
    }

    fn blocks_of<'a>(
        &'a self,
        service: u32,
        weeks: &'a [Week],
        event: EventId,
    ) -> BoxFuture<'a, Result<Vec<Option<u64>>, Problem>> {
        Box::pin(async move {
            let mut found = vec![None; weeks.len()];
            for (shard, part) in self.parts.iter().enumerate() {
                let Some(service) = part.numbers.service(service) else {
                    continue;
                };
                let blocks = part.view.blocks_of(service, weeks, event).await;
                let blocks = blocks.map_err(|problem| part.named(problem))?;
                for (found, block) in found.iter_mut().zip(blocks) {
                    *found = found.or(block.map(|seq| tagged(shard, seq)));
                }
            }
            Ok(found)
        })
    }

    fn values_of<'a>(
        &'a self,
        service: u32,
        attribute: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SeenValue>, Problem>> {
        Box::pin(async move {
            let mut values: BTreeMap<String, SeenValue> = BTreeMap::new();
            for part in &self.parts {
                let Some(service) = part.numbers.service(service) else {
                    continue;
                };
                let seen = EventRows::values_of(&part.view, service, attribute).await;
                for seen in seen.map_err(|problem| part.named(problem))? {
                    match values.get_mut(&seen.value) {
                        Some(known) => {
                            known.events = known.events.saturating_add(seen.events);
                            known.first_ns = known.first_ns.min(seen.first_ns);
                            known.last_ns = known.last_ns.max(seen.last_ns);
                        }
                        None => {
                            values.insert(seen.value.clone(), seen);
                        }
                    }
                }
            }
            Ok(values.into_values().collect())
        })
    }
}

/// The files of a shard, with the types of the union.
async fn part_files(
    part: &Part,
    service: u32,
    weeks: Range<Week>,
    event_type: Option<u32>,
) -> Result<Vec<RowFile>, Problem> {
    let Some(service) = part.numbers.service(service) else {
        return Ok(Vec::new());
    };
    let of_shard = match event_type {
        Some(union) => match part.numbers.event_type(union) {
            Some(number) => Some(number),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let files = EventRows::files(&part.view, service, weeks, of_shard).await;
    let mut files = files.map_err(|problem| part.named(problem))?;
    files.retain_mut(|file| {
        let union = part.numbers.union_type(file.event_type);
        file.event_type = union.unwrap_or(file.event_type);
        union.is_some()
    });
    Ok(files)
}
