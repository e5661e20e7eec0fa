//! Steps that DataFusion takes to find the type of an expression, and whether it may be NULL.
//!
//! ```text
//! CASE WHEN condition THEN result ELSE result END
//!           │              └ of each, for the type and for NULL: twice
//!           └ of each part of it, from that part on down
//! ```
//!
//! Both are asked at each level anew, so that a few nested `CASE` take longer than any query may.

/// Most steps of one expression. A chain of three thousand operators takes as many.
const STEPS_MAX: usize = 10_000_000;

/// Upper bounds of the steps of an expression.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    /// To find its type, and whether it may be NULL.
    all: usize,
    /// To find out when it is NULL: each of its parts is asked.
    of_parts: usize,
}

impl Steps {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            all: self.all.saturating_add(other.all),
            of_parts: self.of_parts.saturating_add(other.of_parts),
        }
    }

    pub(crate) fn times(self, count: usize) -> Self {
        Self {
            all: self.all.saturating_mul(count),
            of_parts: self.of_parts.saturating_mul(count),
        }
    }

    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            all: self.all.max(other.all),
            of_parts: self.of_parts.max(other.of_parts),
        }
    }

    /// The steps of an operation on expressions that have these steps together.
    pub(crate) fn operation(self) -> Self {
        let all = self.all.saturating_add(1);
        Self {
            all,
            of_parts: self.of_parts.saturating_add(all),
        }
    }

    /// The steps of a `CASE`, or of the `AND` and `OR` that it may become, which repeat conditions.
    pub(crate) fn case(conditions: Self, repeated: Self, results: Self) -> Self {
        let as_case = conditions.of_parts.saturating_add(results.all);
        let as_case = as_case.saturating_mul(2);
        let as_operators = repeated.and(results);
        let all = as_case.max(as_operators.all).saturating_add(1);
        Self {
            all,
            of_parts: all.max(as_operators.of_parts),
        }
    }

    pub(crate) fn are_too_many(self) -> bool {
        self.of_parts > STEPS_MAX
    }
}
