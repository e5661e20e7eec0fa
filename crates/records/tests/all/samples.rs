//! Values that the tests share: fixed ones for golden bytes, arbitrary ones for laws.

use std::sync::Arc;

use icecore_model::{
    BucketSize, BucketStart, CounterResetHint, Exemplar, Histogram, HistogramCounts, Labels,
    Metadata, MetricType, NumberForm, STALE_NAN_BITS, Span,
};
use icecore_records::{
    Bucket, BucketMeta, BucketState, ForwardRecord, HistogramEntry, MetricMeta, SeriesId,
    StoredType, Temporality,
};
use proptest::prelude::*;

pub(crate) fn hour() -> Bucket {
    Bucket::hour(BucketStart(28_333_320))
}

pub(crate) fn sixteen_hours() -> Bucket {
    let size = BucketSize::from_exponent(5).unwrap();
    Bucket {
        size,
        start: BucketStart(28_332_480),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn http_requests() -> Labels {
    Labels::from_pairs([("__name__", "http_requests_total"), ("status", "500")])
}

pub(crate) fn forward_record() -> ForwardRecord {
    let meta = MetricMeta {
        metric_type: StoredType::Sum,
        temporality: Temporality::Cumulative,
        monotonic: true,
    };
    ForwardRecord {
        unit: "By".into(),
        meta,
        labels: http_requests(),
    }
}

pub(crate) fn float_samples() -> (Vec<i64>, Vec<f64>) {
    let t = 1_700_000_000_000;
    let timestamps = vec![
        t,
        t + 15_000,
        t + 30_001,
        t + 45_000,
        t + 60_010,
        t + 400_000,
    ];
    let values = vec![12.0, 12.0, 24.0, 24.5, f64::from_bits(STALE_NAN_BITS), -0.0];
    (timestamps, values)
}

pub(crate) fn integer_histogram(count: u64, sum: f64) -> Histogram {
    Histogram {
        schema: 3,
        reset_hint: CounterResetHint::NotReset,
        zero_threshold: 1e-128,
        sum,
        counts: HistogramCounts::Integer {
            count,
            zero_count: 1,
            positive_deltas: vec![2, 1, count as i64 - 9],
            negative_deltas: vec![],
        },
        positive_spans: vec![
            Span {
                offset: -2,
                length: 2,
            },
            Span {
                offset: 3,
                length: 1,
            },
        ],
        negative_spans: vec![],
        custom_bounds: Arc::from([]),
    }
}

pub(crate) fn custom_histogram() -> Histogram {
    Histogram {
        schema: -53,
        reset_hint: CounterResetHint::Gauge,
        zero_threshold: 0.0,
        sum: 7.5,
        counts: HistogramCounts::Float {
            count: 3.0,
            zero_count: 0.0,
            positive: vec![1.0, 2.0],
            negative: vec![],
        },
        positive_spans: vec![Span {
            offset: 0,
            length: 2,
        }],
        negative_spans: vec![],
        custom_bounds: Arc::from([0.5, 5.0]),
    }
}

pub(crate) fn stale_histogram() -> Histogram {
    Histogram {
        schema: 0,
        reset_hint: CounterResetHint::Unknown,
        zero_threshold: 0.0,
        sum: f64::from_bits(STALE_NAN_BITS),
        counts: HistogramCounts::Integer {
            count: 0,
            zero_count: 0,
            positive_deltas: vec![],
            negative_deltas: vec![],
        },
        positive_spans: vec![],
        negative_spans: vec![],
        custom_bounds: Arc::from([]),
    }
}

pub(crate) fn histogram_entries() -> Vec<HistogramEntry> {
    let values = [
        Some(integer_histogram(12, 18.5)),
        Some(integer_histogram(14, 20.5)),
        None,
        Some(stale_histogram()),
        Some(custom_histogram()),
    ];
    values
        .into_iter()
        .enumerate()
        .map(|(i, value)| HistogramEntry {
            timestamp_ms: 1_700_000_000_000 + 15_000 * i as i64,
            value: value.map(Arc::new),
        })
        .collect()
}

/// Every kind of run and of block: some one by one, then columns of integers and of floats.
pub(crate) fn histogram_column_entries() -> Vec<HistogramEntry> {
    let mut values: Vec<Option<Histogram>> = histogram_entries()
        .into_iter()
        .map(|entry| entry.value.map(Arc::unwrap_or_clone))
        .collect();
    let integers = (0..9u32).map(|i| integer_histogram(12 + 2 * u64::from(i), 0.5 * f64::from(i)));
    values.extend(integers.map(Some));
    values.extend([Some(integer_histogram(28, 4.0)), None]);
    let floats = (0..8u32).map(|i| Histogram {
        sum: f64::from(i) / 3.0,
        ..custom_histogram()
    });
    values.extend(floats.map(Some));
    let entry = |(value, i): (Option<Histogram>, i64)| HistogramEntry {
        timestamp_ms: 1_700_000_000_000 + 15_000 * i + i % 2,
        value: value.map(Arc::new),
    };
    values.into_iter().zip(0..).map(entry).collect()
}

pub(crate) fn exemplars() -> Vec<Exemplar> {
    let labels = Labels::from_pairs([("trace_id", "0af7651916cd43dd")]);
    vec![
        Exemplar {
            labels: labels.clone(),
            timestamp_ms: 1_700_000_000_500,
            value: 0.25,
        },
        Exemplar {
            labels,
            timestamp_ms: 1_700_000_000_100,
            value: 1.5,
        },
        Exemplar {
            labels: Labels::empty(),
            timestamp_ms: 1_700_000_000_100,
            value: 1.5,
        },
    ]
}

pub(crate) fn starts() -> Vec<(i64, i64)> {
    vec![
        (1_700_000_000_000, 1_699_990_000_000),
        (1_700_000_015_000, 0),
    ]
}

/// A float, two integers, of which one is 2^63 − 1, and two floats.
pub(crate) fn forms() -> Vec<(i64, i64)> {
    let integer = |integer| NumberForm::of_integer(integer).1;
    let forms = [
        NumberForm::FLOAT,
        integer(5),
        integer(i64::MAX),
        NumberForm::FLOAT,
        NumberForm::FLOAT,
    ];
    let times = (0..).map(|i| 1_700_000_000_000 + i * 15_000);
    times.zip(forms.map(NumberForm::as_start)).collect()
}

pub(crate) fn bucket_meta() -> BucketMeta {
    BucketMeta {
        resolution_ms: 0,
        state: BucketState::Raw,
        next_series_id: 714,
        run_starts: vec![SeriesId(0), SeriesId(500)],
        dirty_hours: vec![28_333_320],
        float_samples: 171_120,
        histogram_samples: 240,
        exemplars: 3,
        has_histograms: true,
        has_start_timestamps: true,
        min_timestamp_ms: 1_699_999_200_000,
        max_timestamp_ms: 1_700_002_799_999,
        ..BucketMeta::default()
    }
}

pub(crate) fn metadata() -> Metadata {
    Metadata {
        metric_type: MetricType::Counter,
        unit: "requests".into(),
        help: "Requests served.".into(),
        ..Metadata::default()
    }
}

/// Timestamps from a small set, so that merged values meet.
pub(crate) fn any_time() -> impl Strategy<Value = i64> {
    prop_oneof![
        0i64..8,
        Just(i64::MIN),
        Just(i64::MAX),
        (0i64..8).prop_map(|i| i * 15_000)
    ]
}

pub(crate) fn any_float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        (0u32..5).prop_map(f64::from),
        Just(f64::from_bits(STALE_NAN_BITS)),
        Just(-0.0),
    ]
}

pub(crate) fn any_labels() -> impl Strategy<Value = Labels> {
    prop::collection::btree_map("[a-c]{1,2}", "[a-c\u{0}\u{1}ü]{1,3}", 0..3)
        .prop_map(Labels::from_pairs)
}

fn any_spans() -> impl Strategy<Value = Vec<Span>> {
    let span = (any::<i32>(), prop_oneof![0u32..4, any::<u32>()])
        .prop_map(|(offset, length)| Span { offset, length });
    prop::collection::vec(span, 0..4)
}

fn any_counts() -> impl Strategy<Value = HistogramCounts> {
    let deltas = || prop::collection::vec(prop_oneof![-5i64..5, any::<i64>()], 0..4);
    let floats = || prop::collection::vec(any_float(), 0..4);
    prop_oneof![
        (any::<u64>(), any::<u64>(), deltas(), deltas()).prop_map(
            |(count, zero_count, positive_deltas, negative_deltas)| HistogramCounts::Integer {
                count,
                zero_count,
                positive_deltas,
                negative_deltas
            }
        ),
        (any_float(), any_float(), floats(), floats()).prop_map(
            |(count, zero_count, positive, negative)| HistogramCounts::Float {
                count,
                zero_count,
                positive,
                negative
            }
        ),
    ]
}

pub(crate) fn any_histogram() -> impl Strategy<Value = Histogram> {
    let wild = (
        any::<i8>(),
        0u64..4,
        any_float(),
        any_float(),
        any_counts(),
        any_spans(),
        any_spans(),
        prop::collection::vec(any_float(), 0..3),
    )
        .prop_map(
            |(schema, hint, zero_threshold, sum, counts, positive, negative, bounds)| Histogram {
                schema,
                reset_hint: CounterResetHint::from_number(hint).unwrap(),
                zero_threshold,
                sum,
                counts,
                positive_spans: positive,
                negative_spans: negative,
                custom_bounds: bounds.into(),
            },
        );
    // Mostly one layout, as in life, so that repeated layouts are covered.
    prop_oneof![
        3 => (9u64..100, any_float()).prop_map(|(count, sum)| integer_histogram(count, sum)),
        1 => Just(custom_histogram()),
        1 => Just(stale_histogram()),
        1 => wild,
    ]
}

pub(crate) fn any_histogram_entries() -> impl Strategy<Value = Vec<HistogramEntry>> {
    prop::collection::btree_map(any_time(), prop::option::of(any_histogram()), 0..6).prop_map(
        |entries| {
            let entries = entries.into_iter();
            entries
                .map(|(timestamp_ms, value)| HistogramEntry {
                    timestamp_ms,
                    value: value.map(Arc::new),
                })
                .collect()
        },
    )
}

pub(crate) fn any_exemplars() -> impl Strategy<Value = Vec<Exemplar>> {
    let exemplar =
        (any_labels(), any_time(), any_float()).prop_map(|(labels, timestamp_ms, value)| {
            Exemplar {
                labels,
                timestamp_ms,
                value,
            }
        });
    prop::collection::vec(exemplar, 0..6)
}

pub(crate) fn any_starts() -> impl Strategy<Value = Vec<(i64, i64)>> {
    let start = prop_oneof![Just(0i64), any::<i64>()];
    prop::collection::btree_map(any_time(), start, 0..6).prop_map(|m| m.into_iter().collect())
}

pub(crate) fn any_bucket() -> impl Strategy<Value = Bucket> {
    (1u8..=15, prop_oneof![0u32..4, any::<u32>()]).prop_map(|(exponent, start)| Bucket {
        size: BucketSize::from_exponent(exponent).unwrap(),
        start: BucketStart(start),
    })
}

/// Bits of all fields: histograms compared this way treat NaN as equal to itself.
pub(crate) fn histogram_bits(histogram: &Histogram) -> String {
    let bits = |all: &[f64]| all.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let counts = match &histogram.counts {
        HistogramCounts::Integer {
            count,
            zero_count,
            positive_deltas,
            negative_deltas,
        } => {
            format!("int {count} {zero_count} {positive_deltas:?} {negative_deltas:?}")
        }
        HistogramCounts::Float {
            count,
            zero_count,
            positive,
            negative,
        } => {
            let head = bits(&[*count, *zero_count]);
            format!("float {head:?} {:?} {:?}", bits(positive), bits(negative))
        }
    };
    format!(
        "{} {:?} {:?} {counts} {:?} {:?} {:?}",
        histogram.schema,
        histogram.reset_hint,
        bits(&[histogram.zero_threshold, histogram.sum]),
        histogram.positive_spans,
        histogram.negative_spans,
        bits(&histogram.custom_bounds),
    )
}

pub(crate) fn entry_bits(entries: &[HistogramEntry]) -> Vec<(i64, Option<String>)> {
    let bits = |e: &HistogramEntry| (e.timestamp_ms, e.value.as_deref().map(histogram_bits));
    entries.iter().map(bits).collect()
}
