//! All protocols at once, with a SIGKILL in the middle: remote write, OTLP over HTTP and gRPC with
//! delta sums, import, and a target that is scraped.
//!
//! Holds always: what was acknowledged is there; a delta sum is what was acknowledged plus at most
//! what was in flight, and sending that again makes it equal.
//!
//! `PROTOCOLS_SECONDS=60` is the long form.

mod delta;
mod import;
mod python_grpc;
mod target;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use self::delta::{DeltaSender, HttpClient};
use self::import::Importer;
use self::python_grpc::PythonGrpc;
use self::target::Target;
use crate::crash::number_from;
use crate::load::{Load, Writer, verify_own};
use crate::random::Random;
use crate::served::{PATIENCE, Serve, TestServer, Workplace, check_is_clean, free_address};

/// Delta series of each OTLP sender.
const DELTA_SERIES: usize = 30;

/// What remote write may send in one life, so that reading it back stays quick.
const REMOTE_WRITE_SAMPLES_MAX: u64 = 20_000;

/// Requests of each protocol, and scrapes, that are acknowledged before a life ends.
const REQUESTS: u64 = 60;
const SCRAPES: u64 = 3;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Acknowledged,
    /// To be sent again, says the answer.
    Refused,
    /// No answer.
    Unanswered,
}

/// A way to hand over an OTLP request.
trait OtlpClient {
    fn send(&mut self, body: &[u8]) -> Sent;
}

#[test]
fn nothing_acknowledged_is_lost_by_any_protocol() {
    let half = Duration::from_secs(number_from("PROTOCOLS_SECONDS").unwrap_or(0)) / 2;
    let workplace = Workplace::new();
    let target = Target::start();
    let config = workplace.path("scrape.yml");
    std::fs::write(&config, target.configuration()).expect("a file can be written");
    let grpc_address = free_address();
    let start = |life: usize| {
        let log = workplace.path(&format!("log-{life}"));
        Serve::new(workplace.path("data"), log)
            .flags(["--otlp.grpc.listen", &grpc_address.to_string()])
            .flags(["--config", config.to_str().expect("UTF-8")])
            .start()
    };
    let mut writers = [Writer::new(0, 20, Random::new(7))];
    let mut over_http = DeltaSender::new("http", DELTA_SERIES);
    let mut over_grpc = DeltaSender::new("grpc", DELTA_SERIES);
    let mut importer = Importer::default();
    let mut grpc = PythonGrpc::start(grpc_address);

    let mut first = start(1);
    let senders = Senders {
        writer: &mut writers[0],
        over_http: &mut over_http,
        over_grpc: &mut over_grpc,
        importer: &mut importer,
        grpc: grpc.as_mut(),
    };
    senders.run(&mut first, &target, half, |first| {
        first.kill();
    });

    let mut second = start(2);
    let mut client = second.client();
    for sender in [&mut over_http, &mut over_grpc] {
        sender.verify(&mut client);
    }
    importer.verify(&mut client);
    let senders = Senders {
        writer: &mut writers[0],
        over_http: &mut over_http,
        over_grpc: &mut over_grpc,
        importer: &mut importer,
        grpc: grpc.as_mut(),
    };
    senders.run(&mut second, &target, half, |_| {});
    // What was in flight when the process was killed has been sent again by now.
    over_http.settle(&mut HttpClient::new(&second));
    if let Some(grpc) = &mut grpc {
        over_grpc.settle(grpc);
        assert!(
            over_grpc.acknowledged_requests > 0,
            "nothing came through gRPC"
        );
    }
    for sender in [&mut over_http, &mut over_grpc] {
        assert!(sender.is_settled(), "{sender:?}");
        sender.verify(&mut client);
    }
    assert!(
        over_http.acknowledged_requests > 0,
        "nothing came through HTTP"
    );
    assert!(importer.acknowledged_lines > 0, "nothing was imported");
    importer.verify(&mut client);
    second.wait_until("a scrape", || Target::is_stored(&mut client));
    target.verify(&mut client);
    let read = verify_own(&mut client, &mut writers);
    assert!(read.is_some(), "{}", second.log());
    second.terminate();
    assert!(second.wait_exit(PATIENCE).success());
    check_is_clean(workplace.path("data"), &[]);
    println!(
        "acknowledged: {} delta requests over HTTP, {} over gRPC, {} imported lines, {} remote write requests; in \
         flight at the kill: {} and {}",
        over_http.acknowledged_requests,
        over_grpc.acknowledged_requests,
        importer.acknowledged_lines,
        writers[0].acknowledged_requests,
        over_http.unanswered_requests,
        over_grpc.unanswered_requests,
    );
}

struct Senders<'a> {
    writer: &'a mut Writer,
    over_http: &'a mut DeltaSender,
    over_grpc: &'a mut DeltaSender,
    importer: &'a mut Importer,
    grpc: Option<&'a mut PythonGrpc>,
}

impl Senders<'_> {
    /// Everybody sends until each has sent enough, and for so long; then `end` happens, while they
    /// still do.
    fn run(
        self,
        served: &mut TestServer,
        target: &Target,
        time: Duration,
        end: impl FnOnce(&mut TestServer),
    ) {
        let loads: [Load; 4] = Default::default();
        let [writes, over_http, over_grpc, imports] = &loads;
        let until = Instant::now() + time;
        let scrapes = target.scrapes() + SCRAPES;
        let (mut writing, mut importing) = (served.client(), served.client());
        let mut http = HttpClient::new(served);
        std::thread::scope(|scope| {
            // Senders that are left when the process was killed get no answer and end then.
            let _stopping = loads.each_ref().map(Load::stopping);
            let mut needed = vec![("OTLP over HTTP", over_http), ("import", imports)];
            scope.spawn(|| {
                self.writer
                    .run(&mut writing, writes, REMOTE_WRITE_SAMPLES_MAX)
            });
            scope.spawn(|| self.over_http.run(&mut http, over_http));
            if let Some(grpc) = self.grpc {
                needed.push(("OTLP over gRPC", over_grpc));
                scope.spawn(|| self.over_grpc.run(grpc, over_grpc));
            }
            scope.spawn(|| self.importer.run(&mut importing, imports));
            for (what, load) in needed {
                served.wait_until(what, || load.acknowledged() >= REQUESTS);
            }
            let has_written = || writes.acknowledged() >= REQUESTS || writes.ended() > 0;
            served.wait_until("remote write", has_written);
            served.wait_until("scrapes", || target.scrapes() >= scrapes);
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            end(served);
        });
    }
}

/// Where an address is written into a configuration.
fn host_and_port(address: SocketAddr) -> String {
    format!("{}:{}", address.ip(), address.port())
}
