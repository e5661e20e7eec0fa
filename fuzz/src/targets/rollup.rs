//! Targets for the records of rollup and retention. What decodes must survive being written again,
//! and a part of it must hold what the whole holds.

use std::sync::Arc;

use icecore_model::rollup::{
    HistogramAggregate, HistogramEdge, HistogramWindow, Resolution, Window, WindowColumns,
    WindowFields, roll_up,
};
use icecore_model::{BucketSize, BucketStart, STALE_NAN_BITS};
use icecore_records::rollup_histograms::{self, HistogramRecord};
use icecore_records::rollup_series::{self, Decoder, RollupRecord};
use icecore_records::{Bucket, RetentionState, retention_state};

use super::records::histogram;
use crate::{MEMORY_BASE, Target};

/// A few bytes can stand for a segment of 512 windows, and these for all of a bucket.
const WINDOWS_MEMORY_BASE: usize = 16 << 20;

pub fn targets() -> Vec<Target> {
    let target = |name, seeds, run, memory_base| Target {
        name,
        seeds,
        run,
        memory_base,
    };
    vec![
        target(
            "rollup/series",
            rolled_series,
            series_round_trip,
            WINDOWS_MEMORY_BASE,
        ),
        target(
            "rollup/histograms",
            rolled_histograms,
            histograms_round_trip,
            WINDOWS_MEMORY_BASE,
        ),
        target(
            "rollup/retention_state",
            retention_states,
            |input| {
                if let Ok(state) = retention_state::decode(input) {
                    let again = retention_state::decode(&retention_state::encode(&state));
                    assert_eq!(again, Ok(state));
                }
            },
            MEMORY_BASE,
        ),
    ]
}

fn bucket() -> Bucket {
    Bucket {
        size: BucketSize::from_exponent(6).expect("between 1 and 15"),
        start: BucketStart(28_331_520),
    }
}

fn series_round_trip(input: &[u8]) {
    let Ok(record) = RollupRecord::parse(bucket(), input) else {
        return;
    };
    let mut decoder = Decoder::default();
    let (start_ms, end_ms) = (bucket().start_ms(), bucket().end_ms());
    let middle_ms = start_ms + (end_ms - start_ms) / 3;
    let asked = WindowFields::COUNTS | WindowFields::SUM;
    let part = decoder.columns(&record, asked, start_ms..middle_ms);
    let Ok(windows) = decoder.windows(&record) else {
        return;
    };
    let (resolution, fields) = (record.resolution(), record.fields());
    let again = rollup_series::encode(bucket(), resolution, fields, &windows);
    let decoded = rollup_series::decode_windows(bucket(), &again).expect("own bytes");
    assert!(same(&decoded, &windows), "windows do not survive");
    let part = part.expect("a part of what can be read");
    let expected: Vec<Window> = windows
        .into_iter()
        .filter(|window| window.start_ms < middle_ms)
        .collect();
    let expected = WindowColumns::from_windows(&expected, part.fields);
    assert_eq!(part.starts, expected.starts);
    assert_eq!(part.numbers, expected.numbers);
    let bits = |sums: &[f64]| sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&part.sum), bits(&expected.sum));
}

/// Equal in every bit that decides: NaN is not equal to itself, its text is.
fn same(a: &[Window], b: &[Window]) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

fn rolled_series() -> Vec<Vec<u8>> {
    let start_ms = bucket().start_ms();
    let special = [
        f64::from_bits(STALE_NAN_BITS),
        f64::NAN,
        -0.0,
        f64::INFINITY,
    ];
    let series: [&dyn Fn(i64) -> f64; 4] = [
        &|i| (i * 7 % 1000 + i) as f64,
        &|i| (i * i % 977) as f64 / 100.0,
        &|i| (i as f64).sqrt(),
        &|i| special[i as usize % special.len()],
    ];
    let full = WindowFields::ALL;
    let lean = full.without(WindowFields::M2 | WindowFields::CHANGES);
    let mut seeds = vec![];
    for value in series {
        for (resolution, fields, seconds, count) in [
            (Resolution::FIVE_MINUTES, lean, 60, 300),
            (Resolution::HOUR, full, 45, 2500),
        ] {
            let samples = (0..count).map(|i| (start_ms + i * i % 3 + i * seconds * 1000, value(i)));
            let windows = roll_up(resolution, samples);
            seeds.push(rollup_series::encode(
                bucket(),
                resolution,
                fields,
                &windows,
            ));
        }
    }
    seeds.push(rollup_series::encode(bucket(), Resolution::HOUR, full, &[]));
    seeds
}

fn histograms_round_trip(input: &[u8]) {
    let Ok(record) = HistogramRecord::parse(bucket(), input) else {
        return;
    };
    let (all, forever) = (WindowFields::ALL, i64::MIN..i64::MAX);
    let last = record.windows(WindowFields::LAST, forever.clone());
    let Ok(windows) = record.windows(all, forever.clone()) else {
        return;
    };
    let again = rollup_histograms::encode(bucket(), record.resolution(), &windows);
    let decoded = rollup_histograms::decode(bucket(), &again, all, forever).expect("own bytes");
    assert_eq!(
        rollup_histograms::encode(bucket(), record.resolution(), &decoded),
        again
    );
    assert_eq!(
        last.expect("a part of what can be read").len(),
        windows.len()
    );
}

fn rolled_histograms() -> Vec<Vec<u8>> {
    let start_ms = bucket().start_ms();
    let interior = |hour: i64| {
        let start_ms = start_ms + hour * 3_600_000;
        let part = |more: u64| Some(Arc::new(histogram(hour as u64 * 50 + more)));
        HistogramAggregate {
            samples: 240,
            first_ms: start_ms + 7_000,
            first: part(3),
            last_ms: start_ms + 3_599_000,
            last: part(40),
            sum: part(5000),
            correction: part(3).filter(|_| hour % 5 == 0),
            resets: u64::from(hour % 5 == 0),
            changes: 239 * u64::from(hour % 3 == 0),
        }
    };
    let window = |hour: i64| HistogramWindow {
        start_ms: start_ms + hour * 3_600_000,
        edge: match hour % 7 {
            0 => HistogramEdge::Sample(Arc::new(histogram(9))),
            1 => HistogramEdge::Stale,
            _ => HistogramEdge::None,
        },
        interior: (hour % 7 != 0).then(|| interior(hour)),
        ends_stale: hour == 4,
        has_late: hour == 5,
    };
    let encode = |hours: Vec<i64>| {
        let windows: Vec<HistogramWindow> = hours.into_iter().map(window).collect();
        rollup_histograms::encode(bucket(), Resolution::HOUR, &windows)
    };
    vec![
        encode((0..32).collect()),
        encode(vec![3, 9, 10, 30]),
        encode(vec![]),
    ]
}

fn retention_states() -> Vec<Vec<u8>> {
    let mut state = RetentionState::default();
    state.clock_ms = 1_700_000_000_123;
    for resolution in [Resolution::RAW, Resolution::FIVE_MINUTES, Resolution::HOUR] {
        state.raise_watermark(resolution, bucket().start_ms());
    }
    vec![
        retention_state::encode(&state),
        retention_state::encode(&RetentionState::default()),
    ]
}
