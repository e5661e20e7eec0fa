//! What is measured of a histogram at a step.

use crate::annotations::{ForMetric, Note};
use crate::exec::ScalarColumn;
use crate::histogram::{
    ClassicBucket, FloatHistogram, QuantileNote, bucket_fraction, bucket_quantile,
};

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
    forced_monotonicity: bool,
    quantile_nan_result: bool,
    quantile_nan_skew: bool,
    fraction_nans: bool,
}

type Wording = fn(ForMetric) -> Note;

impl Remarks {
    pub(super) fn notes(&self, metric: &ForMetric) -> impl Iterator<Item = Note> {
        let Self {
            mixed,
            forced_monotonicity,
            quantile_nan_result,
            quantile_nan_skew,
            fraction_nans,
        } = *self;
        let notes: [(bool, Wording); 5] = [
            (mixed, Note::MixedClassicNative),
            (forced_monotonicity, Note::ForcedMonotonicity),
            (quantile_nan_result, Note::QuantileNaNResult),
            (quantile_nan_skew, Note::QuantileNaNSkew),
            (fraction_nans, Note::FractionNaNs),
        ];
        let notes = notes.into_iter().filter(|(applies, _)| *applies);
        notes.map(|(_, note)| note(metric.clone()))
    }
}

/// The value below which a share of the observations lies.
pub(super) struct Quantile(pub(super) ScalarColumn);

/// The share of the observations between two values.
pub(super) struct Fraction {
    pub(super) lower: ScalarColumn,
    pub(super) upper: ScalarColumn,
}

impl Measure for Quantile {
    fn classic(&self, step: usize, buckets: &mut Vec<ClassicBucket>, remarks: &mut Remarks) -> f64 {
        let quantile = bucket_quantile(self.0.at(step), buckets);
        remarks.forced_monotonicity |= quantile.forced_monotonic.is_some();
        quantile.value
    }

    fn native(&self, step: usize, histogram: &FloatHistogram, remarks: &mut Remarks) -> f64 {
        let (value, note) = histogram.quantile(self.0.at(step));
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
