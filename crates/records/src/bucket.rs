//! Identifiers: a bucket of time, a series within it.

use std::fmt;
use std::ops::Range;

use icecore_model::{BucketSize, BucketStart, HOUR_MS, MINUTE_MS};

/// A series within one bucket. The same series has other ids in other buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub u32);

impl fmt::Display for SeriesId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A span of time that is stored together. Ordered as keys are: by size, then by start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    pub size: BucketSize,
    pub start: BucketStart,
}

impl Bucket {
    /// The hour that begins at `start`.
    pub fn hour(start: BucketStart) -> Self {
        Self {
            size: BucketSize::HOUR,
            start,
        }
    }

    pub fn contains(self, timestamp_ms: i64) -> bool {
        (self.start_ms()..self.end_ms()).contains(&timestamp_ms)
    }

    /// Whether they have time in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.start_ms() < other.end_ms() && other.start_ms() < self.end_ms()
    }

    pub fn start_ms(self) -> i64 {
        self.start.start_ms()
    }

    /// The first millisecond after the bucket.
    pub fn end_ms(self) -> i64 {
        self.start.end_ms(self.size)
    }

    /// The hours that lie in the bucket, as a range of starts.
    pub fn hours(self) -> Range<BucketStart> {
        let end = u32::try_from(self.end_ms() / MINUTE_MS).unwrap_or(u32::MAX);
        self.start..BucketStart(end)
    }

    /// The same one by one.
    pub fn each_hour(self) -> impl Iterator<Item = BucketStart> {
        let Range { start, end } = self.hours();
        (start.minutes()..end.minutes())
            .step_by((HOUR_MS / MINUTE_MS) as usize)
            .map(BucketStart)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}h@{}", 1u32 << (self.size.exponent() - 1), self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_its_start_and_not_its_end() {
        let bucket = Bucket::hour(BucketStart(28_333_320));
        assert!(bucket.contains(bucket.start_ms()) && !bucket.contains(bucket.end_ms()));
        assert!(!bucket.contains(bucket.start_ms() - 1) && bucket.contains(bucket.end_ms() - 1));
        assert_eq!(bucket.to_string(), "1h@28333320");
        let next = Bucket::hour(BucketStart(28_333_380));
        assert!(bucket.overlaps(bucket) && !bucket.overlaps(next) && !next.overlaps(bucket));
    }

    #[test]
    fn hours_of_a_bucket() {
        let bucket = Bucket {
            size: BucketSize::from_exponent(3).unwrap(),
            start: BucketStart(240),
        };
        let hours: Vec<u32> = bucket.each_hour().map(BucketStart::minutes).collect();
        assert_eq!(hours, [240, 300, 360, 420]);
        assert_eq!(bucket.hours(), BucketStart(240)..BucketStart(480));
    }
}
