//! Ranges as columns, for clients that ask for them.

use std::io::Read as _;

use serde_json::{Value, json};

use crate::client::Answer;
use crate::payload::{Payload, Series, T0, series};
use crate::served::TestServer;

const COLUMNS: &str = "application/vnd.icecore.matrix";
const ABSENT: u64 = 0x7ff0_0000_0000_0002;

async fn with_requests() -> TestServer {
    let served = TestServer::start(&[]).await;
    let histogram = Series {
        histograms: vec![(T0, 3)],
        ..series("latency", &[("host", "a")], &[])
    };
    let payload = Payload::v1(&[
        series(
            "requests",
            &[("host", "a")],
            &[(T0, 1.5), (T0 + 30_000, 3.0)],
        ),
        series("requests", &[("host", "b")], &[(T0 + 15_000, -7.0)]),
        histogram,
    ]);
    assert_eq!(served.write(&payload).await.status, 204);
    served
}

/// Three steps from `T0` on, 15 s apart; values of older samples do not reach the next step.
async fn ask(served: &TestServer, query: &str, headers: &[(&str, &str)]) -> Answer {
    let start = T0 / 1000;
    let path = format!(
        "/api/v1/query_range?query={query}&start={start}&end={}&step=15&lookback_delta=10s",
        start + 30
    );
    let answer = served.request("GET", &path, headers, b"").await;
    assert_eq!(answer.status, 200);
    assert!(answer.complete);
    answer
}

/// Start, step, bits of the columns, and the JSON.
fn read(body: &[u8]) -> (i64, i64, Vec<Vec<u64>>, Value) {
    assert_eq!(&body[..8], b"ICEMTRX1");
    let long = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().unwrap());
    let short = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap()) as usize;
    let (steps, series) = (short(24), short(28));
    let column = |i: usize| (0..steps).map(move |step| long(32 + 8 * (i * steps + step)));
    let columns = (0..series).map(|i| column(i).collect()).collect();
    let json = serde_json::from_slice(&body[32 + 8 * series * steps..]).unwrap();
    (long(8) as i64, long(16) as i64, columns, json)
}

#[tokio::test(flavor = "multi_thread")]
async fn floats_come_as_columns() {
    let served = with_requests().await;
    let answer = ask(&served, "requests", &[("Accept", COLUMNS)]).await;
    assert_eq!(answer.header("content-type"), Some(COLUMNS));
    assert_eq!(answer.header("vary"), Some("Accept"));
    let (start, step, columns, json) = read(&answer.body);
    assert_eq!((start, step), (T0, 15_000));
    let bits = f64::to_bits;
    assert_eq!(
        columns,
        [[bits(1.5), ABSENT, bits(3.0)], [ABSENT, bits(-7.0), ABSENT]]
    );
    let metric = |host: &str| json!({"metric": {"__name__": "requests", "host": host}});
    let data = json!({"resultType": "matrix", "result": [metric("a"), metric("b")]});
    assert_eq!(json, json!({"status": "success", "data": data}));
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_beside_the_values_is_the_same() {
    let served = with_requests().await;
    // An info about the name of the metric, and a warning because there are two series.
    let query = "rate(requests[1m])%20or%20requests&limit=1&stats=all&explain=true";
    let columns = ask(&served, query, &[("Accept", COLUMNS)]).await;
    let (_, _, columns, mut json) = read(&columns.body);
    assert_eq!(columns.len(), 1);
    let mut expected = ask(&served, query, &[]).await.json();
    for json in [&mut json, &mut expected] {
        let data = json["data"].as_object_mut().unwrap();
        assert!(data["explain"].is_string());
        data.remove("explain");
        assert!(data["stats"]["timings"].is_object());
        data["stats"]["timings"].take();
        data["stats"]["samples"]["peakSamples"].take();
        if let Some(series) = data["result"][0].as_object_mut() {
            series.remove("values");
        }
    }
    assert!(expected["warnings"].is_array() && expected["infos"].is_array());
    assert_eq!(json, expected);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn others_get_json() {
    let served = with_requests().await;
    for (query, accept) in [
        ("requests", "*/*"),
        ("requests", "application/json"),
        (
            "requests",
            "application/json, application/vnd.icecore.matrix;q=0.1",
        ),
        // Histograms have no columns, nor have those beside them.
        ("latency", COLUMNS),
        ("{host=\"a\"}", COLUMNS),
    ] {
        let query = query.replace('"', "%22");
        let answer = ask(&served, &query, &[("Accept", accept)]).await;
        assert_eq!(answer.header("vary"), Some("Accept"));
        assert!(!answer.data()["result"].as_array().unwrap().is_empty());
    }
    let path = "/api/v1/query_range?query=sum(&start=0&end=1&step=1";
    let wrong = served.request("GET", path, &[("Accept", COLUMNS)], b"");
    wrong.await.error(400, "bad_data");
    // Nothing found is no column, and still what was asked for.
    let none = ask(&served, "nothing", &[("Accept", COLUMNS)]).await;
    assert_eq!(none.header("content-type"), Some(COLUMNS));
    let (_, _, columns, json) = read(&none.body);
    assert_eq!((columns.len(), &json["data"]["result"]), (0, &json!([])));
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn long_ones_are_streamed_and_compressed() {
    let served = with_requests().await;
    let path = "/api/v1/query_range?query=time()&start=0&end=11000&step=1";
    let plain = served
        .request("GET", path, &[("Accept", COLUMNS)], b"")
        .await;
    assert!(plain.complete);
    let (_, step, columns, _) = read(&plain.body);
    assert_eq!((step, columns.len()), (1000, 1));
    let expected: Vec<u64> = (0..=11_000).map(|at| f64::from(at).to_bits()).collect();
    assert_eq!(columns[0], expected);
    let headers = [("Accept", COLUMNS), ("Accept-Encoding", "gzip")];
    let zipped = served.request("GET", path, &headers, b"").await;
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    let mut unzipped = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&zipped.body[..]);
    decoder.read_to_end(&mut unzipped).unwrap();
    assert!(unzipped == plain.body);
    served.stop().await.unwrap();
}
