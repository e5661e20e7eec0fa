//! The same points and queries through the API.

use std::sync::Arc;

use http::{HeaderMap, Method};
use icecore_model::ManualClock;
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::testing::{KeptTime, MemoryStore};
use icecore_opentsdb::{Config, Tsd};
use serde_json::{Value, json};

use super::B;
use super::reference::{Number, Points, Query, Series};

async fn ask(tsd: &Tsd, method: Method, target: &str, body: Option<Value>) -> (u16, String) {
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let request = Request::new(method, target, HeaderMap::new(), body.into());
    let response = handle(tsd, &request).await;
    let text = String::from_utf8(response.body).unwrap();
    (response.status.as_u16(), text)
}

/// The results, with points of these times rolled up.
pub(super) async fn real_results(
    series: &[Series],
    query: &Query,
    kept: &[KeptTime],
) -> Result<Vec<Points>, String> {
    let config = Config {
        auto_create_metrics: true,
        ..Config::default()
    };
    let clock = Arc::new(ManualClock::at((B + 86_400) * 1000));
    let store = Arc::new(MemoryStore::default());
    store.keep(kept.to_vec());
    let tsd = Tsd::open(config, store.all(), clock).await.unwrap();
    // Names are in another order than UIDs.
    let host = |i: usize| format!("h{}", 9 - i);
    let dc = |i: usize| format!("d{}", 9 - i);
    let hosts = (0..series.len()).map(host);
    let names: Vec<String> = hosts.chain((0..2).map(dc)).collect();
    let assign = json!({"metric": ["m"], "tagk": ["host", "dc"], "tagv": names});
    let (status, text) = ask(&tsd, Method::POST, "/api/uid/assign", Some(assign)).await;
    assert_eq!(status, 200, "{text}");
    for (i, series) in series.iter().enumerate() {
        let point = |(time, value): (&i64, &Number)| {
            let value = match value {
                Number::Integer(value) => json!(value),
                Number::Float(value) => json!(value),
            };
            let tags = json!({"host": host(i), "dc": dc(series.dc)});
            json!({"metric": "m", "timestamp": time, "value": value, "tags": tags})
        };
        let points: Vec<Value> = series.points.iter().map(point).collect();
        let (status, text) = ask(&tsd, Method::POST, "/api/put", Some(points.into())).await;
        assert_eq!(status, 204, "{text}");
    }
    let m: String = form_urlencoded::byte_serialize(query.text().as_bytes()).collect();
    let (start, end) = (query.start_ms, query.end_ms);
    let target = format!("/api/query?start={start}&end={end}&ms&arrays&m={m}");
    let (status, text) = ask(&tsd, Method::GET, &target, None).await;
    if status != 200 {
        return Err(text);
    }
    let results: Value = serde_json::from_str(&text).unwrap();
    let number = |value: &Value| match value.as_i64() {
        Some(integer) => Number::Integer(integer),
        None => Number::Float(value.as_f64().unwrap_or(f64::NAN)),
    };
    let points = |result: &Value| {
        let points = result["dps"].as_array().unwrap().iter();
        points
            .map(|point| (point[0].as_i64().unwrap(), number(&point[1])))
            .collect()
    };
    Ok(results.as_array().unwrap().iter().map(points).collect())
}
