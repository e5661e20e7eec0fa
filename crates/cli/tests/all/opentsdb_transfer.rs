//! `icecore import opentsdb` and `icecore export opentsdb` as processes: lines, cells and a
//! gateway; killed in the middle, gone on with, equal.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::served::{Serve, TestServer, Workplace};
use crate::text;
use crate::transfer::{killed_when, run, start, succeeds};

/// What OpenTSDB 2.4.1 wrote to its tables.
fn cells() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/opentsdb/cells.json")
}

/// What it answered then.
fn recorded() -> Vec<Value> {
    let path = cells().with_file_name("answers.json");
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A server with the settings that were recorded with.
fn start_recorded(workplace: &Workplace, name: &str) -> TestServer {
    let rollups = r#"{"aggregationIds":{"sum":0,"count":1,"min":2,"max":3},"intervals":[{"table":"tsdb","preAggregationTable":"tsdb-preagg","interval":"1m","rowSpan":"1h","defaultInterval":true},{"table":"tsdb-rollup-10m","preAggregationTable":"tsdb-rollup-agg-10m","interval":"10m","rowSpan":"1d"},{"table":"tsdb-rollup-1h","preAggregationTable":"tsdb-rollup-agg-1h","interval":"1h","rowSpan":"1n"}]}"#;
    let config = workplace.path(&format!("{name}.conf"));
    let text = format!(
        "tsd.core.meta.enable_realtime_uid = true\n\
         tsd.core.meta.enable_realtime_ts = true\n\
         tsd.core.meta.enable_tsuid_tracking = true\n\
         tsd.core.tree.enable_processing = true\n\
         tsd.rollups.enable = true\n\
         tsd.rollups.config = {rollups}\n\
         tsd.core.histograms.config = {{\"net.opentsdb.core.SimpleHistogramDecoder\":0}}\n"
    );
    fs::write(&config, text).unwrap();
    let log = workplace.path(&format!("{name}.log"));
    let flags = ["--opentsdb.config", config.to_str().unwrap()];
    Serve::new(workplace.path(name), log).flags(flags).start()
}

fn ask(served: &TestServer, target: &str) -> Value {
    let path = format!("/opentsdb{target}");
    let response = served.client().get(&path).unwrap();
    serde_json::from_str(&response.text()).unwrap_or(Value::Null)
}

/// The recorded queries for points, and what is answered to them.
#[track_caller]
fn answers_as_recorded(served: &TestServer) {
    let mut asked = 0;
    for recorded in recorded() {
        let target = recorded["target"].as_str().unwrap();
        if target.starts_with("/api/query") || target.starts_with("/api/tree") {
            assert_eq!(ask(served, target), recorded["body"], "{target}");
            asked += 1;
        }
    }
    assert!(asked >= 20, "{asked}");
}

#[test]
fn cells_of_the_original_are_moved_on_and_answers_stay() {
    let workplace = Workplace::new();
    // The table of UIDs is in another file, which comes last.
    let folder = workplace.path("dump");
    fs::create_dir(&folder).unwrap();
    let text = fs::read_to_string(cells()).unwrap();
    let (names, others): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.contains("\"tsdb-uid\""));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(others.join("\n").as_bytes()).unwrap();
    fs::write(folder.join("a.json.gz"), gzip.finish().unwrap()).unwrap();
    fs::write(folder.join("b.json"), names.join("\n")).unwrap();
    let source = start_recorded(&workplace, "source");
    let folder = folder.to_str().unwrap().to_owned();
    let import = ["import", "opentsdb", &folder, "--chunk-bytes", "2000"];
    let progress = workplace.path("dump.progress");
    killed_when(&source, &import, &progress);
    succeeds(&source, &[&import[..], &["--resume"]].concat());
    assert!(!progress.exists());
    answers_as_recorded(&source);
    // Out again, and into another server.
    let file = workplace.path("all.json.zst");
    let path = file.to_str().unwrap();
    let export = [
        "export",
        "opentsdb",
        "--format",
        "cells",
        "-o",
        path,
        "--slice",
        "1h",
        "--end",
        "2013-01-03T00:00:00Z",
    ];
    killed_when(&source, &export, &workplace.path("all.json.zst.state"));
    succeeds(&source, &[&export[..], &["--resume"]].concat());
    let target = start_recorded(&workplace, "target");
    succeeds(&target, &["import", "opentsdb", path]);
    answers_as_recorded(&target);
}

#[test]
fn uids_that_mean_something_else_end_an_import() {
    let workplace = Workplace::new();
    let served = Serve::new(workplace.path("data"), workplace.path("data.log"))
        .flags(["--opentsdb.settings", "tsd.core.auto_create_metrics=false"])
        .start();
    let lines = workplace.path("lines");
    fs::write(&lines, "other.metric 1356998400 1 host=a\n").unwrap();
    let lines = lines.to_str().unwrap();
    let refused = run(&served, &["import", "opentsdb", lines]);
    assert!(!refused.status.success());
    assert!(
        text(&refused.stderr).contains("--auto-metric"),
        "{}",
        text(&refused.stderr)
    );
    succeeds(&served, &["import", "opentsdb", lines, "--auto-metric"]);
    let cells = cells();
    let import = [
        "import",
        "opentsdb",
        cells.to_str().unwrap(),
        "--skip-errors",
    ];
    let progress = workplace.path("progress");
    let copy = workplace.path("cells.json");
    fs::copy(&cells, &copy).unwrap();
    let import = [import[0], import[1], copy.to_str().unwrap(), import[3]];
    let refused = run(&served, &import);
    let message = text(&refused.stderr);
    assert!(!refused.status.success() && !progress.exists());
    assert!(
        message.contains("is \"sys.cpu.user\" there and \"other.metric\" here"),
        "{message}"
    );
    assert_eq!(
        ask(&served, "/api/suggest?type=metrics"),
        json!(["other.metric"])
    );
}

/// Cells with the UIDs of a tag value that writers of the original have left behind.
fn cells_with_orphans() -> String {
    let mut text = fs::read_to_string(cells()).unwrap();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let hex = |bytes: &str| hex::encode(bytes);
    let mut add = |row: &str, family: &str, value: &str| {
        let cell = json!({
            "table": "tsdb-uid", "row": row, "family": family, "qualifier": hex("tagv"),
            "value": value, "timestamp": 1,
        });
        text += &format!("{cell}\n");
    };
    // The name has the UID in the middle: one orphan is smaller, the other greater.
    for id in ["00ff17", "00ff18", "00ff19"] {
        add(id, "name", &hex("t2"));
    }
    add(&hex("t2"), "id", "00ff18");
    text
}

#[track_caller]
fn says_what_was_left_behind(report: &str) {
    let expected = "2 skipped: an orphaned UID, whose name has another one (first: ";
    assert!(report.contains(expected), "{report}");
    let example = "tagv: UID 00FF17 of \"t2\", which has UID 00FF18";
    assert!(report.contains(example), "{report}");
}

#[test]
fn uids_that_writers_left_behind_end_no_import() {
    let workplace = Workplace::new();
    let served = start_recorded(&workplace, "data");
    let input = workplace.path("cells.json");
    fs::write(&input, cells_with_orphans()).unwrap();
    let input = input.to_str().unwrap();
    // A name and its UID are in different requests.
    let import = ["import", "opentsdb", input, "--chunk-bytes", "300"];
    let output = run(&served, &import);
    let report = text(&output.stderr);
    assert!(output.status.success(), "{report}");
    says_what_was_left_behind(report);
    answers_as_recorded(&served);
    let meta = ask(&served, "/api/uid/uidmeta?type=tagv&uid=00FF18");
    assert_eq!(meta["name"], "t2", "{meta}");
    let orphan = ask(&served, "/api/uid/uidmeta?type=tagv&uid=00FF19");
    assert_eq!(orphan["error"]["code"], 404, "{orphan}");
}

#[test]
fn lines_are_moved_and_bad_ones_are_reported() {
    let workplace = Workplace::new();
    let source = start(&workplace, "source");
    let mut lines = String::new();
    for i in 0..3000 {
        let time = 1_356_998_400 + i * 3601;
        lines += &format!("sys.cpu {time} {} host=web0{}\n", i % 7, i % 3);
        lines += &format!("sys.load {time}500 {}.5 host=web0{}\n", i % 7, i % 3);
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines.as_bytes()).unwrap();
    let input = workplace.path("points.gz");
    fs::write(&input, gzip.finish().unwrap()).unwrap();
    let input = input.to_str().unwrap();
    let import = [
        "import",
        "opentsdb",
        input,
        "--auto-metric",
        "--chunk-bytes",
        "9000",
    ];
    killed_when(&source, &import, &workplace.path("points.gz.progress"));
    succeeds(&source, &[&import[..], &["--resume"]].concat());
    let output = workplace.path("out");
    let path = output.to_str().unwrap();
    let export = [
        "export",
        "opentsdb",
        "-o",
        path,
        "--end",
        "2013-06-01T00:00:00Z",
    ];
    killed_when(&source, &export, &workplace.path("out.state"));
    succeeds(&source, &[&export[..], &["--resume"]].concat());
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        sorted(&fs::read_to_string(&output).unwrap()),
        sorted(&lines)
    );
    let bad = workplace.path("bad");
    fs::write(
        &bad,
        "sys.cpu 1356998400 1 host=a\nsys.cpu now 1 host=a\nsys.cpu 1 x host=a\n",
    )
    .unwrap();
    let bad = bad.to_str().unwrap();
    let refused = run(&source, &["import", "opentsdb", bad]);
    assert!(!refused.status.success());
    assert!(
        text(&refused.stderr).contains("line 2: not a number"),
        "{}",
        text(&refused.stderr)
    );
    let skipped = run(&source, &["import", "opentsdb", bad, "--skip-errors"]);
    assert!(skipped.status.success());
    let report = text(&skipped.stderr);
    assert!(
        report.contains("2 skipped: not a number (first: ") && report.contains("line 2: "),
        "{report}"
    );
    assert!(report.contains("1 samples"), "{report}");
}

#[test]
fn a_gateway_is_read_table_by_table() {
    let workplace = Workplace::new();
    let gateway = Gateway::start(&cells_with_orphans());
    let served = start_recorded(&workplace, "data");
    let url = format!("http://127.0.0.1:{}/", gateway.port);
    let config = workplace.path("data.conf");
    let mut import = crate::served::icecore();
    let server = format!("http://{}", served.address().unwrap());
    import.current_dir(workplace.path("."));
    import.args(["import", "opentsdb", &url, "--url", &server]);
    import.args([
        "--opentsdb.config",
        config.to_str().unwrap(),
        "--chunk-bytes",
        "3000",
    ]);
    let output = import.output().unwrap();
    let report = text(&output.stderr);
    assert!(output.status.success(), "{report}");
    assert!(
        report.contains("there is no table tsdb-rollup-10m"),
        "{report}"
    );
    says_what_was_left_behind(report);
    assert!(gateway.state.was_interrupted.load(SeqCst));
    // Eight scans of seven tables: that of UIDs is looked at before it is sent.
    assert_eq!(gateway.state.deleted.load(SeqCst), 8);
    answers_as_recorded(&served);
}

/// Speaks as much of the protocol of HBase's REST gateway as a scan needs.
struct Gateway {
    port: u16,
    state: Arc<GatewayState>,
}

struct GatewayState {
    /// Cells of tables, in the order of rows.
    tables: HashMap<String, Vec<Value>>,
    /// What is left of scans that are open.
    scanners: Mutex<HashMap<String, Vec<Value>>>,
    opened: AtomicUsize,
    deleted: AtomicUsize,
    /// One scanner is lost in the middle, as happens when a gateway is restarted.
    was_interrupted: AtomicBool,
}

impl Gateway {
    const CELLS_AT_ONCE: usize = 10;

    fn start(lines: &str) -> Self {
        let mut tables: HashMap<String, Vec<Value>> = HashMap::new();
        for line in lines.lines() {
            let cell: Value = serde_json::from_str(line).unwrap();
            let table = cell["table"].as_str().unwrap().to_owned();
            tables.entry(table).or_default().push(cell);
        }
        let state = Arc::new(GatewayState {
            tables,
            scanners: Mutex::default(),
            opened: AtomicUsize::new(0),
            deleted: AtomicUsize::new(0),
            was_interrupted: AtomicBool::new(false),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || state.serve(&connection));
            }
        });
        Self { port, state }
    }
}

impl GatewayState {
    fn serve(&self, connection: &TcpStream) {
        let mut reader = BufReader::new(connection);
        while let Some((method, path, body)) = read_request(&mut reader) {
            let (status, location, body) = self.answer(&method, &path, &body);
            let location = location.map(|at| format!("Location: {at}\r\n"));
            let head = format!(
                "HTTP/1.1 {status}\r\n{}Content-Length: {}\r\n\r\n",
                location.unwrap_or_default(),
                body.len()
            );
            let mut writer = connection;
            if writer.write_all((head + &body).as_bytes()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, method: &str, path: &str, body: &str) -> (&str, Option<String>, String) {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (method, parts.as_slice()) {
            ("GET", [table, "exists"]) if self.tables.contains_key(*table) => {
                ("200 OK", None, String::new())
            }
            ("GET", [_, "exists"]) => ("404 Not Found", None, String::new()),
            ("PUT", [table, "scanner"]) => {
                let cells = self.tables.get(*table).unwrap();
                let start = body.split("startRow=\"").nth(1).unwrap();
                let start = STANDARD.decode(start.split('"').next().unwrap()).unwrap();
                let start = hex::encode(start);
                let from = |cell: &&Value| cell["row"].as_str() >= Some(&start);
                let cells = cells.iter().filter(from).cloned().collect();
                let id = format!("s{}", self.opened.fetch_add(1, SeqCst));
                self.scanners.lock().unwrap().insert(id.clone(), cells);
                let location = format!("http://elsewhere:8080/{table}/scanner/{id}");
                ("201 Created", Some(location), String::new())
            }
            ("GET", [table, "scanner", id]) => self.next(table, id),
            ("DELETE", [_, "scanner", _]) => {
                self.deleted.fetch_add(1, SeqCst);
                ("200 OK", None, String::new())
            }
            _ => ("400 Bad Request", None, String::new()),
        }
    }

    fn next(&self, table: &str, id: &str) -> (&'static str, Option<String>, String) {
        let mut scanners = self.scanners.lock().unwrap();
        let cells = scanners.get_mut(id).unwrap();
        let is_in_the_middle = !cells.is_empty() && cells.len() < self.tables[table].len();
        if is_in_the_middle && !self.was_interrupted.swap(true, SeqCst) {
            cells.clear();
            return ("410 Gone", None, String::new());
        }
        if cells.is_empty() {
            return ("204 No Content", None, String::new());
        }
        let count = cells.len().min(Gateway::CELLS_AT_ONCE);
        let rows = cells.drain(..count).map(|cell| {
            let bytes = |key: &str| hex::decode(cell[key].as_str().unwrap()).unwrap();
            let family = cell["family"].as_str().unwrap().as_bytes();
            let column = [family, b":", &bytes("qualifier")].concat();
            json!({"key": STANDARD.encode(bytes("row")), "Cell": [{
                "column": STANDARD.encode(column), "timestamp": cell["timestamp"],
                "$": STANDARD.encode(bytes("value")),
            }]})
        });
        let rows: Vec<Value> = rows.collect();
        ("200 OK", None, json!({ "Row": rows }).to_string())
    }
}

/// Method, path and body; `None` when the connection ends.
fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<(String, String, String)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ').map(String::from);
    let (method, path) = (words.next()?, words.next()?);
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((method, path, String::from_utf8(body).ok()?))
}
