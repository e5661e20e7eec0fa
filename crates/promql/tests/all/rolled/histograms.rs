//! Native histograms over rolled-up time, compared with the same over samples.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use icecore_model::{
    CUSTOM_BUCKETS_SCHEMA, CounterResetHint, FloatHistogram, Histogram, HistogramCounts,
    STALE_NAN_BITS, Span,
};
use icecore_promql::testing::Random;

use super::differential::random_levels;
use super::*;

const STALE: f64 = f64::from_bits(STALE_NAN_BITS);

/// What a series is like.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Counter,
    FloatCounter,
    Custom,
    Gauge,
    /// With hints of all kinds, some of them wrong.
    Hinted,
    /// The schema and the zero bucket become coarser, and finer after resets.
    Layouts,
    /// The custom bounds change.
    Bounds,
    /// Long runs of floats and of histograms.
    Mixed,
    /// Runs of exponential and of custom buckets.
    BothBuckets,
}

const KINDS: [Kind; 9] = [
    Kind::Counter,
    Kind::FloatCounter,
    Kind::Custom,
    Kind::Gauge,
    Kind::Hinted,
    Kind::Layouts,
    Kind::Bounds,
    Kind::Mixed,
    Kind::BothBuckets,
];

impl Kind {
    /// Whether all histograms have the same layout, which the answers have then, too.
    fn has_one_layout(self) -> bool {
        !matches!(self, Self::Layouts | Self::Bounds | Self::BothBuckets)
    }
}

/// Makes the histograms of a series.
struct Generator {
    kind: Kind,
    /// Observations in the finest layout.
    counts: [u64; 8],
    sum: f64,
    schema: i8,
    zero_threshold: f64,
    is_custom: bool,
    bounds: usize,
}

const BOUNDS: [&[f64]; 3] = [
    &[1.0, 2.0, 5.0, 10.0, 20.0],
    &[1.0, 5.0, 10.0, 30.0],
    &[2.0, 5.0, 20.0],
];

impl Generator {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            counts: [3; 8],
            sum: 10.25,
            schema: 3,
            zero_threshold: 1e-6,
            is_custom: matches!(kind, Kind::Custom | Kind::Bounds),
            bounds: 0,
        }
    }

    fn next(&mut self, random: &mut Random) -> Histogram {
        let is_gauge = self.kind == Kind::Gauge;
        if is_gauge || random.one_in(40) {
            self.counts = self.counts.map(|_| random.within(0..5) as u64);
            self.sum = random.within(0..90) as f64 / 8.0;
            if self.kind == Kind::Layouts {
                self.schema = random.pick(&[3, 4]);
                self.zero_threshold = 1e-6;
            }
        }
        for count in &mut self.counts {
            *count += random.within(0..9) as u64;
        }
        self.sum += random.within(0..800) as f64 / 8.0;
        match self.kind {
            Kind::Layouts if random.one_in(50) => self.schema = (self.schema - 1).max(0),
            Kind::Layouts if random.one_in(60) => self.zero_threshold = 1e-5,
            Kind::Bounds if random.one_in(50) => self.bounds = random.below(BOUNDS.len()),
            Kind::BothBuckets if random.one_in(60) => self.is_custom = !self.is_custom,
            _ => {}
        }
        let reset_hint = match self.kind {
            Kind::Gauge => CounterResetHint::Gauge,
            Kind::Hinted => random.pick_weighted(&[
                (30, CounterResetHint::Unknown),
                (10, CounterResetHint::NotReset),
                (2, CounterResetHint::Reset),
                (1, CounterResetHint::Gauge),
            ]),
            _ => CounterResetHint::Unknown,
        };
        Histogram {
            reset_hint,
            ..self.stored()
        }
    }

    fn stored(&self) -> Histogram {
        if self.is_custom {
            let bounds = BOUNDS[self.bounds];
            let counts = self.counts[..=bounds.len()].iter();
            let positive: Vec<f64> = counts.map(|count| *count as f64).collect();
            let histogram = FloatHistogram {
                schema: CUSTOM_BUCKETS_SCHEMA,
                count: positive.iter().sum(),
                sum: self.sum,
                positive_spans: vec![span(0, positive.len())],
                positive,
                custom_bounds: bounds.into(),
                ..FloatHistogram::default()
            };
            return histogram.to_model();
        }
        let float = |counts: &[u64]| -> Vec<f64> { counts.iter().map(|c| *c as f64).collect() };
        let [zero, ..] = self.counts;
        let (positive, negative) = (float(&self.counts[1..6]), float(&self.counts[6..]));
        let histogram = FloatHistogram {
            schema: 4,
            zero_threshold: self.zero_threshold,
            zero_count: zero as f64,
            count: float(&self.counts).iter().sum(),
            sum: self.sum,
            positive_spans: vec![span(-3, 2), span(4, 3)],
            negative_spans: vec![span(1, 2)],
            positive,
            negative,
            ..FloatHistogram::default()
        };
        let coarse = histogram.copy_to_schema(self.schema).to_model();
        if self.kind == Kind::FloatCounter {
            coarse
        } else {
            with_integers(coarse)
        }
    }
}

fn span(offset: i32, length: usize) -> Span {
    Span {
        offset,
        length: length as u32,
    }
}

/// The same with integer counts.
fn with_integers(histogram: Histogram) -> Histogram {
    let HistogramCounts::Float {
        count,
        zero_count,
        positive,
        negative,
    } = &histogram.counts
    else {
        return histogram;
    };
    let deltas = |counts: &[f64]| -> Vec<i64> {
        let before = [0.0].into_iter().chain(counts.iter().copied());
        let deltas = counts.iter().zip(before);
        deltas
            .map(|(count, before)| (count - before) as i64)
            .collect()
    };
    Histogram {
        counts: HistogramCounts::Integer {
            count: *count as u64,
            zero_count: *zero_count as u64,
            positive_deltas: deltas(positive),
            negative_deltas: deltas(negative),
        },
        ..histogram
    }
}

/// Samples with gaps, stale markers of both kinds, and samples on the grid.
fn samples(random: &mut Random, kind: Kind, hours: i64) -> Vec<LoadedSample> {
    let interval_ms = random.pick(&[MINUTE_MS, 2 * MINUTE_MS, 7 * MINUTE_MS, 37 * MINUTE_MS]);
    let shift_ms = random.pick(&[0, 0, 1, 3_217]);
    let mut generator = Generator::new(kind);
    let mut samples = Vec::new();
    let mut time = random.within(0..20) * MINUTE_MS + shift_ms;
    let (mut is_float, mut switch_ms) = (false, 0);
    while time < hours * HOUR_MS {
        // Longer than a window, so that floats and histograms alternate in none.
        if kind == Kind::Mixed && time >= switch_ms {
            is_float = !is_float;
            switch_ms = time + random.within(70..400) * MINUTE_MS;
        }
        let value = match (random.one_in(40), is_float) {
            (true, true) => LoadedValue::Float(STALE),
            (true, false) => LoadedValue::Histogram(Arc::new(Histogram::stale())),
            (false, true) => LoadedValue::Float(random.within(0..1000) as f64 / 8.0),
            (false, false) => LoadedValue::Histogram(Arc::new(generator.next(random))),
        };
        samples.push(LoadedSample {
            timestamp_ms: time,
            value,
            start_ms: None,
        });
        time += interval_ms;
        if random.one_in(50) {
            time += interval_ms * random.within(1..60);
        }
    }
    samples
}

/// A series of each kind.
fn random_source(random: &mut Random, hours: i64) -> MemorySource {
    let mut source = MemorySource::default();
    for (id, kind) in KINDS.into_iter().enumerate() {
        let labels = Labels::from_pairs([("__name__", "x"), ("id", &id.to_string())]);
        for sample in samples(random, kind, hours) {
            source.add(&labels, sample);
        }
    }
    source
}

#[derive(Debug)]
enum Value {
    Float(f64),
    Histogram(Arc<FloatHistogram>),
}

type Row = BTreeMap<i64, Value>;

fn rows(answer: &Answer) -> BTreeMap<String, Row> {
    let QueryValue::Matrix(series) = &answer.value else {
        panic!("not a matrix");
    };
    let of_series = |series: &icecore_promql::MatrixSeries| {
        let floats = series
            .floats()
            .map(|(time, value)| (time, Value::Float(value)));
        let histograms = series.histograms();
        let histograms = histograms.map(|(time, of)| (time, Value::Histogram(Arc::clone(of))));
        let name = series.labels.get("id").unwrap_or_default().to_owned();
        (name, floats.chain(histograms).collect())
    };
    series.iter().map(of_series).collect()
}

/// Whether two histograms are the same up to rounding; `found` may have a coarser layout unless
/// `is_strict`.
fn is_same(expected: &FloatHistogram, found: &FloatHistogram, is_strict: bool) -> bool {
    let layout = |of: &FloatHistogram| (of.schema, of.zero_threshold, of.custom_bounds.to_vec());
    if is_strict && (layout(expected) != layout(found) || expected.reset_hint != found.reset_hint) {
        return false;
    }
    let mut difference = expected.clone();
    if found.schema > expected.schema || difference.sub(found).is_err() {
        return false;
    }
    let totals = [difference.count, difference.sum, difference.zero_count];
    let buckets = difference.positive.iter().chain(&difference.negative);
    let mut counts = totals.iter().chain(buckets);
    counts.all(|count| count.abs() <= 1e-9 * (1.0 + expected.count.abs() + expected.sum.abs()))
}

/// The remarks of an answer, without those about rolled-up time.
fn remarks(answer: &Answer) -> BTreeSet<String> {
    let is_of_rollup = |text: &String| {
        let parts = ["rolled-up data", "evaluation times", "estimated from"];
        parts.iter().any(|part| text.contains(part))
    };
    let all = answer.infos.iter().chain(&answer.warnings);
    all.filter(|text| !is_of_rollup(text)).cloned().collect()
}

/// Compares the answers to a query about one series; returns how many values there were.
fn compare(
    samples: &dyn SeriesSource,
    rolled: &dyn SeriesSource,
    kind: Kind,
    request: &Request,
) -> usize {
    let context = || format!("{kind:?} {} {:?}", request.query, request.time);
    let answer = |source| execute(source, request).unwrap_or_else(|e| panic!("{}: {e}", context()));
    let (expected, found) = (answer(samples), answer(rolled));
    let remarks = (remarks(&expected), remarks(&found));
    let (expected, mut found) = (rows(&expected), rows(&found));
    // A first histogram of another kind than the others, followed by a reset inside of its window:
    // its samples would tell that it does not matter. And what lies between the ends of a window is
    // not read for a difference.
    let may_differ = kind == Kind::BothBuckets && !request.query.contains("over_time");
    let mut compared = 0;
    for (name, expected) in &expected {
        let mut found = found.remove(name).unwrap_or_default();
        for (time, expected) in expected {
            let value = found.remove(time);
            if value.is_none() && may_differ {
                continue;
            }
            let is_right = match (expected, &value) {
                (Value::Float(expected), Some(Value::Float(found))) => {
                    is_close(*expected, *found) || (expected - found).abs() < 1e-9
                }
                (Value::Histogram(expected), Some(Value::Histogram(found))) => {
                    is_same(expected, found, kind.has_one_layout())
                }
                _ => false,
            };
            assert!(
                is_right,
                "at {time}: {value:?}\nexpected {expected:?}\n{}",
                context()
            );
            compared += 1;
        }
        assert!(
            found.is_empty() || may_differ,
            "too much: {found:?}\n{}",
            context()
        );
    }
    assert!(
        found.is_empty() || may_differ,
        "too many: {found:?}\n{}",
        context()
    );
    let unknown = |text: &&String| text.contains("conflicting counter reset");
    if kind.has_one_layout() {
        let lacking: Vec<_> = remarks.0.difference(&remarks.1).collect();
        let lacking = lacking.iter().filter(|text| !unknown(text)).count();
        assert_eq!(lacking, 0, "{remarks:?} {}", context());
        let invented = remarks.1.difference(&remarks.0).count();
        assert_eq!(invented, 0, "{remarks:?} {}", context());
    }
    compared
}

/// Functions of a range, which stands for `$`.
const RANGE_FUNCTIONS: &[&str] = &[
    "rate($)",
    "increase($)",
    "delta($)",
    "sum_over_time($)",
    "avg_over_time($)",
    "count_over_time($)",
    "first_over_time($)",
    "last_over_time($)",
    "ts_of_first_over_time($)",
    "ts_of_last_over_time($)",
    "present_over_time($)",
    "absent_over_time($)",
    "changes($)",
    "resets($)",
    "min_over_time($)",
    "stddev_over_time($)",
    "rate($ anchored)",
    "increase($ anchored)",
    "delta($ anchored)",
    "changes($ anchored)",
    "resets($ anchored)",
    "rate($ smoothed)",
    "increase($ smoothed)",
    "delta($ smoothed)",
    "histogram_count(increase($))",
    "histogram_sum(rate($))",
    "histogram_avg(sum_over_time($))",
];

/// Functions that depend on the layout, and mean nothing where counts fall without a reset.
const COUNTER_FUNCTIONS: &[&str] = &[
    "histogram_quantile(0.9, sum(rate($)))",
    "histogram_fraction(0, 3, increase($))",
];

const INSTANT_FUNCTIONS: &[&str] = &[
    "x$",
    "timestamp(x$)",
    "x$ smoothed",
    "absent(x$)",
    "histogram_count(x$)",
    "histogram_quantile(0.5, x$)",
];

#[test]
fn windows_of_histograms_answer_as_histograms_do() {
    const HOURS: i64 = 26;
    let mut compared = 0;
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let samples = random_source(&mut random, HOURS);
        let rolled = RolledSource {
            reads_before_ms: random.pick(&[0, 0, 2 * HOUR_MS]),
            kept: random_levels(&mut random, HOURS),
            samples: samples.clone(),
        };
        let time = QueryTime::Range {
            start_ms: 0,
            end_ms: (HOURS + 3) * HOUR_MS,
            step_ms: HOUR_MS,
        };
        for (id, kind) in KINDS.into_iter().enumerate() {
            let is_counter = kind.has_one_layout() && !matches!(kind, Kind::Gauge | Kind::Hinted);
            let of_counters = COUNTER_FUNCTIONS.iter().filter(|_| is_counter);
            for function in RANGE_FUNCTIONS.iter().chain(of_counters) {
                let hours = random.pick(&[1, 1, 2, 5, 24]);
                let offset = random.pick(&["", "", " offset 2h"]);
                let (name, rest) = function.split_once('$').unwrap();
                let (modifier, end) = rest.split_at(rest.find(')').unwrap());
                let range = format!("x{{id=\"{id}\"}}[{hours}h]");
                let query = format!("{name}{range}{modifier}{offset}{end}");
                compared += compare(&samples, &rolled, kind, &request(&query, time));
            }
            for function in INSTANT_FUNCTIONS {
                let query = function.replace('$', &format!("{{id=\"{id}\"}}"));
                compared += compare(&samples, &rolled, kind, &request(&query, time));
            }
        }
    }
    println!("compared {compared} values");
    assert!(compared >= 100_000, "{compared}");
}
