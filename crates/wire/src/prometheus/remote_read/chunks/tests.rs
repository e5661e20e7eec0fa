//! Chunks against bytes of a real Prometheus, and against a decoder that was written on its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_model::{
    Exemplar, FloatColumns, Histogram, Labels, Metadata, RawLabels, STALE_NAN_BITS, Sample,
    SampleSink, Span, TimeColumn,
};
use proptest::prelude::*;

use super::decoder::{self, ChunkSamples, decode, frames};
use super::*;
use crate::prometheus::remote_read::{push_query_result, push_series_frames, push_time_series};
use crate::prometheus::{decode_v1, snappy};

const WRITTEN: &[u8] =
    include_bytes!("../../../../../../testdata/wire/prometheus-2.42-read.written");
const SAMPLES: &[u8] =
    include_bytes!("../../../../../../testdata/wire/prometheus-2.42-read.samples");
const FRAMES: &[u8] = include_bytes!("../../../../../../testdata/wire/prometheus-2.42-read.frames");

type Gathered = (Vec<(i64, f64)>, Vec<HistogramSample>);

/// Gathers what was written, as a storage would answer it.
#[derive(Default)]
struct Stored {
    current: Option<Labels>,
    series: BTreeMap<Labels, Gathered>,
}

impl Stored {
    fn of(compressed: &[u8]) -> Vec<SeriesSamples> {
        let mut stored = Self::default();
        let mut buffer = Vec::new();
        let body = snappy::decompress(compressed, &mut buffer, 1 << 20).unwrap();
        decode_v1(body, &mut stored).unwrap();
        let series = stored.series.into_iter();
        series
            .map(|(labels, (floats, histograms))| series_of(labels, &floats, histograms))
            .collect()
    }
}

impl SampleSink for Stored {
    fn guess_series(&mut self, _: &[u8]) -> Option<usize> {
        None
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        let mut pairs = Vec::new();
        labels.parse(&mut pairs).unwrap();
        let labels = Labels::from_pairs(pairs.iter().copied());
        self.series.entry(labels.clone()).or_default();
        self.current = Some(labels);
    }

    fn sample(&mut self, sample: Sample) {
        let current = self.series.get_mut(self.current.as_ref().unwrap());
        current.unwrap().0.push((sample.timestamp_ms, sample.value));
    }

    fn histogram(&mut self, timestamp_ms: i64, _: i64, histogram: Histogram) {
        let current = self.series.get_mut(self.current.as_ref().unwrap());
        let histogram = Arc::new(histogram);
        current.unwrap().1.push(HistogramSample {
            timestamp_ms,
            histogram,
        });
    }

    fn exemplar(&mut self, _: Exemplar) {}

    fn metadata(&mut self, _: &str, _: Metadata) {}

    fn reject(&mut self, reason: String) {
        panic!("{reason}");
    }
}

fn series_of(
    labels: Labels,
    floats: &[(i64, f64)],
    histograms: Vec<HistogramSample>,
) -> SeriesSamples {
    SeriesSamples {
        labels,
        floats: FloatColumns {
            timestamps: floats.iter().map(|(t, _)| *t).collect::<TimeColumn>(),
            values: floats.iter().map(|(_, v)| *v).collect(),
        },
        histograms,
        start_timestamps: Vec::new(),
        forms: Default::default(),
        rolled: None,
    }
}

fn bits(floats: &[(i64, f64)]) -> Vec<(i64, u64)> {
    floats.iter().map(|(t, v)| (*t, v.to_bits())).collect()
}

#[test]
fn the_answer_with_samples_is_that_of_prometheus() {
    let mut content = Vec::new();
    for mut series in Stored::of(WRITTEN) {
        // Prometheus 2.42 left histograms out; 3 sends them. Both take −0 for 0 and leave it out.
        series.histograms.clear();
        for value in &mut series.floats.values {
            *value = if *value == 0.0 { 0.0 } else { *value };
        }
        push_time_series(&mut content, &series);
    }
    let mut response = Vec::new();
    push_query_result(&mut response, &[content]);
    let mut buffer = Vec::new();
    let expected = snappy::decompress(SAMPLES, &mut buffer, 1 << 20).unwrap();
    assert!(response == expected, "the two messages differ");
}

#[test]
fn chunks_are_those_of_prometheus_bit_by_bit() {
    let written = Stored::of(WRITTEN);
    let captured = frames(FRAMES);
    assert_eq!(captured.len(), written.len());
    let mut kinds = [0; 4];
    for (frame, series) in captured.iter().zip(&written) {
        let labels: Vec<(&str, &str)> = series.labels.iter().collect();
        let framed = frame.labels.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        assert!(framed.eq(labels));
        let mut floats = Vec::new();
        let mut histograms = Vec::new();
        for (start_ms, end_ms, encoding, data) in &frame.chunks {
            kinds[*encoding as usize] += 1;
            let again = match decode(*encoding, data) {
                ChunkSamples::Floats(samples) => {
                    let timestamps: Vec<i64> = samples.iter().map(|(t, _)| *t).collect();
                    let values: Vec<f64> =
                        samples.iter().map(|(_, v)| f64::from_bits(*v)).collect();
                    floats.extend(samples);
                    float_chunk_of(&timestamps, &values)
                }
                ChunkSamples::Histograms(samples) => {
                    let hint = samples[0].histogram.reset_hint;
                    let chunk = histogram_chunk_of(ResetHeader::of(hint), &samples);
                    histograms.extend(samples);
                    chunk
                }
            };
            assert_eq!((again.start_ms, again.end_ms), (*start_ms, *end_ms));
            assert_eq!(again.encoding as u64, *encoding);
            // Prometheus 2 may have an empty byte at the end, see the decoder.
            let same = again.data == *data || [&again.data[..], &[0]].concat() == *data;
            assert!(same, "{:?}: the chunks differ", frame.labels);
        }
        let values = series.floats.values.iter().map(|value| value.to_bits());
        let sent = series.floats.timestamps.iter().copied().zip(values);
        assert!(sent.eq(floats));
        // Prometheus recodes histograms into the layout of their chunk, so that only totals
        // compare.
        let totals = |sample: &HistogramSample| {
            let histogram = &sample.histogram;
            let count = match &histogram.counts {
                HistogramCounts::Integer { count, .. } => *count as f64,
                HistogramCounts::Float { count, .. } => *count,
            };
            (
                sample.timestamp_ms,
                histogram.sum.to_bits(),
                count.to_bits(),
            )
        };
        assert!(
            series
                .histograms
                .iter()
                .map(totals)
                .eq(histograms.iter().map(totals))
        );
    }
    // Enough of each kind to mean something.
    assert_eq!(kinds, [0, 8, 2, 1]);
}

/// Encodes a series, decodes its frames and compares.
#[track_caller]
fn check_round_trip(series: &SeriesSamples, frame_bytes_max: usize) -> Vec<decoder::Frame> {
    let mut out = Vec::new();
    push_series_frames(&mut out, 3, series, frame_bytes_max);
    let frames = frames(&out);
    let mut last_end = i64::MIN;
    let (mut floats, mut histograms) = (Vec::new(), Vec::new());
    for frame in &frames {
        assert_eq!(frame.query_index, 3);
        assert_eq!(frame.labels.len(), series.labels.len());
        assert_eq!(frame.chunks.is_empty(), series.sample_count() == 0);
        for (start, end, encoding, data) in &frame.chunks {
            assert!(last_end < *start && start <= end, "chunks are in order");
            last_end = *end;
            match decode(*encoding, data) {
                ChunkSamples::Floats(samples) => {
                    assert!(samples.len() <= CHUNK_SAMPLES_MAX);
                    assert_eq!(samples.first().unwrap().0, *start);
                    assert_eq!(samples.last().unwrap().0, *end);
                    floats.extend(samples);
                }
                ChunkSamples::Histograms(samples) => {
                    assert!(samples.len() <= CHUNK_SAMPLES_MAX);
                    assert_eq!(samples.first().unwrap().timestamp_ms, *start);
                    assert_eq!(samples.last().unwrap().timestamp_ms, *end);
                    histograms.extend(samples);
                }
            }
        }
    }
    let values = series.floats.values.iter().map(|value| value.to_bits());
    let expected: Vec<_> = series
        .floats
        .timestamps
        .iter()
        .copied()
        .zip(values)
        .collect();
    assert_eq!(floats, expected);
    assert_eq!(histograms.len(), series.histograms.len());
    for (read, sent) in histograms.iter().zip(&series.histograms) {
        assert_eq!(read.timestamp_ms, sent.timestamp_ms);
        if sent.histogram.is_stale() {
            assert!(read.histogram.is_stale());
        } else {
            let hint = read.histogram.reset_hint;
            let expected = Histogram {
                reset_hint: hint,
                ..(*sent.histogram).clone()
            };
            assert_eq!(*read.histogram, expected);
        }
    }
    frames
}

fn name() -> Labels {
    Labels::from_pairs([("__name__", "x")])
}

fn histogram(count: u64, deltas: &[i64], hint: CounterResetHint) -> Histogram {
    Histogram {
        schema: 0,
        reset_hint: hint,
        zero_threshold: 0.25,
        sum: count as f64,
        counts: HistogramCounts::Integer {
            count,
            zero_count: 0,
            positive_deltas: deltas.to_vec(),
            negative_deltas: Vec::new(),
        },
        positive_spans: vec![Span {
            offset: 0,
            length: deltas.len() as u32,
        }],
        negative_spans: Vec::new(),
        custom_bounds: Arc::from([]),
    }
}

fn hints_and_sizes(histograms: Vec<Histogram>) -> Vec<(CounterResetHint, usize)> {
    let histograms = histograms.into_iter().enumerate();
    let samples: Vec<HistogramSample> = histograms
        .map(|(i, histogram)| HistogramSample {
            timestamp_ms: i as i64,
            histogram: Arc::new(histogram),
        })
        .collect();
    let series = series_of(name(), &[], samples);
    check_round_trip(&series, 1 << 20);
    let mut found = Vec::new();
    encode_chunks(&series, |chunk| {
        let ChunkSamples::Histograms(samples) = decode(chunk.encoding as u64, &chunk.data) else {
            panic!("there are histograms only");
        };
        found.push((samples[0].histogram.reset_hint, samples.len()));
    });
    found
}

#[test]
fn histogram_chunks_end_where_a_reader_must_know() {
    use CounterResetHint::{Gauge, NotReset, Reset, Unknown};
    let h = histogram;
    let growing = |n: u64| {
        (1..=n)
            .map(|i| h(i, &[i as i64], Unknown))
            .collect::<Vec<_>>()
    };
    assert_eq!(hints_and_sizes(growing(3)), [(Unknown, 3)]);
    assert_eq!(
        hints_and_sizes(growing(121)),
        [(Unknown, 120), (Unknown, 1)]
    );
    // A reset that is marked, and two that are detected: in the count and in a bucket.
    let marked = vec![h(1, &[1], Unknown), h(2, &[2], Reset), h(3, &[3], NotReset)];
    assert_eq!(hints_and_sizes(marked), [(Unknown, 1), (Reset, 2)]);
    let seen = vec![h(5, &[5], Unknown), h(4, &[4], NotReset)];
    assert_eq!(hints_and_sizes(seen), [(Unknown, 1), (Reset, 1)]);
    let bucket = vec![h(5, &[4, -3], Unknown), h(6, &[3, 0], Unknown)];
    assert_eq!(hints_and_sizes(bucket), [(Unknown, 1), (Reset, 1)]);
    // Another layout is another chunk, and so are gauges, which may fall.
    let wider = vec![h(5, &[5], Unknown), h(6, &[5, -4], NotReset)];
    assert_eq!(hints_and_sizes(wider), [(Unknown, 1), (NotReset, 1)]);
    let gauges = vec![h(5, &[5], Unknown), h(5, &[5], Gauge), h(1, &[1], Gauge)];
    assert_eq!(hints_and_sizes(gauges), [(Unknown, 1), (Gauge, 2)]);
    let mut full = growing(120);
    full.push(h(1, &[1], Unknown));
    assert_eq!(hints_and_sizes(full), [(Unknown, 120), (Reset, 1)]);
    let stale = Histogram {
        sum: f64::from_bits(STALE_NAN_BITS),
        ..h(0, &[], Unknown)
    };
    let with_stale = vec![h(5, &[5], Unknown), stale, h(6, &[6], Unknown)];
    assert_eq!(
        hints_and_sizes(with_stale),
        [(Unknown, 1), (Unknown, 1), (Unknown, 1)]
    );
}

#[test]
fn frames_are_bounded_and_repeat_the_labels() {
    let samples: Vec<(i64, f64)> = (0..5000).map(|i| (i * 1000, (i as f64).sin())).collect();
    let series = series_of(name(), &samples, Vec::new());
    let frames = check_round_trip(&series, 4096);
    assert!(frames.len() > 5);
    // One chunk of 120 samples at most beyond what was asked for.
    assert!(frames.iter().all(|frame| frame.message_bytes < 4096 + 1300));
    assert_eq!(check_round_trip(&series, 1 << 20).len(), 1);
    // A bound that no chunk fits into: one chunk per frame.
    assert_eq!(check_round_trip(&series, 0).len(), 5000_usize.div_ceil(120));
    let labels_alone = check_round_trip(&series_of(name(), &[], Vec::new()), 4096);
    assert_eq!(labels_alone.len(), 1);
}

fn any_histogram() -> impl Strategy<Value = Histogram> {
    let bound = prop_oneof![
        (0u32..40_000_000).prop_map(|n| f64::from(n) / 1000.0),
        any::<f64>()
    ];
    let custom = proptest::collection::vec(bound, 1..4);
    let parts = (
        -4i8..=8,
        prop_oneof![
            Just(0.0),
            Just(1e-128),
            Just(0.001),
            (-250i32..15).prop_map(|e| 2f64.powi(e))
        ],
        any::<f64>(),
        proptest::collection::vec(any::<i64>(), 0..5),
        proptest::collection::vec(any::<f64>(), 0..5),
        (any::<u64>(), any::<u64>(), 0i32..3, any::<bool>()),
        proptest::option::of(custom),
    );
    parts.prop_map(
        |(schema, zero_threshold, sum, deltas, counts, numbers, custom)| {
            let (count, zero_count, hint, is_float) = numbers;
            let width = if is_float { counts.len() } else { deltas.len() };
            let span = |length: usize| Span {
                offset: hint - 1,
                length: length as u32,
            };
            let half = width / 2;
            Histogram {
                schema: if custom.is_some() { -53 } else { schema },
                reset_hint: CounterResetHint::from_number(hint as u64).unwrap(),
                zero_threshold,
                sum,
                counts: if is_float {
                    HistogramCounts::Float {
                        count: count as f64,
                        zero_count: zero_count as f64,
                        positive: counts[..half].to_vec(),
                        negative: counts[half..].to_vec(),
                    }
                } else {
                    HistogramCounts::Integer {
                        count,
                        zero_count,
                        positive_deltas: deltas[..half].to_vec(),
                        negative_deltas: deltas[half..].to_vec(),
                    }
                },
                positive_spans: vec![span(half)],
                negative_spans: vec![span(width - half)],
                custom_bounds: custom.unwrap_or_default().into(),
            }
        },
    )
}

proptest! {
    #[test]
    fn any_floats_come_back(
        start: i32,
        steps in proptest::collection::vec((1i64..1 << 40, any::<u64>(), 0u32..40), 0..300),
    ) {
        let mut time = i64::from(start);
        let samples: Vec<(i64, f64)> = steps.into_iter().map(|(step, value, shift)| {
            time += (step >> shift).max(1);
            (time, f64::from_bits(value >> shift << shift))
        }).collect();
        let series = series_of(name(), &samples, Vec::new());
        let frames = check_round_trip(&series, 2000);
        let without_chunks = frames.iter().all(|frame| frame.chunks.is_empty());
        prop_assert_eq!(without_chunks, bits(&samples).is_empty());
    }

    #[test]
    fn any_histograms_among_floats_come_back(
        samples in proptest::collection::vec(
            (1i64..100_000, proptest::option::weighted(0.8, any_histogram()), 1usize..5), 0..20),
    ) {
        let mut time = 0;
        let (mut floats, mut histograms) = (Vec::new(), Vec::new());
        for (step, histogram, repeats) in samples {
            for _ in 0..repeats {
                time += step;
                match &histogram {
                    None => floats.push((time, time as f64)),
                    Some(histogram) => histograms.push(HistogramSample {
                        timestamp_ms: time,
                        histogram: Arc::new(histogram.clone()),
                    }),
                }
            }
        }
        check_round_trip(&series_of(name(), &floats, histograms), 1000);
    }
}
