//! Queries: every parameter, every shape of an answer, every error with its words.

use serde_json::{Value, json};

use crate::payload::{Payload, Series, T0, series};
use crate::served::TestServer;

const QUERY: &str = "/api/v1/query";
const RANGE: &str = "/api/v1/query_range";

fn seconds(ms: i64) -> String {
    format!("{}", ms as f64 / 1000.0)
}

/// A counter of two hosts with a sample every 15 s for five minutes, and one native histogram.
async fn with_requests(settings: &[(&str, &str)]) -> TestServer {
    let served = TestServer::start(settings).await;
    let samples = |factor: f64| -> Vec<(i64, f64)> {
        let step = |i: i64| (T0 + i * 15_000, i as f64 * factor);
        (0..=20).map(step).collect()
    };
    let histogram = Series {
        histograms: vec![(T0, 3), (T0 + 15_000, 5)],
        ..series("latency", &[("host", "a")], &[])
    };
    let payload = Payload::v1(&[
        series("requests_total", &[("host", "a")], &samples(15.0)),
        series("requests_total", &[("host", "b")], &samples(7.5)),
        histogram,
    ]);
    assert_eq!(served.write(&payload).await.status, 204);
    served
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors() {
    let served = with_requests(&[]).await;
    let time = seconds(T0 + 30_500);
    let params = [("query", "requests_total"), ("time", &time)];
    let answer = served.read(QUERY, &params).await;
    assert_eq!(
        answer.text(),
        concat!(
            r#"{"status":"success","data":{"resultType":"vector","result":["#,
            r#"{"metric":{"__name__":"requests_total","host":"a"},"value":[1699999230.500,"30"]},"#,
            r#"{"metric":{"__name__":"requests_total","host":"b"},"value":[1699999230.500,"15"]}]}}"#
        )
    );
    let rfc3339 = [
        ("query", "sum(requests_total)"),
        ("time", "2023-11-14T22:00:30Z"),
    ];
    let sum = served.read(QUERY, &rfc3339).await.data();
    let expected = json!([{"metric": {}, "value": [1_699_999_230, "45"]}]);
    assert_eq!(sum["result"], expected);
    let none = served.read(QUERY, &[("query", "nothing")]).await;
    assert_eq!(
        none.text(),
        r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#
    );
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn scalars_strings_and_matrices_at_one_time() {
    let served = with_requests(&[]).await;
    let time = seconds(T0 + 500);
    let ask = async |query| {
        let params = [("query", query), ("time", time.as_str())];
        served.read(QUERY, &params).await.data()
    };
    let scalar = json!({"resultType": "scalar", "result": [1_699_999_200.5, "2.5"]});
    assert_eq!(ask("2 + 0.5").await, scalar);
    let text = json!({"resultType": "string", "result": [1_699_999_200.5, "a\"b"]});
    assert_eq!(ask("\"a\\\"b\"").await, text);
    let matrix = ask("requests_total{host=\"a\"}[1m]").await;
    assert_eq!(matrix["resultType"], "matrix");
    let metric = json!({"__name__": "requests_total", "host": "a"});
    let expected = json!([{"metric": metric, "values": [[1_699_999_200, "0"]]}]);
    assert_eq!(matrix["result"], expected);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges() {
    let served = with_requests(&[]).await;
    let (start, end) = (seconds(T0 + 500), seconds(T0 + 60_500));
    for step in ["30", "30s", "3e1", "30000ms"] {
        let params = [
            ("query", "requests_total"),
            ("start", &start),
            ("end", &end),
            ("step", step),
        ];
        let answer = served.read(RANGE, &params).await;
        assert_eq!(
            answer.text(),
            concat!(
                r#"{"status":"success","data":{"resultType":"matrix","result":["#,
                r#"{"metric":{"__name__":"requests_total","host":"a"},"values":["#,
                r#"[1699999200.500,"0"],[1699999230.500,"30"],[1699999260.500,"60"]]},"#,
                r#"{"metric":{"__name__":"requests_total","host":"b"},"values":["#,
                r#"[1699999200.500,"0"],[1699999230.500,"15"],[1699999260.500,"30"]]}]}}"#
            )
        );
    }
    let params = [("query", "1"), ("start", "0"), ("end", "1"), ("step", "1")];
    let scalar = served.read(RANGE, &params).await.data();
    let expected = json!([{"metric": {}, "values": [[0, "1"], [1, "1"]]}]);
    assert_eq!(scalar["result"], expected);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn native_histograms() {
    let served = with_requests(&[]).await;
    let time = seconds(T0);
    let params = [("query", "latency"), ("time", &time)];
    let metric = json!({"__name__": "latency", "host": "a"});
    let three = json!({
        "count": "3", "sum": "0", "buckets": [[3, "-0.001", "0.001", "3"]],
    });
    let vector = served.read(QUERY, &params).await.data();
    let expected = json!([{"metric": metric, "histogram": [1_699_999_200, three]}]);
    assert_eq!(vector["result"], expected);
    let end = seconds(T0 + 15_000);
    let params = [
        ("query", "latency"),
        ("start", &time),
        ("end", &end),
        ("step", "15"),
    ];
    let matrix = served.read(RANGE, &params).await.data();
    let series = &matrix["result"][0];
    assert_eq!(series["metric"], metric);
    assert_eq!(series.get("values"), None);
    assert_eq!(series["histograms"][0], json!([1_699_999_200, three]));
    assert_eq!(series["histograms"][1][1]["count"], "5");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_cut_with_a_warning() {
    let served = with_requests(&[]).await;
    let time = seconds(T0);
    for (limit, count, truncated) in [("1", 1, true), ("2", 2, false), ("0", 2, false)] {
        let common = [("query", "requests_total"), ("limit", limit)];
        let instant = [&common[..], &[("time", &time)]].concat();
        let range = [("start", &*time), ("end", &time), ("step", "1")];
        let range = [&common[..], &range].concat();
        for (path, params) in [(QUERY, instant), (RANGE, range)] {
            let json = served.read(path, &params).await.json();
            let found = json["data"]["result"].as_array().unwrap().len();
            assert_eq!(found, count, "{path} {limit}");
            let warnings = if truncated {
                json!(["results truncated due to limit"])
            } else {
                Value::Null
            };
            assert_eq!(json["warnings"], warnings, "{path} {limit}");
        }
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lookback_is_a_setting_and_a_parameter() {
    let served = with_requests(&[("query.lookback_delta", "1m")]).await;
    // The last sample is 90 s old.
    let time = seconds(T0 + 390_000);
    let count = async |lookback: &[(&str, &str)]| {
        let params = [("query", "requests_total"), ("time", time.as_str())];
        let params = [&params[..], lookback].concat();
        let data = served.read(QUERY, &params).await.data();
        data["result"].as_array().unwrap().len()
    };
    assert_eq!(count(&[]).await, 0);
    assert_eq!(count(&[("lookback_delta", "2m")]).await, 2);
    assert_eq!(count(&[("lookback_delta", "120.5")]).await, 2);
    assert_eq!(count(&[("lookback_delta", "30s")]).await, 0);
    assert_eq!(count(&[("lookback_delta", "0")]).await, 0);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_and_plan() {
    let served = with_requests(&[]).await;
    let (start, end) = (seconds(T0), seconds(T0 + 30_000));
    let ask = async |more: &[(&str, &str)]| {
        let params = [
            ("query", "sum(requests_total)"),
            ("start", start.as_str()),
            ("end", end.as_str()),
            ("step", "15"),
        ];
        let params = [&params[..], more].concat();
        served.get(RANGE, &params).await.data()
    };
    let plain = ask(&[]).await;
    assert_eq!((plain.get("stats"), plain.get("explain")), (None, None));
    let all = ask(&[("stats", "all")]).await;
    let timings = all["stats"]["timings"].as_object().unwrap();
    let names: Vec<_> = timings.keys().map(String::as_str).collect();
    let mut expected = [
        "evalTotalTime",
        "resultSortTime",
        "queryPreparationTime",
        "innerEvalTime",
        "execQueueTime",
        "execTotalTime",
    ];
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert!(timings.values().all(Value::is_number));
    let samples = &all["stats"]["samples"];
    let per_step = json!([[1_699_999_200, 2], [1_699_999_215, 2], [1_699_999_230, 2]]);
    assert_eq!(samples["totalQueryableSamplesPerStep"], per_step);
    assert_eq!(samples["totalQueryableSamples"], 6);
    assert_eq!(samples["samplesReadPerStep"], per_step);
    assert_eq!(samples["samplesRead"], 6);
    assert!(samples["peakSamples"].as_u64().unwrap() > 0, "{samples}");
    let some = ask(&[("stats", "true")]).await;
    let samples = &some["stats"]["samples"];
    assert_eq!(samples.get("totalQueryableSamplesPerStep"), None);
    assert_eq!(samples.get("samplesReadPerStep"), None);
    assert_eq!(samples["samplesRead"], 6);
    assert_eq!(samples["totalQueryableSamples"], 6);
    let explained = ask(&[("explain", "true")]).await;
    let plan = explained["explain"].as_str().unwrap();
    assert!(plan.contains("requests_total"), "{plan}");
    assert!(plan.contains(" series, 6 samples]"), "{plan}");
    assert_eq!(explained["result"], plain["result"]);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_have_their_place() {
    let served = with_requests(&[]).await;
    let time = seconds(T0 + 60_000);
    let query = "rate(requests_total[1m]) + quantile(2, requests_total) + rate(latency[1m])";
    let ask = async |query| {
        let params = [("query", query), ("time", time.as_str())];
        served.read(QUERY, &params).await.json()
    };
    let json = ask(query).await;
    let warnings = json["warnings"].as_array().unwrap();
    let expected = "PromQL warning: quantile value should be between 0 and 1, got 2 (1:37)";
    assert!(warnings.contains(&json!(expected)), "{warnings:?}");
    let json = ask("rate(latency_like[1m]) or rate(requests_total[1m] offset -1s)").await;
    assert_eq!(json.get("infos"), None, "{json}");
    let samples = [(T0 + 15_000, 1.0), (T0 + 30_000, 2.0)];
    served
        .write(&Payload::v1(&[series("gauge", &[], &samples)]))
        .await;
    let json = ask("rate(gauge[1m])").await;
    let info = "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"gauge\" (1:6)";
    assert_eq!(json["infos"], json!([info]));
    for (stats, warning) in [
        ("true", Value::Null),
        (
            "some",
            json!([
                "value \"some\" for parameter \"stats\" is deprecated and will be rejected in the next major release, use \"true\" or \"all\""
            ]),
        ),
    ] {
        let params = [("query", "1"), ("time", time.as_str()), ("stats", stats)];
        // Statistics differ from request to request.
        let json = served.get(QUERY, &params).await.json();
        assert_eq!(json["warnings"], warning, "{json}");
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_are_wrong() {
    let served = TestServer::start(&[]).await;
    let range = |start, end, step| {
        vec![
            ("query", "up"),
            ("start", start),
            ("end", end),
            ("step", step),
        ]
    };
    let with = |name, value| [range("0", "1", "1"), vec![(name, value)]].concat();
    for (path, params, message) in [
        (
            QUERY,
            vec![("query", "up"), ("time", "yesterday")],
            "invalid parameter \"time\": invalid time value for 'time': cannot parse \"yesterday\" to a valid timestamp",
        ),
        (
            QUERY,
            vec![("query", "up"), ("timeout", "soon")],
            "invalid parameter \"timeout\": cannot parse \"soon\" to a valid duration",
        ),
        (
            QUERY,
            vec![("query", "up"), ("limit", "-1")],
            "invalid parameter \"limit\": limit must be non-negative",
        ),
        (
            RANGE,
            range("", "1", "1"),
            "invalid parameter \"start\": cannot parse \"\" to a valid timestamp",
        ),
        (
            RANGE,
            range("0", "x", "1"),
            "invalid parameter \"end\": cannot parse \"x\" to a valid timestamp",
        ),
        (
            RANGE,
            range("2", "1", "1"),
            "invalid parameter \"end\": end timestamp must not be before start time",
        ),
        (
            RANGE,
            range("0", "1", ""),
            "invalid parameter \"step\": cannot parse \"\" to a valid duration",
        ),
        (
            RANGE,
            range("0", "1", "-1"),
            "invalid parameter \"step\": zero or negative query resolution step widths are not accepted. Try a positive integer",
        ),
        (
            RANGE,
            range("0", "11001", "1"),
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
        ),
        (
            RANGE,
            with("lookback_delta", "far"),
            "error parsing lookback delta duration: cannot parse \"far\" to a valid duration",
        ),
    ] {
        let answer = served.read(path, &params).await;
        assert_eq!(answer.error(400, "bad_data"), message);
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_that_are_wrong() {
    let served = with_requests(&[]).await;
    let time = seconds(T0);
    let at = ("time", time.as_str());
    let wrong = served.read(QUERY, &[("query", "sum(")]).await;
    let message = wrong.error(400, "bad_data");
    let begin = "invalid parameter \"query\": 1:5: parse error: ";
    assert!(message.starts_with(begin), "{message}");
    let none = served.read(QUERY, &[]).await.error(400, "bad_data");
    assert!(none.starts_with("invalid parameter \"query\": "), "{none}");
    let range = [
        ("query", "requests_total[5m]"),
        ("start", "0"),
        ("end", "1"),
        ("step", "1"),
    ];
    let message = served.read(RANGE, &range).await.error(400, "bad_data");
    assert_eq!(
        message,
        "invalid parameter \"query\": invalid expression type \"range vector\" for range query, must be Scalar or instant Vector"
    );
    let duplicate = "requests_total + on() requests_total";
    let answer = served.read(QUERY, &[("query", duplicate), at]).await;
    let message = answer.error(422, "execution");
    assert!(
        message.contains("many-to-many matching not allowed"),
        "{message}"
    );
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn extreme_times_are_answered() {
    let served = with_requests(&[]).await;
    let ends = [
        "-292273086-05-16T16:47:06Z",
        "292277025-08-18T07:12:54.999999999Z",
        "-9223372036854",
        "9223372036854",
        "0",
    ];
    for time in ends {
        for query in [
            "requests_total",
            "rate(requests_total[1y] offset 100y)",
            "time()",
        ] {
            let params = [("query", query), ("time", time)];
            let answer = served.read(QUERY, &params).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let range = [
                ("query", query),
                ("start", time),
                ("end", time),
                ("step", "1y"),
            ];
            let answer = served.read(RANGE, &range).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn eleven_thousand_steps_are_allowed() {
    let served = TestServer::start(&[]).await;
    let params = [
        ("query", "time()"),
        ("start", "0"),
        ("end", "11000"),
        ("step", "1"),
    ];
    let data = served.read(RANGE, &params).await.data();
    let values = data["result"][0]["values"].as_array().unwrap();
    assert_eq!(values.len(), 11_001);
    assert_eq!(values[11_000], json!([11_000, "11000"]));
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_a_query_are_named() {
    let served = with_requests(&[("query.max_samples", "10")]).await;
    let (start, end) = (seconds(T0), seconds(T0 + 300_000));
    let params = [
        ("query", "requests_total"),
        ("start", &start),
        ("end", &end),
        ("step", "1"),
    ];
    let message = served.read(RANGE, &params).await.error(422, "execution");
    let expected = "query processing would load too many samples into memory";
    assert!(message.starts_with(expected), "{message}");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_the_process_is_now() {
    let served = TestServer::start(&[]).await;
    let before = now();
    let data = served.get(QUERY, &[("query", "time()")]).await.data();
    let shown: f64 = data["result"][1].as_str().unwrap().parse().unwrap();
    assert!((before..=now()).contains(&shown), "{shown}");
    served.stop().await.unwrap();
}

fn now() -> f64 {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    elapsed.expect("after 1970").as_millis() as f64 / 1000.0
}
