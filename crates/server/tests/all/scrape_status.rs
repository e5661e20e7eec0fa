//! What the API says about scraping, and the process that scrapes itself.

use serde_json::{Value, json};

use crate::client::Answer;
use crate::scrape_target::LiveTarget;
use crate::scraper::{Scraper, one_job};
use crate::served::{TestServer, until};

const PAGE: &str = "# HELP a Help of a.\n# TYPE a counter\na 1\n# TYPE b gauge\nb 2\n";

async fn up(scraper: &Scraper) -> Value {
    until(
        || scraper.targets(),
        |data| data["activeTargets"][0]["health"] == "up",
        "a target that is up",
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_in_prometheus_shape() {
    let target = LiveTarget::start(PAGE).await;
    let address = target.address.to_string();
    let scraper = Scraper::start(&one_job(std::slice::from_ref(&address), "")).await;
    let data = up(&scraper).await;
    let shown = &data["activeTargets"][0];
    assert_eq!(shown["labels"], json!({"instance": address, "job": "test"}));
    assert_eq!(
        shown["discoveredLabels"],
        json!({
            "__address__": address,
            "__always_scrape_classic_histograms__": "false",
            "__convert_classic_histograms_to_nhcb__": "false",
            "__metrics_path__": "/metrics",
            "__scheme__": "http",
            "__scrape_interval__": "200ms",
            "__scrape_native_histograms__": "false",
            "__scrape_timeout__": "200ms",
            "job": "test",
        })
    );
    assert_eq!(shown["scrapePool"], "test");
    assert_eq!(shown["scrapeUrl"], format!("http://{address}/metrics"));
    let global = shown["globalUrl"].as_str().unwrap();
    assert!(!global.contains("127.0.0.1"), "{global}");
    assert_eq!(shown["lastError"], "");
    assert_eq!(shown["scrapeInterval"], "200ms");
    assert_eq!(shown["scrapeTimeout"], "200ms");
    assert!(shown["lastScrapeDuration"].as_f64().unwrap() > 0.0);
    let last = shown["lastScrape"].as_str().unwrap();
    assert!(last.starts_with("20") && last.ends_with('Z'), "{last}");
    assert_eq!(shown.as_object().unwrap().len(), 11);
    assert_eq!(data["droppedTargets"], json!([]));
    assert_eq!(data["droppedTargetCounts"], json!({"test": 0}));

    let get = |params| scraper.served.get("/api/v1/targets", params);
    let dropped = get(&[("state", "dropped")]).await.data();
    assert_eq!(dropped["activeTargets"], json!([]));
    let active = get(&[("state", "active")]).await.data();
    assert_eq!(active["activeTargets"].as_array().unwrap().len(), 1);
    assert_eq!(active["droppedTargetCounts"], json!({}));
    let other = get(&[("scrapePool", "other")]).await.data();
    assert_eq!(other["activeTargets"], json!([]));
    let pools = scraper.served.get("/api/v1/scrape_pools", &[]).await.data();
    assert_eq!(pools, json!({"scrapePools": ["test"]}));
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_by_target_and_of_all() {
    let target = LiveTarget::start(PAGE).await;
    let address = target.address.to_string();
    let scraper = Scraper::start(&one_job(std::slice::from_ref(&address), "")).await;
    up(&scraper).await;
    let labels = json!({"instance": address, "job": "test"});
    let path = "/api/v1/targets/metadata";
    let all = scraper.served.get(path, &[]).await.data();
    assert_eq!(
        all,
        json!([
            {"target": labels, "metric": "a", "type": "counter", "help": "Help of a.", "unit": ""},
            {"target": labels, "metric": "b", "type": "gauge", "help": "", "unit": ""},
        ])
    );
    let one = scraper.served.get(path, &[("metric", "b")]).await.data();
    assert_eq!(
        one,
        json!([{"target": labels, "type": "gauge", "help": "", "unit": ""}])
    );
    let limited = scraper.served.get(path, &[("limit", "1")]).await.data();
    assert_eq!(limited.as_array().unwrap().len(), 1);
    let none = [("match_target", "{job=\"other\"}")];
    assert_eq!(scraper.served.get(path, &none).await.data(), json!([]));
    let matching = [("match_target", "{job=~\"te.*\"}")];
    let matching = scraper.served.get(path, &matching).await.data();
    assert_eq!(matching.as_array().unwrap().len(), 2);
    scraper
        .served
        .get(path, &[("match_target", "{")])
        .await
        .error(400, "bad_data");
    let stored = scraper.served.get("/api/v1/metadata", &[]).await.data();
    assert_eq!(
        stored["a"],
        json!([{"type": "counter", "help": "Help of a.", "unit": ""}])
    );
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_flags_and_runtime() {
    let file = one_job(&["127.0.0.1:1".into()], "");
    let scraper = Scraper::start_with(&file, &[("query.max_queue", "17")]).await;
    let config = scraper
        .served
        .get("/api/v1/status/config", &[])
        .await
        .data();
    let yaml = config["yaml"].as_str().unwrap();
    assert!(yaml.contains("job_name: test"), "{yaml}");
    assert!(yaml.contains("max_queue: 17"), "{yaml}");
    // What is shown can be given back.
    let answer = scraper.reload(yaml).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let flags = scraper.served.get("/api/v1/status/flags", &[]).await.data();
    assert_eq!(flags["query.max-queue"], "17");
    assert_eq!(flags["listen"], "127.0.0.1:0");
    let settings = icecore_server::SETTINGS.len();
    assert_eq!(flags.as_object().unwrap().len(), settings);
    let info = scraper
        .served
        .get("/api/v1/status/runtimeinfo", &[])
        .await
        .data();
    for key in ["startTime", "serverTime", "lastConfigTime"] {
        let time = info[key].as_str().unwrap();
        assert!(
            time.starts_with("20") && time.ends_with('Z'),
            "{key}: {time}"
        );
    }
    assert_eq!(info["reloadConfigSuccess"], true);
    assert!(info["goroutineCount"].as_u64().unwrap() > 0);
    assert!(info["GOMAXPROCS"].as_u64().unwrap() > 0);
    assert_eq!(info["corruptionCount"], 0);
    assert_eq!(
        info["CWD"],
        std::env::current_dir().unwrap().display().to_string()
    );
    for key in ["hostname", "GOGC", "GODEBUG", "storageRetention"] {
        assert!(info[key].is_string(), "{key}");
    }
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_nowhere() {
    let keys = "basic_auth: {username: me, password: hidden-word}";
    let file = one_job(&["127.0.0.1:1".into()], keys);
    let scraper = Scraper::start(&file).await;
    scraper.until_value("up", "0").await;
    for path in [
        "/api/v1/status/config",
        "/api/v1/status/flags",
        "/api/v1/targets",
        "/metrics",
    ] {
        let answer = scraper.served.get(path, &[]).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.text().contains("hidden-word"), "{path}");
    }
    let bad = file.replace("basic_auth", "basic_outh");
    let answer = scraper.reload(&bad).await;
    assert!(!answer.text().contains("hidden-word"), "{}", answer.text());
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_jobs_scrapes_itself() {
    let scraper = Scraper::start_with("", &[("scrape.self", "true")]).await;
    let found = scraper.until_value("up", "1").await;
    assert_eq!(found.label("job"), "icecore");
    assert_eq!(found.label("instance"), scraper.served.address.to_string());
    scraper.until_value("icecore_build_info", "1").await;
    let pools = scraper.served.get("/api/v1/scrape_pools", &[]).await.data();
    assert_eq!(pools, json!({"scrapePools": ["icecore"]}));
    let data = scraper.targets().await;
    let shown = &data["activeTargets"][0];
    assert_eq!(shown["scrapeInterval"], "15s");
    assert_eq!(
        shown["scrapeUrl"],
        format!("http://{}/metrics", scraper.served.address)
    );
    // A job of its own takes its place.
    let target = LiveTarget::start(PAGE).await;
    scraper
        .reload(&one_job(&[target.address.to_string()], ""))
        .await;
    let only =
        |found: &[crate::scraper::Found]| found.len() == 1 && found[0].label("job") == "test";
    scraper.until("up", only).await;
    scraper.until_gone("icecore_build_info").await;
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn itself_is_left_alone_when_told_so() {
    let served = TestServer::start(&[]).await;
    let pools = served.get("/api/v1/scrape_pools", &[]).await.data();
    assert_eq!(pools, json!({"scrapePools": []}));
    served.stop().await.unwrap();
}

fn line_of<'a>(page: &'a Answer, name: &str) -> Option<&'a str> {
    page.text().lines().find(|line| line.starts_with(name))
}

#[tokio::test(flavor = "multi_thread")]
async fn external_labels_are_federated_and_not_stored() {
    let target = LiveTarget::start("a 1\nb{region=\"own\"} 1\n").await;
    let job = one_job(&[target.address.to_string()], "");
    let file = format!("global: {{external_labels: {{region: r1}}}}\n{job}");
    let scraper = Scraper::start(&file).await;
    let found = scraper.until_value("a", "1").await;
    assert_eq!(found.label("region"), "");
    let both = [("match[]", "{__name__=~\"a|b\"}")];
    // A scrape that was too late ends both, and the next one brings them back.
    let page = until(
        || scraper.served.get("/federate", &both),
        |page| {
            ["a{", "b{"]
                .iter()
                .all(|name| line_of(page, name).is_some())
        },
        "both series",
    )
    .await;
    let line = |name| line_of(&page, name).unwrap();
    assert!(line("a{").contains("region=\"r1\""), "{}", page.text());
    assert!(line("b{").contains("region=\"own\""), "{}", page.text());
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_left_out_are_named_in_warnings() {
    let pods = "  - job_name: pods\n    kubernetes_sd_configs: [{role: pod}]\n";
    let file = format!("scrape_configs:\n{pods}");
    let scraper = Scraper::start_with(&file, &[("scrape.self", "true")]).await;
    let targets = || scraper.served.get("/api/v1/targets", &[]);
    let warned = until(
        targets,
        |answer| answer.json()["warnings"].is_array(),
        "a warning",
    );
    let answer = warned.await.json();
    let warnings = answer["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let warning = warnings[0].as_str().unwrap();
    let place = "scrape_configs[0].kubernetes_sd_configs is not supported, at line 3 column 5 of ";
    assert!(warning.starts_with(place), "{warning}");
    assert!(
        warning.contains("the job \"pods\" is left out; use http_sd"),
        "{warning}"
    );
    // There is a job, so the process does not scrape itself in its place.
    assert_eq!(answer["data"]["activeTargets"], json!([]));
    // Jobs beside it are scraped.
    let target = LiveTarget::start(PAGE).await;
    let beside = one_job(&[target.address.to_string()], "");
    scraper.reload(&format!("{beside}{pods}")).await;
    scraper.until_value("a", "1").await;
    assert!(targets().await.json()["warnings"].is_array());
    scraper.reload(&beside).await;
    assert_eq!(targets().await.json()["warnings"], Value::Null);
    scraper.served.stop().await.unwrap();
}
