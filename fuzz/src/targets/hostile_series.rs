//! Series as a broken or malicious client would send them, in memory.

use std::sync::Arc;

use icecore_model::{
    CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Histogram, HistogramCounts, Labels, STALE_NAN_BITS,
    Span,
};
use icecore_promql::MemorySource;
use icecore_promql::script::{LoadedSample, LoadedValue};
use icecore_promql::testing::Random;

/// Where most of the samples begin.
pub(super) const DATA_MS: i64 = 1_700_000_000_000;

const SAMPLES: usize = 40;

const VALUES: [f64; 12] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    -0.0,
    0.0,
    1e300,
    9_223_372_036_854_775_808.0,
    f64::from_bits(STALE_NAN_BITS),
];

pub(super) fn source(seed: u64) -> MemorySource {
    let random = &mut Random::new(seed);
    let mut source = MemorySource::default();
    for job in ["api", "web"] {
        for instance in ["a", "b", "ü"] {
            let labels = |name: &str, le: &str| {
                let pairs = [
                    ("__name__", name),
                    ("instance", instance),
                    ("job", job),
                    ("le", le),
                ];
                Labels::from_pairs(pairs.into_iter().filter(|(_, value)| !value.is_empty()))
            };
            add(&mut source, random, &labels("requests_total", ""), counter);
            add(&mut source, random, &labels("wild", ""), wild);
            add(&mut source, random, &labels("latency", ""), histogram);
            add(&mut source, random, &labels("target_info", ""), |_| {
                LoadedValue::Float(1.0)
            });
            add(
                &mut source,
                random,
                &labels("mixed", ""),
                |random| match random.below(3) {
                    0 => histogram(random),
                    1 => wild(random),
                    _ => counter(random),
                },
            );
            for le in ["0.5", "NaN", "+Inf", "-Inf", "no number"] {
                add(&mut source, random, &labels("latency_bucket", le), wild);
            }
        }
    }
    source
}

/// Adds the samples of a series, most of them at usual times.
fn add(
    source: &mut MemorySource,
    random: &mut Random,
    labels: &Labels,
    value: fn(&mut Random) -> LoadedValue,
) {
    let mut usual = DATA_MS;
    for _ in 0..SAMPLES {
        usual += random.pick(&[15_000, 15_000, 1, 60_000]);
        let edges = [
            i64::MIN,
            i64::MAX,
            0,
            -1,
            i64::MAX - 300_000,
            i64::MIN + 300_000,
        ];
        let timestamp_ms = if random.one_in(16) {
            random.pick(&edges)
        } else {
            usual
        };
        let start_ms = random
            .one_in(5)
            .then(|| random.pick(&[i64::MIN, i64::MAX, 0, usual - 1]));
        let sample = LoadedSample {
            timestamp_ms,
            value: value(random),
            start_ms,
        };
        source.add(labels, sample);
    }
}

fn counter(random: &mut Random) -> LoadedValue {
    LoadedValue::Float(if random.one_in(10) {
        random.pick(&VALUES)
    } else {
        random.within(0..1000) as f64
    })
}

fn wild(random: &mut Random) -> LoadedValue {
    LoadedValue::Float(if random.one_in(3) {
        f64::from_bits(random.bits())
    } else {
        random.pick(&VALUES)
    })
}

/// Mostly well formed; else spans, counts and bounds contradict each other.
fn histogram(random: &mut Random) -> LoadedValue {
    let sane = random.one_in(2);
    let schema = if sane {
        random.pick(&[0, 3, CUSTOM_BUCKETS_SCHEMA])
    } else {
        random.pick(&[-4, 8, CUSTOM_BUCKETS_SCHEMA, i8::MAX, i8::MIN, 0])
    };
    let count = |random: &mut Random| {
        if sane || !random.one_in(3) {
            random.below(20) as f64
        } else {
            random.pick(&VALUES)
        }
    };
    let buckets = |random: &mut Random| -> Vec<f64> {
        let len = random.below(8);
        (0..len).map(|_| count(random)).collect()
    };
    let (positive, mut negative) = (buckets(random), buckets(random));
    if sane && schema == CUSTOM_BUCKETS_SCHEMA {
        negative.clear();
    }
    let spans = |random: &mut Random, buckets: &[f64]| -> Vec<Span> {
        if sane {
            let length = buckets.len() as u32;
            let span = Span {
                offset: random.below(3) as i32,
                length,
            };
            return Vec::from_iter((length > 0).then_some(span));
        }
        let span = |random: &mut Random| Span {
            offset: random.pick(&[0, 1, -7, i32::MAX, i32::MIN, 1000]),
            length: random.pick(&[0, 1, 3, 8, u32::MAX]),
        };
        (0..random.below(4)).map(|_| span(random)).collect()
    };
    let bounds = if random.one_in(3) && !sane {
        (0..random.below(6)).map(|_| random.pick(&VALUES)).collect()
    } else {
        [0.5, 1.0, 2.5, 10.0, 25.0, 50.0, 100.0, 200.0, 500.0].to_vec()
    };
    let hints = [
        CounterResetHint::Unknown,
        CounterResetHint::Reset,
        CounterResetHint::Gauge,
    ];
    LoadedValue::Histogram(Arc::new(Histogram {
        schema,
        reset_hint: random.pick(&hints),
        zero_threshold: count(random),
        sum: count(random),
        positive_spans: spans(random, &positive),
        negative_spans: spans(random, &negative),
        counts: HistogramCounts::Float {
            count: count(random) * 8.0,
            zero_count: count(random),
            positive,
            negative,
        },
        custom_bounds: Arc::from(bounds),
    }))
}
