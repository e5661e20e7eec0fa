//! What cells have to be, worked out in the simplest way: for each cell all of its events are
//! looked at.

use std::collections::BTreeMap;

use icecore_model::event::{
    Cell, CellExemplar, CounterCell, EventWindow, GaugeCell, HistogramCell, Reducer, SketchCounts,
    Week,
};

use super::NOW_MS;
use crate::{Scalar, StoredEvent, Value};

/// By metric, start and dimension values.
pub(super) type ModelCells = BTreeMap<(String, i64, String), Cell>;

pub(super) fn dimension_texts(values: &[(String, String)]) -> String {
    let texts = values.iter().map(|(path, text)| format!("{path}={text}"));
    texts.collect::<Vec<_>>().join(",")
}

/// The cells of a window that a set of events has.
pub(super) fn model(events: &[StoredEvent<'_>], window: EventWindow) -> ModelCells {
    let mut groups: BTreeMap<(String, i64, String), Vec<&StoredEvent<'_>>> = BTreeMap::new();
    for event in events {
        let start_s = window.start_of(event.started_ns / 1_000_000_000);
        // 7, 30, 400, 1830 and 1830 days, from the end of the week on.
        let kept_days = [7, 30, 400, 1830, 1830][usize::from(window.number()) - 1];
        if Week::of(start_s).end_s() + kept_days * 86_400 <= NOW_MS / 1000 {
            continue;
        }
        for (metric, dimensions) in metrics_of(event) {
            let key = (metric.to_owned(), start_s, dimensions);
            groups.entry(key).or_default().push(event);
        }
    }
    let cells = groups.into_iter();
    let cells = cells.map(|(key, events)| {
        let cell = cell_of(&key.0, &events, window);
        (key, cell)
    });
    cells.collect()
}

fn text(event: &StoredEvent<'_>, path: &str) -> String {
    match event.attributes.get(path) {
        Some(Value::Scalar(Scalar::Text(text))) => text.to_string(),
        other => panic!("{path} is {other:?}"),
    }
}

fn number(event: &StoredEvent<'_>, path: &str) -> f64 {
    match event.attributes.get(path) {
        Some(Value::Scalar(Scalar::Integer(number))) => *number as f64,
        Some(Value::Scalar(Scalar::Number(number))) => *number,
        other => panic!("{path} is {other:?}"),
    }
}

/// The metrics that an order counts for.
fn metrics_of(event: &StoredEvent<'_>) -> Vec<(&'static str, String)> {
    let channel = format!("order.channel={}", text(event, "order.channel"));
    let mut metrics = vec![
        ("events_stored_total", format!("outcome={}", event.outcome)),
        ("orders", channel.clone()),
        ("all_orders", String::new()),
        ("revenue", channel.clone()),
        ("order_total", channel.clone()),
        ("stock", channel.clone()),
        ("least_stock", String::new()),
    ];
    if number(event, "order.items") >= 3.0 {
        metrics.push(("large_orders", channel));
    }
    metrics
}

fn cell_of(metric: &str, events: &[&StoredEvent<'_>], window: EventWindow) -> Cell {
    let five_s = |event: &&StoredEvent<'_>| {
        let at_s = event.started_ns / 1_000_000_000;
        at_s - at_s % 5
    };
    let first_s = events.iter().map(five_s).min().unwrap();
    let totals = || events.iter().map(|event| number(event, "order.total"));
    match metric {
        "revenue" => Cell::Counter(CounterCell {
            first_s,
            count: events.len() as i64,
            sum: totals().sum(),
        }),
        "order_total" => Cell::Histogram(HistogramCell {
            first_s,
            counts: buckets(events),
            samples: events.len() as u64,
            sum: totals().sum(),
            min: totals().fold(f64::INFINITY, f64::min),
            max: totals().fold(f64::NEG_INFINITY, f64::max),
            sketch: Some(sketch(totals().collect())),
            exemplars: match window {
                EventWindow::Minute => exemplars(events),
                _ => Vec::new(),
            },
        }),
        "stock" => {
            let latest = events
                .iter()
                .max_by_key(|event| (event.started_ns, event.id));
            Cell::Gauge(gauge(latest.unwrap(), Reducer::Latest, first_s))
        }
        "least_stock" => {
            let least = events.iter().map(|event| number(event, "order.items"));
            let least = least.fold(f64::INFINITY, f64::min);
            let of_least = events
                .iter()
                .filter(|event| number(event, "order.items") == least);
            let latest = of_least.max_by_key(|event| (event.started_ns, event.id));
            Cell::Gauge(gauge(latest.unwrap(), Reducer::Min, first_s))
        }
        _ => Cell::Counter(CounterCell {
            first_s,
            count: events.len() as i64,
            sum: 0.0,
        }),
    }
}

fn gauge(event: &StoredEvent<'_>, reducer: Reducer, first_s: i64) -> GaugeCell {
    GaugeCell {
        first_s,
        reducer,
        value: number(event, "order.items"),
        observed_ns: event.started_ns,
        event: event.id,
    }
}

/// Of the bounds 0, 10 and 20, which belong to the buckets below them.
fn bucket(value: f64) -> usize {
    match value {
        value if value <= 0.0 => 0,
        value if value <= 10.0 => 1,
        value if value <= 20.0 => 2,
        _ => 3,
    }
}

fn buckets(events: &[&StoredEvent<'_>]) -> Vec<u64> {
    let mut counts = vec![0; 4];
    for event in events {
        counts[bucket(number(event, "order.total"))] += 1;
    }
    counts
}

fn exemplars(events: &[&StoredEvent<'_>]) -> Vec<CellExemplar> {
    let newest = (0..4).filter_map(|wanted| {
        let of_bucket = events.iter().filter(|event| {
            let value = number(event, "order.total");
            bucket(value) == wanted
        });
        of_bucket.max_by_key(|event| (event.started_ns, event.id))
    });
    let exemplars = newest.map(|event| CellExemplar {
        bucket: bucket(number(event, "order.total")) as u32,
        value: number(event, "order.total"),
        at_ns: event.started_ns,
        event: event.id,
        trace_id: None,
    });
    exemplars.collect()
}

/// Each value lies in the bucket whose bounds are the neighbouring powers of 1.01 / 0.99.
fn sketch(values: Vec<f64>) -> SketchCounts {
    let mut positive: BTreeMap<i32, u64> = BTreeMap::new();
    let mut negative: BTreeMap<i32, u64> = BTreeMap::new();
    let mut zero = 0;
    for value in values {
        let ratio: f64 = 1.01 / 0.99;
        let mut index = -2_000;
        while value != 0.0 && ratio.powi(index) < value.abs() {
            index += 1;
        }
        match value {
            0.0 => zero += 1,
            value if value > 0.0 => *positive.entry(index).or_default() += 1,
            _ => *negative.entry(index).or_default() += 1,
        }
    }
    SketchCounts {
        relative_accuracy: 0.01,
        zero,
        positive: positive.into_iter().collect(),
        negative: negative.into_iter().collect(),
    }
}

/// Cells are equal, except for the last bits of sums.
pub(super) fn check_cells(shown: &ModelCells, expected: &ModelCells) {
    let keys = |cells: &ModelCells| cells.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(shown), keys(expected));
    for (key, cell) in shown {
        let mut cell = cell.clone();
        let sums = match (&mut cell, &expected[key]) {
            (Cell::Counter(cell), Cell::Counter(expected)) => Some((&mut cell.sum, expected.sum)),
            (Cell::Histogram(cell), Cell::Histogram(expected)) => {
                Some((&mut cell.sum, expected.sum))
            }
            _ => None,
        };
        if let Some((sum, expected)) = sums {
            let difference = (*sum - expected).abs();
            assert!(difference <= 1e-9 * expected.abs().max(1.0), "{key:?}");
            *sum = expected;
        }
        assert_eq!(&cell, &expected[key], "{key:?}");
    }
}
