//! How fine the samples of a view are, and which cells they are made of.
//!
//! Samples are 5 s apart, or a minute, an hour or a day if a query sees the same in them: if all
//! moments at which it is evaluated lie on that grid, and its ranges are multiples of it and at
//! least sixty times as long. Where cells are not kept any more the finest that are kept are
//! taken, day by day.

use icecore_model::SelectHints;
use icecore_model::event::{EventWindow, Week};

use super::load::ViewRange;
use crate::Metric;
use crate::query::{Segment, cover, kept_since_s};

const DAY_S: i64 = 86_400;

/// A range is at least this many times as long as samples are apart: what `rate` extrapolates is
/// at most one of these parts.
const STEPS_OF_RANGE: i64 = 60;

/// How far apart the samples of a selection may be.
pub(super) fn step_of(hints: &SelectHints) -> EventWindow {
    let Some(evaluations) = hints.evaluations else {
        return EventWindow::FiveSeconds;
    };
    let is_fine_enough = |window: &EventWindow| {
        let step_ms = window.seconds() * 1000;
        let is_multiple = |time_ms: i64| time_ms.rem_euclid(step_ms) == 0;
        let shortest_ms = evaluations.shortest_range_ms;
        is_multiple(evaluations.grid_ms)
            && is_multiple(evaluations.range_grid_ms)
            && (shortest_ms == 0 || shortest_ms >= STEPS_OF_RANGE * step_ms)
    };
    // A week is no grid of times since the epoch.
    let coarse = [EventWindow::Day, EventWindow::Hour, EventWindow::Minute];
    let coarsest = coarse.into_iter().find(|window| is_fine_enough(window));
    coarsest.unwrap_or(EventWindow::FiveSeconds)
}

/// The parts of a week with the window that each is read from, in time order and without gaps.
pub(super) fn week_segments(
    metric: &Metric,
    step: EventWindow,
    week: Week,
    guarded_ms: i64,
) -> Vec<Segment> {
    let whole = |window| Segment {
        window,
        start_s: week.start_s(),
        end_s: week.end_s(),
    };
    let kept = &metric.retention;
    let fits = |window: &EventWindow| *window >= step && *window < EventWindow::Week;
    let windows: Vec<EventWindow> = metric.windows().filter(fits).collect();
    // The finest of those that are kept the longest.
    let last_left = windows.iter().rev().max_by_key(|window| kept.of(**window));
    let Some(last_left) = last_left.copied() else {
        return vec![whole(EventWindow::Week)];
    };
    let since = |window: EventWindow| kept_since_s(metric, window, guarded_ms);
    let only_weeks = kept.of(EventWindow::Week) > kept.of(last_left);
    if only_weeks && since(last_left) >= week.end_s() {
        return vec![whole(EventWindow::Week)];
    }
    let mut segments: Vec<Segment> = Vec::new();
    for start_s in (0..7).map(|day| week.start_s() + day * DAY_S) {
        let complete = windows.iter().find(|window| since(**window) <= start_s);
        let window = complete.copied().unwrap_or(last_left);
        match segments.last_mut() {
            Some(last) if last.window == window => last.end_s = start_s + DAY_S,
            _ => segments.push(Segment {
                window,
                start_s,
                end_s: start_s + DAY_S,
            }),
        }
    }
    segments
}

/// The cells to be read for what a week adds up to at all moments from `start_s` to `until_s`:
/// coarse ones for the time before.
pub(super) fn week_reads(
    metric: &Metric,
    segments: &[Segment],
    week: Week,
    (start_s, until_s): (i64, i64),
    range: ViewRange,
) -> Vec<Segment> {
    let (start_s, until_s) = (start_s.max(week.start_s()), until_s.min(week.end_s()));
    let is_whole = |window: &EventWindow| {
        (EventWindow::Hour..=EventWindow::Day).contains(window)
            && kept_since_s(metric, *window, range.guarded_ms) <= week.start_s()
    };
    let coarse: Vec<EventWindow> = metric.windows().filter(is_whole).collect();
    let first = segments.iter().find(|segment| start_s < segment.end_s);
    let from_s = match (coarse.first(), first) {
        (Some(finest), Some(first)) => {
            let aligned = first.window.max(*finest).start_of(start_s);
            aligned.max(first.start_s).max(week.start_s())
        }
        _ => week.start_s(),
    };
    let mut reads = cover(&coarse, week.start_s(), from_s);
    let finest = metric.base;
    let now_s = range.now_ms.div_euclid(1000);
    for segment in segments {
        let (from_s, end_s) = (segment.start_s.max(from_s), segment.end_s.min(until_s));
        if from_s >= end_s {
            continue;
        }
        let open_s = segment.window.start_of(now_s).max(from_s);
        let part = |end_s| Segment {
            start_s: from_s,
            end_s,
            ..*segment
        };
        if end_s <= open_s || segment.window == finest {
            reads.push(part(end_s));
            continue;
        }
        // The interval of now is not over: what is in it so far is in finer cells.
        if from_s < open_s {
            reads.push(part(open_s));
        }
        let finer: Vec<_> = metric.windows().filter(|w| *w < segment.window).collect();
        reads.extend(cover(
            &finer,
            open_s,
            finest.start_of(now_s) + finest.seconds(),
        ));
    }
    reads
}
