//! Runs the queries of a call and applies its functions, from the inside out.

use futures::future::BoxFuture;

use super::function::Function;
use super::function::shift_ms;
use super::parser::{Call, Input};
use crate::error::Error;
use crate::exp::Cells;
use crate::query::{
    PlannedSubQuery, QueryRequest, ResultSeries, RunOptions, SubQuery, Window, run,
};
use crate::tsd::Tsd;

/// What calls are evaluated with.
pub(super) struct Evaluator<'a> {
    pub(super) tsd: &'a Tsd,
    pub(super) asked: &'a QueryRequest,
    pub(super) options: RunOptions<'a>,
    pub(super) now_ms: i64,
    /// The first query of the expression.
    pub(super) first: Option<(PlannedSubQuery, Window)>,
    pub(super) cells: Cells,
}

impl Evaluator<'_> {
    /// The results of a call, of points that are so much earlier.
    pub(super) fn call<'b>(
        &'b mut self,
        call: &'b Call,
        earlier_ms: i64,
    ) -> BoxFuture<'b, Result<Vec<ResultSeries>, Error>> {
        Box::pin(async move {
            let earlier_ms = match call.function {
                Function::TimeShift => earlier_ms.saturating_add(shift_ms(&call.params)?),
                _ => earlier_ms,
            };
            let mut sets = Vec::with_capacity(call.inputs.len());
            for input in &call.inputs {
                sets.push(match input {
                    Input::Query(query) => self.query(query, earlier_ms).await?,
                    Input::Call(call) => self.call(call, earlier_ms).await?,
                });
            }
            self.options.allowance.check()?;
            let uids = &self.tsd.uids;
            call.function
                .apply(uids, sets, &call.params, &mut self.cells)
        })
    }

    async fn query(
        &mut self,
        query: &SubQuery,
        earlier_ms: i64,
    ) -> Result<Vec<ResultSeries>, Error> {
        let mut asked = self.asked.clone();
        asked.sub_queries = vec![query.clone()];
        let planned = asked.plan(&self.tsd.config, self.now_ms)?;
        let window = Window {
            start_ms: planned.window.start_ms.saturating_sub(earlier_ms).max(0),
            end_ms: planned.window.end_ms.saturating_sub(earlier_ms).max(0),
        };
        let mut results = Vec::new();
        for sub_query in planned.sub_queries {
            let found = run(self.tsd, &sub_query, window, self.options).await?;
            self.cells.add_results(&found)?;
            results.extend(found);
            self.first.get_or_insert((sub_query, planned.window));
        }
        Ok(results)
    }
}
