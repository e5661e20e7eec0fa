//! Scraping: from a live target to a query.

use crate::scrape_target::LiveTarget;
use crate::scraper::{Scraper, one_job};

#[tokio::test(flavor = "multi_thread")]
async fn a_static_target_is_scraped() {
    let page = "# TYPE http_requests_total counter\nhttp_requests_total{code=\"200\"} 7\n\
                http_requests_total{code=\"500\"} 1\n";
    let target = LiveTarget::start(page).await;
    let scraper = Scraper::start(&one_job(&[target.address.to_string()], "")).await;
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
    scraper.until_value("scrape_series_added", "0").await;
    // What changes is seen, and what no longer comes ends at once.
    target.expose("http_requests_total{code=\"200\"} 8\n");
    scraper.until_value("http_requests_total", "8").await;
    scraper.served.stop().await.unwrap();
}
