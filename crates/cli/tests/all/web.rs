//! The web configuration file of a real process: TLS that commands verify, SIGHUP, and files that
//! are damaged.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use serde_json::Value as Json;

use crate::served::{PATIENCE, Serve, TestServer, Workplace, icecore};
use crate::text;

fn serve(workplace: &Workplace, web_config: &str) -> Serve {
    let file = workplace.path("web.yml");
    std::fs::write(&file, web_config).unwrap();
    Serve::new(workplace.path("data"), workplace.path("log"))
        .flags(["--web.config.file".as_ref(), file.as_os_str()])
}

/// Asks for one plus one.
fn query(url: &str, flags: &[&str]) -> Output {
    let mut command = icecore();
    command.args(["query", "instant", "1+1", "--server", url]);
    command.args(flags).output().unwrap()
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A supervisor does not start a server again that ends with this code.
#[test]
fn a_wrong_web_configuration_file_is_wrong_usage() {
    let workplace = Workplace::new();
    let mut served = serve(&workplace, "tls_server_config: {cert: cert.pem}\n").spawn();
    let status = served.wait_exit(PATIENCE);
    assert_eq!(status.code(), Some(2), "{}", served.log());
    assert!(served.log().contains("web.yml"), "{}", served.log());
}

#[test]
fn commands_trust_the_authority_that_they_are_given() {
    let workplace = Workplace::new();
    let write = |name: &str, text: &str| {
        let path = workplace.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (trusted, stranger) = (authority(), authority());
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &trusted).unwrap();
    write("cert.pem", &certificate.pem());
    write("key.pem", &key.serialize_pem());
    let ca = write("ca.pem", &trusted.pem());
    let other_ca = write("other.pem", &stranger.pem());
    let no_ca = write("none.pem", "no certificate\n");
    let tls = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n";
    let served = serve(&workplace, tls).spawn();
    served.wait_until("a listener", || served.address().is_some());
    let url = format!("https://{}", served.address().unwrap());
    assert!(served.log().contains(&url), "{}", served.log());
    served.wait_until("an answer", || {
        query(&url, &["--ca-file", &ca]).status.success()
    });
    let answer = query(&url, &["--ca-file", &ca]);
    assert!(text(&answer.stdout).contains('2'), "{answer:?}");
    let insecure = query(&url, &["--insecure"]);
    assert!(insecure.status.success(), "{insecure:?}");
    for flags in [
        &[][..],
        &["--ca-file", &other_ca],
        &["--ca-file", &no_ca],
        &["--ca-file", "not/here"],
    ] {
        let refused = query(&url, flags);
        assert!(!refused.status.success(), "{flags:?}: {refused:?}");
        assert!(!text(&refused.stderr).is_empty());
    }
    let refused = query(&url, &["--ca-file", &other_ca]);
    let said = text(&refused.stderr);
    assert!(said.contains("certificate"), "{said}");
}

#[test]
fn a_signal_reads_the_web_configuration_again() {
    let workplace = Workplace::new();
    let tokens =
        |token: &str| format!("icecore: {{tokens: [{{token: {token}, roles: [read]}}]}}\n");
    let token_file = |name: &str, token: &str| {
        let path = workplace.path(name);
        std::fs::write(&path, token).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let first = token_file("first", "a-token-for-the-first-time");
    let second = token_file("second", "a-token-for-the-second-time");
    let served = serve(&workplace, &tokens("a-token-for-the-first-time")).start();
    let url = format!("http://{}", served.address().unwrap());
    let may_ask = |token: &str| query(&url, &["--token-file", token]).status.success();
    assert!(may_ask(&first) && !may_ask(&second));
    let replace = |path: &Path, text: &str| {
        let new = workplace.path("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, path).unwrap();
    };
    replace(
        &workplace.path("web.yml"),
        &tokens("a-token-for-the-second-time"),
    );
    served.hang_up();
    served.wait_until("the second token", || may_ask(&second));
    assert!(!may_ask(&first));
    // The file is also looked at every few seconds; a signal reads it although nothing has changed.
    let reads = || served.log().matches("web configuration reloaded").count();
    let before = reads();
    served.hang_up();
    served.wait_until("another read", || reads() > before);
    served.wait_for_words("SIGHUP");
}

const TOKEN: &str = "a-token-of-an-administrator";

/// Removes whatever lies at a path.
fn remove(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        fs::remove_dir(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// A name, and the damage itself.
type Damage = (&'static str, fn(&Path));

/// Damages to a file by editors, full disks and mistakes.
const DAMAGES: [Damage; 7] = [
    ("truncated in place", |path| {
        let file = fs::File::options().write(true).open(path);
        file.unwrap().set_len(0).unwrap();
    }),
    ("deleted", remove),
    ("replaced by a directory", |path| {
        remove(path);
        fs::create_dir(path).unwrap();
    }),
    ("replaced by a link to nothing", |path| {
        remove(path);
        symlink("not/here", path).unwrap();
    }),
    ("replaced by a link to itself", |path| {
        remove(path);
        symlink(path, path).unwrap();
    }),
    ("replaced by a pipe", |path| {
        remove(path);
        make_pipe(path);
    }),
    // Root may read it all the same, and finds nothing in it.
    ("empty and unreadable", |path| {
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    }),
];

/// Puts a file with this content where anything may be.
fn repair(path: &Path, text: &str) {
    if fs::symlink_metadata(path).is_ok() {
        remove(path);
    }
    fs::write(path, text).unwrap();
}

/// The status of a request with a token or without.
fn status_of(served: &TestServer, token: Option<&str>) -> u16 {
    let header = token.map(|token| ("Authorization", format!("Bearer {token}")));
    let headers: Vec<_> = header.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let answer = served
        .client()
        .request("GET", "/api/v1/labels", &headers, b"");
    answer.unwrap().status
}

fn get(served: &TestServer, path: &str) -> String {
    let token = format!("Bearer {TOKEN}");
    let headers = [("Authorization", token.as_str())];
    let answer = served.client().request("GET", path, &headers, b"");
    let answer = answer.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

/// The whole answer: data, and warnings if there are any.
fn runtime_info(served: &TestServer) -> Json {
    let answer = get(served, "/api/v1/status/runtimeinfo");
    serde_json::from_str(&answer).unwrap()
}

/// Waits until the last reload was as expected, with the cause in log, status and metrics.
#[track_caller]
fn wait_for_reload(served: &TestServer, what: &str, successful: bool) {
    let line = format!(
        "icecore_access_last_reload_successful {}\n",
        u8::from(successful)
    );
    served.wait_until(what, || get(served, "/metrics").contains(&line));
    let info = runtime_info(served);
    assert_eq!(
        info["data"]["reloadConfigSuccess"], successful,
        "{what}: {info}"
    );
    if successful {
        assert_eq!(info["warnings"], Json::Null, "{what}");
    } else {
        let warning = info["warnings"][0].as_str().unwrap();
        let (_, problem) = warning.split_once("could not be used: ").unwrap();
        assert!(problem.contains("web.yml"), "{what}: {problem}");
        let log = served.log();
        assert!(
            log.contains("keeping the previous one") && log.contains(problem),
            "{what}: {problem}:\n{log}"
        );
    }
}

#[test]
fn no_damage_to_the_web_configuration_file_opens_anything() {
    let workplace = Workplace::new();
    let tokens = format!("icecore: {{tokens: [{{token: {TOKEN}, roles: [admin]}}]}}\n");
    let mut served = serve(&workplace, &tokens).start();
    let file = workplace.path("web.yml");
    let check_closed = |served: &TestServer, what: &str| {
        assert_eq!(status_of(served, None), 401, "{what}");
        let wrong = Some("a-token-that-is-not-there");
        assert_eq!(status_of(served, wrong), 401, "{what}");
        assert_eq!(status_of(served, Some(TOKEN)), 200, "{what}");
    };
    let without_credentials: [Damage; 3] = [
        ("without credentials", |path| {
            fs::write(path, "http_server_config: {http2: true}\n").unwrap();
        }),
        ("with an empty section", |path| {
            fs::write(path, "icecore:\nbasic_auth_users:\n").unwrap();
        }),
        ("cut off", |path| {
            let text = fs::read_to_string(path).unwrap();
            fs::write(path, &text[..text.len() / 2]).unwrap();
        }),
    ];
    let damages = DAMAGES.iter().chain(&without_credentials);
    for (index, (what, damage)) in damages.enumerate() {
        damage(&file);
        // It is looked at every few seconds anyway. A signal does not change what comes of it.
        if index > 0 {
            served.hang_up();
        }
        wait_for_reload(&served, what, false);
        check_closed(&served, what);
        repair(&file, &tokens);
        served.hang_up();
        wait_for_reload(&served, what, true);
        check_closed(&served, what);
    }
    // A client is told, too.
    fs::write(&file, "{}\n").unwrap();
    let token = format!("Bearer {TOKEN}");
    let headers = [("Authorization", token.as_str())];
    let answer = served.client().post("/-/reload", &headers, b"").unwrap();
    assert_eq!(answer.status, 500);
    let said = answer.text();
    assert!(
        said.contains("need no credential") && said.contains("restart"),
        "{said}"
    );
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success());
    // A supervisor that starts it again does not open an emptied file.
    let mut served = serve(&workplace, "# nothing\n").spawn();
    let status = served.wait_exit(PATIENCE);
    assert_eq!(status.code(), Some(2), "{}", served.log());
    let log = served.log();
    assert!(log.contains("web.yml: is empty"), "{log}");
    // Opening up takes a restart with a file that says so, and the log says what it does.
    let served = serve(&workplace, "{}\n").start();
    assert_eq!(status_of(&served, None), 200);
    assert!(
        served.log().contains("there is no access control"),
        "{}",
        served.log()
    );
}

#[test]
fn files_of_certificates_and_tokens_that_vanish_change_nothing() {
    let workplace = Workplace::new();
    let authority = authority();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let files = [
        ("cert.pem", certificate.pem()),
        ("key.pem", key.serialize_pem()),
        ("clients.pem", authority.pem()),
        ("token", TOKEN.to_owned()),
    ];
    for (name, text) in &files {
        fs::write(workplace.path(name), text).unwrap();
    }
    fs::write(workplace.path("ca.pem"), authority.pem()).unwrap();
    let served = serve(
        &workplace,
        "tls_server_config:
  cert_file: cert.pem
  key_file: key.pem
  client_ca_file: clients.pem
  client_auth_type: VerifyClientCertIfGiven
icecore: {tokens: [{token_file: token, roles: [read]}]}
",
    )
    .spawn();
    served.wait_until("a listener", || served.address().is_some());
    let url = format!("https://{}", served.address().unwrap());
    let path = |name: &str| workplace.path(name).to_str().unwrap().to_owned();
    fs::write(workplace.path("client-token"), TOKEN).unwrap();
    let (ca, token) = (path("ca.pem"), path("client-token"));
    let trust = ["--ca-file", ca.as_str()];
    let known = ["--ca-file", ca.as_str(), "--token-file", token.as_str()];
    served.wait_until("an answer", || query(&url, &known).status.success());
    let failures = || served.log().matches("keeping the previous one").count();
    let successes = || served.log().matches("web configuration reloaded").count();
    for (name, text) in &files {
        for (what, damage) in &DAMAGES {
            let what = format!("{name} {what}");
            let before = failures();
            damage(&workplace.path(name));
            served.hang_up();
            served.wait_until(&what, || failures() > before);
            let before = successes();
            assert!(query(&url, &known).status.success(), "{what}");
            assert!(!query(&url, &trust).status.success(), "{what}");
            repair(&workplace.path(name), text);
            served.hang_up();
            served.wait_until(&what, || successes() > before);
        }
    }
    assert!(query(&url, &known).status.success());
    assert!(!query(&url, &trust).status.success());
}
