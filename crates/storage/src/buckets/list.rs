//! Questions to the list of buckets, which is sorted by size and, within a size, by start.
//!
//! Holds always:
//! - What is asked about a range of time costs a look-up for each size that is listed, and what is
//!   found. Only [`overlaps`] walks over the list, once for each pair of sizes.
//! - Listed buckets do not overlap, except in a database that [`overlaps`] has something to say
//!   about.

use std::collections::{BTreeMap, BTreeSet};

use icecore_model::{BucketSize, BucketStart, MINUTE_MS};
use icecore_records::Bucket;

/// A bucket that is listed although a larger one holds its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Overlap {
    pub(crate) inside: Bucket,
    /// The smallest one around it.
    pub(crate) around: Bucket,
}

/// The sizes that are listed, ascending.
pub(crate) fn sizes(listed: &BTreeSet<Bucket>) -> impl Iterator<Item = BucketSize> {
    let mut next = Some(BucketSize::HOUR);
    std::iter::from_fn(move || {
        let start = BucketStart(0);
        let found = listed.range(Bucket { size: next?, start }..).next()?.size;
        next = BucketSize::from_exponent(found.exponent().saturating_add(1));
        Some(found)
    })
}

/// The buckets that have something of a range of time, both ends included; oldest first, of one
/// start the smallest first.
pub(crate) fn in_range(listed: &BTreeSet<Bucket>, start_ms: i64, end_ms: i64) -> Vec<Bucket> {
    let mut found = Vec::new();
    for size in sizes(listed) {
        found.extend(of_size(listed, size, start_ms, end_ms));
    }
    found.sort_by_key(|bucket| (bucket.start, bucket.size));
    found
}

/// The smaller buckets that lie in a window, in the order of [`in_range`].
pub(crate) fn inside(listed: &BTreeSet<Bucket>, window: Bucket) -> Vec<Bucket> {
    let mut found = in_range(listed, window.start_ms(), window.end_ms() - 1);
    found.retain(|bucket| bucket.size < window.size);
    found
}

/// The smallest bucket that is listed and holds all of `bucket`; `bucket` itself, if it is listed.
pub(crate) fn covering(listed: &BTreeSet<Bucket>, bucket: Bucket) -> Option<Bucket> {
    sizes(listed)
        .filter(|size| *size >= bucket.size)
        .find_map(|size| {
            let start = size.bucket_of(bucket.start_ms())?;
            let around = Bucket { size, start };
            listed.contains(&around).then_some(around)
        })
}

/// The largest one: where buckets overlap, it is the newer.
pub(crate) fn largest_covering(listed: &BTreeSet<Bucket>, bucket: Bucket) -> Option<Bucket> {
    let around = sizes(listed).filter_map(|size| {
        let start = size.bucket_of(bucket.start_ms())?;
        let around = Bucket { size, start };
        listed.contains(&around).then_some(around)
    });
    around.last().filter(|around| around.size >= bucket.size)
}

/// All buckets that lie inside another one, the smallest first, of those the oldest.
pub(crate) fn overlaps(listed: &BTreeSet<Bucket>) -> Vec<Overlap> {
    let sizes: Vec<BucketSize> = sizes(listed).collect();
    let mut found: BTreeMap<Bucket, Bucket> = BTreeMap::new();
    for (at, size) in sizes.iter().enumerate() {
        for larger in &sizes[at + 1..] {
            let mut around = all_of(listed, *larger).peekable();
            for inside in all_of(listed, *size) {
                while around
                    .next_if(|around| around.end_ms() <= inside.start_ms())
                    .is_some()
                {}
                if let Some(around) = around.peek()
                    && around.start <= inside.start
                {
                    found.entry(*inside).or_insert(**around);
                }
            }
        }
    }
    let overlap = |(inside, around)| Overlap { inside, around };
    found.into_iter().map(overlap).collect()
}

fn all_of(listed: &BTreeSet<Bucket>, size: BucketSize) -> impl Iterator<Item = &Bucket> {
    listed.range(first_of(size, 0)..=first_of(size, u32::MAX))
}

/// The buckets of one size that have something of a range of time.
fn of_size(
    listed: &BTreeSet<Bucket>,
    size: BucketSize,
    start_ms: i64,
    end_ms: i64,
) -> impl Iterator<Item = Bucket> {
    // The first start whose bucket ends behind the start of the range.
    let first = start_ms.saturating_sub(size.duration_ms());
    let first = first.div_euclid(MINUTE_MS).saturating_add(1).max(0);
    let last = end_ms.div_euclid(MINUTE_MS).min(i64::from(u32::MAX));
    let bounds = (u32::try_from(first), u32::try_from(last));
    let range = match bounds {
        (Ok(first), Ok(last)) if first <= last => {
            Some(listed.range(first_of(size, first)..=first_of(size, last)))
        }
        _ => None,
    };
    range.into_iter().flatten().copied()
}

fn first_of(size: BucketSize, minutes: u32) -> Bucket {
    let start = BucketStart(minutes);
    Bucket { size, start }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A bucket of one of five sizes among the first 64 hours.
    fn bucket() -> impl Strategy<Value = Bucket> {
        (1u8..=5, 0i64..64).prop_map(|(exponent, hour)| {
            let size = BucketSize::from_exponent(exponent).unwrap();
            let start = size.bucket_of(hour * icecore_model::HOUR_MS).unwrap();
            Bucket { size, start }
        })
    }

    fn holds(around: &Bucket, inside: &Bucket) -> bool {
        around.start_ms() <= inside.start_ms() && inside.end_ms() <= around.end_ms()
    }

    proptest! {
        /// Against looking at every bucket.
        #[test]
        fn answers_are_what_a_walk_would_find(
            listed in prop::collection::btree_set(bucket(), 0..40),
            window in bucket(),
            range in (-90i64..5000, 0i64..3000),
        ) {
            let (start_ms, end_ms) = (range.0 * 47_123, (range.0 + range.1) * 47_123);
            let wanted = |b: &&Bucket| b.start_ms() <= end_ms && b.end_ms() > start_ms;
            let mut expected: Vec<Bucket> = listed.iter().filter(wanted).copied().collect();
            expected.sort_by_key(|b| b.start);
            prop_assert_eq!(in_range(&listed, start_ms, end_ms), expected);

            let smaller = |b: &&Bucket| b.size < window.size && holds(&window, b);
            let mut expected: Vec<Bucket> = listed.iter().filter(smaller).copied().collect();
            expected.sort_by_key(|b| b.start);
            prop_assert_eq!(inside(&listed, window), expected);

            let around = listed.iter().find(|b| holds(b, &window));
            prop_assert_eq!(covering(&listed, window), around.copied());

            let overlap = |inside: &Bucket| {
                let around = listed.iter().find(|b| *b != inside && holds(b, inside))?;
                Some(Overlap { inside: *inside, around: *around })
            };
            let expected: Vec<Overlap> = listed.iter().filter_map(overlap).collect();
            prop_assert_eq!(overlaps(&listed), expected);
        }
    }

    #[test]
    fn ranges_beyond_all_time_are_no_trouble() {
        let last = Bucket::hour(BucketStart(u32::MAX - u32::MAX % 60));
        let listed = BTreeSet::from([Bucket::hour(BucketStart(0)), last]);
        assert_eq!(in_range(&listed, i64::MIN, i64::MAX).len(), 2);
        assert_eq!(in_range(&listed, i64::MAX, i64::MAX), []);
        assert_eq!(in_range(&listed, i64::MIN, -1), []);
        assert_eq!(in_range(&listed, 5, 4), [Bucket::hour(BucketStart(0))]);
        assert_eq!(in_range(&listed, last.end_ms() - 1, i64::MAX), [last]);
    }
}
