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
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    for key in ["revision", "branch", "buildUser", "buildDate", "goVersion"] {
        assert!(info[key].is_string(), "{key}");
    }
    let page = served.get("/", &[]).await;
    assert_eq!(page.status, 200);
    for route in icecore_server::ROUTES {
        assert!(page.text().contains(route.path), "{}", route.path);
    }
    served.stop().await.unwrap();
}
