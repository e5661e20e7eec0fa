//! Writing one segment of windows.

use std::sync::Arc;

use icecore_model::rollup::{HistogramAggregate, HistogramEdge, HistogramWindow, Resolution};
use icecore_model::{Histogram, is_stale_nan};

use super::Column;
use crate::rollup_series::floats::FloatWriter;
use crate::rollup_series::segment::SegmentBuffer;
use crate::rollup_series::{COUNT_LIMIT, flags};
use crate::{HistogramEntry, histogram_columns};

/// Appends at least one window.
pub(super) fn push_segment(resolution: Resolution, windows: &[HistogramWindow], out: &mut Vec<u8>) {
    let mut segment = SegmentWriter::default();
    let flags: Vec<i64> = windows
        .iter()
        .map(|window| window_flags(window).into())
        .collect();
    segment.integers(Column::Flags, &flags);
    let interiors: Vec<(i64, &HistogramAggregate)> = windows
        .iter()
        .filter_map(|window| Some((window.start_ms, window.interior.as_ref()?)))
        .collect();
    let integers = |of: &dyn Fn(i64, &HistogramAggregate) -> i64| -> Vec<i64> {
        interiors
            .iter()
            .map(|(start_ms, interior)| of(*start_ms, interior))
            .collect()
    };
    let width_ms = resolution.ms();
    let firsts = integers(&|start_ms, interior| interior.first_ms - start_ms - 1);
    let lasts = integers(&|start_ms, interior| start_ms + width_ms - 1 - interior.last_ms);
    for (first, last) in firsts.iter().zip(&lasts) {
        let most = width_ms - 2;
        assert!(
            (0..=most).contains(first) && (0..=most - first).contains(last),
            "first and last histogram lie in their window"
        );
    }
    segment.integers(
        Column::Samples,
        &integers(&|_, interior| count(interior.samples)),
    );
    segment.integers(Column::FirstTime, &firsts);
    segment.integers(Column::LastTime, &lasts);
    segment.integers(
        Column::Resets,
        &integers(&|_, interior| count(interior.resets)),
    );
    let edges = windows.iter().filter_map(|window| match &window.edge {
        HistogramEdge::Sample(histogram) => Some(Some(histogram)),
        _ => None,
    });
    segment.histograms(Column::Edges, edges);
    type Part = fn(&HistogramAggregate) -> Option<&Arc<Histogram>>;
    let parts: [(Column, Part); 4] = [
        (Column::First, |interior| interior.first.as_ref()),
        (Column::Last, |interior| interior.last.as_ref()),
        (Column::Sum, |interior| interior.sum.as_ref()),
        (Column::Correction, |interior| interior.correction.as_ref()),
    ];
    for (column, part) in parts {
        segment.histograms(column, interiors.iter().map(|(_, interior)| part(interior)));
    }
    segment.integers(
        Column::Changes,
        &integers(&|_, interior| count(interior.changes)),
    );
    segment.buffer.append_to(out);
}

fn count(count: u64) -> i64 {
    assert!(count < COUNT_LIMIT, "counts are below 2^62");
    count as i64
}

fn window_flags(window: &HistogramWindow) -> u8 {
    let bit = |is_set, flag| if is_set { flag } else { 0 };
    let edge = match window.edge {
        HistogramEdge::None => 0,
        HistogramEdge::Sample(_) => flags::EDGE_SAMPLE,
        HistogramEdge::Stale => flags::EDGE_STALE,
    };
    edge | bit(window.ends_stale, flags::ENDS_STALE)
        | bit(window.interior.is_none(), flags::NO_INTERIOR)
        | bit(window.has_late, flags::HAS_LATE)
}

#[derive(Default)]
struct SegmentWriter {
    writer: FloatWriter,
    buffer: SegmentBuffer,
}

impl SegmentWriter {
    /// A column that is left out where all is 0.
    fn integers(&mut self, column: Column, integers: &[i64]) {
        if integers.iter().all(|number| *number == 0) {
            return;
        }
        self.writer.push_integers(integers, self.buffer.payload());
        self.buffer.close(column as u8);
    }

    /// A list that is left out where there is none.
    fn histograms<'h>(
        &mut self,
        column: Column,
        histograms: impl Iterator<Item = Option<&'h Arc<Histogram>>>,
    ) {
        let entry = |(value, timestamp_ms): (Option<&Arc<Histogram>>, i64)| {
            let is_stale = value.is_some_and(|histogram| is_stale_nan(histogram.sum));
            assert!(!is_stale, "a stale marker is no sample");
            HistogramEntry {
                timestamp_ms,
                value: value.cloned(),
            }
        };
        let entries: Vec<HistogramEntry> = histograms.zip(0..).map(entry).collect();
        if entries.iter().all(|entry| entry.value.is_none()) {
            return;
        }
        histogram_columns::encode(&entries, self.buffer.payload());
        self.buffer.close(column as u8);
    }
}
