//! A gRPC client that is not ours: Python's grpcio, in a process that is handed requests line by
//! line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::{OtlpClient, Sent, host_and_port};

const SCRIPT: &str = r#"
import sys, grpc
channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.max_reconnect_backoff_ms", 200)])
export = channel.unary_unary("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")
print("ready", flush=True)
for line in sys.stdin:
    try:
        export(bytes.fromhex(line.strip()), timeout=30)
        print("OK", flush=True)
    except grpc.RpcError as error:
        print(error.code().name, (error.details() or "").replace("\n", " "), flush=True)
"#;

pub(super) struct PythonGrpc {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl PythonGrpc {
    /// `None`, with a word about it, where Python or its package is missing.
    pub(super) fn start(address: SocketAddr) -> Option<Self> {
        let child = Command::new("python3")
            .args(["-c", SCRIPT, &host_and_port(address)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let started = child.ok().and_then(|mut child| {
            let requests = child.stdin.take()?;
            let mut answers = BufReader::new(child.stdout.take()?);
            let mut line = String::new();
            answers.read_line(&mut line).ok()?;
            (line.trim() == "ready").then_some(Self {
                child,
                requests,
                answers,
            })
        });
        if started.is_none() {
            skipped_tests::skip("OTLP over gRPC from Python", "pip install grpcio");
        }
        started
    }
}

impl OtlpClient for PythonGrpc {
    fn send(&mut self, body: &[u8]) -> Sent {
        let line: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.requests, "{line}").expect("Python reads");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("Python answers");
        match answer.trim() {
            "OK" => Sent::Acknowledged,
            // Whether it arrived is unknown; the process may be gone.
            answer if answer.starts_with("UNAVAILABLE") => Sent::Unanswered,
            answer if answer.starts_with("RESOURCE_EXHAUSTED") => Sent::Refused,
            answer => panic!("gRPC: {answer}"),
        }
    }
}

impl Drop for PythonGrpc {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
