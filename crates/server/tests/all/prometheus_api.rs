//! The rest of Prometheus' API: rules, features, blocks, searches, notices, the prefix, and the
//! requests of Grafana's data source.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::client::{Answer, Connection, encoded, request};
use crate::payload::{Payload, T0, series};
use crate::scraper::{Scraper, one_job};
use crate::served::{TestServer, until};

const LIVE: &str = "/api/v1/notifications/live";

/// A server with a few metrics around now, so that a search without times finds them.
async fn with_metrics() -> TestServer {
    let served = TestServer::start(&[]).await;
    // Before the last whole second, up to which queries ask.
    let now = now_ms() - 5000;
    let payload = Payload::v1(&[
        series("http_requests_total", &[("job", "api")], &[(now, 1.0)]),
        series("http_errors_total", &[("job", "web")], &[(now, 1.0)]),
        series("node_load1", &[("instance", "a:9100")], &[(now, 1.0)]),
        series("Up", &[("Job", "api")], &[(now, 1.0)]),
        series("old", &[("gone", "x")], &[(T0, 1.0)]),
    ])
    .with_metadata("http_requests_total", 1, "Requests.", "");
    assert_eq!(served.write(&payload).await.status, 204);
    served
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap().as_millis()).unwrap()
}

/// The lines of a search.
fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.complete);
    let expected = Some("application/x-ndjson; charset=utf-8");
    assert_eq!(answer.header("content-type"), expected);
    let lines = answer.text().lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The texts that a search finds, and whether there are more.
fn found(answer: &Answer, key: &str) -> (Vec<String>, bool) {
    let mut lines = lines(answer);
    let end = lines.pop().unwrap();
    assert_eq!(end["status"], "success");
    let results = lines
        .iter()
        .flat_map(|line| line["results"].as_array().unwrap());
    let texts = results.map(|result| result[key].as_str().unwrap().to_owned());
    (texts.collect(), end["has_more"].as_bool().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_find_what_people_type() {
    let served = with_metrics().await;
    let names = "/api/v1/search/metric_names";
    let ask = async |params: &[(&str, &str)]| found(&served.read(names, params).await, "name");
    let all = [
        "Up",
        "http_errors_total",
        "http_requests_total",
        "node_load1",
    ];
    assert_eq!(ask(&[]).await, (all.map(str::to_owned).to_vec(), false));
    for (params, expected, has_more) in [
        (vec![("search[]", "http")], vec![all[1], all[2]], false),
        // All letters, in their order.
        (vec![("search[]", "hrqt")], vec![all[2]], false),
        (
            vec![("search[]", "hrqt"), ("fuzz_threshold", "90")],
            vec![],
            false,
        ),
        (vec![("search[]", "up")], vec![], false),
        (
            vec![("search[]", "up"), ("case_sensitive", "false")],
            vec![all[0]],
            false,
        ),
        (
            vec![("search[]", "load"), ("search[]", "errors")],
            vec![all[1], all[3]],
            false,
        ),
        (
            vec![("search[]", "errors"), ("fuzz_alg", "jarowinkler")],
            vec![all[1]],
            false,
        ),
        (vec![("limit", "2")], vec![all[0], all[1]], true),
        (vec![("limit", "4")], all.to_vec(), false),
        (
            vec![("sort_by", "alpha"), ("sort_dir", "dsc"), ("limit", "1")],
            vec![all[3]],
            true,
        ),
        (
            vec![("sort_by", "score"), ("search[]", "to"), ("limit", "1")],
            vec![all[1]],
            true,
        ),
        (
            vec![("match[]", "{job=~\".+\"}")],
            vec![all[1], all[2]],
            false,
        ),
        (
            vec![
                ("start", "0"),
                ("search[]", "old"),
                ("fuzz_threshold", "99"),
            ],
            vec!["old"],
            false,
        ),
    ] {
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(ask(&params).await, (expected, has_more), "{params:?}");
    }
    let labels = served.read("/api/v1/search/label_names", &[("search[]", "ob")]);
    assert_eq!(found(&labels.await, "name").0, ["Job", "job"]);
    let values = [("label", "job"), ("sort_by", "alpha"), ("sort_dir", "dsc")];
    let values = served.read("/api/v1/search/label_values", &values).await;
    assert_eq!(found(&values, "value").0, ["web", "api"]);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_answer_in_batches_with_scores() {
    let served = with_metrics().await;
    let names = "/api/v1/search/metric_names";
    let params = [("batch_size", "3"), ("search[]", "")];
    let batches = lines(&served.read(names, &params).await);
    let sizes: Vec<_> = batches
        .iter()
        .map(|line| line["results"].as_array().map(Vec::len))
        .collect();
    assert_eq!(sizes, [Some(3), Some(1), None]);
    // A client sees a line of results even if there is none.
    let none = lines(&served.read(names, &[("search[]", "zz")]).await);
    let end = json!({"status": "success", "has_more": false});
    assert_eq!(none, [json!({"results": []}), end]);
    let params = [
        ("search[]", "http_r"),
        ("search[]", "requests"),
        ("fuzz_threshold", "99"),
        ("include_score", "true"),
        ("include_metadata", "1"),
    ];
    let answer = served.read(names, &params).await;
    let expected = json!({"results": [
        {"name": "http_requests_total", "score": 1, "type": "counter", "help": "Requests."},
    ]});
    assert_eq!(lines(&answer)[0], expected);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_refuse_what_prometheus_refuses() {
    let served = with_metrics().await;
    let many = vec![("search[]", "a"); 33];
    for (params, message) in [
        (
            vec![("start", "x")],
            "invalid time value for 'start': cannot parse \"x\" to a valid timestamp",
        ),
        (
            vec![("start", "2"), ("end", "1")],
            "end timestamp must not be before start timestamp",
        ),
        (
            vec![("match[]", "{}")],
            "match[] must contain at least one non-empty matcher",
        ),
        (many, "too many search[] terms: got 33, maximum is 32"),
        (
            vec![("fuzz_threshold", "101")],
            "invalid fuzz_threshold \"101\": must be 0-100",
        ),
        (
            vec![("fuzz_alg", "x")],
            "unsupported fuzz_alg \"x\": must be one of [subsequence jarowinkler]",
        ),
        (
            vec![("case_sensitive", "x")],
            "invalid case_sensitive \"x\": must be boolean",
        ),
        (
            vec![("include_score", "x")],
            "invalid include_score \"x\": must be boolean",
        ),
        (
            vec![("include_metadata", "x")],
            "invalid include_metadata \"x\": must be boolean",
        ),
        (
            vec![("sort_dir", "asc")],
            "sort_dir is only valid when sort_by is set",
        ),
        (
            vec![("sort_by", "score"), ("sort_dir", "asc")],
            "sort_dir is not supported for sort_by=score",
        ),
        (
            vec![("sort_by", "alpha"), ("sort_dir", "x")],
            "invalid sort_dir \"x\": must be \"asc\" or \"dsc\"",
        ),
        (
            vec![("sort_by", "score")],
            "sort_by=score requires search[] to be set",
        ),
        (
            vec![("sort_by", "x")],
            "invalid sort_by \"x\" for metric_names: must be \"alpha\" or \"score\"",
        ),
        (
            vec![("limit", "0")],
            "invalid limit \"0\": must be a positive integer",
        ),
        (
            vec![("limit", "10001")],
            "limit 10001 exceeds the configured maximum (10000, see --web.search.max-limit)",
        ),
        (
            vec![("batch_size", "-1")],
            "invalid batch_size \"-1\": must be a positive integer",
        ),
    ] {
        let answer = served.read("/api/v1/search/metric_names", &params).await;
        assert_eq!(answer.error(400, "bad_data"), message, "{params:?}");
    }
    let missing = served.read("/api/v1/search/label_values", &[]).await;
    let message = missing.error(400, "bad_data");
    assert_eq!(message, "missing required parameter \"label\"");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_obeys_the_memory_of_queries() {
    let served = TestServer::start(&[("query.max_memory", "1MiB")]).await;
    let long = "x".repeat(400);
    for some in 0..4 {
        let hosts: Vec<String> = (0..1000).map(|n| format!("{some}-{n:04}-{long}")).collect();
        let wide: Vec<_> = hosts
            .iter()
            .map(|host| series("wide", &[("host", host)], &[(T0, 1.0)]))
            .collect();
        assert_eq!(served.write(&Payload::v1(&wide)).await.status, 204);
    }
    let path = "/api/v1/search/label_values";
    let few = [
        ("label", "host"),
        ("match[]", "wide{host=~\"0-000.*\"}"),
        ("start", "0"),
    ];
    assert_eq!(found(&served.read(path, &few).await, "value").0.len(), 10);
    let all = [("label", "host"), ("match[]", "wide"), ("start", "0")];
    let message = served.read(path, &all).await.error(422, "execution");
    assert!(message.contains("query.max_memory"), "{message}");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_rules_and_parameters_are_checked() {
    let served = TestServer::start(&[]).await;
    let rules = "/api/v1/rules";
    let empty = json!({"groups": []});
    assert_eq!(served.get(rules, &[]).await.data(), empty);
    let narrowed = [
        ("type", "Alert"),
        ("rule_name[]", "a"),
        ("rule_group[]", "b"),
        ("file[]", "c"),
        ("match[]", "{a=\"b\"}"),
        ("exclude_alerts", "true"),
        ("group_limit", "5"),
    ];
    assert_eq!(served.get(rules, &narrowed).await.data(), empty);
    for (params, message) in [
        (
            vec![("type", "x")],
            "invalid parameter \"type\": not supported value \"x\"",
        ),
        (
            vec![("match[]", "{}")],
            "match[] must contain at least one non-empty matcher",
        ),
        (
            vec![("exclude_alerts", "x")],
            "invalid parameter \"exclude_alerts\": error converting exclude_alerts: strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
        (
            vec![("group_next_token", "x")],
            "invalid parameter \"group_next_token\": group_limit needs to be present in order to paginate over the groups",
        ),
        (
            vec![("group_limit", "x")],
            "invalid parameter \"group_limit\": group_limit needs to be a valid number: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            vec![("group_limit", "4294967296")],
            "invalid parameter \"group_limit\": group_limit needs to be a valid number: strconv.ParseInt: parsing \"4294967296\": value out of range",
        ),
        (
            vec![("group_limit", "0")],
            "invalid parameter \"group_limit\": group_limit needs to be greater than 0",
        ),
        (
            vec![("group_limit", "1"), ("group_next_token", "x")],
            "invalid parameter \"group_next_token\": invalid group_next_token 'x'. were rule groups changed?",
        ),
    ] {
        let answer = served.get(rules, &params).await;
        assert_eq!(answer.error(400, "bad_data"), message, "{params:?}");
    }
    let alerts = served.get("/api/v1/alerts", &[]).await.data();
    assert_eq!(alerts, json!({"alerts": []}));
    let managers = served.get("/api/v1/alertmanagers", &[]).await.data();
    let none = json!({"activeAlertmanagers": [], "droppedAlertmanagers": []});
    assert_eq!(managers, none);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn features_have_prometheus_names() {
    let served = TestServer::start(&[]).await;
    let features = served.get("/api/v1/features", &[]).await.data();
    for (category, name, expected) in [
        ("api", "search", true),
        ("api", "openapi_3.1", true),
        ("prometheus", "server_mode", true),
        ("prometheus", "agent_mode", false),
        ("promql", "duration_expr", true),
        ("promql_functions", "rate", true),
        ("promql_functions", "info", true),
        ("promql_operators", "limit_ratio", true),
        ("promql_operators", ">=", true),
        ("rules", "keep_firing_for", false),
        ("otlp_receiver", "delta_conversion", true),
    ] {
        assert_eq!(features[category][name], expected, "{category} {name}");
    }
    let all = features.as_object().unwrap().values();
    for category in all {
        let names = category.as_object().unwrap();
        assert!(names.values().all(Value::is_boolean), "{category}");
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_look_like_blocks() {
    let served = TestServer::start(&[]).await;
    let path = "/api/v1/status/tsdb/blocks";
    let blocks = async || served.get(path, &[]).await.data()["blocks"].clone();
    assert_eq!(blocks().await, json!([]));
    let payload = Payload::v1(&[series("up", &[], &[(T0, 1.0), (T0 + 1000, 1.0)])]);
    served.write(&payload).await;
    served.request("POST", "/-/flush", &[], b"").await;
    let blocks = blocks().await;
    let [block] = &blocks.as_array().unwrap()[..] else {
        panic!("{blocks}");
    };
    let id = block["ulid"].as_str().unwrap();
    assert_eq!(id.len(), 26);
    let (start, end) = (
        block["minTime"].as_i64().unwrap(),
        block["maxTime"].as_i64().unwrap(),
    );
    assert!((start..end).contains(&T0), "{block}");
    assert_eq!(block["stats"], json!({"numSamples": 2, "numSeries": 1}));
    assert_eq!(block["version"], 1);
    let compaction = &block["compaction"];
    assert!(compaction["level"].as_i64().unwrap() >= 1, "{block}");
    assert_eq!(compaction["sources"], json!([id]));
    assert_eq!(compaction["deletable"], false);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_the_process_as_json() {
    let served = TestServer::start(&[]).await;
    let path = "/api/v1/status/self_metrics";
    let all = served.get(path, &[]).await.data();
    let names: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|family| family["name"].as_str().unwrap())
        .collect();
    assert!(names.is_sorted(), "{names:?}");
    let page = served.get("/metrics", &[]).await;
    let families = page
        .text()
        .lines()
        .filter(|line| line.starts_with("# TYPE "));
    assert_eq!(names.len(), families.count());
    let pattern = [("metric_name_pattern", "icecore_build_.*")];
    let one = served.get(path, &pattern).await.data();
    let version = json!({"name": "version", "value": env!("CARGO_PKG_VERSION")});
    let expected = json!([{
        "name": "icecore_build_info",
        "help": "Always 1; the label says which program this is.",
        "type": "GAUGE",
        "metric": [{"label": [version], "gauge": {"value": 1.0}}],
    }]);
    assert_eq!(one, expected);
    // Whole names are matched.
    let part = [("metric_name_pattern", "build")];
    assert_eq!(served.get(path, &part).await.data(), json!([]));
    let histogram = [(
        "metric_name_pattern",
        "icecore_http_request_duration_seconds",
    )];
    let histogram = served.get(path, &histogram).await.data();
    let first = &histogram[0]["metric"][0]["histogram"];
    assert!(first["sampleCount"].is_string(), "{histogram}");
    let wrong = served.get(path, &[("metric_name_pattern", "(")]).await;
    let message = wrong.error(400, "bad_data");
    assert!(
        message.starts_with("invalid metric_name_pattern: "),
        "{message}"
    );
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_and_what_it_makes_of_labels() {
    let keys = "params: {token: [hidden]}\nrelabel_configs:\n\
        - {source_labels: [__address__], regex: '(.+):.*', target_label: instance}\n\
        - {source_labels: [instance], regex: b, action: drop}\n\
        - {target_label: zone, replacement: x}\n";
    let scraper = Scraper::start(&one_job(&["127.0.0.1:1".into()], keys)).await;
    let served = &scraper.served;
    let config = "/api/v1/scrape_pools/config";
    let of_job = served.get(config, &[("scrapePool", "test")]).await.data();
    let yaml = of_job["yaml"].as_str().unwrap();
    assert!(yaml.starts_with("job_name: test\n"), "{yaml}");
    assert!(
        yaml.contains("<secret>") && !yaml.contains("hidden"),
        "{yaml}"
    );
    let steps = "/api/v1/targets/relabel_steps";
    let ask = async |labels: &str| {
        let params = [("scrapePool", "test"), ("labels", labels)];
        served.get(steps, &params).await.data()["steps"].clone()
    };
    let kept = ask(r#"{"__address__": "a:9100"}"#).await;
    let rule = json!({
        "source_labels": ["__address__"],
        "separator": ";",
        "regex": "(.+):.*",
        "target_label": "instance",
        "replacement": "$1",
        "action": "replace",
    });
    let output = json!({"__address__": "a:9100", "instance": "a"});
    assert_eq!(
        kept[0],
        json!({"rule": rule, "output": output, "keep": true})
    );
    assert_eq!(kept[2]["output"]["zone"], "x");
    let dropped = ask(r#"{"__address__": "b:9100"}"#).await;
    let keeps = [
        &dropped[0]["keep"],
        &dropped[1]["keep"],
        &dropped[2]["keep"],
    ];
    assert_eq!(keeps, [true, false, false]);
    assert_eq!(dropped[2]["output"], json!({}));
    for (path, params, message) in [
        (config, vec![], "no scrapePool parameter provided"),
        (
            config,
            vec![("scrapePool", "x")],
            "error retrieving scrape config: scrape pool \"x\" not found",
        ),
        (steps, vec![], "no scrapePool parameter provided"),
        (
            steps,
            vec![("scrapePool", "test")],
            "no labels parameter provided",
        ),
        (
            steps,
            vec![("scrapePool", "x"), ("labels", "{}")],
            "error retrieving scrape config: scrape pool \"x\" not found",
        ),
    ] {
        let answer = served.get(path, &params).await;
        assert_eq!(answer.error(400, "bad_data"), message, "{params:?}");
    }
    let wrong = [("scrapePool", "test"), ("labels", "[]")];
    let message = served.get(steps, &wrong).await.error(400, "bad_data");
    assert!(message.starts_with("error parsing labels: "), "{message}");
    // A reload changes what is shown.
    let other = one_job(&["127.0.0.1:1".into()], "metrics_path: /other\n");
    assert_eq!(scraper.reload(&other).await.status, 200);
    let after = scraper.served.get(config, &[("scrapePool", "test")]).await;
    let yaml = after.data()["yaml"].as_str().unwrap().to_owned();
    assert!(yaml.contains("/other"), "{yaml}");
    scraper.served.stop().await.unwrap();
}

/// The next event of a stream. Comments are skipped.
async fn next_event(connection: &mut Connection, rest: &mut String) -> Value {
    loop {
        if let Some((event, after)) = rest.split_once("\n\n") {
            let data = event.strip_prefix("data: ").map(str::to_owned);
            *rest = after.to_owned();
            match data {
                Some(data) => return serde_json::from_str(&data).unwrap(),
                None => continue,
            }
        }
        let mut bytes = Vec::new();
        let length = connection.chunk(&mut bytes).await;
        assert!(length.is_some_and(|length| length > 0), "the stream ended");
        rest.push_str(std::str::from_utf8(&bytes).unwrap());
    }
}

async fn listen(served: &TestServer) -> (Connection, u16, HashMap<String, String>) {
    let mut connection = Connection::open(served.address).await;
    // Compression would hold events back.
    let headers = [("Accept-Encoding", "gzip")];
    connection.send(&request("GET", LIVE, &headers, b"")).await;
    let (status, headers) = connection.head().await.unwrap();
    (connection, status, headers)
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_are_listed_and_sent_as_they_change() {
    let scraper = Scraper::start(&one_job(&["127.0.0.1:1".into()], "")).await;
    let list = async || {
        let listed = scraper.served.get("/api/v1/notifications", &[]).await;
        listed.data()
    };
    assert_eq!(list().await, json!([]));
    let (mut connection, status, headers) = listen(&scraper.served).await;
    assert_eq!(status, 200);
    assert_eq!(headers["content-type"], "text/event-stream");
    assert_eq!(headers["cache-control"], "no-cache");
    assert!(!headers.contains_key("content-encoding"), "{headers:?}");
    assert_eq!(
        scraper.reload("scrape_configs: nonsense\n").await.status,
        500
    );
    let mut rest = String::new();
    let event = next_event(&mut connection, &mut rest).await;
    assert_eq!(event["text"], "Configuration reload has failed.");
    assert_eq!(event["active"], true);
    let listed = list().await;
    assert_eq!(listed, json!([event]));
    // A client that comes later hears what holds.
    let (mut later, _, _) = listen(&scraper.served).await;
    assert_eq!(next_event(&mut later, &mut String::new()).await, event);
    let right = one_job(&["127.0.0.1:1".into()], "");
    assert_eq!(scraper.reload(&right).await.status, 200);
    let event = next_event(&mut connection, &mut rest).await;
    assert_eq!(event["active"], false);
    assert_eq!(list().await, json!([]));
    // A stop tells its clients, ends their streams, and does not wait for them.
    let stopping = tokio::spawn(scraper.served.stop());
    let event = next_event(&mut connection, &mut rest).await;
    let text = event["text"].as_str().unwrap();
    assert!(text.contains("shutting down"), "{text}");
    let mut end = Vec::new();
    connection.chunks(&mut end).await.expect("a whole stream");
    stopping.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_clients_may_listen() {
    let served = TestServer::start(&[]).await;
    let mut listening = Vec::new();
    for _ in 0..16 {
        let (connection, status, _) = listen(&served).await;
        assert_eq!(status, 200);
        listening.push(connection);
    }
    assert_eq!(listen(&served).await.1, 204);
    // One that goes leaves its place.
    listening.pop();
    let status = async || listen(&served).await.1;
    until(status, |status| *status == 200, "a free place").await;
    drop(listening);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_below_mimirs_prefix_too() {
    let served = with_metrics().await;
    let now = (now_ms() / 1000).to_string();
    for (path, params) in [
        (
            "/api/v1/query",
            vec![("query", "node_load1"), ("time", &*now)],
        ),
        ("/api/v1/labels", vec![]),
        ("/api/v1/label/job/values", vec![]),
        ("/api/v1/series", vec![("match[]", "node_load1")]),
    ] {
        let own = served.read(path, &params).await;
        let prefixed = served.read(&format!("/prometheus{path}"), &params).await;
        assert_eq!(own.data(), prefixed.data(), "{path}");
    }
    // The rules of the API hold: other sites may read, slashes are mended, methods are checked.
    let origin = [("Origin", "http://grafana.example")];
    let labels = "/prometheus/api/v1/labels";
    let answer = served.request("GET", labels, &origin, b"").await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let preflight = served.request("OPTIONS", labels, &origin, b"").await;
    assert_eq!(preflight.status, 204);
    let slash = served.get("/prometheus/api/v1/labels/", &[]).await;
    assert_eq!(
        (slash.status, slash.header("location")),
        (301, Some(labels))
    );
    let wrong = served.request("DELETE", labels, &[], b"").await;
    assert_eq!(wrong.status, 405);
    // What is not of that API is not there.
    for path in [
        "/prometheus",
        "/prometheus/",
        "/prometheus/metrics",
        "/prometheus/api/v1/export",
    ] {
        assert_eq!(served.get(path, &[]).await.status, 404, "{path}");
    }
    let write = served
        .request("POST", "/prometheus/api/v1/write", &[], b"")
        .await;
    assert_eq!(write.status, 404);
    // Both count as one route.
    let page = served.get("/metrics", &[]).await;
    assert!(!page.text().contains("/prometheus/api"), "{}", page.text());
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_describes_itself() {
    let served = TestServer::start(&[]).await;
    let path = "/api/v1/openapi.yaml";
    for (params, version) in [
        (vec![], "openapi: \"3.1.0\"\n"),
        (vec![("openapi_version", "3.2")], "openapi: \"3.2.0\"\n"),
        (vec![("openapi_version", "3.1.0")], "openapi: \"3.1.0\"\n"),
    ] {
        let answer = served.get(path, &params).await;
        assert_eq!(answer.status, 200);
        let expected = Some("application/yaml; charset=utf-8");
        assert_eq!(answer.header("content-type"), expected);
        assert!(answer.text().starts_with(version), "{params:?}");
        for route in icecore_server::ROUTES {
            let path = route.path.replace("{*", "{");
            let line = format!("  {path:?}:\n");
            assert!(answer.text().contains(&line), "{path}");
        }
        let streams = answer.text().contains("itemSchema");
        assert_eq!(streams, version.contains("3.2"), "{params:?}");
    }
    served.stop().await.unwrap();
}

/// The requests that the Prometheus data source of Grafana sends, at both base URLs: to test the
/// connection, to build queries, to draw a panel, and to list alerts.
#[tokio::test(flavor = "multi_thread")]
async fn grafanas_data_source_gets_what_it_asks_for() {
    let served = with_metrics().await;
    let now = now_ms() / 1000;
    let (start, end) = ((now - 3600).to_string(), now.to_string());
    for base in ["", "/prometheus"] {
        let path = |path: &str| format!("{base}/api/v1/{path}");
        let form = async |name: &str, params: &[(&str, &str)]| {
            served.post_form(&path(name), params).await.data()
        };
        let get = async |name: &str, params: &[(&str, &str)]| {
            served.get(&path(name), params).await.data()
        };
        // "Save & test": which server this is, and whether it computes.
        let build = get("status/buildinfo", &[]).await;
        assert!(
            build["version"].as_str().unwrap().starts_with("3."),
            "{build}"
        );
        assert_eq!(build.get("features").is_some(), !base.is_empty(), "{build}");
        let sum = form("query", &[("query", "1+1"), ("time", &end)]).await;
        assert_eq!(sum["resultType"], "scalar");
        assert_eq!(sum["result"][1], "2");
        // The query builder: metrics with their types, labels, values.
        let metadata = get("metadata", &[("limit", "40000")]).await;
        assert_eq!(metadata["http_requests_total"][0]["type"], "counter");
        let times = [("start", &*start), ("end", &*end)];
        let names = get("label/__name__/values", &times).await;
        assert!(
            names.as_array().unwrap().contains(&"node_load1".into()),
            "{names}"
        );
        let of_metric = [
            ("match[]", "{__name__=\"http_requests_total\"}"),
            ("start", &*start),
            ("end", &*end),
            ("limit", "40000"),
        ];
        assert_eq!(form("labels", &of_metric).await, json!(["__name__", "job"]));
        assert_eq!(get("label/job/values", &of_metric).await, json!(["api"]));
        let found = form("series", &of_metric).await;
        assert_eq!(
            found,
            json!([{"__name__": "http_requests_total", "job": "api"}])
        );
        // A panel, with exemplars.
        let panel = [
            ("query", "sum by(job) (http_requests_total)"),
            ("start", &*start),
            ("end", &*end),
            ("step", "15"),
        ];
        let drawn = form("query_range", &panel).await;
        assert_eq!(drawn["resultType"], "matrix");
        assert_eq!(drawn["result"][0]["metric"], json!({"job": "api"}));
        assert_eq!(form("query_exemplars", &panel[..3]).await, json!([]));
        // Explain and format of the editor.
        let pretty = form("format_query", &[("query", "sum(rate(a[5m]))by(b)")]).await;
        assert_eq!(pretty, "sum by (b) (rate(a[5m]))");
        // Alerting: rules and alerts of the data source.
        assert_eq!(get("rules", &[]).await["groups"], json!([]));
        assert_eq!(get("alerts", &[]).await["alerts"], json!([]));
        let managers = get("alertmanagers", &[]).await;
        assert_eq!(managers["activeAlertmanagers"], json!([]));
        // The status page of the data source's configuration.
        assert!(get("status/config", &[]).await["yaml"].is_string());
        assert!(get("status/flags", &[]).await.is_object());
    }
    served.stop().await.unwrap();
}

/// Ranges that end before they begin.
#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_ends_before_it_begins_is_an_error() {
    let served = with_metrics().await;
    let times = [("start", "2"), ("end", "1"), ("match[]", "up")];
    for path in [
        "/api/v1/series",
        "/api/v1/labels",
        "/api/v1/label/job/values",
        "/prometheus/api/v1/series",
    ] {
        let message = served.read(path, &times).await.error(400, "bad_data");
        let expected = "invalid parameter \"end\": end timestamp must not be before start time";
        assert_eq!(message, expected, "{path}");
    }
    let query = encoded(&[("query", "up"), ("start", "2"), ("end", "1")]);
    let exemplars = format!("/api/v1/query_exemplars?{query}");
    let message = served.get(&exemplars, &[]).await.error(400, "bad_data");
    assert_eq!(message, "end timestamp must not be before start timestamp");
    served.stop().await.unwrap();
}
