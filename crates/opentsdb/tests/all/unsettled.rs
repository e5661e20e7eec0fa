//! Names whose records were refused by the store, or came in another order than they were made:
//! whatever was acknowledged holds after everything was read again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::executor::block_on;
use http::{HeaderMap, Method};
use icecore_model::{CatalogChange, ManualClock};
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::{Config, Stores, Tsd};
use serde_json::{Value, json};

const NOW_MS: i64 = 1_700_000_000_000;

/// Where the catalog keeps names and former names of metrics.
const METRIC: u8 = 0x10;
const FORMER_METRIC: u8 = 0x13;

struct Server {
    store: Arc<MemoryStore>,
    tsd: Tsd,
}

impl Server {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::default());
        let tsd = open(&store.clone().all());
        Self { store, tsd }
    }

    /// Everything is read again, and no name has two ids.
    fn reopen(&mut self) {
        self.tsd = open(&self.store.clone().all());
        for kind in 0..3 {
            let mut ids: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            for (id, name) in self.records(METRIC + kind) {
                let text = String::from_utf8_lossy(&name).into_owned();
                assert_eq!(ids.insert(name, id), None, "{text} has two ids");
            }
        }
    }

    /// Records whose keys begin with a byte.
    fn records(&self, first: u8) -> Vec<(Vec<u8>, Vec<u8>)> {
        let stores = self.store.clone().all();
        block_on(stores.catalog.range(vec![first]..vec![first + 1], 1000)).unwrap()
    }

    /// Metrics as the catalog has them.
    fn metrics(&self) -> Vec<(u8, String)> {
        let metric = |(key, name): (Vec<u8>, Vec<u8>)| {
            let id = *key.last().unwrap();
            (id, String::from_utf8(name).unwrap())
        };
        self.records(METRIC).into_iter().map(metric).collect()
    }

    fn ask(&self, method: Method, target: &str, body: &Value) -> (u16, Value) {
        ask(&self.tsd, method, target, body)
    }

    fn get(&self, target: &str) -> Value {
        let (status, body) = self.ask(Method::GET, target, &Value::Null);
        assert_eq!(status, 200, "{target}: {body}");
        body
    }

    fn post(&self, target: &str, body: &Value) -> u16 {
        self.ask(Method::POST, target, body).0
    }

    fn put(&self, metric: &str, value: i64) -> u16 {
        self.post("/api/put", &point(metric, value))
    }

    /// The same while the store refuses appends.
    fn put_refused(&self, metric: &str, value: i64) {
        let status = self.refused(|| self.put(metric, value));
        assert_eq!(status, 503);
    }

    fn rename(&self, old: &str, new: &str) -> u16 {
        self.post("/api/uid/rename", &json!({"metric": old, "name": new}))
    }

    fn refused<T>(&self, request: impl FnOnce() -> T) -> T {
        self.store.refuse_appends(true);
        let answer = request();
        self.store.refuse_appends(false);
        answer
    }

    /// The last value of a metric and its TSUID.
    fn last(&self, metric: &str) -> (Value, Value) {
        let last = self.get(&format!("/api/query/last?timeseries={metric}&resolve"));
        assert_eq!(last[0]["metric"], metric, "{last}");
        (last[0]["value"].clone(), last[0]["tsuid"].clone())
    }
}

fn open(stores: &Stores) -> Tsd {
    let config = Config {
        auto_create_metrics: true,
        tsuid_tracking: true,
        ..Config::default()
    };
    let clock = Arc::new(ManualClock::at(NOW_MS));
    block_on(Tsd::open(config, stores.clone(), clock)).unwrap()
}

fn ask(tsd: &Tsd, method: Method, target: &str, body: &Value) -> (u16, Value) {
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

fn point(metric: &str, value: i64) -> Value {
    let timestamp = NOW_MS / 1000 - 60;
    json!({"metric": metric, "tags": {"host": "h"}, "timestamp": timestamp, "value": value})
}

#[test]
fn a_former_name_that_is_assigned_anew_stays_so_though_the_first_try_was_refused() {
    let mut server = Server::new();
    assert_eq!(server.put("a", 1), 204);
    assert_eq!(server.rename("a", "b"), 200);
    server.put_refused("a", 2);
    assert_eq!(server.put("a", 2), 204);
    server.reopen();
    assert_eq!(server.last("a"), ("2".into(), "000002000001000001".into()));
    assert_eq!(server.records(FORMER_METRIC), []);
}

#[test]
fn a_former_name_that_was_left_behind_is_deleted() {
    let mut server = Server::new();
    assert_eq!(server.put("b", 1), 204);
    assert_eq!(server.put("a", 2), 204);
    let left = CatalogChange {
        key: [&[FORMER_METRIC][..], b"a"].concat(),
        value: Some(1u64.to_be_bytes().to_vec()),
    };
    let stores = server.store.clone().all();
    let append = stores.points.append(Duration::ZERO, |sink| {
        sink.catalog(left);
        Ok::<(), ()>(())
    });
    let appended = block_on(append).unwrap();
    block_on(appended.commit).unwrap();
    server.reopen();
    assert_eq!(server.last("a"), ("2".into(), "000002000001000001".into()));
    assert_eq!(server.put("a", 3), 204);
    assert_eq!(server.records(FORMER_METRIC), []);
}

#[test]
fn a_renaming_that_was_refused_can_be_sent_again() {
    let mut server = Server::new();
    assert_eq!(server.put("a", 1), 204);
    assert_eq!(server.refused(|| server.rename("a", "b")), 503);
    assert_eq!(server.rename("a", "b"), 200);
    server.reopen();
    assert_eq!(server.metrics(), [(1, "b".into())]);
    assert_eq!(server.last("b"), ("1".into(), "000001000001000001".into()));
    // It is durable: now the name is unknown.
    assert_eq!(server.rename("a", "b"), 400);
}

#[test]
fn points_store_a_renaming_that_was_refused() {
    let mut server = Server::new();
    assert_eq!(server.put("a", 1), 204);
    assert_eq!(server.refused(|| server.rename("a", "b")), 503);
    assert_eq!(server.put("b", 2), 204);
    assert_eq!(server.put("a", 3), 204);
    server.reopen();
    assert_eq!(server.metrics(), [(1, "b".into()), (2, "a".into())]);
    assert_eq!(server.last("a").1, "000002000001000001");
    assert_eq!(server.last("b").1, "000001000001000001");
}

#[test]
fn whoever_takes_the_old_name_stores_a_renaming_that_was_refused() {
    let mut server = Server::new();
    assert_eq!(server.put("a", 1), 204);
    assert_eq!(server.refused(|| server.rename("a", "b")), 503);
    // The first of them is refused as well.
    server.put_refused("a", 3);
    assert_eq!(server.put("a", 3), 204);
    server.reopen();
    assert_eq!(server.metrics(), [(1, "b".into()), (2, "a".into())]);
}

#[test]
fn uids_are_durable_before_they_are_said_to_exist() {
    let mut server = Server::new();
    let assign = "/api/uid/assign?metric=a";
    let (status, _) = server.refused(|| server.ask(Method::GET, assign, &Value::Null));
    assert_eq!(status, 503);
    let (status, body) = server.ask(Method::GET, assign, &Value::Null);
    assert_eq!(status, 400);
    let exists = "Name already exists with UID: 000001";
    assert_eq!(body["metric_errors"]["a"], exists, "{body}");
    server.reopen();
    assert_eq!(server.metrics(), [(1, "a".into())]);
}

#[test]
fn meta_data_of_a_uid_is_stored_with_its_name() {
    let mut server = Server::new();
    let assign = "/api/uid/assign?metric=a";
    server.refused(|| server.ask(Method::GET, assign, &Value::Null));
    let meta = json!({"uid": "000001", "type": "metric", "displayName": "A"});
    assert_eq!(server.post("/api/uid/uidmeta", &meta), 200);
    server.reopen();
    let meta = server.get("/api/uid/uidmeta?uid=000001&type=metric");
    assert_eq!(meta["name"], "a");
}

#[test]
fn a_renaming_comes_behind_points_that_carry_the_old_name() {
    let mut server = Server::new();
    {
        let request = |target: &str, body: Value| {
            let body = body.to_string().into();
            Request::new(Method::POST, target, HeaderMap::new(), body)
        };
        let put = request("/api/put", point("a", 1));
        let rename = request("/api/uid/rename", json!({"metric": "a", "name": "b"}));
        server.store.hold_next();
        // It has read the name of the metric, and is not appended yet.
        let mut put = handle(&server.tsd, &put);
        assert!((&mut put).now_or_never().is_none());
        let mut rename = handle(&server.tsd, &rename);
        let renamed = (&mut rename).now_or_never();
        server.store.release();
        assert_eq!(block_on(put).status, 204);
        let renamed = renamed.unwrap_or_else(|| block_on(rename));
        assert_eq!(renamed.status, 200);
    }
    // A crash: what the store has is all there is.
    server.reopen();
    assert_eq!(server.metrics(), [(1, "b".into())]);
    assert_eq!(server.last("b"), ("1".into(), "000001000001000001".into()));
}
