//! Compression of sections, with bounds on what a stored byte may become.

use icecore_model::varint::push_varint;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use crate::DecodeError;
use crate::reader::Reader;

/// The largest section before compression that is read.
pub const MAX_SECTION_BYTES: usize = 256 << 20;

/// How many bytes one stored byte may expand to. Lz4 cannot do more; where zstd would, the section
/// is written with lz4, so that damaged lengths cannot make a reader take much memory.
pub const MAX_EXPANSION: usize = 255;

/// Sections of a few bytes may expand to this many more than the ratio allows.
const EXPANSION_ALLOWANCE: usize = 64;

const ZSTD_LEVEL: i32 = 1;

/// How the bytes of a section are stored. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Raw = 0,
    Lz4 = 1,
    Zstd = 2,
}

impl Codec {
    fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Raw,
            1 => Self::Lz4,
            2 => Self::Zstd,
            _ => return None,
        })
    }
}

/// Compressors and their memory, for reuse.
#[derive(Default)]
pub(super) struct Compression {
    lz4_table: Option<CompressTable>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    stored: Vec<u8>,
}

impl Compression {
    /// Appends a section to a block: compressed with `codec`, or as it is where that is not
    /// smaller.
    pub(super) fn push_section(&mut self, block: &mut Vec<u8>, kind: u8, codec: Codec, raw: &[u8]) {
        // What cannot be read back must not be acknowledged.
        assert!(
            raw.len() <= MAX_SECTION_BYTES,
            "one entry is larger than a section may be"
        );
        let codec = self.compress(codec, raw);
        let stored = if codec == Codec::Raw {
            raw
        } else {
            &self.stored
        };
        block.extend_from_slice(&[kind, codec as u8]);
        push_varint(block, raw.len() as u64);
        push_varint(block, stored.len() as u64);
        block.extend_from_slice(stored);
    }

    /// Leaves the compressed bytes in `self.stored` and returns the codec that was used.
    fn compress(&mut self, codec: Codec, raw: &[u8]) -> Codec {
        if codec == Codec::Zstd && self.compress_zstd(raw).is_some() {
            return Codec::Zstd;
        }
        if codec != Codec::Raw && self.compress_lz4(raw).is_some() {
            return Codec::Lz4;
        }
        Codec::Raw
    }

    fn compress_lz4(&mut self, raw: &[u8]) -> Option<()> {
        self.stored.resize(get_maximum_output_size(raw.len()), 0);
        // Always the large table: the bytes must not depend on what was compressed before.
        let table = self.lz4_table.get_or_insert_with(CompressTable::large);
        let len = compress_into_with_table(raw, &mut self.stored, table).ok()?;
        self.stored.truncate(len);
        is_worthwhile(raw.len(), len).then_some(())
    }

    fn compress_zstd(&mut self, raw: &[u8]) -> Option<()> {
        let mut zstd = match self.zstd.take() {
            Some(zstd) => zstd,
            None => zstd::bulk::Compressor::new(ZSTD_LEVEL).ok()?,
        };
        self.stored.clear();
        self.stored
            .reserve(zstd::zstd_safe::compress_bound(raw.len()));
        let len = zstd.compress_to_buffer(raw, &mut self.stored).ok()?;
        self.zstd = Some(zstd);
        is_worthwhile(raw.len(), len).then_some(())
    }
}

fn is_worthwhile(raw: usize, stored: usize) -> bool {
    stored < raw && raw <= max_raw_len(stored)
}

fn max_raw_len(stored: usize) -> usize {
    stored
        .saturating_mul(MAX_EXPANSION)
        .saturating_add(EXPANSION_ALLOWANCE)
        .min(MAX_SECTION_BYTES)
}

/// Reads a section after its kind into `buffer` (unless it is stored raw) and returns its bytes.
pub(super) fn read_section<'b, 'a: 'b>(
    reader: &mut Reader<'a>,
    buffer: &'b mut Vec<u8>,
) -> Result<&'b [u8], DecodeError> {
    let codec = Codec::from_number(reader.u8()?);
    let codec = codec.ok_or_else(|| reader.error("unknown codec"))?;
    let raw_len = reader.varint()?;
    let stored_len = reader.count(1)?;
    let raw_len = usize::try_from(raw_len)
        .ok()
        .filter(|&len| len <= max_raw_len(stored_len));
    let raw_len = raw_len.ok_or_else(|| reader.error("section expands too far"))?;
    let stored = reader.bytes(stored_len)?;
    let len = match codec {
        Codec::Raw if raw_len == stored.len() => return Ok(stored),
        Codec::Raw => return Err(reader.error("lengths of a raw section differ")),
        Codec::Lz4 => {
            buffer.resize(raw_len, 0);
            lz4_flex::block::decompress_into(stored, buffer).ok()
        }
        Codec::Zstd => {
            buffer.resize(raw_len, 0);
            zstd::bulk::decompress_to_buffer(stored, &mut buffer[..]).ok()
        }
    };
    if len != Some(raw_len) {
        return Err(reader.error("section cannot be decompressed"));
    }
    Ok(buffer)
}
