//! The ladder of sizes: which buckets of raw samples there are, and which become which.
//!
//! ```text
//! 1 h ─► 4 h ─► 16 h        by itself
//! 1 h ─► 2 h, 4 h, 8 h      asked for, in a window of 16 h that has not ended
//! ```

use icecore_model::BucketSize;

/// A size that buckets are made of by coarsening.
struct Rung {
    exponent: u8,
    /// How many buckets a window must have to become one: when maintenance runs by itself, and when
    /// somebody asks for everything. `None`: such windows are left alone.
    by_itself: Option<usize>,
    asked_for: Option<usize>,
}

/// The largest first. Asked for, the rest of a window that has not ended is covered by 8 h and 2 h
/// as well; a bucket that would be alone in those stays as it is, because rewriting it would save
/// nothing.
const RUNGS: [Rung; 4] = [
    Rung {
        exponent: 5,
        by_itself: Some(1),
        asked_for: Some(1),
    },
    Rung {
        exponent: 4,
        by_itself: None,
        asked_for: Some(2),
    },
    Rung {
        exponent: 3,
        by_itself: Some(1),
        asked_for: Some(1),
    },
    Rung {
        exponent: 2,
        by_itself: None,
        asked_for: Some(2),
    },
];

/// The sizes of buckets of raw samples; all others are for windows.
const RAW_EXPONENTS: [u8; 8] = [1, 2, 3, 4, 5, 7, 9, 10];

/// The sizes for windows, smallest first. Larger ones than the last would take longer to close than
/// anybody waits.
const ROLLED_EXPONENTS: [u8; 5] = [6, 8, 11, 12, 13];

pub(crate) fn is_raw(size: BucketSize) -> bool {
    RAW_EXPONENTS.contains(&size.exponent())
}

/// Whether this program may have written buckets of a size.
pub(crate) fn is_written(size: BucketSize) -> bool {
    size <= largest() || rolled_sizes().any(|rolled| rolled == size)
}

pub(crate) fn rolled_sizes() -> impl Iterator<Item = BucketSize> {
    let size = |exponent: u8| BucketSize::from_exponent(exponent);
    ROLLED_EXPONENTS.into_iter().filter_map(size)
}

/// The size that raw buckets end up with.
pub(crate) fn largest() -> BucketSize {
    size_of(&RUNGS[0])
}

/// The sizes of windows that become one bucket, the largest first, and how many buckets each must
/// have.
pub(crate) fn windows(asked_for: bool) -> impl Iterator<Item = (BucketSize, usize)> {
    RUNGS.iter().filter_map(move |rung| {
        let sources_min = if asked_for {
            rung.asked_for
        } else {
            rung.by_itself
        };
        Some((size_of(rung), sources_min?))
    })
}

/// Whether coarsening makes buckets of this size.
pub(crate) fn is_target(size: BucketSize) -> bool {
    RUNGS.iter().any(|rung| size_of(rung) == size)
}

fn size_of(rung: &Rung) -> BucketSize {
    BucketSize::from_exponent(rung.exponent).expect("every rung is a size")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rung_is_larger_than_the_next() {
        let hours = |asked_for| -> Vec<(i64, usize)> {
            let hours = |size: BucketSize| size.duration_ms() / icecore_model::HOUR_MS;
            windows(asked_for)
                .map(|(size, n)| (hours(size), n))
                .collect()
        };
        assert_eq!(hours(false), [(16, 1), (4, 1)]);
        assert_eq!(hours(true), [(16, 1), (8, 2), (4, 1), (2, 2)]);
        assert_eq!(windows(true).next().map(|window| window.0), Some(largest()));
        assert!(!is_target(BucketSize::HOUR) && is_target(largest()));
    }
}
