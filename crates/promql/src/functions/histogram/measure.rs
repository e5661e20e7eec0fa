//! What is measured of a histogram at a step.

use crate::annotations::{Annotations, ForMetric, Note, RaisedCounts};
use crate::exec::{Grid, ScalarColumn};
use crate::histogram::{
    ClassicBucket, FloatHistogram, QuantileNote, bucket_fraction, bucket_quantile,
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
    /// Counts that had to be raised, at all steps together.
    raised: Option<RaisedCounts>,
    quantile_nan_result: bool,
    quantile_nan_skew: bool,
    fraction_nans: bool,
}

type Wording = fn(ForMetric) -> Note;

impl Remarks {
    /// Says it all.
    pub(super) fn say(&self, annotations: &Annotations, span: Span, metric: &ForMetric) {
        for note in self.notes(metric) {
            annotations.add(span, note);
        }
        if let Some(raised) = self.raised {
            annotations.add_raised(span, metric.clone(), raised);
        }
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
            let raised = RaisedCounts::at(self.grid.time(step), forced);
            match &mut remarks.raised {
                Some(sum) => sum.merge(&raised),
                None => remarks.raised = Some(raised),
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
