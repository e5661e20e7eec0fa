//! `icecore serve` as its supervisor sees it: what it prints, when it is ready, how it ends.

use std::net::{Ipv4Addr, TcpListener};

use crate::load::{Outcome, Writer, verify};
use crate::random::Random;
use crate::served::{PATIENCE, Serve, TestServer, Workplace, icecore};

/// How often a start is looked at on its way; each time there is half as much again to replay.
const LOOKS: usize = 9;

fn writer(seed: u64) -> [Writer; 1] {
    [Writer::new(0, 50, Random::new(seed))]
}

fn send(served: &TestServer, writer: &mut Writer, requests: usize) {
    let mut client = served.client();
    for _ in 0..requests {
        let outcome = writer.send_next(&mut client);
        assert_eq!(outcome, Outcome::Acknowledged, "{}", served.log());
    }
}

/// How many samples the last start replayed, as the log says.
fn replayed_samples(served: &TestServer) -> u64 {
    let log = served.log();
    let line = log.lines().find(|line| line.contains("journal replayed"));
    let line = line.unwrap_or_else(|| panic!("no word about the replay:\n{log}"));
    let number = line.split_once(" samples=").map(|(_, after)| after);
    let number = number.and_then(|after| after.split(' ').next());
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no number of samples: {line}"))
}

#[test]
fn a_start_says_where_data_lies_and_what_to_open() {
    let workplace = Workplace::new();
    let served = Serve::new(workplace.path("data"), workplace.path("log")).start();
    let log = served.log();
    let data = workplace.path("data").display().to_string();
    let url = format!("http://{}", served.address().expect("it listens"));
    for said in [
        &data,
        &format!("{url}/api/v1/write"),
        &format!("{url}/api/v1/query"),
    ] {
        assert!(log.contains(said.as_str()), "{said} is not in:\n{log}");
    }
}

#[test]
fn a_taken_port_is_an_error() {
    let workplace = Workplace::new();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let taken_address = taken.local_addr().expect("a listener has an address");
    let refused = icecore()
        .args(["serve", "--listen", &taken_address.to_string(), "--storage"])
        .arg(workplace.path("refused"))
        .output()
        .expect("the binary was built for this test");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(&taken_address.to_string()), "{said}");

    assert!(said.contains("--listen"), "{said}");
    // The default port, which another program may have already: a server that nothing reaches
    // would look well.
    let _default = TcpListener::bind((Ipv4Addr::LOCALHOST, 9090));
    let mut served = Serve::on_default_port(workplace.path("data"), workplace.path("log")).spawn();
    assert_eq!(served.wait_exit(PATIENCE).code(), Some(1));
    let log = served.log();
    assert!(log.contains("127.0.0.1:9090"), "{log}");
}

#[test]
fn a_clean_stop_leaves_nothing_to_replay() {
    let workplace = Workplace::new();
    let mut writers = writer(3);
    let start = |number| {
        let log = workplace.path(&format!("log-{number}"));
        Serve::new(workplace.path("data"), log)
            // A stop that waits for connections takes this long.
            .flags(["--server.shutdown-grace", "1h"])
            .start()
    };
    let mut first = start(1);
    send(&first, &mut writers[0], 50);
    let mut idle = first.client();
    assert_eq!(idle.get("/-/ready").expect("it listens").status, 200);
    first.terminate();
    let status = first.wait_exit(PATIENCE);
    assert_eq!(status.code(), Some(0), "{}", first.log());
    drop(idle);

    let mut second = start(2);
    assert_eq!(replayed_samples(&second), 0, "{}", second.log());
    let read = verify(&mut second.client(), &mut writers, true);
    assert!(read.is_some(), "{}", second.log());
    send(&second, &mut writers[0], 10);
    second.kill();

    // The same words after a kill, to show that they are able to say otherwise.
    let third = start(3);
    assert!(replayed_samples(&third) > 0, "{}", third.log());
    let read = verify(&mut third.client(), &mut writers, true);
    assert!(read.is_some(), "{}", third.log());
}

#[test]
fn recovery_is_healthy_but_not_ready() {
    let workplace = Workplace::new();
    let mut writers = writer(4);
    let mut served = Serve::new(workplace.path("data"), workplace.path("log-1")).start();
    let mut requests = 300;
    // It listens before the database is open, so that a start can be seen on its way. Where it was
    // ready sooner than it was looked at, the next start has more to replay.
    for attempt in 2..=LOOKS {
        send(&served, &mut writers[0], requests);
        served.kill();
        let log = workplace.path(&format!("log-{attempt}"));
        served = Serve::new(workplace.path("data"), log).spawn();
        while served.address().is_none() {
            assert!(served.since_start() < PATIENCE, "{}", served.log());
            assert!(served.exited().is_none(), "{}", served.log());
        }
        let mut client = served.client();
        let answers = ["/-/ready", "/api/v1/labels", "/-/healthy"]
            .map(|path| client.get(path).expect("it listens").status);
        if answers[0] == 200 {
            requests += requests / 2;
            continue;
        }
        assert_eq!(answers[0], 503, "{}", served.log());
        assert!([200, 503].contains(&answers[1]), "{answers:?}");
        assert_eq!(answers[2], 200);
        assert!(served.wait_ready(), "{}", served.log());
        let read = verify(&mut served.client(), &mut writers, true);
        assert!(read.is_some(), "{}", served.log());
        return;
    }
    panic!("it was ready as soon as it listened, each time");
}
