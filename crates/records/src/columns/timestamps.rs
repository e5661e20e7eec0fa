//! Stored timestamps: a grid, and where they do not lie on it, how far they are off.
//!
//! ```text
//! form 0   start − bucket start zz | interval uv                              regular
//! form 1   the same | length uv of what follows | predictor u8 | bodies        grid and residuals
//! ```
//!
//! The grid is start + i × interval. A residual is what a timestamp is off the grid, in form 1
//! after prediction: 0 none, 1 the difference to the residual before, 2 the difference of these
//! differences. Residuals lie in bodies of [`MAX_CHUNK_LEN`] (`integers`).
//!
//! Holds always:
//! - All arithmetic wraps, so any strictly increasing list is stored; what decodes increases
//!   strictly.
//! - Same list, same bytes: of all ways that promise the same size the first one is taken.

use icecore_model::varint::{push_varint, push_zigzag};

use super::time_list::{TimeList, grid_at, is_regular, likely_intervals, off_grid};
use super::{MAX_CHUNK_LEN, MAX_SAMPLES, integers};
use crate::DecodeError;
use crate::reader::Reader;

const REGULAR: u8 = 0;
const RESIDUALS: u8 = 1;

const PREDICTORS: u8 = 3;

/// Samples over which the size of residuals is estimated together.
const ESTIMATE_BLOCK: usize = 128;

/// Appends a strictly increasing list, the form first.
pub(super) fn encode(bucket_start_ms: i64, timestamps: &[i64], out: &mut Vec<u8>) {
    assert!(is_increasing(timestamps), "timestamps must increase");
    check_len(timestamps.len());
    let start = timestamps.first().copied().unwrap_or(bucket_start_ms);
    let push_grid = |form: u8, interval: u64, out: &mut Vec<u8>| {
        out.push(form);
        push_zigzag(out, start.wrapping_sub(bucket_start_ms));
        push_varint(out, interval);
    };
    if is_regular(timestamps) {
        let [interval, _] = likely_intervals(timestamps);
        push_grid(REGULAR, interval, out);
        return;
    }
    let best = Residuals::smallest_of(timestamps);
    push_grid(RESIDUALS, best.interval, out);
    let mut body = vec![best.predictor];
    for block in best.numbers.chunks(MAX_CHUNK_LEN) {
        integers::encode(block, &mut body);
    }
    push_varint(out, body.len() as u64);
    out.extend_from_slice(&body);
}

/// Timestamps whose place is known and whose residuals are not read.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredTimes<'a> {
    offset: i64,
    interval: u64,
    residuals: Option<&'a [u8]>,
}

impl<'a> StoredTimes<'a> {
    /// Reads what follows the form.
    pub(super) fn parse(form: u8, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if form > RESIDUALS {
            return Err(reader.error("unknown form of timestamps"));
        }
        let offset = reader.zigzag()?;
        let interval = reader.varint()?;
        let residuals = match form {
            REGULAR => None,
            _ => {
                let len = reader.count(1)?;
                Some(reader.bytes(len)?)
            }
        };
        Ok(Self {
            offset,
            interval,
            residuals,
        })
    }

    pub(super) fn decode(
        &self,
        record: &'static str,
        bucket_start_ms: i64,
        len: usize,
    ) -> Result<TimeList, DecodeError> {
        let start = bucket_start_ms.wrapping_add(self.offset);
        let Some(body) = self.residuals else {
            return TimeList::regular(start, self.interval, len)
                .ok_or_else(|| DecodeError::new(record, 0, "timestamps do not increase"));
        };
        let mut reader = Reader::new(record, body);
        let predictor = reader.u8()?;
        if predictor >= PREDICTORS {
            return Err(reader.error("unknown predictor of timestamps"));
        }
        let mut times = Vec::new();
        while times.len() < len {
            let block = (len - times.len()).min(MAX_CHUNK_LEN);
            integers::decode_into(&mut reader, block, &mut times)?;
        }
        for _ in 0..predictor {
            undo_differences(&mut times);
        }
        for (i, time) in (0u64..).zip(&mut times) {
            *time = time.wrapping_add(grid_at(start, self.interval, i));
        }
        if !is_increasing(&times) {
            return Err(reader.error("timestamps do not increase"));
        }
        reader.finish()?;
        Ok(TimeList::on_grid(self.interval, &times))
    }
}

/// What [`read_len`] insists on.
pub(super) fn check_len(len: usize) {
    assert!(len <= MAX_SAMPLES, "more samples than a bucket can have");
}

/// Reads how many samples there are.
pub(super) fn read_len(reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    match usize::try_from(reader.varint()?) {
        Ok(len) if len <= MAX_SAMPLES => Ok(len),
        _ => Err(reader.error("more samples than a bucket can have")),
    }
}

/// A grid, a predictor, and what is left of timestamps then.
#[derive(Clone)]
struct Residuals {
    interval: u64,
    predictor: u8,
    numbers: Vec<i64>,
}

impl Residuals {
    /// Tries the median interval with every predictor, which is what scrapes with gaps need, and
    /// the mean interval without, which is what an interval between two milliseconds needs.
    fn smallest_of(timestamps: &[i64]) -> Self {
        let [median, mean] = likely_intervals(timestamps);
        let over = |interval| Self {
            interval,
            predictor: 0,
            numbers: off_grid(interval, timestamps).collect(),
        };
        let mut tried = over(median);
        let mut least_bits = estimated_bits(&tried.numbers);
        let mut best = tried.clone();
        let mut try_next = |tried: &Self| {
            let bits = estimated_bits(&tried.numbers);
            if bits < least_bits {
                least_bits = bits;
                best = tried.clone();
            }
        };
        for predictor in 1..PREDICTORS {
            tried.predictor = predictor;
            take_differences(&mut tried.numbers);
            try_next(&tried);
        }
        if mean != median {
            try_next(&over(mean));
        }
        best
    }
}

/// About the bits that numbers take as distances to the median of their block. A few far ones count
/// for their own size only, as they do in a patched body.
fn estimated_bits(numbers: &[i64]) -> u64 {
    let mut scratch = [0; ESTIMATE_BLOCK];
    let mut bits = 0;
    for block in numbers.chunks(ESTIMATE_BLOCK) {
        let sorted = &mut scratch[..block.len()];
        sorted.copy_from_slice(block);
        let (_, &mut median, _) = sorted.select_nth_unstable(block.len() / 2);
        let sizes = block.iter().map(|number| {
            let distance = number.wrapping_sub(median).unsigned_abs();
            u64::from(u64::BITS - distance.leading_zeros())
        });
        bits += sizes.sum::<u64>();
    }
    bits
}

fn take_differences(numbers: &mut [i64]) {
    let mut before = 0i64;
    for number in numbers {
        let now = *number;
        *number = now.wrapping_sub(before);
        before = now;
    }
}

fn undo_differences(numbers: &mut [i64]) {
    let mut sum = 0i64;
    for number in numbers {
        sum = sum.wrapping_add(*number);
        *number = sum;
    }
}

/// Without an early end, so that it runs over several at a time.
fn is_increasing(times: &[i64]) -> bool {
    times
        .windows(2)
        .fold(true, |so_far, pair| so_far & (pair[0] < pair[1]))
}
