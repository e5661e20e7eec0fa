//! The records that hold what a series has in a bucket.

use bytes::Bytes;
use icecore_records::{Bucket, ParsedKey, SeriesId, key};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Floats,
    /// Start timestamps of floats.
    Starts,
    Histograms,
    HistogramStarts,
    Exemplars,
    /// Of floats that were rolled up.
    Windows,
    HistogramWindows,
}

impl RecordKind {
    pub(crate) fn key(self, bucket: Bucket, id: SeriesId) -> Bytes {
        match self {
            Self::Floats => key::time_series(bucket, id),
            Self::Starts => key::time_series_starts(bucket, id),
            Self::Histograms => key::histogram_series(bucket, id),
            Self::HistogramStarts => key::histogram_series_starts(bucket, id),
            Self::Exemplars => key::exemplar_series(bucket, id),
            Self::Windows => key::rollup_series(bucket, id),
            Self::HistogramWindows => key::rollup_histograms(bucket, id),
        }
    }

    /// What lies under a key; `None` where that is no such record.
    pub(crate) fn of(key: &ParsedKey) -> Option<(SeriesId, Self)> {
        match *key {
            ParsedKey::TimeSeries { series, .. } => Some((series, Self::Floats)),
            ParsedKey::TimeSeriesStarts { series, .. } => Some((series, Self::Starts)),
            ParsedKey::HistogramSeries { series, .. } => Some((series, Self::Histograms)),
            ParsedKey::HistogramSeriesStarts { series, .. } => {
                Some((series, Self::HistogramStarts))
            }
            ParsedKey::ExemplarSeries { series, .. } => Some((series, Self::Exemplars)),
            ParsedKey::RollupSeries { series, .. } => Some((series, Self::Windows)),
            ParsedKey::RollupHistograms { series, .. } => Some((series, Self::HistogramWindows)),
            _ => None,
        }
    }
}
