//! A journal record taken apart on a CPU thread, ready to be applied by the one thread that keeps
//! the order.

use std::sync::Arc;

use bytes::Bytes;
use icecore_records::journal::{self, Section};
use icecore_records::{DecodeError, ParsedKey};

use crate::ingest::head::{Head, ReplayedBlock, ReplayedSeries};

pub(super) struct DecodedRecord {
    pub(super) key: Bytes,
    pub(super) stored_bytes: usize,
    /// Epoch and sequence number of the first block; `None` if the key is no journal key.
    pub(super) place: Option<(u32, u64)>,
    pub(super) blocks: Result<Vec<Result<DecodedBlock, DecodeError>>, DecodeError>,
}

/// What one request brought, with the references of the journal.
#[derive(Default)]
pub(super) struct DecodedBlock {
    pub(super) series: ReplayedSeries,
    pub(super) content: ReplayedBlock,
    /// Sections that a newer program wrote.
    pub(super) unknown: u64,
}

pub(super) fn decode_records(head: &Arc<Head>, records: Vec<(Bytes, Bytes)>) -> Vec<DecodedRecord> {
    let records = records.into_iter();
    records
        .map(|(key, value)| decode_record(head, key, &value))
        .collect()
}

fn decode_record(head: &Head, key: Bytes, value: &[u8]) -> DecodedRecord {
    let place = match ParsedKey::parse(&key) {
        Ok(ParsedKey::Journal { epoch, seq }) => Some((epoch, seq)),
        _ => None,
    };
    let blocks = journal::decode_record(value).map(|blocks| {
        let blocks = blocks.into_iter();
        blocks.map(|block| decode_block(head, block)).collect()
    });
    DecodedRecord {
        // The key is a slice of a block of the store, which it would keep in memory.
        key: Bytes::copy_from_slice(&key),
        stored_bytes: value.len(),
        place,
        blocks,
    }
}

fn decode_block(head: &Head, block: &[u8]) -> Result<DecodedBlock, DecodeError> {
    let mut decoded = DecodedBlock::default();
    let series = &mut decoded.series;
    let sections = journal::decode_block_with(block, |number, pairs| {
        series.push(head, number, pairs);
    })?;
    let mut events = Vec::new();
    let content = &mut decoded.content;
    for section in sections {
        match section {
            Section::Floats {
                refs,
                timestamps,
                values,
            } => {
                join(&mut content.refs, refs);
                join(&mut content.timestamps, timestamps);
                join(&mut content.values, values);
            }
            Section::Histograms(entries) => join(&mut content.histograms, entries),
            Section::Exemplars(entries) => join(&mut content.exemplars, entries),
            Section::StartTimestamps(entries) => join(&mut content.starts, entries),
            Section::Metadata(entries) => join(&mut content.metadata, entries),
            Section::Catalog(entries) => join(&mut content.catalog, entries),
            Section::Events(bytes) => join(&mut events, bytes),
            Section::Totals { floats, histograms } => content.totals = (floats, histograms),
            // Definitions went another way; what is unknown is not ours to lose.
            Section::Definitions(_) | Section::Unknown { .. } => decoded.unknown += 1,
        }
    }
    content.events = events.into();
    Ok(decoded)
}

/// There is one section of a kind nearly always: it is taken as it is.
fn join<T>(all: &mut Vec<T>, mut more: Vec<T>) {
    if all.is_empty() {
        *all = more
    } else {
        all.append(&mut more)
    }
}
