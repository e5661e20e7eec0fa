//! `icecore health` as a supervisor uses it: by its exit code, at a real process.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Output;
use std::thread::JoinHandle;

use rcgen::{CertificateParams, KeyPair};

use crate::load::{Outcome, Writer};
use crate::random::Random;
use crate::served::{Serve, Workplace, free_address, icecore};
use crate::text;

fn health(url: &str, flags: &[&str]) -> Output {
    let mut command = icecore();
    command.args(["health", "--server", url]);
    command.args(flags).output().unwrap()
}

/// Fails unless the exit code is 1 and one line on standard error says all of `words`.
#[track_caller]
fn is_refused(output: &Output, words: &[&str]) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
}

/// Answers one request like another program, or never.
fn stranger(answer: Option<&'static str>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        match answer {
            Some(answer) => {
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
            // Until the other side has given up.
            None => drop(stream.read_to_end(&mut Vec::new())),
        }
    });
    (url, answering)
}

#[test]
fn a_server_that_is_ready_passes() {
    let workplace = Workplace::new();
    let mut served = Serve::new(workplace.path("data"), workplace.path("log")).start();
    let url = format!("http://{}", served.address().unwrap());
    let passed = health(&url, &[]);
    assert_eq!(passed.status.code(), Some(0), "{passed:?}");
    assert_eq!(text(&passed.stdout), "Icecore is ready.\n");
    assert!(passed.stderr.is_empty(), "{passed:?}");
    served.kill();
    is_refused(&health(&url, &[]), &["cannot connect to", &url]);
}

#[test]
fn what_does_not_listen_is_not_ready() {
    let url = format!("http://{}", free_address());
    is_refused(&health(&url, &[]), &["cannot connect to", &url]);
}

#[test]
fn a_server_whose_store_fails_is_not_ready_and_says_why() {
    let workplace = Workplace::new();
    let (data, away) = (workplace.path("data"), workplace.path("away"));
    let served = Serve::new(&data, workplace.path("log"))
        .flags(["--journal.commit-timeout", "2s"])
        .start();
    let url = format!("http://{}", served.address().unwrap());
    std::fs::rename(&data, &away).unwrap();
    // The store is noticed when there is something to commit.
    let (mut client, mut writer) = (served.client(), Writer::new(0, 1, Random::new(1).split()));
    served.wait_until("a write that is refused", || {
        writer.send_next(&mut client) == Outcome::Refused
    });
    let fails = || health(&url, &[]).status.code() == Some(1);
    served.wait_until("a check that fails", fails);
    let words = ["is not ready", "503", "moved or unmounted"];
    is_refused(&health(&url, &[]), &words);
    std::fs::rename(&away, &data).unwrap();
    served.wait_until("a check that passes", || health(&url, &[]).status.success());
}

#[test]
fn an_answer_is_waited_for_no_longer_than_the_flag_says() {
    let (url, silent) = stranger(None);
    let refused = health(&url, &["--timeout", "50ms"]);
    is_refused(&refused, &["has not answered within 50ms", &url]);
    // The connection is closed, and not kept for longer.
    silent.join().unwrap();
    let wrong = health(&url, &["--timeout", "soon"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

#[test]
fn another_program_at_the_address_does_not_pass() {
    let (url, answering) = stranger(Some(
        "HTTP/1.1 200 OK\r\nContent-Length: 28\r\n\r\nPrometheus Server is Ready.\n",
    ));
    let refused = health(&url, &[]);
    is_refused(&refused, &["is not Icecore", "Prometheus Server is Ready."]);
    answering.join().unwrap();
}

#[test]
fn no_credentials_are_needed_and_certificates_are_checked() {
    let workplace = Workplace::new();
    let write = |name: &str, text: &str| {
        let path = workplace.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let own = write("cert.pem", &certificate.pem());
    write("key.pem", &key.serialize_pem());
    let web = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n\
               icecore: {tokens: [{token: 0123456789abcdef, roles: [read]}]}\n";
    let web = write("web.yml", web);
    let served = Serve::new(workplace.path("data"), workplace.path("log"))
        .flags(["--web.config.file", &web])
        .spawn();
    served.wait_until("a listener", || served.address().is_some());
    let url = format!("https://{}", served.address().unwrap());
    served.wait_until("a check that passes", || {
        health(&url, &["--ca-file", &own]).status.success()
    });
    assert!(health(&url, &["--insecure"]).status.success());
    is_refused(&health(&url, &[]), &["certificate", &url]);
}
