//! Blocks of events out of the journal, for who reads the database of another process. The own
//! process has them in memory.
//!
//! A record of the journal has the blocks of one commit, of events and of samples, under the number
//! of the first. So records are read backwards, from the last block that is wanted to the record
//! that has the first.

use std::ops::Bound;

use bytes::Bytes;
use icecore_records::journal::{self, Section};
use icecore_records::{ParsedKey, key};

use super::weeks::with_prefix;
use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};

/// Bytes of records that are read for one call: samples in between count, too.
const RECORD_BYTES_MAX: usize = 1 << 30;

/// Records with the blocks after one and up to another, in order, with the numbers of their first
/// blocks.
pub(super) async fn read_records(
    view: &View,
    segments: Vec<Bytes>,
    after: u64,
    up_to: u64,
) -> Result<Vec<(u64, Bytes)>> {
    let mut found = Vec::new();
    let mut bytes = 0;
    // Later epochs have greater numbers.
    let epochs = with_prefix(segments, &key::journal_prefix());
    let epochs = epochs.iter().rev().filter_map(|segment| epoch_of(segment));
    'epochs: for epoch in epochs {
        let first = Bound::Included(key::journal_epoch_prefix(epoch));
        let last = Bound::Included(key::journal(epoch, up_to));
        let mut records = view.scan_backwards((first, last), ScanKind::Once).await?;
        let next = || Error::store("reading blocks of events");
        while let Some(record) = records.next().await.map_err(next())? {
            let Ok(ParsedKey::Journal { seq, .. }) = ParsedKey::parse(&record.key) else {
                continue;
            };
            bytes += record.value.len();
            if bytes > RECORD_BYTES_MAX {
                return Err(too_many(RECORD_BYTES_MAX));
            }
            found.push((seq, record.value));
            if seq <= after.saturating_add(1) {
                break 'epochs;
            }
        }
    }
    found.reverse();
    Ok(found)
}

/// The wanted blocks of events of some records. CPU work.
pub(super) fn decode(
    records: &[(u64, Bytes)],
    after: u64,
    up_to: u64,
    bytes_max: usize,
) -> Result<Vec<(u64, Bytes)>> {
    let corrupt = || Error::corrupt("a record of the journal cannot be read");
    let mut found = Vec::new();
    let mut left = bytes_max;
    for (first, value) in records {
        let blocks = journal::decode_record(value).map_err(corrupt())?;
        for (seq, block) in (*first..).zip(blocks) {
            if seq <= after || seq > up_to {
                continue;
            }
            let mut events = Vec::new();
            let sections = journal::decode_block_with(block, |_, _| {}).map_err(corrupt())?;
            for section in sections {
                if let Section::Events(bytes) = section {
                    events.extend(bytes);
                }
            }
            if events.is_empty() {
                continue;
            }
            left = left
                .checked_sub(events.len())
                .ok_or_else(|| too_many(bytes_max))?;
            found.push((seq, events.into()));
        }
    }
    Ok(found)
}

fn too_many(bytes: usize) -> Error {
    Error::Unavailable(
        format!("more than {bytes} bytes of the journal are in no file of events yet").into(),
    )
}

/// The epoch whose segment this is.
fn epoch_of(segment: &[u8]) -> Option<u32> {
    segment
        .last_chunk::<4>()
        .map(|epoch| u32::from_be_bytes(*epoch))
}
