use std::sync::Arc;

use icecore_model::event::{DimensionHash, EventId};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::testing::{JsonLines, MemoryRows};
use crate::{
    Attributes, Documents, EventKind, Registry, Scalar, StoredEvent, UpdateOptions, Value,
    event_id_text,
};

/// 2026-11-09T10:00:00Z.
const START_NS: i64 = 1_794_218_400_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;

/// An hour later.
const NOW_MS: i64 = 1_794_222_000_000;

const DOCUMENTS: &str = "
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.placed }
spec:
  retention: { ttl: 30d }
  schema:
    type: object
    properties:
      order:
        type: object
        properties:
          channel: { type: string, index: true }
          items: { type: integer, index: true }
          total: { type: number }
      customer: { type: object, properties: { id: { type: string, index: true } } }
---
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: cart.seen }
spec:
  retention: { ttl: 30m }
  schema:
    type: object
    properties: { cart: { type: object, properties: { size: { type: integer, index: true } } } }
";

fn registry() -> Arc<Registry> {
    let documents = Documents::parse_yaml(DOCUMENTS).unwrap();
    let registry = Registry::default().with(&documents, UpdateOptions::default());
    Arc::new(registry.unwrap())
}

fn text(text: impl Into<String>) -> Value<'static> {
    Value::Scalar(Scalar::Text(text.into().into()))
}

/// The n-th event, one each minute.
fn event(n: u8) -> StoredEvent<'static> {
    let number = i64::from(n);
    let channel = if n.is_multiple_of(2) { "web" } else { "app" };
    let leaves = vec![
        ("order.channel".into(), text(channel)),
        ("order.items".into(), Value::Scalar(Scalar::Integer(number))),
        (
            "order.total".into(),
            Value::Scalar(Scalar::Number(number as f64 + 0.5)),
        ),
        ("customer.id".into(), text(format!("c-{n}"))),
    ];
    StoredEvent {
        service: "shop".into(),
        event_type: "order.placed".into(),
        name: "order.placed".into(),
        id: EventId([n; 16]),
        parent: None,
        started_ns: START_NS + number * MINUTE_NS,
        ended_ns: Some(START_NS + number * MINUTE_NS + 60_000_000),
        received_ns: START_NS + (100 - number) * MINUTE_NS,
        duration_ns: Some(60_000_000),
        kind: Some(EventKind::Server),
        outcome: "SUCCESS".into(),
        error_code: None,
        error_message: None,
        trace_id: Some([n; 16]),
        span_id: None,
        parent_span_id: None,
        correlation_id: None,
        dimensions: DimensionHash([7; 16]),
        synthetic: false,
        attributes: Attributes::from_leaves(leaves).unwrap(),
        rest: r#"{"resource":{"host":{"name":"node-7"}}}"#.into(),
    }
}

fn rows() -> MemoryRows {
    let mut rows = MemoryRows::new(registry(), NOW_MS, Arc::new(JsonLines));
    rows.push_file((0..5).map(event).collect());
    rows.push_file((5..8).chain(12..14).map(event).collect());
    rows.push_tail((8..10).map(event).collect());
    rows.push_tail((10..12).map(event).collect());
    rows
}

async fn ask(rows: MemoryRows, body: Json) -> Result<Json, Problem> {
    let answer = search_events(Arc::new(rows), body.to_string().as_bytes()).await?;
    Ok(serde_json::from_str(&answer).unwrap())
}

fn body(more: Json) -> Json {
    let mut body = json!({ "service": "shop", "period": { "previous": "-1h" } });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The numbers of the events that are found.
async fn numbers(more: Json) -> Vec<u8> {
    of_answer(&ask(rows(), body(more)).await.unwrap())
}

fn of_answer(answer: &Json) -> Vec<u8> {
    let events = answer["data"]["events"].as_array().unwrap().iter();
    let number = |event: &Json| event["attributes"]["order"]["items"].as_u64().unwrap() as u8;
    events.map(number).collect()
}

#[tokio::test]
async fn newest_first_from_files_and_tail() {
    let newest: Vec<u8> = (0..14).rev().collect();
    assert_eq!(numbers(json!({})).await, newest);
    assert_eq!(numbers(json!({ "limit": 3 })).await, [13, 12, 11]);
    assert_eq!(numbers(json!({ "limit": 3, "offset": 4 })).await, [9, 8, 7]);
    let order = json!([{ "field": "started_at", "dir": "asc" }]);
    assert_eq!(
        numbers(json!({ "limit": 2, "offset": 1, "order": order })).await,
        [1, 2]
    );
    let order = json!([{ "field": "received_at", "dir": "desc" }]);
    assert_eq!(
        numbers(json!({ "limit": 3, "order": order })).await,
        [0, 1, 2]
    );
}

#[tokio::test]
async fn a_period_has_its_start_and_not_its_end() {
    for period in [
        json!({ "between": ["2026-11-09T10:02:00Z", "2026-11-09T10:04:00Z"] }),
        json!({ "between": ["2026-11-09T11:02:00+01:00", "2026-11-09T11:04:00+01:00"] }),
        json!({ "from": "2026-11-09T10:02:00Z", "to": "2026-11-09T10:04:00Z" }),
    ] {
        assert_eq!(numbers(json!({ "period": period })).await, [3, 2]);
    }
    assert_eq!(
        numbers(json!({ "period": { "since": "49m" } })).await,
        [13, 12, 11]
    );
}

#[tokio::test]
async fn conditions_hold_before_pages_are_cut() {
    let web = json!({ "attribute": "order.channel", "op": "=", "value": "web" });
    assert_eq!(numbers(json!({ "match": web, "limit": 2 })).await, [12, 10]);
    let or = json!({ "and": [web, { "or": [
        { "attribute": "order.items", "op": "in", "value": [4, 5] },
        { "attribute": "customer.id", "op": "like", "value": "c-1%" },
    ] }] });
    assert_eq!(numbers(json!({ "match": or })).await, [12, 10, 4]);
    let filter = json!({ "path": "attributes.order.total", "op": ">", "value": 10 });
    let both = json!({ "match": web, "filter": filter, "limit": 1, "includeTotal": true });
    let answer = ask(rows(), body(both)).await.unwrap();
    assert_eq!(of_answer(&answer), [12]);
    assert_eq!((&answer["total"], &answer["count"]), (&json!(2), &json!(1)));
    let trace = json!({ "path": "trace.traceId", "op": "=", "value": "05".repeat(16) });
    assert_eq!(numbers(json!({ "filter": trace })).await, [5]);
    let kind = json!([{ "path": "event.kind", "op": "=", "value": "CLIENT" }]);
    assert_eq!(numbers(json!({ "filter": kind })).await, Vec::<u8>::new());
}

#[tokio::test]
async fn what_is_wrong_with_a_request() {
    let is_indexed = json!({ "attribute": "order.total", "value": 1 });
    let deep = (0..40).fold(json!({ "path": "name", "value": "x" }), |inner, _| {
        json!([inner])
    });
    for (more, status, code) in [
        (
            json!({ "service": null }),
            400,
            "query.required-field-missing",
        ),
        (
            json!({ "period": null }),
            400,
            "query.required-field-missing",
        ),
        (json!({ "period": {} }), 400, "query.required-field-missing"),
        (
            json!({ "period": { "previous": "soon" } }),
            400,
            "query.invalid-period",
        ),
        (
            json!({ "period": { "previous": "é" } }),
            400,
            "query.invalid-period",
        ),
        (
            json!({ "period": { "between": ["2026-11-09T10:00:00", "2026-11-09T11:00:00Z"] } }),
            400,
            "query.invalid-timestamp",
        ),
        (
            json!({ "period": { "from": "2026-11-09T10:00:00Z", "to": "2026-11-09T10:00:00Z" } }),
            400,
            "query.invalid-time-range",
        ),
        (json!({ "event": "order.lost" }), 404, "query.unknown-type"),
        (
            json!({ "match": is_indexed }),
            400,
            "query.attribute-not-indexed",
        ),
        (
            json!({ "match": { "attribute": "order.items", "value": "many" } }),
            400,
            "query.invalid-value",
        ),
        (
            json!({ "filter": { "path": "weather", "value": 1 } }),
            400,
            "query.unknown-path",
        ),
        (
            json!({ "filter": { "path": "name", "op": "=~", "value": "x" } }),
            400,
            "query.invalid-operator",
        ),
        (
            json!({ "filter": { "path": "name", "op": "=" } }),
            400,
            "query.invalid-condition",
        ),
        (
            json!({ "filter": { "or": [] } }),
            400,
            "query.invalid-condition",
        ),
        (json!({ "filter": deep }), 400, "query.limit-exceeded"),
        (
            json!({ "filter": { "path": "name", "op": "like", "value": "é".repeat(1_025) } }),
            400,
            "query.limit-exceeded",
        ),
        (
            json!({ "order": [{ "field": "name" }] }),
            400,
            "query.invalid-order",
        ),
        (json!({ "limit": 0 }), 400, "query.invalid-field"),
        (json!({ "limit": -1 }), 400, "query.invalid-field"),
        (json!({ "offset": 10_001 }), 400, "query.limit-exceeded"),
        (json!({ "cursor": "x" }), 400, "query.invalid-field"),
        (json!({ "format": "table" }), 400, "query.invalid-field"),
        (json!({ "tz": "Moon/Sea" }), 400, "query.invalid-field"),
    ] {
        let problem = ask(rows(), body(more.clone())).await.unwrap_err();
        assert_eq!((problem.status, problem.code), (status, code), "{more}");
    }
    let problem = search_events(Arc::new(rows()), b"{").await.unwrap_err();
    assert_eq!(problem.code, "query.invalid-json");
    let answer = ask(rows(), body(json!({ "service": "nobody" })))
        .await
        .unwrap();
    assert_eq!(answer["count"], 0);
    let answer = ask(rows(), body(json!({ "limit": 5_000 }))).await.unwrap();
    assert_eq!(answer["limit"], 1_000);
}

#[tokio::test]
async fn links_lead_to_other_pages() {
    let more = json!({ "limit": 4, "offset": 4, "includeTotal": true });
    let answer = ask(rows(), body(more)).await.unwrap();
    let links = answer["links"].as_object().unwrap();
    let offset = |name: &str| links[name]["body"]["offset"].as_u64();
    assert_eq!(
        ["self", "first", "prev", "next", "last"].map(offset),
        [Some(4), Some(0), Some(0), Some(8), Some(12)]
    );
    assert_eq!(links["next"]["href"], "/api/search/events");
    assert_eq!(links["next"]["method"], "POST");
    let last = ask(rows(), links["last"]["body"].clone()).await.unwrap();
    assert_eq!(of_answer(&last), [1, 0]);
    assert!(last["links"].get("next").is_none());
    let first = ask(rows(), body(json!({ "limit": 4 }))).await.unwrap();
    assert!(first["links"].get("prev").is_none() && first["links"].get("last").is_none());
    assert!(first.get("total").is_none());
}

#[tokio::test]
async fn a_cursor_goes_on_while_events_arrive() {
    let first = ask(rows(), body(json!({ "limit": 5 }))).await.unwrap();
    assert_eq!(of_answer(&first), [13, 12, 11, 10, 9]);
    let mut later = rows();
    later.push_tail(vec![event(20), event(21)]);
    let next = first["links"]["next"]["body"].clone();
    let second = ask(later, next).await.unwrap();
    assert_eq!(of_answer(&second), [8, 7, 6, 5, 4]);
    assert_eq!(second["offset"], 5);
    let third = ask(rows(), second["links"]["next"]["body"].clone())
        .await
        .unwrap();
    assert_eq!(of_answer(&third), [3, 2, 1, 0]);
    assert!(third["links"].get("next").is_none());
}

#[tokio::test]
async fn ties_go_by_id() {
    let mut rows = MemoryRows::new(registry(), NOW_MS, Arc::new(JsonLines));
    let at_once = |n: u8| StoredEvent {
        started_ns: START_NS,
        ..event(n)
    };
    rows.push_file([5, 1, 3].map(at_once).to_vec());
    rows.push_file([4, 2].map(at_once).to_vec());
    rows.push_tail(vec![at_once(0)]);
    let rows = Arc::new(rows);
    for (limit, offset, expected) in [(10, 0, vec![0, 1, 2, 3, 4, 5]), (2, 1, vec![1, 2])] {
        let body = body(json!({ "limit": limit, "offset": offset })).to_string();
        let answer = search_events(rows.clone(), body.as_bytes()).await.unwrap();
        assert_eq!(of_answer(&serde_json::from_str(&answer).unwrap()), expected);
    }
}

#[tokio::test]
async fn what_is_too_old_is_hidden() {
    let seen = |n: u8| StoredEvent {
        event_type: "cart.seen".into(),
        ..event(n)
    };
    let mut rows = MemoryRows::new(registry(), NOW_MS, Arc::new(JsonLines));
    // Kept for half an hour: from the thirtieth minute on.
    rows.push_file((20..40).map(seen).collect());
    rows.push_tail((25..35).map(seen).collect());
    let more = json!({ "event": "cart.seen", "includeTotal": true, "limit": 1 });
    let answer = ask(rows, body(more)).await.unwrap();
    assert_eq!(answer["total"], 15);
}

#[tokio::test]
async fn rows_and_columns_of_an_answer() {
    let answer = ask(rows(), body(json!({ "limit": 1, "tz": "+02:00" })))
        .await
        .unwrap();
    let row = &answer["data"]["events"][0];
    assert_eq!(
        *row,
        json!({
            "event_id": "0d0d0d0d-0d0d-0d0d-0d0d-0d0d0d0d0d0d",
            "service_id": "shop",
            "event_type": "order.placed",
            "name": "order.placed",
            "kind": "SERVER",
            "outcome": "SUCCESS",
            "started_at": "2026-11-09T12:13:00+02:00",
            "ended_at": "2026-11-09T12:13:00.060+02:00",
            "received_at": "2026-11-09T13:27:00+02:00",
            "duration_nanos": 60_000_000,
            "trace_id": "0d".repeat(16),
            "dim_hash": "07".repeat(16),
            "attributes": {
                "order": { "channel": "app", "items": 13, "total": 13.5 },
                "customer": { "id": "c-13" },
            },
            "resource": { "host": { "name": "node-7" } },
        })
    );
    let columns = json!({ "limit": 2, "format": "columnar" });
    let answer = ask(rows(), body(columns)).await.unwrap();
    let events = &answer["data"]["events"];
    let times = json!(["2026-11-09T10:13:00Z", "2026-11-09T10:12:00Z"]);
    assert_eq!(events["data"]["started_at"], times);
    let fields = events["schema"]["fields"].as_array().unwrap();
    assert!(fields.contains(&json!({ "name": "started_at", "type": "datetime" })));
    assert!(fields.contains(&json!({ "name": "duration_nanos", "type": "integer" })));
    assert!(!fields.iter().any(|field| field["name"] == "error_code"));
}

#[tokio::test]
async fn one_event_by_its_id() {
    let rows: Arc<dyn EventRows> = Arc::new(rows());
    for n in [0, 6, 9, 13] {
        let id = event_id_text(EventId([n; 16]));
        let found = find_event(rows.clone(), "shop", &id).await.unwrap();
        let found: Json = serde_json::from_str(&found).unwrap();
        assert_eq!(found["attributes"]["order"]["items"], n);
    }
    for (service, id, status) in [
        ("shop", event_id_text(EventId([99; 16])), 404),
        ("nobody", event_id_text(EventId([0; 16])), 404),
        ("shop", "no id".into(), 400),
    ] {
        let problem = find_event(rows.clone(), service, &id).await.unwrap_err();
        assert_eq!(problem.status, status);
    }
}

#[tokio::test]
async fn catalogues_list_what_there_is() {
    let mut rows = rows();
    rows.values = ["app", "web"]
        .map(|value| SeenValue {
            value: value.into(),
            events: 7,
            first_ns: START_NS,
            last_ns: START_NS + MINUTE_NS,
        })
        .to_vec();
    let page = CataloguePage::default();
    let names: Json =
        serde_json::from_str(&attribute_names(&rows, "shop", &page).unwrap()).unwrap();
    let expected = json!(["cart.size", "customer.id", "order.channel", "order.items"]);
    assert_eq!(names["attributes"], expected);
    let page = CataloguePage {
        prefix: Some("order".into()),
        offset: Some(1),
        limit: Some(1),
    };
    let names: Json =
        serde_json::from_str(&attribute_names(&rows, "shop", &page).unwrap()).unwrap();
    assert_eq!(
        (&names["attributes"], &names["total"]),
        (&json!(["order.items"]), &json!(2))
    );
    let page = CataloguePage {
        prefix: Some("w".into()),
        ..CataloguePage::default()
    };
    let values = attribute_values(&rows, "shop", "order.channel", &page)
        .await
        .unwrap();
    let values: Json = serde_json::from_str(&values).unwrap();
    let seen = json!([{
        "attribute": "web", "seenCount": 7,
        "firstSeen": "2026-11-09T10:00:00Z", "lastSeen": "2026-11-09T10:01:00Z",
    }]);
    assert_eq!(values["values"], seen);
    let types: Json = serde_json::from_str(&event_types(&rows.registry, Some("shop"))).unwrap();
    assert_eq!(types["count"], 2);
    assert_eq!(types["eventTypes"][0]["name"], "cart.seen");
}

#[tokio::test]
async fn text_is_the_same_search() {
    let ask = async |q: &str| -> Result<Vec<u8>, Problem> {
        let body = json!({ "q": q }).to_string();
        let answer = query_objql(Arc::new(rows()), body.as_bytes()).await?;
        let list: Json = serde_json::from_str(&answer).unwrap();
        Ok(of_answer(&json!({ "data": { "events": list } })))
    };
    let shop = r#"service:"shop" event:"order.placed""#;
    for (q, expected) in [
        (
            "where attr.order.channel = \"web\" since -1h order by started_at desc limit 2",
            vec![12, 10],
        ),
        (
            "where attr.order.items >= 12 or (attr.order.items < 2 and outcome = SUCCESS)",
            vec![13, 12, 1, 0],
        ),
        ("where customer = 1", vec![]),
        (
            "where attr.customer.id contains '-1' limit 3",
            vec![13, 12, 11],
        ),
        (
            "where attr.order.items in (1, 2) order by started_at asc",
            vec![1, 2],
        ),
        (
            "where attr.customer.id ILIKE 'C-_' and attr.order.items exists limit 1",
            vec![9],
        ),
        ("since 48m", vec![13, 12]),
    ] {
        match ask(&format!("{shop} {q}")).await {
            Ok(found) => assert_eq!(found, expected, "{q}"),
            Err(problem) => assert_eq!(
                (problem.code, q),
                ("query.unknown-path", "where customer = 1")
            ),
        }
    }
    for q in [
        "where x =~ 'y'",
        "where",
        "where (attr.a = 1",
        "where attr.a = 'x",
        "limit many",
        "sort by name",
        "where attr.a in 1",
        "!",
    ] {
        let problem = ask(&format!("{shop} {q}")).await.unwrap_err();
        assert_eq!(problem.status, 400, "{q}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(q in ".{0,60}") {
        let _ = super::objql::translate(&q);
        let _ = super::objql::translate(&format!("service:x where {q}"));
    }

    #[test]
    fn any_body_is_read_or_refused(filter in "[\\[\\]{}:,\"a-z0-9=]{0,60}") {
        let body = format!(r#"{{"service":"shop","period":{{"previous":"1h"}},"filter":{filter}}}"#);
        let _ = super::request::SearchRequest::parse(&rows(), body.as_bytes());
    }

    #[test]
    fn pages_are_pieces_of_the_whole(
        placed in prop::collection::vec((0_i64..8, 0_u8..4), 1..40),
        limit in 1_usize..7,
        newest_first: bool,
    ) {
        let mut lists: [Vec<StoredEvent<'static>>; 4] = Default::default();
        for (n, (minute, list)) in placed.iter().enumerate() {
            let started_ns = START_NS + minute * MINUTE_NS;
            lists[usize::from(*list)].push(StoredEvent { started_ns, ..event(n as u8) });
        }
        let mut all: Vec<_> = lists.iter().flatten().cloned().collect();
        all.sort_by_key(|event| {
            (if newest_first { -event.started_ns } else { event.started_ns }, event.id)
        });
        let all: Vec<u8> = all.iter().map(|event| event.id.0[0]).collect();
        let mut rows = MemoryRows::new(registry(), NOW_MS, Arc::new(JsonLines));
        let [first, second, third, fourth] = lists;
        for tail in [first, second] {
            rows.push_tail(tail);
        }
        for file in [third, fourth].into_iter().filter(|file| !file.is_empty()) {
            rows.push_file(file);
        }
        let rows = Arc::new(rows);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let dir = if newest_first { "desc" } else { "asc" };
        let order = json!([{ "field": "started_at", "dir": dir }]);
        let mut next = body(json!({ "limit": limit, "order": order, "includeTotal": true }));
        let mut by_offset = next.clone();
        let mut found = Vec::new();
        while !next.is_null() {
            let answer = runtime.block_on(search_events(rows.clone(), next.to_string().as_bytes()));
            let answer: Json = serde_json::from_str(&answer.unwrap()).unwrap();
            prop_assert_eq!(answer["total"].as_u64(), Some(all.len() as u64));
            by_offset["offset"] = json!(found.len());
            let body = by_offset.to_string();
            let other = runtime.block_on(search_events(rows.clone(), body.as_bytes()));
            let other: Json = serde_json::from_str(&other.unwrap()).unwrap();
            prop_assert_eq!(&answer["data"], &other["data"]);
            found.extend(of_answer(&answer));
            next = answer["links"]["next"]["body"].clone();
        }
        prop_assert_eq!(found, all);
    }
}

#[tokio::test]
async fn filters_reach_every_path_of_the_envelope() {
    let found = async |filter: Json| {
        let mut rows = MemoryRows::new(registry(), NOW_MS, Arc::new(JsonLines));
        let with_rest = |n: u8, rest: &'static str| StoredEvent {
            rest: rest.into(),
            ..event(n)
        };
        let first = r#"{"resource":{"service":{"id":"shop","name":"Shop"},"host.name":"node-1",
            "cpus":[2,4]},"status":{"code":"OK","message":"fine"},"traceState":"a=1"}"#;
        rows.push_file(vec![with_rest(1, first)]);
        rows.push_tail(vec![event(2), with_rest(3, "")]);
        let answer = ask(
            rows,
            body(json!({ "filter": filter, "order": { "field": "started_at", "dir": "asc" } })),
        );
        answer.await.map(|answer| of_answer(&answer))
    };
    let clause =
        |path: &str, op: &str, value: Json| json!({ "path": path, "op": op, "value": value });
    for (filter, expected) in [
        (clause("resource.host.name", "=", json!("node-7")), vec![2]),
        (
            clause("resource.host.name", "like", json!("node-%")),
            vec![1, 2],
        ),
        (clause("resource.host.name", "!=", json!("node-7")), vec![1]),
        (
            clause("resource.host.name", "exists", json!(null)),
            vec![1, 2],
        ),
        (clause("resource.cpus", ">", json!(3)), vec![1]),
        (clause("resource.service.name", "=", json!("Shop")), vec![1]),
        (
            clause("resource.service.name", "=", json!("shop")),
            vec![2, 3],
        ),
        (
            clause("resource.service.id", "=", json!("shop")),
            vec![1, 2, 3],
        ),
        (clause("status.message", "ilike", json!("FINE")), vec![1]),
        (clause("status.code", "in", json!(["OK", "ERROR"])), vec![1]),
        (clause("trace.state", "=", json!("a=1")), vec![1]),
        (
            clause("time.startUnixNano", "<", json!(START_NS + 2 * MINUTE_NS)),
            vec![1],
        ),
        (clause("event.kind", "=", json!("SERVER")), vec![1, 2, 3]),
    ] {
        assert_eq!(found(filter.clone()).await.unwrap(), expected, "{filter}");
    }
    for path in [
        "links",
        "links.traceId",
        "resource",
        "status.other",
        "trace.other",
    ] {
        let problem = found(clause(path, "exists", json!(null)))
            .await
            .unwrap_err();
        assert_eq!(problem.code, "query.unknown-path", "{path}");
    }
}

#[tokio::test]
async fn a_page_of_too_many_bytes_is_refused() {
    let page = async |limit: usize, offset: usize| {
        let mut rows = MemoryRows::new(registry(), NOW_MS, Arc::new(JsonLines));
        let large = |n: u8| StoredEvent {
            correlation_id: Some("x".repeat(25 << 20).into()),
            ..event(n)
        };
        rows.push_tail((1..=4).map(large).collect());
        let answer = ask(rows, body(json!({ "limit": limit, "offset": offset }))).await;
        answer.map(|answer| of_answer(&answer))
    };
    let problem = page(3, 0).await.unwrap_err();
    assert_eq!((problem.status, problem.code), (422, "query.limit"));
    // What is skipped takes no memory, and what is displaced none any more.
    assert_eq!(page(1, 0).await.unwrap(), [4]);
    assert_eq!(page(1, 3).await.unwrap(), [1]);
}
