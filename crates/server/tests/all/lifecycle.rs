//! Starting, not being ready yet, ports that are taken, stopping, and having to stop.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use icecore_server::{Process, ServeError};
use icecore_storage::Environment;
use icecore_storage::testing::{FaultPlan, FaultStore};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::client::{Connection, request};
use crate::payload::{Payload, T0, series};
use crate::served::{TestServer, config, running, until};

/// The longest delay of a store that does nothing for as long as a test lasts.
const HANGS: Duration = Duration::from_secs(100 * 3600);

/// A body of which the last bytes are sent later, or never.
fn write_in_two_parts() -> (Vec<u8>, Vec<u8>) {
    let payload = Payload::v1(&[series("up", &[], &[(T0, 1.0)])]);
    let mut first = request("POST", "/api/v1/write", &payload.headers(), &payload.body());
    let rest = first.split_off(first.len() - 4);
    (first, rest)
}

/// The line of `/metrics` while one other request is under way.
const ONE_UNDER_WAY: &str = "icecore_http_requests_in_flight 2";

/// A store on which everything takes a while.
pub(crate) fn slow_store(
    directory: &std::path::Path,
    delay_max: Duration,
) -> (FaultStore, Environment) {
    let plan = FaultPlan {
        delay: 1.0,
        delay_max,
        ..FaultPlan::quiet(7)
    };
    let store = FaultStore::local(directory, plan).expect("the directory exists");
    let environment = Environment {
        object_store: Some(Arc::new(store.clone())),
        ..Environment::default()
    };
    (store, environment)
}

#[tokio::test(flavor = "multi_thread")]
async fn healthy_at_once_and_ready_later() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [
        ("storage.location", directory.path().to_str().unwrap()),
        ("storage.open_timeout", "1h"),
    ];
    let (store, environment) = slow_store(directory.path(), HANGS);
    let served = TestServer::starting(config(&settings), environment).await;
    assert_eq!(served.get("/-/healthy", &[]).await.status, 200);
    assert_eq!(served.get("/-/ready", &[]).await.status, 503);
    // The page is there to say so.
    assert_eq!(served.get("/ui/", &[]).await.status, 200);
    let access = served.get("/api/v1/status/access", &[]).await;
    assert_eq!(access.data()["required"], false);
    // And so is what says how far the start is.
    let replay = served.get("/api/v1/status/walreplay", &[]).await.data();
    assert_eq!(replay, json!({"min": 0, "max": 0, "current": 0}));
    let notices = served.get("/api/v1/notifications", &[]).await.data();
    let text = notices[0]["text"].as_str().unwrap();
    assert!(text.contains("starting"), "{text}");
    for path in [
        "/",
        "/metrics",
        "/api/v1/labels",
        "/api/v1/metadata",
        "/api/v1/status/buildinfo",
        "/api/v1/status/features",
        "/api/v1/status/tsdb",
        "/api/v1/status/maintenance",
        "/api/v1/export?match[]=up",
    ] {
        let answer = served.get(path, &[]).await;
        answer.error(503, "unavailable");
        assert!(answer.header("retry-after").is_some(), "{path}");
    }
    let payload = Payload::v1(&[series("up", &[], &[(T0, 1.0)])]);
    let written = served.write(&payload).await;
    assert_eq!(written.status, 503);
    assert!(written.header("retry-after").is_some());
    let flushed = served.request("POST", "/-/flush", &[], b"").await;
    assert_eq!(flushed.status, 503);
    let run = "/api/v1/admin/maintenance/run";
    let run = served.request("POST", run, &[], b"").await;
    run.error(503, "unavailable");
    store.set_enabled(false);
    served.until_ready().await;
    let notices = served.get("/api/v1/notifications", &[]).await.data();
    assert_eq!(notices, json!([]));
    assert_eq!(served.get("/-/healthy", &[]).await.status, 200);
    assert_eq!(served.write(&payload).await.status, 204);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_while_the_database_opens() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [
        ("storage.location", directory.path().to_str().unwrap()),
        ("storage.open_timeout", "1h"),
    ];
    let (_, environment) = slow_store(directory.path(), HANGS);
    let served = TestServer::starting(config(&settings), environment).await;
    assert_eq!(served.get("/-/ready", &[]).await.status, 503);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_opened_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let location = file.path().join("below-a-file");
    let config = config(&[("storage.location", location.to_str().unwrap())]);
    let process = Process::start(config, Environment::default())
        .await
        .unwrap();
    let (_stop, stopped) = mpsc::channel(1);
    let error = process.run_until(stopped).await.unwrap_err();
    assert!(matches!(error, ServeError::Open { .. }), "{error}");
    assert!(error.to_string().contains("below-a-file"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let listen = config(&[("server.listen", &address)]);
    let started = Process::start(listen, Environment::default()).await;
    let error = started.err().expect("the port is taken");
    assert!(matches!(error, ServeError::Listen { .. }));
    assert!(error.to_string().contains(&address), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_of_otlp_is_an_error_only_when_it_was_asked_for() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let asked_for = config(&[("otlp.grpc_listen", &address)]);
    let started = Process::start(asked_for, Environment::default()).await;
    let error = started.err().expect("the port is taken");
    assert!(matches!(error, ServeError::Listen { .. }));
    assert!(error.to_string().contains(&address), "{error}");

    // The same as a default.
    let inputs = icecore_server::Inputs {
        flags: vec![
            ("storage.location".into(), "memory://".into()),
            ("server.listen".into(), "127.0.0.1:0".into()),
        ],
        ..Default::default()
    };
    let mut by_default = icecore_server::Config::load(&inputs).unwrap();
    let listen = by_default.server.otlp_grpc_listen.as_mut();
    listen.expect("it is a default").port = port;
    let process = Process::start(by_default, Environment::default())
        .await
        .unwrap();
    assert_eq!(process.grpc_address(), None);
    let http = process.address().expect("this port is free");
    let (stop, stopped) = mpsc::channel(1);
    let mut running = running(process, stopped);
    // The process goes on and serves its other port.
    let ready = async || {
        let mut connection = Connection::open(http).await;
        let answer = connection.request("GET", "/-/ready", &[], b"").await;
        answer.status
    };
    until(ready, |status| *status == 200, "ready").await;
    assert!(running.try_recv().is_err(), "the process goes on");
    stop.send("test").await.unwrap();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_answers_what_is_under_way() {
    let served = TestServer::start(&[("server.shutdown_grace", "1h")]).await;
    let (first, rest) = write_in_two_parts();
    let mut slow = Connection::open(served.address).await;
    slow.send(&first).await;
    let idle = Connection::open(served.address).await;
    served.until_metrics(&[ONE_UNDER_WAY]).await;
    let address = served.address;
    let stopping = tokio::spawn(served.stop());
    let connected = || async { TcpStream::connect(address).await.is_ok() };
    until(connected, |connected| !connected, "no new connections").await;
    slow.send(&rest).await;
    assert_eq!(slow.answer("POST").await.status, 204);
    stopping.await.unwrap().unwrap();
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_waits_only_so_long() {
    let served = TestServer::start(&[("server.shutdown_grace", "300ms")]).await;
    let mut stuck = Connection::open(served.address).await;
    stuck.send(&write_in_two_parts().0).await;
    served.until_metrics(&[ONE_UNDER_WAY]).await;
    let began = Instant::now();
    served.stop().await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert!(stuck.head().await.is_none(), "the connection was cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_in_its_time_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let location = ("storage.location", directory.path().to_str().unwrap());
    let (store, environment) = slow_store(directory.path(), HANGS);
    store.set_enabled(false);
    let settings = [location, ("server.stop_timeout", "300ms")];
    let served = TestServer::starting(config(&settings), environment).await;
    served.until_ready().await;
    let payload = Payload::v1(&[series("up", &[], &[(T0, 1.0)])]);
    assert_eq!(served.write(&payload).await.status, 204);
    store.set_enabled(true);
    // The flush would take hours; what is left of it is no failure.
    served.stop().await.unwrap();
    let served = TestServer::start(&[location, ("storage.take_over", "true")]).await;
    assert_eq!(served.export_all().await.len(), 1);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_wish_to_stop_ends_the_flush_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let location = [
        ("storage.location", directory.path().to_str().unwrap()),
        ("server.stop_timeout", "1h"),
    ];
    let (store, environment) = slow_store(directory.path(), HANGS);
    store.set_enabled(false);
    let served = TestServer::starting(config(&location), environment).await;
    served.until_ready().await;
    let payload = Payload::v1(&[series("up", &[], &[(T0, 1.0)])]);
    assert_eq!(served.write(&payload).await.status, 204);
    store.set_enabled(true);
    let began = Instant::now();
    let (stop, mut ended) = served.parts();
    // Those of one second are one wish; the flush would take hours.
    let wish = async || {
        let _ = stop.send("test").await;
        ended.try_recv().ok()
    };
    let ended = until(wish, Option::is_some, "the end").await;
    assert!(began.elapsed() >= Duration::from_secs(1));
    let error = ended.unwrap().unwrap_err();
    assert!(matches!(error, ServeError::Interrupted), "{error}");
    // A real process would be gone, and its lock with it; here its tasks still run.
    let served = TestServer::start(&[location[0], ("storage.take_over", "true")]).await;
    assert_eq!(served.export_all().await.len(), 1);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_writer_takes_over_and_the_first_says_why_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let location = [("storage.location", directory.path().to_str().unwrap())];
    // A process that has failed ends at once, whatever is under way and however long it may take.
    let first = TestServer::start(&[location[0], ("server.shutdown_grace", "1h")]).await;
    let mut stuck = Connection::open(first.address).await;
    stuck.send(&write_in_two_parts().0).await;
    let payload = |t| Payload::v1(&[series("up", &[], &[(T0 + t, 1.0)])]);
    assert_eq!(first.write(&payload(0)).await.status, 204);
    first.until_metrics(&[ONE_UNDER_WAY]).await;
    let second = TestServer::start(&[location[0], ("storage.take_over", "true")]).await;
    // The first one notices at its next write at the latest, which it must not acknowledge. It may
    // have gone before.
    if let Ok(stream) = TcpStream::connect(first.address).await {
        let late = payload(1000);
        let mut connection = Connection::over(stream);
        let write = request("POST", "/api/v1/write", &late.headers(), &late.body());
        connection.send(&write).await;
        if let Some(answer) = connection.answer_if_any("POST").await {
            assert_eq!(answer.status, 503, "{}", answer.text());
        }
    }
    let error = first.ended().await.unwrap_err();
    assert!(matches!(error, ServeError::Failed(_)), "{error}");
    assert!(stuck.head().await.is_none(), "the connection was cut");
    assert_eq!(second.write(&payload(2000)).await.status, 204);
    let lines = second.export_all().await;
    assert_eq!(lines[0]["timestamps"], serde_json::json!([T0, T0 + 2000]));
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_lost_ends_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let store = FaultStore::local(directory.path(), FaultPlan::quiet(1)).unwrap();
    let environment = Environment {
        object_store: Some(Arc::new(store.clone())),
        ..Environment::default()
    };
    let config = config(&[
        ("storage.location", directory.path().to_str().unwrap()),
        ("storage.retries_max", "1"),
    ]);
    let served = TestServer::starting(config, environment).await;
    served.until_ready().await;
    let payload = Payload::v1(&[series("up", &[], &[(T0, 1.0)])]);
    assert_eq!(served.write(&payload).await.status, 204);
    let mut connection = Connection::open(served.address).await;
    store.power_off();
    let write = request("POST", "/api/v1/write", &payload.headers(), &payload.body());
    connection.send(&write).await;
    // A poll may find the store gone before the request is read; then it is not answered at all.
    if let Some(answer) = connection.answer_if_any("POST").await {
        assert_eq!(answer.status, 503, "{}", answer.text());
    }
    let error = served.ended().await.unwrap_err();
    assert!(matches!(error, ServeError::Failed(_)), "{error}");
}
