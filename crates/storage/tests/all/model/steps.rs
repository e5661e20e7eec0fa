//! What can happen to a database, and how likely it is.

use icecore_model::{MatchOp, Matcher, Metadata, MetricType, NumberForm};
use icecore_storage::Options;
use proptest::prelude::*;
use proptest::sample::select;
use std::time::Duration;

use crate::requests::{Entry, SentLabels, exemplar, histogram, pairs};
use crate::support::{HOUR, T0};

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// One request.
    Write(Vec<Entry>),
    /// Requests that are under way together.
    Concurrent(Vec<Vec<Entry>>),
    Read(Question),
    Flush,
    /// A request that comes while a flush has decided what belongs to it and not yet marked it.
    FlushDuring(Vec<Entry>),
    /// Time passes and maintenance looks at it.
    Pass(i64),
    /// Memtables become files, so that there is something to compact.
    WriteMemtables,
    Crash,
    Restart,
    /// Flush and wait until the journal is drained. Takes a second.
    Drain,
    /// The window of some size around an hour becomes one bucket, if there is something to press;
    /// with `writes_max` the job is interrupted.
    Coarsen {
        exponent: u8,
        hour: i64,
        writes_max: Option<u64>,
    },
    /// Late samples join the columns of the buckets they came to.
    Fold,
    /// Something is deleted.
    Delete(Question),
    /// What was deleted leaves the records.
    Clean,
    /// A selection is opened and not read before [`Step::FinishReading`].
    BeginReading,
    FinishReading,
}

/// A selector with a time range.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) selectors: Vec<Vec<Matcher>>,
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
    pub(crate) limit: Option<usize>,
}

/// Settings that decide which paths a case takes.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    epoch_bytes_max: usize,
    flush_bytes: usize,
    idle_s: u64,
    batch_records: usize,
    batch_series: usize,
    chunk_cache_bytes: usize,
    /// How long ago everything is that is written: flushes go to hours, or to coarse buckets.
    pub(crate) age_days: i64,
}

impl Settings {
    pub(crate) fn apply(&self, options: &mut Options) {
        options.journal.epoch_bytes_max = self.epoch_bytes_max;
        options.head.flush_bytes = Some(self.flush_bytes);
        options.head.series_idle_max = Duration::from_secs(self.idle_s);
        options.head.flush_batch_records = self.batch_records;
        options.read.batch_series = self.batch_series;
        options.read.chunk_cache_bytes = self.chunk_cache_bytes;
    }
}

pub(crate) fn settings() -> impl Strategy<Value = Settings> {
    (
        select(vec![1, 300, 64 << 20]),
        select(vec![1, 3000, 512 << 20]),
        select(vec![3600, 60]),
        select(vec![4096, 1, 7]),
        select(vec![1024, 1, 2]),
        select(vec![128 << 20, 0, 6_000]),
        select(vec![0, 0, 3, 50, 300]),
    )
        .prop_map(
            |(
                epoch_bytes_max,
                flush_bytes,
                idle_s,
                batch_records,
                batch_series,
                cache,
                age_days,
            )| {
                Settings {
                    epoch_bytes_max,
                    flush_bytes,
                    idle_s,
                    batch_records,
                    batch_series,
                    chunk_cache_bytes: cache,
                    age_days,
                }
            },
        )
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        40 => request(8).prop_map(Step::Write),
        6 => prop::collection::vec(request(4), 2..5).prop_map(Step::Concurrent),
        12 => question().prop_map(Step::Read),
        8 => Just(Step::Flush),
        8 => request(4).prop_map(Step::FlushDuring),
        12 => select(vec![30_000, 60_000, 90_000, 180_000, 3_000_000, 12_000_000])
            .prop_map(Step::Pass),
        2 => Just(Step::WriteMemtables),
        6 => Just(Step::Crash),
        3 => Just(Step::Restart),
        12 => coarsen(),
        4 => Just(Step::Fold),
        10 => question().prop_map(Step::Delete),
        3 => Just(Step::Clean),
        4 => Just(Step::BeginReading),
        4 => Just(Step::FinishReading),
    ];
    // Draining costs a second, so it comes once in a while and not within what is shrunk.
    (
        prop::collection::vec(step, 1..40),
        prop::bool::weighted(0.03),
    )
        .prop_map(|(mut steps, drain)| {
            if drain {
                steps.insert(steps.len() / 2, Step::Drain);
            }
            steps
        })
}

/// Hours around `T0` lie in two windows of 4 h and of 16 h.
fn coarsen() -> impl Strategy<Value = Step> {
    let writes_max = prop_oneof![3 => Just(None), 1 => (0u64..12).prop_map(Some)];
    (select(vec![2u8, 3, 4, 5, 7, 9]), 0..4i64, writes_max).prop_map(
        |(exponent, hour, writes_max)| Step::Coarsen {
            exponent,
            hour,
            writes_max,
        },
    )
}

fn request(entries_max: usize) -> impl Strategy<Value = Vec<Entry>> {
    prop::collection::vec(entry(), 1..=entries_max)
}

fn entry() -> impl Strategy<Value = Entry> {
    let float = NumberForm::FLOAT.as_start();
    let start = select(vec![0, 0, 0, T0 - 1, T0 + 5, float]);
    let float =
        (sent_labels(), time(), value(), start.clone()).prop_map(|(labels, time, value, start)| {
            Entry::Float {
                labels,
                time,
                value,
                start,
            }
        });
    let histogram =
        (sent_labels(), time(), 0u64..5, start).prop_map(|(labels, time, size, start)| {
            Entry::Histogram {
                labels,
                time,
                value: histogram(size),
                start,
            }
        });
    let exemplar = (sent_labels(), time(), select(vec!["1", "22", "333"])).prop_map(
        |(labels, time, trace)| Entry::Exemplar {
            labels,
            exemplar: exemplar(time, trace),
        },
    );
    let metadata = (
        select(vec!["m", "n_total", "other"]),
        select(MetricType::ALL.to_vec()),
        select(vec!["", "s"]),
        select(vec!["", "says what"]),
    )
        .prop_map(|(family, metric_type, unit, help)| Entry::Metadata {
            family: family.into(),
            metadata: Metadata {
                metric_type,
                unit: unit.into(),
                help: help.into(),
                ..Metadata::default()
            },
        });
    prop_oneof![20 => float, 4 => histogram, 2 => exemplar, 1 => metadata]
}

/// One of a few series, its labels in one of the orders a client may use.
fn sent_labels() -> impl Strategy<Value = SentLabels> {
    let series = select(vec![
        pairs(&[("__name__", "m"), ("a", "1")]),
        pairs(&[("__name__", "m"), ("a", "2")]),
        pairs(&[("__name__", "m"), ("a", "1"), ("b", "x")]),
        pairs(&[("__name__", "m")]),
        pairs(&[
            ("__name__", "n"),
            ("A", "upper"),
            ("a", "1"),
            ("ü", "é\u{1}"),
        ]),
        pairs(&[("__name__", "n"), ("zone", "east\0west")]),
    ]);
    (series, 0..4u8).prop_map(|(mut labels, form)| {
        match form {
            0 | 1 => {}
            2 => labels.reverse(),
            _ => labels.insert(1, ("empty".into(), String::new())),
        }
        labels
    })
}

/// Few enough times that they meet again, the bounds of hours among them.
pub(crate) fn time() -> impl Strategy<Value = i64> {
    let within = prop_oneof![
        3 => (0..8i64).prop_map(|i| i * 15_000),
        1 => select(vec![0, 1, HOUR - 1]),
    ];
    (0..4i64, within).prop_map(|(hour, within)| T0 + hour * HOUR + within)
}

fn value() -> impl Strategy<Value = f64> {
    let odd = [
        0x7ff0_0000_0000_0002,
        0x7ff8_0000_0000_0001,
        0xfff8_0000_dead_beef,
        (-0.0f64).to_bits(),
        f64::INFINITY.to_bits(),
        f64::NEG_INFINITY.to_bits(),
        1,
    ];
    prop_oneof![
        4 => (0..5i32).prop_map(f64::from),
        1 => select(odd.to_vec()).prop_map(f64::from_bits),
    ]
}

fn question() -> impl Strategy<Value = Question> {
    let selector = prop::collection::vec(matcher(), 1..4);
    let range = (time(), time(), 0..4u8).prop_map(|(a, b, kind)| match kind {
        0 => (i64::MIN, i64::MAX),
        1 => (a, a),
        _ => (a.min(b), a.max(b)),
    });
    let limit = select(vec![None, None, Some(0), Some(1), Some(2), Some(100)]);
    (prop::collection::vec(selector, 0..3), range, limit).prop_map(
        |(selectors, (start_ms, end_ms), limit)| Question {
            selectors,
            start_ms,
            end_ms,
            limit,
        },
    )
}

fn matcher() -> impl Strategy<Value = Matcher> {
    let name = select(vec!["__name__", "a", "b", "A", "ü", "zone", "nothing"]);
    let op = select(vec![
        MatchOp::Equal,
        MatchOp::NotEqual,
        MatchOp::Regex,
        MatchOp::NotRegex,
    ]);
    let value = select(vec![
        "m", "n", "1", "2", "x", "", "m|n", "1|x|", "1|2", ".*", ".+", "[12]", "e.*", "east.*",
        "upp.+", "(m|)", "é.",
    ]);
    (name, op, value).prop_map(|(name, op, value)| {
        Matcher::new(op, name, value).expect("the patterns above are valid")
    })
}
