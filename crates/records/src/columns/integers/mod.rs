//! Bodies of integers: the residuals of a column after prediction.
//!
//! ```text
//! kind u8 = 0: blocks of 128, see `frames`
//!           1: zigzag-varint, the number that all are
//!           2: a Huffman code, see `symbols`
//! ```
//!
//! Holds always:
//! - Every i64 survives; arithmetic wraps.
//! - Same numbers, same bytes.
//! - How many numbers there are is not stored here. **The caller bounds it**: one that repeats a
//!   thousand times takes as few bytes as one that does not, so memory follows the number asked
//!   for, not the bytes.
//! - No numbers are no bytes.

mod frames;
mod symbols;
#[cfg(test)]
mod tests;

use icecore_model::varint::push_zigzag;

use super::bitpack::BLOCK;
use crate::DecodeError;
use crate::reader::Reader;

const FRAMES: u8 = 0;
const CONSTANT: u8 = 1;
const SYMBOLS: u8 = 2;

/// Frames of so few bytes, and so few numbers, are not worth a code of their own.
const WORTH_A_CODE: usize = 100;
const FEWEST_SYMBOLS: usize = 128;

/// Appends the numbers.
pub(crate) fn encode(numbers: &[i64], out: &mut Vec<u8>) {
    let Some(&first) = numbers.first() else {
        return;
    };
    if numbers.iter().all(|number| *number == first) {
        out.push(CONSTANT);
        push_zigzag(out, first);
        return;
    }
    let start = out.len();
    out.push(FRAMES);
    frames::encode(numbers, out);
    let end = out.len();
    if end - start > WORTH_A_CODE && numbers.len() >= FEWEST_SYMBOLS {
        out.push(SYMBOLS);
        symbols::encode(numbers, out);
        // Symbols take longer to read, so they have to be worth it.
        let most = (end - start) - (end - start) / 64;
        if out.len() - end < most {
            out.drain(start..end);
        } else {
            out.truncate(end);
        }
    }
}

/// Appends `count` numbers to `out`. With an error, some of them may have been appended.
pub(crate) fn decode_into(
    reader: &mut Reader<'_>,
    count: usize,
    out: &mut Vec<i64>,
) -> Result<(), DecodeError> {
    if count == 0 {
        return Ok(());
    }
    match reader.u8()? {
        CONSTANT => {
            let number = reader.zigzag()?;
            out.resize(out.len() + count, number);
            Ok(())
        }
        FRAMES => {
            // A block has a width and a base at least, so a false count is found before room is
            // made.
            if count.div_ceil(BLOCK) > reader.remaining() / 2 {
                return Err(reader.error("more numbers than bytes"));
            }
            frames::decode_into(reader, count, out)
        }
        SYMBOLS => symbols::decode_into(reader, count, out),
        _ => Err(reader.error("unknown kind of integers")),
    }
}
