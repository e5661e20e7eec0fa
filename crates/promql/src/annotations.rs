//! Annotations of an answer: warnings and infos, each with its position in the query.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use parking_lot::Mutex;
use thiserror::Error;

use crate::calendar::rfc3339;
use crate::histogram::MonotonicityFix;
use crate::parse::{Span, go_float, go_float_of_digits, line_and_column, quoted};

/// A warning or info about an answer, in the words of Prometheus.
#[derive(Clone, Debug, Error, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Annotation {
    #[error("ratio value should be between -1 and 1, got {got}, capping to {capped}")]
    InvalidRatio { got: GoFloat, capped: GoFloat },
    #[error("quantile value should be between 0 and 1, got {0}")]
    InvalidQuantile(GoFloat),
    #[error(
        "bucket label \"le\" is missing or has a malformed value of {}{metric}",
        quoted(value)
    )]
    BadBucketLabel { value: String, metric: MetricSuffix },
    #[error("encountered a mix of histograms and floats for metric name {}", quoted(.0))]
    MixedFloatsHistograms(String),
    #[error("encountered a mix of histograms and floats for aggregation")]
    MixedFloatsHistogramsInAggregation,
    #[error("vector contains a mix of classic and native histograms{0}")]
    MixedClassicNative(MetricSuffix),
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
    ForcedMonotonicity(MetricSuffix),
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
    QuantileNaNResult(MetricSuffix),
    #[error("input to histogram_quantile has NaN observations, result is skewed higher{0}")]
    QuantileNaNSkew(MetricSuffix),
    #[error(
        "input to histogram_fraction has NaN observations, which are excluded from all fractions{0}"
    )]
    FractionNaNs(MetricSuffix),
    #[error("mismatched custom buckets were reconciled during {0}")]
    MismatchedCustomBuckets(HistogramOperation),
}

/// The operation in which histograms did not fit.
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

/// ` for metric name "…"`, empty for an unknown name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MetricSuffix(pub(crate) String);

impl fmt::Display for MetricSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " for metric name {}", quoted(&self.0))
        }
    }
}

/// The [`MonotonicityFix`] of all samples that needed one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MonotonicityFixes {
    first_ms: i64,
    last_ms: i64,
    fix: MonotonicityFix,
    samples: i64,
}

impl MonotonicityFixes {
    pub(crate) fn at(time_ms: i64, fix: MonotonicityFix) -> Self {
        Self {
            first_ms: time_ms,
            last_ms: time_ms,
            fix,
            samples: 1,
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.first_ms = self.first_ms.min(other.first_ms);
        self.last_ms = self.last_ms.max(other.last_ms);
        self.fix = MonotonicityFix {
            lowest: self.fix.lowest.min(other.fix.lowest),
            highest: self.fix.highest.max(other.fix.highest),
            difference_max: self.fix.difference_max.max(other.fix.difference_max),
        };
        self.samples = self.samples.wrapping_add(other.samples);
    }

    /// The same with another number of samples.
    pub(crate) fn of_samples(self, samples: i64) -> Self {
        Self { samples, ..self }
    }
}

impl fmt::Display for MonotonicityFixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lowest, highest) = (go_float(self.fix.lowest), go_float(self.fix.highest));
        let difference = go_float_of_digits(self.fix.difference_max, 2);
        let (first, last) = (rfc3339(self.first_ms / 1000), rfc3339(self.last_ms / 1000));
        write!(
            f,
            ", from buckets {lowest} to {highest}, with a max diff of {difference}, over {} samples from {first} to {last}",
            self.samples
        )
    }
}

/// A float in the format of Go's `%g`.
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

impl Annotation {
    /// With texts from labels cut where they are very long: a function can make them so.
    fn shortened(mut self) -> Self {
        let texts: [Option<&mut String>; 2] = match &mut self {
            Self::BadBucketLabel { value, metric } => [Some(value), Some(&mut metric.0)],
            Self::MixedClassicNative(metric)
            | Self::ForcedMonotonicity(metric)
            | Self::QuantileNaNResult(metric)
            | Self::QuantileNaNSkew(metric)
            | Self::FractionNaNs(metric) => [Some(&mut metric.0), None],
            Self::MixedFloatsHistograms(name)
            | Self::NativeHistogramNotCounter(name)
            | Self::NativeHistogramNotGauge(name)
            | Self::MixedExponentialCustom(name)
            | Self::StartTimeOverlap(name)
            | Self::PossibleNonCounter(name)
            | Self::HistogramIgnoredInMixedRange(name) => [Some(name), None],
            Self::InvalidRatio { .. }
            | Self::InvalidQuantile(_)
            | Self::MixedFloatsHistogramsInAggregation
            | Self::IncompatibleBucketLayout(_)
            | Self::SortInRangeQuery
            | Self::CounterResetCollision(_)
            | Self::IncompatibleTypes { .. }
            | Self::HistogramIgnoredInAggregation(_)
            | Self::MismatchedCustomBuckets(_) => [None, None],
        };
        for text in texts.into_iter().flatten() {
            *text = shortened(text);
        }
        self
    }

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

/// Most different annotations that a query keeps: each may name a metric, so a selector over many
/// names could yield thousands.
const ANNOTATIONS_MAX: usize = 1000;

/// Most bytes of a text that comes from labels and goes into an error or annotation: both go to
/// clients and logs, and there may be many.
const SHOWN_BYTES_MAX: usize = 1 << 10;

/// The beginning of a text, with an ellipsis if there is more.
pub(crate) fn shortened(text: &str) -> String {
    let mut shown = text[..text.floor_char_boundary(SHOWN_BYTES_MAX)].to_owned();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// The start of a span without a position: its end still orders it by evaluation, and its
/// annotation points at the beginning of the query.
pub(crate) const NO_POSITION: usize = usize::MAX;

/// The annotations of one query, without duplicates.
#[derive(Debug, Default)]
pub(crate) struct Annotations(Mutex<AnnotationSet>);

#[derive(Debug, Default)]
struct AnnotationSet {
    annotations: BTreeSet<(Span, Annotation)>,
    /// Details of each [`Annotation::ForcedMonotonicity`].
    fixes: BTreeMap<(Span, Annotation), MonotonicityFixes>,
}

impl Annotations {
    pub(crate) fn add(&self, span: Span, annotation: Annotation) {
        let annotation = annotation.shortened();
        let mut set = self.0.lock();
        if set.annotations.len() < ANNOTATIONS_MAX {
            set.annotations.insert((span, annotation));
        }
    }

    /// Adds that counts of a classic histogram were raised to be monotonic.
    pub(crate) fn add_monotonicity_fixes(
        &self,
        span: Span,
        metric: MetricSuffix,
        fixes: MonotonicityFixes,
    ) {
        let key = (span, Annotation::ForcedMonotonicity(metric).shortened());
        let mut set = self.0.lock();
        if set.annotations.len() >= ANNOTATIONS_MAX && !set.annotations.contains(&key) {
            return;
        }
        set.annotations.insert(key.clone());
        let sum = set.fixes.entry(key);
        sum.and_modify(|sum| sum.merge(&fixes)).or_insert(fixes);
    }

    /// Copies the annotations within `span` to the same text written at `start`.
    pub(crate) fn repeat(&self, span: Span, start: usize) {
        if span.start == start {
            return;
        }
        let mut set = self.0.lock();
        let within = |inner: &Span| {
            span.start <= inner.start && span.start <= inner.end && inner.end <= span.end
        };
        let moved = |inner: &Span| Span {
            start: match inner.start {
                NO_POSITION => NO_POSITION,
                inner => inner - span.start + start,
            },
            end: inner.end - span.start + start,
        };
        let annotations = set.annotations.iter().filter(|(inner, _)| within(inner));
        let annotations: Vec<_> = annotations
            .map(|(inner, annotation)| (moved(inner), annotation.clone()))
            .collect();
        let fixes = set.fixes.iter().filter(|((inner, _), _)| within(inner));
        let fixes: Vec<_> = fixes
            .map(|((inner, annotation), fixes)| ((moved(inner), annotation.clone()), *fixes))
            .collect();
        // A query may repeat a part as often as its text has room.
        for annotation in annotations {
            if set.annotations.len() < ANNOTATIONS_MAX {
                set.annotations.insert(annotation);
            }
        }
        for (key, fixes) in fixes {
            if set.annotations.contains(&key) {
                set.fixes.insert(key, fixes);
            }
        }
    }

    /// The warnings and the infos with their positions. An annotation with several positions gets
    /// the last one, as in Prometheus, where a later one replaces it.
    pub(crate) fn render(&self, query: &str) -> (Vec<String>, Vec<String>) {
        let set = self.0.lock();
        let mut positions: BTreeMap<&Annotation, Span> = BTreeMap::new();
        for (span, annotation) in &set.annotations {
            let position = positions.entry(annotation).or_insert(*span);
            // Annotations that are summed up keep their first position.
            let replaces = match annotation {
                Annotation::ForcedMonotonicity(_) => evaluated(span) < evaluated(position),
                _ => evaluated(span) > evaluated(position),
            };
            if replaces {
                *position = *span;
            }
        }
        let mut annotations: Vec<(Span, &Annotation)> = positions
            .iter()
            .map(|(annotation, span)| (*span, *annotation))
            .collect();
        annotations.sort();
        let (mut warnings, mut infos) = (Vec::new(), Vec::new());
        for (span, annotation) in annotations {
            let (line, column) = match span.start {
                NO_POSITION => (1, 1),
                start => line_and_column(query, start),
            };
            let details = set.details(annotation);
            if annotation.is_warning() {
                warnings.push(format!("PromQL warning: {annotation} ({line}:{column})"));
            } else {
                infos.push(format!(
                    "PromQL info: {annotation}{details} ({line}:{column})"
                ));
            }
        }
        (warnings, infos)
    }
}

/// The order of evaluation: the left side before the right one, inner expressions first.
fn evaluated(span: &Span) -> (usize, Reverse<usize>) {
    (span.end, Reverse(span.start))
}

impl AnnotationSet {
    /// The details of an annotation, summed over its positions.
    fn details(&self, annotation: &Annotation) -> String {
        let of_annotation = self.fixes.iter().filter(|((_, of), _)| of == annotation);
        let sum = of_annotation
            .map(|(_, fixes)| *fixes)
            .reduce(|mut sum, fixes| {
                sum.merge(&fixes);
                sum
            });
        sum.map(|sum| sum.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonicity_fixes_are_summed_up() {
        let annotations = Annotations::default();
        let raise = |seconds: i64, lowest, highest, difference_max| {
            let fix = MonotonicityFix {
                lowest,
                highest,
                difference_max,
            };
            let fixes = MonotonicityFixes::at(seconds * 1000, fix);
            let span = Span { start: 3, end: 8 };
            annotations.add_monotonicity_fixes(span, MetricSuffix("series_1".to_string()), fixes);
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
    fn annotations_are_bounded_in_size_and_number() {
        let annotations = Annotations::default();
        let span = |start| Span {
            start,
            end: start + 1,
        };
        for i in 0..2 * ANNOTATIONS_MAX {
            let metric = MetricSuffix(format!("{i}{}", "m".repeat(50_000)));
            let value = "v".repeat(50_000);
            annotations.add(span(0), Annotation::BadBucketLabel { value, metric });
        }
        // Each use of a part of the query repeats its annotations.
        for start in 1..10 {
            annotations.repeat(span(0), start);
        }
        let (warnings, _) = annotations.render("query");
        assert_eq!(warnings.len(), ANNOTATIONS_MAX);
        assert!(warnings.iter().all(|warning| warning.len() < 3000));
        assert_eq!(annotations.0.lock().annotations.len(), ANNOTATIONS_MAX);
    }

    #[test]
    fn shown_texts_have_an_end() {
        assert_eq!(shortened("short"), "short");
        let long = "ü".repeat(SHOWN_BYTES_MAX);
        let shown = shortened(&long);
        assert!(shown.ends_with("ü…") && shown.len() == SHOWN_BYTES_MAX + "…".len());
    }

    #[test]
    fn names_are_quoted_as_go_does() {
        let annotation = Annotation::BadBucketLabel {
            value: "\u{1}\n".to_string(),
            metric: MetricSuffix("größe \"1\"".to_string()),
        };
        assert_eq!(
            annotation.to_string(),
            r#"bucket label "le" is missing or has a malformed value of "\x01\n" for metric name "größe \"1\"""#
        );
    }

    #[test]
    fn an_annotation_is_rendered_once_at_its_last_position() {
        let annotations = Annotations::default();
        let add = |start, end| annotations.add(Span { start, end }, Annotation::SortInRangeQuery);
        let position = || {
            let (warnings, _) = annotations.render("a query of one line");
            assert_eq!(warnings.len(), 1);
            warnings[0].split(' ').next_back().map(str::to_string)
        };
        add(2, 3);
        add(9, 10);
        assert_eq!(position().as_deref(), Some("(1:10)"));
        // The outer expression is evaluated after the inner one.
        add(4, 10);
        assert_eq!(position().as_deref(), Some("(1:5)"));
    }
}
