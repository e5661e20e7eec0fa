//! Functions of native histograms over rolled-up time, and of series that have floats, too.
//!
//! The functions of floats have set their values; what is done here is added to that, or replaces
//! it.

mod cells;
mod growth;
mod instant;
mod picks;
mod totals;
mod transitions;

use icecore_model::rollup::Resolution;

use super::super::table::Kernel;
use super::super::windows::Slot;
use super::RolledView;
use crate::annotations::Annotation;
use crate::exec::Values;

use cells::{HistogramCells, cells};

/// What there is to say about the values of a series.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// The histograms of each span.
    pub(super) slots: Vec<Slot>,
    /// Levels whose windows left the answer open.
    pub(super) estimated: Vec<Resolution>,
}

/// Sets the values of the spans that have histograms. `floats` are the cells of floats of each
/// span.
pub(super) fn fill(
    view: &RolledView<'_>,
    kernel: Kernel,
    floats: &[Slot],
    values: &mut Values,
) -> Filled {
    let cells = cells(view, kernel.fields().of_histograms());
    let slots = cells.slots(view);
    let mut filled = Filled::default();
    let ranges = Ranges {
        view,
        cells: &cells,
        slots: &slots,
        floats,
    };
    match kernel {
        Kernel::Rate(kind) => growth::rates(&ranges, kind, values),
        Kernel::InstantRate { per_second } => instant::changes(&ranges, per_second, values),
        Kernel::Transitions(transition) => {
            filled.estimated = transitions::count(view, transition, &cells, values);
        }
        Kernel::Sum => totals::sums(&ranges, |_| 1.0, values),
        Kernel::Average => totals::sums(&ranges, |count| count, values),
        Kernel::Count => totals::counts(&ranges, values),
        Kernel::Present => totals::presence(&ranges, values),
        Kernel::First | Kernel::TimeOfFirst => {
            picks::firsts(&ranges, kernel == Kernel::First, values);
        }
        Kernel::Last | Kernel::TimeOfLast => {
            picks::lasts(&ranges, kernel == Kernel::Last, values);
        }
        Kernel::Minimum
        | Kernel::Maximum
        | Kernel::TimeOfMinimum
        | Kernel::TimeOfMaximum
        | Kernel::Deviation
        | Kernel::Variance
        | Kernel::Quantile
        | Kernel::MedianDeviation
        | Kernel::Derivative
        | Kernel::Prediction
        | Kernel::DoubleExponentialSmoothing => ranges.annotate_ignored(),
    }
    filled.slots = slots;
    filled
}

/// The ranges of a series, with their histograms and their floats.
struct Ranges<'r> {
    view: &'r RolledView<'r>,
    cells: &'r HistogramCells,
    /// The histograms of each span.
    slots: &'r [Slot],
    /// The floats of each span.
    floats: &'r [Slot],
}

/// Cells between checks for cancellation.
const CELLS_BETWEEN_CHECKS: usize = 1 << 14;

impl<'r> Ranges<'r> {
    /// Calls `set` for each span that has histograms: its index, its histograms and whether it has
    /// floats. Stops early if the query is over.
    fn each(&self, mut set: impl FnMut(usize, Slot, bool)) {
        let mut touched = 0;
        for (i, slot) in self.slots.iter().enumerate() {
            touched += slot.len() + 1;
            if touched > CELLS_BETWEEN_CHECKS {
                touched = 0;
                let is_over = |context: &crate::exec::Context<'_>| context.check().is_err();
                if self.view.context.is_some_and(is_over) {
                    return;
                }
            }
            if slot.len() > 0 {
                set(i, *slot, self.has_floats(i));
            }
        }
    }

    fn has_floats(&self, i: usize) -> bool {
        self.floats.get(i).is_some_and(|slot| slot.len() > 0)
    }

    fn step(&self, i: usize) -> usize {
        self.view.spans.list[i].0
    }

    /// Functions that know floats only say so where there are both.
    fn annotate_ignored(&self) {
        let mut is_mixed = false;
        self.each(|_, _, has_floats| is_mixed |= has_floats);
        if is_mixed {
            let annotations = self.view.annotations;
            let name = annotations.metric_name();
            annotations.add(Annotation::HistogramIgnoredInMixedRange(name));
        }
    }
}
