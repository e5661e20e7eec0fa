//! Known differences to Prometheus.

use super::outcome::Outcome;

/// A query and its outcomes.
pub(crate) struct Case<'a> {
    pub(crate) query: &'a str,
    pub(crate) delayed_names: bool,
    pub(crate) ours: &'a Outcome,
    pub(crate) theirs: &'a Outcome,
    /// Runs the query once more in Prometheus.
    pub(crate) again: &'a dyn Fn() -> Outcome,
}

impl Case<'_> {
    fn contains_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.query.contains(word))
    }

    /// Whether the answer of Prometheus varies, or is sometimes ours.
    fn is_random(&self) -> bool {
        (0..RETRIES).any(|_| {
            let again = (self.again)();
            again.difference(self.theirs, false).is_some()
                || again.difference(self.ours, false).is_none()
        })
    }
}

/// Enough to see both of two rows that are selected at random.
const RETRIES: usize = 16;

/// A difference that is expected.
pub(crate) struct KnownDifference {
    pub(crate) reason: &'static str,
    /// Whether a case shows it.
    pub(crate) excuses: fn(&Case<'_>) -> bool,
}

/// Differences to 3.15.
pub(crate) const KNOWN: &[KnownDifference] = &[
    KnownDifference {
        reason: "rows come out of an operator in the order of a Go map, so which of equal values topk takes, \
                 and which rows limitk, is chance",
        excuses: |case| {
            let chooses = case.contains_any(&["topk", "bottomk", "limitk"]);
            chooses && (case.ours.has_same_values(case.theirs) || case.is_random())
        },
    },
    KnownDifference {
        reason: "timestamp(x @ t offset d) forgets the offset but not where it would have read",
        excuses: |case| {
            let moved = case.query.contains(" @ ") && case.query.contains(" offset ");
            moved && case.query.contains("timestamp(")
        },
    },
    KnownDifference {
        reason: "the labels of absent() follow the order of matchers, which the head of Prometheus changes, \
                 but only where no block is read beside it (#14723)",
        excuses: |case| {
            case.contains_any(&["absent(", "absent_over_time("]) && names_label_twice(case.query)
        },
    },
    KnownDifference {
        reason: "where names are removed late 3.15 does not look for equal series at a fixed moment, and so \
                 lets absent_over_time see the series of one quantile twice",
        excuses: |case| {
            case.delayed_names
                && case.ours.failed_with("same labelset")
                && case
                    .query
                    .contains("absent_over_time((histogram_quantiles(")
        },
    },
    UNREAD_ROWS,
];

/// By rewriting, too.
pub(crate) const UNREAD_ROWS: KnownDifference = KnownDifference {
    reason: "series that differ by their type alone fail only where they are read; those that find no \
             partner in a join are not",
    excuses: |case| {
        let fails = case.theirs.failed_with("same labelset") && !case.ours.is_failure();
        fails && case.query.contains("speed")
    },
};

/// Whether a selector has two matchers for a label, of which one says its value.
fn names_label_twice(query: &str) -> bool {
    let selectors = query.split('{').skip(1);
    let mut selectors = selectors.filter_map(|rest| rest.split('}').next());
    selectors.any(|matchers| {
        let labels = matchers.split(", ").map(|matcher| {
            let name = matcher.split(['=', '!']).next().unwrap_or_default();
            (name, matcher[name.len()..].starts_with("=\""))
        });
        let labels: Vec<(&str, bool)> = labels.collect();
        labels.iter().any(|(name, exact)| {
            *exact && labels.iter().filter(|(other, _)| other == name).count() > 1
        })
    })
}

/// Where 2.42 answers otherwise than 3.15, which we follow, and neither the data nor the generator
/// can avoid it.
pub(crate) const KNOWN_OLD: &[KnownDifference] = &[
    KnownDifference {
        reason: "2.42 moves the window of predict_linear with @ from step to step; 3.x fixed that",
        excuses: |Case { query, .. }| query.contains("predict_linear(") && query.contains(" @ "),
    },
    KnownDifference {
        reason: "stddev and stdvar of Inf or NaN are NaN in 3.x, 0 in 2.42 where they come first",
        excuses: |Case { query, ours, .. }| {
            let aggregates = ["stddev(", "stddev by", "stddev without"];
            let aggregates = aggregates
                .iter()
                .chain(&["stdvar(", "stdvar by", "stdvar without"]);
            let mut aggregates = aggregates.filter(|word| query.contains(**word));
            aggregates.next().is_some() && !ours.is_failure()
        },
    },
    KnownDifference {
        reason: "3.x looks for several partners before it looks at what a comparison says",
        excuses: |Case {
                      query,
                      ours,
                      theirs,
                      ..
                  }| {
            let compares = ["<", ">", "==", "!="].iter().any(|op| query.contains(op));
            compares && !theirs.is_failure() && ours.failed_with("multiple matches for labels")
        },
    },
    KnownDifference {
        reason: "which of equal values topk takes depends on the moves of its heap, which are others in \
                 3.x, and on the order of a Go map",
        excuses: |Case {
                      query,
                      ours,
                      theirs,
                      ..
                  }| {
            let chooses = query.contains("topk") || query.contains("bottomk");
            chooses && !ours.is_failure() && !theirs.is_failure()
        },
    },
    KnownDifference {
        reason: "3.x sums with compensation: where a function jumps, the last bit shows",
        excuses: |Case {
                      query,
                      ours,
                      theirs,
                      ..
                  }| {
            let jumps = [" % ", "round(", "floor(", "ceil(", "resets(", "changes("];
            let equals = [" == ", " != "].iter().any(|equal| query.contains(equal));
            jumps.iter().any(|jump| query.contains(jump)) && ours.has_same_series(theirs)
                || equals && query.contains("avg")
        },
    },
    KnownDifference {
        reason: "compensation in 2.42 makes NaN of infinity",
        excuses: |Case {
                      query,
                      ours,
                      theirs,
                      ..
                  }| {
            let regressions = ["predict_linear(", "deriv("];
            regressions.iter().any(|function| query.contains(function))
                && ours.has(f64::is_infinite)
                && theirs.has(f64::is_nan)
        },
    },
    KnownDifference {
        reason: "sums of −0 are 0 in 3.x, because a compensation is added: the sign of a division by it",
        excuses: |Case {
                      query,
                      ours,
                      theirs,
                      ..
                  }| {
            query.contains(" / ") && ours.is_same_but_for_signs_of_infinity(theirs)
        },
    },
    KnownDifference {
        reason: "Go's power has another last bit than ours, and angles of huge numbers show it",
        excuses: |Case {
                      query,
                      ours,
                      theirs,
                      ..
                  }| {
            let mut angles = ["sin(", "cos(", "tan("].into_iter();
            query.contains(" ^ ")
                && angles.any(|angle| query.contains(angle))
                && ours.has_same_series(theirs)
        },
    },
    KnownDifference {
        reason: "timestamp(x @ t offset d) forgets the offset in 2.42 and 3.x alike; ours does not",
        excuses: |Case { query, .. }| {
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
pub(crate) fn in_old_syntax(query: &str) -> String {
    query.replace("double_exponential_smoothing(", "holt_winters(")
}
