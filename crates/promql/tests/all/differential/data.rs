//! Random series, as exporters make them.
//!
//! Holds always:
//! - No sample lies on a whole second or a quarter of one; query times end in .5 and ranges do as
//!   the generator says, so that no sample is at the edge of a window, where versions differ.
//! - Values are integers or quarters, so that sums are exact in any order.
//! - Series are listed in the order of their labels, which is the order they get in either
//!   database.

use std::collections::BTreeMap;

use icecore_model::{CounterResetHint, Histogram, HistogramCounts, Labels, STALE_NAN_BITS, Span};
use icecore_promql::testing::{MetricKind, Random, Vocabulary};

pub(crate) const START_MS: i64 = 1_700_000_000_000;
pub(crate) const END_MS: i64 = START_MS + SCRAPES * INTERVAL_MS;
const SCRAPES: i64 = 180;
const INTERVAL_MS: i64 = 15_000;

const JOBS: [&str; 2] = ["api", "web"];
const INSTANCES: [&str; 3] = ["a:1", "b:1", "c:2"];
const CODES: [&str; 3] = ["200", "404", "500"];
const BOUNDS: [&str; 6] = ["0.1", "0.5", "1", "2.5", "10", "+Inf"];

pub(crate) type Series = BTreeMap<Labels, Vec<(i64, f64)>>;

pub(crate) type Histograms = BTreeMap<Labels, Vec<(i64, Histogram)>>;

pub(crate) fn vocabulary() -> Vocabulary {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
    let metric = |name: &str, kind| (name.to_string(), kind);
    Vocabulary {
        metrics: vec![
            metric("requests_total", MetricKind::Counter),
            metric("errors_total", MetricKind::Counter),
            metric("temperature", MetricKind::Gauge),
            metric("queue", MetricKind::Gauge),
            metric("flag", MetricKind::Gauge),
            metric("latency_bucket", MetricKind::Buckets),
        ],
        labels: vec![
            ("job".to_string(), texts(&JOBS)),
            ("instance".to_string(), texts(&INSTANCES)),
            ("code".to_string(), texts(&CODES)),
        ],
        times: [100, 1000, 1900, 2500]
            .map(|seconds| format!("{}.5", START_MS / 1000 + seconds))
            .into(),
    }
}

pub(crate) fn series(seed: u64) -> Series {
    let random = &mut Random::new(seed);
    let mut all = Series::new();
    for job in JOBS {
        for instance in INSTANCES {
            let labels = |name: &str, extra: &[(&str, &str)]| {
                let target = [("__name__", name), ("job", job), ("instance", instance)];
                Labels::from_pairs(target.into_iter().chain(extra.iter().copied()))
            };
            for code in CODES {
                // Not every target has every code.
                if code == "200" || !random.one_in(4) {
                    all.insert(labels("requests_total", &[("code", code)]), counter(random));
                }
            }
            all.insert(labels("errors_total", &[]), counter(random));
            all.insert(labels("temperature", &[]), gauge(random));
            all.insert(labels("queue", &[]), gauge_with_gaps(random));
            for (bound, samples) in BOUNDS.iter().zip(histogram(random)) {
                all.insert(labels("latency_bucket", &[("le", bound)]), samples);
            }
        }
        let labels = Labels::from_pairs([("__name__", "flag"), ("job", job)]);
        let flag = times(random).into_iter();
        all.insert(
            labels,
            flag.map(|time| (time, random.below(2) as f64)).collect(),
        );
    }
    all
}

/// Info metrics of targets: each changes its version at some time, and some have a branch.
pub(crate) fn infos(seed: u64) -> Series {
    let random = &mut Random::new(seed ^ 3);
    let mut all = Series::new();
    for job in JOBS {
        for instance in INSTANCES {
            let mut info = |name: &str, label: (&str, &str), samples: Vec<(i64, f64)>| {
                let target = [("__name__", name), ("job", job), ("instance", instance)];
                let labels = Labels::from_pairs(target.into_iter().chain([label]));
                all.insert(labels, samples);
            };
            let ones = |times: &[i64]| times.iter().map(|time| (*time, 1.0)).collect();
            let times = times(random);
            let (before, after) = times.split_at(random.below(times.len()));
            info("target_info", ("version", "1"), ones(before));
            info("target_info", ("version", "2"), ones(after));
            if random.one_in(2) {
                info("build_info", ("branch", "main"), ones(&times));
            }
        }
    }
    all.retain(|_, samples| !samples.is_empty());
    all
}

/// Series with a type that is added at some time: for a while there are two series that differ in
/// nothing else.
pub(crate) fn typed(seed: u64) -> Series {
    let random = &mut Random::new(seed ^ 4);
    let mut all = Series::new();
    for instance in INSTANCES {
        let target = [("__name__", "speed"), ("instance", instance)];
        let with_type = target.into_iter().chain([("__type__", "gauge")]);
        let mut samples = gauge_with_gaps(random);
        if instance == INSTANCES[0] {
            let untyped = samples.drain(..random.below(samples.len() / 2)).collect();
            all.insert(Labels::from_pairs(target), untyped);
        }
        all.insert(Labels::from_pairs(with_type), samples);
    }
    all.retain(|_, samples| !samples.is_empty());
    all
}

/// Native histograms that grow, are reset and change their resolution.
pub(crate) fn native_histograms(seed: u64) -> Histograms {
    let random = &mut Random::new(seed);
    let mut all = BTreeMap::new();
    for job in JOBS {
        for instance in INSTANCES {
            let name = ("__name__", "duration");
            let labels = Labels::from_pairs([name, ("instance", instance), ("job", job)]);
            let mut counts = [0.0; 5];
            let samples = times(random).into_iter().map(|time| {
                if random.one_in(60) {
                    counts = [0.0; 5];
                }
                counts
                    .iter_mut()
                    .for_each(|count| *count += random.below(4) as f64);
                let length = counts.len() as u32;
                let histogram = Histogram {
                    schema: random.pick(&[1, 1, 1, 0]),
                    reset_hint: CounterResetHint::Unknown,
                    zero_threshold: 0.001,
                    sum: counts.iter().sum::<f64>() * 2.0,
                    counts: HistogramCounts::Float {
                        count: counts.iter().sum(),
                        zero_count: 0.0,
                        positive: counts.to_vec(),
                        negative: Vec::new(),
                    },
                    positive_spans: vec![Span { offset: 0, length }],
                    negative_spans: Vec::new(),
                    custom_bounds: [].into(),
                };
                (time, histogram)
            });
            all.insert(labels, samples.collect());
        }
    }
    all
}

/// The times of the scrapes of one target.
fn times(random: &mut Random) -> Vec<i64> {
    let phase = random.within(0..INTERVAL_MS / 1000) * 1000;
    let jittered = (0..SCRAPES).map(|scrape| {
        let off_edges = random.within(1..50) + 50 * random.within(0..8);
        START_MS + phase + scrape * INTERVAL_MS + off_edges
    });
    jittered.collect()
}

/// Scrapes before which no counter is reset.
const STEADY: usize = 24;

/// Starts high and without gaps: see the known difference about extrapolation.
fn counter(random: &mut Random) -> Vec<(i64, f64)> {
    let mut value = random.within(1000..100_000) as f64;
    let speed = random.within(1..200);
    let samples = times(random).into_iter().enumerate().map(|(scrape, time)| {
        if random.one_in(60) && scrape >= STEADY {
            value = random.within(0..20) as f64;
        } else {
            value += random.within(0..speed) as f64;
        }
        (time, value)
    });
    samples.collect()
}

fn gauge(random: &mut Random) -> Vec<(i64, f64)> {
    let base = random.within(-40..80);
    let samples = times(random).into_iter().map(|time| {
        let value = match random.below(150) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            _ => base as f64 + random.within(-40..40) as f64 / 4.0,
        };
        (time, value)
    });
    samples.collect()
}

/// Some scrapes fail, about half of them with a staleness marker.
fn gauge_with_gaps(random: &mut Random) -> Vec<(i64, f64)> {
    let mut samples = Vec::new();
    let mut missing = 0;
    for time in times(random) {
        if missing > 0 {
            missing -= 1;
            continue;
        }
        if random.one_in(20) {
            missing = random.below(40);
            if random.one_in(2) {
                samples.push((time, f64::from_bits(STALE_NAN_BITS)));
            }
            continue;
        }
        samples.push((time, random.within(0..30) as f64));
    }
    samples
}

/// Cumulative buckets that are scraped together.
fn histogram(random: &mut Random) -> Vec<Vec<(i64, f64)>> {
    let times = times(random);
    let mut counts = [5000.0; BOUNDS.len()];
    let mut buckets = vec![Vec::new(); BOUNDS.len()];
    for (scrape, time) in times.into_iter().enumerate() {
        if random.one_in(90) && scrape >= STEADY {
            counts = [0.0; BOUNDS.len()];
        }
        for count in &mut counts {
            *count += random.within(0..8) as f64;
        }
        let mut sum = 0.0;
        for (samples, count) in buckets.iter_mut().zip(&counts) {
            sum += count;
            samples.push((time, sum));
        }
    }
    buckets
}
