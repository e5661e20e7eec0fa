//! The exemplars of a sample, read when somebody wants them.

use icecore_model::Labels;

/// One observation beside a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct ExposedExemplar {
    pub labels: Labels,
    pub value: f64,
    /// Prometheus gives one without a timestamp that of its sample.
    pub timestamp_ms: Option<i64>,
}

/// Where exemplars are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum ExemplarSource {
    #[default]
    None,
}

/// The exemplars of one sample. One that cannot be kept is an error with the reason; the others follow.
pub struct Exemplars {
    source: ExemplarSource,
}

impl Exemplars {
    pub(super) fn new(source: ExemplarSource) -> Self {
        Self { source }
    }
}

impl Iterator for Exemplars {
    type Item = Result<ExposedExemplar, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.source {
            ExemplarSource::None => None,
        }
    }
}
