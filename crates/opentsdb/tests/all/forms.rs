//! Integers and floats of one series: each stays what it was, in whatever order they come.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use http::Method;
use icecore_model::{CatalogChange, Labels, METRIC_NAME, push_raw_label};
use icecore_opentsdb::Config;
use icecore_opentsdb::testing::MemoryStore;
use proptest::prelude::*;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::query_examples::{B, Daemon, append};

/// The first byte of records of forms that earlier versions have written.
const RECORD: u8 = 0x21;

/// An integer that no float is.
const BIG: i64 = (1 << 53) + 1;

fn open(store: &Arc<MemoryStore>) -> Daemon {
    Daemon::over(store.clone().all(), Config::default())
}

/// The points of the only result, with times as seconds after [`B`].
fn dps(daemon: &Daemon, m: &str) -> Vec<(i64, Value)> {
    let (status, results) = daemon.query((0, 7200), &format!("m={m}"));
    assert_eq!(status, 200, "{results}");
    let points = results[0]["dps"].as_object().unwrap().iter();
    let mut points: Vec<_> = points
        .map(|(time, value)| (time.parse::<i64>().unwrap() - B, value.clone()))
        .collect();
    points.sort_by_key(|point| point.0);
    points
}

#[test]
fn a_late_float_leaves_integers_as_they_are() {
    let daemon = Daemon::new(Config::default());
    daemon.put(&[("host", "a")], &[(10, json!(1)), (20, json!(7))]);
    daemon.put(&[("host", "b")], &[(10, json!(2)), (20, json!(10))]);
    let averages = vec![(10, json!(1)), (20, json!(8))];
    assert_eq!(dps(&daemon, "avg:m"), averages);
    daemon.put(&[("host", "a")], &[(0, json!(5.0))]);
    let found = dps(&daemon, "avg:m");
    assert_eq!(found[0], (0, json!(5.0)));
    assert_eq!(found[1..], averages);
}

#[test]
fn floats_that_are_backfilled_newest_first_are_floats() {
    for first in [None, Some((3600, json!(7)))] {
        let store = Arc::new(MemoryStore::default());
        let daemon = open(&store);
        daemon.put(&[("host", "a")], first.as_slice());
        let floats: Vec<_> = (0..600).map(|i| (i, json!(i as f64 + 3.0))).collect();
        for point in floats.iter().rev() {
            daemon.put(&[("host", "a")], std::slice::from_ref(point));
        }
        for daemon in [daemon, open(&store)] {
            assert_eq!(dps(&daemon, "sum:m")[..600], floats);
        }
        assert!(records(&store, RECORD).is_empty());
    }
}

fn records(store: &Arc<MemoryStore>, first: u8) -> Vec<Vec<u8>> {
    let catalog = store.clone().all().catalog;
    let found = block_on(catalog.range(vec![first]..vec![first + 1], usize::MAX)).unwrap();
    found.into_iter().map(|(key, _)| key).collect()
}

#[test]
fn a_metric_costs_one_record_at_most() {
    let store = Arc::new(MemoryStore::default());
    let daemon = open(&store);
    for i in 0..2000 {
        let value = if i % 2 == 0 { json!(5.0) } else { json!(5) };
        daemon.put(&[("host", "a")], &[(i, value)]);
    }
    assert!(records(&store, RECORD).is_empty());
    assert_eq!(records(&store, 0x25), [b"\x25m"]);
}

#[test]
fn a_first_point_that_was_refused_says_nothing_of_others() {
    let store = Arc::new(MemoryStore::default());
    let daemon = open(&store);
    store.refuse_next(1);
    let refused = json!({"metric": "m", "timestamp": B, "value": 1.0, "tags": {"host": "a"}});
    let (status, _) = daemon.ask(Method::POST, "/api/put", &refused.to_string());
    assert_eq!(status, 503);
    let points = [(0, json!(1)), (10, json!(2)), (20, json!(3.0))];
    daemon.put(&[("host", "a")], &points);
    for daemon in [daemon, open(&store)] {
        assert_eq!(dps(&daemon, "sum:m"), shown(&points));
    }
}

#[test]
fn what_earlier_versions_have_recorded_still_holds() {
    let store = Arc::new(MemoryStore::default());
    let stores = store.clone().all();
    open(&store).put(&[("host", "a")], &[(0, json!(1))]);
    let labels = Labels::from_pairs([(METRIC_NAME, "m"), ("host", "a")]);
    append(
        &stores,
        &labels,
        &[(10, 2.0), (20, 3.0), (30, 4.0), (31, 4.0), (40, 5.0)],
    );
    let mut bytes = Vec::new();
    for (name, value) in labels.iter() {
        push_raw_label(&mut bytes, name, value);
    }
    // Floats from 20 to 40, but for an integer.
    let records = [(20, [0, 0, 0, 0]), (30, [1, 1, 0, 0]), (40, [0, 1, 0, 0])];
    let changes = records.map(|(second, value)| {
        let time = ((B + second) as u64 * 1000) ^ (1 << 63);
        let hash = xxh3_128(&bytes).to_be_bytes();
        CatalogChange {
            key: [&[RECORD][..], &hash, &time.to_be_bytes()].concat(),
            value: Some(value.to_vec()),
        }
    });
    let fill = move |sink: &mut dyn icecore_model::SampleSink| {
        changes.into_iter().for_each(|change| sink.catalog(change));
        Ok::<_, std::convert::Infallible>(())
    };
    let pending = block_on(stores.points.append(Duration::ZERO, fill)).unwrap();
    block_on(pending.commit).unwrap();

    let daemon = open(&store);
    // New points are told from them, whatever is recorded of their time.
    let late = [
        (1, json!(8.0)),
        (2, json!(8)),
        (32, json!(9.0)),
        (33, json!(9)),
    ];
    daemon.put(&[("host", "a")], &late);
    let expected = [
        (0, json!(1)),
        (1, json!(8.0)),
        (2, json!(8)),
        (10, json!(2)),
        (20, json!(3.0)),
        (30, json!(4)),
        (31, json!(4.0)),
        (32, json!(9.0)),
        (33, json!(9)),
        (40, json!(5)),
    ];
    for daemon in [daemon, open(&store)] {
        assert_eq!(dps(&daemon, "sum:m"), shown(&expected));
    }
}

/// Points as an aggregation of their series shows them: an integer before a float is one, too.
fn shown(points: &[(i64, Value)]) -> Vec<(i64, Value)> {
    let is_integer = |point: &(i64, Value)| point.1.is_i64();
    let mut shown = points.to_vec();
    for (i, (_, value)) in shown.iter_mut().enumerate() {
        let next = points.get(i + 1).is_none_or(is_integer);
        if !(next && is_integer(&points[i])) {
            *value = json!(points[i].1.as_f64().unwrap());
        }
    }
    shown
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => (-3i64..3).prop_map(|whole| json!(whole)),
        3 => (-3i64..3).prop_map(|whole| json!(whole as f64)),
        1 => (-3i64..3).prop_map(|whole| json!(whole as f64 + 0.5)),
        1 => prop::sample::select(vec![json!(BIG), json!(-BIG), json!(i64::MAX)]),
    ]
}

/// A host, a second and a number.
type Point = (bool, i64, Value);

/// Points in the order in which they come, in parts; after each the server is started again.
fn arrivals() -> impl Strategy<Value = Vec<Vec<Point>>> {
    let point = (any::<bool>(), 0i64..40, number());
    prop::collection::vec(prop::collection::vec(point, 1..20), 1..5)
}

proptest! {
    #[test]
    fn the_last_write_decides_value_and_form(arrivals in arrivals()) {
        let store = Arc::new(MemoryStore::default());
        let mut expected: BTreeMap<(bool, i64), Value> = BTreeMap::new();
        for part in &arrivals {
            let daemon = open(&store);
            for (host, second, value) in part {
                let host_name = if *host { "a" } else { "b" };
                daemon.put(&[("host", host_name)], &[(*second, value.clone())]);
                expected.insert((*host, *second), value.clone());
            }
        }
        let daemon = open(&store);
        for (host, m) in [(true, "sum:m{host=a}"), (false, "sum:m{host=b}")] {
            let of_host = expected.range((host, i64::MIN)..=(host, i64::MAX));
            let of_host = of_host.map(|((_, second), value)| (*second, value.clone()));
            let points: Vec<_> = of_host.collect();
            if points.is_empty() {
                continue;
            }
            prop_assert_eq!(dps(&daemon, m), shown(&points));
        }
    }
}
