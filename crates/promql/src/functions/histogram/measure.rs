//! Functions that compute a float from a histogram: quantiles and fractions.

use crate::annotations::{Annotation, Annotations, MetricSuffix, MonotonicityFixes};
use crate::exec::{Grid, ScalarColumn};
use crate::histogram::{
    ClassicBucket, FloatHistogram, MonotonicityFix, QuantileAnnotation, Quantiles, bucket_fraction,
    bucket_quantile,
};
use crate::parse::Span;

/// Computes a float from a histogram.
pub(super) trait Measure: Sync {
    /// The buckets are sorted by their bounds and not empty. They may be changed.
    fn classic(
        &self,
        step: usize,
        buckets: &mut Vec<ClassicBucket>,
        findings: &mut Findings,
    ) -> f64;

    fn native(&self, step: usize, histogram: &FloatHistogram, findings: &mut Findings) -> f64;
}

/// Conditions met at any step of a series, which become annotations.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Classic and native at the same step.
    pub(super) mixed: bool,
    /// Counts that were raised to be monotonic.
    fixes: Option<FixesByStep>,
    quantile_nan_result: bool,
    quantile_nan_skew: bool,
    fraction_nans: bool,
}

/// Monotonicity fixes at all steps, and how many histograms needed one at each step.
#[derive(Clone, Debug)]
pub(super) struct FixesByStep {
    total: MonotonicityFixes,
    histograms: Vec<u32>,
}

impl FixesByStep {
    fn at(step: usize, grid: Grid, fix: MonotonicityFix) -> Self {
        let mut fixes = Self {
            total: MonotonicityFixes::at(grid.time(step), fix),
            histograms: vec![0; grid.steps],
        };
        fixes.histograms[step] = 1;
        fixes
    }

    fn add(&mut self, step: usize, grid: Grid, fix: MonotonicityFix) {
        self.total
            .merge(&MonotonicityFixes::at(grid.time(step), fix));
        self.histograms[step] += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.total.merge(&other.total);
        let steps = self.histograms.iter_mut().zip(&other.histograms);
        steps.for_each(|(sum, more)| *sum += more);
    }

    /// With the number of samples that Prometheus reports. At every step after the first it adds
    /// the running total to itself, so that the number doubles until it overflows. It is right for
    /// instant queries.
    pub(super) fn as_prometheus_reports(&self) -> MonotonicityFixes {
        let mut found = self.histograms.iter().map(|found| i64::from(*found));
        let first = found.find(|found| *found > 0).unwrap_or_default();
        let samples = found.fold(first, |sum, found| sum.wrapping_add(found).wrapping_mul(2));
        self.total.of_samples(samples)
    }
}

type MakeAnnotation = fn(MetricSuffix) -> Annotation;

impl Findings {
    /// Adds all annotations except monotonicity fixes, which are first summed over all series.
    pub(super) fn annotate(&self, annotations: &Annotations, span: Span, metric: &MetricSuffix) {
        for annotation in self.annotations(metric) {
            annotations.add(span, annotation);
        }
    }

    pub(super) fn fixes(&self) -> Option<&FixesByStep> {
        self.fixes.as_ref()
    }

    fn annotations(&self, metric: &MetricSuffix) -> impl Iterator<Item = Annotation> {
        let Self {
            mixed,
            quantile_nan_result,
            quantile_nan_skew,
            fraction_nans,
            ..
        } = *self;
        let annotations: [(bool, MakeAnnotation); 4] = [
            (mixed, Annotation::MixedClassicNative),
            (quantile_nan_result, Annotation::QuantileNaNResult),
            (quantile_nan_skew, Annotation::QuantileNaNSkew),
            (fraction_nans, Annotation::FractionNaNs),
        ];
        let annotations = annotations.into_iter().filter(|(applies, _)| *applies);
        annotations.map(|(_, annotation)| annotation(metric.clone()))
    }
}

/// The value below which a share of the observations lies.
pub(super) struct Quantile<'a> {
    pub(super) share: ScalarColumn,
    /// Quantiles computed before from the same histograms, whose counts are monotonic by then.
    pub(super) before: &'a [ScalarColumn],
    pub(super) grid: Grid,
}

/// The share of the observations between two values.
pub(super) struct Fraction {
    pub(super) lower: ScalarColumn,
    pub(super) upper: ScalarColumn,
}

impl Measure for Quantile<'_> {
    fn classic(
        &self,
        step: usize,
        buckets: &mut Vec<ClassicBucket>,
        findings: &mut Findings,
    ) -> f64 {
        let quantile = bucket_quantile(self.share.at(step), buckets);
        let is_quantile = |share: &ScalarColumn| (0.0..=1.0).contains(&share.at(step));
        if let Some(fix) = quantile.monotonicity_fix
            && !self.before.iter().any(is_quantile)
        {
            match &mut findings.fixes {
                Some(fixes) => fixes.add(step, self.grid, fix),
                None => findings.fixes = Some(FixesByStep::at(step, self.grid, fix)),
            }
        }
        quantile.value
    }

    fn native(&self, step: usize, histogram: &FloatHistogram, findings: &mut Findings) -> f64 {
        let (value, annotation) = histogram.quantile(self.share.at(step));
        match annotation {
            Some(QuantileAnnotation::NaNResult) => findings.quantile_nan_result = true,
            Some(QuantileAnnotation::NaNSkew) => findings.quantile_nan_skew = true,
            None => {}
        }
        value
    }
}

impl Measure for Fraction {
    fn classic(&self, step: usize, buckets: &mut Vec<ClassicBucket>, _: &mut Findings) -> f64 {
        bucket_fraction(self.lower.at(step), self.upper.at(step), buckets)
    }

    fn native(&self, step: usize, histogram: &FloatHistogram, findings: &mut Findings) -> f64 {
        let (value, has_nans) = histogram.fraction(self.lower.at(step), self.upper.at(step));
        findings.fraction_nans |= has_nans;
        value
    }
}
