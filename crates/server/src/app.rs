//! What every handler shares: the database, the configuration in force, limits and counters.

use std::sync::{Arc, OnceLock};

use icecore_access::Access;
#[cfg(feature = "sql")]
use icecore_event_sql::{SqlEngine, SqlLimits};
use icecore_events::{AllEvents, Events};
use icecore_model::retention::RetentionPolicy;
use icecore_opentsdb::Tsd;
use icecore_scrape::ScrapeManager;
use icecore_storage::{Clock, Database, ReplayProgress};
use parking_lot::RwLock;
use rayon::ThreadPoolBuildError;

use crate::config::Config;
use crate::metrics::HttpMetrics;
use crate::middleware::error::ApiError;
use crate::middleware::limits::Limits;
use crate::middleware::route::Route;
use crate::notifications::{Notice, Notifications};
use crate::queries::Queries;
use crate::stored_names::StoredNames;
use crate::usage::QueryUsage;

/// The retention policy that holds, which need not be the configured one.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetentionInEffect {
    pub(crate) policy: Option<RetentionPolicy>,
    /// Prometheus' setting, while it waits for an operator.
    pub(crate) pending: Option<PendingRetention>,
}

/// A retention time that is not applied, and what it would delete.
#[derive(Clone, Debug)]
pub(crate) struct PendingRetention {
    pub(crate) retain_ms: i64,
    /// The start of the oldest hour that has samples.
    pub(crate) oldest_ms: i64,
    /// Buckets that begin before the time, and their samples as far as they are known.
    pub(crate) buckets: usize,
    pub(crate) samples: u64,
}

/// What every handler shares.
pub(crate) struct App {
    pub(crate) limits: Limits,
    pub(crate) metrics: HttpMetrics,
    pub(crate) queries: Queries,
    /// Which metrics queries ask for.
    pub(crate) usage: Arc<QueryUsage>,
    pub(crate) stored_names: Arc<StoredNames>,
    pub(crate) access: Arc<Access>,
    pub(crate) notifications: Notifications,
    /// The replay of the journal at the start.
    pub(crate) replay: Arc<ReplayProgress>,
    /// One reload at a time.
    pub(crate) reloading: tokio::sync::Mutex<()>,
    /// What is in force; a reload replaces it.
    config: RwLock<Arc<Config>>,
    retention: RwLock<RetentionInEffect>,
    routes: &'static [Route],
    clock: Arc<dyn Clock>,
    database: OnceLock<Database>,
    scraping: OnceLock<Arc<ScrapeManager>>,
    opentsdb: OnceLock<Arc<Tsd>>,
    events: OnceLock<(Events, AllEvents)>,
    registry_wanted: tokio::sync::Notify,
    /// Made for the first query.
    #[cfg(feature = "sql")]
    sql: OnceLock<SqlEngine>,
    pub(crate) started: ProcessInfo,
}

impl App {
    pub(crate) fn new(
        config: &Config,
        routes: &'static [Route],
        access: Arc<Access>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ThreadPoolBuildError> {
        let notifications = Notifications::new(Arc::clone(&clock));
        notifications.add(Notice::Starting);
        Ok(Self {
            notifications,
            replay: Arc::default(),
            limits: Limits::new(&config.server, routes),
            routes,
            metrics: HttpMetrics::default(),
            queries: Queries::new(config.query.clone())?,
            usage: Arc::new(QueryUsage::new(clock.now_ms())),
            stored_names: Arc::default(),
            started: ProcessInfo::new(clock.now_ms()),
            reloading: tokio::sync::Mutex::default(),
            config: RwLock::new(Arc::new(config.clone())),
            retention: RwLock::default(),
            access,
            clock,
            database: OnceLock::new(),
            scraping: OnceLock::new(),
            opentsdb: OnceLock::new(),
            events: OnceLock::new(),
            registry_wanted: tokio::sync::Notify::new(),
            #[cfg(feature = "sql")]
            sql: OnceLock::new(),
        })
    }

    /// From now on requests are answered.
    pub(crate) fn set_database(&self, database: Database) {
        let earlier = self.database.set(database);
        debug_assert!(earlier.is_ok(), "a process opens one database");
        self.notifications.remove(Notice::Starting);
    }

    /// The configuration in force. Long operations keep the one they started with.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read())
    }

    /// From now on requests are answered by this configuration, as far as it can change.
    pub(crate) fn set_config(&self, config: Config) {
        self.queries.set_options(&config.query);
        *self.config.write() = Arc::new(config);
    }

    /// The retention policy that holds: none until the database is open.
    pub(crate) fn retention(&self) -> RetentionInEffect {
        self.retention.read().clone()
    }

    pub(crate) fn set_retention(&self, retention: RetentionInEffect) {
        *self.retention.write() = retention;
    }

    /// Every path there is.
    pub(crate) fn routes(&self) -> &'static [Route] {
        self.routes
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// From now on requests about scraping are answered.
    pub(crate) fn set_scraping(&self, scraping: Arc<ScrapeManager>) {
        let earlier = self.scraping.set(scraping);
        debug_assert!(earlier.is_ok(), "a process scrapes in one place");
    }

    /// `None` until the database is open.
    pub(crate) fn scraping(&self) -> Option<&Arc<ScrapeManager>> {
        self.scraping.get()
    }

    /// From now on OpenTSDB's requests are answered.
    pub(crate) fn set_opentsdb(&self, tsd: Tsd) {
        let earlier = self.opentsdb.set(Arc::new(tsd));
        debug_assert!(earlier.is_ok(), "a process has one view of its database");
    }

    pub(crate) fn opentsdb(&self) -> Result<&Arc<Tsd>, ApiError> {
        self.opentsdb
            .get()
            .ok_or_else(|| ApiError::unavailable("the database is being opened: try again"))
    }

    /// From now on events are taken, and those of all instances are read.
    pub(crate) fn set_events(&self, events: Events, all: AllEvents) {
        let earlier = self.events.set((events, all));
        debug_assert!(earlier.is_ok(), "a process has one engine of events");
    }

    /// A reload looks at the directory of event documents, too.
    pub(crate) fn want_registry(&self) {
        self.registry_wanted.notify_one();
    }

    /// Ends when somebody wants that directory to be looked at.
    pub(crate) async fn registry_wanted(&self) {
        self.registry_wanted.notified().await;
    }

    /// The events of this instance.
    pub(crate) fn events(&self) -> Result<&Events, ApiError> {
        Ok(&self.opened_events()?.0)
    }

    /// The events of this instance and of others, to be read.
    pub(crate) fn all_events(&self) -> Result<&AllEvents, ApiError> {
        Ok(&self.opened_events()?.1)
    }

    fn opened_events(&self) -> Result<&(Events, AllEvents), ApiError> {
        self.events
            .get()
            .ok_or_else(|| ApiError::unavailable("the database is being opened: try again"))
    }

    /// What runs SQL.
    #[cfg(feature = "sql")]
    pub(crate) fn sql(&self) -> Result<&SqlEngine, ApiError> {
        if self.sql.get().is_none() {
            let made = SqlEngine::new(SqlLimits::default());
            let made = made.map_err(|error| ApiError::internal(error.to_string()))?;
            // Whoever was faster has made the same.
            let _ = self.sql.set(made);
        }
        self.sql
            .get()
            .ok_or_else(|| ApiError::internal("there is nothing that runs SQL"))
    }

    pub(crate) fn database(&self) -> Result<&Database, ApiError> {
        self.database
            .get()
            .ok_or_else(|| ApiError::unavailable("the database is being opened: try again"))
    }
}

/// Facts that do not change while the process runs.
pub(crate) struct ProcessInfo {
    pub(crate) at_ms: i64,
    pub(crate) directory: String,
    pub(crate) hostname: String,
}

impl ProcessInfo {
    pub(crate) fn new(now_ms: i64) -> Self {
        let directory = std::env::current_dir();
        Self {
            at_ms: now_ms,
            directory: directory.map_or_else(|_| String::new(), |path| path.display().to_string()),
            hostname: hostname(),
        }
    }
}

/// As the kernel calls this machine.
fn hostname() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = read.as_deref().unwrap_or_default().trim();
    match name {
        "" => "localhost".into(),
        name => name.into(),
    }
}
