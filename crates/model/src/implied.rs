//! What selectors imply about labels that they do not name, so that nothing counts twice.
//!
//! Clients of OpenTSDB store series that stand for others: sums over an hour beside the points
//! (rollups), sums over hosts beside those of each host (pre-aggregates). Who sums up everything
//! that has some label means the points, and none of these.
//!
//! Holds always: a matcher that is implied lets series pass that do not have its label.

use crate::{METRIC_NAME, MatchOp, Matcher};

/// The label of rollups and pre-aggregates that clients have computed; its value says which.
pub const ROLLUP_LABEL: &str = "__rollup__";

/// Its value for pre-aggregates that are not rolled up.
pub const GROUP_BY: &str = "groupby";

/// The matchers that are added to selectors.
#[derive(Clone, Debug)]
pub struct ImpliedMatchers {
    /// The label of pre-aggregates.
    aggregate_label: String,
    no_rollups: Matcher,
    no_rolled_aggregates: Option<Matcher>,
    no_aggregates: Option<Matcher>,
}

impl Default for ImpliedMatchers {
    fn default() -> Self {
        Self {
            aggregate_label: "_aggregate".into(),
            no_rollups: Matcher::equal(ROLLUP_LABEL, ""),
            no_rolled_aggregates: or_empty(ROLLUP_LABEL, GROUP_BY),
            no_aggregates: None,
        }
    }
}

impl ImpliedMatchers {
    /// With the label that pre-aggregates have.
    pub fn new(aggregate_label: &str) -> Self {
        Self {
            aggregate_label: aggregate_label.into(),
            ..Self::default()
        }
    }

    /// Leaves out series whose label says that they were aggregated: it has another value than
    /// `raw`.
    pub fn without_aggregates(mut self, raw: &str) -> Self {
        self.no_aggregates = or_empty(&self.aggregate_label, raw);
        self
    }

    /// The matcher that leaves out pre-aggregates, if there is one.
    pub fn no_aggregates(&self) -> Option<&Matcher> {
        self.no_aggregates.as_ref()
    }

    /// What is added to the matchers of a selector. Rollups have names of their own, so a selector
    /// that says which metric it means has none of them by mistake.
    pub fn of<'m>(&'m self, matchers: &[Matcher]) -> impl Iterator<Item = &'m Matcher> + use<'m> {
        let has = |label: &str| matchers.iter().any(|m| m.name() == label);
        let names_metric = |m: &Matcher| m.name() == METRIC_NAME && m.op() == MatchOp::Equal;
        let names_aggregate = has(&self.aggregate_label);
        let rollups = if names_aggregate {
            self.no_rolled_aggregates.as_ref()
        } else {
            Some(&self.no_rollups)
        };
        let has_rollups = !has(ROLLUP_LABEL) && !matchers.iter().any(names_metric);
        let aggregates = self.no_aggregates.as_ref();
        let rollups = rollups.filter(|_| has_rollups);
        rollups
            .into_iter()
            .chain(aggregates.filter(|_| !names_aggregate))
    }
}

/// The label is not there, or has this value.
fn or_empty(label: &str, value: &str) -> Option<Matcher> {
    let pattern = format!("|{}", regex::escape(value));
    Matcher::new(MatchOp::Regex, label, pattern).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn implied(implied: &ImpliedMatchers, matchers: &[Matcher]) -> Vec<String> {
        let text = |m: &Matcher| format!("{} {:?} {}", m.name(), m.op(), m.value());
        implied.of(matchers).map(text).collect()
    }

    #[test]
    fn rollups_are_left_out_where_no_metric_is_named() {
        let off = ImpliedMatchers::default();
        let of = |matchers: &[Matcher]| implied(&off, matchers);
        let job = Matcher::equal("job", "a");
        let up = Matcher::equal(METRIC_NAME, "up");
        let any = Matcher::new(MatchOp::Regex, METRIC_NAME, "u.*").unwrap();
        assert_eq!(of(&[up.clone(), job.clone()]), [""; 0]);
        assert_eq!(of(std::slice::from_ref(&job)), ["__rollup__ Equal "]);
        assert_eq!(of(&[any.clone(), job.clone()]), ["__rollup__ Equal "]);
        let hourly = Matcher::equal(ROLLUP_LABEL, "1h-sum");
        assert_eq!(of(&[any.clone(), hourly]), [""; 0]);
        let sums = Matcher::equal("_aggregate", "SUM");
        assert_eq!(of(&[any, sums]), ["__rollup__ Regex |groupby"]);
    }

    #[test]
    fn aggregates_are_left_out_where_that_is_wanted() {
        let on = ImpliedMatchers::new("agg").without_aggregates("R.W");
        let of = |matchers: &[Matcher]| implied(&on, matchers);
        let up = Matcher::equal(METRIC_NAME, "up");
        assert_eq!(of(std::slice::from_ref(&up)), [r"agg Regex |R\.W"]);
        let sums = Matcher::equal("agg", "SUM");
        assert_eq!(of(&[up, sums]), [""; 0]);
        assert_eq!(of(&[]), ["__rollup__ Equal ", r"agg Regex |R\.W"]);
        for matcher in on.of(&[]) {
            assert!(matcher.matches(""));
        }
    }
}
