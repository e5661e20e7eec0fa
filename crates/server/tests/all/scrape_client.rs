//! How a target is spoken to: TLS, credentials, headers, redirects, proxies.

use std::sync::Arc;

use hyper::server::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::scrape_target::LiveTarget;
use crate::scraper::{Scraper, one_job};
use crate::served::until;

async fn job_for(target: &LiveTarget, keys: &str) -> Scraper {
    Scraper::start(&one_job(&[target.address.to_string()], keys)).await
}

/// Waits until a request has this header.
async fn until_header(target: &LiveTarget, name: &str, value: &str) {
    until(
        || target.next_asked(),
        |asked| asked.header(name) == Some(value),
        value,
    )
    .await;
}

/// A target behind TLS, and its certificate.
async fn tls_target(page: &str) -> (LiveTarget, String) {
    let names = vec!["127.0.0.1".to_owned(), "target.test".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::from(key))
        .expect("it fits its key");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (target, router) = LiveTarget::at(address, page);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                // Who does not trust the certificate goes away.
                if let Ok(stream) = acceptor.accept(stream).await {
                    let service = TowerToHyperService::new(router);
                    let _ = Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                }
            });
        }
    });
    (target, made.cert.pem())
}

#[tokio::test(flavor = "multi_thread")]
async fn https_with_its_own_authority() {
    let (target, certificate) = tls_target("m 1\n").await;
    let untrusted = job_for(&target, "scheme: https").await;
    untrusted.until_value("up", "0").await;
    let error = untrusted.until_error("certificate").await;
    assert!(error.contains("https://"), "{error}");
    let trusting = "scheme: https\ntls_config: {ca_file: ca.pem}";
    std::fs::write(untrusted.path("ca.pem"), &certificate).unwrap();
    untrusted
        .reload(&one_job(&[target.address.to_string()], trusting))
        .await;
    untrusted.until_value("m", "1").await;
    let careless = "scheme: https\ntls_config: {insecure_skip_verify: true}";
    untrusted
        .reload(&one_job(&[target.address.to_string()], careless))
        .await;
    target.expose("m 2\n");
    untrusted.until_value("m", "2").await;
    untrusted.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials() {
    let target = LiveTarget::start("m 1\n").await;
    let scraper = job_for(&target, "basic_auth: {username: me, password: secret}").await;
    until_header(&target, "authorization", "Basic bWU6c2VjcmV0").await;
    let shown = scraper.served.get("/api/v1/status/config", &[]).await;
    let shown = shown.data()["yaml"].as_str().unwrap().to_owned();
    assert!(shown.contains("<secret>"), "{shown}");
    assert!(!shown.contains("password: secret"), "{shown}");
    // From a file, which is read anew when it changes.
    std::fs::write(scraper.path("token"), "first\n").unwrap();
    let bearer = "authorization: {credentials_file: token}";
    scraper
        .reload(&one_job(&[target.address.to_string()], bearer))
        .await;
    until_header(&target, "authorization", "Bearer first").await;
    std::fs::write(scraper.path("token"), "second").unwrap();
    until_header(&target, "authorization", "Bearer second").await;
    let headers = "http_headers: {X-Tenant: {values: [a]}, X-Key: {secrets: [hidden]}}";
    scraper
        .reload(&one_job(&[target.address.to_string()], headers))
        .await;
    until_header(&target, "x-tenant", "a").await;
    until_header(&target, "x-key", "hidden").await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_followed_unless_told_not_to() {
    let end = LiveTarget::start("m 1\n").await;
    let begin = LiveTarget::start("").await;
    let location = format!("http://{}/elsewhere", end.address);
    begin.set(|behaviour| {
        behaviour.status = 302;
        behaviour.headers.push(("location", location));
    });
    let scraper = job_for(&begin, "").await;
    scraper.until_value("m", "1").await;
    assert_eq!(end.next_asked().await.path_and_query, "/elsewhere");
    scraper
        .reload(&one_job(
            &[begin.address.to_string()],
            "follow_redirects: false",
        ))
        .await;
    scraper
        .until_error("server returned HTTP status 302 Found")
        .await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies() {
    // A proxy for plain HTTP is asked for the whole URL.
    let proxy = LiveTarget::start("m 1\n").await;
    let keys = format!("proxy_url: http://{}", proxy.address);
    let scraper = Scraper::start(&one_job(&["nowhere.invalid:80".into()], &keys)).await;
    scraper.until_value("m", "1").await;
    let asked = proxy.next_asked().await;
    assert_eq!(asked.header("host"), Some("nowhere.invalid"));
    scraper.served.stop().await.unwrap();
}
