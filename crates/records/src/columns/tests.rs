//! What goes into columns comes out of them, and damage is an error.

use icecore_model::varint::push_varint;
use proptest::prelude::*;

use super::{
    ColumnRecord, MAX_SAMPLES, RecordTimes, TimeList, Times, encode, is_regular, time_column,
};

const BUCKET_MS: i64 = 1_699_948_800_000;

/// A small generator (splitmix64), for lists that are too long for proptest to make.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Scrapes as they come: a grid with jitter, gaps, or both, or none of it.
fn any_scrapes() -> impl Strategy<Value = Vec<i64>> {
    let interval = prop_oneof![
        1u64..5,
        14_990u64..15_010,
        Just(60_000),
        any::<u32>().prop_map(u64::from)
    ];
    let jitter = prop_oneof![Just(1u64), Just(3), Just(1000), Just(1 << 20)];
    let missed = prop_oneof![Just(0u64), Just(1), Just(20)];
    let len = prop_oneof![
        0usize..5,
        0usize..300,
        1000usize..1100,
        Just(3840),
        Just(9000)
    ];
    (any::<u64>(), interval, jitter, missed, len).prop_map(
        |(seed, interval, jitter, missed, len)| {
            let mut random = Random(seed);
            let mut time = BUCKET_MS + random.below(1000) as i64;
            let mut times: Vec<i64> = Vec::with_capacity(len);
            while times.len() < len {
                let off = random.below(jitter) as i64;
                if random.below(100) >= missed && times.last().is_none_or(|last| *last < time + off)
                {
                    times.push(time + off);
                }
                time += interval as i64;
            }
            times
        },
    )
}

/// Any list at all, mostly near the ends of 64 bits.
fn any_times() -> impl Strategy<Value = Vec<i64>> {
    let time = prop_oneof![
        any::<i64>(),
        i64::MIN..i64::MIN + 300,
        i64::MAX - 300..=i64::MAX,
        -150i64..150,
        Just(i64::MIN),
        Just(i64::MAX),
    ];
    prop_oneof![
        prop::collection::btree_set(time, 0..60).prop_map(|times| times.into_iter().collect()),
        any_scrapes(),
    ]
}

fn any_values(len: usize) -> Vec<f64> {
    let mut random = Random(len as u64);
    (0..len)
        .map(|i| match random.below(20) {
            0 => f64::from_bits(random.next()),
            1..5 => i as f64,
            _ => 0.5,
        })
        .collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn record(times: Times<'_>, values: &[f64]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(BUCKET_MS, times, values, &mut out);
    out
}

fn check_list(list: &TimeList, times: &[i64]) {
    assert_eq!(list.len(), times.len());
    assert_eq!(list.is_empty(), times.is_empty());
    assert_eq!(list.first(), times.first().copied());
    assert_eq!(list.last(), times.last().copied());
    assert_eq!(list.at(times.len()), None);
    assert_eq!(list.at(usize::MAX), None);
    assert!(list.iter().eq(times.iter().copied()));
    let mut copied = vec![7];
    list.copy_into(0..times.len(), &mut copied);
    assert_eq!(copied[1..], *times);
}

fn check_range(list: &TimeList, times: &[i64], start_ms: i64, end_ms: i64) {
    let start = times.partition_point(|time| *time < start_ms);
    let end = times.partition_point(|time| *time <= end_ms).max(start);
    assert_eq!(
        list.range(start_ms, end_ms),
        start..end,
        "{start_ms} to {end_ms}"
    );
    let mut copied = Vec::new();
    list.copy_into(start..end, &mut copied);
    assert_eq!(copied, times[start..end]);
}

proptest! {
    #[test]
    fn timestamps_come_back(times in any_times(), bucket in prop_oneof![Just(BUCKET_MS), any::<i64>()]) {
        let value = time_column::encode(bucket, &times);
        prop_assert_eq!(&value, &time_column::encode(bucket, &times));
        let list = time_column::decode(bucket, &value).unwrap();
        check_list(&list, &times);
        check_list(&TimeList::from(&times[..]), &times);
        prop_assert_eq!(list, TimeList::from(times));
    }

    #[test]
    fn ranges_are_found_as_by_bisection(
        times in any_times(),
        picks in prop::collection::vec((any::<prop::sample::Index>(), -2i64..3, any::<i64>()), 1..20),
    ) {
        let list = TimeList::from(&times[..]);
        let near: Vec<i64> = picks
            .iter()
            .flat_map(|(index, off, anywhere)| {
                let near = times.get(index.index(times.len().max(1))).copied().unwrap_or(0);
                [near.saturating_add(*off), *anywhere]
            })
            .chain([i64::MIN, i64::MAX])
            .collect();
        for start in &near {
            for end in &near {
                check_range(&list, &times, *start, *end);
            }
        }
    }

    #[test]
    fn records_come_back(times in any_times(), picks in prop::collection::vec(any::<[prop::sample::Index; 2]>(), 1..8)) {
        let values = any_values(times.len());
        let bytes = record(Times::Own(&times), &values);
        let parsed = ColumnRecord::parse(&bytes).unwrap();
        prop_assert_eq!(parsed.len(), times.len());
        prop_assert_eq!(parsed.times(), RecordTimes::Own);
        check_list(&parsed.decode_times(BUCKET_MS).unwrap(), &times);
        let mut decoded = vec![3.0];
        parsed.decode_values(0..values.len(), &mut decoded).unwrap();
        prop_assert_eq!(bits(&decoded[1..]), bits(&values));
        for [a, b] in picks {
            let (a, b) = (a.index(values.len() + 1), b.index(values.len() + 1));
            let range = a.min(b)..a.max(b);
            decoded.truncate(1);
            parsed.decode_values(range.clone(), &mut decoded).unwrap();
            prop_assert_eq!(bits(&decoded[1..]), bits(&values[range]));
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for version in [None, Some(1)] {
            if let (Some(version), Some(first)) = (version, bytes.first_mut()) {
                *first = version;
            }
            if let Ok(parsed) = ColumnRecord::parse(&bytes) {
                drop(parsed.decode_times(BUCKET_MS));
                let end = parsed.len().min(10_000);
                drop(parsed.decode_values(0..end, &mut Vec::new()));
            }
            drop(time_column::decode(BUCKET_MS, &bytes));
        }
    }
}

#[test]
fn long_lists_come_back() {
    let mut random = Random(1);
    for len in [4095, 4096, 4097, 8193, 100_000] {
        let jitter: Vec<i64> = (0..len)
            .map(|i| BUCKET_MS + 500 * i + random.below(300) as i64)
            .collect();
        let wide: Vec<i64> = (0..len)
            .map(|i| {
                (i64::MIN + i * (i64::MAX / len))
                    + i * (i64::MAX / len)
                    + random.below(1 << 40) as i64
            })
            .collect();
        let faster_and_faster: Vec<i64> = (0..len).map(|i| i * i).collect();
        for times in [jitter, wide, faster_and_faster] {
            let values = any_values(times.len());
            let bytes = record(Times::Own(&times), &values);
            let parsed = ColumnRecord::parse(&bytes).unwrap();
            let list = parsed.decode_times(BUCKET_MS).unwrap();
            check_list(&list, &times);
            for i in (0..times.len()).step_by(997) {
                check_range(&list, &times, times[i] - 1, times[i] + 1);
                check_range(&list, &times, times[i], times[times.len() - 1 - i]);
            }
            let mut decoded = Vec::new();
            parsed.decode_values(0..values.len(), &mut decoded).unwrap();
            assert_eq!(bits(&decoded), bits(&values));
        }
    }
}

#[test]
fn every_cut_and_every_extra_byte_is_found() {
    let jitter: Vec<i64> = (0..3000).map(|i| BUCKET_MS + 15_000 * i + i % 3).collect();
    let regular: Vec<i64> = (0..3000).map(|i| BUCKET_MS + 15_000 * i).collect();
    let values = any_values(3000);
    let shared = Times::Shared {
        column: 700,
        first: 300,
        len: 3000,
    };
    let decode_all = |bytes: &[u8]| {
        let parsed = ColumnRecord::parse(bytes)?;
        if parsed.times() == RecordTimes::Own {
            parsed.decode_times(BUCKET_MS)?;
        }
        parsed.decode_values(0..parsed.len(), &mut Vec::new())
    };
    for times in [Times::Own(&jitter), Times::Own(&regular), shared] {
        let mut bytes = record(times, &values);
        decode_all(&bytes).unwrap();
        for end in (0..bytes.len()).step_by(7) {
            assert!(decode_all(&bytes[..end]).is_err(), "cut at {end}");
        }
        bytes.push(0);
        assert!(decode_all(&bytes).is_err(), "a byte too many");
    }
    for times in [&jitter, &regular] {
        let mut bytes = time_column::encode(BUCKET_MS, times);
        for end in 0..bytes.len() {
            assert!(
                time_column::decode(BUCKET_MS, &bytes[..end]).is_err(),
                "cut at {end}"
            );
        }
        bytes.push(0);
        assert!(
            time_column::decode(BUCKET_MS, &bytes).is_err(),
            "a byte too many"
        );
    }
}

#[test]
fn chunks_are_even() {
    for (len, chunk_len) in [
        (0, 1),
        (1, 1),
        (1024, 1024),
        (1025, 513),
        (3840, 960),
        (4097, 820),
    ] {
        let times: Vec<i64> = (0..len).collect();
        let bytes = record(Times::Own(&times), &vec![1.5; times.len()]);
        let parsed = ColumnRecord::parse(&bytes).unwrap();
        assert_eq!(parsed.chunk_len(), chunk_len, "{len} samples");
        assert_eq!(parsed.is_empty(), len == 0);
    }
}

#[test]
fn a_shared_column_is_only_named() {
    let shared = Times::Shared {
        column: 7,
        first: 12,
        len: 3,
    };
    let bytes = record(shared, &[1.0, 2.0, 3.0]);
    let parsed = ColumnRecord::parse(&bytes).unwrap();
    assert_eq!(
        parsed.times(),
        RecordTimes::Shared {
            column: 7,
            first: 12
        }
    );
    assert_eq!(
        parsed.decode_times(0).unwrap_err().reason,
        "timestamps are in a column"
    );
    let mut at_the_end = record(
        Times::Shared {
            column: 7,
            first: u32::MAX - 3,
            len: 3,
        },
        &[1.0; 3],
    );
    assert!(ColumnRecord::parse(&at_the_end).is_ok());
    // The encoder refuses it; the last bits of the index are in this byte.
    assert_eq!(at_the_end[5], 0xfc);
    at_the_end[5] = 0xfe;
    assert!(ColumnRecord::parse(&at_the_end).is_err());
}

#[test]
fn samples_that_are_not_there_are_an_error_and_leave_nothing_behind() {
    let times: Vec<i64> = (0..2000).collect();
    let mut bytes = record(Times::Own(&times), &any_values(2000));
    let mut out = vec![1.0];
    let parsed = ColumnRecord::parse(&bytes).unwrap();
    assert!(parsed.decode_values(1999..2001, &mut out).is_err());
    assert_eq!(out, [1.0]);
    bytes.pop();
    let parsed = ColumnRecord::parse(&bytes).unwrap();
    assert!(
        parsed.decode_values(0..2000, &mut out).is_err(),
        "the last chunk is cut"
    );
    assert_eq!(out, [1.0]);
    parsed.decode_values(5..1000, &mut out).unwrap();
    assert_eq!(out.len(), 996, "the first one is not");
}

/// A column of `len` samples of form 0.
fn regular_column(len: u64, interval: u64) -> Vec<u8> {
    let mut value = vec![1];
    push_varint(&mut value, len);
    value.extend_from_slice(&[0, 0]);
    push_varint(&mut value, interval);
    value
}

#[test]
fn a_few_bytes_do_not_stand_for_much_memory() {
    let longest = regular_column(MAX_SAMPLES as u64, 1);
    let list = time_column::decode(BUCKET_MS, &longest).unwrap();
    assert_eq!((list.len(), list.heap_bytes()), (MAX_SAMPLES, 0));
    assert!(time_column::decode(BUCKET_MS, &regular_column(MAX_SAMPLES as u64 + 1, 1)).is_err());
    assert!(
        time_column::decode(BUCKET_MS, &regular_column(2, 0)).is_err(),
        "no increase"
    );
    assert!(
        time_column::decode(0, &regular_column(3, 1 << 62)).is_err(),
        "leaves 64 bits"
    );
    assert!(time_column::decode(0, &regular_column(2, i64::MAX as u64)).is_ok());

    // More chunks than bytes, and a chunk longer than any.
    let mut header = vec![1];
    push_varint(&mut header, MAX_SAMPLES as u64);
    let with_chunks_of = |chunk_len: u64| {
        let mut bytes = header.clone();
        push_varint(&mut bytes, chunk_len);
        bytes.extend_from_slice(&[0, 0, 1, 1, 1, 1, 1, 1, 1]);
        bytes
    };
    for chunk_len in [0, 1, 4096, 4097, u64::MAX] {
        assert!(ColumnRecord::parse(&with_chunks_of(chunk_len)).is_err());
    }
}

#[test]
fn lists_are_kept_in_few_bytes() {
    let len = 3840;
    let bytes_of = |time: &dyn Fn(i64) -> i64| {
        let times: Vec<i64> = (0..len).map(|i| BUCKET_MS + time(i)).collect();
        TimeList::from(times).heap_bytes() as i64 / len
    };
    assert_eq!(bytes_of(&|i| 15_000 * i), 0);
    assert_eq!(bytes_of(&|i| 15_000 * i + i % 3), 1);
    assert_eq!(bytes_of(&|i| 15_000 * i + i % 3 * 300), 2);
    assert_eq!(bytes_of(&|i| 15_000 * (i + i / 700)), 2, "missed scrapes");
    assert_eq!(
        bytes_of(&|i| 15_000 * (i + i / 3000 * 300)),
        4,
        "an hour missed"
    );
    assert_eq!(bytes_of(&|i| i * i * i * i), 8);
}

#[test]
fn equal_distances_are_regular() {
    assert!(is_regular(&[]) && is_regular(&[1]) && is_regular(&[1, 2]));
    assert!(is_regular(&[1, 3, 5, 7]));
    assert!(!is_regular(&[1, 3, 5, 8]));
    assert!(is_regular(&[i64::MIN, 0]) && !is_regular(&[i64::MIN, 0, i64::MAX]));
}
