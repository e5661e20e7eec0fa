//! What is estimated of the observations in a histogram: quantiles, fractions, mean and spread, and
//! what is left on one side of a limit. Classic histograms, too.
//!
//! Elsewhere: arithmetic, comparison and text of native histograms (`FloatHistogram` of the model).

mod classic;
mod moments;
mod quantile;
#[cfg(test)]
mod tests;
mod trim;

pub(crate) use classic::{ClassicBucket, MonotonicityFix, bucket_fraction, bucket_quantile};
pub(crate) use icecore_model::{
    CompensatedHistogram as CompensatedSum, HistogramAddOutcome as AddOutcome, HistogramOpError,
};
pub use icecore_model::{FloatHistogram, HistogramBucket as Bucket};
pub(crate) use moments::Moments;
pub(crate) use quantile::{QuantileAnnotation, Quantiles};
pub(crate) use trim::Trim;
