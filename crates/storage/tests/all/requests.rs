//! Requests as values: what a client may send, and how it is handed to the database.

use std::fmt;

use icecore_model::{
    CounterResetHint, Exemplar, Histogram, HistogramCounts, Labels, Metadata, RawLabels, Sample,
    SampleSink, Span, push_raw_label,
};
use icecore_storage::{Database, WriteError, WriteOutcome};

use crate::support::T0;

/// Labels as a client sends them: any order, empty values included.
pub(crate) type SentLabels = Vec<(String, String)>;

/// One thing in a request.
#[derive(Clone)]
pub(crate) enum Entry {
    Float {
        labels: SentLabels,
        time: i64,
        value: f64,
        start: i64,
    },
    Histogram {
        labels: SentLabels,
        time: i64,
        value: Histogram,
        start: i64,
    },
    Exemplar {
        labels: SentLabels,
        exemplar: Exemplar,
    },
    Metadata {
        family: String,
        metadata: Metadata,
    },
}

impl Entry {
    /// A sample of `m{series="…"}`.
    pub(crate) fn float(series: &str, time: i64, value: f64) -> Self {
        Self::Float {
            labels: labels_of(series),
            time,
            value,
            start: 0,
        }
    }

    pub(crate) fn histogram(series: &str, time: i64, size: u64) -> Self {
        Self::Histogram {
            labels: labels_of(series),
            time,
            value: histogram(size),
            start: 0,
        }
    }

    pub(crate) fn exemplar(series: &str, time: i64, trace: &str) -> Self {
        Self::Exemplar {
            labels: labels_of(series),
            exemplar: exemplar(time, trace),
        }
    }

    pub(crate) fn metadata(family: &str, help: &str) -> Self {
        Self::Metadata {
            family: family.into(),
            metadata: Metadata {
                help: help.into(),
                ..Metadata::default()
            },
        }
    }

    /// The same with a start timestamp.
    pub(crate) fn starting(mut self, at: i64) -> Self {
        match &mut self {
            Self::Float { start, .. } | Self::Histogram { start, .. } => *start = at,
            _ => {}
        }
        self
    }

    /// The same with other labels.
    pub(crate) fn labelled(mut self, sent: SentLabels) -> Self {
        match &mut self {
            Self::Float { labels, .. }
            | Self::Histogram { labels, .. }
            | Self::Exemplar { labels, .. } => *labels = sent,
            Self::Metadata { .. } => {}
        }
        self
    }

    fn give(self, sink: &mut impl SampleSink) {
        match self {
            Self::Float {
                labels,
                time,
                value,
                start,
            } => {
                sink.series(RawLabels(&raw(&labels)));
                sink.sample(Sample {
                    timestamp_ms: time,
                    value,
                    start_timestamp_ms: start,
                });
            }
            Self::Histogram {
                labels,
                time,
                value,
                start,
            } => {
                sink.series(RawLabels(&raw(&labels)));
                sink.histogram(time, start, value);
            }
            Self::Exemplar { labels, exemplar } => {
                sink.series(RawLabels(&raw(&labels)));
                sink.exemplar(exemplar);
            }
            Self::Metadata { family, metadata } => sink.metadata(&family, metadata),
        }
    }
}

impl fmt::Debug for Entry {
    /// Short, because failing cases print many of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float {
                labels,
                time,
                value,
                start,
            } => {
                write!(f, "{} @{} = {value}", sent(labels), at(*time))?;
                show_start(f, *start)
            }
            Self::Histogram {
                labels,
                time,
                value,
                start,
            } => {
                write!(f, "{} @{} = h{}", sent(labels), at(*time), value.sum)?;
                show_start(f, *start)
            }
            Self::Exemplar { labels, exemplar } => {
                let time = at(exemplar.timestamp_ms);
                write!(f, "{} @{time} # {}", sent(labels), exemplar.labels)
            }
            Self::Metadata { family, metadata } => write!(f, "{family}: {metadata:?}"),
        }
    }
}

fn sent(labels: &SentLabels) -> String {
    let pairs: Vec<String> = labels.iter().map(|(n, v)| format!("{n}={v:?}")).collect();
    pairs.join(",")
}

fn at(time: i64) -> String {
    format!("T0+{}", time.wrapping_sub(T0))
}

fn show_start(f: &mut fmt::Formatter<'_>, start: i64) -> fmt::Result {
    match start {
        0 => Ok(()),
        start => write!(f, " since {}", at(start)),
    }
}

/// Sends one request.
pub(crate) async fn request(
    db: &Database,
    entries: Vec<Entry>,
) -> Result<WriteOutcome, WriteError<()>> {
    db.write(move |batch| {
        for entry in entries {
            entry.give(batch);
        }
        Ok(())
    })
    .await
}

pub(crate) fn pairs(sent: &[(&str, &str)]) -> SentLabels {
    let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    sent.iter().map(owned).collect()
}

pub(crate) fn exemplar(time: i64, trace: &str) -> Exemplar {
    Exemplar {
        labels: Labels::from_pairs([("trace_id", trace)]),
        timestamp_ms: time,
        value: trace.len() as f64,
    }
}

/// A histogram that differs for each `size`, integer or float.
pub(crate) fn histogram(size: u64) -> Histogram {
    let counts = match size % 2 {
        0 => HistogramCounts::Integer {
            count: size + 4,
            zero_count: 0,
            positive_deltas: vec![1, size as i64, 1 - size as i64],
            negative_deltas: Vec::new(),
        },
        _ => HistogramCounts::Float {
            count: size as f64 + 2.5,
            zero_count: 0.5,
            positive: vec![1.0, size as f64, 1.0],
            negative: Vec::new(),
        },
    };
    Histogram {
        schema: (size % 8) as i8,
        reset_hint: CounterResetHint::Unknown,
        zero_threshold: 0.001,
        sum: size as f64,
        counts,
        positive_spans: vec![
            Span {
                offset: 0,
                length: 2,
            },
            Span {
                offset: 3,
                length: 1,
            },
        ],
        negative_spans: Vec::new(),
        custom_bounds: [].into(),
    }
}

fn labels_of(series: &str) -> SentLabels {
    pairs(&[("__name__", "m"), ("series", series)])
}

fn raw(labels: &SentLabels) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in labels {
        push_raw_label(&mut bytes, name, value);
    }
    bytes
}
