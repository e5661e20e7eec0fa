//! The web configuration file of a real process: TLS that commands verify, and SIGHUP.

use std::path::Path;
use std::process::Output;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::served::{PATIENCE, Serve, Workplace, icecore};
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
