//! Stored timestamps: a grid, and where they do not lie on it, how far they are off.
//!
//! ```text
//! form 0   start − bucket start zz | interval uv                              regular
//! form 1   the same | length uv of what follows | predictor u8 | bodies        grid and residuals
//! ```
//!
//! The grid is start + i × interval; interval is the median distance. A residual is what a timestamp is
//! off the grid, in form 1 after prediction: 0 none, 1 the difference to the residual before, 2 the
//! difference of these differences. Residuals lie in bodies of [`MAX_CHUNK_LEN`] (`integers`).
//!
//! Holds always:
//! - All arithmetic wraps, so any strictly increasing list is stored; what decodes increases strictly.
//! - Of predictors that promise equal size the lower one is taken: same list, same bytes.

use super::simple::integers;
use super::time_list::{TimeList, grid_at, is_regular, median_interval};
use super::{MAX_CHUNK_LEN, MAX_SAMPLES};
use crate::DecodeError;
use crate::reader::{Reader, push_uvarint, push_zigzag};

const REGULAR: u8 = 0;
const RESIDUALS: u8 = 1;

const PREDICTORS: u8 = 3;

/// Samples over which the size of residuals is estimated together.
const ESTIMATE_BLOCK: usize = 128;

/// Appends a strictly increasing list, the form first.
pub(super) fn encode(bucket_start_ms: i64, timestamps: &[i64], out: &mut Vec<u8>) {
    debug_assert!(
        timestamps.is_sorted_by(|a, b| a < b),
        "timestamps must increase"
    );
    let start = timestamps.first().copied().unwrap_or(bucket_start_ms);
    let offset = start.wrapping_sub(bucket_start_ms);
    let interval = median_interval(timestamps);
    if is_regular(timestamps) {
        out.push(REGULAR);
        push_zigzag(out, offset);
        push_uvarint(out, interval);
        return;
    }
    out.push(RESIDUALS);
    push_zigzag(out, offset);
    push_uvarint(out, interval);
    let residuals: Vec<i64> = (0u64..)
        .zip(timestamps)
        .map(|(i, time)| time.wrapping_sub(grid_at(start, interval, i)))
        .collect();
    let (predictor, residuals) = best_predictor(residuals);
    let mut body = vec![predictor];
    for block in residuals.chunks(MAX_CHUNK_LEN) {
        integers::encode(block, &mut body);
    }
    push_uvarint(out, body.len() as u64);
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
        let interval = reader.uvarint()?;
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
        if !increases(&times) {
            return Err(reader.error("timestamps do not increase"));
        }
        reader.finish()?;
        Ok(TimeList::on_grid(self.interval, &times))
    }
}

/// Reads how many samples there are.
pub(super) fn read_len(reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    match usize::try_from(reader.uvarint()?) {
        Ok(len) if len <= MAX_SAMPLES => Ok(len),
        _ => Err(reader.error("more samples than a bucket can have")),
    }
}

/// The predictor that leaves the smallest numbers, and these numbers.
fn best_predictor(residuals: Vec<i64>) -> (u8, Vec<i64>) {
    let mut best_cost = estimated_bits(&residuals);
    let mut next = residuals.clone();
    let mut best = (0, residuals);
    for predictor in 1..PREDICTORS {
        take_differences(&mut next);
        let cost = estimated_bits(&next);
        if cost < best_cost {
            best_cost = cost;
            best = (predictor, next.clone());
        }
    }
    best
}

/// About the bits that numbers take as distances to the median of their block. A few far ones count for
/// their own size only, as they do in a patched body.
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
fn increases(times: &[i64]) -> bool {
    times
        .windows(2)
        .fold(true, |so_far, pair| so_far & (pair[0] < pair[1]))
}
