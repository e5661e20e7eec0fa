//! Outputs as JSON, and the request that is echoed with them.

use std::fmt::Write as _;

use super::document::{
    DownsamplerEntry, ExpQuery, ExpressionEntry, Fill, Filter, Metric, Output, Time,
};
use super::evaluation::Table;
use super::join::Identity;
use crate::java::push_double;
use crate::json::push_text;
use crate::json_object::ObjectWriter;
use crate::query::TagFilter;

/// Appends an output.
pub(crate) fn push_output(out: &mut String, id: &str, alias: Option<&str>, table: &Table) {
    let mut object = ObjectWriter::new(out);
    object.text("id", id);
    if let Some(alias) = alias {
        object.text("alias", alias);
    }
    let rows = if table.series.is_empty() {
        0
    } else {
        table.times.len()
    };
    let dps = object.member("dps");
    push_list(dps, 0..rows, |out, row| {
        let _ = write!(out, "[{}", table.times[row]);
        for column in &table.columns {
            out.push(',');
            push_number(out, column[row]);
        }
        out.push(']');
    });
    let times = &table.times[..rows];
    let mut meta = ObjectWriter::new(object.member("dpsMeta"));
    meta.plain("firstTimestamp", times.first().unwrap_or(&0));
    meta.plain("lastTimestamp", times.last().unwrap_or(&0));
    meta.plain("setCount", rows);
    meta.plain("series", table.series.len());
    drop(meta);
    if table.series.is_empty() {
        return;
    }
    let out = object.member("meta");
    out.push_str("[{\"index\":0,\"metrics\":[\"timestamp\"]}");
    // The metrics of the first series are shown for all.
    let metrics = &table.series[0].metrics;
    for (i, series) in table.series.iter().enumerate() {
        out.push(',');
        push_meta(out, i + 1, metrics, series);
    }
    out.push(']');
}

fn push_meta(out: &mut String, index: usize, metrics: &[String], series: &Identity) {
    let mut object = ObjectWriter::new(out);
    object.plain("index", index);
    push_list(object.member("metrics"), metrics, |out, name| {
        push_text(out, name);
    });
    let mut tags = ObjectWriter::new(object.member("commonTags"));
    for (name, value) in &series.tags {
        tags.text(name, value);
    }
    drop(tags);
    let aggregated = object.member("aggregatedTags");
    push_list(aggregated, &series.aggregate_tags, |out, name| {
        push_text(out, name);
    });
}

/// Appends the request.
pub(crate) fn push_query(out: &mut String, query: &ExpQuery) {
    let mut object = ObjectWriter::new(out);
    push_optional_text(object.member("name"), query.name.as_deref());
    push_optional(object.member("time"), query.time.as_ref(), push_time);
    let lists = object.member("filters");
    push_optional(lists, query.filters.as_ref(), |out, filters| {
        push_list(out, filters, push_filter);
    });
    let lists = object.member("metrics");
    push_optional(lists, query.metrics.as_ref(), |out, metrics| {
        push_list(out, metrics, push_metric);
    });
    let lists = object.member("expressions");
    push_optional(lists, query.expressions.as_ref(), |out, expressions| {
        push_list(out, expressions, push_expression);
    });
    let lists = object.member("outputs");
    push_optional(lists, query.outputs.as_ref(), |out, outputs| {
        push_list(out, outputs, push_output_entry);
    });
}

fn push_time(out: &mut String, time: &Time) {
    let mut object = ObjectWriter::new(out);
    for (name, text) in [
        ("start", &time.start),
        ("end", &time.end),
        ("timezone", &time.timezone),
    ] {
        push_optional_text(object.member(name), text.as_deref());
    }
    let downsampler = time.downsampler.as_ref();
    push_optional(object.member("downsampler"), downsampler, push_downsampler);
    push_optional_text(object.member("aggregator"), time.aggregator.as_deref());
    object.plain("rate", time.rate);
}

fn push_downsampler(out: &mut String, entry: &DownsamplerEntry) {
    let mut object = ObjectWriter::new(out);
    push_optional_text(object.member("interval"), entry.interval.as_deref());
    push_optional_text(object.member("aggregator"), entry.aggregator.as_deref());
    push_optional(object.member("fillPolicy"), entry.fill.as_ref(), push_fill);
}

fn push_filter(out: &mut String, filter: &Filter) {
    let mut object = ObjectWriter::new(out);
    object.text("id", &filter.id);
    push_optional(object.member("tags"), filter.tags.as_ref(), |out, tags| {
        push_list(out, tags, push_tag_filter);
    });
    object.plain("explicitTags", filter.explicit_tags);
}

fn push_tag_filter(out: &mut String, filter: &TagFilter) {
    let mut object = ObjectWriter::new(out);
    object.text("tagk", &filter.tagk);
    object.text("filter", &filter.text);
    object.plain("group_by", filter.group_by);
    object.text("type", filter.kind().name());
}

fn push_metric(out: &mut String, metric: &Metric) {
    let mut object = ObjectWriter::new(out);
    push_optional_text(object.member("metric"), metric.metric.as_deref());
    object.text("id", &metric.id);
    push_optional_text(object.member("filter"), metric.filter.as_deref());
    push_optional_text(object.member("aggregator"), metric.aggregator.as_deref());
    push_optional_text(object.member("timeOffset"), metric.time_offset.as_deref());
    push_optional(object.member("fillPolicy"), metric.fill.as_ref(), push_fill);
}

fn push_expression(out: &mut String, entry: &ExpressionEntry) {
    let mut object = ObjectWriter::new(out);
    object.text("id", &entry.id);
    object.text("expr", &entry.text);
    push_optional(object.member("join"), entry.join.as_ref(), |out, join| {
        let mut object = ObjectWriter::new(out);
        object.text("operator", join.operator.name());
        object.plain("useQueryTags", join.use_query_tags);
        object.plain("includeAggTags", join.include_agg_tags);
    });
    push_optional(object.member("fillPolicy"), entry.fill.as_ref(), push_fill);
}

fn push_output_entry(out: &mut String, output: &Output) {
    let mut object = ObjectWriter::new(out);
    object.text("id", &output.id);
    push_optional_text(object.member("alias"), output.alias.as_deref());
}

fn push_fill(out: &mut String, fill: &Fill) {
    let mut object = ObjectWriter::new(out);
    object.text("policy", fill.policy);
    push_number(object.member("value"), fill.value);
}

/// A float; JSON has no number for those that are none.
fn push_number(out: &mut String, value: f64) {
    if value.is_finite() {
        push_double(out, value);
    } else {
        out.push('"');
        push_double(out, value);
        out.push('"');
    }
}

fn push_optional_text(out: &mut String, text: Option<&str>) {
    push_optional(out, text, push_text);
}

fn push_optional<T>(out: &mut String, value: Option<T>, push: impl Fn(&mut String, T)) {
    match value {
        None => out.push_str("null"),
        Some(value) => push(out, value),
    }
}

fn push_list<T>(
    out: &mut String,
    values: impl IntoIterator<Item = T>,
    push: impl Fn(&mut String, T),
) {
    out.push('[');
    for (i, value) in values.into_iter().enumerate() {
        out.push_str(if i == 0 { "" } else { "," });
        push(out, value);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_value_for_each_series() {
        let series = |host: &str| Identity {
            metrics: vec!["sys.cpu.iowait".into(), "sys.cpu.user".into()],
            tags: vec![("host".into(), host.into())],
            ..Identity::default()
        };
        let table = Table {
            series: vec![series("web01"), series("web02")],
            times: vec![1_700_000_040_000, 1_700_000_100_000],
            columns: vec![vec![22.0, f64::NAN], vec![44.0, 6.0]],
        };
        let mut out = String::new();
        push_output(&mut out, "e2", Some("twice"), &table);
        let expected = concat!(
            r#"{"id":"e2","alias":"twice","dps":[[1700000040000,22.0,44.0],"#,
            r#"[1700000100000,"NaN",6.0]],"dpsMeta":{"firstTimestamp":1700000040000,"#,
            r#""lastTimestamp":1700000100000,"setCount":2,"series":2},"#,
            r#""meta":[{"index":0,"metrics":["timestamp"]},"#,
            r#"{"index":1,"metrics":["sys.cpu.iowait","sys.cpu.user"],"#,
            r#""commonTags":{"host":"web01"},"aggregatedTags":[]},"#,
            r#"{"index":2,"metrics":["sys.cpu.iowait","sys.cpu.user"],"#,
            r#""commonTags":{"host":"web02"},"aggregatedTags":[]}]}"#,
        );
        assert_eq!(out, expected);
        let mut out = String::new();
        push_output(&mut out, "e", None, &Table::default());
        assert_eq!(
            out,
            r#"{"id":"e","dps":[],"dpsMeta":{"firstTimestamp":0,"lastTimestamp":0,"setCount":0,"series":0}}"#
        );
    }
}
