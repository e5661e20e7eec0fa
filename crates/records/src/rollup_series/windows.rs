//! Windows as columns, as they are about to be written.

use icecore_model::is_stale_nan;
use icecore_model::rollup::{Aggregate, Edge, Resolution, Window, WindowFields};

use super::column::{COUNT_LIMIT, flags};

/// Windows as columns.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) numbers: Vec<i64>,
    pub(super) nans: Vec<i64>,
    pub(super) first_time: Vec<i64>,
    pub(super) last_time: Vec<i64>,
    pub(super) first: Vec<f64>,
    pub(super) last: Vec<f64>,
    pub(super) min: Vec<f64>,
    pub(super) max: Vec<f64>,
    pub(super) sum: Vec<f64>,
    pub(super) m2: Vec<f64>,
    pub(super) correction: Vec<f64>,
    pub(super) resets: Vec<i64>,
    pub(super) changes: Vec<i64>,
    pub(super) flags: Vec<i64>,
    pub(super) edges: Vec<f64>,
    /// What the window of an edge begins with; the same as before where it has no interior.
    pub(super) after_edges: Vec<f64>,
}

impl Columns {
    pub(super) fn set(&mut self, resolution: Resolution, fields: WindowFields, windows: &[Window]) {
        *self = Self {
            numbers: cleared(&mut self.numbers),
            nans: cleared(&mut self.nans),
            first_time: cleared(&mut self.first_time),
            last_time: cleared(&mut self.last_time),
            first: cleared(&mut self.first),
            last: cleared(&mut self.last),
            min: cleared(&mut self.min),
            max: cleared(&mut self.max),
            sum: cleared(&mut self.sum),
            m2: cleared(&mut self.m2),
            correction: cleared(&mut self.correction),
            resets: cleared(&mut self.resets),
            changes: cleared(&mut self.changes),
            flags: cleared(&mut self.flags),
            edges: cleared(&mut self.edges),
            after_edges: cleared(&mut self.after_edges),
        };
        for window in windows {
            self.flags.push(window_flags(window).into());
            if let Edge::Sample(value) = window.edge {
                assert!(!is_stale_nan(value), "a stale marker is no sample");
                self.edges.push(value);
                let before = self.after_edges.last().copied().unwrap_or(0.0);
                let first = window.interior.map(|interior| interior.first);
                self.after_edges.push(first.unwrap_or(before));
            }
            if let Some(interior) = &window.interior {
                self.push(resolution, fields, window.start_ms, interior);
            }
        }
    }

    fn push(
        &mut self,
        resolution: Resolution,
        fields: WindowFields,
        start_ms: i64,
        interior: &Aggregate,
    ) {
        let last_moment_ms = start_ms + resolution.ms() - 1;
        let (mut first, mut last) = (0, 0);
        if fields.contains(WindowFields::FIRST) {
            first = interior.first_ms.wrapping_sub(start_ms + 1);
        }
        if fields.contains(WindowFields::LAST) {
            last = last_moment_ms.wrapping_sub(interior.last_ms);
        }
        let most = resolution.ms() - 2;
        assert!(
            (0..=most).contains(&first) && (0..=most - first).contains(&last),
            "first and last sample lie in their window"
        );
        if fields.contains(WindowFields::COUNTS) {
            assert_ne!(interior.samples(), 0, "an interior has samples");
        }
        self.first_time.push(first);
        self.last_time.push(last);
        for (column, count) in [
            (&mut self.numbers, interior.numbers),
            (&mut self.nans, interior.nans),
            (&mut self.resets, interior.resets),
            (&mut self.changes, interior.changes),
        ] {
            assert!(count < COUNT_LIMIT, "counts are below 2^62");
            column.push(count as i64);
        }
        for (field, column, value) in [
            (WindowFields::FIRST, &mut self.first, interior.first),
            (WindowFields::LAST, &mut self.last, interior.last),
            (WindowFields::MIN, &mut self.min, interior.min),
            (WindowFields::MAX, &mut self.max, interior.max),
            (WindowFields::SUM, &mut self.sum, interior.sum),
            (WindowFields::M2, &mut self.m2, interior.m2),
            (
                WindowFields::CORRECTION,
                &mut self.correction,
                interior.correction,
            ),
        ] {
            let is_stale = fields.contains(field) && is_stale_nan(value);
            assert!(!is_stale, "a stale marker is no sample");
            column.push(value);
        }
    }
}

fn cleared<T>(column: &mut Vec<T>) -> Vec<T> {
    column.clear();
    std::mem::take(column)
}

fn window_flags(window: &Window) -> u8 {
    let bit = |is_set, flag| if is_set { flag } else { 0 };
    bit(matches!(window.edge, Edge::Sample(_)), flags::EDGE_SAMPLE)
        | bit(window.edge == Edge::Stale, flags::EDGE_STALE)
        | bit(window.ends_stale, flags::ENDS_STALE)
        | bit(window.interior.is_none(), flags::NO_INTERIOR)
        | bit(window.has_late, flags::HAS_LATE)
}
