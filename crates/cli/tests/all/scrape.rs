//! Scraping by the real process: itself, Debian's node exporter, and a reload by signal.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value as Json;

use crate::http::escape;
use crate::served::{Serve, TestServer, Workplace, free_address};

const EXPORTER: &str = "prometheus-node-exporter";

/// A node exporter on a port of its own, which ends with the test.
struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    /// `None` where it is not installed.
    fn start() -> Option<Self> {
        let spawned = Command::new(EXPORTER)
            .arg("--web.listen-address=127.0.0.1:0")
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        let Ok(mut child) = spawned else {
            skipped_tests::skip("scraping a real target", &format!("apt install {EXPORTER}"));
            return None;
        };
        let mut log = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        let address = loop {
            line.clear();
            let read = log.read_line(&mut line).expect("a log");
            assert!(read > 0, "{EXPORTER} ended before it listened");
            if line.contains("Listening on") {
                let (_, after) = line.split_once("address=").expect("where");
                break after.trim().to_owned();
            }
        };
        // It must be able to go on writing.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Some(Self { child, address })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn query(served: &TestServer, query: &str) -> Vec<Json> {
    let path = format!("/api/v1/query?query={}", escape(query));
    let answer = served.client().get(&path).expect("an answer");
    let json: Json = serde_json::from_slice(&answer.body).expect("JSON");
    json["data"]["result"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

/// Asks until the query has results.
#[track_caller]
fn until_found(served: &TestServer, text: &str) -> Vec<Json> {
    let mut found = Vec::new();
    served.wait_until(text, || {
        found = query(served, text);
        !found.is_empty()
    });
    found
}

#[test]
fn a_fresh_start_has_something_to_look_at() {
    let workplace = Workplace::new();
    let served = Serve::new(workplace.path("data"), workplace.path("log"))
        .flags(["--scrape.self"])
        .start();
    let found = until_found(&served, "up{job=\"icecore\"} == 1");
    let address = served.address().expect("it listens").to_string();
    assert_eq!(found[0]["metric"]["instance"], address);
    until_found(&served, "icecore_ingested_samples_total > 0");
}

#[test]
fn no_self_scrape_leaves_it_empty() {
    let workplace = Workplace::new();
    let served = Serve::new(workplace.path("data"), workplace.path("log"))
        .flags(["--no-self-scrape"])
        .start();
    let answer = served
        .client()
        .get("/api/v1/scrape_pools")
        .expect("an answer");
    assert!(
        answer.text().contains("\"scrapePools\":[]"),
        "{}",
        answer.text()
    );
}

/// Nothing listens for the target or for the discovery, so that errors name their URLs.
#[test]
fn secrets_of_urls_are_in_no_answer_and_no_log() {
    let workplace = Workplace::new();
    let file = workplace.path("prometheus.yml");
    let (target, discovery) = (free_address(), free_address());
    let job = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: test
    params: {{apikey: [hunter2], module: [open]}}
    static_configs: [{{targets: ['{target}'], labels: {{__param_token: hunter2}}}}]
    http_sd_configs: [{{url: 'http://{discovery}/targets?env=open&apikey=hunter2'}}]
"
    );
    std::fs::write(&file, job).expect("it can be written");
    let served = Serve::new(workplace.path("data"), workplace.path("log"))
        .flags(["--config".as_ref(), file.as_os_str()])
        .flags(["--log.level", "debug"])
        .start();
    let shown = format!("http://{target}/metrics?apikey=<secret>&module=open&token=<secret>");
    let mut client = served.client();
    let mut get = |path: &str| client.get(path).expect("an answer").text();
    served.wait_until("an error of the target", || {
        get("/api/v1/targets").contains("Connection refused")
    });
    served.wait_for_words("scrape failed");
    served.wait_for_words("discovery failed");
    assert!(get("/api/v1/targets").contains(&shown));
    for path in [
        "/api/v1/targets",
        "/api/v1/status/config",
        "/api/v1/status/flags",
        "/metrics",
    ] {
        let answer = get(path);
        assert!(!answer.contains("hunter2"), "{path}: {answer}");
    }
    let log = served.log();
    assert!(!log.contains("hunter2"), "{log}");
    assert!(log.contains(&shown), "{log}");
    assert!(log.contains("targets?env=open&apikey=<secret>"), "{log}");
}

#[test]
fn a_node_exporter_is_scraped_and_a_signal_reloads() {
    let Some(exporter) = Exporter::start() else {
        return;
    };
    let workplace = Workplace::new();
    let file = workplace.path("prometheus.yml");
    let job = |name: &str| {
        let address = &exporter.address;
        format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n  - job_name: {name}\n    \
             static_configs: [{{targets: ['{address}'], labels: {{rack: r1}}}}]\n"
        )
    };
    std::fs::write(&file, job("node")).expect("it can be written");
    let served = Serve::new(workplace.path("data"), workplace.path("log"))
        .flags(["--config".as_ref(), file.as_os_str()])
        .start();
    let up = until_found(&served, "up{job=\"node\"} == 1");
    assert_eq!(up[0]["metric"]["instance"], exporter.address.as_str());
    assert_eq!(up[0]["metric"]["rack"], "r1");
    until_found(&served, "node_uname_info{sysname=\"Linux\",rack=\"r1\"}");
    until_found(&served, "rate(node_cpu_seconds_total[1m]) >= 0");
    // Everything that is exposed is stored.
    until_found(
        &served,
        "scrape_samples_scraped == scrape_samples_post_metric_relabeling",
    );
    until_found(
        &served,
        "scrape_samples_scraped == on() count({rack=\"r1\",__name__!~\"up|scrape_.*\"})",
    );
    let answer = served
        .client()
        .get("/api/v1/metadata?metric=node_cpu_seconds_total");
    let metadata = answer.expect("an answer").text();
    assert!(metadata.contains("\"type\":\"counter\""), "{metadata}");

    std::fs::write(&file, job("renamed")).expect("it can be written");
    served.hang_up();
    until_found(&served, "up{job=\"renamed\"} == 1");
    served.wait_until("the old target is gone", || {
        query(&served, "{job=\"node\"}").is_empty()
    });
    std::fs::write(&file, "nonsense: 1\n").expect("it can be written");
    served.hang_up();
    served.wait_for_words("cannot load configuration");
    until_found(&served, "up{job=\"renamed\"} == 1");
}
