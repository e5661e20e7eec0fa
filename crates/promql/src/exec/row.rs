//! Rows: the values of one series at all steps.

use std::sync::Arc;

use icecore_model::{Labels, STALE_NAN_BITS};

use crate::histogram::FloatHistogram;

/// Stands for "no float at this step". It is the staleness marker: a signalling NaN, so arithmetic
/// (which makes NaNs quiet) never yields it, and a stale sample is no sample.
pub(crate) const ABSENT: f64 = f64::from_bits(STALE_NAN_BITS);

#[inline]
pub(crate) fn is_absent(value: f64) -> bool {
    value.to_bits() == STALE_NAN_BITS
}

/// A series with its values.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) labels: Labels,
    /// The metric name is to be removed at the end of the evaluation.
    pub(crate) drop_name: bool,
    pub(crate) values: Values,
}

impl Row {
    /// Bytes held, for accounting. Labels count although they may be shared with the source: not
    /// every source has them in memory, and with one step they are most of a row.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.labels.heap_bytes() + self.values.heap_bytes()
    }
}

/// The values of a series by step. A step has a float, a histogram, or no value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// As many as there are steps; [`ABSENT`] where there is no float.
    pub(crate) floats: Vec<f64>,
    /// Empty when no step has a histogram, else as many as there are steps.
    pub(crate) histograms: Vec<Option<Arc<FloatHistogram>>>,
}

impl Values {
    pub(crate) fn absent(steps: usize) -> Self {
        Self {
            floats: vec![ABSENT; steps],
            histograms: Vec::new(),
        }
    }

    pub(crate) fn float(&self, step: usize) -> Option<f64> {
        self.floats.get(step).copied().filter(|v| !is_absent(*v))
    }

    pub(crate) fn histogram(&self, step: usize) -> Option<&Arc<FloatHistogram>> {
        self.histograms.get(step).and_then(Option::as_ref)
    }

    pub(crate) fn has_histograms(&self) -> bool {
        !self.histograms.is_empty()
    }

    pub(crate) fn is_present(&self, step: usize) -> bool {
        self.float(step).is_some() || self.histogram(step).is_some()
    }

    /// No step has a value.
    pub(crate) fn is_empty(&self) -> bool {
        self.floats.iter().all(|v| is_absent(*v)) && self.histograms.iter().all(Option::is_none)
    }

    /// Sets the value of a step to a histogram.
    pub(crate) fn set_histogram(&mut self, step: usize, histogram: Arc<FloatHistogram>) {
        if self.histograms.is_empty() {
            self.histograms = vec![None; self.floats.len()];
        }
        self.histograms[step] = Some(histogram);
        self.floats[step] = ABSENT;
    }

    /// Sets the value of a step to a float.
    pub(crate) fn set_float(&mut self, step: usize, value: f64) {
        self.floats[step] = value;
        if let Some(histogram) = self.histograms.get_mut(step) {
            *histogram = None;
        }
    }

    /// Removes the value of a step.
    pub(crate) fn clear(&mut self, step: usize) {
        self.set_float(step, ABSENT);
    }

    /// Bytes held, for accounting.
    pub(crate) fn heap_bytes(&self) -> usize {
        let histograms = self.histograms.iter().flatten();
        8 * self.floats.capacity()
            + 8 * self.histograms.capacity()
            + histograms.map(|h| h.heap_bytes()).sum::<usize>()
    }
}

/// The value of a scalar expression at all steps.
#[derive(Clone, Debug)]
pub(crate) enum ScalarColumn {
    Constant(f64),
    /// As many as there are steps.
    PerStep(Vec<f64>),
}

impl ScalarColumn {
    #[inline]
    pub(crate) fn at(&self, step: usize) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::PerStep(values) => values[step],
        }
    }
}
