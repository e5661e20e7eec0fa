//! Rules of the optimizer that end with the time of a query.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

use crate::query_memory::QueryTime;

/// A rule that looks at the time before each operation of a plan. Planning asks for no memory and
/// waits for nothing, so that nothing else would.
#[derive(Debug)]
struct TimedRule {
    rule: Arc<dyn OptimizerRule + Send + Sync>,
    time: QueryTime,
}

/// The rules of DataFusion.
pub(crate) fn timed_rules(time: &QueryTime) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let timed = |rule| {
        let time = time.clone();
        Arc::new(TimedRule { rule, time }) as Arc<dyn OptimizerRule + Send + Sync>
    };
    Optimizer::new().rules.into_iter().map(timed).collect()
}

impl OptimizerRule for TimedRule {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        self.time.check()?;
        self.rule.rewrite(plan, config)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use datafusion::logical_expr::LogicalPlanBuilder;
    use datafusion::optimizer::OptimizerContext;

    use super::*;

    fn optimized(limit: Duration) -> Result<LogicalPlan> {
        let (time, _leave) = QueryTime::new(limit);
        let plan = LogicalPlanBuilder::empty(true).build()?;
        let rules = timed_rules(&time);
        Optimizer::with_rules(rules).optimize(plan, &OptimizerContext::new(), |_, _| {})
    }

    #[test]
    fn optimizing_ends_with_the_time() {
        assert!(optimized(Duration::from_secs(3600)).is_ok());
        let ended = optimized(Duration::ZERO).unwrap_err();
        let detail = ended.to_string();
        assert!(detail.contains("took longer"), "{detail}");
    }

    #[test]
    fn rules_are_those_of_the_optimizer_in_their_order() {
        let (time, _leave) = QueryTime::new(Duration::from_secs(3600));
        let timed = timed_rules(&time);
        let known = Optimizer::new().rules;
        assert_eq!(timed.len(), known.len());
        for (timed, known) in timed.iter().zip(&known) {
            assert_eq!(timed.name(), known.name());
            assert_eq!(timed.apply_order(), known.apply_order());
        }
    }
}
