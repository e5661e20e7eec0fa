//! Chance from one seed (splitmix64), so that a run can be had again.

use std::ops::Range;

#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent source, for one thread or purpose.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.bits())
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn within(&mut self, range: Range<i64>) -> i64 {
        let width = range.end.abs_diff(range.start).max(1);
        range.start + (self.bits() % width) as i64
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }

    /// True once in so many times.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.bits().is_multiple_of(times)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}
