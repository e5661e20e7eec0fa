//! Warnings and infos: what a person should know about an answer, and which part of the query it is
//! about.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use parking_lot::Mutex;
use thiserror::Error;

use crate::calendar::rfc3339;
use crate::histogram::ForcedMonotonic;
use crate::parse::{Span, go_float, go_float_of_digits, line_and_column, quoted};

/// What may be said about an answer, in the words of Prometheus.
#[derive(Clone, Debug, Error, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Note {
    #[error("ratio value should be between -1 and 1, got {got}, capping to {capped}")]
    InvalidRatio { got: GoFloat, capped: GoFloat },
    #[error("quantile value should be between 0 and 1, got {0}")]
    InvalidQuantile(GoFloat),
    #[error(
        "bucket label \"le\" is missing or has a malformed value of {}{metric}",
        quoted(value)
    )]
    BadBucketLabel { value: String, metric: ForMetric },
    #[error("encountered a mix of histograms and floats for metric name {}", quoted(.0))]
    MixedFloatsHistograms(String),
    #[error("encountered a mix of histograms and floats for aggregation")]
    MixedFloatsHistogramsInAggregation,
    #[error("vector contains a mix of classic and native histograms{0}")]
    MixedClassicNative(ForMetric),
    #[error("this native histogram metric is not a counter: {}", quoted(.0))]
    NativeHistogramNotCounter(String),
    #[error("this native histogram metric is not a gauge: {}", quoted(.0))]
    NativeHistogramNotGauge(String),
    #[error(
        "vector contains a mix of histograms with exponential and custom buckets schemas for metric name {}",
        quoted(.0)
    )]
    MixedExponentialCustom(String),
    #[error("incompatible bucket layout encountered for binary operator {0}")]
    IncompatibleBucketLayout(&'static str),
    #[error("sort is ineffective for range queries since results are always ordered by labels")]
    SortInRangeQuery,
    #[error("conflicting counter resets during histogram {0}")]
    CounterResetCollision(HistogramOperation),
    #[error("sample has start time that overlaps with previous sample timestamp for metric {}", quoted(.0))]
    StartTimeOverlap(String),
    #[error(
        "metric might not be a counter, name does not end in _total/_sum/_count/_bucket: {}",
        quoted(.0)
    )]
    PossibleNonCounter(String),
    #[error(
        "input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile){0}"
    )]
    ForcedMonotonicity(ForMetric),
    #[error("incompatible sample types encountered for binary operator \"{op}\": {lhs} {op} {rhs}")]
    IncompatibleTypes {
        op: &'static str,
        lhs: &'static str,
        rhs: &'static str,
    },
    #[error("ignored histogram in {0} aggregation")]
    HistogramIgnoredInAggregation(&'static str),
    #[error(
        "ignored histograms in a range containing both floats and histograms for metric name {}",
        quoted(.0)
    )]
    HistogramIgnoredInMixedRange(String),
    #[error("input to histogram_quantile has NaN observations, result is NaN{0}")]
    QuantileNaNResult(ForMetric),
    #[error("input to histogram_quantile has NaN observations, result is skewed higher{0}")]
    QuantileNaNSkew(ForMetric),
    #[error(
        "input to histogram_fraction has NaN observations, which are excluded from all fractions{0}"
    )]
    FractionNaNs(ForMetric),
    #[error("mismatched custom buckets were reconciled during {0}")]
    MismatchedCustomBuckets(HistogramOperation),
}

/// During which operation histograms did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HistogramOperation {
    Addition,
    Subtraction,
    Aggregation,
}

impl fmt::Display for HistogramOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Addition => "addition",
            Self::Subtraction => "subtraction",
            Self::Aggregation => "aggregation",
        })
    }
}

/// ` for metric name "…"`, or nothing where the name is not known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ForMetric(pub(crate) String);

impl fmt::Display for ForMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " for metric name {}", quoted(&self.0))
        }
    }
}

/// Which counts of classic histograms had to be raised, over all samples of which some had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RaisedCounts {
    first_ms: i64,
    last_ms: i64,
    raised: ForcedMonotonic,
    samples: i64,
}

impl RaisedCounts {
    pub(crate) fn at(time_ms: i64, raised: ForcedMonotonic) -> Self {
        Self {
            first_ms: time_ms,
            last_ms: time_ms,
            raised,
            samples: 1,
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.first_ms = self.first_ms.min(other.first_ms);
        self.last_ms = self.last_ms.max(other.last_ms);
        self.raised = ForcedMonotonic {
            lowest: self.raised.lowest.min(other.raised.lowest),
            highest: self.raised.highest.max(other.raised.highest),
            difference_max: self.raised.difference_max.max(other.raised.difference_max),
        };
        self.samples = self.samples.wrapping_add(other.samples);
    }

    /// The same with another number of samples.
    pub(crate) fn of_samples(self, samples: i64) -> Self {
        Self { samples, ..self }
    }
}

impl fmt::Display for RaisedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lowest, highest) = (go_float(self.raised.lowest), go_float(self.raised.highest));
        let difference = go_float_of_digits(self.raised.difference_max, 2);
        let (first, last) = (rfc3339(self.first_ms / 1000), rfc3339(self.last_ms / 1000));
        write!(
            f,
            ", from buckets {lowest} to {highest}, with a max diff of {difference}, over {} samples from {first} to {last}",
            self.samples
        )
    }
}

/// A float that is written as Go's `%g` does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoFloat(pub(crate) f64);

impl fmt::Display for GoFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&go_float(self.0))
    }
}

impl PartialEq for GoFloat {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for GoFloat {}

impl PartialOrd for GoFloat {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GoFloat {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Note {
    fn is_warning(&self) -> bool {
        match self {
            Self::InvalidRatio { .. }
            | Self::InvalidQuantile(_)
            | Self::BadBucketLabel { .. }
            | Self::MixedFloatsHistograms(_)
            | Self::MixedFloatsHistogramsInAggregation
            | Self::MixedClassicNative(_)
            | Self::NativeHistogramNotCounter(_)
            | Self::NativeHistogramNotGauge(_)
            | Self::MixedExponentialCustom(_)
            | Self::IncompatibleBucketLayout(_)
            | Self::SortInRangeQuery
            | Self::CounterResetCollision(_)
            | Self::StartTimeOverlap(_) => true,
            Self::PossibleNonCounter(_)
            | Self::ForcedMonotonicity(_)
            | Self::IncompatibleTypes { .. }
            | Self::HistogramIgnoredInAggregation(_)
            | Self::HistogramIgnoredInMixedRange(_)
            | Self::QuantileNaNResult(_)
            | Self::QuantileNaNSkew(_)
            | Self::FractionNaNs(_)
            | Self::MismatchedCustomBuckets(_) => false,
        }
    }
}

/// Most different notes that a query keeps: with a metric name in each, a selector over many names
/// could have thousands.
const NOTES_MAX: usize = 1000;

/// The start of a span that says when something was evaluated (by its end) but not where it is
/// written; such notes point at the beginning of the query.
pub(crate) const NO_PLACE: usize = usize::MAX;

/// The notes of one query. Saying one twice is saying it once.
#[derive(Debug, Default)]
pub(crate) struct Annotations(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    notes: BTreeSet<(Span, Note)>,
    /// What is said of a [`Note::ForcedMonotonicity`] beside its words.
    raised: BTreeMap<(Span, Note), RaisedCounts>,
}

impl Annotations {
    pub(crate) fn add(&self, span: Span, note: Note) {
        let mut said = self.0.lock();
        if said.notes.len() < NOTES_MAX {
            said.notes.insert((span, note));
        }
    }

    /// Says that counts of a histogram had to be raised.
    pub(crate) fn add_raised(&self, span: Span, metric: ForMetric, raised: RaisedCounts) {
        let place = (span, Note::ForcedMonotonicity(metric));
        let mut said = self.0.lock();
        if said.notes.len() >= NOTES_MAX && !said.notes.contains(&place) {
            return;
        }
        said.notes.insert(place.clone());
        let sum = said.raised.entry(place);
        sum.and_modify(|sum| sum.merge(&raised)).or_insert(raised);
    }

    /// Says again, for the same text written at `start`, what was said about `span`.
    pub(crate) fn repeat(&self, span: Span, start: usize) {
        if span.start == start {
            return;
        }
        let mut said = self.0.lock();
        let within = |inner: &Span| {
            span.start <= inner.start && span.start <= inner.end && inner.end <= span.end
        };
        let moved = |inner: &Span| Span {
            start: match inner.start {
                NO_PLACE => NO_PLACE,
                inner => inner - span.start + start,
            },
            end: inner.end - span.start + start,
        };
        let notes = said.notes.iter().filter(|(inner, _)| within(inner));
        let notes: Vec<_> = notes
            .map(|(inner, note)| (moved(inner), note.clone()))
            .collect();
        let raised = said.raised.iter().filter(|((inner, _), _)| within(inner));
        let raised: Vec<_> = raised
            .map(|((inner, note), raised)| ((moved(inner), note.clone()), *raised))
            .collect();
        said.notes.extend(notes);
        said.raised.extend(raised);
    }

    /// The warnings and the infos, each with its place in the query. Of the places of a note the last
    /// one is given, as in Prometheus, where a note replaces the same one said before.
    pub(crate) fn render(&self, query: &str) -> (Vec<String>, Vec<String>) {
        let said = self.0.lock();
        let mut places: BTreeMap<&Note, Span> = BTreeMap::new();
        for (span, note) in &said.notes {
            let place = places.entry(note).or_insert(*span);
            // What is summed up stays where it was said first.
            let replaces = match note {
                Note::ForcedMonotonicity(_) => evaluated(span) < evaluated(place),
                _ => evaluated(span) > evaluated(place),
            };
            if replaces {
                *place = *span;
            }
        }
        let mut notes: Vec<(Span, &Note)> =
            places.iter().map(|(note, span)| (*span, *note)).collect();
        notes.sort();
        let (mut warnings, mut infos) = (Vec::new(), Vec::new());
        for (span, note) in notes {
            let (line, column) = match span.start {
                NO_PLACE => (1, 1),
                start => line_and_column(query, start),
            };
            let details = said.details(note);
            if note.is_warning() {
                warnings.push(format!("PromQL warning: {note} ({line}:{column})"));
            } else {
                infos.push(format!("PromQL info: {note}{details} ({line}:{column})"));
            }
        }
        (warnings, infos)
    }
}

/// When an expression is evaluated: the left side before the right one, and what is inside first.
fn evaluated(span: &Span) -> (usize, Reverse<usize>) {
    (span.end, Reverse(span.start))
}

impl Said {
    /// What is said of a note beside its words, at all its places together.
    fn details(&self, note: &Note) -> String {
        let of_note = self.raised.iter().filter(|((_, of), _)| of == note);
        let sum = of_note
            .map(|(_, raised)| *raised)
            .reduce(|mut sum, raised| {
                sum.merge(&raised);
                sum
            });
        sum.map(|sum| sum.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_raised_is_summed_up() {
        let annotations = Annotations::default();
        let raise = |seconds: i64, lowest, highest, difference_max| {
            let raised = ForcedMonotonic {
                lowest,
                highest,
                difference_max,
            };
            let raised = RaisedCounts::at(seconds * 1000, raised);
            let span = Span { start: 3, end: 8 };
            annotations.add_raised(span, ForMetric("series_1".to_string()), raised);
        };
        raise(1_735_084_800, 5.0, 50.0, 5.5);
        raise(1_703_462_400, 10.0, 100.0, 10.0);
        raise(1_733_011_200, 2.5, 75.0, 7.5);
        let (warnings, infos) = annotations.render("lorem ipsum");
        assert!(warnings.is_empty());
        assert_eq!(
            infos,
            [
                "PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile) for metric name \"series_1\", from buckets 2.5 to 100, with a max diff of 10, over 3 samples from 2023-12-25T00:00:00Z to 2024-12-25T00:00:00Z (1:4)"
            ]
        );
    }

    #[test]
    fn names_are_quoted_as_go_does() {
        let note = Note::BadBucketLabel {
            value: "\u{1}\n".to_string(),
            metric: ForMetric("größe \"1\"".to_string()),
        };
        assert_eq!(
            note.to_string(),
            r#"bucket label "le" is missing or has a malformed value of "\x01\n" for metric name "größe \"1\"""#
        );
    }

    #[test]
    fn the_same_note_is_given_once_at_its_last_place() {
        let annotations = Annotations::default();
        let say = |start, end| annotations.add(Span { start, end }, Note::SortInRangeQuery);
        let place = || {
            let (warnings, _) = annotations.render("a query of one line");
            assert_eq!(warnings.len(), 1);
            warnings[0].split(' ').next_back().map(str::to_string)
        };
        say(2, 3);
        say(9, 10);
        assert_eq!(place().as_deref(), Some("(1:10)"));
        // The outer expression is evaluated after the inner one.
        say(4, 10);
        assert_eq!(place().as_deref(), Some("(1:5)"));
    }
}
