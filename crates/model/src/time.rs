//! Time buckets: how the time line is cut on disk.

use std::fmt;

pub const MINUTE_MS: i64 = 60_000;
pub const HOUR_MS: i64 = 60 * MINUTE_MS;

/// The first millisecond that no bucket can hold: bucket starts are u32 minutes. Ingest refuses
/// timestamps from here on, and negative ones, with a reason.
pub const MAX_TIMESTAMP_MS: i64 = (1 << 32) * MINUTE_MS;

/// The size of a bucket as the exponent n of 2^(n−1) hours, 1 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketSize(u8);

impl BucketSize {
    pub const HOUR: Self = Self(1);

    pub fn from_exponent(exponent: u8) -> Option<Self> {
        (1..=15).contains(&exponent).then_some(Self(exponent))
    }

    pub fn exponent(self) -> u8 {
        self.0
    }

    pub fn duration_ms(self) -> i64 {
        HOUR_MS << (self.0 - 1)
    }

    /// The bucket of this size that holds a timestamp; `None` outside 0..2^32 minutes.
    pub fn bucket_of(self, timestamp_ms: i64) -> Option<BucketStart> {
        if !(0..MAX_TIMESTAMP_MS).contains(&timestamp_ms) {
            return None;
        }
        let start_ms = timestamp_ms - timestamp_ms % self.duration_ms();
        Some(BucketStart((start_ms / MINUTE_MS) as u32))
    }
}

/// The start of a bucket in minutes since the UNIX epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketStart(pub u32);

impl BucketStart {
    pub fn minutes(self) -> u32 {
        self.0
    }

    pub fn start_ms(self) -> i64 {
        i64::from(self.0) * MINUTE_MS
    }

    /// The first millisecond after the bucket.
    pub fn end_ms(self, size: BucketSize) -> i64 {
        self.start_ms() + size.duration_ms()
    }
}

impl fmt::Display for BucketStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_a_known_time() {
        let t = 1_700_000_000_000;
        assert_eq!(BucketSize::HOUR.bucket_of(t), Some(BucketStart(28_333_320)));
        let sixteen_hours = BucketSize::from_exponent(5).unwrap();
        assert_eq!(sixteen_hours.bucket_of(t), Some(BucketStart(28_332_480)));
        assert_eq!(BucketSize::HOUR.bucket_of(-1), None);
        assert_eq!(BucketSize::HOUR.bucket_of(MAX_TIMESTAMP_MS), None);
        assert!(BucketSize::HOUR.bucket_of(MAX_TIMESTAMP_MS - 1).is_some());
    }
}
