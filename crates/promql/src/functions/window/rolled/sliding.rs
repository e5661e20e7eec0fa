//! Folds over ranges of cells that slide: each cell is merged a few times, however long the ranges.

use super::super::windows::Slot;
use super::cells::Cell;
use super::runs::{Part, Runs};

/// Runs that can be merged in time order.
pub(super) trait Merge: Copy {
    fn merge(&self, after: &Self) -> Self;
}

/// How often a cell may be in a range on average for folding each range by itself to be cheaper.
const SMALL_OVERLAP: usize = 3;

/// The fold of the cells of every slot, `None` for those without cells. Both ends of slots ascend.
pub(super) fn fold<M: Merge>(
    cells: &[M],
    slots: impl Iterator<Item = Slot> + Clone,
    mut out: impl FnMut(Option<M>),
) {
    let touched: usize = slots.clone().map(Slot::len).sum();
    if touched <= SMALL_OVERLAP * cells.len() {
        slots.for_each(|slot| out(of(slot.of(cells))));
        return;
    }
    let mut front = Front::default();
    let mut back: Option<M> = None;
    let mut end = 0;
    for slot in slots {
        let (lo, hi) = (slot.lo as usize, slot.hi as usize);
        if lo >= hi {
            out(None);
            continue;
        }
        if lo >= front.end {
            front.rebuild(cells, lo, hi);
            back = None;
        } else if hi > end {
            back = joined(back, of(&cells[end..hi]));
        }
        end = hi;
        out(joined(front.from(lo), back));
    }
}

/// The folds of all ranges that end at one cell.
struct Front<M> {
    /// By distance from the end, which is before the first one.
    folds: Vec<M>,
    end: usize,
}

impl<M> Default for Front<M> {
    fn default() -> Self {
        Self {
            folds: Vec::new(),
            end: 0,
        }
    }
}

impl<M: Merge> Front<M> {
    fn rebuild(&mut self, cells: &[M], start: usize, end: usize) {
        self.folds.clear();
        self.end = end;
        let mut folded: Option<M> = None;
        for cell in cells[start..end].iter().rev() {
            let all = folded.map_or(*cell, |after| cell.merge(&after));
            self.folds.push(all);
            folded = Some(all);
        }
    }

    fn from(&self, start: usize) -> Option<M> {
        let distance = self.end.checked_sub(start)?.checked_sub(1)?;
        self.folds.get(distance).copied()
    }
}

/// The fold of some cells.
pub(super) fn of<M: Merge>(cells: &[M]) -> Option<M> {
    let (first, rest) = cells.split_first()?;
    Some(rest.iter().fold(*first, |all, cell| all.merge(cell)))
}

/// The fold of the cells of a range where they lie.
#[inline]
pub(super) fn of_runs<M: Cell + Merge>(runs: &Runs<'_>, parts: &[Part]) -> Option<M> {
    let mut folded: Option<M> = None;
    runs.each(parts, |cell: M| {
        folded = Some(match folded {
            Some(all) => all.merge(&cell),
            None => cell,
        });
    });
    folded
}

fn joined<M: Merge>(before: Option<M>, after: Option<M>) -> Option<M> {
    match (before, after) {
        (Some(before), Some(after)) => Some(before.merge(&after)),
        (before, after) => before.or(after),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Not commutative: the first and the last of a run.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Ends(u32, u32, u32);

    impl Merge for Ends {
        fn merge(&self, after: &Self) -> Self {
            assert_eq!(self.1 + 1, after.0, "merged out of order");
            Self(self.0, after.1, self.2 + after.2)
        }
    }

    proptest! {
        #[test]
        fn sliding_equals_folding_each(
            count in 1_u32..60,
            moves in prop::collection::vec((0_u32..4, 0_u32..4), 1..80),
        ) {
            let cells: Vec<Ends> = (0..count).map(|i| Ends(i, i, 1)).collect();
            let (mut lo, mut hi) = (0, 0);
            let slots: Vec<Slot> = moves.iter().map(|(first, last)| {
                lo = (lo + first).min(count);
                hi = (hi + last).min(count).max(lo);
                Slot { lo, hi }
            }).collect();
            let mut found = Vec::new();
            fold(&cells, slots.iter().copied(), |folded| found.push(folded));
            let expected: Vec<_> = slots.iter().map(|slot| of(slot.of(&cells))).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
