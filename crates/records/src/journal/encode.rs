//! Writes one block: what one request brought.

use icecore_model::{Exemplar, Histogram, Metadata};

use super::compression::{Codec, Compression};
use super::floats::FloatColumnsWriter;
use super::kind;
use crate::forward_index::push_bindings;
use crate::reader::{push_text, push_uvarint, push_zigzag};
use crate::{histogram, metadata};

/// Gathers the content of a request and writes it as one block. Reused, it keeps its buffers.
#[derive(Default)]
pub struct BlockEncoder {
    floats: FloatColumnsWriter,
    definitions: Vec<u8>,
    histograms: Vec<u8>,
    exemplars: Vec<u8>,
    metadata: Vec<u8>,
    start_timestamps: Vec<u8>,
    totals: Vec<u8>,
    raw_floats: Vec<u8>,
    compression: Compression,
}

impl BlockEncoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Says which labels a reference stands for, in this epoch. They must be sorted by name, unique
    /// and without empty values.
    pub fn define<'a>(
        &mut self,
        series_ref: u32,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        push_uvarint(&mut self.definitions, series_ref.into());
        push_bindings(&mut self.definitions, labels);
    }

    /// Adds samples; the three columns must be equally long.
    pub fn floats(&mut self, refs: &[u32], timestamps: &[i64], values: &[f64]) {
        self.floats.push(refs, timestamps, values);
    }

    pub fn histogram(&mut self, series_ref: u32, timestamp_ms: i64, histogram: &Histogram) {
        push_uvarint(&mut self.histograms, series_ref.into());
        push_zigzag(&mut self.histograms, timestamp_ms);
        histogram::push(&mut self.histograms, None, histogram);
    }

    pub fn exemplar(&mut self, series_ref: u32, exemplar: &Exemplar) {
        push_uvarint(&mut self.exemplars, series_ref.into());
        push_zigzag(&mut self.exemplars, exemplar.timestamp_ms);
        self.exemplars
            .extend_from_slice(&exemplar.value.to_bits().to_le_bytes());
        push_bindings(&mut self.exemplars, exemplar.labels.iter());
    }

    pub fn metadata(&mut self, family: &str, metadata: &Metadata) {
        push_text(&mut self.metadata, family);
        metadata::push_metadata(&mut self.metadata, metadata);
    }

    pub fn start_timestamp(&mut self, series_ref: u32, timestamp_ms: i64, start_ms: i64) {
        push_uvarint(&mut self.start_timestamps, series_ref.into());
        push_zigzag(&mut self.start_timestamps, timestamp_ms);
        push_zigzag(
            &mut self.start_timestamps,
            start_ms.wrapping_sub(timestamp_ms),
        );
    }

    /// Says that the last so many floats and histograms of the block are running totals of deltas.
    pub fn totals(&mut self, floats: usize, histograms: usize) {
        self.totals.clear();
        if floats + histograms > 0 {
            push_uvarint(&mut self.totals, floats as u64);
            push_uvarint(&mut self.totals, histograms as u64);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.floats.is_empty()
            && self.definitions.is_empty()
            && self.histograms.is_empty()
            && self.exemplars.is_empty()
            && self.metadata.is_empty()
            && self.start_timestamps.is_empty()
            && self.totals.is_empty()
    }

    /// The block; afterwards the encoder is empty.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut block = Vec::new();
        if !self.floats.is_empty() {
            self.floats.finish(&mut self.raw_floats);
        }
        let sections = [
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
            (kind::TOTALS, Codec::Lz4, &mut self.totals),
        ];
        for (kind, codec, raw) in sections {
            if !raw.is_empty() {
                self.compression.push_section(&mut block, kind, codec, raw);
                raw.clear();
            }
        }
        block
    }
}
