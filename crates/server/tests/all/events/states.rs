//! States of objects, text queries and the second name of histogram queries, over HTTP.

use super::*;

const MORE: &str = r#"
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.updated }
spec: {}
---
apiVersion: obsinity/v1
kind: StateExtractors
metadata: { service: shop }
spec:
  stateExtractors:
    - { rawType: order.updated, objectType: Order, objectIdField: order.id, stateAttributes: [order.status] }
---
apiVersion: obsinity/v1
kind: MetricHistogram
metadata: { service: shop, event: order.placed, name: items }
spec:
  value: order.items
  buckets: { strategy: custom, bounds: [10, 20, 50] }
"#;

fn updated(number: u64, object: &str, status: &str) -> Value {
    let mut event = order(number);
    event["event"]["name"] = json!("order.updated");
    event["attributes"] = json!({"order": {"id": object, "status": status}});
    event
}

async fn with_states() -> TestServer {
    let served = with_documents(&[]).await;
    let path = "/api/admin/config/documents";
    let answer = served.request("POST", path, &[YAML], MORE.as_bytes()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    served
}

async fn asked(served: &TestServer, path: &str, document: &Value) -> Value {
    let answer = post(served, path, document).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn states_are_counted_and_their_changes_too() {
    let served = with_states().await;
    let changes = [(1, "a", "NEW"), (2, "b", "NEW"), (3, "a", "PAID")];
    for (number, object, status) in changes {
        let event = updated(number, object, status);
        let answer = post(&served, "/events/publish", &event).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }
    let about = json!({"serviceKey": "shop", "objectType": "Order", "attribute": "order.status"});
    // From memory, and from the store.
    for _ in 0..2 {
        let counts = asked(&served, "/api/query/state-counts", &about).await;
        let expected = json!([{"state": "NEW", "count": 1}, {"state": "PAID", "count": 1}]);
        assert_eq!(counts["data"]["states"], expected);
        let mut by_hour = about.clone();
        by_hour["interval"] = json!("1h");
        let changes = asked(&served, "/api/query/state-transitions", &by_hour).await;
        let intervals = changes["data"]["intervals"].as_array().unwrap();
        let all = intervals
            .iter()
            .flat_map(|interval| interval["transitions"].as_array().unwrap());
        let mut all: Vec<String> = all
            .filter(|change| change["count"] != 0)
            .map(|c| format!("{}-{}: {}", c["fromState"], c["toState"], c["count"]))
            .collect();
        all.sort();
        let expected = [r#""(none)"-"NEW": 2"#, r#""NEW"-"PAID": 1"#];
        assert_eq!(all, expected);
        let series = asked(&served, "/api/query/state-count-timeseries", &by_hour).await;
        assert!(
            series["data"]["intervals"][0]["states"].is_array(),
            "{series}"
        );
        let flushed = served.request("POST", "/api/admin/flush", &[], b"").await;
        assert_eq!(flushed.status, 200, "{}", flushed.text());
    }
    let mut unknown = about;
    unknown["objectType"] = json!("Cart");
    let answer = post(&served, "/api/query/state-counts", &unknown).await;
    problem(&answer, 404, "query.unknown-object-type");
    served.stop().await.unwrap();
}

/// The example of percentiles: ten values of 5 and ten of 15, within the bounds 10, 20 and 50.
#[tokio::test]
async fn histograms_have_two_names_and_text_queries_one() {
    let served = with_states().await;
    let events = (1..=20).map(|number| {
        let mut event = order(number);
        event["attributes"]["order"]["items"] = json!(if number <= 10 { 5 } else { 15 });
        event
    });
    let batch = Value::Array(events.collect());
    let answer = post(&served, "/events/publish/batch", &batch).await;
    assert_eq!(answer.json()["stored"], 20, "{}", answer.text());
    let about = json!({
        "serviceKey": "shop", "eventType": "order.placed", "histogramName": "items",
        "interval": "7d", "percentiles": [0.5, 0.75, 0.95],
    });
    let mut answers = Vec::new();
    for path in ["/api/query/histograms", "/api/histograms/query"] {
        let answer = asked(&served, path, &about).await;
        let intervals = answer["data"]["intervals"].as_array().unwrap().clone();
        let series = intervals.iter().map(|interval| &interval["series"][0]);
        let filled: Vec<Value> = series.filter(|s| s["samples"] != 0).cloned().collect();
        assert_eq!(filled.len(), 1, "{answer}");
        assert_eq!(filled[0]["samples"], 20);
        let percentiles = json!({"0.5": 10, "0.75": 15, "0.95": 19});
        assert_eq!(filled[0]["percentiles"], percentiles);
        answers.push(intervals);
    }
    assert_eq!(answers[0], answers[1]);
    let text =
        "service:\"shop\" event:\"order.placed\" where attr.order.items = 15 since -1h limit 4";
    let found = asked(&served, "/api/objql/query", &json!({"q": text})).await;
    assert_eq!(found.as_array().map(Vec::len), Some(4), "{found}");
    let answer = post(&served, "/api/objql/query", &json!({"q": "where"})).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    served.stop().await.unwrap();
}
