//! Which entries of a series have a stored histogram.
//!
//! ```text
//! runs    (uv ((length − 1) << 2 | kind))*
//!         kind 0   none: there is no histogram at these timestamps
//!         kind 1   the next stored histograms, one each
//!         kind 2   the histogram before, again; the value is in memory once
//! ```
//!
//! Runs of kinds 0 and 2 have at most 16 entries, so that an entry always has its share of a byte.

use std::sync::Arc;

use icecore_model::Histogram;
use icecore_model::varint::push_varint;

use crate::columns::TimeList;
use crate::reader::Reader;
use crate::{DecodeError, HistogramEntry};

const RECORD: &str = "HistogramSeries";

const NONE: u8 = 0;
const NEXT: u8 = 1;
const AGAIN: u8 = 2;

/// Most entries of a run that stores nothing for them.
const FREE_LEN: usize = 16;

/// The runs, and the histograms that they are to find stored.
pub(super) fn encode(entries: &[HistogramEntry]) -> (Vec<u8>, Vec<&Histogram>) {
    let mut stored: Vec<&Histogram> = Vec::new();
    let mut kinds = Vec::with_capacity(entries.len());
    for entry in entries {
        kinds.push(match (entry.value.as_deref(), stored.last()) {
            (None, _) => NONE,
            (Some(histogram), Some(last)) if histogram == *last => AGAIN,
            (Some(histogram), _) => {
                stored.push(histogram);
                NEXT
            }
        });
    }
    let mut runs = Vec::new();
    for run in kinds.chunk_by(|a, b| a == b) {
        let kind = run[0];
        for part in run.chunks(max_run_len(kind)) {
            push_varint(&mut runs, (part.len() as u64 - 1) << 2 | u64::from(kind));
        }
    }
    (runs, stored)
}

/// The entries of all timestamps.
pub(super) fn expand(
    runs: &[u8],
    stored: &[Arc<Histogram>],
    times: &TimeList,
) -> Result<Vec<HistogramEntry>, DecodeError> {
    check_lengths(runs, stored.len(), times.len())?;
    let mut reader = Reader::new(RECORD, runs);
    let mut entries: Vec<HistogramEntry> = Vec::with_capacity(times.len());
    let mut stored = stored.iter();
    let mut last: Option<&Arc<Histogram>> = None;
    while !reader.is_empty() {
        let (kind, len) = read_run(&mut reader)?;
        for _ in 0..len {
            if kind == NEXT {
                last = stored.next();
            }
            if kind == AGAIN && last.is_none() {
                return Err(reader.error("no histogram to repeat"));
            }
            let timestamp_ms = times.at(entries.len());
            let timestamp_ms =
                timestamp_ms.ok_or_else(|| reader.error("more entries than times"))?;
            if entries
                .last()
                .is_some_and(|e| e.timestamp_ms >= timestamp_ms)
            {
                return Err(reader.error("timestamps do not increase"));
            }
            entries.push(HistogramEntry {
                timestamp_ms,
                value: last.filter(|_| kind != NONE).cloned(),
            });
        }
    }
    Ok(entries)
}

/// Compares what the runs claim with what is there, before memory is taken.
fn check_lengths(runs: &[u8], stored: usize, times: usize) -> Result<(), DecodeError> {
    let mut reader = Reader::new(RECORD, runs);
    let (mut next, mut all) = (0usize, 0usize);
    while !reader.is_empty() {
        let (kind, len) = read_run(&mut reader)?;
        all = all.saturating_add(len);
        if kind == NEXT {
            next = next.saturating_add(len);
        }
    }
    if next != stored {
        return Err(reader.error("more or fewer histograms than stored"));
    }
    if all != times {
        return Err(reader.error("more or fewer entries than times"));
    }
    Ok(())
}

fn read_run(reader: &mut Reader<'_>) -> Result<(u8, usize), DecodeError> {
    let head = reader.varint()?;
    let kind = (head & 0b11) as u8;
    let len = usize::try_from((head >> 2) + 1).unwrap_or(usize::MAX);
    if kind > AGAIN {
        return Err(reader.error("unknown kind of run"));
    }
    if len > max_run_len(kind) {
        return Err(reader.error("a run is too long"));
    }
    Ok((kind, len))
}

fn max_run_len(kind: u8) -> usize {
    if kind == NEXT { usize::MAX } else { FREE_LEN }
}
