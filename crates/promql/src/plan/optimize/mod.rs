//! Rewrites that make a plan cheaper without changing its answer.
//!
//! One file per rule. Each can be turned off, so that tests and benches show its effect.

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
    /// Matchers of one side of a join are applied to the other side.
    pub push_matchers: bool,
    /// Selectors that read the same series read them once.
    pub merge_scans: bool,
    /// `topk` and `bottomk` drop rows that cannot be selected as others arrive.
    pub fuse_selection: bool,
    /// Vectors that occur several times (inside of subqueries, too) are computed once.
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

/// A rule that changed the plan, for EXPLAIN.
#[derive(Debug)]
pub(crate) struct AppliedRule {
    pub(crate) rule: &'static str,
    pub(crate) effect: String,
}

/// Changes a plan and returns a description of the change, if any.
type Rewrite = fn(&mut Plan) -> Option<String>;

pub(crate) fn optimize(plan: &mut Plan, rules: Rules) {
    // Scans are merged after matchers are pushed: only then it is known what selectors read.
    let rewrites: [(bool, &'static str, Rewrite); 5] = [
        (
            rules.fold_constants,
            "fold_constants",
            fold_constants::apply,
        ),
        (rules.push_matchers, "push_matchers", push_matchers::apply),
        (rules.merge_scans, "merge_scans", merge_scans::apply),
        (
            rules.fuse_selection,
            "fuse_selection",
            fuse_selection::apply,
        ),
        (
            rules.share_expressions,
            "share_expressions",
            shared_expressions,
        ),
    ];
    for (_, rule, apply) in rewrites.into_iter().filter(|(is_on, _, _)| *is_on) {
        if let Some(effect) = apply(plan) {
            plan.applied.push(AppliedRule { rule, effect });
        }
    }
}

/// Reports the vectors that were shared when the plan was built, where the text is known.
fn shared_expressions(plan: &mut Plan) -> Option<String> {
    let shared = plan.shared.iter().filter(|shared| shared.consumers > 1);
    let (vectors, uses) = shared.fold((0, 0), |(vectors, uses), shared| {
        (vectors + 1, uses + shared.consumers)
    });
    match vectors {
        0 => None,
        1 => Some(format!("1 vector is computed once for {uses} uses")),
        _ => Some(format!(
            "{vectors} vectors are computed once for {uses} uses"
        )),
    }
}
