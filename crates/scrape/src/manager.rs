//! All scraping of a process: one pool per job, and reloads.
//!
//! ```text
//! configuration, read and checked ─► clients made ─► pools: new, changed, gone
//!                                       └── invalid: everything stays as it is, with an error
//! ```
//!
//! Holds always:
//! - A job whose configuration did not change does not notice a reload.
//! - Without any job, a process scrapes itself, unless that is turned off. A job that is left out
//!   counts: the configuration has one.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use icecore_model::{Clock, MetricType, SampleStore};
use icecore_wire::prometheus::TextWriter;
use parking_lot::RwLock;
use tokio::sync::Mutex;
use tracing::error;

use super::config::{Discovery, ScrapeConfig, ScrapeSettings, TargetGroup};
use super::http_client::HttpClient;
use super::job::Job;
use super::pool::{Pool, PoolView};
use super::source::{SelfMetricsPage, Source};
use super::worker::{Context, LoopCommand};

/// The job of a process that scrapes itself.
const OWN_JOB: &str = "icecore";
const OWN_INTERVAL: std::time::Duration = std::time::Duration::from_secs(15);
const OWN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// Runs all scrape jobs.
pub struct ScrapeManager {
    context: Arc<Context>,
    own: SelfScrape,
    pools: Mutex<Pools>,
    views: RwLock<Vec<Arc<PoolView>>>,
    state: RwLock<LoadState>,
}

/// How a process scrapes itself.
pub struct SelfScrape {
    /// Its own address, which becomes `instance`.
    pub address: String,
    pub page: SelfMetricsPage,
}

#[derive(Default)]
struct Pools {
    by_name: BTreeMap<String, Pool>,
    rules_number: u64,
}

/// The result of the last attempt to load the configuration.
#[derive(Clone, Debug)]
pub struct LoadState {
    pub successful: bool,
    /// When the configuration in force was loaded.
    pub loaded_ms: i64,
    /// The configuration in force, secrets masked.
    pub rendered: String,
    /// Its `global.external_labels`.
    pub external_labels: Vec<(String, String)>,
    /// Its jobs and discoveries that are left out because they are not supported, as messages.
    pub unsupported: Vec<String>,
}

impl LoadState {
    fn loaded(settings: &ScrapeSettings, loaded_ms: i64) -> Self {
        Self {
            successful: true,
            loaded_ms,
            rendered: settings.rendered.clone(),
            external_labels: settings.external_labels.clone(),
            unsupported: settings.unsupported.clone(),
        }
    }
}

impl ScrapeManager {
    /// Starts scraping; `itself`: a process without any job scrapes itself. A job that cannot be
    /// started is logged, and the others are started.
    pub async fn start(
        store: Arc<dyn SampleStore>,
        clock: Arc<dyn Clock>,
        settings: &ScrapeSettings,
        own: SelfScrape,
        itself: bool,
    ) -> Arc<Self> {
        let loaded_ms = clock.now_ms();
        let scraping = Self {
            context: Arc::new(Context::new(store, clock)),
            own,
            pools: Mutex::default(),
            views: RwLock::default(),
            state: RwLock::new(LoadState::loaded(settings, loaded_ms)),
        };
        if let Err(reason) = scraping.apply(settings, itself).await {
            error!(reason, "not scraping: cannot apply the configuration");
            scraping.state.write().successful = false;
        }
        Arc::new(scraping)
    }

    /// Applies a reloaded configuration. On an error nothing changes.
    pub async fn reload(&self, settings: &ScrapeSettings, itself: bool) -> Result<(), String> {
        self.apply(settings, itself).await?;
        let loaded_ms = self.context.clock.now_ms();
        *self.state.write() = LoadState::loaded(settings, loaded_ms);
        Ok(())
    }

    /// The configuration could not be read or applied: the one before stays in force.
    pub fn reload_failed(&self) {
        self.state.write().successful = false;
    }

    /// Replaces the pools by those of the settings; on an error nothing has changed. Without any
    /// job the process scrapes itself, if it is to.
    async fn apply(&self, settings: &ScrapeSettings, itself: bool) -> Result<(), String> {
        let mut pools = self.pools.lock().await;
        let own = itself && settings.jobs.is_empty() && settings.left_out_jobs == 0;
        let configs: Vec<ScrapeConfig> = if own {
            vec![own_job(settings, &self.own.address)]
        } else {
            settings.jobs.clone()
        };
        // All that can fail first.
        let mut changed = Vec::new();
        for config in &configs {
            let same = pools.by_name.get(&config.job_name);
            if same.is_none_or(|pool| *pool.config != *config) {
                pools.rules_number += 1;
                let source = self.source(config, own)?;
                changed.push(Job::new(
                    Arc::new(config.clone()),
                    source,
                    pools.rules_number,
                ));
            }
        }
        let kept = |name: &String| configs.iter().any(|config| config.job_name == *name);
        let gone: Vec<String> = pools.by_name.keys().filter(|n| !kept(n)).cloned().collect();
        let gone = gone.iter().filter_map(|name| pools.by_name.remove(name));
        join_all(gone.map(|pool| pool.stop(LoopCommand::StopAndMarkStale))).await;
        for job in changed {
            match pools.by_name.get_mut(&job.config().job_name) {
                Some(pool) => pool.reload(job).await,
                None => {
                    let at_once = matches!(job.source, Source::Own(_));
                    let name = job.config().job_name.clone();
                    let pool = Pool::start(Arc::clone(&self.context), job, at_once);
                    pools.by_name.insert(name, pool);
                }
            }
        }
        *self.views.write() = pools
            .by_name
            .values()
            .map(|p| Arc::clone(&p.view))
            .collect();
        Ok(())
    }

    fn source(&self, config: &ScrapeConfig, own: bool) -> Result<Source, String> {
        if own {
            return Ok(Source::Own(Arc::clone(&self.own.page)));
        }
        let client = HttpClient::new(&config.http);
        let named = |error| format!("job {:?}: {error}", config.job_name);
        Ok(Source::Http(client.map_err(named)?))
    }

    /// Ends all loops, without markers: after a restart the series go on.
    pub async fn stop(&self) {
        let pools = std::mem::take(&mut self.pools.lock().await.by_name);
        join_all(pools.into_values().map(|pool| pool.stop(LoopCommand::Stop))).await;
    }

    pub fn load_state(&self) -> LoadState {
        self.state.read().clone()
    }

    /// In the order of their names.
    pub(super) fn views(&self) -> Vec<Arc<PoolView>> {
        self.views.read().clone()
    }

    pub fn write_metrics(&self, text: &mut TextWriter) {
        let state = self.load_state();
        for (name, help, value) in [
            (
                "icecore_config_last_reload_successful",
                "Whether the last attempt to load the configuration succeeded.",
                f64::from(u8::from(state.successful)),
            ),
            (
                "icecore_config_last_reload_success_timestamp_seconds",
                "When the configuration in force was loaded.",
                state.loaded_ms as f64 / 1e3,
            ),
        ] {
            text.family(name, help, MetricType::Gauge);
            text.sample(name, &[], value);
        }
        let views = self.views();
        let name = "icecore_scrape_pool_targets";
        let help = "Targets of a job, by whether they are scraped or relabelling dropped them.";
        text.family(name, help, MetricType::Gauge);
        for view in &views {
            let (active, dropped) = view.counts();
            for (state, count) in [("active", active), ("dropped", dropped)] {
                let labels = [("scrape_job", view.name.as_str()), ("state", state)];
                text.sample(name, &labels, count as f64);
            }
        }
        let name = "icecore_scrape_pools";
        text.family(name, "Jobs that are scraped.", MetricType::Gauge);
        text.sample(name, &[], views.len() as f64);
        self.context.metrics.write(text);
    }
}

fn own_job(settings: &ScrapeSettings, address: &str) -> ScrapeConfig {
    ScrapeConfig {
        scrape_interval: OWN_INTERVAL,
        scrape_timeout: OWN_TIMEOUT,
        discovery: vec![Discovery::Static(vec![TargetGroup {
            targets: vec![address.to_owned()],
            labels: Vec::new(),
            source: "0".into(),
        }])],
        ..settings.plain_job(OWN_JOB)
    }
}
