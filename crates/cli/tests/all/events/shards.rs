//! Two processes, each with its own prefix of one bucket: whichever is asked answers for both.

use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{
    JSON, WINDOWS, check_sql, counted, flush, get, id, now_ms, order, path_text, post, register,
    time_text,
};
use crate::http::Client;
use crate::served::{PATIENCE, Serve, TestServer, Workplace, check_is_clean};

/// How old may be what is read of another instance, so that little has to be waited for.
const AGE_MAX: &str = "100ms";

/// The bucket: a directory with a prefix for each instance.
fn prefix(workplace: &Workplace, name: &str) -> std::path::PathBuf {
    let bucket = workplace.path("bucket");
    std::fs::create_dir_all(&bucket).expect("a directory can be made");
    bucket.join(name)
}

fn serve(workplace: &Workplace, own: &str, other: &str) -> TestServer {
    let other = prefix(workplace, other);
    Serve::new(
        prefix(workplace, own),
        workplace.path(&format!("log-{own}")),
    )
    .flags(["--events.shards", path_text(&other)])
    .flags(["--events.shard-age-max", AGE_MAX])
    .start()
}

fn publish(client: &mut Client, numbers: impl Iterator<Item = u64>, at_ms: i64) -> Json {
    let events: Vec<Json> = numbers.map(|number| order(number, at_ms)).collect();
    post(client, "/events/publish/batch", &json!(events), 202)
}

/// The ids of all events of a period, newest first.
fn found(client: &mut Client, from_ms: i64, to_ms: i64) -> Vec<String> {
    let question = json!({
        "service": "shop", "event": "order.placed", "limit": 1000, "includeTotal": true,
        "period": {"between": [time_text(from_ms), time_text(to_ms)]},
    });
    let answer = post(client, "/api/search/events", &question, 200);
    let events = answer["data"]["events"].as_array().expect("events");
    assert_eq!(answer["total"], events.len());
    let id = |event: &Json| event["event_id"].as_str().expect("an id").to_owned();
    events.iter().map(id).collect()
}

fn promql(client: &mut Client, query: &str) -> String {
    let query = query.replace('(', "%28").replace(')', "%29");
    let answer = get(client, &format!("/api/v1/query?query={query}"), 200);
    let value = answer["data"]["result"][0]["value"][1].as_str();
    value.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn two_processes_answer_for_each_other() {
    let workplace = Workplace::new();
    let mut a = serve(&workplace, "a", "b");
    let mut b = serve(&workplace, "b", "a");
    // The other has registered something before, so that numbers are not the same.
    let document = "apiVersion: obsinity/v1\nkind: Event\nmetadata: {service: bank, name: paid}\n\
                    spec: {}\n";
    let yaml = [("Content-Type", "application/yaml")];
    let mut client_b = b.client();
    let registered = client_b.post("/api/admin/config/documents", &yaml, document.as_bytes());
    assert_eq!(registered.expect("an answer").status, 200);
    register(&workplace, &a);
    register(&workplace, &b);
    let mut client_a = a.client();
    let began_ms = now_ms() - 30_000;
    let (from_ms, to_ms) = (began_ms - 60_000, began_ms + 600_000);

    // Routed by what a resend has, too.
    publish(
        &mut client_a,
        (0..60).filter(|number| number % 3 == 0),
        began_ms,
    );
    publish(
        &mut client_b,
        (0..60).filter(|number| number % 3 != 0),
        began_ms,
    );
    flush(&mut client_a);
    flush(&mut client_b);
    for (client, served) in [(&mut client_a, &a), (&mut client_b, &b)] {
        served.wait_until("both are seen", || {
            counted(client, "1h", from_ms, to_ms).0 == 60
        });
        for window in WINDOWS {
            assert_eq!(counted(client, window, from_ms, to_ms).0, 60, "{window}");
        }
        let mut ids = found(client, from_ms, to_ms);
        ids.sort();
        assert_eq!(ids, (0..60).map(id).collect::<Vec<_>>());
        let sixty = [json!({"n": 60})];
        let events = "SELECT count(*) AS n FROM shop.\"order.placed\"";
        check_sql(client, events, &sixty);
        let cells = "SELECT sum(count) AS n FROM rollup_1h WHERE metric = 'orders'";
        check_sql(client, cells, &sixty);
        assert_eq!(promql(client, "sum(orders_total)"), "60");
        assert_eq!(promql(client, "sum(order_latency_ms_count)"), "60");
        for number in [0, 1] {
            let event = get(client, &format!("/api/events/shop/{}", id(number)), 200);
            assert_eq!(event["event_id"], id(number));
        }
        let types = get(client, "/api/catalog/event-type", 200);
        assert_eq!(types["count"], 2);
        let values = "/api/catalog/attributes/shop/order.channel/values";
        assert_eq!(get(client, values, 200)["values"][0]["seenCount"], 30);
    }

    // A flush that comes by itself is seen, too.
    for round in 0..3u64 {
        // At other moments between two flushes.
        thread::sleep(Duration::from_millis(700 * round));
        let expected = 61 + i64::try_from(round).expect("small");
        publish(&mut client_b, [60 + round].into_iter(), began_ms);
        a.wait_until("what comes later is seen", || {
            counted(&mut client_a, "1h", from_ms, to_ms).0 == expected
                && found(&mut client_a, from_ms, to_ms).contains(&id(60 + round))
        });
    }

    // An instance that is gone is still read; another one takes its shard over.
    b.kill();
    assert_eq!(counted(&mut client_a, "1m", from_ms, to_ms).0, 63);
    let b = serve(&workplace, "b", "a");
    let again = publish(&mut b.client(), [1].into_iter(), began_ms);
    assert_eq!(again["duplicates"], 1, "a resend that reaches its shard");
    drop(b);

    // A shard that is not there fails the question, with its name.
    let (there, away) = (prefix(&workplace, "b"), prefix(&workplace, "away"));
    std::fs::rename(&there, &away).expect("it can be moved");
    refused(&a, &there);
    std::fs::rename(&away, &there).expect("it can be moved");
    assert_eq!(counted(&mut client_a, "1m", from_ms, to_ms).0, 64);
    a.terminate();
    a.wait_exit(PATIENCE);
    check_is_clean(prefix(&workplace, "a"), &[]);
    check_is_clean(there, &[]);
}

fn refused(served: &TestServer, shard: &Path) {
    let question = json!({
        "serviceKey": "shop", "eventType": "order.placed", "counterName": "orders",
        "interval": "1m",
    });
    let client = &mut served.client();
    let body = question.to_string();
    // Not before what was read of it is too old.
    served.wait_until("it is missed", || {
        let answer = client.post("/api/query/counters", &[JSON], body.as_bytes());
        answer.expect("an answer").status != 200
    });
    let problem = post(client, "/api/query/counters", &question, 503);
    assert_eq!(problem["code"], "query.shard-unavailable");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains(path_text(shard)), "{detail}");
    let response = client.get("/api/v1/query?query=orders_total");
    assert_eq!(response.expect("an answer").status, 503);
    // What is published has nothing to do with others.
    let event = order(63, now_ms());
    let published = client.post("/events/publish", &[JSON], event.to_string().as_bytes());
    assert_eq!(published.expect("an answer").status, 202);
}

#[test]
fn a_process_is_not_its_own_shard() {
    let workplace = Workplace::new();
    let own = prefix(&workplace, "a");
    let mut served = Serve::new(&own, workplace.path("log"))
        .flags(["--events.shards", path_text(&own)])
        .spawn();
    let status = served.wait_exit(PATIENCE);
    assert!(!status.success());
    assert!(
        served.log().contains("another instance"),
        "{}",
        served.log()
    );
}
