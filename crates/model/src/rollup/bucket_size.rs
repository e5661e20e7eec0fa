//! How much time buckets of windows hold.

use super::Resolution;
use crate::BucketSize;

/// The sizes of buckets of windows, smallest first; all others are for samples. Larger ones than
/// the last would take longer to close than anybody waits.
const EXPONENTS: [u8; 5] = [6, 8, 11, 12, 13];

/// Windows that a bucket has at least: its index costs as much as a hundred of them.
const WINDOWS_MIN: i64 = 64;

/// The sizes of buckets of windows, smallest first.
pub fn rolled_sizes() -> impl Iterator<Item = BucketSize> {
    EXPONENTS.into_iter().filter_map(BucketSize::from_exponent)
}

/// The size that windows are rolled up into: the smallest that holds enough of them and is free.
/// `None` for raw samples, and when all are taken.
pub fn rolled_size(
    resolution: Resolution,
    is_free: impl Fn(BucketSize) -> bool,
) -> Option<BucketSize> {
    let least_ms = WINDOWS_MIN.saturating_mul(resolution.ms());
    let fits = |size: &BucketSize| size.duration_ms() >= least_ms && is_free(*size);
    rolled_sizes().find(fits).filter(|_| !resolution.is_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W8, with the sizes of samples beside them.
    #[test]
    fn buckets_begin_at_multiples_of_their_size() {
        let start = |exponent: u8| {
            let size = BucketSize::from_exponent(exponent).unwrap();
            size.bucket_of(1_700_000_000_000).unwrap().minutes()
        };
        let starts = [1, 5, 6, 8, 11].map(start);
        let expected = [28_333_320, 28_332_480, 28_331_520, 28_331_520, 28_323_840];
        assert_eq!(starts, expected);
        let duration = |size: BucketSize| size.duration_ms() / 3_600_000;
        let hours: Vec<i64> = rolled_sizes().map(duration).collect();
        assert_eq!(hours, [32, 128, 1024, 2048, 4096]);
    }

    #[test]
    fn a_bucket_has_enough_windows() {
        let size = |name: &str, taken: &[u8]| {
            let resolution = Resolution::from_name(name).unwrap();
            let size = rolled_size(resolution, |size| !taken.contains(&size.exponent()));
            size.map(BucketSize::exponent)
        };
        assert_eq!(size("5m", &[]), Some(6));
        assert_eq!(size("30m", &[]), Some(6));
        assert_eq!(size("1h", &[]), Some(8));
        assert_eq!(size("2h", &[]), Some(8));
        assert_eq!(size("4h", &[]), Some(11));
        assert_eq!(size("16h", &[]), Some(11));
        assert_eq!(size("5m", &[6, 8]), Some(11));
        assert_eq!(size("5m", &EXPONENTS), None);
        assert_eq!(rolled_size(Resolution::RAW, |_| true), None);
    }
}
