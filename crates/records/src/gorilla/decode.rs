//! The decoder: whole words, one bounds check per word, no loop over bits.
//!
//! Holds always:
//! - Memory is reserved only for samples that the stream is long enough to hold.
//! - Damage is found after the sample that shows it, and reported; nothing is appended then.

use super::RECORD;
use super::classes::{
    LONG_CODES, PAYLOAD_BITS, SHORT_CODE_BITS, SHORT_CODES, WIDE_CLASS, delta_of_delta,
};
use crate::DecodeError;
use crate::container;
use crate::reader::Reader;

/// A sample takes at most 5 + 64 + 13 + 64 bits, and the last read of it goes 9 bytes far: with
/// this many bytes from the start of a sample on, none of its reads can pass the end.
const SAMPLE_ROOM: usize = 32;

/// The least that a sample takes: one bit for the timestamp, one for the value.
const MIN_SAMPLE_BITS: usize = 2;

/// A window that no code can use: it is wider than a word.
const NO_WINDOW: u32 = 64;

/// The number of samples, without decoding them.
pub fn count(value: &[u8]) -> Result<u32, DecodeError> {
    container::refuse(RECORD, value)?;
    Reader::new(RECORD, value).varint32()
}

/// The timestamp of the first sample, without decoding the others; `None` in an empty stream.
pub fn first_timestamp(value: &[u8]) -> Result<Option<i64>, DecodeError> {
    container::refuse(RECORD, value)?;
    let mut reader = Reader::new(RECORD, value);
    if reader.varint32()? == 0 {
        return Ok(None);
    }
    reader.zigzag().map(Some)
}

/// Appends all samples to the columns and returns how many they are. After an error the columns are
/// as before.
pub fn decode_into(
    value: &[u8],
    timestamps: &mut Vec<i64>,
    values: &mut Vec<f64>,
) -> Result<usize, DecodeError> {
    let Some(stream) = Stream::open(value)? else {
        return Ok(0);
    };
    let (old_timestamps, old_values) = (timestamps.len(), values.len());
    let count = stream.count;
    timestamps.resize(old_timestamps + count, 0);
    values.resize(old_values + count, 0.0);
    let mut slots = timestamps[old_timestamps..]
        .iter_mut()
        .zip(values[old_values..].iter_mut());
    let decoded = stream.decode(|timestamp, bits| match slots.next() {
        Some((timestamp_slot, value_slot)) => {
            *timestamp_slot = timestamp;
            *value_slot = f64::from_bits(bits);
            true
        }
        None => false,
    });
    if let Err(error) = decoded {
        timestamps.truncate(old_timestamps);
        values.truncate(old_values);
        return Err(error);
    }
    Ok(count)
}

/// Appends the samples from `start_ms` to `end_ms`, both included, and returns how many they are.
/// The stream is not read beyond the range. After an error the columns are as before.
pub fn decode_range_into(
    value: &[u8],
    start_ms: i64,
    end_ms: i64,
    timestamps: &mut Vec<i64>,
    values: &mut Vec<f64>,
) -> Result<usize, DecodeError> {
    let Some(stream) = Stream::open(value)? else {
        return Ok(0);
    };
    let (old_timestamps, old_values) = (timestamps.len(), values.len());
    let decoded = stream.decode(|timestamp, bits| {
        if timestamp > end_ms {
            return false;
        }
        if timestamp >= start_ms {
            timestamps.push(timestamp);
            values.push(f64::from_bits(bits));
        }
        true
    });
    if let Err(error) = decoded {
        timestamps.truncate(old_timestamps);
        values.truncate(old_values);
        return Err(error);
    }
    Ok(timestamps.len() - old_timestamps)
}

/// A stream of at least one sample whose head has been read.
struct Stream<'a> {
    count: usize,
    first: (i64, u64),
    bits: &'a [u8],
    /// Where the bits begin in the value, for errors.
    offset: usize,
}

impl<'a> Stream<'a> {
    fn open(value: &'a [u8]) -> Result<Option<Self>, DecodeError> {
        container::refuse(RECORD, value)?;
        let mut reader = Reader::new(RECORD, value);
        let count = reader.varint32()? as usize;
        if count == 0 {
            reader.finish()?;
            return Ok(None);
        }
        let first = (reader.zigzag()?, reader.u64()?);
        let offset = reader.position();
        let bits = reader.rest();
        if count - 1 > bits.len() * 8 / MIN_SAMPLE_BITS {
            return Err(DecodeError::new(RECORD, offset, "more samples than bits"));
        }
        Ok(Some(Self {
            count,
            first,
            bits,
            offset,
        }))
    }

    /// Hands every sample to `take` until it returns false.
    #[inline(always)]
    fn decode(&self, mut take: impl FnMut(i64, u64) -> bool) -> Result<(), DecodeError> {
        let mut state = State::after(self.first);
        let mut left = self.count - 1;
        if !take(self.first.0, self.first.1) {
            return Ok(());
        }
        let mut position = 0;
        let end_of_room = (self.bits.len() + 1).saturating_sub(SAMPLE_ROOM) * 8;
        while left > 0 && position < end_of_room {
            position = state.next(self.bits, position);
            if !take(state.timestamp, state.value) {
                return self.check(&state);
            }
            left -= 1;
        }
        // The last samples are read from a copy padded with zeros, so that they need no other code.
        let tail_start = (position / 8).min(self.bits.len());
        let tail_bytes = &self.bits[tail_start..];
        let mut tail = [0; 2 * SAMPLE_ROOM];
        let copied = tail_bytes.len().min(SAMPLE_ROOM);
        tail[..copied].copy_from_slice(&tail_bytes[..copied]);
        let mut tail_position = position - 8 * tail_start;
        let tail_end = 8 * copied;
        while left > 0 {
            tail_position = state.next(&tail, tail_position);
            if tail_position > tail_end {
                return Err(self.error(self.bits.len(), "truncated"));
            }
            if !take(state.timestamp, state.value) {
                return self.check(&state);
            }
            left -= 1;
        }
        self.check(&state)?;
        self.check_padding(8 * tail_start + tail_position)
    }

    fn check(&self, state: &State) -> Result<(), DecodeError> {
        if state.damaged {
            return Err(self.error(0, "impossible window or timestamps that do not increase"));
        }
        Ok(())
    }

    /// Only the last byte may have bits after the last sample, and they are zero.
    fn check_padding(&self, position: usize) -> Result<(), DecodeError> {
        if self.bits.len() != position.div_ceil(8) {
            return Err(self.error(position / 8, "bytes after the end"));
        }
        let padding = self.bits.last().map_or(0, |last| match position % 8 {
            0 => 0,
            used => last << used,
        });
        if padding != 0 {
            return Err(self.error(position / 8, "padding is not zero"));
        }
        Ok(())
    }

    fn error(&self, byte: usize, reason: &'static str) -> DecodeError {
        DecodeError::new(RECORD, self.offset + byte, reason)
    }
}

/// What the next sample is relative to.
struct State {
    timestamp: i64,
    delta: i64,
    value: u64,
    leading: u32,
    significant: u32,
    damaged: bool,
}

impl State {
    fn after((timestamp, value): (i64, u64)) -> Self {
        Self {
            timestamp,
            delta: 0,
            value,
            leading: NO_WINDOW,
            significant: 1,
            damaged: false,
        }
    }

    /// Reads one sample at a bit position and returns the position after it. At least
    /// [`SAMPLE_ROOM`] bytes must follow.
    #[inline(always)]
    fn next(&mut self, bytes: &[u8], position: usize) -> usize {
        let mut word = peek(bytes, position);
        let mut position = position;
        let change = if word < LONG_CODES {
            let (used, change) = SHORT_CODES[(word >> (64 - SHORT_CODE_BITS)) as usize];
            word <<= used;
            position += usize::from(used);
            i64::from(change)
        } else {
            let (used, change) = long_code(bytes, position, word);
            position += used;
            word = peek(bytes, position);
            change
        };
        self.delta = self.delta.wrapping_add(change);
        let timestamp = self.timestamp.wrapping_add(self.delta);
        self.damaged |= timestamp <= self.timestamp;
        self.timestamp = timestamp;
        self.next_value(bytes, position, word)
    }

    /// `word` holds at least the 13 bits that open a value code.
    #[inline(always)]
    fn next_value(&mut self, bytes: &[u8], position: usize, word: u64) -> usize {
        if word >> 63 == 0 {
            return position + 1;
        }
        let mut position = position + 2;
        if word >> 62 == 0b11 {
            self.leading = (word >> 57) as u32 & 31;
            self.significant = ((word >> 51) as u32 & 63) + 1;
            position += 11;
        }
        let window = self.leading + self.significant;
        self.damaged |= window > 64;
        let xor = read(bytes, position, self.significant);
        self.value ^= xor.wrapping_shl(64u32.wrapping_sub(window));
        position + self.significant as usize
    }
}

/// Length and delta of delta of a code of the classes 3 to 5.
#[inline(never)]
fn long_code(bytes: &[u8], position: usize, word: u64) -> (usize, i64) {
    let class = (!word).leading_zeros().min(WIDE_CLASS);
    if class == WIDE_CLASS {
        let payload = read(bytes, position + WIDE_CLASS as usize, 64);
        return (WIDE_CLASS as usize + 64, delta_of_delta(payload as i64));
    }
    let bits = PAYLOAD_BITS[class as usize];
    let payload = (word << (class + 1)) as i64 >> (64 - bits);
    ((class + 1 + bits) as usize, delta_of_delta(payload))
}

/// The bits from a position on, at the top of a word; at least 57 of them count.
#[inline(always)]
fn peek(bytes: &[u8], position: usize) -> u64 {
    let byte = position / 8;
    let word = bytes[byte..byte + 8].try_into().expect("eight bytes");
    u64::from_be_bytes(word) << (position % 8)
}

/// The next `len` bits (1 to 64).
#[inline(always)]
fn read(bytes: &[u8], position: usize, len: u32) -> u64 {
    let last = u64::from(bytes[position / 8 + 8]);
    let word = peek(bytes, position) | (last >> (8 - position % 8));
    word >> (64 - len)
}
