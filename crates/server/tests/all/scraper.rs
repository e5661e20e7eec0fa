//! A process that scrapes, with a configuration file that a test rewrites.

use std::collections::BTreeMap;
use std::path::PathBuf;

use icecore_server::{Config, Inputs};
use icecore_storage::Environment;
use serde_json::Value;

use crate::client::Answer;
use crate::served::{TestServer, config_with_file, until};

pub(crate) struct Scraper {
    pub(crate) served: TestServer,
    directory: tempfile::TempDir,
}

/// One series of an instant query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: String,
}

impl Found {
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// A file with one job named `test` that scrapes these addresses often; `keys` are further lines of
/// the job, not indented.
pub(crate) fn one_job(targets: &[String], keys: &str) -> String {
    let keys = keys.trim_end().replace('\n', "\n    ");
    format!(
        "scrape_configs:\n  - job_name: test\n    scrape_interval: 200ms\n    scrape_timeout: 200ms\n    \
         static_configs: [{{targets: {targets:?}}}]\n    {keys}\n"
    )
}

impl Scraper {
    pub(crate) async fn start(file: &str) -> Self {
        Self::start_with(file, &[]).await
    }

    pub(crate) async fn start_with(file: &str, settings: &[(&str, &str)]) -> Self {
        Self::start_on(file, settings, Environment::default()).await
    }

    /// With nothing said about scraping but what the file says.
    pub(crate) async fn start_without_flags(file: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("prometheus.yml");
        std::fs::write(&path, file).expect("it can be written");
        let flags = [
            ("storage.location", "memory://"),
            ("server.listen", "127.0.0.1:0"),
        ];
        let flags = flags.map(|(key, value)| (key.into(), value.into()));
        let config = Config::load(&Inputs {
            file: Some(path),
            flags: flags.into(),
            ..Inputs::default()
        });
        let served =
            TestServer::starting(config.expect("it is valid"), Environment::default()).await;
        served.until_ready().await;
        Self { served, directory }
    }

    /// On a store that the test brings.
    pub(crate) async fn start_on(
        file: &str,
        settings: &[(&str, &str)],
        environment: Environment,
    ) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("prometheus.yml");
        std::fs::write(&path, file).expect("it can be written");
        let config = config_with_file(Some(path), settings);
        let served = TestServer::starting(config, environment).await;
        served.until_ready().await;
        Self { served, directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes the file anew and asks for a reload.
    pub(crate) async fn reload(&self, file: &str) -> Answer {
        std::fs::write(self.path("prometheus.yml"), file).expect("it can be written");
        self.served.request("POST", "/-/reload", &[], b"").await
    }

    pub(crate) async fn query(&self, query: &str) -> Vec<Found> {
        let data = self.served.get("/api/v1/query", &[("query", query)]).await;
        let data = data.data();
        let result = data["result"].as_array().expect("a vector");
        result.iter().map(found).collect()
    }

    /// Asks until the answer is as wanted.
    pub(crate) fn until(
        &self,
        query: &str,
        wanted: impl Fn(&[Found]) -> bool,
    ) -> impl Future<Output = Vec<Found>> {
        let query = query.to_owned();
        async move { until(|| self.query(&query), |found| wanted(found), &query).await }
    }

    /// Asks until there is one series with this value.
    pub(crate) async fn until_value(&self, query: &str, value: &str) -> Found {
        let one = |found: &[Found]| found.len() == 1 && found[0].value == value;
        let mut found = self.until(query, one).await;
        found.remove(0)
    }

    /// Asks until there is nothing.
    pub(crate) async fn until_gone(&self, query: &str) {
        self.until(query, <[Found]>::is_empty).await;
    }

    /// A line of `/metrics`, by what stands in front of its value. Scraping begins a moment after
    /// the process is ready.
    pub(crate) async fn metric(&self, line: &str) -> f64 {
        let ask = || async {
            let metrics = self.served.get("/metrics", &[]).await;
            let value = |text: &str| text.strip_prefix(line)?.strip_prefix(' ')?.parse().ok();
            metrics.text().lines().find_map(value)
        };
        until(ask, Option::is_some, line)
            .await
            .expect("it is there")
    }

    pub(crate) async fn targets(&self) -> Value {
        self.served.get("/api/v1/targets", &[]).await.data()
    }

    /// Waits until the one target has failed with an error that contains this.
    pub(crate) async fn until_error(&self, contains: &str) -> String {
        let error = |data: &Value| {
            let error = &data["activeTargets"][0]["lastError"];
            error.as_str().unwrap_or_default().to_owned()
        };
        let targets = until(
            || self.targets(),
            |data| error(data).contains(contains),
            contains,
        );
        error(&targets.await)
    }
}

fn found(series: &Value) -> Found {
    let labels = series["metric"].as_object().expect("labels");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Found {
        labels: labels.iter().map(|(n, v)| (n.clone(), text(v))).collect(),
        value: text(&series["value"][1]),
    }
}
