//! A real Prometheus, and the HTTP API that it shares with `icecore serve`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use icecore_promql::QueryTime;
use serde_json::Value;

use super::data::Series;

const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with this value.
pub(crate) struct Prometheus {
    child: Child,
    pub(crate) api: Api,
    _directory: tempfile::TempDir,
}

impl Prometheus {
    /// `None` where it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("prometheus.yml");
        std::fs::write(&config, "global: {}\n").unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .args(["--web.enable-remote-write-receiver", "--log.level=error"])
            .stdin(Stdio::null())
            .spawn()
            .ok()?;
        let started = Self {
            child,
            api: Api { address },
            _directory: directory,
        };
        let deadline = Instant::now() + PATIENCE;
        while !started.api.is_ready() {
            assert!(
                Instant::now() < deadline,
                "Prometheus is not ready after {PATIENCE:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(started)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended by itself; either way there is nothing left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The doors for writing and for queries.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
}

impl Api {
    fn is_ready(&self) -> bool {
        self.request("GET", "/-/ready", &[], b"")
            .is_some_and(|(status, _)| status == 200)
    }

    pub(crate) fn write(&self, series: &Series) {
        let headers = [
            "Content-Type: application/x-protobuf",
            "Content-Encoding: snappy",
            "X-Prometheus-Remote-Write-Version: 0.1.0",
        ];
        let answer = self.request("POST", "/api/v1/write", &headers, &remote_write(series));
        let (status, body) = answer.expect("the process answers");
        assert_eq!(status / 100, 2, "{}", String::from_utf8_lossy(&body));
    }

    /// The JSON of an answer, be it a value or an error.
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

    /// HTTP/1.0, so that an answer ends with its connection and is not in chunks.
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
fn remote_write(all: &Series) -> Vec<u8> {
    let mut request = Vec::new();
    for (labels, samples) in all {
        let mut series = Vec::new();
        for (name, value) in labels.iter() {
            let mut label = Vec::new();
            put_bytes(&mut label, 1, name.as_bytes());
            put_bytes(&mut label, 2, value.as_bytes());
            put_bytes(&mut series, 1, &label);
        }
        for (time, value) in samples {
            let mut sample = vec![1 << 3 | 1];
            sample.extend_from_slice(&value.to_bits().to_le_bytes());
            sample.push(2 << 3);
            put_varint(&mut sample, *time as u64);
            put_bytes(&mut series, 2, &sample);
        }
        put_bytes(&mut request, 1, &series);
    }
    snap::raw::Encoder::new().compress_vec(&request).unwrap()
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
