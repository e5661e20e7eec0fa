//! Where Prometheus is known to answer otherwise.

use super::outcome::Outcome;

/// A difference that is expected.
pub(crate) struct Known {
    pub(crate) reason: &'static str,
    /// Whether this query and these outcomes (ours, theirs) show it.
    pub(crate) excuses: fn(query: &str, ours: &Outcome, theirs: &Outcome) -> bool,
}

/// Where 3.14 answers otherwise than we do.
pub(crate) const KNOWN: &[Known] = &[
    Known {
        reason: "rows come out of an operator in the order of a Go map, so which of equal values topk takes, \
                 and which rows limitk, is chance",
        excuses: |query, ours, theirs| {
            let mut choices = ["topk", "bottomk", "limitk"].into_iter();
            choices.any(|choice| query.contains(choice))
                && !ours.is_failure()
                && !theirs.is_failure()
        },
    },
    Known {
        reason: "info() forgets that a name is to be removed late, against its own scripts, and reads series of \
                 other targets where no row has a job",
        excuses: |query, _, _| query.contains("info("),
    },
    Known {
        reason: "timestamp(x @ t offset d) forgets the offset but not where it would have read",
        excuses: |query, _, _| {
            query.contains("timestamp(") && query.contains(" @ ") && query.contains(" offset ")
        },
    },
];

/// Where 2.42 answers otherwise than 3.14, which we follow, and neither the data nor the generator can
/// avoid it.
pub(crate) const KNOWN_OLD: &[Known] = &[
    Known {
        reason: "2.42 moves the window of predict_linear with @ from step to step; 3.x fixed that",
        excuses: |query, _, _| query.contains("predict_linear(") && query.contains(" @ "),
    },
    Known {
        reason: "stddev and stdvar of Inf or NaN are NaN in 3.x, 0 in 2.42 where they come first",
        excuses: |query, ours, _| {
            let aggregates = ["stddev(", "stddev by", "stddev without"];
            let aggregates = aggregates
                .iter()
                .chain(&["stdvar(", "stdvar by", "stdvar without"]);
            let mut aggregates = aggregates.filter(|word| query.contains(**word));
            aggregates.next().is_some() && !ours.is_failure()
        },
    },
    Known {
        reason: "3.x looks for several partners before it looks at what a comparison says",
        excuses: |query, ours, theirs| {
            let compares = ["<", ">", "==", "!="].iter().any(|op| query.contains(op));
            compares && !theirs.is_failure() && ours.failed_with("multiple matches for labels")
        },
    },
    Known {
        reason: "which of equal values topk takes depends on the moves of its heap, which are others in \
                 3.x, and on the order of a Go map",
        excuses: |query, ours, theirs| {
            let chooses = query.contains("topk") || query.contains("bottomk");
            chooses && !ours.is_failure() && !theirs.is_failure()
        },
    },
    Known {
        reason: "3.x sums with compensation: where a function jumps, the last bit shows",
        excuses: |query, ours, theirs| {
            let jumps = [" % ", "round(", "floor(", "ceil(", "resets(", "changes("];
            let equals = [" == ", " != "].iter().any(|equal| query.contains(equal));
            jumps.iter().any(|jump| query.contains(jump)) && ours.has_same_series(theirs)
                || equals && query.contains("avg")
        },
    },
    Known {
        reason: "compensation in 2.42 makes NaN of infinity",
        excuses: |query, ours, theirs| {
            let regressions = ["predict_linear(", "deriv("];
            regressions.iter().any(|function| query.contains(function))
                && ours.has(f64::is_infinite)
                && theirs.has(f64::is_nan)
        },
    },
    Known {
        reason: "sums of −0 are 0 in 3.x, because a compensation is added: the sign of a division by it",
        excuses: |query, ours, theirs| {
            query.contains(" / ") && ours.is_same_but_for_signs_of_infinity(theirs)
        },
    },
    Known {
        reason: "Go's power has another last bit than ours, and angles of huge numbers show it",
        excuses: |query, ours, theirs| {
            let mut angles = ["sin(", "cos(", "tan("].into_iter();
            query.contains(" ^ ")
                && angles.any(|angle| query.contains(angle))
                && ours.has_same_series(theirs)
        },
    },
    Known {
        reason: "timestamp(x @ t offset d) forgets the offset in 2.42 and 3.x alike; ours does not",
        excuses: |query, _, _| {
            query.contains("timestamp(") && query.contains(" @ ") && query.contains(" offset ")
        },
    },
];

// What the data or the generator avoids, so that nobody makes them avoid less by mistake:
// - Ranges and look-backs are open on the left in 3.x: no sample and no step of a subquery is
//   at an edge.
// - Extrapolation of rates to zero comes behind the limit of half an interval in 3.x, before it
//   in 2.42: counters near zero have no gaps, and rates are taken of counters only.
// - `.` matches a newline in regular expressions of 3.x: no label has one.
// - `holt_winters` is now `double_exponential_smoothing`: translated on the way.
// - `atan2` between vectors keeps the metric name in 2.42: not generated.
// - The order of an instant vector has no meaning except with `sort`: not compared.
// - 3.x reads numbers as durations and durations as numbers: not generated.

/// The query in the words of Prometheus 2.42.
pub(crate) fn in_old_words(query: &str) -> String {
    query.replace("double_exponential_smoothing(", "holt_winters(")
}
