//! Numbers of a fixed width in bits, packed without gaps.
//!
//! ```text
//! value i = bits i·width … (i+1)·width of the bytes, least significant bit first; the last byte is
//! padded with 0
//! ```
//!
//! Holds always:
//! - A width is at most 64; a block has at most [`BLOCK`] numbers.
//! - Unpacking reads exactly [`packed_len`] bytes, whatever they say.

/// Numbers per block.
pub(super) const BLOCK: usize = 128;

/// Room for the longest block, and for a load that begins in its last byte.
const PADDED: usize = BLOCK * 8 + 16;

pub(super) fn packed_len(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Appends the low `width` bits of each number.
pub(super) fn pack(numbers: &[u64], width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let mask = u64::MAX >> (64 - width);
    let end = out.len() + packed_len(numbers.len(), width);
    let (mut word, mut filled) = (0u64, 0u32);
    for number in numbers {
        let number = number & mask;
        word |= number << filled;
        filled += width;
        if filled >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= 64;
            // What did not fit; a shift by the whole width means that everything did.
            word = number.checked_shr(width - filled).unwrap_or(0);
        }
    }
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

/// Turns packed bytes back into numbers. It owns the room from which whole words can be loaded at
/// any byte, so one is made per body, not per block.
pub(super) struct Unpacker {
    padded: [u8; PADDED],
}

impl Unpacker {
    pub(super) fn new() -> Self {
        Self {
            padded: [0; PADDED],
        }
    }

    /// Fills `out` with `base` plus each number. Of a block with fewer numbers than [`BLOCK`] the
    /// rest of `out` means nothing.
    pub(super) fn unpack(&mut self, packed: &[u8], width: u32, base: i64, out: &mut [i64; BLOCK]) {
        let len = packed.len().min(BLOCK * 8);
        self.padded[..len].copy_from_slice(&packed[..len]);
        /// One loop per width: shifts and masks are then constants, and nothing is left to decide
        /// per number.
        macro_rules! by_width {
            ($($width:literal)*) => {
                match width {
                    0 => out.fill(base),
                    $($width => unpack_width::<$width>(&self.padded, base, out),)*
                    _ => debug_assert!(false, "widths are checked when they are read"),
                }
            };
        }
        by_width!(
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
            33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
            62 63 64
        );
    }
}

/// Eight numbers take as many bytes as one takes bits, so every eighth begins at a whole byte.
#[inline(never)]
fn unpack_width<const WIDTH: usize>(padded: &[u8; PADDED], base: i64, out: &mut [i64; BLOCK]) {
    let mask = u64::MAX >> (64 - WIDTH);
    for (group, eight) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        for (i, number) in eight.iter_mut().enumerate() {
            let byte = group * WIDTH + i * WIDTH / 8;
            let shift = i * WIDTH % 8;
            // A number of more than 57 bits may lie in nine bytes.
            let bits = if WIDTH <= 57 {
                load::<8>(padded, byte, |bytes| u64::from_le_bytes(bytes) >> shift)
            } else {
                load::<16>(padded, byte, |bytes| {
                    (u128::from_le_bytes(bytes) >> shift) as u64
                })
            };
            *number = base.wrapping_add((bits & mask) as i64);
        }
    }
}

#[inline(always)]
fn load<const N: usize>(padded: &[u8; PADDED], byte: usize, read: impl Fn([u8; N]) -> u64) -> u64 {
    match padded
        .get(byte..byte + N)
        .and_then(|bytes| bytes.first_chunk())
    {
        Some(bytes) => read(*bytes),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_and_length_comes_back() {
        let mut unpacker = Unpacker::new();
        for width in 0..=64u32 {
            for count in [1, 2, 7, 8, 63, 64, 65, 127, 128] {
                let mask = if width == 0 {
                    0
                } else {
                    u64::MAX >> (64 - width)
                };
                let numbers: Vec<u64> = (0..count)
                    .map(|i| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask)
                    .collect();
                let mut packed = vec![0xaa];
                pack(&numbers, width, &mut packed);
                assert_eq!(packed.len() - 1, packed_len(count, width));
                let mut out = [7; BLOCK];
                unpacker.unpack(&packed[1..], width, -5, &mut out);
                let expected: Vec<i64> = numbers
                    .iter()
                    .map(|number| (*number as i64).wrapping_sub(5))
                    .collect();
                assert_eq!(out[..count], expected, "width {width}, {count} numbers");
            }
        }
    }

    #[test]
    fn bits_lie_least_significant_first() {
        let mut packed = Vec::new();
        pack(&[1, 2, 3, 4], 3, &mut packed);
        assert_eq!(packed, [0b11_010_001, 0b1000]);
    }
}
