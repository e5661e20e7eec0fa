//! From the first event to a PromQL graph, with one server.

use serde_json::json;

use super::{
    WINDOWS, check_sql, counted, events, flush, get, has_sql, id, now_ms, order, post, register,
    serve, time_text,
};
use crate::http::{Client, escape};
use crate::served::{PATIENCE, Workplace, check_is_clean};

const EVENTS: u64 = 20;
const HOUR_MS: i64 = 3_600_000;

#[test]
fn an_event_is_found_wherever_it_is_looked_for() {
    let workplace = Workplace::new();
    let mut served = serve(&workplace, &["--events.seal-interval", "1s"]);
    register(&workplace, &served);
    let mut client = served.client();
    // In one interval of 5 s that is over.
    let at_ms = now_ms() / 5_000 * 5_000 - 60_000;
    let first = post(&mut client, "/events/publish", &order(0, at_ms), 202);
    assert_eq!(first, json!({"status": "stored", "eventId": id(0)}));
    let again = post(&mut client, "/events/publish", &order(0, at_ms), 202);
    assert_eq!(again["status"], "duplicate");
    let batch: Vec<_> = (0..EVENTS).map(|number| order(number, at_ms)).collect();
    let outcome = post(&mut client, "/events/publish/batch", &json!(batch), 202);
    assert_eq!(outcome["received"], EVENTS);
    assert_eq!(outcome["stored"], EVENTS - 1);
    assert_eq!(outcome["duplicates"], 1);
    check_everywhere(&mut client, at_ms);
    flush(&mut client);
    check_everywhere(&mut client, at_ms);
    // The same by the command.
    let query = "SELECT count(*) AS n FROM events";
    if has_sql() {
        let printed = events(&served, &["sql", query, "--full-scan", "-o", "csv"]);
        assert_eq!(printed, format!("n\n{EVENTS}\n"));
    }
    let shown = events(&served, &["show", "shop"]);
    assert!(shown.contains("MetricHistogram"), "{shown}");
    assert!(events(&served, &["show"]).contains("order.placed"));
    assert!(events(&served, &["flush"]).starts_with("generation "));
    // And after an ordinary end.
    served.terminate();
    served.wait_exit(PATIENCE);
    check_is_clean(workplace.path("data"), &[]);
    let served = serve(&workplace, &[]);
    check_everywhere(&mut served.client(), at_ms);
}

fn check_everywhere(client: &mut Client, at_ms: i64) {
    let (start_ms, end_ms) = (at_ms - HOUR_MS, at_ms + 60_000);
    for window in WINDOWS {
        let (count, read) = counted(client, window, start_ms, end_ms);
        assert_eq!((count, read.as_str()), (20, window));
    }
    check_search(client, at_ms);
    check_sql(
        client,
        "SELECT outcome, count(*) AS n, count(DISTINCT event_id) AS ids FROM events GROUP BY outcome",
        &[json!({"outcome": "SUCCESS", "n": EVENTS, "ids": EVENTS})],
    );
    check_sql(
        client,
        r#"SELECT sum("attr.order.items") AS items FROM shop."order.placed" WHERE "attr.order.channel" = 'web'"#,
        &[json!({"items": (0..EVENTS).step_by(2).map(|n| n % 7).sum::<u64>()})],
    );
    check_promql(client, at_ms);
}

fn check_search(client: &mut Client, at_ms: i64) {
    let search = json!({
        "service": "shop", "event": "order.placed",
        "period": {"between": [time_text(at_ms - 1_000), time_text(at_ms + 5_000)]},
        "match": {"attribute": "order.channel", "op": "=", "value": "web"},
        "limit": 3, "includeTotal": true,
    });
    let answer = post(client, "/api/search/events", &search, 200);
    assert_eq!(
        (&answer["total"], &answer["count"]),
        (&json!(10), &json!(3))
    );
    let found = &answer["data"]["events"][0];
    assert_eq!(found["attributes"]["order"]["channel"], "web");
    assert_eq!(found["attributes"].get("customer"), None, "masked");
    let one = get(client, &format!("/api/events/shop/{}", id(7)), 200);
    assert_eq!(one["event_id"], id(7));
    assert_eq!(one["attributes"]["order"]["channel"], "app");
    get(client, &format!("/api/events/shop/{}", id(99)), 404);
}

fn check_promql(client: &mut Client, at_ms: i64) {
    // The end of the interval that has the events.
    let time = (at_ms + 30_000) / 1_000;
    for (query, expected) in [
        ("sum(orders_total)", "20"),
        (
            r#"orders_total{order_channel="web",service="shop",event_type="order.placed"}"#,
            "10",
        ),
        ("round(sum(increase(orders_total[1m])))", "20"),
        ("sum(sum_over_time(orders:5s[5m]))", "20"),
        ("sum(order_latency_ms_count)", "20"),
        (r#"sum(order_latency_ms_bucket{le="10"})"#, "11"),
        ("stock_level", "19"),
        (r#"events_stored_total{outcome="SUCCESS"}"#, "20"),
    ] {
        assert_eq!(value(client, query, time), expected, "{query}");
    }
    let values = get(client, "/api/v1/label/__name__/values", 200);
    let names = values["data"].as_array().expect("a list");
    for name in ["orders_total", "order_latency_ms_bucket", "stock_level"] {
        assert!(names.contains(&json!(name)), "{name}: {values}");
    }
    let series = get(client, "/api/v1/series?match[]=orders_total", 200);
    assert_eq!(series["data"].as_array().map(Vec::len), Some(2), "{series}");
    let metadata = get(client, "/api/v1/metadata?metric=orders_total", 200);
    assert_eq!(
        metadata["data"]["orders_total"][0]["type"], "counter",
        "{metadata}"
    );
}

fn value(client: &mut Client, query: &str, time: i64) -> String {
    let path = format!("/api/v1/query?query={}&time={time}", escape(query));
    let answer = get(client, &path, 200);
    match answer["data"]["result"].as_array().map(Vec::as_slice) {
        Some([one]) => one["value"][1].as_str().unwrap_or_default().to_owned(),
        _ => panic!("{query}: {answer}"),
    }
}
