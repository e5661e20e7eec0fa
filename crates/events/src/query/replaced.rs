//! Metrics that a change of the registry has put others in place of.
//!
//! Holds always:
//! - Cells that can be merged are read together: those of one operation, reducer or set of bounds,
//!   whatever windows they were kept in.
//! - Cells that cannot be merged are never mixed. A range that has only one sort of them is
//!   answered with those; one that has several is an error.

use std::sync::Arc;

use icecore_model::event::CellScan;

use super::CellSource;
use super::request::MetricRequest;
use super::window_choice::WindowChoice;
use crate::{Metric, MetricKind, Problem};

/// Adds the metrics of the same name to a request that have cells in its range.
pub(crate) async fn gather(
    source: &dyn CellSource,
    request: &mut MetricRequest,
) -> Result<(), Problem> {
    let of_kind = |other: &&Arc<Metric>| other.kind.word() == request.metric.kind.word();
    let is_other = |other: &&Arc<Metric>| other.number != request.metric.number;
    let replaced = request.event_type.retired(&request.metric.name);
    let replaced: Vec<Arc<Metric>> = replaced.filter(of_kind).filter(is_other).cloned().collect();
    if replaced.is_empty() {
        return Ok(());
    }
    let mut found = Vec::new();
    for metric in [Arc::clone(&request.metric)].into_iter().chain(replaced) {
        if let Some(choice) = window_with_cells(source, &metric, request).await? {
            found.push((metric, choice));
        }
    }
    let mut found = found.into_iter();
    let Some((metric, choice)) = found.next() else {
        return Ok(());
    };
    let mut is_partial = choice.is_partial;
    let mut others = Vec::new();
    for (other, choice) in found {
        if !metric.kind.merges_with(&other.kind) {
            return Err(mixed(&metric));
        }
        is_partial |= choice.is_partial;
        others.push((other, choice.window));
    }
    request.choice = WindowChoice {
        is_partial,
        ..choice
    };
    (request.metric, request.others) = (metric, others);
    Ok(())
}

/// The window that a metric is read from, if it has cells in the range.
async fn window_with_cells(
    source: &dyn CellSource,
    metric: &Metric,
    request: &MetricRequest,
) -> Result<Option<WindowChoice>, Problem> {
    let intervals = &request.intervals;
    let choice = WindowChoice::of(
        metric,
        intervals.interval,
        intervals.start_s,
        source.guarded_ms(),
    );
    // Also where the intervals are too fine for what is there, that has to be known.
    let window = choice.as_ref().map_or(metric.base, |choice| choice.window);
    let scan = CellScan {
        window,
        metric: metric.number,
        starts_s: window.start_of(intervals.start_s)..intervals.end_s(),
        after: None,
        limit: 1,
    };
    let cells = source.cells(scan).await?;
    cells.first().map(|_| choice).transpose()
}

fn mixed(metric: &Metric) -> Problem {
    let (code, what) = match metric.kind {
        MetricKind::Counter { .. } => ("query.mixed-operations", "operation"),
        MetricKind::Histogram { .. } => ("query.mixed-buckets", "bounds or the sketch"),
        MetricKind::Gauge { .. } => ("query.mixed-reducers", "reducer"),
    };
    let detail = format!(
        "the {what} of {} changed, and the range has events of both sides",
        metric.name
    );
    Problem::new(400, code, detail)
        .with_hint("ask for the time before and after the change on its own")
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use icecore_model::event::{EventWindow, Reducer};
    use serde_json::{Value, json};

    use super::super::testing::*;
    use super::super::{query_counters, query_gauges};
    use super::*;

    /// 2026-11-09T10:00:00Z.
    const TEN_S: i64 = MONDAY_S + 36_000;

    fn body(more: Value) -> Vec<u8> {
        let mut body = json!({
            "serviceKey": "shop", "eventType": "order.placed",
            "counterName": "orders", "gaugeName": "stock",
            "interval": "1m", "start": "2026-11-09T10:00:00Z", "end": "2026-11-09T10:03:00Z",
        });
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body.to_string().into_bytes()
    }

    fn counts(cells: &MemoryCells, more: Value) -> Result<Vec<Value>, Problem> {
        let answer = block_on(query_counters(cells, &body(more)))?;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let intervals = answer["data"]["intervals"].as_array().unwrap().iter();
        Ok(intervals.map(|each| each["counts"].clone()).collect())
    }

    fn with_base(metric: &Metric, base: EventWindow) -> Arc<Metric> {
        Arc::new(Metric {
            base,
            ..metric.clone()
        })
    }

    /// Two metrics that count the same in other windows.
    fn other_windows() -> (MemoryCells, Arc<Metric>, Arc<Metric>) {
        let old = counter(1, "orders", &["order.channel"]);
        let old = with_base(&old, EventWindow::Minute);
        let new = counter(2, "orders", &["order.channel", "region"]);
        let mut cells = MemoryCells::with_retired(vec![new.clone()], vec![old.clone()]);
        cells.count(&old, TEN_S + 1, &["web"], 3);
        cells.count(&old, TEN_S + 62, &["app"], 4);
        cells.count(&new, TEN_S + 63, &["app", "eu"], 5);
        cells.count(&new, TEN_S + 121, &["web", "us"], 7);
        (cells, old, new)
    }

    #[test]
    fn counters_that_count_the_same_are_added_up() {
        let (cells, ..) = other_windows();
        let of = |count: i64| json!([{ "key": {}, "count": count }]);
        let all = counts(&cells, json!({})).unwrap();
        assert_eq!(all, [of(3), of(9), of(7)]);
        let by_channel = |web: i64, app: i64| {
            json!([{ "key": { "order.channel": "app" }, "count": app },
                   { "key": { "order.channel": "web" }, "count": web }])
        };
        let split = counts(&cells, json!({ "groupBy": ["order.channel"] })).unwrap();
        assert_eq!(
            split,
            [by_channel(3, 0), by_channel(0, 9), by_channel(7, 0)]
        );
        // A page knows the groups of the others, whichever metric has them.
        let page = json!({ "groupBy": ["order.channel"], "limits": { "offset": 2, "limit": 1 } });
        assert_eq!(counts(&cells, page).unwrap(), [by_channel(7, 0)]);
        // What came before has no region.
        let split = counts(&cells, json!({ "groupBy": ["region"] })).unwrap();
        assert_eq!(split[0][0], json!({ "key": {}, "count": 3 }));
    }

    #[test]
    fn intervals_finer_than_what_is_there_are_refused_only_where_it_is_there() {
        let (cells, ..) = other_windows();
        let problem = counts(&cells, json!({ "interval": "5s" })).unwrap_err();
        assert_eq!(problem.code, "query.interval-too-fine");
        let later = json!({ "interval": "5s", "start": "2026-11-09T10:02:00Z" });
        assert_eq!(counts(&cells, later).unwrap().len(), 12);
    }

    #[test]
    fn counters_of_other_operations_are_not_mixed() {
        let sum_of = Some("order.total".to_owned());
        let old = metric(1, "orders", &[], MetricKind::Counter { sum_of });
        let new = counter(2, "orders", &[]);
        let mut cells = MemoryCells::with_retired(vec![new.clone()], vec![old.clone()]);
        cells.count(&old, TEN_S + 1, &[], 2);
        let before = counts(&cells, json!({})).unwrap();
        assert_eq!(before[0][0]["count"], json!(3));
        assert_eq!(before[0][0]["events"], json!(2));
        cells.count(&new, TEN_S + 61, &[], 5);
        let problem = counts(&cells, json!({})).unwrap_err();
        let found = (problem.status, problem.code);
        assert_eq!(found, (400, "query.mixed-operations"));
        let after = json!({ "start": "2026-11-09T10:01:00Z" });
        assert_eq!(counts(&cells, after).unwrap()[0][0]["count"], json!(5));
    }

    #[test]
    fn gauges_of_one_reducer_are_merged_and_carried_over() {
        let old = gauge(1, "stock", Reducer::Latest);
        let new = with_base(&gauge(2, "stock", Reducer::Latest), EventWindow::Minute);
        let mut cells = MemoryCells::with_retired(vec![new.clone()], vec![old.clone()]);
        cells.observe(&old, TEN_S + 1, &["web"], 8.0);
        cells.observe(&old, TEN_S + 70, &["web"], 6.0);
        cells.observe(&new, TEN_S + 65, &["web"], 7.0);
        let values = |more: Value| {
            let answer = block_on(query_gauges(&cells, &body(more)))?;
            let answer: Value = serde_json::from_str(&answer).unwrap();
            let intervals = answer["data"]["intervals"].as_array().unwrap().iter();
            let values: Vec<Value> = intervals
                .map(|each| each["values"][0]["value"].clone())
                .collect();
            Ok::<_, Problem>(values)
        };
        assert_eq!(
            values(json!({})).unwrap(),
            [json!(8), json!(6), json!(null)]
        );
        // The last interval before the page, whichever metric is read last.
        let page = json!({ "fill": "previous", "limits": { "offset": 2, "limit": 1 } });
        assert_eq!(values(page).unwrap(), [json!(6)]);
        let other = gauge(3, "stock", Reducer::Max);
        let mut cells = MemoryCells::with_retired(vec![other.clone()], vec![old.clone()]);
        cells.observe(&old, TEN_S + 1, &["web"], 8.0);
        cells.observe(&other, TEN_S + 2, &["web"], 9.0);
        let problem = block_on(query_gauges(&cells, &body(json!({})))).unwrap_err();
        assert_eq!(problem.code, "query.mixed-reducers");
    }

    #[test]
    fn a_metric_that_went_elsewhere_stays_readable() {
        let old = counter(1, "orders", &[]);
        let mut cells = MemoryCells::with_retired(Vec::new(), vec![old.clone()]);
        cells.count(&old, TEN_S, &[], 2);
        assert_eq!(counts(&cells, json!({})).unwrap()[0][0]["count"], json!(2));
    }
}
