//! Samples and windows of a series as cells in time order.

use icecore_model::rollup::{Edge, WindowColumns, WindowFields};

use super::super::windows::{Slot, advance};
use super::{RolledView, Span};

/// What a function needs of a run of samples.
pub(super) trait Cell: Copy {
    fn sample(timestamp_ms: i64, value: f64) -> Self;

    /// What lies after the start of a window. There is a sample, and the columns are there that the
    /// function requires.
    fn window(columns: &WindowColumns, index: usize, width_ms: i64) -> Self;
}

/// The cells of a series with their positions, which ascend.
pub(super) struct Cells<T> {
    pub(super) positions: Vec<i64>,
    pub(super) values: Vec<T>,
}

impl<T: Cell> Cells<T> {
    /// All that the spans of a series touch. Windows without one of the needed columns are left
    /// out.
    pub(super) fn new(view: &RolledView<'_>, needed: WindowFields) -> Self {
        let windows: usize = view.rolled.windows.iter().map(WindowColumns::len).sum();
        let mut samples = Samples::touched(view);
        // A window has up to two: the sample at its start, and what lies after it.
        let edges: usize = view.rolled.windows.iter().map(|of| of.edges.len()).sum();
        let cells = windows + edges + samples.times.len();
        let mut cells = Self {
            positions: Vec::with_capacity(cells),
            values: Vec::with_capacity(cells),
        };
        for (segment, windows) in view.rolled.segments() {
            cells.push_samples(samples.until(segment.start_ms));
            // Within a rolled segment there are none.
            samples.until(segment.end_ms);
            if windows.fields.contains(needed) {
                cells.push_windows(windows, segment.resolution.ms());
            }
        }
        cells.push_samples(samples);
        cells
    }

    fn push_samples(&mut self, samples: Samples<'_>) {
        self.positions.extend_from_slice(samples.times);
        let values = samples.times.iter().zip(samples.floats);
        self.values
            .extend(values.map(|(time, value)| T::sample(*time, *value)));
    }

    fn push_windows(&mut self, columns: &WindowColumns, width_ms: i64) {
        for (index, start_ms) in columns.starts.iter().enumerate() {
            if let Edge::Sample(value) = columns.edge(index) {
                self.positions.push(*start_ms);
                self.values.push(T::sample(*start_ms, value));
            }
            if columns.has_interior(index) {
                self.positions.push(start_ms + 1);
                self.values.push(T::window(columns, index, width_ms));
            }
        }
    }
}

impl<T> Cells<T> {
    /// The cells of each span.
    pub(super) fn slots(&self, view: &RolledView<'_>) -> Vec<Slot> {
        let (mut lo, mut hi) = (0, 0);
        let spans = view.spans.list.iter();
        spans
            .map(|(_, span)| {
                lo = advance(&self.positions, lo, span.after_ms);
                hi = advance(&self.positions, hi.max(lo), span.until_ms);
                Slot {
                    lo: lo as u32,
                    hi: hi as u32,
                }
            })
            .collect()
    }

    /// The cells of the first window of a span, if a part of it lies outside of the range.
    pub(super) fn first_window(&self, span: &Span, slot: Slot) -> Option<Slot> {
        if span.outside == 0.0 {
            return None;
        }
        let hi = advance(&self.positions, slot.lo as usize, span.first_until_ms);
        Some(Slot {
            lo: slot.lo,
            hi: slot.hi.min(hi as u32),
        })
    }
}

/// Samples of raw segments.
pub(super) struct Samples<'a> {
    pub(super) times: &'a [i64],
    pub(super) floats: &'a [f64],
}

impl<'a> Samples<'a> {
    /// Those that spans of the view touch.
    pub(super) fn touched(view: &RolledView<'a>) -> Self {
        let mut all = Self {
            times: view.times,
            floats: view.floats,
        };
        let (Some((_, first)), Some((_, last))) = (view.spans.list.first(), view.spans.list.last())
        else {
            return all.until(i64::MIN);
        };
        let (before_ms, after_ms) = view.windows.lookaround();
        let after = first.after_ms.saturating_sub(before_ms);
        all.until(after.saturating_add(1));
        let until = last.until_ms.saturating_add(after_ms);
        all.until(until.saturating_add(1))
    }

    /// Takes the samples before a moment.
    pub(super) fn until(&mut self, end_ms: i64) -> Self {
        let count = self.times.partition_point(|time| *time < end_ms);
        let (times, floats) = (self.times, self.floats);
        (self.times, self.floats) = (&times[count..], &floats[count..]);
        Self {
            times: &times[..count],
            floats: &floats[..count],
        }
    }
}
