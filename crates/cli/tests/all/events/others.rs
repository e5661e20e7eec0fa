//! Programs that are not ours: OpenTelemetry's logs in, DuckDB on the files.

use std::process::Command;

use serde_json::json;

use super::{check_sql, counted, files_in, flush, now_ms, order, path_text, post, register, serve};
use crate::otlp::python_has;
use crate::served::{Workplace, free_address};

const LOGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/events/otlp_logs.py");

fn check_logs(protocol: &str) {
    if !python_has(&format!(
        "opentelemetry.sdk._logs, opentelemetry.exporter.otlp.proto.{protocol}"
    )) {
        return;
    }
    let workplace = Workplace::new();
    let grpc = free_address().to_string();
    let served = serve(
        &workplace,
        &["--otlp.grpc.listen", &grpc, "--events.otlp-logs", "events"],
    );
    register(&workplace, &served);
    let endpoint = match protocol {
        "http" => format!("http://{}/v1/logs", served.address().expect("it listens")),
        _ => format!("http://{grpc}"),
    };
    // The same again is recognised.
    for _ in 0..2 {
        let output = Command::new("python3")
            .args([LOGS, protocol, &endpoint])
            .output()
            .expect("python3 is there");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
    }
    let mut client = served.client();
    let now_ms = now_ms();
    let (count, _) = counted(&mut client, "1m", now_ms - 3_600_000, now_ms + 60_000);
    assert_eq!(count, 2, "{protocol}");
    let trace = "0123456789abcdef0123456789abcdef";
    check_sql(
        &mut client,
        r#"SELECT "attr.order.channel" AS channel, trace_id FROM shop."order.placed" ORDER BY 1"#,
        &[
            json!({"channel": "app", "trace_id": null}),
            json!({"channel": "web", "trace_id": trace}),
        ],
    );
}

#[test]
fn events_of_opentelemetry_over_http() {
    check_logs("http");
}

#[test]
fn events_of_opentelemetry_over_grpc() {
    check_logs("grpc");
}

#[test]
fn logs_are_not_taken_unless_asked_for() {
    let workplace = Workplace::new();
    let served = serve(&workplace, &[]);
    let answer = post(&mut served.client(), "/v1/logs", &json!({}), 404);
    let message = answer["message"].as_str().expect("a message");
    assert!(message.contains("events.otlp_logs"), "{message}");
}

#[test]
fn duckdb_reads_the_files() {
    if !python_has("duckdb") {
        return;
    }
    let workplace = Workplace::new();
    let served = serve(&workplace, &["--events.seal-interval", "1s"]);
    register(&workplace, &served);
    let at_ms = now_ms() - 60_000;
    let batch: Vec<_> = (0..50).map(|number| order(number, at_ms)).collect();
    post(
        &mut served.client(),
        "/events/publish/batch",
        &json!(batch),
        202,
    );
    flush(&mut served.client());
    let mut files = Vec::new();
    served.wait_until("no file", || {
        files = files_in(&workplace.path("data"));
        !files.is_empty()
    });
    let script = "import duckdb, sys\n\
        query = 'SELECT count(*), count(DISTINCT event_id), sum(\"attr.order.items\"), min(service_id), min(event_type) FROM read_parquet(?)'\n\
        print(duckdb.execute(query, [sys.argv[1:]]).fetchone())";
    let output = Command::new("python3")
        .args(["-c", script])
        .args(files.iter().map(|file| path_text(file)))
        .output()
        .expect("python3 is there");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let items: u64 = (0..50).map(|number| number % 7).sum();
    let expected = format!("(50, 50, {items}, 'shop', 'order.placed')\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
