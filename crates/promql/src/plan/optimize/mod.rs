//! Rewrites that make a plan cheaper and leave its answer alone.
//!
//! One file per rule. Each can be turned off, which is how its test and its bench show that it does
//! something.

mod fold_constants;
mod fuse_selection;
mod merge_scans;
mod push_matchers;

use super::Plan;

/// Which rules are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Scalars that do not depend on the step become constants.
    pub fold_constants: bool,
    /// A side of a join reads only what the matchers of the other side leave.
    pub push_matchers: bool,
    /// Selectors that read the same series read them once.
    pub merge_scans: bool,
    /// `topk` and `bottomk` drop rows that cannot be chosen as others arrive.
    pub fuse_selection: bool,
    /// Vectors that are written several times (inside of subqueries, too) are computed once.
    pub share_expressions: bool,
}

impl Rules {
    pub const ALL: Self = Self {
        fold_constants: true,
        push_matchers: true,
        merge_scans: true,
        fuse_selection: true,
        share_expressions: true,
    };

    pub const NONE: Self = Self {
        fold_constants: false,
        push_matchers: false,
        merge_scans: false,
        fuse_selection: false,
        share_expressions: false,
    };
}

impl Default for Rules {
    fn default() -> Self {
        Self::ALL
    }
}

pub(crate) fn optimize(plan: &mut Plan, rules: Rules) {
    if rules.fold_constants {
        fold_constants::apply(plan);
    }
    if rules.push_matchers {
        push_matchers::apply(plan);
    }
    // After matchers were pushed: what two selectors read is only then known.
    if rules.merge_scans {
        merge_scans::apply(plan);
    }
    if rules.fuse_selection {
        fuse_selection::apply(plan);
    }
}
