//! What is measured of a histogram at a step.

use crate::annotations::{Annotations, ForMetric, Note, RaisedCounts};
use crate::exec::{Grid, ScalarColumn};
use crate::histogram::{
    ClassicBucket, FloatHistogram, ForcedMonotonic, QuantileNote, bucket_fraction, bucket_quantile,
};
use crate::parse::Span;

/// Makes a float of a histogram.
pub(super) trait Measure: Sync {
    /// The buckets are sorted by their bounds and not empty. They may be changed.
    fn classic(&self, step: usize, buckets: &mut Vec<ClassicBucket>, remarks: &mut Remarks) -> f64;

    fn native(&self, step: usize, histogram: &FloatHistogram, remarks: &mut Remarks) -> f64;
}

/// What there is to say about a series, however many steps give rise to it.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// Classic and native at the same step.
    pub(super) mixed: bool,
    /// Counts that had to be raised.
    raised: Option<Raised>,
    quantile_nan_result: bool,
    quantile_nan_skew: bool,
    fraction_nans: bool,
}

/// Counts that had to be raised, at all steps together, and of how many histograms at each step.
#[derive(Clone, Debug)]
pub(super) struct Raised {
    counts: RaisedCounts,
    histograms: Vec<u32>,
}

impl Raised {
    fn at(step: usize, grid: Grid, forced: ForcedMonotonic) -> Self {
        let mut raised = Self {
            counts: RaisedCounts::at(grid.time(step), forced),
            histograms: vec![0; grid.steps],
        };
        raised.histograms[step] = 1;
        raised
    }

    fn add(&mut self, step: usize, grid: Grid, forced: ForcedMonotonic) {
        self.counts
            .merge(&RaisedCounts::at(grid.time(step), forced));
        self.histograms[step] += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        let steps = self.histograms.iter_mut().zip(&other.histograms);
        steps.for_each(|(sum, more)| *sum += more);
    }

    /// With the number of samples as Prometheus gives it. It adds what was found at a step to what was
    /// found before, and this to itself, at every step behind the first one, so that the number doubles
    /// from step to step until it is too large for an integer. It is right for instant queries.
    pub(super) fn as_prometheus_counts(&self) -> RaisedCounts {
        let mut found = self.histograms.iter().map(|found| i64::from(*found));
        let first = found.find(|found| *found > 0).unwrap_or_default();
        let samples = found.fold(first, |sum, found| sum.wrapping_add(found).wrapping_mul(2));
        self.counts.of_samples(samples)
    }
}

type Wording = fn(ForMetric) -> Note;

impl Remarks {
    /// Says everything but which counts were raised, which is for whoever knows all series to say.
    pub(super) fn say(&self, annotations: &Annotations, span: Span, metric: &ForMetric) {
        for note in self.notes(metric) {
            annotations.add(span, note);
        }
    }

    pub(super) fn raised(&self) -> Option<&Raised> {
        self.raised.as_ref()
    }

    fn notes(&self, metric: &ForMetric) -> impl Iterator<Item = Note> {
        let Self {
            mixed,
            quantile_nan_result,
            quantile_nan_skew,
            fraction_nans,
            ..
        } = *self;
        let notes: [(bool, Wording); 4] = [
            (mixed, Note::MixedClassicNative),
            (quantile_nan_result, Note::QuantileNaNResult),
            (quantile_nan_skew, Note::QuantileNaNSkew),
            (fraction_nans, Note::FractionNaNs),
        ];
        let notes = notes.into_iter().filter(|(applies, _)| *applies);
        notes.map(|(_, note)| note(metric.clone()))
    }
}

/// The value below which a share of the observations lies.
pub(super) struct Quantile<'a> {
    pub(super) share: ScalarColumn,
    /// Shares measured before of the same histograms, for which counts were raised already.
    pub(super) before: &'a [ScalarColumn],
    pub(super) grid: Grid,
}

/// The share of the observations between two values.
pub(super) struct Fraction {
    pub(super) lower: ScalarColumn,
    pub(super) upper: ScalarColumn,
}

impl Measure for Quantile<'_> {
    fn classic(&self, step: usize, buckets: &mut Vec<ClassicBucket>, remarks: &mut Remarks) -> f64 {
        let quantile = bucket_quantile(self.share.at(step), buckets);
        let is_quantile = |share: &ScalarColumn| (0.0..=1.0).contains(&share.at(step));
        if let Some(forced) = quantile.forced_monotonic
            && !self.before.iter().any(is_quantile)
        {
            match &mut remarks.raised {
                Some(raised) => raised.add(step, self.grid, forced),
                None => remarks.raised = Some(Raised::at(step, self.grid, forced)),
            }
        }
        quantile.value
    }

    fn native(&self, step: usize, histogram: &FloatHistogram, remarks: &mut Remarks) -> f64 {
        let (value, note) = histogram.quantile(self.share.at(step));
        match note {
            Some(QuantileNote::NaNResult) => remarks.quantile_nan_result = true,
            Some(QuantileNote::NaNSkew) => remarks.quantile_nan_skew = true,
            None => {}
        }
        value
    }
}

impl Measure for Fraction {
    fn classic(&self, step: usize, buckets: &mut Vec<ClassicBucket>, _: &mut Remarks) -> f64 {
        bucket_fraction(self.lower.at(step), self.upper.at(step), buckets)
    }

    fn native(&self, step: usize, histogram: &FloatHistogram, remarks: &mut Remarks) -> f64 {
        let (value, has_nans) = histogram.fraction(self.lower.at(step), self.upper.at(step));
        remarks.fraction_nans |= has_nans;
        value
    }
}
