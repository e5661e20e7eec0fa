//! Exemplars: single observations that carry a trace id or other labels.

use crate::Labels;

/// One exemplar of a series.
#[derive(Clone, Debug)]
pub struct Exemplar {
    pub labels: Labels,
    pub timestamp_ms: i64,
    pub value: f64,
}

impl PartialEq for Exemplar {
    /// Equal bit for bit, so that NaN equals itself and −0 differs from 0.
    fn eq(&self, other: &Self) -> bool {
        self.timestamp_ms == other.timestamp_ms
            && self.value.to_bits() == other.value.to_bits()
            && self.labels == other.labels
    }
}

impl Eq for Exemplar {}
