//! The write side: what a protocol decoder calls while it walks a request.

use crate::{CatalogChange, Exemplar, Histogram, Metadata, NumberForm, RawLabels, Sample};

/// The reason given by a sink that keeps no running totals.
const NO_TOTALS: &str = "delta points cannot be stored here: no running totals are kept";

const NO_CATALOG: &str = "records of the catalog cannot be stored here";

/// Takes the content of one request, series by series, without copying it into a request object.
///
/// Samples, histograms and exemplars belong to the series announced last. A series that the sink
/// refuses stays announced: what follows for it is counted as refused, with the same reason.
pub trait SampleSink {
    /// Whether `bytes` begins with the labels of the series that usually follows the one announced
    /// last (scrapes repeat their order). On `Some(length)` that series is announced, and its
    /// labels are the first `length` bytes; the caller checks that no further label follows. On
    /// `None` nothing has changed.
    fn guess_series(&mut self, bytes: &[u8]) -> Option<usize>;

    /// Announces a series.
    fn series(&mut self, labels: RawLabels<'_>);

    fn sample(&mut self, sample: Sample);

    /// A sample, and how its sender wrote the number. Sinks that keep no forms store a float.
    fn number(&mut self, sample: Sample, form: NumberForm) {
        let _ = form;
        self.sample(sample);
    }

    fn histogram(&mut self, timestamp_ms: i64, start_timestamp_ms: i64, histogram: Histogram);

    fn exemplar(&mut self, exemplar: Exemplar);

    /// A change of the series announced last, from `start_timestamp_ms` to `timestamp_ms`
    /// (OpenTelemetry's delta temporality). The sink keeps the running total and stores that.
    fn delta(&mut self, change: Sample) {
        let _ = change;
        self.reject(NO_TOTALS.into());
    }

    /// The same for a native histogram.
    fn delta_histogram(&mut self, timestamp_ms: i64, start_timestamp_ms: i64, change: Histogram) {
        let _ = (timestamp_ms, start_timestamp_ms, change);
        self.reject(NO_TOTALS.into());
    }

    /// From here to the next call everything is one point to its sender, although it may become
    /// samples of several series: if parts of it are refused, that counts once. Without a call each
    /// sample counts by itself.
    fn point(&mut self) {}

    /// Metadata of a metric family, independent of the series announced.
    fn metadata(&mut self, family: &str, metadata: Metadata);

    /// A change of the catalog, independent of the series announced. It is stored with the rest of
    /// the request.
    fn catalog(&mut self, change: CatalogChange) {
        let _ = change;
        self.reject(NO_CATALOG.into());
    }

    /// Something of the current series that the decoder rejects, for example a histogram that
    /// contradicts itself. The rest of the request is decoded.
    fn reject(&mut self, reason: String);
}
