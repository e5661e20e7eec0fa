//! Queries that are only read, and exemplars.

use serde_json::{Value, json};

use crate::payload::{Payload, Series, T0, series};
use crate::served::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_laid_out() {
    let served = TestServer::start(&[]).await;
    let path = "/api/v1/format_query";
    let query = [("query", "foo  /bar")];
    assert_eq!(served.read(path, &query).await.data(), json!("foo / bar"));
    let wrong = served.read(path, &[("query", "foo/")]).await;
    let message = wrong.error(400, "bad_data");
    let begin = "invalid parameter \"query\": 1:5: parse error: ";
    assert!(message.starts_with(begin), "{message}");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_shown_as_trees() {
    let served = TestServer::start(&[]).await;
    let path = "/api/v1/parse_query";
    let query = [("query", "sum by (job) (up{job!=\"a\"})")];
    let tree = served.read(path, &query).await.data();
    assert_eq!(tree["type"], "aggregation");
    assert_eq!(tree["op"], "sum");
    assert_eq!(tree["grouping"], json!(["job"]));
    assert_eq!(tree["expr"]["type"], "vectorSelector");
    let wrong = served.read(path, &[("query", "")]).await;
    wrong.error(400, "bad_data");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn exemplars_of_what_a_query_selects() {
    let served = TestServer::start(&[]).await;
    let with_exemplars = |name, host, exemplars: &[(i64, f64)]| Series {
        exemplars: exemplars.to_vec(),
        ..series(name, &[("host", host)], &[(T0, 1.0)])
    };
    let payload = Payload::v1(&[
        with_exemplars("requests_total", "a", &[(T0, 6.0), (T0 + 500, 7.5)]),
        with_exemplars("requests_total", "b", &[(T0 + 60_000, 8.0)]),
        with_exemplars("other", "a", &[(T0, 9.0)]),
    ]);
    assert_eq!(served.write(&payload).await.status, 204);
    let path = "/api/v1/query_exemplars";
    let query = ("query", "sum(rate(requests_total[5m]))");
    let exemplar =
        |value: &str, timestamp: f64| json!({"labels": {}, "value": value, "timestamp": timestamp});
    let labels = |host: &str| json!({"__name__": "requests_total", "host": host});
    let a = json!({
        "seriesLabels": labels("a"),
        "exemplars": [exemplar("6", 1_699_999_200.0), exemplar("7.5", 1_699_999_200.5)],
    });
    let b = json!({
        "seriesLabels": labels("b"),
        "exemplars": [exemplar("8", 1_699_999_260.0)],
    });
    for flushed in [false, true] {
        if flushed {
            served.request("POST", "/-/flush", &[], b"").await;
        }
        let all = served.read(path, &[query]).await.data();
        assert_eq!(normal(&all), json!([a, b]), "flushed: {flushed}");
    }
    let late = (T0 / 1000 + 10).to_string();
    let some = served.read(path, &[query, ("start", &late)]).await.data();
    assert_eq!(normal(&some), json!([b]));
    let early = served.read(path, &[query, ("end", &late)]).await.data();
    assert_eq!(normal(&early), json!([a]));
    let none = served.read(path, &[("query", "1 + 1")]).await.data();
    assert_eq!(none, json!([]));
    let wrong = [query, ("start", "2"), ("end", "1")];
    assert_eq!(
        served.read(path, &wrong).await.error(400, "bad_data"),
        "end timestamp must not be before start timestamp"
    );
    let wrong = served.read(path, &[("query", "sum(")]).await;
    wrong.error(400, "bad_data");
    served.stop().await.unwrap();
}

/// Numbers as floats, so that 1 and 1.0 compare.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| (key.clone(), normal(value)));
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}
