//! The walk over a request, down to its metrics.
//!
//! ```text
//! ExportMetricsServiceRequest { ResourceMetrics resource_metrics = 1; }
//! ResourceMetrics { Resource resource = 1; ScopeMetrics scope_metrics = 2;
//!                   string schema_url = 3; }
//! ScopeMetrics { InstrumentationScope scope = 1; Metric metrics = 2; string schema_url = 3; }
//! ```

use icecore_model::SampleSink;

use super::histogram::HistogramBuffers;
use super::labels::Labels;
use super::metric::Metric;
use super::point::Point;
use super::resource::{Resource, Scope};
use super::translation::Translation;
use crate::WireError;
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, known};

const REQUEST_RESOURCE_METRICS: u32 = bytes_tag(1);

const RESOURCE: u32 = bytes_tag(1);
const SCOPE_METRICS: u32 = bytes_tag(2);
const RESOURCE_FIELDS: u32 = known(&[1, 2, 3]);

const SCOPE: u32 = bytes_tag(1);
const METRICS: u32 = bytes_tag(2);
const SCHEMA_URL: u32 = bytes_tag(3);
const SCOPE_FIELDS: u32 = known(&[1, 2, 3]);

/// What a request contained, accepted or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeStats {
    pub points: u64,
}

/// Decodes an `ExportMetricsServiceRequest`. On an error the sink has seen a part of the request,
/// which must not be kept.
pub fn decode_metrics(
    body: &[u8],
    translation: &Translation,
    sink: &mut impl SampleSink,
) -> std::result::Result<DecodeStats, WireError> {
    let mut decoder = Decoder {
        translation,
        sink,
        labels: Labels::new(),
        resource: Resource::default(),
        scope: Scope::default(),
        point: Point::default(),
        metric: Some(Metric::default()),
        histogram: HistogramBuffers::default(),
        points: 0,
        latest_ns: 0,
        target_info_described: false,
    };
    let mut request = Reader::new(body);
    while !request.is_empty() {
        let offset = body.len() - request.len();
        decoder
            .request_field(&mut request)
            .map_err(|error| WireError::Protobuf { offset, error })?;
    }
    Ok(DecodeStats {
        points: decoder.points,
    })
}

/// Resource, scope and metric of the current point, and buffers that are reused.
pub(super) struct Decoder<'a, 't, S> {
    pub(super) translation: &'t Translation,
    pub(super) sink: &'t mut S,
    pub(super) labels: Labels<'a>,
    pub(super) resource: Resource<'a>,
    pub(super) scope: Scope<'a>,
    pub(super) point: Point<'a>,
    /// Taken out while a metric is decoded.
    pub(super) metric: Option<Metric<'a>>,
    pub(super) histogram: HistogramBuffers,
    pub(super) points: u64,
    /// Of the current resource.
    pub(super) latest_ns: u64,
    pub(super) target_info_described: bool,
}

impl<'a, S: SampleSink> Decoder<'a, '_, S> {
    fn request_field(&mut self, request: &mut Reader<'a>) -> Result<()> {
        match request.tag()? {
            REQUEST_RESOURCE_METRICS => self.resource_metrics(request.bytes()?),
            other => request.skip_unknown(other, known(&[1])),
        }
    }

    fn resource_metrics(&mut self, message: &'a [u8]) -> Result<()> {
        self.resource.clear();
        self.latest_ns = 0;
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                RESOURCE => self.resource.read(reader.bytes()?)?,
                tag @ (SCOPE_METRICS | SCHEMA_URL) => reader.skip(tag)?,
                other => reader.skip_unknown(other, RESOURCE_FIELDS)?,
            }
        }
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                SCOPE_METRICS => self.scope_metrics(reader.bytes()?)?,
                other => reader.skip(other)?,
            }
        }
        self.put_target_info()
    }

    fn scope_metrics(&mut self, message: &'a [u8]) -> Result<()> {
        self.scope.clear();
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                SCOPE => self.scope.read(reader.bytes()?)?,
                SCHEMA_URL => self.scope.schema_url = reader.bytes()?,
                METRICS => reader.skip(METRICS)?,
                other => reader.skip_unknown(other, SCOPE_FIELDS)?,
            }
        }
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                METRICS => self.decode_metric(reader.bytes()?)?,
                other => reader.skip(other)?,
            }
        }
        Ok(())
    }
}
