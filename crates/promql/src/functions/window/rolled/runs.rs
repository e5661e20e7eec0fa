//! Windows and samples of a series where they lie, for functions that look at each cell of a range
//! once, or only at its ends.
//!
//! ```text
//! pieces, in time order     samples │ windows │ samples
//! the range (a, b] of one   interiors of a ≤ w < b, edges of a < w ≤ b; samples of a < t ≤ b
//! ```
//!
//! A copy of all cells ([`super::cells`]) takes more memory than the windows, and more time than
//! everything else: it is made only for functions that need it, and for ranges that overlap much.

use icecore_model::rollup::{Edge, WindowColumns, WindowFields};

use super::super::windows::advance;
use super::cells::{Cell, Samples};
use super::{RolledView, Span};

/// A series, piece by piece.
pub(super) struct Runs<'v> {
    pub(super) pieces: Vec<Piece<'v>>,
}

pub(super) enum Piece<'v> {
    Samples(Samples<'v>),
    Windows {
        columns: &'v WindowColumns,
        width_ms: i64,
    },
}

/// What a range has of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Samples, or windows whose interiors are in it.
    pub(super) lo: usize,
    pub(super) hi: usize,
    /// Windows whose edges are in it.
    pub(super) edge_lo: usize,
    pub(super) edge_hi: usize,
}

impl<'v> Runs<'v> {
    /// All that the spans of a series touch. Windows without one of the needed columns are left
    /// out.
    pub(super) fn new(view: &RolledView<'v>, needed: WindowFields) -> Self {
        let mut samples = Samples::touched(view);
        let mut pieces = Vec::with_capacity(2 * view.rolled.windows.len() + 1);
        let push_samples = |samples: Samples<'v>, pieces: &mut Vec<Piece<'v>>| {
            if !samples.times.is_empty() {
                pieces.push(Piece::Samples(samples));
            }
        };
        for (segment, columns) in view.rolled.segments() {
            push_samples(samples.until(segment.start_ms), &mut pieces);
            // Within a rolled segment there are none.
            samples.until(segment.end_ms);
            if columns.fields.contains(needed) && !columns.is_empty() {
                let width_ms = segment.resolution.ms();
                pieces.push(Piece::Windows { columns, width_ms });
            }
        }
        push_samples(samples, &mut pieces);
        Self { pieces }
    }

    /// Parts of a range that has nothing, one for each piece.
    pub(super) fn no_parts(&self) -> Vec<Part> {
        vec![Part::default(); self.pieces.len()]
    }

    /// Moves the parts of a range to one whose ends do not lie before its own.
    #[inline]
    pub(super) fn advance(&self, parts: &mut [Part], after_ms: i64, until_ms: i64) {
        for (piece, part) in self.pieces.iter().zip(parts) {
            *part = piece.advanced(part, after_ms, until_ms);
        }
    }

    /// The parts of the first window of a span, if a part of it lies outside of the range; those
    /// of the span are known.
    pub(super) fn first_window(&self, span: &Span, parts: &[Part]) -> Option<Vec<Part>> {
        if span.outside == 0.0 {
            return None;
        }
        let from = parts.iter().map(|part| Part {
            hi: part.lo,
            ..*part
        });
        let mut first: Vec<Part> = from.collect();
        let until_ms = span.first_until_ms.min(span.until_ms);
        self.advance(&mut first, span.after_ms, until_ms);
        Some(first)
    }

    /// Calls `take` with the cells of a range, in time order.
    #[inline]
    pub(super) fn each<T: Cell>(&self, parts: &[Part], mut take: impl FnMut(T)) {
        for (piece, part) in self.pieces.iter().zip(parts) {
            piece.each(part, &mut take);
        }
    }

    /// The first cell of a range, with its position.
    #[inline]
    pub(super) fn first<T: Cell>(&self, parts: &[Part]) -> Option<(i64, T)> {
        let mut parts = self.pieces.iter().zip(parts);
        parts.find_map(|(piece, part)| piece.first(part))
    }

    #[inline]
    pub(super) fn last<T: Cell>(&self, parts: &[Part]) -> Option<T> {
        let parts = self.pieces.iter().zip(parts);
        parts.rev().find_map(|(piece, part)| piece.last(part))
    }
}

impl Piece<'_> {
    fn advanced(&self, from: &Part, after_ms: i64, until_ms: i64) -> Part {
        match self {
            Self::Samples(samples) => {
                let lo = advance(samples.times, from.lo, after_ms);
                let hi = advance(samples.times, from.hi.max(lo), until_ms);
                Part {
                    lo,
                    hi,
                    ..Part::default()
                }
            }
            Self::Windows { columns, width_ms } => {
                let starts = &columns.starts[..];
                let lo = first_from(starts, from.lo, after_ms, *width_ms);
                let hi = first_from(starts, from.hi.max(lo), until_ms, *width_ms);
                let begins = |at: usize, moment: i64| starts.get(at) == Some(&moment);
                Part {
                    lo,
                    hi,
                    edge_lo: lo + usize::from(begins(lo, after_ms)),
                    edge_hi: hi + usize::from(begins(hi, until_ms)),
                }
            }
        }
    }

    #[inline]
    fn each<T: Cell>(&self, part: &Part, take: &mut impl FnMut(T)) {
        match self {
            Self::Samples(samples) => {
                let times = samples.times[part.lo..part.hi].iter();
                let samples = times.zip(&samples.floats[part.lo..part.hi]);
                samples.for_each(|(time, value)| take(T::sample(*time, *value)));
            }
            Self::Windows { columns, width_ms } => {
                if columns.edges.is_empty() {
                    for at in part.lo..part.hi {
                        if columns.has_interior(at) {
                            take(T::window(columns, at, *width_ms));
                        }
                    }
                    return;
                }
                let (starts, edges) = (&columns.starts[..], &columns.edges[..]);
                // Of the first and the last window the edge may lie outside.
                if part.lo < part.hi && part.edge_lo > part.lo && columns.has_interior(part.lo) {
                    take(T::window(columns, part.lo, *width_ms));
                }
                for at in part.edge_lo..part.hi {
                    if let Edge::Sample(value) = edges[at] {
                        take(T::sample(starts[at], value));
                    }
                    if columns.has_interior(at) {
                        take(T::window(columns, at, *width_ms));
                    }
                }
                if let Some(cell) = edge(columns, part, part.hi) {
                    take(cell);
                }
            }
        }
    }

    #[inline]
    fn first<T: Cell>(&self, part: &Part) -> Option<(i64, T)> {
        match self {
            Self::Samples(samples) => {
                let (time, value) = (samples.times.get(part.lo)?, samples.floats.get(part.lo)?);
                (part.lo < part.hi).then(|| (*time, T::sample(*time, *value)))
            }
            Self::Windows { columns, width_ms } => {
                let of_window = |at: usize| {
                    let start_ms = *columns.starts.get(at)?;
                    if let Some(cell) = edge(columns, part, at) {
                        return Some((start_ms, cell));
                    }
                    let inside = at < part.hi && columns.has_interior(at);
                    inside.then(|| (start_ms + 1, T::window(columns, at, *width_ms)))
                };
                (part.lo..part.hi.max(part.edge_hi)).find_map(of_window)
            }
        }
    }

    #[inline]
    fn last<T: Cell>(&self, part: &Part) -> Option<T> {
        match self {
            Self::Samples(samples) => {
                let at = part.hi.checked_sub(1).filter(|at| *at >= part.lo)?;
                Some(T::sample(*samples.times.get(at)?, *samples.floats.get(at)?))
            }
            Self::Windows { columns, width_ms } => {
                let of_window = |at: usize| {
                    if at < part.hi && columns.has_interior(at) {
                        return Some(T::window(columns, at, *width_ms));
                    }
                    edge(columns, part, at)
                };
                (part.lo..part.hi.max(part.edge_hi))
                    .rev()
                    .find_map(of_window)
            }
        }
    }
}

/// The sample at the start of a window, if there is one and it is in the range.
#[inline]
fn edge<T: Cell>(columns: &WindowColumns, part: &Part, at: usize) -> Option<T> {
    match columns.edges.get(at)? {
        Edge::Sample(value) if (part.edge_lo..part.edge_hi).contains(&at) => {
            Some(T::sample(columns.starts[at], *value))
        }
        _ => None,
    }
}

/// The first window from `from` on that does not begin before a moment. Windows begin at least
/// their width apart, and mostly just that.
#[inline]
fn first_from(starts: &[i64], from: usize, moment: i64, width_ms: i64) -> usize {
    let Some(next) = starts.get(from).filter(|next| **next < moment) else {
        return from;
    };
    let distance = moment
        .abs_diff(*next)
        .div_ceil(width_ms.unsigned_abs().max(1));
    let distance = usize::try_from(distance).unwrap_or(usize::MAX);
    let until = from.saturating_add(distance).min(starts.len());
    if starts[until - 1] < moment {
        return until;
    }
    from + starts[from..until].partition_point(|start| *start < moment)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn windows_are_found_with_and_without_gaps(
            gaps in prop::collection::vec(prop_oneof![4 => Just(1i64), 1 => 1i64..9], 0..60),
            from in 0usize..60,
            moment in -20i64..700,
        ) {
            let mut start = 0;
            let starts: Vec<i64> = gaps.iter().map(|gap| { start += gap * 10; start }).collect();
            let from = from.min(starts.len());
            let found = first_from(&starts, from, moment, 10);
            let expected = starts.partition_point(|start| *start < moment).max(from);
            prop_assert_eq!(found, expected);
        }
    }
}
