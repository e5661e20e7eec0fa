//! `rate`, `increase` and `delta` where cells lie: a range needs its first and its last cell, how
//! many samples it has, and the resets in it, which are few.

use icecore_model::kahan_add;
use icecore_model::rollup::{Edge, WindowFields};

use super::super::rate::RateKind;
use super::RolledView;
use super::growth::{Growth, extrapolated, lost_inside};
use super::runs::{Part, Piece, Runs};

/// What a counter lost in a cell, and between it and the one before.
#[derive(Clone, Copy, Debug)]
struct Loss {
    position_ms: i64,
    inside: f64,
    /// Both together.
    total: f64,
}

pub(super) fn rates(
    view: &RolledView<'_>,
    kind: RateKind,
    set: &mut dyn FnMut(usize, Option<f64>),
) {
    let required = WindowFields::COUNTS | WindowFields::FIRST | WindowFields::LAST;
    let counter = Counter::new(Runs::new(view, required), kind);
    let seconds = if kind.per_second {
        view.windows.range_seconds()
    } else {
        1.0
    };
    let mut parts = counter.runs.no_parts();
    for (step, span) in &view.spans.list {
        counter
            .runs
            .advance(&mut parts, span.after_ms, span.until_ms);
        let mut value = counter.increase(&parts, (span.after_ms, span.until_ms));
        if let (Some(value), Some(first)) =
            (value.as_mut(), counter.runs.first_window(span, &parts))
        {
            let inside = counter.increase(&first, (span.after_ms, span.first_until_ms));
            *value -= span.outside * inside.unwrap_or(0.0);
        }
        set(*step, value.map(|value| value / seconds));
    }
}

struct Counter<'v> {
    runs: Runs<'v>,
    kind: RateKind,
    /// In time order.
    losses: Vec<Loss>,
}

impl<'v> Counter<'v> {
    fn new(runs: Runs<'v>, kind: RateKind) -> Self {
        let losses = if kind.counter {
            losses(&runs)
        } else {
            Vec::new()
        };
        Self { runs, kind, losses }
    }

    /// The increase or difference over a range with these limits.
    #[inline]
    fn increase(&self, parts: &[Part], limits: (i64, i64)) -> Option<f64> {
        let (position_ms, first): (i64, Growth) = self.runs.first(parts)?;
        let last: Growth = self.runs.last(parts)?;
        let growth = Growth {
            last_ms: last.last_ms,
            last: last.last,
            samples: self.samples(parts),
            lost: self.lost(position_ms, limits.1),
            ..first
        };
        extrapolated(&growth, limits, self.kind)
    }

    #[inline]
    fn samples(&self, parts: &[Part]) -> u64 {
        let of_part = |(piece, part): (&Piece<'_>, &Part)| match piece {
            Piece::Samples(_) => (part.hi - part.lo) as u64,
            Piece::Windows { columns, .. } => {
                let counts = |counts: &[u64]| -> u64 {
                    let within = counts.get(part.lo..part.hi);
                    within.unwrap_or_default().iter().sum()
                };
                let edges = columns.edges.get(part.edge_lo..part.edge_hi);
                let edges = edges.unwrap_or_default().iter();
                let edges = edges.filter(|edge| matches!(edge, Edge::Sample(_)));
                counts(&columns.numbers) + counts(&columns.nans) + edges.count() as u64
            }
        };
        self.runs.pieces.iter().zip(parts).map(of_part).sum()
    }

    /// What was lost from the cell at a position on, up to a moment: what was lost between it and
    /// the one before is not.
    fn lost(&self, position_ms: i64, until_ms: i64) -> f64 {
        let from = self
            .losses
            .partition_point(|loss| loss.position_ms < position_ms);
        let mut losses = self.losses[from..].iter().peekable();
        let first = losses.next_if(|loss| loss.position_ms == position_ms);
        let rest = losses.take_while(|loss| loss.position_ms <= until_ms);
        let (sum, rounding) = rest.fold((0.0, 0.0), |(sum, rounding), loss| {
            kahan_add(loss.total, sum, rounding)
        });
        first.map_or(0.0, |loss| loss.inside) + (sum + rounding)
    }
}

/// The cells in which something was lost, or before which the counter was reset.
fn losses(runs: &Runs<'_>) -> Vec<Loss> {
    let mut losses = Vec::new();
    let mut before: Option<f64> = None;
    let mut pass = |position_ms: i64, first: f64, last: f64, inside: f64| {
        let reset = before.filter(|before| first < *before);
        if reset.is_some() || inside != 0.0 {
            losses.push(Loss {
                position_ms,
                inside,
                total: reset.map_or(inside, |lost| inside + lost),
            });
        }
        before = Some(last);
    };
    for piece in &runs.pieces {
        match piece {
            Piece::Samples(samples) => {
                for (time, value) in samples.times.iter().zip(samples.floats) {
                    pass(*time, *value, *value, 0.0);
                }
            }
            Piece::Windows { columns, .. } => {
                for (at, start_ms) in columns.starts.iter().enumerate() {
                    if let Edge::Sample(value) = columns.edge(at) {
                        pass(*start_ms, value, value, 0.0);
                    }
                    if columns.has_interior(at) {
                        let (first, last) = (columns.first[at], columns.last[at]);
                        pass(start_ms + 1, first, last, lost_inside(columns, at));
                    }
                }
            }
        }
    }
    losses
}
