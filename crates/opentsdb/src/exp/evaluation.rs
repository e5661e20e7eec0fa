//! Works out what a request asks for: queries first, then expressions in the order of what they
//! need.

use std::collections::{HashMap, HashSet};

use super::document::{ExpQuery, ExpressionEntry, Metric};
use super::expression::Expression;
use super::join::{
    Cells, Columns, Identity, Join, JoinedSeries, SetOperator, Variable, column, compute,
    union_of_times,
};
use crate::allowance::Allowance;
use crate::error::Error;
use crate::query::{
    QueryRequest, ResultPoints, ResultSeries, RolledReport, RunOptions, SubQuery, run,
};
use crate::tsd::Tsd;

/// An output of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) series: Vec<Identity>,
    pub(crate) times: Vec<i64>,
    /// One for each series.
    pub(crate) columns: Columns,
}

/// What the variables of a request are.
pub(crate) struct Evaluation<'a> {
    tsd: &'a Tsd,
    metrics: HashMap<&'a str, MetricVariable>,
    expressions: HashMap<&'a str, ExpressionVariable<'a>>,
    /// Expressions behind those that they need.
    order: Vec<&'a str>,
    cells: Cells,
}

struct MetricVariable {
    results: Vec<ResultSeries>,
    series: Vec<Identity>,
    query_tagks: Vec<String>,
    fill: f64,
}

struct ExpressionVariable<'a> {
    expression: &'a Expression,
    joined: JoinedSeries,
    series: Vec<Identity>,
    fill: f64,
}

impl<'a> Evaluation<'a> {
    pub(crate) async fn new(
        tsd: &'a Tsd,
        query: &'a ExpQuery,
        allowance: &Allowance,
    ) -> Result<Self, Error> {
        let ordered = in_order(query.expressions())?;
        let asked = request(query);
        let planned = asked.plan(&tsd.config, tsd.clock.now_ms())?;
        let options = RunOptions::new(tsd, allowance);
        let (mut metrics, mut cells) = (HashMap::new(), Cells::default());
        for (metric, sub_query) in query.metrics().iter().zip(&asked.sub_queries) {
            let found = planned.sub_queries.iter().find(|p| p.asked == *sub_query);
            let Some(planned_sub) = found else {
                continue;
            };
            let results = run(tsd, planned_sub, planned.window, options).await?;
            cells.add_results(&results)?;
            let tagks = sub_query.filters.iter().map(|f| f.tagk.clone());
            let variable = MetricVariable {
                series: results.iter().map(Identity::of).collect(),
                query_tagks: tagks.collect(),
                fill: metric.fill.as_ref().map_or(0.0, |fill| fill.value),
                results,
            };
            metrics.insert(metric.id.as_str(), variable);
        }
        let mut evaluation = Self {
            tsd,
            metrics,
            expressions: HashMap::new(),
            order: ordered.iter().map(|entry| entry.id.as_str()).collect(),
            cells,
        };
        for entry in ordered {
            evaluation.add(entry)?;
        }
        Ok(evaluation)
    }

    /// What there is to say about the series that were read.
    pub(crate) fn warning(&self) -> Option<String> {
        let results = self.metrics.values().flat_map(|of| &of.results);
        RolledReport::of_all(results)?.warning()
    }

    /// Joins the series of an expression.
    fn add(&mut self, entry: &'a ExpressionEntry) -> Result<(), Error> {
        let (Some(expression), Some(join)) = (&entry.expression, entry.join) else {
            return Ok(());
        };
        let variables = expression.variables().iter().map(|id| self.variable(id));
        let variables: Vec<Variable<'_>> = variables.collect();
        let joined = join.join(&self.tsd.uids, &variables);
        let has_series = variables.iter().any(|variable| !variable.series.is_empty());
        if joined.all.is_empty() && has_series && join.operator == SetOperator::Intersection {
            return Err(no_intersections(entry, join));
        }
        let variable = ExpressionVariable {
            expression,
            series: joined.all.iter().map(|j| j.identity.clone()).collect(),
            joined,
            fill: entry.fill.as_ref().map_or(f64::NAN, |fill| fill.value),
        };
        self.expressions.insert(&entry.id, variable);
        Ok(())
    }

    fn variable(&self, id: &str) -> Variable<'_> {
        let metric = self.metrics.get(id).map(|metric| Variable {
            series: &metric.series,
            query_tagks: &metric.query_tagks,
        });
        let expression = || {
            let found = self.expressions.get(id);
            found.map_or(&[][..], |expression| &expression.series)
        };
        metric.unwrap_or_else(|| Variable {
            series: expression(),
            query_tagks: &[],
        })
    }

    /// A metric or an expression at all of its times; `None` where there is none of that name.
    pub(crate) fn table(&mut self, id: &str) -> Result<Option<Table>, Error> {
        if !self.metrics.contains_key(id) && !self.expressions.contains_key(id) {
            return Ok(None);
        }
        let needed = self.needed(id);
        let inputs = self.metrics.iter().filter(|(id, _)| needed.contains(*id));
        let times = union_of_times(self.counted(id, &needed).into_iter());
        let mut columns: HashMap<&str, (Columns, f64)> = HashMap::new();
        for (id, metric) in inputs {
            self.cells.add(metric.results.len(), times.len())?;
            let series = metric.results.iter();
            let values = series.map(|s| column(&s.points, &times, metric.fill));
            columns.insert(id, (values.collect(), metric.fill));
        }
        for id in self.order.iter().filter(|id| needed.contains(*id)) {
            let Some(variable) = self.expressions.get(id) else {
                continue;
            };
            let joined = &variable.joined.all;
            self.cells.add(joined.len(), times.len())?;
            let names = variable.expression.variables().iter();
            let inputs = names.filter_map(|name| columns.get(name.as_str()));
            let inputs: Vec<_> = inputs.map(|(columns, fill)| (columns, *fill)).collect();
            let values = compute(variable.expression, joined, &inputs, times.len());
            columns.insert(id, (values, variable.fill));
        }
        let series = self.variable(id).series.to_vec();
        let columns = columns.remove(id).unwrap_or_default().0;
        Ok(Some(Table {
            series,
            times,
            columns,
        }))
    }

    /// The points whose times are rows: those of a metric, or of series of the expressions' joins.
    fn counted(&self, id: &str, needed: &HashSet<&str>) -> Vec<&ResultPoints> {
        if let Some(metric) = self.metrics.get(id) {
            return metric.results.iter().map(|s| &s.points).collect();
        }
        let mut counted = Vec::new();
        let expressions = self.expressions.iter();
        for (_, variable) in expressions.filter(|(id, _)| needed.contains(*id)) {
            let names = variable.expression.variables().iter().enumerate();
            for (v, name) in names {
                let results = self.metrics.get(name.as_str()).map(|m| &m.results);
                let of_rows = variable.joined.of_rows.get(v).into_iter().flatten();
                let series = of_rows.filter_map(|s| results?.get(*s));
                counted.extend(series.map(|s| &s.points));
            }
        }
        counted
    }

    /// What is needed for a variable, and the variable itself.
    fn needed(&self, id: &str) -> HashSet<&'a str> {
        let known = |id: &str| {
            let metric = self.metrics.get_key_value(id).map(|(id, _)| *id);
            metric.or_else(|| self.expressions.get_key_value(id).map(|(id, _)| *id))
        };
        let mut open: Vec<&'a str> = known(id).into_iter().collect();
        let mut needed = HashSet::new();
        while let Some(id) = open.pop() {
            if needed.insert(id)
                && let Some(variable) = self.expressions.get(id)
            {
                let names = variable.expression.variables().iter();
                open.extend(names.filter_map(|name| known(name)));
            }
        }
        needed
    }
}

/// The queries for the metrics of a document.
pub(crate) fn request(query: &ExpQuery) -> QueryRequest {
    let time = query.time.clone().unwrap_or_default();
    let downsample = time.downsampler.as_ref().map(|entry| entry.text());
    let sub_query = |metric: &Metric| {
        let id = metric.filter.as_deref().unwrap_or_default();
        let filter = query.filter(id);
        let aggregator = metric.aggregator.clone().filter(|name| !name.is_empty());
        SubQuery {
            aggregator: aggregator
                .or_else(|| time.aggregator.clone())
                .unwrap_or_default(),
            metric: metric.metric.clone(),
            downsample: downsample.clone(),
            rate: time.rate,
            filters: filter.and_then(|f| f.tags.clone()).unwrap_or_default(),
            explicit_tags: filter.is_some_and(|f| f.explicit_tags),
            ..SubQuery::default()
        }
    };
    QueryRequest {
        sub_queries: query.metrics().iter().map(sub_query).collect(),
        start: time.start.unwrap_or_default(),
        end: time.end.unwrap_or_default(),
        timezone: time.timezone,
        ..QueryRequest::default()
    }
}

/// Expressions behind those that they need.
pub(crate) fn in_order(entries: &[ExpressionEntry]) -> Result<Vec<&ExpressionEntry>, Error> {
    let refused = |message: String| Error::bad_request(message.clone()).with_details(message);
    let variables = |entry: &ExpressionEntry| {
        let expression = entry.expression.as_ref();
        expression.map_or_else(Vec::new, |e| e.variables().to_vec())
    };
    // What each expression is made of, directly or not, among those before it.
    let mut made_of: HashMap<String, HashSet<String>> = HashMap::new();
    for entry in entries {
        let mut needed = HashSet::new();
        for name in variables(entry) {
            if name == entry.id {
                let id = &entry.id;
                return Err(refused(format!("Self referencing expression found: {id}")));
            }
            needed.extend(made_of.get(&name).cloned().unwrap_or_default());
            needed.insert(name);
        }
        if needed.contains(&entry.id) {
            let id = &entry.id;
            return Err(refused(format!("Circular reference found: {id}")));
        }
        for others in made_of.values_mut() {
            if others.contains(&entry.id) {
                others.extend(needed.iter().cloned());
            }
        }
        made_of.insert(entry.id.clone(), needed);
    }
    // An expression is made of more than each of those that it is made of.
    let mut ordered: Vec<&ExpressionEntry> = entries.iter().collect();
    ordered.sort_by_key(|entry| made_of.get(&entry.id).map_or(0, HashSet::len));
    Ok(ordered)
}

fn no_intersections(entry: &ExpressionEntry, join: Join) -> Error {
    let (id, text, operator) = (&entry.id, &entry.text, join.operator.name());
    let message = format!("No intersections found: {id}: {text} ({operator})");
    Error::bad_request(message.clone()).with_details(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    fn order(expressions: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let entries = expressions.iter().map(|(id, text)| {
            format!(r#"{{"id":"{id}","expr":"{text}","join":{{"operator":"union"}}}}"#)
        });
        let document = format!(
            r#"{{"time":{{"start":"1h-ago","aggregator":"sum"}},
                "metrics":[{{"id":"a","metric":"m"}}],"expressions":[{}]}}"#,
            entries.collect::<Vec<_>>().join(",")
        );
        let query = ExpQuery::parse(&Json::parse(&document).unwrap()).unwrap();
        let ordered = in_order(query.expressions()).map_err(|error| error.message)?;
        Ok(ordered.into_iter().map(|entry| entry.id.clone()).collect())
    }

    #[test]
    fn expressions_come_behind_what_they_need() {
        let found = order(&[("e3", "e2 - a"), ("e2", "e * 2"), ("e", "a + 1")]);
        assert_eq!(found.unwrap(), ["e", "e2", "e3"]);
        let found = order(&[("x", "a"), ("y", "x + z"), ("z", "x + a"), ("w", "a")]);
        let found = found.unwrap();
        let place = |id: &str| found.iter().position(|f| f == id);
        assert!(place("x") < place("z") && place("z") < place("y"));
    }

    #[test]
    fn nothing_is_made_of_itself() {
        assert_eq!(
            order(&[("e", "e + a")]).unwrap_err(),
            "Self referencing expression found: e"
        );
        assert_eq!(
            order(&[("e", "e2 + a"), ("e2", "e + a")]).unwrap_err(),
            "Circular reference found: e2"
        );
        assert_eq!(
            order(&[("x", "y"), ("y", "z"), ("z", "x")]).unwrap_err(),
            "Circular reference found: z"
        );
    }
}
