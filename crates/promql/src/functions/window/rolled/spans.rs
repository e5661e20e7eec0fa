//! The times that steps read of rolled-up time: rounded down to the grids of its levels.

use icecore_model::Levels;
use icecore_model::rollup::Resolution;

use super::super::windows::Windows;

/// What a step reads: after `after_ms`, up to `until_ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) after_ms: i64,
    pub(super) until_ms: i64,
    /// The part of the first window that lies before the range of the step.
    pub(super) outside: f64,
    /// The end of the first window, if a part of it lies outside.
    pub(super) first_until_ms: i64,
}

/// The spans of the steps that touch windows, in order.
#[derive(Debug)]
pub(super) struct Spans {
    pub(super) list: Vec<(usize, Span)>,
    /// Levels whose windows are touched.
    pub(super) touched: Vec<Resolution>,
    /// Levels to whose grid some step was rounded.
    pub(super) rounded: Vec<Resolution>,
    /// Levels with windows wider than the range.
    pub(super) short: Vec<Resolution>,
    /// Most moments lie in many spans, so that folding each by itself is expensive.
    pub(super) overlap: bool,
}

/// In how many spans a moment may lie on average for folding each by itself to be cheaper.
const SMALL_OVERLAP: i64 = 3;

impl Spans {
    pub(super) fn new(windows: &Windows, levels: &Levels) -> Self {
        let mut spans = Self {
            list: Vec::new(),
            touched: Vec::new(),
            rounded: Vec::new(),
            short: Vec::new(),
            overlap: false,
        };
        for step in 0..windows.grid.steps {
            let end_ms = windows.edges(step).1;
            let level = levels.at(end_ms);
            let span = Span::new(levels, end_ms, windows.range_ms);
            let (after_ms, until_ms) = span.touched(windows);
            if level.is_raw() && !levels.is_rolled(after_ms, until_ms) {
                continue;
            }
            if span.until_ms != end_ms {
                insert(&mut spans.rounded, level);
            }
            for level in [level, levels.at(span.after_ms)] {
                if windows.range_ms < level.ms() {
                    insert(&mut spans.short, level);
                }
            }
            spans.list.push((step, span));
        }
        if let (Some((_, first)), Some((_, last))) = (spans.list.first(), spans.list.last()) {
            let lengths = spans.list.iter().map(|(_, span)| span.length_ms());
            let all_ms = lengths.fold(0, i64::saturating_add);
            let hull_ms = last.until_ms.saturating_sub(first.after_ms);
            spans.overlap = all_ms > hull_ms.saturating_mul(SMALL_OVERLAP);
        }
        for segment in levels.segments.iter().filter(|s| !s.resolution.is_raw()) {
            let mut touched = spans.list.iter().map(|(_, span)| span.touched(windows));
            if touched.any(|(after_ms, until_ms)| segment.overlaps(after_ms, until_ms)) {
                insert(&mut spans.touched, segment.resolution);
            }
        }
        spans
    }
}

impl Span {
    /// The span extended by the look-back of its edges.
    pub(super) fn touched(&self, windows: &Windows) -> (i64, i64) {
        let (before_ms, after_ms) = windows.lookaround();
        (
            self.after_ms.saturating_sub(before_ms),
            self.until_ms.saturating_add(after_ms),
        )
    }

    fn length_ms(&self) -> i64 {
        self.until_ms.saturating_sub(self.after_ms)
    }

    /// The span of a range that ends at `end_ms`.
    fn new(levels: &Levels, end_ms: i64, range_ms: i64) -> Self {
        let until_ms = levels.floor(end_ms);
        let start_ms = until_ms.saturating_sub(range_ms);
        let first = levels.at(start_ms);
        let after_ms = first.floor(start_ms);
        let outside = match first.ms() {
            0 => 0.0,
            width => start_ms.saturating_sub(after_ms) as f64 / width as f64,
        };
        Self {
            after_ms,
            until_ms,
            outside,
            first_until_ms: after_ms.saturating_add(first.ms()),
        }
    }
}

fn insert(levels: &mut Vec<Resolution>, level: Resolution) {
    if !levels.contains(&level) {
        levels.push(level);
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::HOUR_MS;
    use icecore_model::rollup::Segment;

    use super::*;

    #[test]
    fn ends_are_rounded_down() {
        let segment = |start_ms, end_ms, resolution| Segment {
            start_ms,
            end_ms,
            resolution,
        };
        let levels = Levels {
            segments: vec![
                segment(0, 2 * HOUR_MS, Resolution::HOUR),
                segment(2 * HOUR_MS, 9 * HOUR_MS, Resolution::RAW),
            ],
            excluded: None,
        };
        let of = |minutes: i64, range: i64| {
            let span = Span::new(&levels, minutes * 60_000, range * 60_000);
            let minutes = |ms| ms / 60_000;
            (minutes(span.after_ms), minutes(span.until_ms), span.outside)
        };
        assert_eq!(of(60, 60), (0, 60, 0.0));
        assert_eq!(of(119, 60), (0, 60, 0.0));
        assert_eq!(of(60, 15), (0, 60, 0.75));
        assert_eq!(of(150, 120), (0, 150, 0.5));
        assert_eq!(of(150, 20), (130, 150, 0.0));
        assert_eq!(of(120, 60), (60, 120, 0.0));
    }
}
