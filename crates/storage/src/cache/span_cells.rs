//! Spans: the cells of one metric and window whose intervals begin in a stretch of time, and what
//! the store has of one.
//!
//! Cells are kept as they are stored. Decoding one takes some tens of nanoseconds, and a decoded
//! cell takes five times the memory.

use std::ops::Range;
use std::sync::Arc;

use icecore_model::event::{CellKey, DimensionHash, EventWindow, Week};

/// A stretch of a week. Spans of one window and week are neighbours in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellSpan {
    window: EventWindow,
    week: Week,
    metric: u32,
    number: u32,
}

impl CellSpan {
    /// The span of the cells that begin at a moment of a week.
    pub(crate) fn of(window: EventWindow, week: Week, metric: u32, start_s: i64) -> Self {
        let number = (start_s - week.start_s()).max(0) / span_seconds(window);
        Self {
            window,
            week,
            metric,
            number: u32::try_from(number).unwrap_or(u32::MAX),
        }
    }

    /// The span that a cell lies in.
    pub(crate) fn of_cell(cell: &CellKey) -> Self {
        Self::of(
            cell.window,
            Week::of(cell.start_s),
            cell.metric,
            cell.start_s,
        )
    }

    /// Of a window and week all spans of all metrics.
    pub(super) fn all_of(window: EventWindow, week: Week) -> std::ops::RangeInclusive<Self> {
        let at = |metric, number| Self {
            window,
            week,
            metric,
            number,
        };
        at(0, 0)..=at(u32::MAX, u32::MAX)
    }

    pub(super) fn segment(&self) -> (EventWindow, Week) {
        (self.window, self.week)
    }

    /// Window, week and metric.
    pub(super) fn group(&self) -> (EventWindow, Week, u32) {
        (self.window, self.week, self.metric)
    }

    /// Which of the spans of its group it is.
    pub(super) fn number(&self) -> usize {
        self.number as usize
    }

    /// How many spans a group has.
    pub(super) fn count(window: EventWindow) -> usize {
        usize::try_from(EventWindow::Week.seconds() / span_seconds(window)).unwrap_or_default()
    }

    pub(crate) fn start_s(&self) -> i64 {
        self.week.start_s() + i64::from(self.number) * span_seconds(self.window)
    }

    pub(crate) fn end_s(&self) -> i64 {
        self.start_s() + span_seconds(self.window)
    }

    pub(crate) fn next(self) -> Self {
        Self {
            number: self.number.saturating_add(1),
            ..self
        }
    }
}

/// A flush changes the span of now in each window, and what is read of it anew should be little
/// beside what is read of the others. All divide a week, which has a segment of its own.
fn span_seconds(window: EventWindow) -> i64 {
    match window {
        EventWindow::FiveSeconds => 60,
        EventWindow::Minute => 1_800,
        EventWindow::Hour => 24 * 3_600,
        EventWindow::Day | EventWindow::Week => EventWindow::Week.seconds(),
    }
}

/// All cells of a span, in the order of their keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SpanCells {
    places: Vec<CellPlace>,
    /// Where the value of each ends.
    ends: Vec<u32>,
    values: Vec<u8>,
}

/// When a cell's interval begins, and of which dimensions it is.
pub(crate) type CellPlace = (i64, DimensionHash);

impl SpanCells {
    /// Appends a cell that lies behind all others.
    pub(crate) fn push(&mut self, place: CellPlace, value: &[u8]) {
        debug_assert!(self.places.last().is_none_or(|last| *last < place));
        self.values.extend_from_slice(value);
        self.places.push(place);
        // What is larger is not kept for long, see [`super::EventCells::span_bytes_max`].
        let end = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.ends.push(end);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Memory that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.values.len() + self.places.len() * (size_of::<CellPlace>() + size_of::<u32>())
    }

    /// Gives back memory that is not used.
    pub(crate) fn into_shared(mut self) -> Arc<Self> {
        self.places.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.values.shrink_to_fit();
        Arc::new(self)
    }

    /// Which of them begin in a range and lie behind another one.
    pub(crate) fn within(&self, starts_s: &Range<i64>, after: Option<CellPlace>) -> Range<usize> {
        let is_before =
            |place: &CellPlace| place.0 < starts_s.start || after.is_some_and(|a| *place <= a);
        let first = self.places.partition_point(is_before);
        let end = self
            .places
            .partition_point(|place| place.0 < starts_s.end)
            .max(first);
        first..end
    }

    /// Places and values of some of them.
    pub(crate) fn iter(&self, range: Range<usize>) -> impl Iterator<Item = (CellPlace, &[u8])> {
        range.map(|at| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            let value = &self.values[start as usize..self.ends[at] as usize];
            (self.places[at], value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_divide_a_week() {
        let week = Week::of(1_794_182_400);
        for window in EventWindow::ALL {
            let last_s = window.start_of(week.end_s() - 1);
            let mut span = CellSpan::of(window, week, 7, week.start_s());
            assert_eq!(span.start_s(), week.start_s());
            while span.end_s() < week.end_s() {
                let next = span.next();
                assert!(span < next && span.end_s() == next.start_s());
                assert_eq!(CellSpan::of(window, week, 7, next.end_s() - 1), next);
                assert!(CellSpan::all_of(window, week).contains(&next));
                span = next;
            }
            assert_eq!(span.end_s(), week.end_s(), "{}", window.code());
            assert_eq!(span.number() + 1, CellSpan::count(window));
            assert_eq!(CellSpan::of(window, week, 7, last_s), span);
        }
    }

    #[test]
    fn a_part_is_found_by_time_and_by_the_cell_before_it() {
        let place = |at_s, n| (at_s, DimensionHash([n; 16]));
        let mut cells = SpanCells::default();
        let places = [place(0, 1), place(0, 2), place(5, 1), place(10, 1)];
        for (n, at) in places.into_iter().enumerate() {
            cells.push(at, &vec![7; n]);
        }
        let cells = cells.into_shared();
        assert_eq!(cells.within(&(0..11), None), 0..4);
        assert_eq!(cells.within(&(1..10), None), 2..3);
        assert_eq!(cells.within(&(0..10), Some(place(0, 1))), 1..3);
        assert_eq!(cells.within(&(0..5), Some(place(5, 0))), 2..2);
        assert_eq!(cells.within(&(20..30), None), 4..4);
        let lengths = cells.iter(1..4).map(|(at, value)| (at, value.len()));
        let expected = [(places[1], 1), (places[2], 2), (places[3], 3)];
        assert_eq!(lengths.collect::<Vec<_>>(), expected);
    }
}
