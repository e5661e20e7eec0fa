//! Where Prometheus 2.42 is known to answer otherwise than 3.14, which we follow.

use super::outcome::Outcome;

/// A difference that is expected.
pub(crate) struct Known {
    pub(crate) reason: &'static str,
    /// Whether this query and these outcomes (ours, theirs) show it.
    pub(crate) excuses: fn(query: &str, ours: &Outcome, theirs: &Outcome) -> bool,
}

/// What neither the data nor the generator can avoid.
pub(crate) const KNOWN: &[Known] = &[];

/// What the data or the generator avoids. Listed so that nobody makes them avoid less by mistake.
#[allow(dead_code, reason = "for readers")]
pub(crate) const AVOIDED: &[&str] = &[
    "Ranges and look-backs are open on the left in 3.x: no sample and no step of a subquery is at an edge.",
    "Extrapolation of rates to zero comes behind the limit of half an interval in 3.x, before it in 2.42: \
     counters near zero have no gaps, and rates are taken of counters only.",
    "`.` matches a newline in regular expressions of 3.x: no label has one.",
    "`holt_winters` is now `double_exponential_smoothing`: translated on the way.",
    "3.x reads numbers as durations and durations as numbers: not generated.",
];

/// The query in the words of Prometheus 2.42.
pub(crate) fn in_old_words(query: &str) -> String {
    query.replace("double_exponential_smoothing(", "holt_winters(")
}
