//! What data points of all kinds have in common: times, flags, attributes, exemplars.

use icecore_model::{STALE_NAN_BITS, Sample, SampleSink, Temporality};

use super::attributes::{Attribute, read_attribute};
use super::exemplar::decode_exemplar;
use super::metric::Metric;
use super::request::Decoder;
use crate::prometheus::protobuf::Result;

const NANOS_PER_MS: u64 = 1_000_000;

/// The flag of a point that marks the end of its series.
const NO_RECORDED_VALUE: u64 = 1;

/// A data point while its message is read. The buffers are reused.
#[derive(Default)]
pub(super) struct Point<'a> {
    pub(super) start_ns: u64,
    pub(super) time_ns: u64,
    pub(super) flags: u64,
    pub(super) attributes: Vec<Attribute<'a>>,
    pub(super) exemplars: Vec<&'a [u8]>,
}

impl<'a> Point<'a> {
    pub(super) fn clear(&mut self) {
        self.start_ns = 0;
        self.time_ns = 0;
        self.flags = 0;
        self.attributes.clear();
        self.exemplars.clear();
    }

    #[inline]
    pub(super) fn push_attribute(&mut self, message: &'a [u8]) -> Result<()> {
        self.attributes.push(read_attribute(message)?);
        Ok(())
    }

    fn is_stale(&self) -> bool {
        self.flags & NO_RECORDED_VALUE != 0
    }
}

/// Time of a point, and whether it marks the end of its series.
#[derive(Clone, Copy)]
pub(super) struct PointTime {
    pub(super) timestamp_ms: i64,
    pub(super) start_timestamp_ms: i64,
    pub(super) stale: bool,
}

/// Milliseconds fit: a `u64` of nanoseconds ends in the year 2554.
pub(super) fn to_ms(ns: u64) -> i64 {
    (ns / NANOS_PER_MS) as i64
}

impl<S: SampleSink> Decoder<'_, '_, S> {
    /// Announces the point that was read and prepares its labels. `None` when it is refused.
    #[inline]
    pub(super) fn begin_point(&mut self, metric: &Metric<'_>) -> Result<Option<PointTime>> {
        self.sink.point();
        self.points += 1;
        self.latest_ns = self.latest_ns.max(self.point.time_ns);
        if let Some(reason) = &metric.refusal {
            self.sink.reject(reason.clone());
            return Ok(None);
        }
        if self.point.time_ns == 0 {
            self.sink
                .reject(format!("{}: data point without a timestamp", metric.family));
            return Ok(None);
        }
        self.prepare_base()?;
        let prepared = self
            .labels
            .set_point(self.translation, &self.point.attributes)?;
        if let Err(reason) = prepared {
            self.sink.reject(format!("{}: {reason}", metric.family));
            return Ok(None);
        }
        Ok(Some(PointTime {
            timestamp_ms: to_ms(self.point.time_ns),
            start_timestamp_ms: to_ms(self.point.start_ns),
            stale: self.point.is_stale(),
        }))
    }

    /// Writes one value of the series announced last.
    #[inline]
    pub(super) fn put(&mut self, temporality: Temporality, when: PointTime, value: f64) {
        let mut sample = Sample {
            timestamp_ms: when.timestamp_ms,
            value,
            start_timestamp_ms: when.start_timestamp_ms,
        };
        match temporality {
            _ if when.stale => {
                sample.value = f64::from_bits(STALE_NAN_BITS);
                sample.start_timestamp_ms = 0;
                self.sink.sample(sample);
            }
            Temporality::Unspecified => {
                sample.start_timestamp_ms = 0;
                self.sink.sample(sample);
            }
            Temporality::Cumulative => self.sink.sample(sample),
            Temporality::Delta => self.sink.delta(sample),
        }
    }

    /// Writes all exemplars of the point to the series announced last.
    pub(super) fn put_exemplars(&mut self, when: PointTime) -> Result<()> {
        for message in &self.point.exemplars {
            match decode_exemplar(message, when.timestamp_ms)? {
                Ok(exemplar) => self.sink.exemplar(exemplar),
                Err(reason) => self.sink.reject(reason.into()),
            }
        }
        Ok(())
    }
}
