//! Scrapes and the store: who waits for whom, and who shares a commit.

use std::fmt::Write as _;
use std::time::Duration;

use crate::lifecycle::slow_store;
use crate::scrape_target::LiveTarget;
use crate::scraper::{Scraper, until};

const SCRAPED: &str = "icecore_scrapes_total{result=\"success\"}";
const MISSED_BY_SCRAPE: &str = "icecore_scrape_missed_total{reason=\"scrape\"}";
const MISSED_BY_COMMIT: &str = "icecore_scrape_missed_total{reason=\"commit\"}";
const COMMITS: &str = "icecore_journal_commit_duration_seconds_count";

/// A job with so many targets at one address, told apart by a label.
fn many_targets(target: &LiveTarget, count: usize, interval: &str) -> String {
    let mut file = format!(
        "scrape_configs:\n  - job_name: test\n    scrape_interval: {interval}\n    \
         scrape_timeout: {interval}\n    static_configs:\n"
    );
    for number in 0..count {
        let address = target.address;
        let _ = writeln!(
            file,
            "      - {{targets: ['{address}'], labels: {{number: '{number}'}}}}"
        );
    }
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_store_delays_no_scrape_of_a_thousand_targets() {
    const TARGETS: f64 = 1000.0;
    let target = LiveTarget::start("m 1\n").await;
    let directory = tempfile::tempdir().unwrap();
    let location = [("storage.location", directory.path().to_str().unwrap())];
    // A commit takes longer than an interval, and a scrape that comes meanwhile waits for two.
    let (store, environment) = slow_store(directory.path(), Duration::from_secs(16));
    store.set_enabled(false);
    let file = many_targets(&target, TARGETS as usize, "4s");
    let scraper = Scraper::start_on(&file, &location, environment).await;
    store.set_enabled(true);
    let commits_before = scraper.metric(COMMITS).await;
    let rounds = |n: f64| move |scraped: &f64| *scraped >= n * TARGETS;
    until(|| scraper.metric(SCRAPED), rounds(4.0), "four rounds").await;
    let commits = scraper.metric(COMMITS).await - commits_before;
    assert!(commits < 8.0, "the store was quick: {commits} commits");
    assert_eq!(scraper.metric(MISSED_BY_SCRAPE).await, 0.0);
    assert_eq!(scraper.metric(MISSED_BY_COMMIT).await, 0.0);
    // What the store does not hold yet is visible.
    let rounds = scraper.query("min(count_over_time(up[1h]))").await;
    assert!(rounds[0].value.parse::<f64>().unwrap() >= 3.0, "{rounds:?}");
    store.set_enabled(false);
    let lag = "icecore_journal_lag_requests";
    until(|| scraper.metric(lag), |lag| *lag < TARGETS, lag).await;
    assert_eq!(scraper.metric("icecore_scrape_not_stored_total").await, 0.0);
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn scrapes_that_wait_for_the_store_are_bounded() {
    let target = LiveTarget::start("m 1\n").await;
    let directory = tempfile::tempdir().unwrap();
    let location = [("storage.location", directory.path().to_str().unwrap())];
    let (store, environment) = slow_store(directory.path(), Duration::from_secs(3600));
    store.set_enabled(false);
    let file = many_targets(&target, 1, "50ms");
    let scraper = Scraper::start_on(&file, &location, environment).await;
    scraper.until_value("up", "1").await;
    store.set_enabled(true);
    let some = |missed: &f64| *missed >= 3.0;
    until(|| scraper.metric(MISSED_BY_COMMIT), some, "a full target").await;
    let lag = scraper.metric("icecore_journal_lag_requests").await;
    assert_eq!(lag, 64.0);
    let error = scraper.until_error("wait for the store").await;
    assert_eq!(
        error,
        "the scrape was left out: 64 scrapes before it wait for the store"
    );
    let targets = scraper.targets().await;
    assert_eq!(targets["activeTargets"][0]["health"], "up");
    // Nothing of it is lost, and the ticks go on.
    store.set_enabled(false);
    let scraped = scraper.metric(SCRAPED).await;
    let more = |now: &f64| *now >= scraped + 3.0;
    until(|| scraper.metric(SCRAPED), more, "further scrapes").await;
    assert_eq!(scraper.metric("icecore_scrape_not_stored_total").await, 0.0);
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn scrapes_share_commits() {
    const TARGETS: usize = 100;
    let target = LiveTarget::start("m 1\n").await;
    let scraper = Scraper::start(&many_targets(&target, TARGETS, "1s")).await;
    let committed = "icecore_journal_committed_requests_total";
    let some = |requests: &f64| *requests >= 300.0;
    let requests = until(|| scraper.metric(committed), some, "three rounds").await;
    // Asked later, so that it is no fewer than it was then.
    let commits = scraper.metric(COMMITS).await;
    // An eighth of a second is waited for company, in which a dozen come by.
    assert!(commits <= requests / 4.0, "{requests} in {commits}");
    scraper.served.stop().await.unwrap();
}
