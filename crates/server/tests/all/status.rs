//! Status pages: shapes that Prometheus' clients know.

use serde_json::{Value, json};

use crate::payload::{Payload, T0, series};
use crate::served::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn tsdb_has_prometheus_shape() {
    let served = TestServer::start(&[]).await;
    let empty = served.read("/api/v1/status/tsdb", &[]).await.data();
    assert_eq!(empty["headStats"]["numSeries"], 0);
    assert_eq!(empty["headStats"]["minTime"], i64::MAX);
    assert_eq!(empty["headStats"]["maxTime"], i64::MIN);
    served
        .write(&Payload::v1(&[
            series("cpu", &[("host", "a")], &[(T0, 1.0)]),
            series("cpu", &[("host", "b")], &[(T0, 1.0)]),
            series("up", &[("host", "a")], &[(T0, 1.0)]),
        ]))
        .await;
    let data = served.read("/api/v1/status/tsdb", &[]).await.data();
    let head = &data["headStats"];
    assert_eq!(head["numSeries"], 3);
    assert_eq!(head["numLabelPairs"], 4);
    assert!(head["chunkCount"].is_u64());
    assert_eq!(head["minTime"], T0);
    assert_eq!(head["maxTime"], T0 + 3_600_000);
    let counts = |names: &[(&str, u64)]| -> Value {
        let list = names.iter().map(|(n, v)| json!({"name": n, "value": v}));
        list.collect()
    };
    let metrics = counts(&[("cpu", 2), ("up", 1)]);
    assert_eq!(data["seriesCountByMetricName"], metrics);
    let values = counts(&[("__name__", 2), ("host", 2)]);
    assert_eq!(data["labelValueCountByLabelName"], values);
    let pairs = counts(&[
        ("__name__=cpu", 2),
        ("host=a", 2),
        ("__name__=up", 1),
        ("host=b", 1),
    ]);
    assert_eq!(data["seriesCountByLabelValuePair"], pairs);
    assert_eq!(data["memoryInBytesByLabelName"][0]["name"], "__name__");
    let keys = data.as_object().unwrap().len();
    assert_eq!(keys, 5);

    let one = served
        .read("/api/v1/status/tsdb", &[("limit", "1")])
        .await
        .data();
    assert_eq!(one["seriesCountByMetricName"], counts(&[("cpu", 2)]));
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tsdb_can_be_narrowed() {
    let served = TestServer::start(&[]).await;
    served
        .write(&Payload::v1(&[
            series("cpu", &[("host", "a")], &[(T0, 1.0)]),
            series("cpu", &[("host", "b")], &[(T0, 1.0)]),
            series("up", &[("host", "a")], &[(T0 - 7_200_000, 1.0)]),
        ]))
        .await;
    // Also what the head has handed to the store already.
    served.request("POST", "/-/flush", &[], b"").await;
    let path = "/api/v1/status/tsdb";
    let of_a = served
        .read(path, &[("match[]", "{host=\"a\"}")])
        .await
        .data();
    assert_eq!(of_a["headStats"]["numSeries"], 2);
    assert_eq!(
        of_a["labelValueCountByLabelName"][0],
        json!({"name": "__name__", "value": 2})
    );
    let recent = (T0 / 1000).to_string();
    let recent = served.read(path, &[("start", &recent)]).await.data();
    assert_eq!(recent["headStats"]["numSeries"], 2);
    for (limit, message) in [
        ("0", "limit must be a positive number"),
        ("-3", "limit must be a positive number"),
        ("x", "limit must be a positive number"),
        ("10001", "limit must not exceed 10000"),
    ] {
        let answer = served.read(path, &[("limit", limit)]).await;
        assert_eq!(answer.error(400, "bad_data"), message);
    }
    assert_eq!(served.get(path, &[("limit", "10000")]).await.status, 200);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn build_info_and_index() {
    let served = TestServer::start(&[]).await;
    let info = served.get("/api/v1/status/buildinfo", &[]).await.data();
    let revision = concat!("icecore-", env!("CARGO_PKG_VERSION"));
    // Prometheus' schema is closed, and clients choose by the version what they ask for.
    let expected = json!({
        "version": "3.15.0",
        "revision": revision,
        "branch": "",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    });
    assert_eq!(info, expected);
    // Below Mimir's prefix, Mimir's keys.
    let path = "/prometheus/api/v1/status/buildinfo";
    let mimir = served.get(path, &[]).await.data();
    assert_eq!(mimir["version"], "3.15.0");
    assert_eq!(mimir["application"], "Icecore");
    let features = mimir["features"].as_object().unwrap();
    assert!(features.values().all(|value| value == "false"), "{mimir}");
    assert!(features.contains_key("ruler_config_api"), "{mimir}");
    let page = served.get("/", &[]).await;
    assert_eq!(page.status, 200);
    for route in icecore_server::ROUTES {
        assert!(page.text().contains(route.path), "{}", route.path);
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn features_are_those_in_use() {
    let served =
        TestServer::start(&[("opentsdb.settings", "tsd.core.auto_create_metrics=true")]).await;
    let features = async || served.get("/api/v1/status/features", &[]).await.data();
    let unused = json!({
        "data": false,
        "scrape": false,
        "opentsdb": false,
        "events": false,
        "sql": cfg!(feature = "sql"),
    });
    assert_eq!(features().await, unused);
    let up = Payload::v1(&[series("up", &[], &[(T0, 1.0)])]);
    served.write(&up).await;
    assert_eq!(features().await["data"], true);
    served.request("POST", "/-/flush", &[], b"").await;
    assert_eq!(features().await["data"], true);
    assert_eq!(features().await["opentsdb"], false);
    let point = br#"{"metric":"m","timestamp":1700000000,"value":1,"tags":{"a":"b"}}"#;
    let put = served
        .request("POST", "/opentsdb/api/put", &[], point)
        .await;
    assert_eq!(put.status, 204, "{}", put.text());
    assert_eq!(features().await["opentsdb"], true);
    assert_eq!(features().await["events"], false);
    let access = served.get("/api/v1/status/access", &[]).await.data();
    let open = json!({
        "required": false,
        "authenticated": false,
        "user": null,
        "roles": ["read", "write", "admin"],
        "schemes": [],
    });
    assert_eq!(access, open);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_and_a_job_are_features() {
    let settings = [("opentsdb.listen", "127.0.0.1:0"), ("scrape.self", "true")];
    let served = TestServer::start(&settings).await;
    let features = served.get("/api/v1/status/features", &[]).await.data();
    assert_eq!(features["opentsdb"], true);
    assert_eq!(features["scrape"], true);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_are_on_a_line_of_time() {
    let served = TestServer::start(&[]).await;
    let status = async || served.get("/api/v1/status/buckets", &[]).await.data();
    let nothing = json!({
        "minTime": null, "maxTime": null, "series": 0, "samples": null, "bytes": 0,
    });
    assert_eq!(status().await, json!({"buckets": [], "head": nothing}));
    let hour_ms = 3_600_000;
    served
        .write(&Payload::v1(&[
            series("cpu", &[("host", "a")], &[(T0, 1.0), (T0 + 1000, 2.0)]),
            series("cpu", &[("host", "b")], &[(T0 + hour_ms, 1.0)]),
        ]))
        .await;
    let head = &status().await["head"];
    assert_eq!(head["series"], 2);
    assert_eq!(head["minTime"], T0 / 1000);
    assert_eq!(head["maxTime"], (T0 + 2 * hour_ms) / 1000);
    served.request("POST", "/-/flush", &[], b"").await;
    let stored = status().await;
    // What is that old goes into one large bucket at once.
    let [bucket] = &stored["buckets"].as_array().unwrap()[..] else {
        panic!("{stored}");
    };
    let hours = bucket["hours"].as_i64().unwrap();
    let start = bucket["start"].as_i64().unwrap();
    assert!(hours > 1, "{bucket}");
    assert!(
        (start..start + hours * 3600).contains(&(T0 / 1000)),
        "{bucket}"
    );
    assert_eq!(bucket["resolution"], "raw");
    assert_eq!(bucket["state"], "live");
    assert_eq!(bucket["series"], 2);
    assert_eq!(bucket["samples"], 3);
    assert!(bucket["bytes"].is_u64(), "{bucket}");
    assert_eq!(stored["head"]["minTime"], Value::Null);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tsdb_looks_at_one_label() {
    let served = TestServer::start(&[]).await;
    served
        .write(&Payload::v1(&[
            series("cpu", &[("host", "a"), ("mode", "idle")], &[(T0, 1.0)]),
            series("cpu", &[("host", "b"), ("mode", "idle")], &[(T0, 1.0)]),
            series("up", &[("host", "a")], &[(T0, 1.0)]),
            series("one", &[], &[(T0, 1.0)]),
        ]))
        .await;
    let path = "/api/v1/status/tsdb";
    let counts = |names: &[(&str, u64)]| -> Value {
        let list = names.iter().map(|(n, v)| json!({"name": n, "value": v}));
        list.collect()
    };
    let start = (T0 / 1000).to_string();
    // From the index of the head, and from the labels of series.
    for narrowed in [None, Some(("start", start.as_str()))] {
        let ask = async |focus| {
            let params: Vec<_> = narrowed
                .into_iter()
                .chain([("focusLabel", focus)])
                .collect();
            served.read(path, &params).await.data()
        };
        let by_host = ask("host").await;
        let values = counts(&[("a", 2), ("b", 1)]);
        assert_eq!(by_host["seriesCountByFocusLabelValue"], values);
        let metrics = counts(&[("cpu", 2), ("up", 1)]);
        assert_eq!(by_host["metricsByFocusLabel"], metrics);
        let by_mode = ask("mode").await;
        assert_eq!(by_mode["metricsByFocusLabel"], counts(&[("cpu", 2)]));
        let by_none = ask("none").await;
        assert_eq!(by_none["seriesCountByFocusLabelValue"], json!([]));
        assert_eq!(by_none["metricsByFocusLabel"], json!([]));
    }
    let plain = served.read(path, &[]).await.data();
    assert!(plain.get("metricsByFocusLabel").is_none());
    served.stop().await.unwrap();
}
