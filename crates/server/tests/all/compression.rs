//! Compressed answers, and pages of chosen origins.

use std::io::Read as _;

use crate::client::{Answer, encoded};
use crate::payload::{Payload, T0, series};
use crate::served::TestServer;

fn unpacked(answer: &Answer) -> Vec<u8> {
    assert!(answer.complete);
    let mut plain = Vec::new();
    match answer.header("content-encoding") {
        Some("gzip") => {
            let mut decoder = flate2::read::GzDecoder::new(&answer.body[..]);
            decoder.read_to_end(&mut plain).expect("gzip");
        }
        Some("zstd") => plain = zstd::decode_all(&answer.body[..]).expect("zstd"),
        other => panic!("{other:?}"),
    }
    plain
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_compressed_for_those_who_ask() {
    let served = TestServer::start(&[]).await;
    let hosts: Vec<String> = (0..2000).map(|i| format!("host-{i}")).collect();
    let many = |name: &'static str, count: usize| {
        let hosts = hosts.iter().take(count);
        hosts.map(move |host| series(name, &[("host", host)], &[(T0, 1.5)]))
    };
    let all: Vec<_> = many("few", 20).chain(many("many", 2000)).collect();
    assert_eq!(served.write(&Payload::v1(&all)).await.status, 204);
    let time = (T0 / 1000).to_string();
    let query = |query| {
        let params = [("query", query), ("time", time.as_str())];
        format!("/api/v1/query?{}", encoded(&params))
    };
    for path in [
        query("few"),
        query("many"),
        "/api/v1/series?match[]=many".into(),
        "/api/v1/label/host/values".into(),
        "/api/v1/export?match[]=many".into(),
        "/metrics".into(),
    ] {
        let plain = served.request("GET", &path, &[], b"").await;
        assert_eq!(plain.status, 200, "{path}: {}", plain.text());
        assert_eq!(plain.header("content-encoding"), None);
        assert_eq!(plain.header("vary"), Some("Accept-Encoding"));
        for (accepted, encoding) in [("gzip", "gzip"), ("gzip, deflate, br, zstd", "zstd")] {
            let headers = [("Accept-Encoding", accepted)];
            let packed = served.request("GET", &path, &headers, b"").await;
            assert_eq!(packed.status, 200);
            assert_eq!(packed.header("content-encoding"), Some(encoding), "{path}");
            assert_eq!(packed.header("content-type"), plain.header("content-type"));
            let unpacked = unpacked(&packed);
            assert!(packed.body.len() < unpacked.len() / 2, "{path}");
            if path != "/metrics" {
                assert_eq!(unpacked, plain.body, "{path}");
            }
        }
    }
    let headers = [("Accept-Encoding", "zstd")];
    let small = served
        .request("GET", &query("nothing"), &headers, b"")
        .await;
    assert_eq!(small.header("content-encoding"), None);
    let head = served.request("HEAD", "/-/ready", &headers, b"").await;
    assert_eq!(head.header("content-encoding"), None);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn chosen_origins_may_read() {
    let origins = "https?://(one|two)\\.example";
    let served = TestServer::start(&[("server.cors_origin", origins)]).await;
    for (origin, allowed) in [
        ("http://one.example", true),
        ("https://two.example", true),
        ("http://one.example.evil", false),
        ("http://three.example", false),
    ] {
        for (method, path) in [
            ("GET", "/api/v1/labels"),
            ("OPTIONS", "/api/v1/query"),
            ("GET", "/api/v1/query?query=1"),
            ("GET", "/api/v1/query?query="),
            ("GET", "/api/v1/nothing"),
        ] {
            let headers = [("Origin", origin)];
            let answer = served.request(method, path, &headers, b"").await;
            let header = answer.header("access-control-allow-origin");
            assert_eq!(header, allowed.then_some(origin), "{path}");
            let methods = answer.header("access-control-allow-methods");
            assert_eq!(methods, Some("GET, POST, OPTIONS"));
            assert_eq!(answer.header("vary"), Some("Origin"));
        }
    }
    served.stop().await.unwrap();
}
