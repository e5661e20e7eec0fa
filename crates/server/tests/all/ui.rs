//! The web interface as a browser meets it: files, redirects, and what is said to it.

use std::io::Read as _;

use crate::client::Answer;
use crate::served::TestServer;

const BROWSER: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");

async fn get(served: &TestServer, path: &str, headers: &[(&str, &str)]) -> Answer {
    served.request("GET", path, headers, b"").await
}

fn unzipped(answer: &Answer) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&answer.body[..]);
    decoder.read_to_end(&mut plain).unwrap();
    plain
}

/// The first file that the page names.
fn asset_of(page: &str) -> String {
    let (_, after) = page.split_once("./assets/").expect("the page names a file");
    let end = after.find('"').unwrap();
    format!("/ui/assets/{}", &after[..end])
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_compressed_for_those_who_can_read_it() {
    let served = TestServer::start(&[]).await;
    let plain = get(&served, "/ui/", &[]).await;
    assert_eq!(plain.status, 200);
    assert_eq!(
        plain.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(plain.header("content-encoding"), None);
    assert!(plain.text().contains("<title>Icecore"));
    let zipped = get(&served, "/ui/", &[("Accept-Encoding", "gzip, br, zstd")]).await;
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    assert_eq!(unzipped(&zipped), plain.body);
    for answer in [&plain, &zipped] {
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(
            answer.header("content-security-policy"),
            Some(
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: \
                 blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; \
                 frame-ancestors 'none'"
            )
        );
    }
    let asset = get(&served, &asset_of(plain.text()), &[]).await;
    assert_eq!(asset.status, 200);
    assert_eq!(
        asset.header("cache-control"),
        Some("public, max-age=31536000, immutable")
    );
    let head = served.request("HEAD", "/ui/", &[], b"").await;
    assert_eq!(head.status, 200);
    let length = plain.body.len().to_string();
    assert_eq!(head.header("content-length"), Some(length.as_str()));
    assert_eq!(served.request("POST", "/ui/", &[], b"").await.status, 405);
    for missing in [
        "/ui/assets/none-00000000.js",
        "/ui/../Cargo.toml",
        "/ui/%2e%2e/x",
    ] {
        let status = get(&served, missing, &[]).await.status;
        assert!([404, 307].contains(&status), "{missing}: {status}");
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_browser_has_is_not_sent_again() {
    let served = TestServer::start(&[]).await;
    let first = get(&served, "/ui/", &[]).await;
    let tag = first.header("etag").expect("a tag");
    for (given, status) in [
        (tag, 304),
        (tag.trim_start_matches("W/"), 304),
        (&format!("\"other\", {tag}"), 304),
        ("*", 304),
        ("\"other\"", 200),
    ] {
        let answer = get(&served, "/ui/", &[("If-None-Match", given)]).await;
        assert_eq!(answer.status, status, "{given}");
        assert_eq!(answer.header("etag"), Some(tag));
        assert_eq!(answer.body.is_empty(), status == 304);
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn links_lead_to_the_page() {
    let served = TestServer::start(&[]).await;
    for (path, place) in [
        ("/", "ui/"),
        ("/ui", "ui/"),
        ("/graph", "ui/#/query"),
        (
            "/graph?g0.expr=up%7Ba%3D%22b%22%7D&g0.tab=0",
            "ui/#/query?g0.expr=up%7Ba%3D%22b%22%7D&g0.tab=0",
        ),
        ("/query?g0.expr=up", "ui/#/query?g0.expr=up"),
    ] {
        let answer = get(&served, path, &[BROWSER]).await;
        assert_eq!(answer.status, 302, "{path}");
        assert_eq!(answer.header("location"), Some(place), "{path}");
    }
    let list = get(&served, "/", &[("Accept", "*/*")]).await;
    assert_eq!(list.status, 200);
    assert!(list.text().contains("/api/v1/query_range"));
    served.stop().await.unwrap();
}
