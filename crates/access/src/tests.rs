//! Loading of web configuration files. Requests are tested in the server's `tests/all/access.rs`.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use http::header;
use tempfile::TempDir;

use super::*;

const HASH: &str = "$2y$04$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";
const TOKEN: &str = "0123456789-verySecret";

fn open(text: &str) -> Result<Arc<Access>, String> {
    let directory = TempDir::new().unwrap();
    open_in(directory.path(), text)
}

fn open_in(directory: &Path, text: &str) -> Result<Arc<Access>, String> {
    let path = directory.join("web.yml");
    fs::write(&path, text).unwrap();
    Access::open(Some(path)).map_err(|error| error.to_string())
}

/// The problem with a file, if it is not what is expected.
fn unexpected_error(text: &str, line: usize, column: usize, expected: &str) -> Option<String> {
    let error = open(text).expect_err(text);
    let place = format!("line {line} column {column} ");
    let as_expected = error.contains(&place)
        && error.contains(expected)
        && !error.contains("verySecret")
        && !error.contains(HASH);
    (!as_expected).then(|| format!("{text}: expected {place}and {expected}, found {error}"))
}

/// A file for a server without access control.
const NO_RULES: &str = "{}\n";

/// A certificate and its key, self-signed, as files.
fn identity(directory: &Path, name: &str) {
    let signed = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    fs::write(directory.join("cert.pem"), signed.cert.pem()).unwrap();
    let key = signed.signing_key.serialize_pem();
    fs::write(directory.join("key.pem"), key).unwrap();
}

const TLS: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

#[test]
fn a_file_of_prometheus_is_taken_as_it_is() {
    let directory = TempDir::new().unwrap();
    identity(directory.path(), "localhost");
    fs::copy(
        directory.path().join("cert.pem"),
        directory.path().join("ca.pem"),
    )
    .unwrap();
    let access = open_in(
        directory.path(),
        &format!(
            "tls_server_config:
  cert_file: cert.pem
  key_file: key.pem
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
  client_allowed_sans: [one.example, spiffe://two]
  min_version: TLS12
  max_version: TLS13
  cipher_suites:
  - TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
  - TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
  - TLS_AES_128_GCM_SHA256
  prefer_server_cipher_suites: true
  curve_preferences: [CurveP256, X25519]
http_server_config:
  http2: true
  headers:
    Content-Security-Policy: default-src 'self'
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    X-XSS-Protection: '1'
    Strict-Transport-Security: max-age=31536000
rate_limit:
  interval: 1s
  burst: 10
basic_auth_users:
  alice: {HASH}
  bob: {HASH}
"
        ),
    )
    .unwrap();
    assert!(access.is_restricted());
    assert!(!access.is_http1_only());
    assert_eq!(access.with_tls(Tls::verifies_clients), Some(true));
    let mut headers = HeaderMap::new();
    access.add_headers(&mut headers);
    assert_eq!(headers.len(), 5);
    assert_eq!(headers[header::X_FRAME_OPTIONS], "deny");
}

#[test]
fn an_empty_file_is_an_error() {
    let directory = TempDir::new().unwrap();
    for text in ["", " \n\n", "# nothing\n", "---\n", "~\n"] {
        let error = open_in(directory.path(), text).expect_err(text);
        for expected in ["web.yml: is empty", "{}", "--web.config.file"] {
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

#[test]
fn a_file_without_rules_restricts_nothing() {
    for text in [NO_RULES, "tls_server_config:\nbasic_auth_users:\n"] {
        let access = open(text).unwrap();
        assert!(!access.is_restricted());
        assert!(access.with_tls(|_| ()).is_none());
    }
    assert!(!Access::open(None).unwrap().is_restricted());
    let missing = Access::open(Some("/does/not/exist.yml".into()));
    assert!(missing.unwrap_err().to_string().contains("exist.yml"));
}

#[test]
fn our_section_has_roles() {
    let digest = "0f".repeat(32);
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("token"), format!("{TOKEN}\n")).unwrap();
    let text = format!(
        "icecore:
  users:
    carol: {{password: {HASH}, roles: [read, write]}}
  tokens:
  - {{name: agents, token: {TOKEN}, roles: [write]}}
  - {{name: more, token_sha256: {digest}, roles: [read]}}
  - {{token_file: token, roles: [admin]}}
"
    );
    assert!(open_in(directory.path(), &text).unwrap().is_restricted());
}

#[test]
fn mistakes_have_a_place_and_a_cure() {
    let mut unexpected = Vec::new();
    for (text, line, column, expected) in [
        (
            "tls_sever_config: {}",
            1,
            1,
            "did you mean tls_server_config?",
        ),
        ("a: 1\nb: 2", 1, 1, "unknown key"),
        (
            "tls_server_config:\n  crt_file: x",
            2,
            3,
            "did you mean cert_file?",
        ),
        ("tls_server_config: [x]", 1, 20, "expected a map"),
        ("tls_server_config:\n  cert_file: x\n", 2, 14, "cannot read"),
        (
            "tls_server_config:\n  key_file: x\n",
            2,
            3,
            "needs one of cert and cert_file",
        ),
        (
            "tls_server_config:\n  cert: x\n  cert_file: y",
            3,
            14,
            "one of them is enough",
        ),
        (
            "tls_server_config:\n  cert: verySecret",
            2,
            9,
            "no certificates in PEM form",
        ),
        (
            "tls_server_config: {cert: x, cipher_suites: [TLS_RSA]}",
            1,
            46,
            "TLS13_AES_128_GCM_SHA256",
        ),
        (
            "tls_server_config: {cert: x, curve_preferences: [CurveP521]}",
            1,
            50,
            "secp384r1",
        ),
        (
            "tls_server_config: {cert: x, min_version: TLS14}",
            1,
            43,
            "TLS13",
        ),
        (
            "tls_server_config: {cert: x, max_version: TLS11}",
            1,
            43,
            "no version",
        ),
        ("http_server_config: {http2: maybe}", 1, 29, "true or false"),
        (
            "http_server_config:\n  headers:\n    X-Other: 1",
            3,
            5,
            "unknown key",
        ),
        (
            "http_server_config: {headers: {X-Frame-Options: allow}}",
            1,
            49,
            "deny or sameorigin",
        ),
        ("rate_limit: {interval: soon}", 1, 24, "expected"),
        ("rate_limit: {burst: -1}", 1, 21, "whole number"),
        ("basic_auth_users: {a: verySecret}", 1, 23, "bcrypt"),
        ("basic_auth_users: {'a:b': verySecret}", 1, 20, "colon"),
        (
            "basic_auth_users: {a: [verySecret]}",
            1,
            23,
            "expected text",
        ),
        ("basic_auth_users: verySecret", 1, 19, "expected a map"),
        ("basic_auth_users: {a: ''}", 1, 23, "bcrypt"),
        ("basic_auth_users:\n  a:\n", 2, 4, "bcrypt"),
        (
            "icecore: {tokens: [{token_file: '', roles: [read]}]}",
            1,
            33,
            "needs a path",
        ),
        (
            "icecore: {users: {a: {password: '', roles: [read]}}}",
            1,
            33,
            "bcrypt",
        ),
        ("icecore: {user: {}}", 1, 11, "did you mean users?"),
        (
            "icecore: {users: {a: {roles: [read]}}}",
            1,
            19,
            "needs a password",
        ),
        (
            "icecore: {users: {a: {password: verySecret, roles: [read]}}}",
            1,
            33,
            "bcrypt",
        ),
        (
            "icecore: {tokens: [{token: verySecret, roles: [read]}]}",
            1,
            28,
            "at least 16",
        ),
        (
            "icecore: {tokens: [{token: 'very Secret verySecret', roles: [read]}]}",
            1,
            28,
            "ASCII",
        ),
        (
            "icecore: {tokens: [{token_sha256: verySecret, roles: [read]}]}",
            1,
            35,
            "64 hexadecimal",
        ),
        (
            "icecore: {tokens: [{token_file: verySecret, roles: [read]}]}",
            1,
            33,
            "cannot read",
        ),
        (
            "icecore: {tokens: [{name: x, roles: [read]}]}",
            1,
            20,
            "needs one of token",
        ),
        ("icecore: {tokens: {a: b}}", 1, 19, "expected a list"),
        (
            "icecore: {client_certificates: [{roles: [read]}]}",
            1,
            33,
            "san and common_name",
        ),
        (
            "icecore: {client_certificates: [{san: x, roles: [read]}]}",
            1,
            1,
            "client_auth_type",
        ),
    ] {
        unexpected.extend(unexpected_error(text, line, column, expected));
    }
    let users = |roles: &str| format!("icecore: {{users: {{a: {{password: {HASH}{roles}}}}}}}");
    let twice = format!(
        "basic_auth_users: {{a: {HASH}}}\n{}",
        users(", roles: [read]")
    );
    for (text, line, column, expected) in [
        (users(""), 1, 19, "some of read, write, admin"),
        (users(", roles: []"), 1, 102, "some of read, write, admin"),
        (users(", roles: [owner]"), 1, 103, "\"owner\""),
        (twice, 1, 1, "\"a\" is also among basic_auth_users"),
    ] {
        unexpected.extend(unexpected_error(&text, line, column, expected));
    }
    assert_eq!(unexpected, Vec::<String>::new());
}

#[test]
fn every_mistake_is_reported_at_once() {
    let error = open("rate_limit: {burst: x}\nbasic_auth_users: {a: b}\nc: d\n").unwrap_err();
    assert!(error.starts_with("3 problems"), "{error}");
}

#[test]
fn rules_about_clients_fit_together() {
    let directory = TempDir::new().unwrap();
    identity(directory.path(), "localhost");
    let check = |more: &str, expected: &str| {
        let error = open_in(directory.path(), &format!("{TLS}{more}")).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("line "), "{error}");
    };
    check(
        "  client_auth_type: Sometimes\n",
        "RequireAndVerifyClientCert",
    );
    check("  client_ca_file: cert.pem\n", "needs a client_auth_type");
    check(
        "  client_auth_type: VerifyClientCertIfGiven\n",
        "needs a client_ca_file",
    );
    check("  client_allowed_sans: [a]\n", "RequireAnyClientCert");
    let asked = "  client_auth_type: RequestClientCert\n";
    check(
        &format!("{asked}icecore: {{client_certificates: [{{san: a, roles: [read]}}]}}\n"),
        "verifies certificates",
    );
    let checked = "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: key.pem\n";
    check(checked, "no certificates in PEM form");
    for auth in ["RequestClientCert", "RequireAnyClientCert", "NoClientCert"] {
        let text = format!("{TLS}  client_auth_type: {auth}\n");
        open_in(directory.path(), &text).unwrap();
    }
}

#[test]
fn a_key_of_another_certificate_is_an_error() {
    let directory = TempDir::new().unwrap();
    identity(directory.path(), "localhost");
    let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
    fs::write(directory.path().join("key.pem"), other).unwrap();
    let error = open_in(directory.path(), TLS).unwrap_err();
    assert!(error.contains("line 2 column 3"), "{error}");
    fs::write(directory.path().join("key.pem"), "verySecret").unwrap();
    let error = open_in(directory.path(), TLS).unwrap_err();
    assert!(error.contains("no private key"), "{error}");
    assert!(!error.contains("verySecret"), "{error}");
    let pasted = TLS.replace("key.pem", "verySecret");
    let error = open_in(directory.path(), &pasted).unwrap_err();
    assert!(error.contains("key_file: cannot read"), "{error}");
    assert!(!error.contains("verySecret"), "{error}");
}

#[test]
fn inline_certificates_are_taken() {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let indented = |text: &str| text.replace('\n', "\n    ");
    let access = open(&format!(
        "tls_server_config:\n  cert: |\n    {}\n  key: |\n    {}\nhttp_server_config: {{http2: false}}\n",
        indented(&signed.cert.pem()),
        indented(&signed.signing_key.serialize_pem()),
    ))
    .unwrap();
    let protocols = access.with_tls(|tls| tls.http.alpn_protocols.clone());
    assert_eq!(protocols, Some(vec![b"http/1.1".to_vec()]));
    assert!(access.is_http1_only());
}

/// Sets a file's time of change apart from the one before, whatever the file system's clock.
fn touch(path: &Path, age_seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + age_seconds);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

#[tokio::test]
async fn a_bad_file_changes_nothing_and_a_repaired_one_does() {
    let directory = TempDir::new().unwrap();
    let token = directory.path().join("token");
    fs::write(&token, "first-token-verySecret").unwrap();
    let text = "icecore: {tokens: [{token_file: token, roles: [read]}]}";
    let access = open_in(directory.path(), text).unwrap();
    let allowed = async |token: &str| {
        let mut headers = HeaderMap::new();
        let value = format!("Bearer {token}").parse().unwrap();
        headers.insert(header::AUTHORIZATION, value);
        let checked = access.check(&headers, None, None, Some(Role::Read)).await;
        checked.is_ok()
    };
    assert!(allowed("first-token-verySecret").await);
    assert!(!access.files_have_changed());

    fs::write(&token, "short").unwrap();
    touch(&token, 1);
    assert!(access.files_have_changed());
    let error = access.reload().unwrap_err().to_string();
    assert!(error.contains("at least 16"), "{error}");
    assert!(allowed("first-token-verySecret").await);
    assert!(!access.files_have_changed(), "said once");

    fs::write(&token, "other-token-verySecret").unwrap();
    touch(&token, 2);
    assert!(access.files_have_changed());
    access.reload().unwrap();
    assert!(!allowed("first-token-verySecret").await);
    assert!(allowed("other-token-verySecret").await);
    assert!(!format!("{access:?}").contains("verySecret"));
}

#[test]
fn connections_are_made_anew_only_when_clients_are_checked_in_another_way() {
    let directory = TempDir::new().unwrap();
    identity(directory.path(), "localhost");
    let access = open_in(directory.path(), TLS).unwrap();
    let changed = access.clients_changed();
    identity(directory.path(), "localhost");
    access.reload().unwrap();
    assert!(!changed.has_changed().unwrap());
    let stricter = format!("{TLS}  client_auth_type: RequireAnyClientCert\n");
    fs::write(directory.path().join("web.yml"), stricter).unwrap();
    access.reload().unwrap();
    assert!(changed.has_changed().unwrap());
}

const RATE: &str = "rate_limit: {interval: 1ms, burst: 100000}\n";

#[test]
fn a_reload_takes_no_protection_away() {
    let directory = TempDir::new().unwrap();
    identity(directory.path(), "localhost");
    let file = directory.path().join("web.yml");
    let users = format!("basic_auth_users: {{alice: {HASH}}}\n");
    let tokens = format!("icecore: {{tokens: [{{token: {TOKEN}, roles: [read]}}]}}\n");
    let any = format!("{TLS}  client_auth_type: RequireAnyClientCert\n");
    let verified = format!(
        "{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: cert.pem\n"
    );
    let named = format!("{verified}  client_allowed_sans: [a.example]\n");
    let tls13 = "  min_version: TLS13\n";
    let with_users = |text: &str| format!("{text}{users}");
    for (before, after, lost) in [
        (users.clone(), NO_RULES.into(), "would need no credential"),
        (
            users.clone(),
            "basic_auth_users:\n".into(),
            "need no credential",
        ),
        (users.clone(), "icecore: {}\n".into(), "need no credential"),
        (users.clone(), TLS.into(), "need no credential"),
        (tokens.clone(), NO_RULES.into(), "need no credential"),
        (with_users(RATE), users.clone(), "rate_limit"),
        (RATE.into(), NO_RULES.into(), "rate_limit"),
        (format!("{TLS}{tls13}"), TLS.into(), "min_version"),
        (with_users(TLS), TLS.into(), "need no credential"),
        (
            with_users(TLS),
            verified.clone(),
            "would need no credential",
        ),
        (verified.clone(), TLS.into(), "client_auth_type"),
        (with_users(TLS), users.clone(), "tls_server_config"),
        (TLS.into(), NO_RULES.into(), "tls_server_config"),
        (with_users(&any), with_users(TLS), "client_auth_type"),
        (with_users(&verified), with_users(TLS), "client_auth_type"),
        (with_users(&verified), with_users(&any), "client_auth_type"),
        (named.clone(), verified.clone(), "client_allowed_sans"),
    ] {
        let access = open_in(directory.path(), &before).unwrap();
        let was = (access.is_restricted(), access.with_tls(|tls| tls.clients));
        fs::write(&file, &after).unwrap();
        let error = access.reload().expect_err(&after).to_string();
        for expected in [lost, "web.yml", "restart"] {
            assert!(error.contains(expected), "{before}{after}: {error}");
        }
        let is = (access.is_restricted(), access.with_tls(|tls| tls.clients));
        assert_eq!(was, is, "{before}{after}");
        assert_eq!(access.problem(), Some(error));
        assert_eq!(last_reload(&access), 0);
        // What a restart would do.
        Access::open(Some(file.clone())).unwrap();
        fs::write(&file, &before).unwrap();
        access.reload().unwrap();
        assert_eq!(access.problem(), None);
        assert_eq!(last_reload(&access), 1);
    }
    for (before, after) in [
        (NO_RULES.to_owned(), NO_RULES.to_owned()),
        (NO_RULES.to_owned(), users.clone()),
        (users.clone(), with_users(RATE)),
        (with_users(RATE), with_users("rate_limit: {interval: 1s}\n")),
        (TLS.into(), format!("{TLS}{tls13}")),
        (users.clone(), tokens.clone()),
        (users.clone(), with_users(TLS)),
        (with_users(TLS), with_users(&verified)),
        (TLS.into(), verified.clone()),
        (verified, named),
    ] {
        let access = open_in(directory.path(), &before).unwrap();
        fs::write(&file, &after).unwrap();
        access.reload().unwrap();
    }
}

/// The metric of the last reload.
fn last_reload(access: &Access) -> u8 {
    let mut text = icecore_wire::prometheus::TextWriter::new();
    access.metrics.write(&mut text);
    let text = String::from_utf8(text.into_bytes()).unwrap();
    let name = "icecore_access_last_reload_successful ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.expect(name).parse().unwrap()
}

/// As an editor leaves the file that truncates it and then writes slowly, or a disk that is full.
#[tokio::test]
async fn no_part_of_a_file_opens_anything() {
    let directory = TempDir::new().unwrap();
    identity(directory.path(), "localhost");
    // The burst comes first, so that a part of the file allows as many requests.
    let rate = "rate_limit:\n  burst: 100000\n  interval: 1ms\n";
    let rules = format!(
        "http_server_config:
  http2: true
tls_server_config:
  cert_file: cert.pem
  key_file: key.pem
  client_ca_file: cert.pem
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans:
  - agent.example
  - other.example
basic_auth_users:
  alice: {HASH}
icecore:
  users:
    carol:
      roles: [read]
      password: {HASH}
  tokens:
  - roles: [write]
    token: {TOKEN}
"
    );
    let none = HeaderMap::new();
    // What comes last is lost first.
    for text in [format!("{rate}{rules}"), format!("{rules}{rate}")] {
        let access = open_in(directory.path(), &text).unwrap();
        let mut refused = 0;
        for length in (0..text.len()).rev() {
            fs::write(directory.path().join("web.yml"), &text[..length]).unwrap();
            refused += usize::from(access.reload().is_err());
            let denied = access.check(&none, None, None, Some(Role::Read)).await;
            assert_eq!(denied, Err(AuthError::Missing), "{length}");
            let demands = access.with_tls(|tls| (tls.clients, tls.limits_names));
            let all = (ClientAuth::RequireAndVerify, true);
            assert_eq!(demands, Some(all), "{length}");
            assert!(access.rules().rate.is_some(), "{length}");
        }
        assert!(refused > 100, "{refused}");
    }
}

/// Neither keeps its time of change and its length.
#[test]
fn a_repaired_permission_and_a_copy_with_an_old_time_are_noticed() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = TempDir::new().unwrap();
    let text = |user: &str| format!("basic_auth_users: {{{user}: {HASH}}}\n");
    let access = open_in(directory.path(), &text("alice")).unwrap();
    let file = directory.path().join("web.yml");
    touch(&file, 1);
    access.reload().unwrap();
    assert!(!access.files_have_changed());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    assert!(access.files_have_changed());
    access.reload().unwrap();
    assert!(!access.files_have_changed());
    let copy = directory.path().join("copy");
    fs::write(&copy, text("carol")).unwrap();
    touch(&copy, 1);
    fs::rename(copy, file).unwrap();
    assert!(access.files_have_changed());
}

#[tokio::test]
async fn a_rate_is_kept() {
    let access = open("rate_limit: {interval: 1h, burst: 2}").unwrap();
    let none = HeaderMap::new();
    let check = async |client: &str, role: Role| {
        let client = client.parse().ok();
        access.check(&none, None, client, Some(role)).await
    };
    for expected in [Ok(()), Ok(()), Err(AuthError::TooMany)] {
        assert_eq!(check("192.0.2.1", Role::Read).await, expected);
    }
    assert_eq!(check("192.0.2.1", Role::Open).await, Ok(()));
    // A client that has used up its share takes nothing from others.
    assert_eq!(check("192.0.2.2", Role::Read).await, Ok(()));
    let client = "192.0.2.1".parse().ok();
    let identified = access.identify(&none, None, client).await;
    assert_eq!(identified, Err(AuthError::TooMany));
}

#[test]
fn secrets_in_the_clear_are_noticed() {
    let directory = TempDir::new().unwrap();
    identity(directory.path(), "localhost");
    let token = "icecore: {tokens: [{token: 0123456789-verySecret, roles: [read]}]}\n";
    for (text, expected) in [
        (NO_RULES.to_owned(), false),
        (TLS.to_owned(), false),
        (token.to_owned(), true),
        (format!("basic_auth_users: {{a: {HASH}}}"), true),
        (format!("{TLS}{token}"), false),
    ] {
        let access = open_in(directory.path(), &text).unwrap();
        assert_eq!(access.takes_plain_secrets(), expected, "{text}");
    }
}
