//! Ranges of time.

use std::ops::Range;

/// Ranges as few that do not overlap, in order.
pub(crate) fn joined(mut ranges: Vec<Range<i64>>) -> Vec<Range<i64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<i64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// What is left of ranges without others; both are [`joined`].
pub(crate) fn without(ranges: &[Range<i64>], others: &[Range<i64>]) -> Vec<Range<i64>> {
    let mut left = Vec::new();
    for range in ranges {
        let mut start = range.start;
        let first = others.partition_point(|other| other.end <= range.start);
        for other in others[first..].iter().take_while(|o| o.start < range.end) {
            if start < other.start {
                left.push(start..other.start);
            }
            start = start.max(other.end);
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}

/// The places of the times, which ascend, that lie in one of the ranges, which are [`joined`].
pub(crate) fn places_in(ranges: &[Range<i64>], times: &[i64]) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return places;
    };
    let from = ranges.partition_point(|range| range.end <= *first);
    for range in ranges[from..].iter().take_while(|r| r.start <= *last) {
        let start = times.partition_point(|time| *time < range.start);
        let end = times.partition_point(|time| *time < range.end);
        if start < end {
            places.push(start..end);
        }
    }
    places
}

/// Whether a time lies in one of the ranges, which are [`joined`].
pub(crate) fn contain(ranges: &[Range<i64>], time: i64) -> bool {
    let at = ranges.partition_point(|range| range.end <= time);
    ranges.get(at).is_some_and(|range| range.start <= time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_out_of_others() {
        let left = |others: &[Range<i64>]| without(&[0..10, 20..30], others);
        assert_eq!(left(&[]), [0..10, 20..30]);
        assert_eq!(left(&[3..5, 8..22, 29..40]), [0..3, 5..8, 22..29]);
        assert_eq!(left(&[10..20, 30..40]), [0..10, 20..30]);
        assert!(left(&[0..15, 15..30]).is_empty());
    }

    #[test]
    fn times_are_found_in_joined_ranges() {
        let ranges = joined(vec![30..40, 0..10, 5..12, 12..20]);
        assert_eq!(ranges, [0..20, 30..40]);
        let times = [-1, 0, 19, 20, 29, 30, 50];
        assert_eq!(places_in(&ranges, &times), [1..3, 5..6]);
        assert!(places_in(&ranges, &[]).is_empty());
        assert!(places_in(&ranges, &[20, 29, 40]).is_empty());
        let found: Vec<bool> = times.iter().map(|time| contain(&ranges, *time)).collect();
        assert_eq!(found, [false, true, true, false, false, true, false]);
    }
}
