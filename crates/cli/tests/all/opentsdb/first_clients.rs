//! Clients that meet a server as the README starts it, without a setting of OpenTSDB's: potsdb,
//! opentsdb-py and Netdata. All they send is stored, and what is refused is in the log.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value as Json, json};

use super::{get, repository, serve, telnet};
use crate::http::Client;
use crate::served::{Serve, TestServer, Workplace, comes_true};

/// The address that documents name. Tests listen on a free port.
const DOCUMENTED: &str = "127.0.0.1:4242";

/// Points of each client.
const POINTS: usize = 300;

/// The time of the first point.
const START: i64 = 1_500_000_000;

/// Begins a line of the log about refused points.
const REFUSED: &str = "points of OpenTSDB clients are refused";

/// Starts what a document says, at a free port.
fn start_as_documented(workplace: &Workplace, document: &str) -> TestServer {
    let text = std::fs::read_to_string(repository(document)).unwrap();
    let command = format!("icecore serve --opentsdb.listen {DOCUMENTED}");
    let (_, rest) = text.split_once(&command).expect("a command");
    let rest = rest.split(['`', '\n']).next().unwrap_or_default();
    let flags = command.replace(DOCUMENTED, "127.0.0.1:0") + rest;
    let flags = flags.split_whitespace().skip(2);
    Serve::new(workplace.path("data"), workplace.path("log"))
        .flags(flags)
        .start()
}

/// Returns `true` if Python has a module; says where it does not.
fn python_has(module: &str, package: &str) -> bool {
    let found = Command::new("python3")
        .args(["-c", &format!("import {module}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        let what = format!("the OpenTSDB client {package}");
        skipped_tests::skip(&what, &format!("pip install {package}"));
    }
    is_there
}

#[track_caller]
fn run_python(served: &TestServer, script: &str) {
    let port = served.opentsdb_address().port();
    let header = format!("PORT, POINTS, START = {port}, {POINTS}, {START}\n");
    let output = Command::new("python3")
        .args(["-c", &(header + script)])
        .output()
        .expect("python3 is there");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// Waits until a metric has the points of one client: 0, 1, 2 … at times one second apart.
#[track_caller]
fn has_all_points(served: &TestServer, metric: &str) {
    let mut client = Client::new(served.opentsdb_address());
    let times = (START..).take(POINTS);
    let expected: Json = times
        .zip(0..)
        .map(|(time, i)| (time.to_string(), json!(i)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let end = START + 3600;
    let path = format!("/api/query?start={START}&end={end}&m=none:{metric}%7Bhost=web01%7D");
    served.wait_until(metric, || {
        let answer = client.get(&path).expect("it lives");
        let found: Json = serde_json::from_str(&answer.text()).unwrap();
        found[0]["dps"] == expected
    });
}

#[track_caller]
fn nothing_is_refused(served: &TestServer) {
    let text = served.client().get("/metrics").unwrap().text();
    let counts = text
        .lines()
        .filter(|line| line.starts_with("icecore_opentsdb_refused_total"));
    let counts: Vec<&str> = counts.collect();
    assert!(counts.len() > 10, "{text}");
    assert!(counts.iter().all(|line| line.ends_with(" 0")), "{counts:?}");
    assert!(!served.log().contains(REFUSED), "{}", served.log());
}

#[test]
fn all_that_potsdb_sends_is_stored() {
    if !python_has("potsdb", "potsdb") {
        return;
    }
    for document in ["README.md", "docs/opentsdb.md"] {
        let workplace = Workplace::new();
        let served = start_as_documented(&workplace, document);
        run_python(
            &served,
            r#"
import potsdb
client = potsdb.Client("127.0.0.1", port=PORT, host_tag="web01")
for i in range(POINTS):
    client.send("potsdb.count", i, timestamp=START + i)
client.wait()
"#,
        );
        has_all_points(&served, "potsdb.count");
        nothing_is_refused(&served);
    }
}

#[test]
fn all_that_opentsdb_py_sends_is_stored() {
    if !python_has("opentsdb", "opentsdb-py") {
        return;
    }
    let workplace = Workplace::new();
    let served = start_as_documented(&workplace, "README.md");
    run_python(
        &served,
        r#"
from opentsdb import TSDBClient, TSDBConnectProtocols
for protocol, compression in [("HTTP", "gzip"), ("HTTP", None), ("TELNET", None)]:
    name = "py.%s.%s" % (protocol, compression)
    client = TSDBClient("127.0.0.1", port=PORT, protocol=protocol,
                        http_compression=compression, static_tags={"host": "web01"},
                        send_metrics_batch_limit=1000)
    assert client.is_alive()
    for i in range(POINTS):
        client.send(name, i, timestamp=START + i)
    client.close()
    client.wait()
    assert client.statuses["success"] == POINTS, client.statuses
    assert client.statuses["failed"] == 0, client.statuses
"#,
    );
    for client in ["HTTP.gzip", "HTTP.None", "TELNET.None"] {
        has_all_points(&served, &format!("py.{client}"));
    }
    nothing_is_refused(&served);
}

/// Returns the path of Netdata, if it is installed.
fn netdata() -> Option<String> {
    let found = Command::new("sh")
        .args(["-c", "PATH=$PATH:/usr/sbin; command -v netdata"])
        .output()
        .ok()
        .filter(|output| output.status.success());
    found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Ends when the value does.
struct Netdata(Child);

impl Netdata {
    /// Starts it with both exporters of OpenTSDB, each with a prefix of its own.
    fn start(program: &str, workplace: &Workplace, port: u16) -> Self {
        let folder = workplace.path("netdata");
        for name in ["etc", "cache", "lib", "log", "none"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        let user = Command::new("id").arg("-un").output().unwrap();
        let user = String::from_utf8_lossy(&user.stdout).trim().to_owned();
        let config = folder.join("etc/netdata.conf");
        std::fs::write(&config, main_config(&folder, &user)).unwrap();
        let exporting = folder.join("etc/exporting.conf");
        std::fs::write(exporting, exporting_config(port)).unwrap();
        let child = Command::new(program)
            .arg("-D")
            .arg("-c")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Netdata {
    /// Ends Netdata in order: its helper process ends with it then.
    fn drop(&mut self) {
        let id = self.0.id().to_string();
        let told = Command::new("sh")
            .args(["-c", &format!("kill -TERM {id}")])
            .status();
        let ends = || matches!(self.0.try_wait(), Ok(Some(_)));
        if !told.is_ok_and(|told| told.success()) || !comes_true(ends) {
            // It may have ended just now.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn main_config(folder: &Path, user: &str) -> String {
    let folder = folder.display();
    format!(
        "[global]
    run as user = {user}
    hostname = web01
[db]
    mode = ram
    retention = 60
    update every = 1
[directories]
    config = {folder}/etc
    stock config = {folder}/none
    cache = {folder}/cache
    lib = {folder}/lib
    lock = {folder}/lib
    registry = {folder}/lib
    log = {folder}/log
    web = {folder}/none
    plugins = {folder}/none
[web]
    mode = none
[health]
    enabled = no
[ml]
    enabled = no
[statsd]
    enabled = no
[plugins]
    enable running new plugins = no
    proc = yes
"
    )
}

fn exporting_config(port: u16) -> String {
    format!(
        "[exporting:global]
    enabled = yes
    update every = 1
[opentsdb:lines]
    enabled = yes
    destination = tcp:127.0.0.1:{port}
    update every = 1
    prefix = lines
[opentsdb:http:documents]
    enabled = yes
    destination = tcp:127.0.0.1:{port}
    update every = 1
    prefix = documents
"
    )
}

#[test]
fn all_that_netdata_sends_is_stored() {
    let Some(program) = netdata() else {
        skipped_tests::skip(
            "Netdata's exporters of OpenTSDB",
            "apt install netdata-core",
        );
        return;
    };
    let workplace = Workplace::new();
    let served = start_as_documented(&workplace, "README.md");
    let port = served.opentsdb_address().port();
    let netdata = Netdata::start(&program, &workplace, port);
    let mut client = Client::new(served.opentsdb_address());
    for prefix in ["lines", "documents"] {
        // It knows most of its charts after some seconds.
        served.wait_until(prefix, || {
            let path = format!("/api/suggest?type=metrics&q={prefix}.&max=1000");
            let metrics = get(&mut client, &path);
            metrics
                .as_array()
                .is_some_and(|metrics| metrics.len() > 100)
        });
        let metric = format!("{prefix}.system.uptime.uptime");
        let path = format!("/api/query?start=10m-ago&m=none:{metric}%7Bhost=web01%7D");
        served.wait_until(&metric, || {
            let answer = client.get(&path).expect("it lives");
            let found: Json = serde_json::from_str(&answer.text()).unwrap_or_default();
            let points = found[0]["dps"].as_object();
            points.is_some_and(|points| points.len() >= 3)
        });
    }
    drop(netdata);
    // Charts without a value yet have the time 0, which is none for the original, either.
    let text = served.client().get("/metrics").unwrap().text();
    let refused = text
        .lines()
        .filter_map(|line| line.strip_prefix("icecore_opentsdb_refused_total{reason=\""))
        .filter(|line| !line.ends_with(" 0") && !line.starts_with("invalid_point"));
    assert_eq!(refused.collect::<Vec<_>>(), [""; 0], "{}", served.log());
}

#[test]
fn refused_points_are_in_the_log_with_the_setting_that_takes_them() {
    let workplace = Workplace::new();
    // With the original's file: its defaults hold.
    let served = serve(&workplace, "data", "tsd.mode = rw\n").start();
    let address = served.opentsdb_address();
    for i in 0..3 {
        let line = format!("put sys.cpu.{i} {START} 1 host=web01\n");
        let (reply, _) = telnet(address, line.as_bytes(), false);
        assert!(reply.starts_with("put: unknown metric: "), "{reply}");
    }
    let point = json!({"metric": "m", "timestamp": START, "value": 1, "tags": {"host": "a"}});
    let body = Json::Array(vec![point; 200]).to_string();
    let refused = Client::new(address).post("/api/put", &[], body.as_bytes());
    assert_eq!(refused.unwrap().status, 400);
    let lines = || -> Vec<String> {
        let log = served.log();
        let lines = log.lines().filter(|line| line.contains(REFUSED));
        lines.map(String::from).collect()
    };
    served.wait_until("two lines of the log", || lines().len() >= 2);
    let lines = lines();
    let [metric, body] = &lines[..] else {
        panic!("each reason once: {lines:?}")
    };
    for part in [
        "unknown_metric",
        "put sys.cpu.0 1500000000 1 host=web01",
        "tsd.core.auto_create_metrics=true",
    ] {
        assert!(metric.contains(part), "{part}: {metric}");
    }
    for part in [
        "chunked_body",
        "POST /api/put",
        "tsd.http.request.enable_chunked=true",
        "tsd.http.request.max_chunk",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    let text = served.client().get("/metrics").unwrap().text();
    for (reason, count) in [("unknown_metric", 3), ("chunked_body", 1)] {
        let line = format!("icecore_opentsdb_refused_total{{reason=\"{reason}\"}} {count}\n");
        assert!(text.contains(&line), "{text}");
    }
}
