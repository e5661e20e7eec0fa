//! Numbers as a Huffman code of their high part and their low bits as they are.
//!
//! ```text
//! k u8 | zigzag-varint lo | lengths of the 16 codes, 4 bits each, low half first
//! | varint escapes | (varint position − position after the one before | zigzag number − lo)*
//! | sizes of the four streams, varint each | streams of symbols
//! | low k bits of (number − lo), packed per 128
//! symbol = (number − lo) >> k; 15 = escape, whose low bits are 0
//! ```
//!
//! Numbers that cluster around a middle take less than their width: the high part is short where
//! they are many, and among 2^k neighbours one is about as likely as the other.

use icecore_model::varint::{push_varint, push_zigzag};

use super::super::bitpack::{BLOCK, Unpacker, pack, packed_len};
use super::super::huffman::{self, Lengths, MAX_SYMBOLS, STREAMS, Table, Writer};
use crate::DecodeError;
use crate::reader::Reader;

const ESCAPE: u8 = MAX_SYMBOLS as u8 - 1;

/// Numbers sampled to find the range of most of them.
const LOOKED_AT: usize = 512;

/// Appends at least [`super::FEWEST_SYMBOLS`] numbers.
pub(super) fn encode(numbers: &[i64], out: &mut Vec<u8>) {
    let (lo, k) = dense_range(numbers);
    let split = SplitNumbers::of(numbers, lo, k);
    let lengths = huffman::code_lengths(&split.counts);
    out.push(k as u8);
    push_zigzag(out, lo);
    out.extend(
        lengths
            .as_chunks::<2>()
            .0
            .iter()
            .map(|two| two[0] | two[1] << 4),
    );
    push_varint(out, split.escapes.len() as u64);
    let mut next = 0;
    for (position, distance) in &split.escapes {
        push_varint(out, (position - next) as u64);
        push_zigzag(out, *distance);
        next = position + 1;
    }
    let writer = Writer::new(lengths);
    let mut streams = Vec::with_capacity(numbers.len() / 2);
    for run in split.symbols.chunks(numbers.len().div_ceil(STREAMS)) {
        let start = streams.len();
        writer.write(run, &mut streams);
        push_varint(out, (streams.len() - start) as u64);
    }
    out.extend_from_slice(&streams);
    for block in split.lows.chunks(BLOCK) {
        pack(block, k, out);
    }
}

/// Where most numbers begin, and how many low bits are to be left out for them to end before the
/// escape: all but the outermost 1/256 on either side, and an eighth more.
fn dense_range(numbers: &[i64]) -> (i64, u32) {
    let every = numbers.len().div_ceil(LOOKED_AT).max(1);
    let mut some = [0i64; LOOKED_AT];
    let mut count = 0;
    for (place, number) in some.iter_mut().zip(numbers.iter().step_by(every)) {
        *place = *number;
        count += 1;
    }
    let some = &mut some[..count];
    some.sort_unstable();
    let (lo, hi) = (some[count / 256], some[count - 1 - count / 256]);
    let margin = (hi.wrapping_sub(lo) as u64 / 8) as i64;
    let (lo, hi) = (lo.saturating_sub(margin), hi.saturating_add(margin));
    let span = hi.wrapping_sub(lo) as u64;
    let mut k = 0;
    while span >> k >= u64::from(ESCAPE) {
        k += 1;
    }
    (lo, k)
}

struct SplitNumbers {
    symbols: Vec<u8>,
    counts: [u32; MAX_SYMBOLS],
    lows: Vec<u64>,
    /// Positions and numbers − lo.
    escapes: Vec<(usize, i64)>,
}

impl SplitNumbers {
    fn of(numbers: &[i64], lo: i64, k: u32) -> Self {
        let mut split = Self {
            symbols: Vec::with_capacity(numbers.len()),
            counts: [0; MAX_SYMBOLS],
            lows: Vec::with_capacity(numbers.len()),
            escapes: Vec::new(),
        };
        for (position, number) in numbers.iter().enumerate() {
            let distance = number.wrapping_sub(lo);
            let high = distance >> k;
            let (symbol, low) = if (0..i64::from(ESCAPE)).contains(&high) {
                (high as u8, distance as u64)
            } else {
                split.escapes.push((position, distance));
                (ESCAPE, 0)
            };
            split.counts[usize::from(symbol)] += 1;
            split.symbols.push(symbol);
            split.lows.push(low);
        }
        split
    }
}

pub(super) fn decode_into(
    reader: &mut Reader<'_>,
    count: usize,
    out: &mut Vec<i64>,
) -> Result<(), DecodeError> {
    let k = u32::from(reader.u8()?);
    if k > 63 {
        return Err(reader.error("too many low bits"));
    }
    let lo = reader.zigzag()?;
    let lengths = read_lengths(reader)?;
    let table = Table::new(&lengths).ok_or_else(|| reader.error("incomplete code"))?;
    let escapes = read_escapes(reader, count)?;
    let mut sizes = [0; STREAMS];
    for size in &mut sizes {
        *size = reader.count(1)?;
    }
    let streams = reader.bytes(sizes.iter().sum())?;
    // A symbol has a bit at least, so a false count is found before room is made.
    if count.div_ceil(8) > streams.len() {
        return Err(reader.error("more numbers than bits"));
    }
    let start = out.len();
    out.resize(start + count, 0);
    let numbers = &mut out[start..];
    table
        .read(streams, sizes, numbers)
        .ok_or_else(|| reader.error("symbols do not fit their streams"))?;
    let mut unpacker = Unpacker::new();
    let mut lows = [0; BLOCK];
    for block in numbers.chunks_mut(BLOCK) {
        let packed = reader.bytes(packed_len(block.len(), k))?;
        unpacker.unpack(packed, k, lo, &mut lows);
        for (number, low) in block.iter_mut().zip(lows) {
            *number = (*number << k).wrapping_add(low);
        }
    }
    for (position, distance) in escapes {
        if let Some(number) = numbers.get_mut(position) {
            *number = lo.wrapping_add(distance);
        }
    }
    Ok(())
}

fn read_lengths(reader: &mut Reader<'_>) -> Result<Lengths, DecodeError> {
    let mut lengths = [0; MAX_SYMBOLS];
    let packed: [u8; MAX_SYMBOLS / 2] = reader.array()?;
    for (two, byte) in lengths.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
        *two = [byte & 15, byte >> 4];
    }
    Ok(lengths)
}

/// Positions and distances to `lo`.
fn read_escapes(reader: &mut Reader<'_>, count: usize) -> Result<Vec<(usize, i64)>, DecodeError> {
    let escape_count = reader.count(2)?;
    let mut escapes = Vec::with_capacity(escape_count);
    let mut next = 0usize;
    for _ in 0..escape_count {
        let skipped = usize::try_from(reader.varint()?).ok();
        let position = skipped
            .and_then(|skipped| next.checked_add(skipped))
            .filter(|position| *position < count)
            .ok_or_else(|| reader.error("escape after the last number"))?;
        next = position + 1;
        escapes.push((position, reader.zigzag()?));
    }
    Ok(escapes)
}
