//! Metrics by name, and which of them are asked for.

use serde_json::{Value, json};

use crate::payload::{Payload, T0, series};
use crate::served::TestServer;

const NAMES: &str = "/api/v1/status/metric_names";
const USAGE: &str = "/api/v1/status/query_usage";

/// The names of a list, in its order.
fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list");
    items
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect()
}

async fn with_metrics() -> TestServer {
    let served = TestServer::start(&[]).await;
    let exposition = format!(
        "# HELP http_requests_total Requests so far.\n# TYPE http_requests_total counter\n\
         http_requests_total{{code=\"200\"}} 1 {T0}\nhttp_requests_total{{code=\"500\"}} 1 {T0}\n\
         # TYPE up gauge\nup{{job=\"a\"}} 1 {T0}\nup{{job=\"b\"}} 1 {T0}\nup{{job=\"c\"}} 1 {T0}\n\
         HTTP_Open 7 {T0}\n"
    );
    let path = "/api/v1/import/prometheus";
    let answer = served
        .request("POST", path, &[], exposition.as_bytes())
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    served
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_found_by_words_and_sorted() {
    let served = with_metrics().await;
    let all = served.get(NAMES, &[]).await.data();
    assert_eq!(all["total"], 3);
    assert_eq!(names(&all), ["HTTP_Open", "http_requests_total", "up"]);
    let requests = &all["items"][1];
    assert_eq!(requests["series"], 2);
    assert_eq!(requests["queries"], 0);
    assert_eq!(requests["lastQueried"], Value::Null);
    for (params, expected) in [
        (
            &[("search", "http")][..],
            &["HTTP_Open", "http_requests_total"][..],
        ),
        (&[("search", "TOTAL http")], &["http_requests_total"]),
        (&[("search", "http up")], &[]),
        (
            &[("sort", "series")],
            &["up", "http_requests_total", "HTTP_Open"],
        ),
        (
            &[("sort", "series"), ("order", "asc"), ("limit", "2")],
            &["HTTP_Open", "http_requests_total"],
        ),
        (&[("order", "desc"), ("limit", "1")], &["up"]),
        (&[("limit", "1"), ("offset", "1")], &["http_requests_total"]),
        (&[("offset", "3")], &[]),
    ] {
        let found = served.get(NAMES, params).await.data();
        assert_eq!(names(&found), expected, "{params:?}");
    }
    for (name, value) in [
        ("limit", "0"),
        ("limit", "1001"),
        ("offset", "x"),
        ("sort", "color"),
        ("order", "up"),
        ("type", "thing"),
        ("queried", "often"),
    ] {
        let refused = served.get(NAMES, &[(name, value)]).await;
        assert!(refused.error(400, "bad_data").contains(name));
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_a_metric_is_shown() {
    let served = TestServer::start(&[]).await;
    let payload = Payload::v1(&[
        series("requests_total", &[], &[(T0, 1.0)]),
        series("latency_bucket", &[("le", "1")], &[(T0, 1.0)]),
        series("other", &[], &[(T0, 1.0)]),
    ]);
    let payload = payload
        .with_metadata("requests", 1, "How many.", "")
        .with_metadata("latency", 3, "How long.", "seconds");
    served.write(&payload).await;
    let all = served.get(NAMES, &[]).await.data();
    let said = |name: &str| {
        let items = all["items"].as_array().unwrap();
        let item = items.iter().find(|it| it["name"] == name).unwrap();
        json!([item["type"], item["help"], item["unit"]])
    };
    assert_eq!(said("requests_total"), json!(["counter", "How many.", ""]));
    assert_eq!(
        said("latency_bucket"),
        json!(["histogram", "How long.", "seconds"])
    );
    assert_eq!(said("other"), json!([null, null, null]));
    for (metric_type, expected) in [
        ("counter", &["requests_total"][..]),
        ("histogram", &["latency_bucket"]),
        ("unknown", &["other"]),
        ("gauge", &[]),
    ] {
        let found = served.get(NAMES, &[("type", metric_type)]).await.data();
        assert_eq!(names(&found), expected, "{metric_type}");
        assert_eq!(found["total"], expected.len());
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_the_store_alone_are_listed_too() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("storage.location", directory.path().to_str().unwrap())];
    let served = TestServer::start(&settings).await;
    served
        .write(&Payload::v1(&[series("old", &[], &[(T0, 1.0)])]))
        .await;
    // What is flushed at the end is not replayed.
    served.stop().await.unwrap();
    let served = TestServer::start(&settings).await;
    let found = served.get(NAMES, &[]).await.data();
    assert_eq!(names(&found), ["old"]);
    assert_eq!(found["items"][0]["series"], 0);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_counted_by_the_names_that_they_give() {
    let served = with_metrics().await;
    let none = served.get(USAGE, &[]).await.data();
    assert_eq!((&none["total"], &none["items"]), (&json!(0), &json!([])));
    let since = none["since"].as_i64().expect("a time");
    let query = async |text: &str| {
        let answer = served.get("/api/v1/query", &[("query", text)]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    query("up").await;
    query("sum(up) / count(up) + on() group_left() missing_name").await;
    query("{job=\"a\"}").await;
    let range = [
        ("query", "http_requests_total"),
        ("start", "1"),
        ("end", "2"),
        ("step", "1"),
    ];
    assert_eq!(served.get("/api/v1/query_range", &range).await.status, 200);
    // Looking at labels is no query.
    served
        .get("/api/v1/series", &[("match[]", "HTTP_Open")])
        .await;
    let used = served.get(USAGE, &[]).await.data();
    assert_eq!(used["total"], 3);
    let first = &used["items"][0];
    assert_eq!(
        (&first["name"], &first["queries"]),
        (&json!("up"), &json!(2))
    );
    assert!(first["lastQueried"].as_i64().unwrap() >= since);
    let least = served
        .get(USAGE, &[("order", "asc"), ("limit", "2")])
        .await
        .data();
    let mut least = names(&least);
    least.sort_unstable();
    assert_eq!(least, ["http_requests_total", "missing_name"]);
    let listed = served.get(NAMES, &[("sort", "queries")]).await.data();
    assert_eq!(names(&listed), ["up", "http_requests_total", "HTTP_Open"]);
    assert_eq!(listed["items"][0]["queries"], 2);
    let recent = served
        .get(NAMES, &[("sort", "last_queried"), ("order", "asc")])
        .await;
    assert_eq!(names(&recent.data())[0], "HTTP_Open");
    // A look that is not to count leaves a metric among those that nobody asks for.
    let look = [("query", "HTTP_Open"), ("count_usage", "false")];
    assert_eq!(served.get("/api/v1/query", &look).await.status, 200);
    let never = served.get(NAMES, &[("queried", "never")]).await.data();
    assert_eq!(
        (names(&never), &never["total"]),
        (vec!["HTTP_Open"], &json!(1))
    );
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_opentsdb_count_too() {
    let create = ("opentsdb.settings", "tsd.core.auto_create_metrics=true");
    let served = TestServer::start(&[create]).await;
    let point = br#"{"metric":"sys.cpu","timestamp":1700000000,"value":1,"tags":{"a":"b"}}"#;
    let put = served
        .request("POST", "/opentsdb/api/put", &[], point)
        .await;
    assert_eq!(put.status, 204, "{}", put.text());
    let params = [
        ("start", "1699999000"),
        ("end", "1700001000"),
        ("m", "sum:sys.cpu"),
    ];
    let answer = served.get("/opentsdb/api/query", &params).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let used = served.get(USAGE, &[]).await.data();
    assert_eq!(names(&used), ["sys.cpu"]);
    served.stop().await.unwrap();
}
