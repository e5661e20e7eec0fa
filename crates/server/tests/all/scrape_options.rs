//! Options of a job: each test fails when its option is ignored.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::scrape_target::{Asked, LiveTarget, OPEN_METRICS};
use crate::scraper::{Scraper, one_job};
use crate::served::until;

/// Starts a target with this page and a job with these keys for it.
async fn scraping(page: &str, keys: &str) -> (LiveTarget, Scraper) {
    let target = LiveTarget::start(page).await;
    let scraper = Scraper::start(&one_job(&[target.address.to_string()], keys)).await;
    (target, scraper)
}

/// Checks that a page is refused with this error, and that nothing of it is stored.
async fn refused(page: &str, keys: &str, error: &str) {
    let (_target, scraper) = scraping(page, keys).await;
    scraper.until_value("up", "0").await;
    let said = scraper.until_error(error).await;
    assert_eq!(said, error);
    assert!(scraper.query("m").await.is_empty());
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn honor_labels() {
    let page = "m{job=\"own\",instance=\"x\"} 1\n";
    let (target, scraper) = scraping(page, "").await;
    let found = scraper.until_value("m", "1").await;
    assert_eq!(found.label("job"), "test");
    assert_eq!(found.label("exported_job"), "own");
    let honor = one_job(&[target.address.to_string()], "honor_labels: true");
    scraper.reload(&honor).await;
    let found = scraper
        .until("m", |found| {
            found.len() == 1 && found[0].label("job") == "own"
        })
        .await;
    assert_eq!(found[0].label("instance"), "x");
    assert_eq!(found[0].label("exported_job"), "");
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn honor_timestamps() {
    // A minute ago is within the lookback.
    let then = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis()
        - 60_000;
    let page = format!("m 1 {then}\n");
    let (target, scraper) = scraping(&page, "").await;
    scraper
        .until_value("time() - timestamp(m) > bool 50", "1")
        .await;
    let not = one_job(&[target.address.to_string()], "honor_timestamps: false");
    scraper.reload(&not).await;
    scraper
        .until_value("time() - timestamp(m) < bool 50", "1")
        .await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn track_timestamps_staleness() {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let page = format!("m 1 {now}\nother 1\n");
    let (target, scraper) = scraping(&page, "").await;
    scraper.until_value("m", "1").await;
    target.expose("other 2\n");
    scraper.until_value("other", "2").await;
    // It has a time of its own and does not end.
    scraper.until_value("m", "1").await;
    let tracking = one_job(
        &[target.address.to_string()],
        "track_timestamps_staleness: true",
    );
    scraper.reload(&tracking).await;
    target.expose(&page);
    scraper.until_value("other", "1").await;
    target.expose("other 2\n");
    scraper.until_gone("m").await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_on_samples_and_labels() {
    refused("m 1\nn 1\n", "sample_limit: 1", "sample limit exceeded").await;
    refused(
        "m{a=\"1\"} 1\n",
        "label_limit: 3",
        "label_limit exceeded (metric: m, number of labels: 4, limit: 3)",
    )
    .await;
    refused(
        "m{a_long_name=\"1\"} 1\n",
        "label_name_length_limit: 10",
        "label_name_length_limit exceeded (metric: m, label name: a_long_name, length: 11, limit: 10)",
    )
    .await;
    refused(
        "m{a=\"12345678901234567890123\"} 1\n",
        "label_value_length_limit: 22",
        "label_value_length_limit exceeded (metric: m, label name: a, value: \"12345678901234567890123\", length: 23, limit: 22)",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn body_size_limit() {
    let page = format!("m 1\n# {}\n", "x".repeat(2000));
    refused(&page, "body_size_limit: 1KB", "body size limit exceeded").await;
    // Compressed it is small.
    let target = LiveTarget::start("").await;
    target.set(|behaviour| {
        behaviour.body = gzip(page.as_bytes());
        behaviour.headers.push(("content-encoding", "gzip".into()));
    });
    let job = one_job(
        &[target.address.to_string()],
        "body_size_limit: 1KB\nextra_scrape_metrics: true",
    );
    let scraper = Scraper::start(&job).await;
    scraper.until_error("body size limit exceeded").await;
    scraper.until_value("scrape_body_size_bytes", "-1").await;
    scraper.served.stop().await.unwrap();
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn target_limit() {
    let (first, second) = (
        LiveTarget::start("m 1\n").await,
        LiveTarget::start("m 1\n").await,
    );
    let targets = [first.address.to_string(), second.address.to_string()];
    let scraper = Scraper::start(&one_job(&targets, "target_limit: 1")).await;
    scraper.until("up == 0", |found| found.len() == 2).await;
    let error = scraper.until_error("target_limit").await;
    assert_eq!(
        error,
        "target_limit exceeded (number of targets: 2, limit: 1)"
    );
    assert!(first.asked().is_empty() && second.asked().is_empty());
    scraper.reload(&one_job(&targets, "target_limit: 2")).await;
    scraper.until("up == 1", |found| found.len() == 2).await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn path_and_parameters() {
    let keys = "metrics_path: /probe/it\nparams: {module: [http_2xx, second], debug: ['true']}";
    let (target, scraper) = scraping("m 1\n", keys).await;
    let asked = target.next_asked().await;
    let expected = "/probe/it?debug=true&module=http_2xx&module=second";
    assert_eq!(asked.path_and_query, expected);
    let shown = until(
        || scraper.targets(),
        |data| data["activeTargets"][0]["health"] == "up",
        "a scrape",
    )
    .await;
    let url = format!("http://{}{expected}", target.address);
    assert_eq!(shown["activeTargets"][0]["scrapeUrl"], url);
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn compression() {
    let (target, scraper) = scraping("m 1\n", "").await;
    assert_eq!(
        target.next_asked().await.header("accept-encoding"),
        Some("zstd,gzip")
    );
    target.set(|behaviour| {
        behaviour.body = gzip(b"m 2\n");
        behaviour.headers.push(("content-encoding", "gzip".into()));
    });
    scraper.until_value("m", "2").await;
    target.set(|behaviour| {
        behaviour.body = zstd::encode_all(&b"m 3\n"[..], 1).unwrap();
        behaviour.headers.pop();
        behaviour.headers.push(("content-encoding", "zstd".into()));
    });
    scraper.until_value("m", "3").await;
    let plain = one_job(&[target.address.to_string()], "enable_compression: false");
    scraper.reload(&plain).await;
    until(
        || target.next_asked(),
        |asked| asked.header("accept-encoding") == Some("identity"),
        "a request without compression",
    )
    .await;
    target.set(|behaviour| behaviour.headers.push(("content-encoding", "br".into())));
    scraper
        .until_error("unsupported Content-Encoding \"br\"")
        .await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn protocols_and_fallback() {
    let (target, scraper) = scraping("m 1\n", "scrape_protocols: [PrometheusText0.0.4]").await;
    let asked = target.next_asked().await;
    let accept = asked.header("accept").unwrap();
    assert!(
        accept.starts_with("text/plain;version=0.0.4;q="),
        "{accept}"
    );
    scraper.until_value("m", "1").await;
    target.set(|behaviour| behaviour.headers.clear());
    scraper.until_error("blank Content-Type").await;
    target.set(|behaviour| behaviour.headers.push(("content-type", "text/html".into())));
    scraper
        .until_error("unsupported Content-Type \"text/html\"")
        .await;
    let fallback = "fallback_scrape_protocol: PrometheusText0.0.4";
    scraper
        .reload(&one_job(&[target.address.to_string()], fallback))
        .await;
    scraper.until_value("up", "1").await;
    // What the body is said to be decides how it is read.
    target.set(|behaviour| behaviour.headers = vec![("content-type", OPEN_METRICS.into())]);
    scraper.until_value("up", "0").await;
    target.expose("# TYPE c counter\nc_total 5\nc_created 1\n# EOF\n");
    scraper.until_value("c_total", "5").await;
    scraper.until_value("c_created", "1").await;
    scraper.served.stop().await.unwrap();
}

/// Two applications of one address, each behind a socket of its own.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn targets_behind_unix_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let mut groups = String::new();
    let mut targets = Vec::new();
    for (name, page) in [("a", "m 1\n"), ("b", "m 2\n")] {
        let path = directory.path().join(format!("{name}.sock"));
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let (target, router) = LiveTarget::at(([127, 0, 0, 1], 1).into(), page);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let path = path.display();
        groups += &format!("{{targets: [app], labels: {{app: {name}, socket: '{path}'}}}}, ");
        targets.push(target);
    }
    let file = format!(
        "scrape_configs:\n  - job_name: test\n    scrape_interval: 200ms\n    scrape_timeout: 200ms\n    \
         static_configs: [{groups}]\n    relabel_configs:\n      \
         - {{source_labels: [socket], target_label: __unix_socket__}}\n      \
         - {{regex: socket, action: labeldrop}}\n"
    );
    let scraper = Scraper::start(&file).await;
    scraper.until_value("m{app=\"a\"}", "1").await;
    scraper.until_value("m{app=\"b\"}", "2").await;
    let found = scraper.query("m{app=\"a\"}").await;
    assert_eq!(found[0].label("instance"), "app");
    assert_eq!(found[0].label("socket"), "");
    assert_eq!(targets[0].next_asked().await.header("host"), Some("app"));
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn openmetrics_2() {
    let target = LiveTarget::start(concat!(
        "# TYPE c_total counter\nc_total 5 st@1\n",
        "# TYPE h histogram\n",
        "h {count:3,sum:4.5,schema:0,zero_threshold:0,zero_count:1,positive_spans:[0:1],positive_buckets:[2],bucket:[1:2,+Inf:3]}\n",
        "# EOF\n",
    ))
    .await;
    let content_type = "application/openmetrics-text; version=2.0.0; charset=utf-8";
    target.set(|behaviour| behaviour.headers = vec![("content-type", content_type.into())]);
    let keys = "scrape_protocols: [OpenMetricsText2.0.0, PrometheusText0.0.4]";
    let address = target.address.to_string();
    let settings = [("scrape.start_timestamps", "true")];
    let scraper =
        Scraper::start_with(&one_job(std::slice::from_ref(&address), keys), &settings).await;
    scraper.until_value("c_total", "5").await;
    scraper.until_value("h_bucket{le=\"1.0\"}", "2").await;
    scraper.until_value("h_count", "3").await;
    let lines = scraper.served.export_once(&[("match[]", "c_total")]).await;
    assert_eq!(lines[0]["start_timestamps"][0][1], 1000, "{}", lines[0]);
    let accept = target.next_asked().await;
    let accept = accept.header("accept").unwrap();
    assert!(
        accept.starts_with("application/openmetrics-text;version=2.0.0;q="),
        "{accept}"
    );
    let native = format!("{keys}\nscrape_native_histograms: true");
    scraper.reload(&one_job(&[address], &native)).await;
    scraper.until_value("histogram_count(h)", "3").await;
    scraper.until_gone("h_count").await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn start_timestamps() {
    let target = LiveTarget::start("# TYPE c counter\nc_total 5\nc_created 1\n# EOF\n").await;
    target.set(|behaviour| behaviour.headers = vec![("content-type", OPEN_METRICS.into())]);
    let targets = [target.address.to_string()];
    let settings = [("scrape.start_timestamps", "true")];
    let scraper = Scraper::start_with(&one_job(&targets, ""), &settings).await;
    scraper.until_value("c_total", "5").await;
    scraper.until_value("up", "1").await;
    assert!(scraper.query("c_created").await.is_empty());
    let lines = scraper.served.export_once(&[("match[]", "c_total")]).await;
    assert_eq!(lines[0]["start_timestamps"][0][1], 1000, "{}", lines[0]);
    // It has them at no cost, and is asked for first, unless the file says otherwise.
    let accept = target.next_asked().await;
    let accept = accept.header("accept").unwrap();
    assert!(
        accept.starts_with("application/vnd.google.protobuf"),
        "{accept}"
    );
    let config = scraper.served.get("/api/v1/status/config", &[]).await;
    let shown = config.data()["yaml"].as_str().unwrap().to_owned();
    assert_eq!(shown.matches("- PrometheusProto\n").count(), 2, "{shown}");
    let text = "scrape_protocols: [PrometheusText0.0.4]";
    scraper.reload(&one_job(&targets, text)).await;
    let is_text = |asked: &Asked| !asked.header("accept").unwrap().contains("protobuf");
    until(|| target.next_asked(), is_text, "a request for text").await;
    assert!(scraper.query("c_created").await.is_empty());
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn escaping_and_validation_of_names() {
    let keys = "metric_name_validation_scheme: legacy\nmetric_name_escaping_scheme: underscores";
    let (target, scraper) = scraping("{\"with.dots\"} 1\n", keys).await;
    let asked = target.next_asked().await;
    let accept = asked.header("accept").unwrap();
    assert!(accept.contains("escaping=underscores"), "{accept}");
    scraper.until_error("invalid metric name").await;
    scraper
        .reload(&one_job(&[target.address.to_string()], ""))
        .await;
    scraper.until_value("{\"with.dots\"}", "1").await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn classic_histograms_become_native_ones() {
    let page =
        "# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4\nh_count 3\n";
    let (target, scraper) = scraping(page, "").await;
    scraper.until_value("h_bucket{le=\"1.0\"}", "2").await;
    let convert = "convert_classic_histograms_to_nhcb: true";
    scraper
        .reload(&one_job(&[target.address.to_string()], convert))
        .await;
    scraper.until_gone("h_bucket").await;
    scraper.until_value("histogram_count(h)", "3").await;
    let limited = "convert_classic_histograms_to_nhcb: true\nnative_histogram_bucket_limit: 1";
    scraper
        .reload(&one_job(&[target.address.to_string()], limited))
        .await;
    scraper.until_error("histogram bucket limit exceeded").await;
    // A histogram ends as one.
    scraper.until_gone("h").await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn relabelling_of_targets_and_metrics() {
    let keys = "relabel_configs:\n  - {source_labels: [__address__], regex: '(.*):.*', target_label: host}\n  \
                - {source_labels: [host], regex: '127.*', action: keep}\n  \
                - {target_label: env, replacement: test}\n\
                metric_relabel_configs:\n  - {source_labels: [__name__], regex: 'noise_.*', action: drop}\n  \
                - {regex: secret, action: labeldrop}\n";
    let (target, scraper) = scraping("m{secret=\"x\"} 1\nnoise_a 1\n", keys).await;
    let found = scraper.until_value("m", "1").await;
    assert_eq!(found.label("host"), "127.0.0.1");
    assert_eq!(found.label("env"), "test");
    assert_eq!(found.label("secret"), "");
    assert!(scraper.query("noise_a").await.is_empty());
    let dropping =
        "relabel_configs: [{source_labels: [__address__], regex: '127.*', action: drop}]";
    scraper
        .reload(&one_job(&[target.address.to_string()], dropping))
        .await;
    scraper.until_gone("up").await;
    let targets = scraper.targets().await;
    assert_eq!(targets["activeTargets"].as_array().unwrap().len(), 0);
    assert_eq!(targets["droppedTargetCounts"]["test"], 1);
    let dropped = &targets["droppedTargets"][0];
    assert_eq!(dropped["scrapePool"], "test");
    assert_eq!(
        dropped["discoveredLabels"]["__address__"],
        target.address.to_string()
    );
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keep_dropped_targets() {
    let keys = "keep_dropped_targets: 1\nrelabel_configs: [{source_labels: [__address__], action: drop, regex: '.*'}]";
    let targets = ["a:1".to_owned(), "b:1".to_owned(), "c:1".to_owned()];
    let scraper = Scraper::start(&one_job(&targets, keys)).await;
    let data = until(
        || scraper.targets(),
        |data| data["droppedTargetCounts"]["test"] == 3,
        "three dropped targets",
    )
    .await;
    assert_eq!(data["droppedTargets"].as_array().unwrap().len(), 1);
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn extra_scrape_metrics() {
    let keys = "extra_scrape_metrics: true\nsample_limit: 9";
    let (target, scraper) = scraping("m 1\n", keys).await;
    scraper.until_value("scrape_timeout_seconds", "0.2").await;
    scraper.until_value("scrape_sample_limit", "9").await;
    scraper.until_value("scrape_body_size_bytes", "4").await;
    scraper
        .reload(&one_job(&[target.address.to_string()], ""))
        .await;
    scraper.until_gone("scrape_sample_limit").await;
    scraper.served.stop().await.unwrap();
}

/// A family with one histogram, native at schema 3 with eight buckets, and classic with two, as
/// protobuf.
fn native_page() -> Vec<u8> {
    fn varint(out: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }
    fn number(out: &mut Vec<u8>, field: u64, value: u64) {
        varint(out, field << 3);
        varint(out, value);
    }
    fn signed(out: &mut Vec<u8>, field: u64, value: i64) {
        number(out, field, ((value << 1) ^ (value >> 63)) as u64);
    }
    fn double(out: &mut Vec<u8>, field: u64, value: f64) {
        varint(out, field << 3 | 1);
        out.extend_from_slice(&value.to_le_bytes());
    }
    fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
        varint(out, field << 3 | 2);
        varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }
    let mut histogram = Vec::new();
    number(&mut histogram, 1, 8);
    double(&mut histogram, 2, 12.5);
    for (count, bound) in [(3, 1.5), (8, f64::INFINITY)] {
        let mut bucket = Vec::new();
        number(&mut bucket, 1, count);
        double(&mut bucket, 2, bound);
        bytes(&mut histogram, 3, &bucket);
    }
    signed(&mut histogram, 5, 3);
    double(&mut histogram, 6, 1e-3);
    number(&mut histogram, 7, 0);
    let mut span = Vec::new();
    signed(&mut span, 1, 1);
    number(&mut span, 2, 8);
    bytes(&mut histogram, 12, &span);
    for delta in [1, 0, 0, 0, 0, 0, 0, 0] {
        signed(&mut histogram, 13, delta);
    }
    let mut metric = Vec::new();
    bytes(&mut metric, 7, &histogram);
    let mut family = Vec::new();
    bytes(&mut family, 1, b"h");
    number(&mut family, 3, 4);
    bytes(&mut family, 4, &metric);
    let mut page = Vec::new();
    varint(&mut page, family.len() as u64);
    page.extend_from_slice(&family);
    page
}

/// How many buckets the native histogram `h` has.
async fn native_buckets(scraper: &Scraper) -> usize {
    let answer = scraper.served.get("/api/v1/query", &[("query", "h")]).await;
    let data = answer.data();
    let buckets = data["result"][0]["histogram"][1]["buckets"].as_array();
    buckets.map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn native_histograms_beside_classic_ones() {
    let target = LiveTarget::start("").await;
    let protobuf = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
    target.set(|behaviour| {
        behaviour.headers = vec![("content-type", protobuf.into())];
        behaviour.body = native_page();
    });
    let targets = [target.address.to_string()];
    let scraper = Scraper::start(&one_job(&targets, "")).await;
    let classic = "count({__name__=~\"h_(bucket|count|sum)\"})";
    // Without the option only what is classic is taken, and protobuf is not asked for.
    scraper.until_value(classic, "4").await;
    scraper.until_value("h_bucket{le=\"1.5\"}", "3").await;
    assert!(scraper.query("h").await.is_empty());
    let accept = target.next_asked().await;
    let accept = accept.header("accept").unwrap();
    assert!(!accept.contains("protobuf"), "{accept}");

    let native = "scrape_native_histograms: true";
    scraper.reload(&one_job(&targets, native)).await;
    scraper.until_value("histogram_count(h)", "8").await;
    scraper
        .until_gone("{__name__=~\"h_(bucket|count|sum)\"}")
        .await;
    until(|| native_buckets(&scraper), |n| *n == 8, "eight buckets").await;
    let accept = target.next_asked().await;
    let accept = accept.header("accept").unwrap();
    assert!(
        accept.starts_with("application/vnd.google.protobuf"),
        "{accept}"
    );

    let both = "scrape_native_histograms: true\nalways_scrape_classic_histograms: true";
    scraper.reload(&one_job(&targets, both)).await;
    scraper.until_value(classic, "4").await;
    scraper.until_value("histogram_count(h)", "8").await;

    // Buckets that grow by 2 are those of schema 0: (1, 2] has them all.
    let coarse = "scrape_native_histograms: true\nnative_histogram_min_bucket_factor: 2";
    scraper.reload(&one_job(&targets, coarse)).await;
    until(|| native_buckets(&scraper), |n| *n == 1, "one bucket").await;
    scraper.until_value("histogram_count(h)", "8").await;
    scraper
        .until_value("histogram_fraction(1, 2, h)", "1")
        .await;
    scraper.served.stop().await.unwrap();
}
