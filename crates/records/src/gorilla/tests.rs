//! Every bit survives, the classes are the documented ones, and damage is found.

use proptest::prelude::*;

use super::*;
use icecore_model::STALE_NAN_BITS;

fn check(timestamps: &[i64], bits: &[u64]) {
    let values: Vec<f64> = bits.iter().map(|&b| f64::from_bits(b)).collect();
    let stream = encode(timestamps, &values);
    let (mut decoded_timestamps, mut decoded_values) = (vec![-7], vec![-7.0]);
    let decoded = decode_into(&stream, &mut decoded_timestamps, &mut decoded_values);
    assert_eq!(decoded, Ok(timestamps.len()));
    assert_eq!(
        &decoded_timestamps[1..],
        timestamps,
        "what was there stays in front"
    );
    let decoded_bits: Vec<u64> = decoded_values[1..].iter().map(|v| v.to_bits()).collect();
    assert_eq!(decoded_bits, bits);
    assert_eq!(count(&stream), Ok(timestamps.len() as u32));
    assert_eq!(first_timestamp(&stream), Ok(timestamps.first().copied()));
}

/// Bits of all kinds of values: any, near each other, whole, decimal, special.
fn any_bits() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0u64..100).prop_map(|n| (n as f64).to_bits()),
        (0u64..100).prop_map(|n| (n as f64 / 100.0).to_bits()),
        Just(STALE_NAN_BITS),
        Just((-0.0f64).to_bits()),
        Just(f64::INFINITY.to_bits()),
        Just(1),
    ]
}

/// Strictly increasing timestamps, from regular ones to leaps over the whole range.
fn any_timestamps(max: usize) -> impl Strategy<Value = Vec<i64>> {
    let gap = prop_oneof![
        Just(15_000u64),
        14_995u64..15_006,
        1u64..300,
        1u64..200_000,
        1u64..=u64::MAX >> 6,
    ];
    let start = prop_oneof![Just(i64::MIN), any::<i64>(), Just(1_700_000_000_000)];
    (start, prop::collection::vec(gap, 0..max)).prop_map(|(start, gaps)| {
        let mut timestamps = vec![start];
        for gap in gaps {
            match timestamps[timestamps.len() - 1].checked_add_unsigned(gap) {
                Some(next) => timestamps.push(next),
                None => break,
            }
        }
        timestamps
    })
}

fn any_samples(max: usize) -> impl Strategy<Value = (Vec<i64>, Vec<u64>)> {
    any_timestamps(max).prop_flat_map(|timestamps| {
        let len = timestamps.len();
        (Just(timestamps), prop::collection::vec(any_bits(), len))
    })
}

fn floats(bits: &[u64]) -> Vec<f64> {
    bits.iter().map(|&b| f64::from_bits(b)).collect()
}

proptest! {
    #[test]
    fn every_sample_survives((timestamps, bits) in any_samples(300)) {
        check(&timestamps, &bits);
    }

    #[test]
    fn a_range_is_a_part_of_the_whole(
        (timestamps, bits) in any_samples(100),
        a in any::<prop::sample::Index>(),
        b in any::<prop::sample::Index>(),
        before in 0i64..2,
    ) {
        let values = floats(&bits);
        let stream = encode(&timestamps, &values);
        let start = timestamps[a.index(timestamps.len())].saturating_sub(before);
        let end = timestamps[b.index(timestamps.len())];
        let (mut got_timestamps, mut got_values) = (Vec::new(), Vec::new());
        let count =
            decode_range_into(&stream, start, end, &mut got_timestamps, &mut got_values).unwrap();
        let inside = |t: &i64| (start..=end).contains(t);
        let expected: Vec<usize> =
            (0..timestamps.len()).filter(|&i| inside(&timestamps[i])).collect();
        prop_assert_eq!(count, expected.len());
        let expected_timestamps: Vec<i64> = expected.iter().map(|&i| timestamps[i]).collect();
        let expected_bits: Vec<u64> = expected.iter().map(|&i| bits[i]).collect();
        let got_bits: Vec<u64> = got_values.iter().map(|v| v.to_bits()).collect();
        prop_assert_eq!(got_timestamps, expected_timestamps);
        prop_assert_eq!(got_bits, expected_bits);
    }

    #[test]
    fn finishing_in_between_changes_nothing((timestamps, bits) in any_samples(60)) {
        let values = floats(&bits);
        let mut appender = Appender::new();
        for i in 0..timestamps.len() {
            appender.push(timestamps[i], values[i]).unwrap();
            prop_assert_eq!(appender.finish(), encode(&timestamps[..=i], &values[..=i]));
            prop_assert_eq!(appender.push(timestamps[i], 1.0), Err(NotIncreasing));
            prop_assert_eq!(appender.last_timestamp(), Some(timestamps[i]));
            prop_assert_eq!(appender.last_value().map(f64::to_bits), Some(bits[i]));
            prop_assert_eq!(appender.len() as usize, i + 1);
        }
    }

    #[test]
    fn merging_is_a_union_in_which_the_newer_wins(
        (old_timestamps, old_bits) in any_samples(40),
        (new_timestamps, new_bits) in any_samples(40),
        share in any::<bool>(),
    ) {
        let mut new_timestamps = new_timestamps;
        if share {
            // Random timestamps hardly ever meet: take over every second one of the old stream.
            new_timestamps.extend(old_timestamps.iter().step_by(2));
            new_timestamps.sort_unstable();
            new_timestamps.dedup();
        }
        let mut new_bits = new_bits;
        new_bits.resize(new_timestamps.len(), 5);
        let old = encode(&old_timestamps, &floats(&old_bits));
        let new = encode(&new_timestamps, &floats(&new_bits));
        let mut expected: std::collections::BTreeMap<i64, u64> =
            old_timestamps.into_iter().zip(old_bits).collect();
        expected.extend(new_timestamps.into_iter().zip(new_bits));
        let (timestamps, bits): (Vec<i64>, Vec<u64>) = expected.into_iter().unzip();
        prop_assert_eq!(merge(&old, &new).unwrap(), encode(&timestamps, &floats(&bits)));
    }

    #[test]
    fn every_truncation_and_every_extra_byte_is_found((timestamps, bits) in any_samples(40)) {
        let stream = encode(&timestamps, &floats(&bits));
        let (mut t, mut v) = (Vec::new(), Vec::new());
        for end in 0..stream.len() {
            prop_assert!(decode_into(&stream[..end], &mut t, &mut v).is_err(), "cut at {}", end);
        }
        let mut longer = stream;
        longer.push(0);
        prop_assert!(decode_into(&longer, &mut t, &mut v).is_err());
        prop_assert!(t.is_empty() && v.is_empty(), "an error appends nothing");
    }
}

#[test]
fn lengths_around_the_end_of_the_fast_loop() {
    for len in 0..400 {
        let timestamps: Vec<i64> = (0..len).map(|i| 15_000 * i + i % 3).collect();
        let constant: Vec<u64> = timestamps.iter().map(|_| 42f64.to_bits()).collect();
        check(&timestamps, &constant);
        let random: Vec<u64> = (0..len as u64)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        check(&timestamps, &random);
    }
}

#[test]
fn extremes_of_time() {
    check(&[i64::MIN, i64::MAX], &[0, 1]);
    check(&[i64::MIN, -1, 0, 1, i64::MAX], &[0; 5]);
    check(&[i64::MAX - 1, i64::MAX], &[u64::MAX, 0]);
}

/// Bits that one timestamp code takes, by its delta of delta.
#[test]
fn class_limits_are_the_documented_ones() {
    let code_bits = |change: i64| {
        // The third sample has the code in question; 64 of them make its length visible in bytes.
        let base = 1_000_000i64;
        let mut timestamps = vec![0, base];
        let mut delta = base;
        for i in 0..64 {
            // Alternating signs keep the deltas positive.
            delta += if i % 2 == 0 { change } else { -change };
            timestamps.push(timestamps[timestamps.len() - 1] + delta);
        }
        let with = encode(&timestamps, &vec![0.0; timestamps.len()]).len();
        let without = encode(&timestamps[..2], &[0.0; 2]).len();
        // 64 codes are 8 bytes per bit; one bit of each is the value's.
        (with - without).div_ceil(8) - 1
    };
    assert_eq!(code_bits(0), 1);
    assert_eq!((code_bits(1), code_bits(4), code_bits(-4)), (5, 5, 5));
    assert_eq!((code_bits(5), code_bits(16), code_bits(-16)), (8, 8, 8));
    assert_eq!(
        (code_bits(17), code_bits(128), code_bits(-128)),
        (12, 12, 12)
    );
    assert_eq!(
        (code_bits(129), code_bits(65_536), code_bits(-65_536)),
        (22, 22, 22)
    );
    assert_eq!((code_bits(65_537), code_bits(-65_537)), (69, 69));
}

#[test]
fn a_better_window_replaces_a_wide_one() {
    // One noisy value opens a window of 64 bits; without replacing it every later change of a few
    // bits would cost 66.
    let mut values = vec![1.0, f64::from_bits(0xffff_ffff_ffff_ffff), 1.0];
    values.extend((0..100).map(|i| f64::from(i % 2)));
    let timestamps: Vec<i64> = (0..values.len() as i64).collect();
    assert!(encode(&timestamps, &values).len() < 300);
}

#[test]
fn the_open_chunk_is_one_cache_line() {
    assert!(size_of::<Appender>() <= 64);
    let mut appender = Appender::new();
    assert!(appender.is_empty());
    appender.push(1, 1.0).unwrap();
    assert_eq!(appender.heap_bytes(), 0);
    appender.push(2, 1.0).unwrap();
    assert!(appender.heap_bytes() > 0);
    appender.clear();
    assert_eq!((appender.len(), appender.heap_bytes()), (0, 0));
}

#[test]
fn a_window_that_was_never_opened_is_damage() {
    // Count 2, t0 = 0, v0 = 0, then: class 3 payload 0, value code 10 and zeros.
    let mut stream = vec![2, 0];
    stream.extend_from_slice(&[0; 8]);
    stream.extend_from_slice(&[0b1000_0100, 0, 0]);
    let error = decode_into(&stream, &mut Vec::new(), &mut Vec::new()).unwrap_err();
    assert!(error.reason.contains("window"), "{error}");
}

#[test]
fn a_false_count_reserves_nothing() {
    let mut stream = vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    stream.extend_from_slice(&[0; 40]);
    let mut timestamps = Vec::new();
    assert!(decode_into(&stream, &mut timestamps, &mut Vec::new()).is_err());
    assert_eq!(timestamps.capacity(), 0);
}

#[test]
fn timestamps_that_do_not_increase_are_damage() {
    // Count 3, then "same delta" with a delta of 0, twice.
    let mut stream = vec![3, 0];
    stream.extend_from_slice(&[0; 9]);
    assert!(decode_into(&stream, &mut Vec::new(), &mut Vec::new()).is_err());
}
