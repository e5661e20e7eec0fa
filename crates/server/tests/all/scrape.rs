//! Scraping, from a live target to a query: what is stored, what ends, and what a reload does.

use std::time::Duration;

use crate::scrape_target::LiveTarget;
use crate::scraper::{Found, Scraper, one_job};
use crate::served::until;

const PAGE: &str = "# HELP http_requests_total Requests.\n# TYPE http_requests_total counter\n\
                    http_requests_total{code=\"200\"} 7\nhttp_requests_total{code=\"500\"} 1\n";

fn addresses(targets: &[&LiveTarget]) -> Vec<String> {
    targets.iter().map(|t| t.address.to_string()).collect()
}

/// Checks that the one series selected has no staleness marker. A value of 0 is no end: on a busy
/// machine a scrape may be too late.
async fn never_ended(scraper: &Scraper, selector: &str) {
    let lines = scraper.served.export_once(&[("match[]", selector)]).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    let values = lines[0]["values"].as_array().unwrap();
    let is_up_or_down = |value: &serde_json::Value| matches!(value.as_f64(), Some(0.0 | 1.0));
    assert!(values.iter().all(is_up_or_down), "{values:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_target_is_scraped() {
    let target = LiveTarget::start(PAGE).await;
    let scraper = Scraper::start(&one_job(&addresses(&[&target]), "")).await;
    let found = scraper
        .until_value("http_requests_total{code=\"200\"}", "7")
        .await;
    assert_eq!(found.label("job"), "test");
    assert_eq!(found.label("instance"), target.address.to_string());
    scraper.until_value("up", "1").await;
    scraper.until_value("scrape_samples_scraped", "2").await;
    scraper
        .until_value("scrape_samples_post_metric_relabeling", "2")
        .await;
    // The first scrape adds two, the next none.
    scraper.until_value("scrape_series_added", "0").await;
    let took = scraper.query("scrape_duration_seconds > 0").await;
    assert_eq!(took.len(), 1);
    assert!(scraper.query("scrape_timeout_seconds").await.is_empty());
    let asked = target.next_asked().await;
    assert_eq!(asked.path_and_query, "/metrics");
    let accept = asked.header("accept").unwrap();
    assert!(
        accept.starts_with("application/openmetrics-text;version=1.0.0"),
        "{accept}"
    );
    let timeout = asked.header("x-prometheus-scrape-timeout-seconds");
    assert_eq!(timeout, Some("0.2"));
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_series_that_disappears_ends() {
    let target = LiveTarget::start(PAGE).await;
    let scraper = Scraper::start(&one_job(&addresses(&[&target]), "")).await;
    scraper
        .until("http_requests_total", |found| found.len() == 2)
        .await;
    target.expose("http_requests_total{code=\"200\"} 8\n");
    // The lookback of a query would show it for five minutes.
    scraper.until_value("http_requests_total", "8").await;
    target.expose(PAGE);
    scraper
        .until("http_requests_total", |found| found.len() == 2)
        .await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_fails_is_down_and_its_series_end() {
    let target = LiveTarget::start(PAGE).await;
    let scraper = Scraper::start(&one_job(&addresses(&[&target]), "")).await;
    scraper.until_value("up", "1").await;
    target.set(|behaviour| behaviour.status = 503);
    scraper.until_value("up", "0").await;
    scraper.until_gone("http_requests_total").await;
    let refused = "server returned HTTP status 503 Service Unavailable";
    assert_eq!(scraper.until_error(refused).await, refused);
    target.set(|behaviour| behaviour.status = 200);
    scraper.until_value("up", "1").await;
    // A page that cannot be read to its end counts for nothing.
    target.expose("good 1\nbad\n");
    scraper.until_value("up", "0").await;
    scraper.until_gone("http_requests_total").await;
    let error = scraper.until_error("line 2").await;
    assert!(!error.is_empty());
    assert!(scraper.query("good").await.is_empty());
    scraper.until_value("scrape_samples_scraped", "1").await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_does_not_answer_is_down() {
    let slow = LiveTarget::start(PAGE).await;
    slow.set(|behaviour| behaviour.delay = Duration::from_secs(60));
    let scraper = Scraper::start(&one_job(&addresses(&[&slow]), "")).await;
    scraper.until_value("up", "0").await;
    let error = scraper.until_error("context deadline exceeded").await;
    assert!(
        error.starts_with(&format!("Get \"http://{}/metrics\": ", slow.address)),
        "{error}"
    );
    // Nothing listens there, and nothing else can: the port is ours.
    let silent = tokio::net::TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = silent.local_addr().unwrap().to_string();
    scraper.reload(&one_job(&[address], "")).await;
    scraper.until_error("onnection refused").await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_changes_what_has_changed_and_nothing_else() {
    let (stays, goes, comes) = (
        LiveTarget::start(PAGE).await,
        LiveTarget::start(PAGE).await,
        LiveTarget::start(PAGE).await,
    );
    let scraper = Scraper::start(&one_job(&addresses(&[&stays, &goes]), "")).await;
    scraper.until("up", |found| found.len() == 2).await;
    let answer = scraper
        .reload(&one_job(
            &addresses(&[&stays, &comes]),
            "honor_timestamps: false",
        ))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let of = |target: &LiveTarget| {
        let address = target.address.to_string();
        move |found: &&Found| found.label("instance") == address
    };
    let (is_gone, has_come) = (of(&goes), of(&comes));
    scraper
        .until("up == 1", |found| {
            let is_gone = !found.iter().any(|f| is_gone(&f));
            is_gone && found.iter().any(|f| has_come(&f)) && found.len() == 2
        })
        .await;
    let gone = format!("http_requests_total{{instance=\"{}\"}}", goes.address);
    scraper.until_gone(&gone).await;
    // The one that stayed is scraped and has no end in between.
    stays.next_asked().await;
    never_ended(&scraper, &format!("up{{instance=\"{}\"}}", stays.address)).await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_goes_ends_its_series() {
    let target = LiveTarget::start(PAGE).await;
    let file = one_job(&addresses(&[&target]), "");
    let scraper = Scraper::start(&file).await;
    scraper.until_value("up", "1").await;
    let other = file.replace("job_name: test", "job_name: other");
    assert_eq!(scraper.reload(&other).await.status, 200);
    let found = scraper
        .until("up", |found| {
            found.len() == 1 && found[0].label("job") == "other"
        })
        .await;
    assert_eq!(found[0].value, "1");
    scraper
        .until_gone("http_requests_total{job=\"test\"}")
        .await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_interval_is_no_end() {
    let target = LiveTarget::start(PAGE).await;
    let file = one_job(&addresses(&[&target]), "");
    let scraper = Scraper::start(&file).await;
    scraper.until_value("up", "1").await;
    let slower = file.replace("200ms", "300ms");
    assert_eq!(scraper.reload(&slower).await.status, 200);
    let targets = until(
        || scraper.targets(),
        |data| data["activeTargets"][0]["scrapeInterval"] == "300ms",
        "the new interval",
    );
    targets.await;
    target.next_asked().await;
    target.next_asked().await;
    scraper.until_value("up", "1").await;
    never_ended(&scraper, "up").await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_rules_end_series_that_they_drop() {
    let target = LiveTarget::start(PAGE).await;
    let scraper = Scraper::start(&one_job(&addresses(&[&target]), "")).await;
    scraper
        .until("http_requests_total", |found| found.len() == 2)
        .await;
    let rules = "metric_relabel_configs: [{source_labels: [code], regex: '500', action: drop}]";
    let answer = scraper
        .reload(&one_job(&addresses(&[&target]), rules))
        .await;
    assert_eq!(answer.status, 200);
    scraper
        .until("http_requests_total", |found| found.len() == 1)
        .await;
    scraper
        .until_value("scrape_samples_post_metric_relabeling", "1")
        .await;
    scraper.until_value("scrape_samples_scraped", "2").await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_keeps_the_old_configuration() {
    let target = LiveTarget::start(PAGE).await;
    let file = one_job(&addresses(&[&target]), "");
    let scraper = Scraper::start(&file).await;
    scraper.until_value("up", "1").await;
    let answer = scraper.reload("scrape_configs: [{job_nam: x}]\n").await;
    assert_eq!(answer.status, 500);
    let message = answer.error(500, "internal");
    assert!(message.contains("job_nam"), "{message}");
    assert!(message.contains("prometheus.yml"), "{message}");
    let metrics = scraper.served.get("/metrics", &[]).await;
    assert!(
        metrics
            .text()
            .contains("icecore_config_last_reload_successful 0\n")
    );
    let info = scraper
        .served
        .get("/api/v1/status/runtimeinfo", &[])
        .await
        .data();
    assert_eq!(info["reloadConfigSuccess"], false);
    target.next_asked().await;
    scraper.until_value("up", "1").await;
    assert_eq!(scraper.reload(&file).await.status, 200);
    let metrics = scraper.served.get("/metrics", &[]).await;
    assert!(
        metrics
            .text()
            .contains("icecore_config_last_reload_successful 1\n")
    );
    // PUT is as good as POST, GET is not.
    let put = scraper.served.request("PUT", "/-/reload", &[], b"").await;
    assert_eq!(put.status, 200);
    assert_eq!(scraper.served.get("/-/reload", &[]).await.status, 405);
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_targets_are_followed() {
    let (first, second) = (LiveTarget::start(PAGE).await, LiveTarget::start(PAGE).await);
    let job = "scrape_configs:\n  - job_name: test\n    scrape_interval: 200ms\n    \
               scrape_timeout: 200ms\n    file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]\n";
    let scraper = Scraper::start(job).await;
    let targets = scraper.path("targets.json");
    let write = |target: &LiveTarget| {
        let json = format!(
            "[{{\"targets\": [\"{}\"], \"labels\": {{\"a\": \"b\"}}}}]",
            target.address
        );
        let temporary = scraper.path("targets.tmp");
        std::fs::write(&temporary, json).unwrap();
        std::fs::rename(&temporary, &targets).unwrap();
    };
    write(&first);
    let found = scraper.until_value("up{a=\"b\"}", "1").await;
    assert_eq!(found.label("instance"), first.address.to_string());
    write(&second);
    let one = |found: &[Found]| {
        found.len() == 1 && found[0].label("instance") == second.address.to_string()
    };
    scraper.until("up", one).await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_writes_no_ends() {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("data").display().to_string();
    let target = LiveTarget::start(PAGE).await;
    let file = one_job(&addresses(&[&target]), "");
    let scraper = Scraper::start_with(&file, &[("storage.location", &location)]).await;
    scraper.until_value("up", "1").await;
    scraper.served.stop().await.unwrap();
    // Nothing is scraped here, and what was is still there.
    let again = Scraper::start_with("", &[("storage.location", &location)]).await;
    again.until("up", |found| found.len() == 1).await;
    again.served.stop().await.unwrap();
}
