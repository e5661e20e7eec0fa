//! Decoded timestamps in a compact form: a grid, and small offsets from it where there are any.
//!
//! ```text
//! time(i) = start + i × interval + offset(i)        offset: none, u8, u16, u32 or 64 bits
//! ```
//!
//! Holds always:
//! - Timestamps increase strictly. All arithmetic wraps, so any such list has this form.
//! - A regular list takes no heap memory, however long it is.

use std::fmt;
use std::ops::Range;

/// Timestamps in strictly increasing order.
#[derive(Clone)]
pub struct TimeList {
    len: usize,
    start: i64,
    interval: u64,
    offsets: Offsets,
}

#[derive(Clone)]
enum Offsets {
    None,
    Bits8(Box<[u8]>),
    Bits16(Box<[u16]>),
    Bits32(Box<[u32]>),
    Bits64(Box<[i64]>),
}

impl From<&[i64]> for TimeList {
    fn from(times: &[i64]) -> Self {
        debug_assert!(times.is_sorted_by(|a, b| a < b), "timestamps must increase");
        let [median, mean] = likely_intervals(times);
        let is_mean_better = offsets_over(mean, times).1 < offsets_over(median, times).1;
        Self::on_grid(if is_mean_better { mean } else { median }, times)
    }
}

impl From<Vec<i64>> for TimeList {
    fn from(times: Vec<i64>) -> Self {
        Self::from(&times[..])
    }
}

impl TimeList {
    /// A list without offsets; `None` if it would not increase or would leave 64 bits.
    pub(super) fn regular(start: i64, interval: u64, len: usize) -> Option<Self> {
        if let Some(steps @ 1..) = len.checked_sub(1) {
            let last = i128::from(start) + i128::from(interval) * i128::try_from(steps).ok()?;
            if interval == 0 || last > i64::MAX.into() {
                return None;
            }
        }
        Some(Self {
            len,
            start,
            interval,
            offsets: Offsets::None,
        })
    }

    /// The form of a list over a grid of this interval. Any interval is right, a good one is short.
    pub(super) fn on_grid(interval: u64, times: &[i64]) -> Self {
        let first = times.first().copied().unwrap_or(0);
        let (least, widest) = offsets_over(interval, times);
        let offsets = off_grid(interval, times).map(|off| off.wrapping_sub(least));
        let offsets = match widest {
            0 => Offsets::None,
            1..=0xff => Offsets::Bits8(offsets.map(|offset| offset as u8).collect()),
            0x100..=0xffff => Offsets::Bits16(offsets.map(|offset| offset as u16).collect()),
            0x1_0000..=0xffff_ffff => {
                Offsets::Bits32(offsets.map(|offset| offset as u32).collect())
            }
            _ => Offsets::Bits64(offsets.collect()),
        };
        Self {
            len: times.len(),
            start: first.wrapping_add(least),
            interval,
            offsets,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn at(&self, index: usize) -> Option<i64> {
        if index >= self.len {
            return None;
        }
        let offset = match &self.offsets {
            Offsets::None => 0,
            Offsets::Bits8(offsets) => i64::from(*offsets.get(index)?),
            Offsets::Bits16(offsets) => i64::from(*offsets.get(index)?),
            Offsets::Bits32(offsets) => i64::from(*offsets.get(index)?),
            Offsets::Bits64(offsets) => *offsets.get(index)?,
        };
        Some(grid_at(self.start, self.interval, index as u64).wrapping_add(offset))
    }

    pub fn first(&self) -> Option<i64> {
        self.at(0)
    }

    pub fn last(&self) -> Option<i64> {
        self.at(self.len.checked_sub(1)?)
    }

    pub fn iter(&self) -> impl Iterator<Item = i64> {
        (0..self.len).filter_map(|index| self.at(index))
    }

    /// The samples from `start_ms` to `end_ms`, both included.
    pub fn range(&self, start_ms: i64, end_ms: i64) -> Range<usize> {
        let start = self.first_from(start_ms);
        let end = match end_ms.checked_add(1) {
            Some(after) => self.first_from(after),
            None => self.len,
        };
        start..end.max(start)
    }

    /// The index of the first timestamp that is not before `time_ms`; the length where there is
    /// none.
    fn first_from(&self, time_ms: i64) -> usize {
        let (Some(first), Some(last)) = (self.first(), self.last()) else {
            return 0;
        };
        if time_ms <= first {
            return 0;
        }
        if time_ms > last {
            return self.len;
        }
        // From here on the list has two timestamps at least, and the result is not 0.
        let distance = time_ms.wrapping_sub(first) as u64;
        let steps = distance / self.interval.max(1);
        if matches!(self.offsets, Offsets::None) {
            // There is no step after the last timestamp, so this is an index.
            return usize::from(!distance.is_multiple_of(self.interval.max(1))) + steps as usize;
        }
        let guess = usize::try_from(steps).map_or(self.len - 1, |steps| steps.min(self.len - 1));
        self.search_around(guess, time_ms)
    }

    /// Looks for the first timestamp from `time_ms` on in growing steps away from a guess, then
    /// between the last two: right for any guess, fast for a good one. The last timestamp is not
    /// before `time_ms`, the first one is.
    fn search_around(&self, guess: usize, time_ms: i64) -> usize {
        let is_before = |index: usize| self.at(index).is_some_and(|time| time < time_ms);
        let last = self.len - 1;
        // Timestamps up to `before` are before `time_ms`, those from `from` on are not.
        let (mut before, mut from) = (0, last);
        let mut step = 1usize;
        if is_before(guess) {
            before = guess;
            while before < last {
                let next = (before + step).min(last);
                if !is_before(next) {
                    from = next;
                    break;
                }
                before = next;
                step *= 2;
            }
        } else {
            from = guess;
            while from > 0 {
                let next = from.saturating_sub(step);
                if is_before(next) {
                    before = next;
                    break;
                }
                from = next;
                step *= 2;
            }
        }
        while from - before > 1 {
            let middle = before + (from - before) / 2;
            if is_before(middle) {
                before = middle;
            } else {
                from = middle;
            }
        }
        from
    }

    /// Appends the timestamps of a range of samples; the range is clipped to the end.
    pub fn copy_into(&self, range: Range<usize>, out: &mut Vec<i64>) {
        let range = range.start..range.end.min(self.len);
        if range.is_empty() {
            return;
        }
        let mut grid = grid_at(self.start, self.interval, range.start as u64);
        let mut next_on_grid = || {
            let time = grid;
            grid = grid.wrapping_add_unsigned(self.interval);
            time
        };
        match &self.offsets {
            Offsets::None => out.extend(range.map(|_| next_on_grid())),
            Offsets::Bits8(offsets) => out.extend(
                (offsets[range].iter()).map(|offset| next_on_grid().wrapping_add((*offset).into())),
            ),
            Offsets::Bits16(offsets) => out.extend(
                (offsets[range].iter()).map(|offset| next_on_grid().wrapping_add((*offset).into())),
            ),
            Offsets::Bits32(offsets) => out.extend(
                (offsets[range].iter()).map(|offset| next_on_grid().wrapping_add((*offset).into())),
            ),
            Offsets::Bits64(offsets) => out
                .extend((offsets[range].iter()).map(|offset| next_on_grid().wrapping_add(*offset))),
        }
    }

    /// Heap memory of the list.
    pub fn heap_bytes(&self) -> usize {
        match &self.offsets {
            Offsets::None => 0,
            Offsets::Bits8(offsets) => size_of_val(&offsets[..]),
            Offsets::Bits16(offsets) => size_of_val(&offsets[..]),
            Offsets::Bits32(offsets) => size_of_val(&offsets[..]),
            Offsets::Bits64(offsets) => size_of_val(&offsets[..]),
        }
    }
}

/// Equal timestamps, whatever grid they are kept over.
impl PartialEq for TimeList {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for TimeList {}

impl fmt::Debug for TimeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Whether timestamps are equidistant: too small to be worth sharing.
pub fn is_regular(timestamps: &[i64]) -> bool {
    timestamps
        .windows(3)
        .all(|three| three[1].wrapping_sub(three[0]) == three[2].wrapping_sub(three[1]))
}

/// The median distance of neighbours (of two in the middle the greater one) and the mean distance,
/// rounded: the first is right where timestamps are missing, the second where they drift.
pub(super) fn likely_intervals(timestamps: &[i64]) -> [u64; 2] {
    let mut distances: Vec<u64> = timestamps
        .windows(2)
        .map(|pair| pair[1].wrapping_sub(pair[0]) as u64)
        .collect();
    if distances.is_empty() {
        return [0, 0];
    }
    let count = distances.len() as u128;
    let sum: u128 = distances.iter().copied().map(u128::from).sum();
    let mean = ((sum + count / 2) / count) as u64;
    let middle = distances.len() / 2;
    [*distances.select_nth_unstable(middle).1, mean]
}

/// How far timestamps are off the grid that begins with the first.
pub(super) fn off_grid(interval: u64, times: &[i64]) -> impl Iterator<Item = i64> {
    let first = times.first().copied().unwrap_or(0);
    (0u64..)
        .zip(times)
        .map(move |(i, time)| time.wrapping_sub(grid_at(first, interval, i)))
}

/// The least offset from a grid, and how far the greatest is from it.
fn offsets_over(interval: u64, times: &[i64]) -> (i64, u64) {
    let (least, most) = off_grid(interval, times)
        .fold((0, 0), |(least, most), off| (off.min(least), off.max(most)));
    (least, most.wrapping_sub(least) as u64)
}

/// A point of a grid.
pub(super) fn grid_at(start: i64, interval: u64, index: u64) -> i64 {
    start.wrapping_add_unsigned(interval.wrapping_mul(index))
}
