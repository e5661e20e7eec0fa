//! The steps at which an expression is evaluated.

/// Equidistant steps. An instant query has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grid {
    pub(crate) start_ms: i64,
    /// At least 1, whatever the number of steps.
    pub(crate) step_ms: i64,
    pub(crate) steps: usize,
}

impl Grid {
    pub(crate) fn instant(time_ms: i64) -> Self {
        Self {
            start_ms: time_ms,
            step_ms: 1,
            steps: 1,
        }
    }

    /// The steps from `start_ms` to `end_ms`, both inclusive.
    pub(crate) fn range(start_ms: i64, end_ms: i64, step_ms: i64) -> Self {
        let step_ms = step_ms.max(1);
        let steps = if end_ms >= start_ms {
            let after_first = end_ms.abs_diff(start_ms) / step_ms.unsigned_abs();
            usize::try_from(after_first).map_or(usize::MAX, |steps| steps.saturating_add(1))
        } else {
            0
        };
        Self {
            start_ms,
            step_ms,
            steps,
        }
    }

    pub(crate) fn time(&self, step: usize) -> i64 {
        self.start_ms
            .saturating_add((step as i64).saturating_mul(self.step_ms))
    }

    /// The time of the last step; that of the first if there are no steps.
    pub(crate) fn end_ms(&self) -> i64 {
        self.time(self.steps.saturating_sub(1))
    }

    pub(crate) fn times(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        (0..self.steps).map(|step| self.time(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_time_are_in_range() {
        let all = Grid::range(i64::MIN, i64::MAX, 1);
        assert_eq!(all.steps, usize::MAX);
        assert_eq!(Grid::range(i64::MIN, i64::MAX, i64::MAX).steps, 3);
        assert_eq!(Grid::range(5, 4, 1).steps, 0);
    }
}
