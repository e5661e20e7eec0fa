//! The ladder of sizes: which buckets of raw samples there are, and which become which.
//!
//! ```text
//! 1 h ─► 4 h ─► 16 h            by itself, when the window has closed
//!               16 h ─► 64 h ─► 256 h      by age: a month, half a year
//! 1 h ─► 2 h, 4 h, 8 h          asked for, in a window of 16 h that has not ended
//! backfill ─► 16 h, 64 h, 256 h at once, by the same ages
//! 512 h                         remnants: series that are kept for longer than the others
//! windows: 128 h ─► 1024 h      when nothing finer is left, and a month has passed
//! ```
//!
//! Holds always:
//! - A year lists a few dozen buckets, however old the data is: each bucket is an entry of the list
//!   and several files.
//! - A record is read whole, so it stays narrow: where series have many samples, buckets stay
//!   small ([`RECORD_SAMPLES_MAX`]).

use icecore_model::rollup::rolled_sizes;
use icecore_model::{BucketSize, HOUR_MS};

const DAY_MS: i64 = 24 * HOUR_MS;

/// A size that buckets are made of, by coarsening or by a backfill.
struct Rung {
    exponent: u8,
    /// How many buckets a window must have to become one: when maintenance runs by itself, and when
    /// somebody asks for everything. `None`: such windows are left alone.
    by_itself: Option<usize>,
    asked_for: Option<usize>,
    /// How long ago a window must have ended, beside the time that it must have been quiet.
    closed_ms: i64,
    /// How long ago a window must have ended for what is written to it to be flushed into one
    /// bucket at once. What comes late in the usual way is later by hours at most.
    backfilled_ms: Option<i64>,
}

/// The largest first. Asked for, the rest of a window that has not ended is covered by 8 h and 2 h
/// as well; a bucket that would be alone in those stays as it is, because rewriting it would save
/// nothing. The same goes for what is larger than 16 h.
const RUNGS: [Rung; 6] = [
    Rung {
        exponent: 9,
        by_itself: Some(2),
        asked_for: Some(2),
        closed_ms: 180 * DAY_MS,
        backfilled_ms: Some(180 * DAY_MS),
    },
    Rung {
        exponent: 7,
        by_itself: Some(2),
        asked_for: Some(2),
        closed_ms: 30 * DAY_MS,
        backfilled_ms: Some(30 * DAY_MS),
    },
    Rung {
        exponent: 5,
        by_itself: Some(1),
        asked_for: Some(1),
        closed_ms: 0,
        backfilled_ms: Some(DAY_MS),
    },
    Rung {
        exponent: 4,
        by_itself: None,
        asked_for: Some(2),
        closed_ms: 0,
        backfilled_ms: None,
    },
    Rung {
        exponent: 3,
        by_itself: Some(1),
        asked_for: Some(1),
        closed_ms: 0,
        backfilled_ms: None,
    },
    Rung {
        exponent: 2,
        by_itself: None,
        asked_for: Some(2),
        closed_ms: 0,
        backfilled_ms: None,
    },
];

/// The sizes of buckets of raw samples; all others are for windows.
const RAW_EXPONENTS: [u8; 8] = [1, 2, 3, 4, 5, 7, 9, 10];

/// The size of remnants, and of nothing else: a size and a start name one bucket, and what a
/// remnant is made of has its own until it is dropped.
const REMNANT_EXPONENT: u8 = 10;

/// A size of buckets of windows that become larger ones with the same windows.
struct RolledRung {
    exponent: u8,
    larger: u8,
    /// How long ago the larger one must have ended.
    closed_ms: i64,
}

const ROLLED_RUNGS: [RolledRung; 1] = [RolledRung {
    exponent: 8,
    larger: 11,
    closed_ms: 30 * DAY_MS,
}];

/// How many times as long as a larger bucket of windows its level must be kept: a level goes by
/// whole buckets, so that it may be kept for a quarter longer than it should.
const LARGER_RETAINED: i64 = 4;

/// The exponent of what closed windows become whatever their age.
const LASTING_EXPONENT: u8 = 5;

/// The most samples that series of a bucket larger than 16 h have, on average: 256 h at 10 s. A
/// narrow read fetches whole records, some 60 KiB of this size.
pub(crate) const RECORD_SAMPLES_MAX: u64 = 96 << 10;

pub(crate) fn is_raw(size: BucketSize) -> bool {
    RAW_EXPONENTS.contains(&size.exponent())
}

/// The size of remnants.
pub(crate) fn remnant() -> BucketSize {
    BucketSize::from_exponent(REMNANT_EXPONENT).expect("it is a size")
}

/// Whether buckets of a size hold what is left of samples when most series have gone.
pub(crate) fn is_remnant(size: BucketSize) -> bool {
    size.exponent() == REMNANT_EXPONENT
}

/// Whether this program may have written buckets of a size.
pub(crate) fn is_written(size: BucketSize) -> bool {
    is_raw(size) || rolled_sizes().any(|rolled| rolled == size)
}

/// What buckets of windows become later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LargerSize {
    pub(crate) size: BucketSize,
    /// How long ago it must have ended.
    pub(crate) closed_ms: i64,
    /// How long its level must be kept.
    pub(crate) retain_min_ms: i64,
}

/// What buckets of windows of a size become later, if anything.
pub(crate) fn larger(size: BucketSize) -> Option<LargerSize> {
    let rung = ROLLED_RUNGS
        .iter()
        .find(|r| r.exponent == size.exponent())?;
    let size = BucketSize::from_exponent(rung.larger)?;
    Some(LargerSize {
        size,
        closed_ms: rung.closed_ms,
        retain_min_ms: LARGER_RETAINED * size.duration_ms(),
    })
}

/// The smallest size that raw buckets keep for weeks. Late samples of smaller ones are on their way
/// into one of this size.
pub(crate) fn lasting() -> BucketSize {
    BucketSize::from_exponent(LASTING_EXPONENT).expect("every rung is a size")
}

/// Windows that become one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    pub(crate) size: BucketSize,
    /// How many buckets such a window must have.
    pub(crate) sources_min: usize,
    /// How long ago it must have ended.
    pub(crate) closed_ms: i64,
}

/// The windows that become one bucket, the largest first.
pub(crate) fn windows(asked_for: bool) -> impl Iterator<Item = Windows> {
    RUNGS.iter().filter_map(move |rung| {
        let sources_min = if asked_for {
            rung.asked_for
        } else {
            rung.by_itself
        };
        Some(Windows {
            size: size_of(rung),
            sources_min: sources_min?,
            closed_ms: rung.closed_ms,
        })
    })
}

/// The sizes of buckets that a backfill makes at once, the largest first, and how long ago their
/// windows must have ended.
pub(crate) fn backfilled() -> impl Iterator<Item = (BucketSize, i64)> {
    RUNGS
        .iter()
        .filter_map(|rung| Some((size_of(rung), rung.backfilled_ms?)))
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

    fn hours(size: BucketSize) -> i64 {
        size.duration_ms() / HOUR_MS
    }

    #[test]
    fn each_rung_is_larger_than_the_next() {
        let sizes = |asked_for| -> Vec<(i64, usize)> {
            windows(asked_for)
                .map(|windows| (hours(windows.size), windows.sources_min))
                .collect()
        };
        assert_eq!(sizes(false), [(256, 2), (64, 2), (16, 1), (4, 1)]);
        let asked_for = [(256, 2), (64, 2), (16, 1), (8, 2), (4, 1), (2, 2)];
        assert_eq!(sizes(true), asked_for);
        assert!(!is_target(BucketSize::HOUR) && is_target(lasting()));
        assert!(windows(true).all(|windows| is_raw(windows.size)));
        assert!(!rolled_sizes().any(is_raw));
        assert!(is_raw(remnant()) && !is_target(remnant()));
        assert!(windows(true).all(|windows| windows.size < remnant()));
    }

    #[test]
    fn what_is_backfilled_need_not_be_coarsened() {
        let by_age: Vec<(i64, i64)> = backfilled()
            .map(|(size, closed_ms)| (hours(size), closed_ms / DAY_MS))
            .collect();
        assert_eq!(by_age, [(256, 180), (64, 30), (16, 1)]);
        for windows in windows(false).filter(|windows| windows.size > lasting()) {
            assert!(backfilled().any(|made| made == (windows.size, windows.closed_ms)));
        }
    }
}
