//! The two forms of an export.

use icecore_model::{Exemplar, Metadata, SeriesSamples};
use icecore_wire::SeriesContent;
use icecore_wire::native::{CONTENT_TYPE, Encoder};
use icecore_wire::prometheus::export::write_export_line;

use crate::middleware::error::ApiError;
use crate::middleware::params::Params;

/// Samples of one line: a series that has more takes several lines, so that clients can read them
/// with little memory. Twenty megabytes of text or so; two months of a sample every five seconds.
const LINE_SAMPLES: usize = 1 << 20;

/// A series and what belongs to it.
pub(super) struct ExportedSeries {
    pub(super) series: SeriesSamples,
    pub(super) exemplars: Vec<Exemplar>,
    pub(super) metadata: Option<(String, Metadata)>,
}

pub(super) enum Writer {
    Json {
        line_samples: usize,
    },
    Native {
        /// Begun with the first series.
        encoder: Option<Box<Encoder>>,
    },
}

impl Writer {
    pub(super) fn new(params: &Params) -> Result<Self, ApiError> {
        match params.first("format") {
            None | Some("json") => {
                let given = params.number("max_rows_per_line")?;
                let given = given.filter(|rows| *rows > 0);
                let given = given.and_then(|rows| usize::try_from(rows).ok());
                let line_samples = given.unwrap_or(LINE_SAMPLES);
                Ok(Self::Json { line_samples })
            }
            Some("native") => Ok(Self::Native { encoder: None }),
            Some(_) => Err(ApiError::of_parameter("format", "json or native")),
        }
    }

    pub(super) fn content_type(&self) -> &'static str {
        match self {
            Self::Json { .. } => "application/x-ndjson",
            Self::Native { .. } => CONTENT_TYPE,
        }
    }

    pub(super) fn write(&mut self, out: &mut Vec<u8>, all: &[ExportedSeries]) {
        if let Self::Native { encoder } = self {
            let encoder = encoder.get_or_insert_with(|| Box::new(Encoder::new(out)));
            let families = all
                .iter()
                .filter_map(|described| described.metadata.as_ref());
            encoder.metadata(out, families);
        }
        for described in all {
            let content = SeriesContent::new(&described.series, &described.exemplars);
            match self {
                Self::Json { line_samples } => {
                    let mut metadata = described.metadata.as_ref();
                    for part in content.parts(*line_samples) {
                        let metadata = metadata.take().map(|(name, m)| (name.as_str(), m));
                        write_export_line(out, part, metadata);
                    }
                }
                Self::Native { encoder } => {
                    let encoder = encoder.get_or_insert_with(|| Box::new(Encoder::new(out)));
                    encoder.series(out, content);
                }
            }
        }
    }

    /// Writes what a complete answer ends with, if there is anything.
    pub(super) fn finish(self, out: &mut Vec<u8>) -> Option<()> {
        if let Self::Native { encoder } = self {
            let encoder = encoder.unwrap_or_else(|| Box::new(Encoder::new(out)));
            encoder.finish(out);
        }
        (!out.is_empty()).then_some(())
    }
}
