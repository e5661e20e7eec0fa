//! A real Prometheus, and the HTTP API that it shares with `icecore serve`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use icecore_model::{Histogram, HistogramCounts, Span};
use icecore_promql::QueryTime;
use serde_json::Value;

use super::data::{Histograms, Series};

const PATIENCE: Duration = Duration::from_secs(60);

/// Feature flags of the newest Prometheus, besides delayed name removal: the whole language.
const FEATURES: &str = "promql-experimental-functions,promql-duration-expr,\
                        promql-extended-range-selectors,promql-binop-fill-modifiers,\
                        use-start-timestamps";

/// The version of a binary that does not report it.
const UNNAMED_VERSION: &str = "3.15 (unnamed)";

/// A Prometheus binary.
#[derive(Clone, Debug)]
pub(crate) struct Binary {
    path: PathBuf,
    pub(crate) version: String,
}

impl Binary {
    /// The one that `ICECORE_PROMETHEUS` names, or the newest in the directories of `PATH` and in
    /// `~/go/bin`, where `go install` puts it.
    pub(crate) fn find() -> Option<Self> {
        if let Some(path) = std::env::var_os("ICECORE_PROMETHEUS") {
            let named = Self::at(PathBuf::from(&path));
            return Some(named.unwrap_or_else(|| panic!("{path:?} is no Prometheus")));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin"));
        let directories = std::env::split_paths(&path).chain(home);
        let found = directories.filter_map(|directory| Self::at(directory.join("prometheus")));
        found.max_by_key(Self::number)
    }

    fn at(path: PathBuf) -> Option<Self> {
        let said = Command::new(&path).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = said.strip_prefix("prometheus, version ")?;
        // A plain `go build` has no version; such a binary was built for this test.
        let version = match version.split_once(" (") {
            Some(("", _)) => UNNAMED_VERSION,
            Some((version, _)) => version,
            None => version.split_whitespace().next()?,
        };
        let version = version.to_string();
        Some(Self { path, version })
    }

    fn number(&self) -> (u64, u64) {
        let digits = self.version.split(|c: char| !c.is_ascii_digit());
        let mut parts = digits.map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// Whether it has the language of our parser.
    pub(crate) fn is_current(&self) -> bool {
        self.number() >= (3, 15)
    }
}

/// A running Prometheus.
pub(crate) struct Prometheus {
    pub(crate) api: Api,
    _process: Process,
    _directory: tempfile::TempDir,
}

/// A process that is killed on drop.
struct Process(Child);

/// Ports that are tried.
const STARTS: usize = 10;

impl Prometheus {
    pub(crate) fn start(binary: &Binary, delayed_names: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("prometheus.yml");
        std::fs::write(&config, "global: {}\n").unwrap();
        // Another process may take the port first; then this one ends, and the next gets another.
        for _ in 0..STARTS {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = listener.local_addr().unwrap();
            drop(listener);
            let mut command = Command::new(&binary.path);
            command
                .arg(format!("--config.file={}", config.display()))
                .arg(format!(
                    "--storage.tsdb.path={}",
                    directory.path().join("data").display()
                ))
                .arg(format!("--web.listen-address={address}"))
                .args(["--web.enable-remote-write-receiver", "--log.level=error"])
                .stdin(Stdio::null());
            if binary.is_current() {
                command.arg(format!("--enable-feature={FEATURES}"));
            }
            if delayed_names {
                command.arg("--enable-feature=promql-delayed-name-removal");
            }
            let api = Api { address };
            let mut process = Process(command.spawn().unwrap());
            if process.serves(api) {
                return Self {
                    api,
                    _process: process,
                    _directory: directory,
                };
            }
        }
        panic!("Prometheus ended {STARTS} times");
    }
}

impl Process {
    /// Waits until the process is ready; returns `false` if it ends instead.
    fn serves(&mut self, api: Api) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let is_ready = api.is_ready();
            // Asked last: whatever has answered, this process had the port.
            if self.0.try_wait().unwrap().is_some() {
                return false;
            }
            if is_ready {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("Prometheus is not ready after {PATIENCE:?}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The endpoints for remote write and queries.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
}

impl Api {
    fn is_ready(&self) -> bool {
        self.request("GET", "/-/ready", &[], b"")
            .is_some_and(|(status, _)| status == 200)
    }

    pub(crate) fn write(&self, series: &Series, histograms: &Histograms) {
        let headers = [
            "Content-Type: application/x-protobuf",
            "Content-Encoding: snappy",
            "X-Prometheus-Remote-Write-Version: 0.1.0",
        ];
        let answer = self.request(
            "POST",
            "/api/v1/write",
            &headers,
            &remote_write(series, histograms),
        );
        let (status, body) = answer.expect("the process answers");
        assert_eq!(status / 100, 2, "{}", String::from_utf8_lossy(&body));
    }

    /// The JSON of an answer or error.
    pub(crate) fn query(&self, query: &str, time: QueryTime) -> Value {
        let seconds = |ms: i64| format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000));
        let query = escape(query);
        let (path, form) = match time {
            QueryTime::Instant { time_ms } => (
                "/api/v1/query",
                format!("query={query}&time={}", seconds(time_ms)),
            ),
            QueryTime::Range {
                start_ms,
                end_ms,
                step_ms,
            } => {
                let (start, end) = (seconds(start_ms), seconds(end_ms));
                let step = seconds(step_ms);
                let form = format!("query={query}&start={start}&end={end}&step={step}");
                ("/api/v1/query_range", form)
            }
        };
        let header = ["Content-Type: application/x-www-form-urlencoded"];
        let answer = self.request("POST", path, &header, form.as_bytes());
        let (_, body) = answer.expect("the process answers");
        serde_json::from_slice(&body)
            .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&body)))
    }

    /// HTTP/1.0, so that an answer ends with its connection and is not chunked.
    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &[u8],
    ) -> Option<(u16, Vec<u8>)> {
        let mut connection = TcpStream::connect(self.address).ok()?;
        connection.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut sent = format!("{method} {path} HTTP/1.0\r\nHost: {}\r\n", self.address);
        for header in headers {
            sent.push_str(&format!("{header}\r\n"));
        }
        sent.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let mut sent = sent.into_bytes();
        sent.extend_from_slice(body);
        connection.write_all(&sent).ok()?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).ok()?;
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
        let status = std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()?;
        Some((status, answer.split_off(head + 4)))
    }
}

fn escape(value: &str) -> String {
    let escaped = value.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    escaped.collect()
}

/// A request of remote write 1.0, in snappy.
fn remote_write(all: &Series, histograms: &Histograms) -> Vec<u8> {
    let mut request = Vec::new();
    for (labels, samples) in all {
        let mut series = labels_of(labels);
        for (time, value) in samples {
            let mut sample = Vec::new();
            put_double(&mut sample, 1, *value);
            put_number(&mut sample, 2, *time as u64);
            put_bytes(&mut series, 2, &sample);
        }
        put_bytes(&mut request, 1, &series);
    }
    for (labels, samples) in histograms {
        let mut series = labels_of(labels);
        for (time, histogram) in samples {
            put_bytes(&mut series, 4, &histogram_of(*time, histogram));
        }
        put_bytes(&mut request, 1, &series);
    }
    snap::raw::Encoder::new().compress_vec(&request).unwrap()
}

fn labels_of(labels: &icecore_model::Labels) -> Vec<u8> {
    let mut series = Vec::new();
    for (name, value) in labels.iter() {
        let mut label = Vec::new();
        put_bytes(&mut label, 1, name.as_bytes());
        put_bytes(&mut label, 2, value.as_bytes());
        put_bytes(&mut series, 1, &label);
    }
    series
}

fn histogram_of(time: i64, histogram: &Histogram) -> Vec<u8> {
    let HistogramCounts::Float {
        count,
        zero_count,
        positive,
        negative,
    } = &histogram.counts
    else {
        panic!("histograms of tests have floats");
    };
    let mut out = Vec::new();
    put_double(&mut out, 2, *count);
    put_double(&mut out, 3, histogram.sum);
    put_number(&mut out, 4, zigzag(histogram.schema.into()));
    put_double(&mut out, 5, histogram.zero_threshold);
    put_double(&mut out, 7, *zero_count);
    let sides = [
        (8, &histogram.negative_spans, 10, negative),
        (11, &histogram.positive_spans, 13, positive),
    ];
    for (spans_field, spans, counts_field, counts) in sides {
        for Span { offset, length } in spans {
            let mut span = Vec::new();
            put_number(&mut span, 1, zigzag((*offset).into()));
            put_number(&mut span, 2, (*length).into());
            put_bytes(&mut out, spans_field, &span);
        }
        for count in counts {
            put_double(&mut out, counts_field, *count);
        }
    }
    put_number(&mut out, 15, time as u64);
    out
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn put_double(out: &mut Vec<u8>, field: u8, value: f64) {
    out.push(field << 3 | 1);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

fn put_number(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(field << 3);
    put_varint(out, value);
}

fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
