//! Writes one block: what one request brought.
//!
//! Holds always:
//! - A section ends before the entry that would make it longer than a section may be.
//! - Sections of a kind follow one another, so that the last entries of a kind are the last of the
//!   block: `totals` counts them from there.

use icecore_model::varint::{push_varint, push_zigzag};
use icecore_model::{CatalogChange, Exemplar, Histogram, Metadata};

use super::compression::{Codec, Compression};
use super::floats::{FloatColumnsWriter, MAX_SAMPLE_LEN};
use super::{MAX_BLOCK_BYTES, MAX_SECTION_BYTES, kind};
use crate::forward_index::push_bindings;
use crate::reader::{push_bytes, push_text};
use crate::{histogram, metadata};

/// Sections are cut here: well before the limit, because a reader holds one in memory as a whole.
const SECTION_BYTES: usize = MAX_SECTION_BYTES / 4;

/// Gathers the content of a request and writes it as one block. Reused, it keeps its buffers.
pub struct BlockEncoder {
    floats: FloatColumnsWriter,
    definitions: Entries,
    histograms: Entries,
    exemplars: Entries,
    metadata: Entries,
    start_timestamps: Entries,
    events: Entries,
    totals: Entries,
    catalog: Entries,
    raw_floats: Entries,
    compression: Compression,
    section_bytes: usize,
}

/// Entries of one kind, cut into sections.
#[derive(Default)]
struct Entries {
    bytes: Vec<u8>,
    /// Where a section ends and the next one begins.
    cuts: Vec<usize>,
}

impl Entries {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.cuts.clear();
    }

    /// Appends the entry that `write` writes: to the last section, or as the first of the next one.
    fn push(&mut self, section_bytes: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let entry = self.bytes.len();
        write(&mut self.bytes);
        let section = self.cuts.last().copied().unwrap_or(0);
        if self.bytes.len() - section > section_bytes && entry > section {
            self.cuts.push(entry);
        }
    }

    /// Appends bytes that are no entries: a section may end at any of them.
    fn extend(&mut self, section_bytes: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let section = self.cuts.last().copied().unwrap_or(0);
            let room = section_bytes.saturating_sub(self.bytes.len() - section);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.bytes.extend_from_slice(now);
            if !later.is_empty() {
                self.cuts.push(self.bytes.len());
            }
            bytes = later;
        }
    }

    fn sections(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.cuts.iter().copied().chain([self.bytes.len()]);
        let mut start = 0;
        ends.map(move |end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }
}

impl Default for BlockEncoder {
    fn default() -> Self {
        Self::with_section_bytes(SECTION_BYTES)
    }
}

impl BlockEncoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Cuts sections at another length.
    pub(super) fn with_section_bytes(section_bytes: usize) -> Self {
        Self {
            floats: FloatColumnsWriter::default(),
            definitions: Entries::default(),
            histograms: Entries::default(),
            exemplars: Entries::default(),
            metadata: Entries::default(),
            start_timestamps: Entries::default(),
            events: Entries::default(),
            totals: Entries::default(),
            catalog: Entries::default(),
            raw_floats: Entries::default(),
            compression: Compression::default(),
            section_bytes,
        }
    }

    /// Defines the labels of a reference, in this epoch. They must be sorted by name, unique
    /// and without empty values.
    pub fn define<'a>(
        &mut self,
        series_ref: u32,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        self.definitions.push(self.section_bytes, |entry| {
            push_varint(entry, series_ref.into());
            push_bindings(entry, labels);
        });
    }

    /// Adds samples; the three columns must be equally long.
    pub fn floats(&mut self, refs: &[u32], timestamps: &[i64], values: &[f64]) {
        let per_section = (self.section_bytes / MAX_SAMPLE_LEN).max(1);
        let mut start = 0;
        while start < refs.len() {
            if self.floats.len() >= per_section {
                self.finish_floats();
            }
            let end = refs.len().min(start + per_section - self.floats.len());
            self.floats.push(
                &refs[start..end],
                &timestamps[start..end],
                &values[start..end],
            );
            start = end;
        }
    }

    /// Ends a section of floats.
    fn finish_floats(&mut self) {
        if self.floats.is_empty() {
            return;
        }
        let raw = &mut self.raw_floats;
        if !raw.is_empty() {
            raw.cuts.push(raw.bytes.len());
        }
        self.floats.finish(&mut raw.bytes);
    }

    pub fn histogram(&mut self, series_ref: u32, timestamp_ms: i64, histogram: &Histogram) {
        self.histograms.push(self.section_bytes, |entry| {
            push_varint(entry, series_ref.into());
            push_zigzag(entry, timestamp_ms);
            histogram::push(entry, None, histogram);
        });
    }

    pub fn exemplar(&mut self, series_ref: u32, exemplar: &Exemplar) {
        self.exemplars.push(self.section_bytes, |entry| {
            push_varint(entry, series_ref.into());
            push_zigzag(entry, exemplar.timestamp_ms);
            entry.extend_from_slice(&exemplar.value.to_bits().to_le_bytes());
            push_bindings(entry, exemplar.labels.iter());
        });
    }

    pub fn metadata(&mut self, family: &str, metadata: &Metadata) {
        self.metadata.push(self.section_bytes, |entry| {
            push_text(entry, family);
            metadata::push_metadata(entry, metadata);
        });
    }

    pub fn start_timestamp(&mut self, series_ref: u32, timestamp_ms: i64, start_ms: i64) {
        self.start_timestamps.push(self.section_bytes, |entry| {
            push_varint(entry, series_ref.into());
            push_zigzag(entry, timestamp_ms);
            push_zigzag(entry, start_ms.wrapping_sub(timestamp_ms));
        });
    }

    /// The events of the request, in bytes of their own; what comes later is appended.
    pub fn events(&mut self, bytes: &[u8]) {
        self.events.extend(self.section_bytes, bytes);
    }

    pub fn catalog(&mut self, change: &CatalogChange) {
        self.catalog.push(self.section_bytes, |entry| {
            push_bytes(entry, &change.key);
            entry.push(change.value.is_some().into());
            push_bytes(entry, change.value.as_deref().unwrap_or_default());
        });
    }

    /// Marks the last so many floats and histograms of the block as running totals of deltas.
    pub fn totals(&mut self, floats: usize, histograms: usize) {
        self.totals.clear();
        if floats + histograms > 0 {
            let fits = |count: usize| u32::try_from(count).is_ok();
            assert!(fits(floats) && fits(histograms), "more totals than 32 bits");
            push_varint(&mut self.totals.bytes, floats as u64);
            push_varint(&mut self.totals.bytes, histograms as u64);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.floats.is_empty()
            && self.raw_floats.is_empty()
            && self.definitions.is_empty()
            && self.histograms.is_empty()
            && self.exemplars.is_empty()
            && self.metadata.is_empty()
            && self.start_timestamps.is_empty()
            && self.events.is_empty()
            && self.totals.is_empty()
            && self.catalog.is_empty()
    }

    /// The block; afterwards the encoder is empty.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut block = Vec::new();
        self.finish_floats();
        let kinds = [
            (kind::DEFINITIONS, Codec::Zstd, &mut self.definitions),
            (kind::FLOATS, Codec::Lz4, &mut self.raw_floats),
            (kind::HISTOGRAMS, Codec::Lz4, &mut self.histograms),
            (kind::EXEMPLARS, Codec::Lz4, &mut self.exemplars),
            (kind::METADATA, Codec::Lz4, &mut self.metadata),
            (
                kind::START_TIMESTAMPS,
                Codec::Lz4,
                &mut self.start_timestamps,
            ),
            (kind::EVENTS, Codec::Zstd, &mut self.events),
            (kind::TOTALS, Codec::Lz4, &mut self.totals),
            (kind::CATALOG, Codec::Lz4, &mut self.catalog),
        ];
        for (kind, codec, entries) in kinds {
            if entries.is_empty() {
                continue;
            }
            for raw in entries.sections() {
                self.compression.push_section(&mut block, kind, codec, raw);
            }
            entries.clear();
        }
        assert!(block.len() <= MAX_BLOCK_BYTES, "a block is too long");
        block
    }
}
