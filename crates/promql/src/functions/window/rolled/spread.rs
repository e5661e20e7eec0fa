//! `stddev_over_time` and `stdvar_over_time`: windows without the spread of their samples count as
//! their mean, as often as they have samples.

use icecore_model::rollup::{WindowColumns, WindowFields};

use super::super::windows::Slot;
use super::RolledView;
use super::cells::{Cell, Cells};
use super::sliding::{self, Merge};

/// The mean of numbers, and the sum of their squared distances from it.
#[derive(Clone, Copy)]
struct Spread {
    numbers: f64,
    mean: f64,
    m2: f64,
    has_nan: bool,
}

impl Cell for Spread {
    fn sample(_: i64, value: f64) -> Self {
        let is_nan = value.is_nan();
        Self {
            numbers: if is_nan { 0.0 } else { 1.0 },
            mean: if is_nan { 0.0 } else { value },
            m2: 0.0,
            has_nan: is_nan,
        }
    }

    #[inline]
    fn window(columns: &WindowColumns, index: usize, _: i64) -> Self {
        let numbers = columns.numbers[index] as f64;
        Self {
            numbers,
            mean: if numbers == 0.0 {
                0.0
            } else {
                columns.sum[index] / numbers
            },
            m2: columns.m2.get(index).copied().unwrap_or_default(),
            has_nan: columns.nans(index) > 0,
        }
    }
}

impl Merge for Spread {
    /// Chan et al.
    #[inline]
    fn merge(&self, after: &Self) -> Self {
        let numbers = self.numbers + after.numbers;
        let share = if numbers == 0.0 {
            0.0
        } else {
            after.numbers / numbers
        };
        let distance = after.mean - self.mean;
        Self {
            numbers,
            mean: self.mean + distance * share,
            m2: self.m2 + after.m2 + distance * distance * (self.numbers * share),
            has_nan: self.has_nan || after.has_nan,
        }
    }
}

pub(super) fn variances(
    view: &RolledView<'_>,
    finish: impl Fn(f64) -> f64,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let cells: Cells<Spread> = view.cells(WindowFields::COUNTS | WindowFields::SUM);
    let slots = cells.slots(view);
    let mut steps = view.spans.list.iter();
    sliding::fold(&cells.values, slots.iter().copied(), |spread| {
        let Some((step, _)) = steps.next() else {
            return;
        };
        let value = spread.map(|spread| {
            // With an infinite number there is no mean.
            if spread.has_nan || !spread.mean.is_finite() {
                f64::NAN
            } else {
                finish(spread.m2 / spread.numbers)
            }
        });
        set(*step, value);
    });
    slots
}
