//! A reload: what changes at once, what is named because it needs a restart, and a file that is
//! wrong.

use crate::payload::{Payload, T0, series};
use crate::scraper::Scraper;

/// A flag as the process shows it.
async fn flag(scraper: &Scraper, name: &str) -> String {
    let flags = scraper.served.get("/api/v1/status/flags", &[]).await.data();
    flags[name].as_str().expect("a value").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_can_change_do_and_others_are_named() {
    let scraper = Scraper::start("icecore: {query: {timeout: 50s}}").await;
    let payload = Payload::v1(&[series("m", &[], &[(T0, 1.0), (T0 + 1000, 2.0)])]);
    assert_eq!(scraper.served.write(&payload).await.status, 204);
    let time = ((T0 + 60_000) / 1000).to_string();
    let query = [("query", "m"), ("time", time.as_str())];
    let served = &scraper.served;
    let found = async || {
        let data = served.get("/api/v1/query", &query).await.data();
        data["result"].as_array().unwrap().len()
    };
    assert_eq!(found().await, 1);
    let before = flag(&scraper, "storage.gc-interval").await;

    let answer = scraper
        .reload(
            "icecore:\n  query: {timeout: 50s, lookback_delta: 9s}\n  otlp: {promote_resource_attributes: [a]}\n  \
             storage: {gc_interval: 7m}\n  server: {concurrent_reads_max: 3, request_timeout: 9s}\n",
        )
        .await;
    assert_eq!(
        (answer.status, answer.text()),
        (
            200,
            "Reloaded.\n\
             applied: server.request_timeout, query.lookback_delta, otlp.promote_resource_attributes\n\
             need a restart: server.concurrent_reads_max, storage.gc_interval\n"
        )
    );
    assert_eq!(found().await, 0);
    assert_eq!(flag(&scraper, "query.lookback-delta").await, "9s");
    assert_eq!(flag(&scraper, "server.request-timeout").await, "9s");
    assert_eq!(flag(&scraper, "storage.gc-interval").await, before);
    let config = served.get("/api/v1/status/config", &[]).await.data();
    let config = config["yaml"].as_str().unwrap();
    assert!(config.contains("lookback_delta: 9s "), "{config}");

    // What is wrong changes nothing, not even what is right.
    for (file, reason) in [
        (
            "icecore: {query: {lookback_delta: 5s, timeout: soon}}",
            "icecore.query.timeout: expected",
        ),
        ("icecore: {query: {lookback: 5s}}", "lookback"),
        ("scrape_configs: [{}]", "every job needs a name"),
    ] {
        let message = scraper.reload(file).await.error(500, "internal");
        assert!(message.contains(reason), "{message}");
        assert_eq!(flag(&scraper, "query.lookback-delta").await, "9s");
    }
    let name = "icecore_config_last_reload_successful";
    assert_eq!(scraper.metric(name).await, 0.0);

    let answer = scraper.reload("").await;
    assert_eq!(
        answer.text(),
        "Reloaded.\n\
         applied: server.request_timeout, query.lookback_delta, query.timeout, otlp.promote_resource_attributes\n"
    );
    assert_eq!(scraper.metric(name).await, 1.0);
    assert_eq!(found().await, 1);
    let answer = scraper.reload("").await;
    assert_eq!(answer.text(), "Reloaded.\n");
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn scraping_itself_begins_and_ends_with_a_reload() {
    let off = "icecore: {scrape: {self: false}}";
    let scraper = Scraper::start_without_flags(off).await;
    assert_eq!(scraper.metric("icecore_scrape_pools").await, 0.0);
    let answer = scraper.reload("").await;
    assert_eq!(answer.text(), "Reloaded.\napplied: scrape.self\n");
    scraper.until_value("up{job=\"icecore\"}", "1").await;
    scraper.reload(off).await;
    scraper.until_gone("up").await;
    scraper.served.stop().await.unwrap();
}
