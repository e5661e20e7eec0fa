//! What lives in the catalog, through requests: names, meta data, annotations, trees.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use http::{HeaderMap, Method};
use icecore_model::{CatalogChange, ManualClock, RawLabels, Sample, push_raw_label};
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::{Config, Stores, Tsd};
use serde_json::{Value, json};

const NOW_MS: i64 = 1_700_000_000_000;

fn open(stores: &Stores) -> Tsd {
    let config = Config {
        auto_create_metrics: true,
        realtime_uid: true,
        realtime_ts: true,
        tsuid_tracking: true,
        tree_processing: true,
        ..Config::default()
    };
    let clock = Arc::new(ManualClock::at(NOW_MS));
    block_on(Tsd::open(config, stores.clone(), clock)).unwrap()
}

/// Status and body; `null` where there is none.
fn ask(tsd: &Tsd, method: Method, target: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = Request::new(method, target, HeaderMap::new(), body.into());
    let response = block_on(handle(tsd, &request));
    let body = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
    (response.status.as_u16(), body)
}

fn get(tsd: &Tsd, target: &str) -> Value {
    let (status, body) = ask(tsd, Method::GET, target, Value::Null);
    assert_eq!(status, 200, "{target}: {body}");
    body
}

fn post(tsd: &Tsd, target: &str, body: Value) -> Value {
    let (status, body) = ask(tsd, Method::POST, target, body);
    assert!(status < 300, "{target}: {status} {body}");
    body
}

fn put_point(tsd: &Tsd, metric: &str, tags: Value, timestamp: i64, value: i64) {
    let point = json!({"metric": metric, "tags": tags, "timestamp": timestamp, "value": value});
    post(tsd, "/api/put", point);
}

#[test]
fn what_was_written_before_a_renaming_is_found_under_the_new_names() {
    let stores = MemoryStore::stores();
    let tsd = open(&stores);
    put_point(&tsd, "old", json!({"host": "a"}), NOW_MS / 1000 - 7200, 1);
    put_point(&tsd, "other", json!({"host": "a"}), NOW_MS / 1000 - 7200, 7);
    for (kind, old, new) in [
        ("metric", "old", "new"),
        ("tagk", "host", "node"),
        ("tagv", "a", "b"),
    ] {
        let renamed = post(&tsd, "/api/uid/rename", json!({kind: old, "name": new}));
        assert_eq!(renamed, json!({"result": "true"}));
    }
    put_point(&tsd, "new", json!({"node": "b"}), NOW_MS / 1000 - 60, 2);
    // The same when everything is read again.
    for tsd in [&tsd, &open(&stores)] {
        let found = get(tsd, "/api/search/lookup?m=new%7Bnode=b%7D");
        let series =
            json!([{"tsuid": "000001000001000001", "metric": "new", "tags": {"node": "b"}}]);
        assert_eq!(found["results"], series);
        let found = get(tsd, "/api/search/lookup?m=%7Bnode=%2A%7D");
        assert_eq!(found["totalResults"], 2, "{found}");
        let last = get(tsd, "/api/query/last?timeseries=new&resolve");
        assert_eq!(last[0]["value"], "2");
        assert_eq!(last[0]["tags"], json!({"node": "b"}));
        let meta = get(tsd, "/api/uid/tsmeta?tsuid=000001000001000001");
        assert_eq!(meta["totalDatapoints"], 2);
        assert_eq!(meta["lastReceived"], NOW_MS / 1000 - 60);
        assert_eq!(meta["metric"]["name"], "new");
        let (status, _) = ask(tsd, Method::GET, "/api/search/lookup?m=old", Value::Null);
        assert_eq!(status, 404);
    }
}

#[test]
fn series_of_prometheus_are_shown_without_uids() {
    let stores = MemoryStore::stores();
    let tsd = open(&stores);
    put_point(&tsd, "m", json!({"job": "x"}), NOW_MS / 1000, 1);
    let append = stores.points.append(Duration::ZERO, |sink| {
        let mut labels = Vec::new();
        for (name, value) in [("__name__", "up"), ("job", "node"), ("instance", "h-9100")] {
            push_raw_label(&mut labels, name, value);
        }
        sink.series(RawLabels(&labels));
        sink.sample(Sample {
            timestamp_ms: NOW_MS - 1000,
            value: 1.5,
            start_timestamp_ms: 0,
        });
        Ok::<(), ()>(())
    });
    let _ = block_on(append).unwrap();
    let records = || block_on(stores.catalog.range(vec![0]..vec![0xFF], 10_000)).unwrap();
    let before = records();
    let suggested = get(&tsd, "/api/suggest?type=metrics");
    assert_eq!(suggested, json!(["m", "up"]));
    let tags = json!({"job": "node", "instance": "h-9100"});
    let (start, end) = (NOW_MS / 1000 - 60, NOW_MS / 1000 + 60);
    let looked_at = || {
        let last = get(&tsd, "/api/query/last?timeseries=up%7Bjob=node%7D&resolve");
        assert_eq!(
            (&last[0]["value"], &last[0]["tags"]),
            (&json!("1.5"), &tags)
        );
        // Those that have a UID come first.
        let found = get(&tsd, "/api/search/lookup?m=%2A");
        assert_eq!(found["results"][0]["tsuid"], "000001000001000001");
        let found = get(&tsd, "/api/search/lookup?m=up");
        assert_eq!(found["totalResults"], 1);
        assert_eq!(found["results"][0]["tags"], tags);
        let query = format!("/api/query?start={start}&end={end}&m=sum:up&show_tsuids");
        let shown = get(&tsd, &query);
        (
            last[0]["tsuid"].clone(),
            found["results"][0]["tsuid"].clone(),
            shown[0]["tsuids"].clone(),
        )
    };
    assert_eq!(looked_at(), (Value::Null, Value::Null, json!([])));
    // Looking at series stores nothing, and assigns nothing in memory either.
    assert_eq!(records(), before);
    put_point(&tsd, "other", json!({"job": "x"}), NOW_MS / 1000, 1);
    let meta = get(&tsd, "/api/uid/uidmeta?uid=000002&type=metric");
    assert_eq!(meta["name"], "other");
    // Who may write can give UIDs to names.
    let names = json!({"metric": ["up"], "tagk": ["instance"], "tagv": ["node", "h-9100"]});
    post(&tsd, "/api/uid/assign", names);
    let (last, found, shown) = looked_at();
    assert_eq!((&last, &shown), (&found, &json!([found])));
    let tsuid = last.as_str().expect("the names have UIDs");
    assert!(tsuid.starts_with("000003"), "{tsuid}");
}

fn grown_tree(tsd: &Tsd) {
    let tree = json!({"name": "t", "enabled": true, "storeFailures": true});
    post(tsd, "/api/tree", tree);
    let rules = json!([
        {"treeId": 1, "level": 0, "order": 0, "type": "METRIC", "separator": "\\."},
        {"treeId": 1, "level": 1, "order": 0, "type": "TAGK", "field": "host"},
    ]);
    post(tsd, "/api/tree/rules", rules);
    put_point(tsd, "sys.cpu", json!({"host": "a"}), NOW_MS / 1000, 1);
}

#[test]
fn trees_and_what_they_have_grown_are_read_again() {
    let stores = MemoryStore::stores();
    let tsd = open(&stores);
    grown_tree(&tsd);
    let branch = "/api/tree/branch?branch=00010001BECD000181A8";
    for tsd in [&tsd, &open(&stores)] {
        let leaves = json!([{"metric": "sys.cpu", "tags": {"host": "a"},
            "tsuid": "000001000001000001", "displayName": "a"}]);
        assert_eq!(get(tsd, branch)["leaves"], leaves);
        assert_eq!(
            get(tsd, "/api/tree?treeid=1")["rules"]["1"]["0"]["field"],
            "host"
        );
    }
    // A series that would be the same leaf.
    put_point(
        &tsd,
        "sys.cpu",
        json!({"host": "a", "dc": "x"}),
        NOW_MS / 1000,
        1,
    );
    let collisions = json!({"000001000001000001000002000002": "000001000001000001"});
    assert_eq!(get(&tsd, "/api/tree/collisions?treeid=1"), collisions);
    let (status, _) = ask(&tsd, Method::DELETE, "/api/tree?treeid=1", Value::Null);
    assert_eq!(status, 204);
    assert_eq!(get(&tsd, "/api/tree/collisions?treeid=1"), json!({}));
    let (status, _) = ask(&tsd, Method::GET, branch, Value::Null);
    assert_eq!(status, 404);
    put_point(&tsd, "sys.cpu", json!({"host": "b"}), NOW_MS / 1000, 1);
    assert_eq!(get(&tsd, branch)["leaves"][0]["displayName"], "b");
    let root = get(&tsd, "/api/tree/branch?treeid=1");
    assert_eq!(root["branches"][0]["branchId"], "00010001BECD");
}

#[test]
fn rules_are_changed_one_by_one_and_together() {
    let tsd = open(&MemoryStore::stores());
    grown_tree(&tsd);
    let rule = "/api/tree/rule?treeid=1&level=1&order=0";
    assert_eq!(get(&tsd, rule)["type"], "TAGK");
    let edited = json!({"treeId": 1, "level": 1, "order": 0, "description": "d"});
    let edited = post(&tsd, "/api/tree/rule", edited);
    assert_eq!(
        (&edited["field"], &edited["description"]),
        (&json!("host"), &json!("d"))
    );
    let place = json!({"treeId": 1, "level": 1, "order": 0});
    let (status, _) = ask(&tsd, Method::POST, "/api/tree/rule", place.clone());
    assert_eq!(status, 304);
    let incomplete = json!({"treeId": 1, "level": 1, "order": 0, "type": "tagk"});
    let (status, error) = ask(&tsd, Method::PUT, "/api/tree/rule", incomplete);
    assert_eq!(status, 400);
    assert_eq!(
        error["error"]["message"],
        "Missing field name required for TAGK rule"
    );
    let (status, error) = ask(&tsd, Method::POST, "/api/tree/rules", json!([]));
    assert_eq!(
        (status, &error["error"]["message"]),
        (400, &json!("Missing tree rules"))
    );
    let of_two = json!([{"treeId": 1, "type": "METRIC"}, {"treeId": 2, "type": "METRIC"}]);
    let (status, error) = ask(&tsd, Method::POST, "/api/tree/rules", of_two);
    let message = json!("All rules must belong to the same tree");
    assert_eq!((status, &error["error"]["message"]), (400, &message));
    let (status, _) = ask(&tsd, Method::GET, "/api/tree/rules?treeid=1", Value::Null);
    assert_eq!(status, 400);
    let (status, _) = ask(&tsd, Method::DELETE, "/api/tree/rule", place);
    assert_eq!(status, 204);
    let (status, _) = ask(&tsd, Method::GET, rule, Value::Null);
    assert_eq!(status, 404);
    let all = json!([{"treeId": 1, "level": 5, "order": 2, "type": "METRIC"}]);
    let (status, _) = ask(&tsd, Method::PUT, "/api/tree/rules", all);
    assert_eq!(status, 204);
    let rules = get(&tsd, "/api/tree?treeid=1")["rules"].clone();
    assert_eq!(rules.as_object().unwrap().keys().collect::<Vec<_>>(), ["5"]);
    let (status, _) = ask(
        &tsd,
        Method::DELETE,
        "/api/tree/rules?treeid=1",
        Value::Null,
    );
    assert_eq!(status, 204);
    assert_eq!(get(&tsd, "/api/tree?treeid=1")["rules"], Value::Null);
}

#[test]
fn rules_that_do_not_exist_are_named() {
    let tsd = open(&MemoryStore::stores());
    post(&tsd, "/api/tree", json!({"name": "t"}));
    let message = |method: Method, target: &str, body: Value| {
        let (status, error) = ask(&tsd, method, target, body);
        let message = error["error"]["message"].as_str().unwrap_or_default();
        (status, message.to_owned())
    };
    let place = json!({"treeId": 1, "level": 9, "order": 0});
    let untyped = (400, "Missing rule type".to_owned());
    for method in [Method::POST, Method::PUT] {
        let found = message(method.clone(), "/api/tree/rule", place.clone());
        assert_eq!(found, untyped, "{method}");
        // A request that says nothing of the rule changes nothing.
        let nothing = json!({"treeId": 1, "level": 0, "order": 0});
        assert_eq!(message(method, "/api/tree/rule", nothing).0, 304);
    }
    let many = json!([{"treeId": 1, "level": 9}]);
    assert_eq!(message(Method::POST, "/api/tree/rules", many), untyped);
    for (kind, shown) in [("", "null"), ("&type=tagk", "TAGK")] {
        let target = format!("/api/tree/rule?treeid=1&level=9&order=0{kind}");
        let missing = (404, format!("Unable to locate rule: [1:9:0:{shown}]"));
        for method in [Method::GET, Method::DELETE] {
            let found = message(method.clone(), &target, Value::Null);
            assert_eq!(found, missing, "{method}");
        }
    }
    let unknown = "/api/tree/rule?treeid=1&level=9&order=0&type=x";
    let unparsable = (400, "Unable to parse the 'type' parameter".to_owned());
    assert_eq!(message(Method::GET, unknown, Value::Null), unparsable);
    let empty = "Don't pass an empty list of qualifiers, this would delete the entire row of \
                 table=\"tsdb-tree\" at key [0, 1]";
    let empty = (400, empty.to_owned());
    let all = json!([{"treeId": 1, "type": "METRIC"}]);
    let rules = "/api/tree/rules?treeid=1";
    assert_eq!(message(Method::PUT, rules, all.clone()), empty);
    assert_eq!(message(Method::DELETE, rules, Value::Null), empty);
    // What is as it was before is not stored again.
    assert_eq!(message(Method::POST, rules, all.clone()).0, 204);
    let same = all[0].clone();
    assert_eq!(message(Method::POST, "/api/tree/rule", same.clone()).0, 304);
    assert_eq!(message(Method::PUT, "/api/tree/rule", same).0, 200);
    assert_eq!(message(Method::PUT, rules, all).0, 204);
    assert_eq!(message(Method::DELETE, rules, Value::Null).0, 204);
}

#[test]
fn new_names_and_series_get_meta_data_once() {
    let stores = MemoryStore::stores();
    let tsd = open(&stores);
    put_point(&tsd, "m", json!({"host": "a"}), NOW_MS / 1000 - 60, 1);
    let edit = json!({"tsuid": "000001000001000001", "units": "%", "max": 100});
    post(&tsd, "/api/uid/tsmeta", edit);
    let named = json!({"uid": "000001", "type": "TAGV", "displayName": "A"});
    post(&tsd, "/api/uid/uidmeta", named);
    let tsd = open(&stores);
    put_point(&tsd, "m", json!({"host": "a"}), NOW_MS / 1000, 1);
    let meta = get(&tsd, "/api/uid/tsmeta?tsuid=000001000001000001");
    assert_eq!(meta["created"], NOW_MS / 1000);
    assert_eq!((&meta["units"], &meta["max"]), (&json!("%"), &json!(100.0)));
    assert_eq!(meta["tags"][1]["displayName"], "A");
    assert_eq!(meta["tags"][1]["created"], NOW_MS / 1000);
    assert_eq!(meta["totalDatapoints"], 2);
}

#[test]
fn annotations_are_read_again() {
    let stores = MemoryStore::stores();
    let note = json!({"startTime": 1_570_000_200, "tsuid": "000001000001000001", "notes": "n"});
    post(&open(&stores), "/api/annotation", note);
    let tsd = open(&stores);
    let found = get(
        &tsd,
        "/api/annotation?start_time=1570000200&tsuid=000001000001000001",
    );
    assert_eq!(found["notes"], "n");
}

#[test]
fn records_that_cannot_be_read_are_errors() {
    let stores = MemoryStore::stores();
    post(&open(&stores), "/api/tree", json!({"name": "t"}));
    let note = json!({"startTime": 1_570_000_200, "notes": "n"});
    post(&open(&stores), "/api/annotation", note);
    let all = (vec![0], vec![u8::MAX]);
    let records = block_on(stores.catalog.range(all.0..all.1, usize::MAX)).unwrap();
    let damage = |of: fn(&[u8]) -> Vec<u8>, first: u8| {
        let (key, value) = records.iter().find(|(key, _)| key[0] == first).unwrap();
        let (key, value) = (key.clone(), Some(of(value)));
        let append = stores.points.append(Duration::ZERO, |sink| {
            sink.catalog(CatalogChange { key, value });
            Ok::<(), ()>(())
        });
        let _ = block_on(append).unwrap();
    };
    let cut = |value: &[u8]| value[..value.len() - 1].to_vec();
    damage(cut, 0x1B);
    let target = "/api/annotation?start_time=1570000200";
    let (status, error) = ask(&open(&stores), Method::GET, target, Value::Null);
    assert_eq!(status, 500);
    let message = error["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("an annotation in the catalog cannot be read"),
        "{message}"
    );
    damage(|value| [&[9], &value[1..]].concat(), 0x1C);
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let opened = block_on(Tsd::open(Config::default(), stores, clock));
    let message = opened.err().unwrap().to_string();
    assert!(
        message.starts_with("a tree in the catalog cannot be read"),
        "{message}"
    );
}
