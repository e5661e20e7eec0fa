//! Reads the document of a request from JSON.

use super::document::{
    DownsamplerEntry, ExpQuery, ExpressionEntry, Fill, Filter, Metric, Output, Result, Time,
};
use super::expression::Expression;
use super::join::{Join, SetOperator};
use crate::json::Json;
use crate::query::post::{boolean, filter, list, members, text};

pub(super) fn read(document: &Json<'_>) -> Result<ExpQuery> {
    let mut query = ExpQuery::default();
    for (name, value) in members(document, "a query")? {
        match &**name {
            "name" => query.name = text(value)?,
            "time" => query.time = optional(value, time)?,
            "filters" => query.filters = entries(value, "filters", read_filter)?,
            "metrics" => query.metrics = entries(value, "metrics", metric)?,
            "expressions" => query.expressions = entries(value, "expressions", expression)?,
            "outputs" => query.outputs = entries(value, "outputs", output)?,
            _ => {}
        }
    }
    Ok(query)
}

fn optional<T>(value: &Json<'_>, read: fn(&Json<'_>) -> Result<T>) -> Result<Option<T>> {
    if value.is_null() {
        Ok(None)
    } else {
        read(value).map(Some)
    }
}

fn entries<T>(
    value: &Json<'_>,
    what: &str,
    read: fn(&Json<'_>) -> Result<T>,
) -> Result<Option<Vec<T>>> {
    if value.is_null() {
        return Ok(None);
    }
    let entries = list(value, what)?.iter().map(read);
    entries.collect::<Result<_>>().map(Some)
}

fn time(document: &Json<'_>) -> Result<Time> {
    let mut found = Time::default();
    for (name, value) in members(document, "time")? {
        match &**name {
            "start" => found.start = text(value)?,
            "end" => found.end = text(value)?,
            "timezone" => found.timezone = text(value)?,
            "downsampler" => found.downsampler = optional(value, downsampler)?,
            "aggregator" => found.aggregator = text(value)?,
            "rate" => found.rate = boolean(value)?,
            _ => {}
        }
    }
    Ok(found)
}

fn downsampler(document: &Json<'_>) -> Result<DownsamplerEntry> {
    let mut found = DownsamplerEntry::default();
    for (name, value) in members(document, "a downsampler")? {
        match &**name {
            "interval" => found.interval = text(value)?,
            "aggregator" => found.aggregator = text(value)?,
            "fillPolicy" => found.fill = optional(value, fill)?,
            _ => {}
        }
    }
    Ok(found)
}

fn read_filter(document: &Json<'_>) -> Result<Filter> {
    let mut found = Filter::default();
    for (name, value) in members(document, "a filter")? {
        match &**name {
            "id" => found.id = text(value)?.unwrap_or_default(),
            "tags" => found.tags = entries(value, "tags", filter)?,
            "explicitTags" => found.explicit_tags = boolean(value)?,
            _ => {}
        }
    }
    Ok(found)
}

fn metric(document: &Json<'_>) -> Result<Metric> {
    let mut found = Metric::default();
    for (name, value) in members(document, "a metric")? {
        match &**name {
            "id" => found.id = text(value)?.unwrap_or_default(),
            "metric" => found.metric = text(value)?,
            "filter" => found.filter = text(value)?,
            "aggregator" => found.aggregator = text(value)?,
            "timeOffset" => found.time_offset = text(value)?,
            "fillPolicy" => found.fill = optional(value, fill)?,
            _ => {}
        }
    }
    Ok(found)
}

fn expression(document: &Json<'_>) -> Result<ExpressionEntry> {
    let mut found = ExpressionEntry {
        join: Some(Join::default()),
        ..ExpressionEntry::default()
    };
    for (name, value) in members(document, "an expression")? {
        match &**name {
            "id" => found.id = text(value)?.unwrap_or_default(),
            "expr" => found.text = text(value)?.unwrap_or_default(),
            "join" if !value.is_null() => found.join = join(value)?,
            "fillPolicy" => found.fill = optional(value, fill)?,
            _ => {}
        }
    }
    match Expression::parse(&found.text) {
        Ok(expression) => found.expression = Some(expression),
        Err(problem) => found.problem = Some(problem),
    }
    Ok(found)
}

fn join(document: &Json<'_>) -> Result<Option<Join>> {
    let mut found = Join::default();
    let mut operator = None;
    for (name, value) in members(document, "a join")? {
        match &**name {
            "operator" => operator = text(value)?,
            "useQueryTags" => found.use_query_tags = boolean(value)?,
            "includeAggTags" => found.include_agg_tags = boolean(value)?,
            _ => {}
        }
    }
    let Some(operator) = operator else {
        return Ok(None);
    };
    found.operator = SetOperator::find(&operator)
        .ok_or_else(|| format!("Unrecognized set operator: {operator}"))?;
    Ok(Some(found))
}

fn output(document: &Json<'_>) -> Result<Output> {
    let mut found = Output::default();
    for (name, value) in members(document, "an output")? {
        match &**name {
            "id" => found.id = text(value)?.unwrap_or_default(),
            "alias" => found.alias = text(value)?,
            _ => {}
        }
    }
    Ok(found)
}

fn fill(document: &Json<'_>) -> Result<Fill> {
    let (mut policy, mut value) = (None, 0.0);
    for (name, member) in members(document, "a fill policy")? {
        match &**name {
            "policy" => policy = text(member)?,
            "value" => {
                let text = text(member)?.unwrap_or_default();
                let number = text.trim().parse();
                value = number.map_err(|_| format!("not a number: {text}"))?;
            }
            _ => {}
        }
    }
    Fill::new(policy.as_deref(), value)
}
