//! Patched frames of reference: blocks of 128 numbers as distances to the block's base.
//!
//! ```text
//! block   width u8, + 0x80 if patched | zigzag-varint base − base of the block before
//!         | the low `width` bits of (number − base), packed
//!         | patched: count u8, high width u8, positions u8 each, zigzag high parts packed
//! number  base + low + high · 2^width
//! ```
//!
//! Holds always:
//! - The base is the least number that is not patched. A patched number may lie on either side of
//!   it: a counter's reset is as cheap as a jump.
//! - The last block has what is left; the others have 128 numbers.

use icecore_model::varint::{push_zigzag, unzigzag, zigzag};

use super::super::bitpack::{BLOCK, Unpacker, pack, packed_len};
use crate::DecodeError;
use crate::reader::Reader;

const PATCHED: u8 = 0x80;

pub(super) fn encode(numbers: &[i64], out: &mut Vec<u8>) {
    let mut previous_base = 0i64;
    for block in numbers.chunks(BLOCK) {
        let frame = Frame::choose(block);
        let patched = if frame.is_patched { PATCHED } else { 0 };
        out.push(frame.width as u8 | patched);
        push_zigzag(out, frame.base.wrapping_sub(previous_base));
        previous_base = frame.base;
        let mut distances = [0u64; BLOCK];
        for (distance, number) in distances.iter_mut().zip(block) {
            *distance = number.wrapping_sub(frame.base) as u64;
        }
        pack(&distances[..block.len()], frame.width, out);
        if frame.is_patched {
            push_patches(&distances[..block.len()], frame.width, out);
        }
    }
}

fn push_patches(distances: &[u64], width: u32, out: &mut Vec<u8>) {
    let (mut positions, mut highs) = ([0u8; BLOCK], [0u64; BLOCK]);
    let (mut count, mut any) = (0, 0);
    for (position, distance) in distances.iter().enumerate() {
        let high = (*distance as i64) >> width;
        if high != 0 {
            positions[count] = position as u8;
            highs[count] = zigzag(high);
            any |= highs[count];
            count += 1;
        }
    }
    let high_width = bit_len(any);
    out.extend_from_slice(&[count as u8, high_width as u8]);
    out.extend_from_slice(&positions[..count]);
    pack(&highs[..count], high_width, out);
}

pub(super) fn decode_into(
    reader: &mut Reader<'_>,
    count: usize,
    out: &mut Vec<i64>,
) -> Result<(), DecodeError> {
    out.reserve(count);
    let mut unpacker = Unpacker::new();
    let mut block = [0i64; BLOCK];
    let mut base = 0i64;
    let mut left = count;
    while left > 0 {
        let len = left.min(BLOCK);
        let head = reader.u8()?;
        let width = u32::from(head & !PATCHED);
        if width > 64 {
            return Err(reader.error("width over 64 bits"));
        }
        base = base.wrapping_add(reader.zigzag()?);
        let packed = reader.bytes(packed_len(len, width))?;
        unpacker.unpack(packed, width, base, &mut block);
        if head & PATCHED != 0 {
            patch(reader, &mut unpacker, width, &mut block[..len])?;
        }
        out.extend_from_slice(&block[..len]);
        left -= len;
    }
    Ok(())
}

fn patch(
    reader: &mut Reader<'_>,
    unpacker: &mut Unpacker,
    width: u32,
    block: &mut [i64],
) -> Result<(), DecodeError> {
    let count = usize::from(reader.u8()?);
    let high_width = u32::from(reader.u8()?);
    if count > block.len() || high_width + width > 64 || width == 64 {
        return Err(reader.error("patches out of range"));
    }
    let positions = reader.bytes(count)?;
    let packed = reader.bytes(packed_len(count, high_width))?;
    let mut highs = [0i64; BLOCK];
    unpacker.unpack(packed, high_width, 0, &mut highs);
    for (position, high) in positions.iter().zip(highs) {
        let Some(number) = block.get_mut(usize::from(*position)) else {
            return Err(reader.error("patch after the end of the block"));
        };
        *number = number.wrapping_add(unzigzag(high as u64) << width);
    }
    Ok(())
}

struct Frame {
    base: i64,
    width: u32,
    is_patched: bool,
}

impl Frame {
    /// The frame that takes the fewest bytes. Of all frames of one width the best is the window
    /// over the sorted numbers that leaves out the fewest.
    fn choose(block: &[i64]) -> Self {
        let (least, most) = block
            .iter()
            .fold((i64::MAX, i64::MIN), |(least, most), number| {
                (least.min(*number), most.max(*number))
            });
        let full = bit_len(most.wrapping_sub(least) as u64);
        let mut best = Self {
            base: least,
            width: full,
            is_patched: false,
        };
        let mut best_bytes = packed_len(block.len(), full);
        // Patches cost four bytes at least, for the first.
        if best_bytes <= 4 {
            return best;
        }
        let mut sorted = [i64::MAX; BLOCK];
        let sorted = &mut sorted[..block.len()];
        sorted.copy_from_slice(block);
        sorted.sort_unstable();
        for width in (0..full).rev() {
            let (start, end) = widest_window(sorted, width);
            let patches = sorted.len() - (end - start);
            let base = sorted[start];
            let low = zigzag(least.wrapping_sub(base) >> width);
            let high = zigzag(most.wrapping_sub(base) >> width);
            let bytes = packed_len(sorted.len(), width)
                + 2
                + patches
                + packed_len(patches, bit_len(low | high));
            if bytes < best_bytes {
                best_bytes = bytes;
                best = Self {
                    base,
                    width,
                    is_patched: true,
                };
            }
            // Fewer bits only ever mean more patches, and these alone are too many already.
            if patches + 2 >= best_bytes {
                break;
            }
        }
        best
    }
}

/// The longest run of sorted numbers whose distances to its first fit `width` bits.
fn widest_window(sorted: &[i64], width: u32) -> (usize, usize) {
    let limit = (1u64 << width) - 1;
    let (mut best_start, mut best_len) = (0, 0);
    let mut start = 0;
    for (end, number) in sorted.iter().enumerate() {
        // A window never has to shrink: only a longer one counts.
        if number.wrapping_sub(sorted[start]) as u64 > limit {
            start += 1;
        } else if end + 1 - start > best_len {
            best_len = end + 1 - start;
            best_start = start;
        }
    }
    (best_start, best_start + best_len)
}

fn bit_len(number: u64) -> u32 {
    64 - number.leading_zeros()
}
