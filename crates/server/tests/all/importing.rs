//! Out and in again: what one process exports, another imports and exports alike, byte for byte.

use std::io::Write as _;

use icecore_wire::native::{FrameKind, FrameReader, Step};
use serde_json::{Value, json};

use crate::client::Answer;
use crate::served::TestServer;

const ALL: (&str, &str) = ("match[]", "{__name__=~\"in_.+\"}");

/// Everything that a line can say.
fn lines() -> String {
    let mut text = String::from(concat!(
        r#"{"metric":{"__name__":"in_counter_total","job":"a \"b\" \\ é"},"#,
        r#""metadata":{"family":"in_counter","type":"counter","unit":"s","help":"Counts\nthings."},"#,
        r#""start_timestamps":[[1700000000000,1699999999000],[1700000015000,1699999999000]],"#,
        r#""values":[0,1.5,-0,"Inf","-Inf","NaN","StaleNaN","NaN:0x7ff8000000000000",1e300],"#,
        r#""timestamps":[1700000000000,1700000015000,1700000030000,1700000045000,1700000060000,"#,
        r#"1700000075000,1700000090000,1700000105000,1700007200000],"#,
        r#""exemplars":[{"labels":{"trace_id":"abc"},"timestamp":1700000015000,"value":0.25}]}"#,
        "\n",
        r#"{"metric":{"__name__":"in_histogram"},"start_timestamps":[[1700000000000,5]],"values":[3],"timestamps":[1700000001000],"histograms":["#,
        r#"{"timestamp":1700000000000,"schema":3,"reset_hint":"not_reset","sum":18.4,"count":7,"zero_threshold":1e-128,"zero_count":2,"positive_spans":[[-2,2],[1,1]],"positive_deltas":[1,1,-1],"negative_spans":[[0,1]],"negative_deltas":[1]},"#,
        r#"{"timestamp":1700000015000,"schema":0,"reset_hint":"gauge","sum":"StaleNaN","count":0,"zero_threshold":0,"zero_count":0,"positive_spans":[],"positive_counts":[],"negative_spans":[],"negative_counts":[]},"#,
        r#"{"timestamp":1700000030000,"schema":-53,"reset_hint":"unknown","sum":2.5,"count":3.5,"zero_threshold":0,"zero_count":0,"positive_spans":[[0,2]],"positive_counts":[1.25,2.25],"negative_spans":[],"negative_counts":[],"custom_bounds":[0.5,1]}]}"#,
        "\n",
    ));
    for series in 0..50 {
        let times: Vec<i64> = (0..200).map(|i| 1_700_000_000_000 + i * 60_000).collect();
        let values: Vec<f64> = (0..200).map(|i| f64::from(i * series) / 8.0).collect();
        let metric = json!({"__name__": "in_many", "n": series.to_string()});
        let line = json!({"metric": metric, "values": values, "timestamps": times});
        text.push_str(&format!("{line}\n"));
    }
    text
}

async fn import(served: &TestServer, query: &str, body: &[u8]) -> Answer {
    served
        .request("POST", &format!("/api/v1/import{query}"), &[], body)
        .await
}

/// The counts of a success.
fn counts(answer: &Answer) -> Value {
    assert_eq!(
        answer.status,
        200,
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
    answer.data()
}

async fn exported(served: &TestServer, format: &str) -> Vec<u8> {
    let answer = served
        .get("/api/v1/export", &[ALL, ("format", format)])
        .await;
    assert_eq!(answer.status, 200);
    answer.body
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_of_imports_of_exports_are_equal() {
    let first = TestServer::start(&[]).await;
    let answer = counts(&import(&first, "", lines().as_bytes()).await);
    assert_eq!(
        answer,
        json!({"lines": 52, "samples": 10_010, "histograms": 3, "exemplars": 1, "lastLine": 52, "rejected": []})
    );
    for flushed in [false, true] {
        if flushed {
            assert_eq!(
                first.request("POST", "/-/flush", &[], b"").await.status,
                200
            );
        }
        let (json, native) = (
            exported(&first, "json").await,
            exported(&first, "native").await,
        );
        assert_eq!(json.iter().filter(|byte| **byte == b'\n').count(), 52);
        for (format, body) in [("json", &json), ("native", &native)] {
            let second = TestServer::start(&[]).await;
            let answer = counts(&import(&second, "", body).await);
            assert_eq!(answer["samples"], 10_010, "{format}");
            assert_eq!(answer["histograms"], 3, "{format}");
            assert_eq!(answer["exemplars"], 1, "{format}");
            let again = exported(&second, "json").await;
            assert_eq!(
                String::from_utf8_lossy(&again),
                String::from_utf8_lossy(&json)
            );
            assert!(exported(&second, "native").await == native, "{format}");
            let metadata = second
                .get("/api/v1/metadata", &[("metric", "in_counter")])
                .await;
            assert_eq!(metadata.data()["in_counter"][0]["unit"], "s");
            second.stop().await.unwrap();
        }
    }
    first.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_bodies_and_lines_that_are_split() {
    let served = TestServer::start(&[]).await;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines().as_bytes()).unwrap();
    let bodies = [
        ("gzip", gzip.finish().unwrap()),
        ("zstd", zstd::encode_all(lines().as_bytes(), 1).unwrap()),
    ];
    for (encoding, body) in bodies {
        let headers = [("Content-Encoding", encoding)];
        let answer = served
            .request("POST", "/api/v1/import", &headers, &body)
            .await;
        assert_eq!(counts(&answer)["lines"], 52, "{encoding}");
        let cut = served
            .request("POST", "/api/v1/import", &headers, &body[..body.len() / 2])
            .await;
        cut.error(400, "bad_data");
    }
    let unknown = [("Content-Encoding", "br")];
    let answer = served
        .request("POST", "/api/v1/import", &unknown, b"")
        .await;
    assert_eq!(answer.status, 415);
    let split = served
        .get("/api/v1/export", &[ALL, ("max_rows_per_line", "3")])
        .await;
    let second = TestServer::start(&[]).await;
    let answer = counts(&import(&second, "?format=json", &split.body).await);
    assert_eq!(answer["samples"], 10_010);
    assert!(exported(&second, "json").await == exported(&served, "json").await);
    served.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_is_named_and_what_is_before_it_is_stored() {
    let served = TestServer::start(&[]).await;
    let line = |name: &str, value: &str| {
        format!(
            r#"{{"metric":{{"__name__":"in_{name}"}},"values":[{value}],"timestamps":[1700000000000]}}"#
        )
    };
    let text = [line("a", "1"), line("b", "one"), line("c", "1")].join("\n");
    let answer = import(&served, "", text.as_bytes()).await;
    let reason = answer.error(400, "bad_data");
    assert_eq!(reason, "line 2: \"one\" is not a value");
    assert_eq!(answer.json()["data"]["lines"], 1);
    assert_eq!(served.export(&[ALL]).await.len(), 1);
    let answer = counts(&import(&served, "?skip_errors=true", text.as_bytes()).await);
    assert_eq!(answer["lines"], 2);
    assert_eq!(
        answer["rejected"],
        json!([{"reason": "\"one\" is not a value", "count": 1, "line": 2}])
    );
    assert_eq!(served.export(&[ALL]).await.len(), 2);
    // What only the store refuses is counted; the rest goes on.
    let far = r#"{"metric":{"__name__":"in_d"},"values":[1,1],"timestamps":[1700000000000,99999999999999]}"#;
    let unnamed = r#"{"metric":{"a":"b"},"values":[1],"timestamps":[1700000000000]}"#;
    let answer = counts(&import(&served, "", format!("{far}\n{unnamed}").as_bytes()).await);
    assert_eq!(answer["samples"], 1);
    assert_eq!(answer["rejected"].as_array().unwrap().len(), 2, "{answer}");
    for wrong in ["?format=xml", "?skip_errors=maybe"] {
        import(&served, wrong, b"").await.error(400, "bad_data");
    }
    assert_eq!(counts(&import(&served, "", b"").await)["lines"], 0);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_streams_are_refused() {
    let served = TestServer::start(&[]).await;
    counts(&import(&served, "", lines().as_bytes()).await);
    let native = exported(&served, "native").await;
    let second = TestServer::start(&[]).await;
    for (what, body) in [
        ("cut", native[..native.len() - 3].to_vec()),
        ("without its end", native[..native.len() - 25].to_vec()),
        ("flipped", {
            let mut body = native.clone();
            body[native.len() / 2] ^= 1;
            body
        }),
        ("not native", b"{}".to_vec()),
    ] {
        let answer = import(&second, "?format=native", &body).await;
        assert!(answer.error(400, "bad_data").contains("frame"), "{what}");
    }
    // A part is good when it is said to be one.
    let part = &native[..start_of_the_end(&native)];
    assert_eq!(
        counts(&import(&second, "?partial=true", part).await)["samples"],
        10_010
    );
    served.stop().await.unwrap();
    second.stop().await.unwrap();
}

/// Where the last frame of a stream begins.
fn start_of_the_end(stream: &[u8]) -> usize {
    let mut reader = FrameReader::default();
    let mut at = 0;
    loop {
        match reader.next(&stream[at..], true).unwrap() {
            Step::Frame { frame, .. } if frame.kind == FrameKind::End => return at,
            Step::Frame { taken, .. } => at += taken,
            _ => panic!("there is an end"),
        }
    }
}

/// A store that takes two hours at once gets years.
#[tokio::test(flavor = "multi_thread")]
async fn more_hours_than_a_request_may_have() {
    let limits = [
        ("limits.open_buckets_max", "8"),
        ("limits.buckets_per_request_max", "3"),
        ("limits.samples_per_request_max", "7"),
    ];
    let times: Vec<i64> = (0..30)
        .map(|i| 1_600_000_000_000 + i * 3_600_000 * 7)
        .collect();
    let values: Vec<i64> = (0..30).collect();
    let mut text = String::new();
    for n in 0..3 {
        let metric = json!({"__name__": "in_years", "n": n.to_string()});
        let line = json!({"metric": metric, "values": values, "timestamps": times});
        text.push_str(&format!("{line}\n"));
    }
    let first = TestServer::start(&[]).await;
    assert_eq!(
        counts(&import(&first, "", text.as_bytes()).await)["samples"],
        90
    );
    for format in ["json", "native"] {
        let body = exported(&first, format).await;
        let small = TestServer::start(&limits).await;
        assert_eq!(
            counts(&import(&small, "", &body).await)["samples"],
            90,
            "{format}"
        );
        assert!(exported(&small, format).await == body, "{format}");
        small.stop().await.unwrap();
    }
    first.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn text_with_timestamps_is_stored() {
    let served = TestServer::start(&[]).await;
    let text = "# TYPE in_requests counter\n# HELP in_requests Requests.\nin_requests{code=\"200\"} 1 1700000000000\n\
        in_requests{code=\"200\"} 2 1700000015000\nin_requests{code=\"500\"} NaN 1700000000000\nin_now 7\n";
    let path =
        "/api/v1/import/prometheus?extra_label=job=a&extra_label=x=y%3Dz&timestamp=1700000001000";
    let answer = counts(&served.request("POST", path, &[], text.as_bytes()).await);
    assert_eq!(
        (&answer["samples"], &answer["lastLine"]),
        (&json!(4), &json!(6))
    );
    let lines = served.export(&[ALL]).await;
    assert_eq!(
        lines[0],
        json!({"metric": {"__name__": "in_now", "job": "a", "x": "y=z"}, "values": [7], "timestamps": [1_700_000_001_000_i64]})
    );
    assert_eq!(lines[1]["metadata"]["help"], "Requests.");
    assert_eq!(lines[1]["values"], json!([1, 2]));
    assert_eq!(lines[2]["values"], json!(["NaN"]));
    let openmetrics = "# TYPE in_om counter\nin_om_total 3 1700000000.5 # {trace_id=\"t\"} 0.5 1700000000\nin_om_created 1699999999\n# EOF\n";
    let headers = [(
        "Content-Type",
        "application/openmetrics-text; version=1.0.0",
    )];
    let path = "/api/v1/import/prometheus";
    let answer = counts(
        &served
            .request("POST", path, &headers, openmetrics.as_bytes())
            .await,
    );
    assert_eq!(answer["exemplars"], 1, "{answer}");
    // A line that cannot be read is named; the others are stored.
    let bad = "in_good 1 1700000000000\nin_bad{ 1 1700000000000\nin_better 1 1700000000000\n";
    let answer = served.request("POST", path, &[], bad.as_bytes()).await;
    answer.error(400, "bad_data");
    let data = &answer.json()["data"];
    assert_eq!(data["samples"], 2);
    assert!(
        data["rejected"][0]["reason"]
            .as_str()
            .unwrap()
            .starts_with("line 2: "),
        "{data}"
    );
    let answer = served
        .request(
            "POST",
            "/api/v1/import/prometheus?skip_errors=1",
            &[],
            bad.as_bytes(),
        )
        .await;
    assert_eq!(counts(&answer)["lines"], 2);
    for wrong in [
        "?extra_label=x",
        "?extra_label==y",
        "?timestamp=soon",
        "?format=json",
    ] {
        let path = format!("{path}{wrong}");
        served
            .request("POST", &path, &[], b"")
            .await
            .error(400, "bad_data");
    }
    served.stop().await.unwrap();
}
