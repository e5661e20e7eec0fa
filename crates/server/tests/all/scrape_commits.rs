//! Scrapes and the store: who waits for whom, and who shares a commit.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::lifecycle::slow_store;
use crate::scrape_target::LiveTarget;
use crate::scraper::Scraper;
use crate::served::until;

const SCRAPED: &str = "icecore_scrapes_total{result=\"success\"}";
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

/// Settings of a process that waits for its store, however long.
fn waiting_settings(directory: &Path) -> [(&str, &str); 2] {
    let location = directory.to_str().expect("UTF-8");
    [
        ("storage.location", location),
        ("journal.commit_timeout", "1h"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_delays_no_scrape_of_many_targets() {
    const TARGETS: usize = 250;
    let target = LiveTarget::start("m 1\n").await;
    let directory = tempfile::tempdir().unwrap();
    let settings = waiting_settings(directory.path());
    // No commit ends, and a scrape that waited for one would be the last of its target.
    let (store, environment) = slow_store(directory.path(), Duration::from_secs(3600));
    store.set_enabled(false);
    let file = many_targets(&target, TARGETS, "1s");
    let scraper = Scraper::start_on(&file, &settings, environment).await;
    store.set_enabled(true);
    let commits_before = scraper.metric(COMMITS).await;
    let scraped = scraper.metric(SCRAPED).await;
    // What the store does not hold yet is visible. At least three of the scrapes of each target
    // have begun since the store hangs.
    let rounds = "count(count_over_time(up[1h]) >= 4)";
    scraper.until_value(rounds, &TARGETS.to_string()).await;
    let more = |now: &f64| *now >= scraped + 3.0 * TARGETS as f64;
    until(|| scraper.metric(SCRAPED), more, "three rounds").await;
    let commits = scraper.metric(COMMITS).await - commits_before;
    assert!(commits < 3.0, "the store was quick: {commits} commits");
    assert_eq!(scraper.metric(MISSED_BY_COMMIT).await, 0.0);
    store.set_enabled(false);
    let lag = "icecore_journal_lag_requests";
    until(|| scraper.metric(lag), |lag| *lag < TARGETS as f64, lag).await;
    assert_eq!(scraper.metric("icecore_scrape_not_stored_total").await, 0.0);
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn scrapes_that_wait_for_the_store_are_bounded() {
    let target = LiveTarget::start("m 1\n").await;
    let directory = tempfile::tempdir().unwrap();
    let settings = waiting_settings(directory.path());
    let (store, environment) = slow_store(directory.path(), Duration::from_secs(3600));
    store.set_enabled(false);
    let file = many_targets(&target, 1, "20ms");
    let scraper = Scraper::start_on(&file, &settings, environment).await;
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
    // What is left out does not make a target down: it is what its last scrape has found.
    let up = scraper.query("up").await;
    let health = if up[0].value == "1" { "up" } else { "down" };
    let targets = scraper.targets().await;
    assert_eq!(targets["activeTargets"][0]["health"], health);
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
    const TARGETS: usize = 300;
    let target = LiveTarget::start("m 1\n").await;
    let scraper = Scraper::start(&many_targets(&target, TARGETS, "1s")).await;
    let committed = "icecore_journal_committed_requests_total";
    let some = |requests: &f64| *requests >= 2.0 * TARGETS as f64;
    let requests = until(|| scraper.metric(committed), some, "two rounds").await;
    // Asked later, so that it is no fewer than it was then.
    let commits = scraper.metric(COMMITS).await;
    // An eighth of a second is waited for company, in which three dozen come by, or a few on a
    // machine that is too busy for that.
    assert!(commits <= requests / 4.0, "{requests} in {commits}");
    scraper.served.stop().await.unwrap();
}
