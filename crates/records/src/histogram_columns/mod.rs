//! The native histograms of one series as columns: version 2 of a HistogramSeries value.
//!
//! ```text
//! value    version u8 = 2 | uv length, times | uv length, runs | block*
//! times    the timestamps of all entries (`columns::time_column`, relative to 0)
//! runs     which entries are a stored histogram, a repetition, or none at all (`runs`)
//! block    uv (histograms << 2 | kind) | uv length | body; at most 1024 histograms
//!          kind 0   histograms as in version 1, the first with its layout (`histogram`)
//!          kind 1   a layout, then columns (`block`)
//!          kind 2   columns with the layout of the last block that has columns
//! ```
//!
//! Holds always:
//! - Every bit of every field survives, also of histograms that contradict themselves.
//! - Same entries, same bytes.
//! - Memory stays in proportion to the bytes, although columns that do not change take hardly any:
//!   a run repeats one shared histogram, and only a few entries per byte; a block whose histograms
//!   would take too much for its length is refused, and never written.

mod block;
mod runs;

use std::sync::Arc;

use icecore_model::Histogram;
use icecore_model::varint::push_varint;

use crate::columns::time_column;
use crate::reader::Reader;
use crate::{DecodeError, HistogramEntry, histogram};

const RECORD: &str = "HistogramSeries";

const ROWS: u64 = 0;
const COLUMNS_WITH_LAYOUT: u64 = 1;
const COLUMNS: u64 = 2;

/// Most histograms of a block.
const BLOCK_LEN: usize = 1024;

/// Fewer histograms of one layout than this are written one by one: columns have a head each.
const MIN_COLUMN_LEN: usize = 8;

/// A histogram takes at least a head, a sum, a count and a zero count.
const MIN_ROW_BYTES: usize = 4;

/// Appends what follows the version.
pub(crate) fn encode(entries: &[HistogramEntry], out: &mut Vec<u8>) {
    let timestamps: Vec<i64> = entries.iter().map(|entry| entry.timestamp_ms).collect();
    let (runs, stored) = runs::encode(entries);
    for part in [&time_column::encode(0, &timestamps), &runs] {
        push_varint(out, part.len() as u64);
        out.extend_from_slice(part);
    }
    let mut writer = BlockWriter {
        out,
        layout: None,
        rows: Vec::new(),
    };
    for run in stored.chunk_by(|a, b| histogram::same_layout(a, b)) {
        writer.push_run(run);
    }
    writer.flush_rows();
}

pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Vec<HistogramEntry>, DecodeError> {
    let len = reader.count(1)?;
    let times = time_column::decode(0, reader.bytes(len)?)?;
    let len = reader.count(1)?;
    let runs = reader.bytes(len)?;
    let mut stored = Vec::new();
    let mut layout = None;
    while !reader.is_empty() {
        read_block(reader, &mut layout, &mut stored)?;
    }
    runs::expand(runs, &stored, &times)
}

struct BlockWriter<'a, 'h> {
    out: &'a mut Vec<u8>,
    /// A histogram with the layout of the last block that has columns.
    layout: Option<&'h Histogram>,
    /// Histograms to be written one by one.
    rows: Vec<&'h Histogram>,
}

impl<'h> BlockWriter<'_, 'h> {
    /// Histograms of one layout.
    fn push_run(&mut self, run: &[&'h Histogram]) {
        if run.len() < MIN_COLUMN_LEN {
            self.push_rows(run);
            return;
        }
        // Cut evenly, so that no short block is left at the end.
        let blocks = run.len().div_ceil(BLOCK_LEN);
        for block in run.chunks(run.len().div_ceil(blocks)) {
            self.push_columns(block);
        }
    }

    fn push_rows(&mut self, run: &[&'h Histogram]) {
        for histogram in run {
            self.rows.push(histogram);
            if self.rows.len() == BLOCK_LEN {
                self.flush_rows();
            }
        }
    }

    fn flush_rows(&mut self) {
        if self.rows.is_empty() {
            return;
        }
        let mut body = Vec::new();
        let mut previous = None;
        for histogram in &self.rows {
            histogram::push(&mut body, previous, histogram);
            previous = Some(histogram);
        }
        self.push_block(self.rows.len(), ROWS, &[&body]);
        self.rows.clear();
    }

    fn push_columns(&mut self, block: &[&'h Histogram]) {
        let Some(first) = block.first() else { return };
        let columns = block::encode(block);
        if !block::is_in_proportion(first, block.len(), columns.len()) {
            // Too regular for its size: shorter blocks have more heads, and rows are never too
            // short.
            if block.len() < 2 * MIN_COLUMN_LEN {
                self.push_rows(block);
            } else {
                let (older, newer) = block.split_at(block.len() / 2);
                self.push_columns(older);
                self.push_columns(newer);
            }
            return;
        }
        self.flush_rows();
        let mut layout = Vec::new();
        let mut kind = COLUMNS;
        if !self
            .layout
            .is_some_and(|last| histogram::same_layout(last, first))
        {
            kind = COLUMNS_WITH_LAYOUT;
            histogram::push_layout(&mut layout, first);
            self.layout = Some(first);
        }
        self.push_block(block.len(), kind, &[&layout, &columns]);
    }

    fn push_block(&mut self, len: usize, kind: u64, parts: &[&[u8]]) {
        push_varint(self.out, (len as u64) << 2 | kind);
        push_varint(self.out, parts.iter().map(|part| part.len() as u64).sum());
        for part in parts {
            self.out.extend_from_slice(part);
        }
    }
}

fn read_block(
    reader: &mut Reader<'_>,
    layout: &mut Option<Histogram>,
    stored: &mut Vec<Arc<Histogram>>,
) -> Result<(), DecodeError> {
    let head = reader.varint()?;
    let len = usize::try_from(head >> 2).unwrap_or(usize::MAX);
    if len == 0 || len > BLOCK_LEN {
        return Err(reader.error("block with no or too many histograms"));
    }
    let bytes = reader.count(1)?;
    let mut body = Reader::new(RECORD, reader.bytes(bytes)?);
    match head & 0b11 {
        ROWS => read_rows(&mut body, len, stored)?,
        COLUMNS_WITH_LAYOUT => {
            let layout = layout.insert(histogram::read_layout(&mut body)?);
            block::read(&mut body, layout, len, stored)?;
        }
        COLUMNS => {
            let layout = layout.as_ref();
            let layout = layout.ok_or_else(|| body.error("no layout to repeat"))?;
            block::read(&mut body, layout, len, stored)?;
        }
        _ => return Err(body.error("unknown kind of block")),
    }
    body.finish()
}

fn read_rows(
    body: &mut Reader<'_>,
    len: usize,
    stored: &mut Vec<Arc<Histogram>>,
) -> Result<(), DecodeError> {
    if len > body.remaining() / MIN_ROW_BYTES {
        return Err(body.error("more histograms than bytes"));
    }
    let mut previous: Option<Arc<Histogram>> = None;
    for _ in 0..len {
        let read = histogram::read(body, previous.as_deref())?;
        let read = read.ok_or_else(|| body.error("block entry without a histogram"))?;
        let read = Arc::new(read);
        stored.push(Arc::clone(&read));
        previous = Some(read);
    }
    Ok(())
}
