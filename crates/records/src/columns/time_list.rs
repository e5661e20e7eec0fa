//! Decoded timestamps in a compact form.

use std::ops::Range;

/// Timestamps in strictly increasing order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeList {
    times: Vec<i64>,
}

impl From<Vec<i64>> for TimeList {
    fn from(times: Vec<i64>) -> Self {
        Self { times }
    }
}

impl TimeList {
    pub fn len(&self) -> usize {
        self.times.len()
    }

    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    pub fn at(&self, index: usize) -> Option<i64> {
        self.times.get(index).copied()
    }

    pub fn first(&self) -> Option<i64> {
        self.at(0)
    }

    pub fn last(&self) -> Option<i64> {
        self.at(self.len().wrapping_sub(1))
    }

    /// The samples from `start_ms` to `end_ms`, both included.
    pub fn range(&self, start_ms: i64, end_ms: i64) -> Range<usize> {
        let start = self.times.partition_point(|time| *time < start_ms);
        let end = self.times.partition_point(|time| *time <= end_ms);
        start..end.max(start)
    }

    pub fn copy_into(&self, range: Range<usize>, out: &mut Vec<i64>) {
        out.extend(self.times.get(range).unwrap_or(&[]));
    }

    /// Bytes that it takes beside the value itself.
    pub fn heap_bytes(&self) -> usize {
        self.times.capacity() * 8
    }
}

/// Whether timestamps have the same distance throughout, so that they take no room worth sharing.
pub fn is_regular(timestamps: &[i64]) -> bool {
    timestamps
        .windows(3)
        .all(|three| three[1].wrapping_sub(three[0]) == three[2].wrapping_sub(three[1]))
}
