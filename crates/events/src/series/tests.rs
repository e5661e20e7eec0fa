//! Views over cells in memory, read as samples and by PromQL.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use icecore_model::event::{
    Cell, CellExemplar, EventId, EventWindow, HistogramCell, Reducer, Week,
};
use icecore_model::{
    Evaluations, Labels, MatchOp, Matcher, MemoryBudget, MetricType, SelectHints, Selection,
    SeriesSamples, SeriesSource, SourceError,
};
use icecore_promql::script::{LoadedSample, LoadedValue};
use icecore_promql::{Engine, MemorySource, QueryTime, QueryValue, Request, SampleValue};
use proptest::prelude::*;

use super::*;
use crate::query::testing::*;

/// 2026-11-09T10:00:00Z, a Monday.
const TEN_S: i64 = MONDAY_S + 36_000;
const WEEK_S: i64 = 7 * 86_400;

fn selection(name: &str, start_ms: i64, end_ms: i64) -> Selection {
    Selection {
        matchers: vec![Matcher::equal("__name__", name)],
        start_ms,
        end_ms,
        hints: SelectHints::default(),
    }
}

fn read(source: &EventSeries, selection: Selection) -> Result<Vec<SeriesSamples>, SourceError> {
    block_on(async {
        let mut stream = source.select(selection).await?;
        let mut all = Vec::new();
        while let Some(batch) = stream.next_batch().await? {
            all.extend(batch);
        }
        Ok(all)
    })
}

fn views(cells: MemoryCells) -> (EventSeries, Arc<MemoryCells>) {
    with_ordinary(cells, MemorySource::default())
}

fn with_ordinary(cells: MemoryCells, ordinary: MemorySource) -> (EventSeries, Arc<MemoryCells>) {
    let cells = Arc::new(cells);
    let source = EventSeries::new(cells.clone(), Arc::new(ordinary));
    (source, cells)
}

fn samples(series: &SeriesSamples) -> Vec<(i64, f64)> {
    let floats = &series.floats;
    floats
        .timestamps
        .iter()
        .copied()
        .zip(floats.values.iter().copied())
        .collect()
}

fn with_step(mut selection: Selection, step_s: i64) -> Selection {
    selection.hints.evaluations = Some(Evaluations::new(0, step_s * 1000, 0));
    selection
}

fn query(source: &EventSeries, text: &str, time: QueryTime) -> QueryValue {
    let request = Request {
        query: text.to_owned(),
        time,
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    };
    let (engine, canceled) = (Engine::default(), AtomicBool::new(false));
    let answer = engine.execute(source, &request, &canceled);
    block_on(answer).unwrap().value
}

/// The only value of an instant query; `None` if it has none.
fn instant(source: &EventSeries, text: &str, at_ms: i64) -> Option<f64> {
    let QueryValue::Vector(vector) = query(source, text, QueryTime::Instant { time_ms: at_ms })
    else {
        panic!("no vector");
    };
    assert!(vector.len() <= 1, "{vector:?}");
    vector.first().map(|sample| match &sample.value {
        SampleValue::Float(value) => *value,
        SampleValue::Histogram(_) => panic!("no float"),
    })
}

#[test]
fn a_counter_begins_with_zero_and_adds_up() {
    let orders = counter(1, "orders", &["order.channel"]);
    let mut cells = MemoryCells::new(vec![orders.clone()]);
    cells.now_ms = (TEN_S + 17) * 1000;
    cells.count(&orders, TEN_S + 1, &["web"], 3);
    cells.count(&orders, TEN_S + 7, &["web"], 4);
    cells.count(&orders, TEN_S + 16, &["web"], 5);
    // An early event is seen when its time has come.
    cells.count(&orders, TEN_S + 100, &["web"], 50);
    let (source, _) = views(cells);
    let all = read(&source, selection("orders_total", 0, i64::MAX / 2)).unwrap();
    let labels = r#"orders_total{event_type="order.placed", order_channel="web", service="shop"}"#;
    assert_eq!(all[0].labels.to_string(), labels);
    let ten = TEN_S * 1000;
    let expected = [
        (ten, 0.0),
        (ten + 4_999, 3.0),
        (ten + 9_999, 7.0),
        (ten + 14_999, 7.0),
        (ten + 17_000, 12.0),
    ];
    assert_eq!(samples(&all[0]), expected);
    // A later start finds the same samples.
    let rest = read(
        &source,
        selection("orders_total", ten + 9_999, ten + 16_000),
    )
    .unwrap();
    assert_eq!(samples(&rest[0]), expected[2..4]);
    assert!(
        read(&source, selection("orders_total", 0, ten - 1))
            .unwrap()
            .is_empty()
    );
    let wide = read(
        &source,
        with_step(selection("orders_total", 0, ten + 20_000), 60),
    )
    .unwrap();
    assert_eq!(samples(&wide[0]), [expected[0], expected[4]]);
}

#[test]
fn the_first_interval_counts_for_increase() {
    let orders = counter(1, "orders", &[]);
    let mut cells = MemoryCells::new(vec![orders.clone()]);
    cells.count(&orders, TEN_S + 1, &[], 7);
    let (source, _) = views(cells);
    let at = |seconds: i64| (TEN_S + seconds) * 1000;
    let increase = instant(&source, "increase(orders_total[5m])", at(60)).unwrap();
    assert!((7.0..7.5).contains(&increase), "{increase}");
    assert_eq!(instant(&source, "orders_total", at(5)), Some(7.0));
    assert_eq!(instant(&source, "orders_total", at(0)), Some(0.0));
    assert_eq!(instant(&source, "orders_total", at(-1)), None);
    let rate = instant(&source, "rate(orders_total[1h])", at(3_600 + 600));
    assert_eq!(rate, Some(0.0));
}

#[test]
fn weeks_begin_anew_and_the_reset_is_seen() {
    let orders = counter(1, "orders", &[]);
    let mut cells = MemoryCells::new(vec![orders.clone()]);
    cells.count(&orders, MONDAY_S - 3, &[], 2);
    cells.count(&orders, MONDAY_S + 12, &[], 9);
    let (source, _) = views(cells);
    let monday = MONDAY_S * 1000;
    let all = read(
        &source,
        selection("orders_total", monday - 5_001, monday + 15_000),
    )
    .unwrap();
    let expected = [
        (monday - 5_000, 0.0),
        (monday - 1, 2.0),
        (monday, 0.0),
        (monday + 10_000, 0.0),
        (monday + 14_999, 9.0),
    ];
    assert_eq!(samples(&all[0]), expected);
    // The zero of Monday does not depend on how far a query reads.
    let short = read(
        &source,
        selection("orders_total", monday - 1, monday + 3_000),
    )
    .unwrap();
    assert_eq!(samples(&short[0]), expected[1..3]);
    assert_eq!(
        instant(&source, "resets(orders_total[1h])", monday + 60_000),
        Some(1.0)
    );
    let increase = instant(&source, "increase(orders_total[10m])", monday + 300_000).unwrap();
    assert!((11.0..11.5).contains(&increase), "{increase}");
}

#[test]
fn sums_of_windows_are_exact() {
    let orders = counter(1, "orders", &["order.channel"]);
    let mut cells = MemoryCells::new(vec![orders.clone()]);
    let mut total = 0;
    for hour in 0..(29 * 24) {
        let count = hour % 7 + 1;
        total += count;
        cells.count(&orders, TEN_S - hour * 3_600 - 1_000, &["web"], count);
    }
    let (source, cells) = views(cells);
    let at = TEN_S * 1000;
    assert_eq!(
        instant(&source, "sum_over_time(orders:1h[30d])", at),
        Some(total as f64)
    );
    assert_eq!(cells.cells_read()["1h"], 29 * 24);
    assert_eq!(
        instant(&source, "sum_over_time(orders:5s[30d])", at),
        Some(total as f64)
    );
    let one = read(&source, selection("orders:1h", at - 3_600_000, at)).unwrap();
    assert_eq!(samples(&one[0]), [(at - 1, 1.0)]);
}

#[test]
fn histograms_are_what_histogram_quantile_reads() {
    let latency = histogram(3, "latency", &[10.0, 20.0, 50.0]);
    let mut cells = MemoryCells::new(vec![latency.clone()]);
    for i in 0..10 {
        cells.observe(&latency, TEN_S + i, &["web"], 5.0);
        cells.observe(&latency, TEN_S + i, &["app"], 15.0);
    }
    let (source, _) = views(cells);
    let at = (TEN_S + 3_600) * 1000;
    let of_window = |q: &str| {
        let text =
            format!("histogram_quantile({q}, sum by (le) (sum_over_time(latency_bucket:1h[1d])))");
        instant(&source, &text, at)
    };
    assert_eq!(of_window("0.5"), Some(10.0));
    assert_eq!(of_window("0.75"), Some(15.0));
    assert_eq!(of_window("0.95"), Some(19.0));
    assert_eq!(instant(&source, "sum(latency_sum)", at), Some(200.0));
    assert_eq!(instant(&source, "sum(latency_count)", at), Some(20.0));
    let inf = r#"sum(latency_bucket{le="+Inf"})"#;
    assert_eq!(instant(&source, inf, at), Some(20.0));
    let ten = r#"latency_bucket{le="10", order_channel="web"}"#;
    assert_eq!(instant(&source, ten, at), Some(10.0));
    assert_eq!(instant(&source, r#"latency_bucket{le="11"}"#, at), None);
}

#[test]
fn replaced_histograms_stay_a_part_of_their_series() {
    let (old, new) = (
        histogram(3, "latency", &[10.0]),
        histogram(4, "latency", &[10.0, 20.0]),
    );
    let mut cells = MemoryCells::with_retired(vec![new.clone()], vec![old.clone()]);
    cells.observe(&old, TEN_S, &["web"], 5.0);
    cells.observe(&new, TEN_S + 30, &["web"], 15.0);
    let (source, _) = views(cells);
    let at = (TEN_S + 60) * 1000;
    assert_eq!(instant(&source, "latency_count", at), Some(2.0));
    assert_eq!(
        instant(&source, r#"latency_bucket{le="10"}"#, at),
        Some(1.0)
    );
    assert_eq!(
        instant(&source, r#"latency_bucket{le="20"}"#, at),
        Some(1.0)
    );
    assert_eq!(
        instant(&source, r#"latency_bucket{le="+Inf"}"#, at),
        Some(2.0)
    );
    assert_eq!(
        instant(&source, "sum_over_time(latency_count:1m[1h])", at),
        Some(2.0)
    );
}

#[test]
fn gauges_and_states() {
    let stock = gauge(5, "stock", Reducer::Latest);
    let mut cells = MemoryCells::new(vec![stock.clone()]);
    cells.now_ms = (TEN_S + 62) * 1000;
    let states = cells.state_metrics();
    cells.observe(&stock, TEN_S, &["web"], 17.0);
    cells.observe(&stock, TEN_S + 61, &["web"], 16.0);
    cells.observe(
        &states.counts,
        TEN_S,
        &["Order", "order.status", "NEW"],
        4.0,
    );
    let change = ["Order", "order.status", "NEW", "PAID"];
    cells.count(&states.transitions, TEN_S, &change, 2);
    let (source, _) = views(cells);
    let ten = TEN_S * 1000;
    let all = read(&source, selection("stock", 0, ten + 70_000)).unwrap();
    assert_eq!(
        samples(&all[0]),
        [(ten + 4_999, 17.0), (ten + 62_000, 16.0)]
    );
    assert_eq!(instant(&source, "stock:1h", ten + 3_600_000), Some(16.0));
    let count = read(&source, selection("state_count", 0, ten + 70_000)).unwrap();
    assert_eq!(
        count[0].labels.to_string(),
        r#"state_count{attribute="order.status", object_type="Order", service="shop", state="NEW"}"#
    );
    assert_eq!(samples(&count[0]), [(ten + 59_999, 4.0)]);
    let paid = r#"state_transitions_total{from="NEW", to="PAID"}"#;
    assert_eq!(instant(&source, paid, ten + 60_000), Some(2.0));
}

fn ordinary() -> MemorySource {
    let mut source = MemorySource::default();
    let sample = LoadedSample {
        timestamp_ms: (TEN_S + 30) * 1000,
        value: LoadedValue::Float(-1.0),
        start_ms: None,
    };
    let hidden = [
        ("__name__", "orders_total"),
        ("service", "shop"),
        ("event_type", "order.placed"),
    ];
    let web = hidden.into_iter().chain([("order_channel", "web")]);
    source.add(&Labels::from_pairs(web), sample.clone());
    let other = hidden.into_iter().chain([("order_channel", "zzz")]);
    source.add(&Labels::from_pairs(other), sample.clone());
    source.add(&Labels::from_pairs([("__name__", "aaa")]), sample.clone());
    source.add(&Labels::from_pairs([("__name__", "zzz")]), sample);
    source
}

#[test]
fn ordinary_series_are_merged_in_and_hidden_by_views() {
    let orders = counter(1, "orders", &["order.channel"]);
    let mut cells = MemoryCells::new(vec![orders.clone()]);
    for channel in ["web", "app"] {
        cells.count(&orders, TEN_S, &[channel], 1);
    }
    let (source, _) = with_ordinary(cells, ordinary());
    let everything = || Selection {
        matchers: Vec::new(),
        ..selection("", TEN_S * 1000, (TEN_S + 60) * 1000)
    };
    let all = read(&source, everything()).unwrap();
    let labels: Vec<Labels> = all.iter().map(|series| series.labels.clone()).collect();
    assert!(labels.is_sorted(), "{labels:?}");
    let names: Vec<&str> = labels.iter().map(|labels| labels.metric_name()).collect();
    // The intervals of an hour and more are not over.
    let twice = |name| [name; 2];
    let expected = ["aaa"]
        .into_iter()
        .chain(twice("orders:1m"))
        .chain(twice("orders:5s"));
    let expected = expected.chain(["orders_total"; 3]).chain(["zzz"]);
    assert_eq!(names, expected.collect::<Vec<_>>());
    let of = |channel: &str| {
        let mut found = all.iter().filter(|series| {
            let labels = &series.labels;
            labels.metric_name() == "orders_total" && labels.get("order_channel") == Some(channel)
        });
        let series = found.next().unwrap();
        assert!(found.next().is_none());
        series.floats.values.last().copied()
    };
    assert_eq!((of("web"), of("zzz")), (Some(1.0), Some(-1.0)));

    let mut three = everything();
    three.hints.series_limit = Some(3);
    let first: Vec<Labels> = read(&source, three)
        .unwrap()
        .iter()
        .map(|s| s.labels.clone())
        .collect();
    assert_eq!(first, labels[..3]);
    let mut few = everything();
    few.hints.samples_limit = Some(10);
    assert!(matches!(
        read(&source, few),
        Err(SourceError::LimitReached(_))
    ));
    let mut only_labels = everything();
    only_labels.hints.labels_only = true;
    let found = read(&source, only_labels).unwrap();
    assert_eq!(
        found.iter().map(|s| s.labels.clone()).collect::<Vec<_>>(),
        labels
    );
    assert!(found.iter().all(|series| series.sample_count() == 0));
    let mut poor = everything();
    let budget = MemoryBudget::new(600);
    poor.hints.memory = Some(budget.clone());
    assert!(matches!(
        read(&source, poor),
        Err(SourceError::LimitReached(_))
    ));
    assert_eq!(budget.used(), 0);
    // A view without a sample in the range hides the ordinary series all the same.
    let late = selection("orders_total", (TEN_S + 30) * 1000, (TEN_S + 30) * 1000);
    let late = read(&source, late).unwrap();
    assert_eq!(late.len(), 1);
    assert_eq!(late[0].labels.get("order_channel"), Some("zzz"));
}

#[test]
fn what_cannot_match_is_not_read() {
    let orders = counter(1, "orders", &["order.channel"]);
    let mut cells = MemoryCells::new(vec![orders.clone()]);
    cells.count(&orders, TEN_S, &["web"], 1);
    let (source, cells) = views(cells);
    let select = |name: &str, value: &str, op| {
        let mut selection = selection("orders_total", TEN_S * 1000, NOW_MS);
        selection
            .matchers
            .push(Matcher::new(op, name, value).unwrap());
        read(&source, selection).unwrap().len()
    };
    assert_eq!(select("service", "other", MatchOp::Equal), 0);
    assert_eq!(select("event_type", "order\\..*", MatchOp::NotRegex), 0);
    assert!(cells.cells_read().is_empty());
    assert_eq!(select("order_channel", "app", MatchOp::Equal), 0);
    assert_eq!(cells.cells_read().keys().collect::<Vec<_>>(), [&"7d"]);
    assert_eq!(select("order_channel", "w.*", MatchOp::Regex), 1);
    assert_eq!(select("order_channel", "", MatchOp::Equal), 0);
    assert_eq!(select("absent", "", MatchOp::Equal), 1);
}

#[test]
fn names_values_and_metadata() {
    let orders = counter(1, "orders", &["order.channel"]);
    let latency = histogram(3, "latency", &[10.0]);
    let mut cells = MemoryCells::new(vec![orders.clone(), latency.clone()]);
    cells.count(&orders, TEN_S, &["web"], 1);
    cells.count(&orders, TEN_S - WEEK_S, &["app"], 1);
    cells.observe(&latency, TEN_S, &["web"], 5.0);
    let named = |name: &str| ViewQuery {
        selectors: vec![vec![Matcher::equal("__name__", name)]],
        start_ms: TEN_S * 1000,
        end_ms: i64::MAX,
        memory: None,
    };
    let values =
        |label, query: &ViewQuery| block_on(view_label_values(&cells, label, query)).unwrap();
    assert_eq!(values("order_channel", &named("orders_total")), ["web"]);
    let mut earlier = named("orders_total");
    earlier.start_ms = 0;
    assert_eq!(values("order_channel", &earlier), ["app", "web"]);
    assert_eq!(values("le", &named("latency_bucket")), ["+Inf", "10"]);
    let all = ViewQuery {
        end_ms: NOW_MS,
        ..ViewQuery::default()
    };
    let names = values("__name__", &all);
    assert_eq!(names.len(), 6 + 3 * 6);
    assert!(names.contains(&"latency_bucket:7d".to_owned()));
    let labels = block_on(view_label_names(&cells, &all)).unwrap();
    assert_eq!(
        labels,
        ["__name__", "event_type", "le", "order_channel", "service"]
    );
    assert_eq!(
        block_on(view_series(&cells, &named("latency_bucket")))
            .unwrap()
            .len(),
        2
    );

    let metadata = view_metadata(cells.registry(), None);
    let type_of = |name: &str| {
        let found = metadata.iter().find(|(family, _)| family == name);
        found.map(|(_, metadata)| metadata.metric_type)
    };
    assert_eq!(type_of("orders_total"), Some(MetricType::Counter));
    assert_eq!(type_of("orders:1h"), Some(MetricType::Gauge));
    assert_eq!(type_of("latency"), Some(MetricType::Histogram));
    assert_eq!(type_of("latency_sum:1d"), Some(MetricType::Gauge));
    assert_eq!(type_of("state_count"), Some(MetricType::Gauge));
    assert_eq!(
        type_of("state_transitions_total"),
        Some(MetricType::Counter)
    );
    let one = view_metadata(cells.registry(), Some("orders_total"));
    assert_eq!(one.len(), 1);
    assert_eq!(
        one[0].1.help,
        "Number of events order.placed of service shop, since Monday."
    );
}

#[test]
fn exemplars_name_their_events() {
    let latency = histogram(3, "latency", &[10.0]);
    let mut cells = MemoryCells::new(vec![latency.clone()]);
    for (second, value, bucket) in [(1, 5.0, 0), (7, 15.0, 1)] {
        let exemplar = CellExemplar {
            bucket,
            value,
            at_ns: (TEN_S + second) * 1_000_000_000,
            event: EventId([second as u8; 16]),
            trace_id: Some([0xab; 16]).filter(|_| bucket == 0),
        };
        let mut counts = vec![0, 0];
        counts[bucket as usize] = 1;
        let cell = HistogramCell {
            first_s: 0,
            counts,
            samples: 1,
            sum: value,
            min: value,
            max: value,
            sketch: None,
            exemplars: vec![exemplar],
        };
        cells.add(&latency, TEN_S + second, &["web"], Cell::Histogram(cell));
    }
    let query = |end_s: i64| ViewQuery {
        selectors: vec![vec![Matcher::equal("__name__", "latency_bucket")]],
        start_ms: TEN_S * 1000,
        end_ms: (TEN_S + end_s) * 1000,
        memory: None,
    };
    let found = block_on(series_exemplars(&cells, &query(60))).unwrap();
    assert_eq!(found.len(), 2);
    let (labels, exemplars) = found
        .iter()
        .find(|(l, _)| l.get("le") == Some("10"))
        .unwrap();
    assert_eq!(labels.get("order_channel"), Some("web"));
    assert_eq!(exemplars.len(), 1);
    assert_eq!(
        (exemplars[0].timestamp_ms, exemplars[0].value),
        ((TEN_S + 1) * 1000, 5.0)
    );
    let of_event = &exemplars[0].labels;
    assert_eq!(
        of_event.get("event_id"),
        Some("01010101-0101-0101-0101-010101010101")
    );
    assert_eq!(of_event.get("trace_id"), Some("ab".repeat(16).as_str()));
    assert_eq!(
        block_on(series_exemplars(&cells, &query(5))).unwrap().len(),
        1
    );
}

#[test]
fn expired_cells_leave_coarser_ones() {
    let orders = counter(1, "orders", &[]);
    let mut cells = MemoryCells::new(vec![orders.clone()]);
    // Two weeks before now there are minutes, seven weeks before there are hours.
    let (recent_s, old_s) = (TEN_S - 2 * WEEK_S, TEN_S - 7 * WEEK_S);
    cells.count(&orders, recent_s + 1, &[], 3);
    cells.count(&orders, old_s + 1, &[], 4);
    let now_s = NOW_MS / 1000;
    cells.expire(EventWindow::FiveSeconds, now_s - WEEK_S);
    cells.expire(EventWindow::Minute, now_s - 30 * 86_400);
    let (source, _) = views(cells);
    let value = |at_s: i64| instant(&source, "orders_total", at_s * 1000);
    assert_eq!(value(recent_s - 1), None);
    assert_eq!(
        (value(recent_s), value(recent_s + 60)),
        (Some(0.0), Some(3.0))
    );
    // Between the cells of hours the last known total is there.
    assert_eq!(
        (value(old_s + 1_800), value(old_s + 3_600)),
        (Some(0.0), Some(4.0))
    );
    assert_eq!(value(old_s + 3_600 + 1_234), Some(4.0));
}

#[test]
fn long_ranges_with_long_steps_are_cheap() {
    let orders = counter(1, "orders", &[]);
    let mut cells = MemoryCells::new(vec![orders.clone()]);
    for i in 0..5_000 {
        cells.count(&orders, MONDAY_S - WEEK_S + i * 60, &[], 1);
    }
    let (source, cells) = views(cells);
    let range = QueryTime::Range {
        start_ms: (MONDAY_S - WEEK_S) * 1000,
        end_ms: MONDAY_S * 1000,
        step_ms: 86_400_000,
    };
    let QueryValue::Matrix(matrix) = query(&source, "orders_total", range) else {
        panic!("no matrix");
    };
    let QueryValue::Matrix(increases) = query(&source, "increase(orders_total[1d])", range) else {
        panic!("no matrix");
    };
    assert_eq!((matrix.len(), increases.len()), (1, 1));
    let read = cells.cells_read();
    assert_eq!(read.get("5s"), None);
    assert!(read["1d"] <= 2 * 7 + 1, "{read:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn totals_are_those_of_the_events(
        events in prop::collection::vec((0i64..2 * 7 * 86_400, 1i64..4), 0..40),
        range in (-3_000i64..2 * 7 * 86_400, 0i64..400_000),
        now_s in 0i64..2 * 7 * 86_400,
        at in prop::collection::vec(0i64..400_000, 1..8),
    ) {
        let orders = counter(1, "orders", &[]);
        let mut cells = MemoryCells::new(vec![orders.clone()]);
        let origin_s = MONDAY_S - WEEK_S;
        // Everything is kept at 5 s.
        cells.now_ms = (origin_s + now_s) * 1000 + 137;
        for (at_s, count) in &events {
            cells.count(&orders, origin_s + at_s, &[], *count);
        }
        let (source, cells) = views(cells);
        let start_ms = (origin_s + range.0) * 1000;
        let end_ms = start_ms + range.1 * 1000;
        let fine = read(&source, selection("orders_total", start_ms, end_ms)).unwrap();
        let total_at = |at_ms: i64| {
            let week = Week::of(at_ms.div_euclid(1000));
            let five = EventWindow::FiveSeconds;
            let counts = |at_s: i64| {
                let from_s = five.start_of(at_s);
                let is_over = (from_s + 5) * 1000 - 1 <= at_ms;
                let is_now = at_ms == cells.now_ms && from_s * 1000 <= at_ms;
                (is_over || is_now) && Week::of(at_s) == week
            };
            let counted = events.iter().filter(|(at_s, _)| counts(origin_s + at_s));
            counted.map(|(_, count)| *count).sum::<i64>() as f64
        };
        for series in &fine {
            for (at_ms, value) in samples(series) {
                prop_assert!((start_ms..=end_ms.min(cells.now_ms)).contains(&at_ms));
                prop_assert_eq!(value, total_at(at_ms), "at {}", at_ms);
            }
            prop_assert!(series.floats.timestamps.is_sorted_by(|a, b| a < b));
        }
        // On its grid a coarser step has what the finest has.
        for window in [EventWindow::Minute, EventWindow::Hour, EventWindow::Day] {
            let asked = with_step(selection("orders_total", start_ms, end_ms), window.seconds());
            let coarse = read(&source, asked).unwrap();
            prop_assert_eq!(coarse.len() <= fine.len(), true);
            for series in &coarse {
                for (at_ms, value) in samples(series) {
                    prop_assert_eq!(value, total_at(at_ms), "{:?} at {}", window, at_ms);
                }
            }
            for at in &at {
                let at_ms = (window.start_of((start_ms / 1000) + at)) * 1000;
                let look = |series: &[SeriesSamples]| {
                    let samples = samples(series.first()?);
                    let seen = at_ms - 299_999..=at_ms;
                    samples.into_iter().rfind(|(at_ms, _)| seen.contains(at_ms))
                };
                if at_ms - 300_000 >= start_ms && at_ms <= end_ms {
                    prop_assert_eq!(look(&coarse), look(&fine), "{:?} at {}", window, at_ms);
                }
            }
        }
    }
}
