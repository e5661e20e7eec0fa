//! What the tests of exports and imports share: generated series, and a sink that records its
//! calls.

use std::sync::Arc;

use icecore_model::{
    CounterResetHint, Exemplar, FloatColumns, Histogram, HistogramCounts, HistogramSample, Labels,
    Metadata, MetricType, RawLabels, STALE_NAN_BITS, Sample, SampleSink, SeriesSamples, Span,
    Temporality,
};
use proptest::prelude::*;

/// A series, its exemplars, and perhaps what is known about its family.
#[derive(Clone, Debug)]
pub(crate) struct ExportedSeries {
    pub(crate) series: SeriesSamples,
    pub(crate) exemplars: Vec<Exemplar>,
    pub(crate) metadata: Option<(String, Metadata)>,
}

/// One call of a sink.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SinkCall {
    /// Series, timestamp, bits of the value, start timestamp.
    Sample(String, i64, u64, i64),
    Histogram(String, i64, i64, Histogram),
    Exemplar(String, Exemplar),
    Metadata(String, Metadata),
    Rejected(String),
}

#[derive(Default)]
pub(crate) struct RecordingSink {
    current: String,
    pub(crate) calls: Vec<SinkCall>,
}

impl SampleSink for RecordingSink {
    fn guess_series(&mut self, _: &[u8]) -> Option<usize> {
        None
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        let mut pairs = Vec::new();
        labels.parse(&mut pairs).unwrap();
        self.current = Labels::from_pairs(pairs).to_string();
    }

    fn sample(&mut self, sample: Sample) {
        let call = SinkCall::Sample(
            self.current.clone(),
            sample.timestamp_ms,
            sample.value.to_bits(),
            sample.start_timestamp_ms,
        );
        self.calls.push(call);
    }

    fn histogram(&mut self, timestamp_ms: i64, start_ms: i64, histogram: Histogram) {
        let series = self.current.clone();
        self.calls.push(SinkCall::Histogram(
            series,
            timestamp_ms,
            start_ms,
            histogram,
        ));
    }

    fn exemplar(&mut self, exemplar: Exemplar) {
        self.calls
            .push(SinkCall::Exemplar(self.current.clone(), exemplar));
    }

    fn metadata(&mut self, family: &str, metadata: Metadata) {
        self.calls.push(SinkCall::Metadata(family.into(), metadata));
    }

    fn reject(&mut self, reason: String) {
        self.calls.push(SinkCall::Rejected(reason));
    }
}

impl RecordingSink {
    /// Without the order between series and metadata, which no form promises.
    pub(crate) fn sorted(mut self) -> Vec<SinkCall> {
        self.calls
            .sort_by_key(|call| matches!(call, SinkCall::Metadata(..)));
        self.calls
    }
}

/// The calls that importing an export should make.
pub(crate) fn expected(all: &[ExportedSeries]) -> Vec<SinkCall> {
    let mut sink = RecordingSink::default();
    for exported in all {
        let series = &exported.series;
        let start_of = |time: i64| {
            let found = series.start_timestamps.iter().find(|(at, _)| *at == time);
            found.map_or(0, |(_, start)| *start)
        };
        sink.current = series.labels.to_string();
        for (time, value) in series.floats.timestamps.iter().zip(&series.floats.values) {
            sink.sample(Sample {
                timestamp_ms: *time,
                value: *value,
                start_timestamp_ms: start_of(*time),
            });
        }
        for sample in &series.histograms {
            let time = sample.timestamp_ms;
            sink.histogram(time, start_of(time), (*sample.histogram).clone());
        }
        for exemplar in &exported.exemplars {
            sink.exemplar(exemplar.clone());
        }
        if let Some((family, metadata)) = &exported.metadata {
            sink.metadata(family, metadata.clone());
        }
    }
    sink.sorted()
}

/// Any value, with more of those that are special.
pub(crate) fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => any::<u64>().prop_map(f64::from_bits),
        4 => (-1000i32..1000).prop_map(f64::from),
        2 => (0u64..100_000).prop_map(|n| n as f64 / 100.0),
        1 => prop::sample::select(vec![
            f64::from_bits(STALE_NAN_BITS), f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX,
            9_007_199_254_740_992.0, -9_007_199_254_740_993.0, 1e300, f64::MIN_POSITIVE,
        ]),
    ]
}

/// Ascending times.
fn times(most: usize) -> impl Strategy<Value = Vec<i64>> {
    let start = prop_oneof![Just(0i64), 0i64..2_000_000_000_000];
    let steps = prop::collection::vec(
        prop_oneof![4 => Just(15_000i64), 1 => 1i64..10_000_000],
        0..most,
    );
    (start, steps).prop_map(|(mut time, steps)| {
        let next = |step: i64| {
            time += step;
            time
        };
        steps.into_iter().map(next).collect()
    })
}

fn labels() -> impl Strategy<Value = Labels> {
    let pairs = prop::collection::btree_map("[a-z]{1,3}", "\\PC{1,6}|[\\\\\"\n\u{1}]", 0..4);
    ("[a-z_:]{1,8}", pairs).prop_map(|(name, pairs)| {
        let mut all: Vec<(String, String)> = pairs.into_iter().collect();
        all.push(("__name__".into(), name));
        Labels::from_pairs(all)
    })
}

fn histogram() -> impl Strategy<Value = Histogram> {
    let hint = (0u64..4).prop_map(|n| CounterResetHint::from_number(n).unwrap());
    let buckets = prop::collection::vec(0i64..50, 0..6);
    (hint, buckets, value(), any::<bool>(), -4i8..9).prop_map(
        |(reset_hint, buckets, sum, float, schema)| {
            let spans = match buckets.len() {
                0 => vec![],
                length => vec![Span {
                    offset: -3,
                    length: length as u32,
                }],
            };
            let total: i64 = buckets.iter().sum();
            let counts = if float {
                HistogramCounts::Float {
                    count: total as f64 + 0.5,
                    zero_count: 0.5,
                    positive: buckets.iter().map(|n| *n as f64).collect(),
                    negative: vec![],
                }
            } else {
                let mut last = 0;
                HistogramCounts::Integer {
                    count: total as u64 + 7,
                    zero_count: 7,
                    positive_deltas: buckets
                        .iter()
                        .map(|n| n - std::mem::replace(&mut last, *n))
                        .collect(),
                    negative_deltas: vec![],
                }
            };
            Histogram {
                schema,
                reset_hint,
                zero_threshold: 1e-128,
                // Of integer histograms a sum that is NaN excuses counts that differ.
                sum: if float { sum } else { 12.5 },
                counts,
                positive_spans: spans,
                negative_spans: vec![],
                custom_bounds: Arc::from([]),
            }
        },
    )
}

fn exemplar() -> impl Strategy<Value = Exemplar> {
    (labels(), 0i64..2_000_000_000_000, value()).prop_map(|(labels, timestamp_ms, value)| {
        Exemplar {
            labels,
            timestamp_ms,
            value,
        }
    })
}

fn metadata() -> impl Strategy<Value = (String, Metadata)> {
    (
        "[a-z]{1,8}",
        0u64..8,
        "[a-z]{0,5}",
        "\\PC{0,9}",
        0u8..3,
        any::<bool>(),
    )
        .prop_map(|(family, number, unit, help, temporality, monotonic)| {
            let metadata = Metadata {
                metric_type: MetricType::from_number(number).unwrap(),
                unit,
                help,
                temporality: match temporality {
                    0 => Temporality::Unspecified,
                    1 => Temporality::Cumulative,
                    _ => Temporality::Delta,
                },
                monotonic,
            };
            (family, metadata)
        })
}

/// One series with anything that a series can have.
pub(crate) fn exported() -> impl Strategy<Value = ExportedSeries> {
    let floats = times(40).prop_flat_map(|times| {
        let values = prop::collection::vec(value(), times.len());
        (Just(times), values)
    });
    let histograms = (times(5), prop::collection::vec(histogram(), 5));
    let starts = prop::collection::vec(any::<Option<u32>>(), 45);
    let exemplars = prop::collection::vec(exemplar(), 0..3);
    let metadata = prop::option::of(metadata());
    (labels(), floats, histograms, starts, exemplars, metadata).prop_map(
        |(labels, (times, values), (histogram_times, histograms), starts, exemplars, metadata)| {
            // A timestamp is a float or a histogram, not both.
            let histogram_times: Vec<i64> = histogram_times
                .into_iter()
                .filter(|time| !times.contains(time))
                .collect();
            let mut all: Vec<i64> = times.iter().chain(&histogram_times).copied().collect();
            all.sort_unstable();
            let known = all.into_iter().zip(starts);
            let known = known.filter_map(|(time, start)| Some((time, i64::from(start?) + 1)));
            let histograms = histogram_times.into_iter().zip(histograms);
            let histograms = histograms.map(|(timestamp_ms, histogram)| HistogramSample {
                timestamp_ms,
                histogram: Arc::new(histogram),
            });
            ExportedSeries {
                series: SeriesSamples {
                    labels,
                    floats: FloatColumns {
                        timestamps: times.into(),
                        values,
                    },
                    histograms: histograms.collect(),
                    forms: Default::default(),
                    rolled: None,
                    start_timestamps: known.collect(),
                },
                exemplars,
                metadata,
            }
        },
    )
}
