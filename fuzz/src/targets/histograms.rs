//! Targets for histograms as columns: what decodes has one form as columns, and that form is read
//! back; a container of parts is united without trouble.

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::{BucketSize, BucketStart, CounterResetHint, Histogram, HistogramCounts, Span};
use icecore_records::{Bucket, HistogramEntry, SeriesId, histogram_series, key, merge};

use crate::{MEMORY_BASE, Target};

pub fn targets() -> Vec<Target> {
    let target = |name, seeds, run| Target {
        name,
        seeds,
        run,
        memory_base: MEMORY_BASE,
    };
    vec![
        target("records/histogram_columns", columns, |input| {
            let Ok(entries) = histogram_series::decode(input) else {
                return;
            };
            let once = histogram_series::encode_columns(&entries);
            drop(entries);
            let again = histogram_series::decode(&once).expect("own bytes");
            assert_eq!(histogram_series::encode_columns(&again), once);
        }),
        target("records/histogram_parts", containers, |input| {
            let value = Bytes::copy_from_slice(input);
            if let Ok(entries) = histogram_series::decode_coarse(&value) {
                assert!(entries.is_sorted_by(|a, b| a.timestamp_ms < b.timestamp_ms));
            }
        }),
    ]
}

fn integer_histogram(i: u64) -> Histogram {
    Histogram {
        schema: 3,
        reset_hint: CounterResetHint::NotReset,
        zero_threshold: 1e-128,
        sum: i as f64 * 1.5,
        counts: HistogramCounts::Integer {
            count: 7 * i,
            zero_count: i,
            positive_deltas: vec![i as i64, 1, (i % 5) as i64],
            negative_deltas: vec![i as i64 / 3],
        },
        positive_spans: vec![Span {
            offset: -2,
            length: 3,
        }],
        negative_spans: vec![Span {
            offset: 0,
            length: 1,
        }],
        custom_bounds: Arc::from([]),
    }
}

fn float_histogram(i: u64) -> Histogram {
    Histogram {
        schema: -53,
        reset_hint: CounterResetHint::Gauge,
        counts: HistogramCounts::Float {
            count: i as f64 / 4.0,
            zero_count: 0.0,
            positive: vec![1.0, i as f64],
            negative: vec![],
        },
        positive_spans: vec![Span {
            offset: 0,
            length: 2,
        }],
        negative_spans: vec![],
        custom_bounds: Arc::from([0.5, 5.0]),
        ..integer_histogram(i)
    }
}

fn entries(
    histograms: impl Iterator<Item = Option<Histogram>>,
    interval_ms: i64,
) -> Vec<HistogramEntry> {
    let entry = |(value, i): (Option<Histogram>, i64)| HistogramEntry {
        timestamp_ms: 1_700_000_000_000 + interval_ms * i + i % 3,
        value: value.map(Arc::new),
    };
    histograms.zip(0..).map(entry).collect()
}

fn series() -> Vec<Vec<HistogramEntry>> {
    let integers = (0..40).map(|i| Some(integer_histogram(i)));
    let floats = (0..12).map(|i| Some(float_histogram(i)));
    let repeated = (0..100).map(|_| Some(integer_histogram(9)));
    let few = (0..5).map(|i| (i != 2).then(|| integer_histogram(i)));
    vec![
        entries(integers.clone(), 15_000),
        entries(floats.clone(), 60_000),
        entries(repeated, 15_000),
        entries(few.clone().chain(floats).chain(integers).chain(few), 1_000),
        vec![],
    ]
}

fn columns() -> Vec<Vec<u8>> {
    let series = series();
    let columns = series
        .iter()
        .map(|all| histogram_series::encode_columns(all));
    let rows = series.iter().map(|all| histogram_series::encode(all));
    columns.chain(rows).collect()
}

fn containers() -> Vec<Vec<u8>> {
    let size = BucketSize::from_exponent(5).expect("between 1 and 15");
    let start = BucketStart(28_332_480);
    let key = key::histogram_series(Bucket { size, start }, SeriesId(1));
    let values: Vec<Bytes> = columns().into_iter().map(Bytes::from).collect();
    let container = |parts: &[Bytes]| {
        let merged = merge::merge(&key, None, parts);
        merged.expect("there are operands").into()
    };
    values.chunks(3).map(container).collect()
}
