//! One running process, from its configuration to its end.
//!
//! ```text
//! start:  listening ─► /-/healthy answers ─► database opened, journal replayed ─► ready
//! stop:   signal ─► listeners closed, requests under way answered ─► flush ─► closed ─► Ok
//!         database failed ─► listeners closed ─► Err at once: nothing more can be acknowledged
//! ```
//!
//! Holds always:
//! - It listens before the database is open, so that whoever supervises the process sees it alive
//!   while it recovers.
//! - Ending early at any point loses nothing that was acknowledged: a flush only saves the next
//!   start the replay.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use icecore_model::StoreError;
use icecore_model::format_duration_ms;
use icecore_storage::{Database, Environment, Error as StorageError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use crate::app::App;
use crate::clock::process_clock;
use crate::config::{
    Config, ConfigError, ListenAddress, LogFormat, apply_exclusion, name_limits, tsd_config,
};
use crate::events::{self, RunningEvents};
use crate::listener::{ConnectionHandler, Listener, Places, Protocols};
use crate::notifications::Notice;
use crate::opentsdb::{self, Telnet};
use crate::reload::reload;
use crate::retention;
use crate::routes::{ROUTES, grpc_router, opentsdb_router, router};
use crate::service_manager::ServiceManager;
use crate::telemetry;
use icecore_access::Access;
use icecore_scrape::{ScrapeManager, SelfScrape};

/// Interval at which a long shutdown logs what it is waiting for.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// How long a shutdown waits for a store that fails. Orchestrators commonly kill after 30 s.
const FAILING_STORE_PATIENCE: Duration = Duration::from_secs(15);

/// Two signals so close together count as one: some supervisors signal every process of a group and
/// then its leader once more.
const SAME_SIGNAL_WINDOW: Duration = Duration::from_secs(1);

/// How long requests may go on after the database has failed: they only learn that it has.
const FAILED_GRACE: Duration = Duration::from_millis(500);

/// Why the process could not start or had to stop.
#[derive(Debug, Error)]
pub enum ServeError {
    #[error("cannot listen on {address}: {source}; {flag} ADDRESS:PORT chooses another port")]
    Listen {
        address: String,
        flag: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("cannot use the web configuration file: {0}")]
    Access(#[from] ConfigError),
    #[error("cannot use the settings of OpenTSDB: {0}")]
    OpenTsdb(#[source] ConfigError),
    #[error("cannot start the threads for queries: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error("cannot wait for signals: {0}")]
    Signals(#[source] io::Error),
    #[error("cannot open the database at {location}: {source}")]
    Open {
        location: String,
        #[source]
        source: StorageError,
    },
    #[error("cannot read OpenTSDB's names: {0}")]
    Names(#[source] StoreError),
    #[error("cannot open events: {0}")]
    Events(#[source] icecore_events::Problem),
    #[error("stopped: {0}")]
    Failed(String),
    #[error("cannot flush before closing; what was acknowledged is in the journal: {0}")]
    Close(#[source] StorageError),
    #[error("stopped without flushing, because {0}; what was acknowledged is in the journal")]
    Unflushed(String),
    #[error("stopped by a second signal while flushing; what was acknowledged is in the journal")]
    Interrupted,
}

impl ServeError {
    /// Returns `true` if the configuration is wrong: starting again would fail again.
    pub fn is_configuration(&self) -> bool {
        matches!(self, Self::Access(_) | Self::OpenTsdb(_))
    }
}

/// Runs until a signal says to stop, or until the database fails.
pub async fn run(config: Config) -> Result<(), ServeError> {
    telemetry::start(config.log);
    for warning in config.warnings() {
        warn!("{warning}");
    }
    let stop = stop_signals()?;
    let mut process = Process::start(config, Environment::default()).await?;
    process.service_manager = ServiceManager::of_environment();
    process.announce();
    process.run_until(stop).await
}

/// SIGTERM and SIGINT, by name, as they come.
fn stop_signals() -> Result<mpsc::Receiver<&'static str>, ServeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    let (sender, receiver) = mpsc::channel(4);
    // Ends with the receiver.
    tokio::spawn(async move {
        loop {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            if sender.send(name).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// A process that listens (or could not) and whose database is not open yet.
pub struct Process {
    config: Config,
    environment: Environment,
    app: Arc<App>,
    http: Option<Listener>,
    grpc: Option<Listener>,
    opentsdb: Option<Listener>,
    tsd_config: icecore_opentsdb::Config,
    service_manager: ServiceManager,
    /// Reads the web configuration file again when it changes.
    watching: JoinSet<()>,
}

impl Process {
    /// Starts to listen. The default port of OTLP over gRPC is left alone if it is in use, with a
    /// warning: the HTTP port serves OTLP, too.
    pub async fn start(config: Config, environment: Environment) -> Result<Self, ServeError> {
        let clock = environment.clock.clone();
        let clock = clock.unwrap_or_else(process_clock);
        let environment = Environment {
            clock: Some(Arc::clone(&clock)),
            ..environment
        };
        allow_open_files();
        let access = Access::open(web_config_of(&config))?;
        let mut warnings = Vec::new();
        let mut config = config;
        let mut tsd_config =
            tsd_config(&config.opentsdb, &mut warnings).map_err(ServeError::OpenTsdb)?;
        for warning in warnings {
            warn!("{warning}");
        }
        apply_exclusion(&mut config.query, &mut tsd_config);
        tsd_config.name_limits = name_limits(&config);
        let app = Arc::new(App::new(&config, &ROUTES, Arc::clone(&access), clock)?);
        let handler =
            |router, protocols| ConnectionHandler::new(router, protocols, Arc::clone(&access));
        let others = [&config.server.otlp_grpc_listen, &config.opentsdb.listen];
        let ports = 1 + others.into_iter().flatten().count();
        let places = || Places::new(ports, config.server.client_share);
        let listen = &config.server.listen;
        let opened = bind(listen).await.and_then(|socket| {
            let router = router(Arc::clone(&app));
            Listener::open(socket, handler(router, Protocols::Http1And2), places())
        });
        let http = listening(opened, listen, true, "--listen")?;
        let grpc = match &config.server.otlp_grpc_listen {
            None => None,
            Some(listen) => {
                let opened = bind(listen).await.and_then(|socket| {
                    let router = grpc_router(Arc::clone(&app));
                    Listener::open(socket, handler(router, Protocols::Http2), places())
                });
                let explicit = config.grpc_listen_is_explicit();
                listening(opened, listen, explicit, "--otlp.grpc.listen")?
            }
        };
        let opentsdb = match &config.opentsdb.listen {
            None => None,
            Some(listen) => {
                let opened = bind(listen).await.and_then(|socket| {
                    let router = opentsdb_router(Arc::clone(&app));
                    let handler = handler(router, Protocols::Http1And2)
                        .with_path_prefix(opentsdb::http::PREFIX)
                        .with_line_protocol(Arc::new(Telnet {
                            app: Arc::clone(&app),
                            idle_max: tsd_config.socket_timeout(),
                        }));
                    Listener::open(socket, handler, places())
                });
                listening(opened, listen, true, "--opentsdb.listen")?
            }
        };
        for listener in [&http, &grpc, &opentsdb].into_iter().flatten() {
            let address = listener.address();
            if let Some(warning) = exposure_warning(&access, address) {
                warn!(%address, "{warning}");
            }
        }
        Ok(Self {
            config,
            environment,
            app,
            http,
            grpc,
            opentsdb,
            tsd_config,
            service_manager: ServiceManager::default(),
            watching: access.watch(),
        })
    }

    /// Where HTTP is answered; `None` when it is not.
    pub fn address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Listener::address)
    }

    /// Where gRPC is answered; `None` when it is not.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().map(Listener::address)
    }

    /// Where OpenTSDB is spoken; `None` when it is not.
    pub fn opentsdb_address(&self) -> Option<SocketAddr> {
        self.opentsdb.as_ref().map(Listener::address)
    }

    /// Opens the database and serves it until `stop` receives the name of a signal. A second one
    /// interrupts the flush. A closed channel never stops it.
    pub async fn run_until(
        mut self,
        mut stop: mpsc::Receiver<&'static str>,
    ) -> Result<(), ServeError> {
        let began = Instant::now();
        self.service_manager
            .status(&format!("opening {}", self.location()));
        let environment = std::mem::take(&mut self.environment);
        let progress = Arc::clone(&self.app.replay);
        let options = self.config.storage_options();
        let opening = Database::open_with_progress(options, environment, progress);
        let opened = tokio::select! {
            opened = opening => opened,
            signal = next(&mut stop) => {
                info!(signal, "stopping before the database was open");
                self.service_manager.stopping(signal);
                self.shut(Duration::ZERO).await;
                return Ok(());
            }
        };
        let database = match opened {
            Ok(database) => database,
            Err(source) => {
                self.shut(Duration::ZERO).await;
                return Err(ServeError::Open {
                    location: self.location(),
                    source,
                });
            }
        };
        let clock = Arc::clone(self.app.clock());
        let usage = Arc::clone(&self.app.usage);
        let tsd = opentsdb::open(self.tsd_config.clone(), &database, clock, usage).await;
        match tsd {
            Ok(tsd) => self.app.set_opentsdb(tsd),
            Err(cause) => {
                self.shut(Duration::ZERO).await;
                // Why it cannot be served counts; that closing it failed as well does not.
                let _ = self.close(&database, &mut stop, Instant::now()).await;
                return Err(ServeError::Names(cause));
            }
        }
        let clock = Arc::clone(self.app.clock());
        let settings = &self.config.events;
        let opened = events::open(settings, &database, clock).await;
        let opened = opened.and_then(|(opened, files)| {
            let all = events::with_shards(settings, &database, &opened)?;
            Ok((opened, all, files))
        });
        let events = match opened {
            Ok((opened, all, files)) => {
                self.app.set_events(opened.clone(), all);
                RunningEvents::start(&self.app, opened, files)
            }
            Err(cause) => {
                self.shut(Duration::ZERO).await;
                let _ = self.close(&database, &mut stop, Instant::now()).await;
                return Err(ServeError::Events(cause));
            }
        };
        self.app.set_database(database.clone());
        retention::apply(&self.app).await;
        let scraping = self.scrape(&database).await;
        info!(seconds = began.elapsed().as_secs_f64(), "ready");
        let hangups = tokio::spawn(reload_on_hangup(
            signal(SignalKind::hangup()),
            Arc::clone(&self.app),
            Arc::clone(&scraping),
        ));
        // A reload that is asked for from now on does not end the process.
        self.service_manager.ready();
        tokio::select! {
            reason = database.failed() => {
                error!(reason, "database failed, stopping");
                self.service_manager.stopping(&reason);
                self.app.notifications.add(Notice::Stopping);
                hangups.abort();
                scraping.stop().await;
                self.shut(FAILED_GRACE).await;
                Err(ServeError::Failed(reason))
            }
            signal = next(&mut stop) => {
                let began = Instant::now();
                info!(signal, "stopping");
                self.service_manager.stopping(signal);
                self.app.notifications.add(Notice::Stopping);
                // A request that waits for a run of maintenance, or for a flush that a job holds
                // back, would take all of the grace time.
                database.stop_maintenance();
                hangups.abort();
                log_while_waiting("scrapes to end", scraping.stop()).await;
                let config = self.app.config();
                let left = || config.server.stop_timeout.saturating_sub(began.elapsed());
                let grace = config.server.shutdown_grace.min(left());
                if !log_while_waiting("requests to finish", self.shut(grace)).await {
                    warn!(?grace, "aborted requests still running after server.shutdown_grace");
                }
                if tokio::time::timeout(left(), events.close()).await.is_err() {
                    warn!("events not flushed in time; the next start takes them from the journal");
                }
                self.close(&database, &mut stop, began).await
            }
        }
    }

    /// Starts scraping what the configuration names, or else this process itself.
    async fn scrape(&self, database: &Database) -> Arc<ScrapeManager> {
        let app = Arc::downgrade(&self.app);
        let page_of = database.clone();
        let own = SelfScrape {
            address: self.own_address(),
            page: Arc::new(move || {
                Some(crate::status::metrics::render(&page_of, &*app.upgrade()?))
            }),
        };
        let clock = Arc::clone(self.app.clock());
        let config = &self.config;
        let store = Arc::new(database.clone());
        let itself = config.scraping.itself;
        let scraping = ScrapeManager::start(store, clock, config.scrape(), own, itself).await;
        self.app.set_scraping(Arc::clone(&scraping));
        scraping
    }

    /// The target of the self-scrape: where this process listens, or would.
    fn own_address(&self) -> String {
        match self.address() {
            Some(address) => reachable(address).to_string(),
            None => self.config.server.listen.to_string(),
        }
    }

    async fn shut(&mut self, grace: Duration) -> bool {
        self.watching.abort_all();
        // Clients that listen would go on for as long as they like.
        self.app.notifications.close();
        let shut = |listener: Option<Listener>| async move {
            match listener {
                Some(listener) => listener.shut(grace).await,
                None => true,
            }
        };
        let (http, grpc, opentsdb) = tokio::join!(
            shut(self.http.take()),
            shut(self.grpc.take()),
            shut(self.opentsdb.take())
        );
        http && grpc && opentsdb
    }

    /// Flushes and closes, with progress in the log while it takes long, until the time of a stop
    /// that `began` then is over.
    async fn close(
        &self,
        database: &Database,
        stop: &mut mpsc::Receiver<&'static str>,
        began: Instant,
    ) -> Result<(), ServeError> {
        let stop_timeout = self.app.config().server.stop_timeout;
        let left = stop_timeout.saturating_sub(began.elapsed());
        let began = Instant::now();
        // Rounds of the flush end before that, so that there is time to say what is flushed.
        let mut closing = pin!(database.close_within(left / 2));
        let mut end = pin!(tokio::time::sleep(left));
        let mut progress = tokio::time::interval_at(
            tokio::time::Instant::now() + PROGRESS_INTERVAL,
            PROGRESS_INTERVAL,
        );
        loop {
            tokio::select! {
                biased;
                closed = &mut closing => {
                    closed.map_err(ServeError::Close)?;
                    info!(seconds = began.elapsed().as_secs_f64(), "closed");
                    return Ok(());
                }
                signal = next(stop) => {
                    if began.elapsed() < SAME_SIGNAL_WINDOW {
                        continue;
                    }
                    warn!(signal, "stopping without waiting for the flush");
                    return Err(ServeError::Interrupted);
                }
                () = &mut end => {
                    let gauges = database.gauges();
                    warn!(
                        ?stop_timeout,
                        open_hours = gauges.open_hours,
                        sample_bytes = gauges.head_sample_bytes,
                        journal_epochs = gauges.journal_epochs,
                        "stopped before everything is flushed, because server.stop_timeout is \
                         over: the next start replays the rest from the journal"
                    );
                    return match database.unready() {
                        Some(trouble) => Err(ServeError::Unflushed(trouble)),
                        None => Ok(()),
                    };
                }
                _ = progress.tick() => {
                    let waiting = format!("stopping: waiting for {}", database.closing());
                    self.service_manager.status(&waiting);
                    let gauges = database.gauges();
                    let trouble = database.unready();
                    info!(
                        seconds = began.elapsed().as_secs(),
                        sample_bytes = gauges.head_sample_bytes,
                        open_hours = gauges.open_hours,
                        trouble,
                        "{waiting}"
                    );
                    if began.elapsed() >= FAILING_STORE_PATIENCE
                        && let Some(trouble) = trouble
                    {
                        return Err(ServeError::Unflushed(trouble));
                    }
                }
            }
        }
    }

    /// Where the data lies: an absolute path or a URL.
    fn location(&self) -> String {
        let location = self.config.storage_options().store.location;
        if location.contains("://") {
            return icecore_settings::without_secrets(&location);
        }
        match std::path::absolute(&location) {
            Ok(path) => path.display().to_string(),
            Err(_) => location,
        }
    }

    /// Says what runs here and what to try first.
    fn announce(&self) {
        let version = env!("CARGO_PKG_VERSION");
        let location = self.location();
        let scheme = match self.app.access.with_tls(|_| ()) {
            Some(()) => "https",
            None => "http",
        };
        let url = self.address().map(|address| url_of(scheme, address));
        let retention = retention_line(&self.config);
        if self.config.log.format == LogFormat::Json {
            let url = url.unwrap_or_default();
            let ui = format!("{url}/ui/");
            info!(version, location, url, ui, retention, "icecore");
            return;
        }
        let mut text = format!("icecore {version}\n  data   {location}\n  keep   {retention}\n");
        if let Some(url) = url {
            let _ = write!(
                text,
                "  open   {url}/ui/   (in a browser)\n  \
                 ready  {url}/-/ready\n  \
                 write  {url}/api/v1/write   (remote_write: [{{url: …}}] in a prometheus.yml)\n  \
                 read   curl '{url}/api/v1/query' -d 'query=up'\n"
            );
        }
        if let Some(url) = self.grpc_address().map(|address| url_of(scheme, address)) {
            let _ = writeln!(
                text,
                "  otlp   {url}   (gRPC; OTLP over HTTP is at /v1/metrics above)"
            );
        }
        if let Some(address) = self.opentsdb_address() {
            let (url, address) = (url_of(scheme, address), reachable(address));
            let _ = writeln!(text, "  tsdb   {url}   (OpenTSDB; telnet {address}, too)");
        }
        // A closed standard output is no reason to stop.
        let _ = io::stdout().write_all(text.as_bytes());
    }
}

/// Raises the limit of open files to what the system allows this process. The limit that processes
/// start with is low for programs that keep a bit for each descriptor (`select`), which this one
/// does not.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(%error, "cannot raise the limit of open files");
    }
}

/// What is kept how long.
fn retention_line(config: &Config) -> String {
    match (&config.retention, config.tsdb_retention_ms()) {
        (Some(policy), _) => policy.to_string(),
        (None, Some(ms)) => format!(
            "raw {}, by storage.tsdb.retention.time",
            format_duration_ms(ms)
        ),
        (None, None) => {
            "everything: without a policy (--retention) nothing is rolled up or deleted".into()
        }
    }
}

async fn bind(listen: &ListenAddress) -> io::Result<TcpListener> {
    TcpListener::bind((listen.host.as_str(), listen.port)).await
}

/// Returns the listener, or `None` with a warning if it could not be opened and was not asked for.
fn listening(
    opened: io::Result<Listener>,
    listen: &ListenAddress,
    is_explicit: bool,
    flag: &'static str,
) -> Result<Option<Listener>, ServeError> {
    let address = listen.to_string();
    match opened {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if !is_explicit => {
            warn!(address, %error, "not listening; {flag} ADDRESS:PORT chooses another port");
            Ok(None)
        }
        Err(source) => Err(ServeError::Listen {
            address,
            flag,
            source,
        }),
    }
}

fn web_config_of(config: &Config) -> Option<PathBuf> {
    let path = &config.server.web_config;
    (!path.is_empty()).then(|| path.into())
}

/// Returns what an address beyond this machine lets others do or see.
fn exposure_warning(access: &Access, address: SocketAddr) -> Option<&'static str> {
    if address.ip().to_canonical().is_loopback() {
        None
    } else if !access.is_restricted() {
        Some(
            "no access control: everybody who can connect may read, write and delete; see \
             --web.config.file",
        )
    } else if access.takes_plain_secrets() {
        Some(
            "passwords and tokens cross the network in the clear: tls_server_config of the web \
             configuration file turns on TLS; a proxy that speaks TLS should reach a loopback \
             address",
        )
    } else {
        None
    }
}

/// The URL for a client on this machine.
fn url_of(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://{}", reachable(address))
}

/// The address by which this machine reaches itself.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// SIGHUP reloads the configuration, as in Prometheus.
async fn reload_on_hangup(
    hangups: io::Result<Signal>,
    app: Arc<App>,
    scraping: Arc<ScrapeManager>,
) {
    let mut hangups = match hangups {
        Ok(hangups) => hangups,
        Err(error) => {
            return warn!(%error, "cannot handle SIGHUP: it will not reload the configuration");
        }
    };
    while hangups.recv().await.is_some() {
        info!("SIGHUP: reloading the configuration");
        // What came of it is in the log.
        let _ = reload(&app, &scraping).await;
    }
}

async fn next(stop: &mut mpsc::Receiver<&'static str>) -> &'static str {
    match stop.recv().await {
        Some(signal) => signal,
        None => std::future::pending().await,
    }
}

/// Logs what is waited for while it takes long.
async fn log_while_waiting<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let mut waiting = pin!(waiting);
    loop {
        match tokio::time::timeout(PROGRESS_INTERVAL, &mut waiting).await {
            Ok(done) => return done,
            Err(_) => info!(
                seconds = began.elapsed().as_secs(),
                "stopping: waiting for {what}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_can_be_opened_on_this_machine() {
        for (address, url) in [
            ("0.0.0.0:80", "http://127.0.0.1:80"),
            ("[::]:80", "http://[::1]:80"),
            ("192.0.2.1:9090", "http://192.0.2.1:9090"),
        ] {
            assert_eq!(url_of("http", address.parse().unwrap()), url);
        }
    }

    #[test]
    fn as_many_files_may_be_open_as_the_system_allows() {
        let limit = getrlimit(Resource::Nofile);
        // Others of the process' tests open files meanwhile.
        let lowered = Rlimit {
            current: limit.maximum.map(|files| files - 1),
            ..limit
        };
        setrlimit(Resource::Nofile, lowered).unwrap();
        allow_open_files();
        assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
    }

    #[test]
    fn addresses_beyond_this_machine_are_warned_about() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("web.yml");
        let token = "icecore: {tokens: [{token: 0123456789-abcdef, roles: [read]}]}";
        std::fs::write(&path, token).unwrap();
        let open = Access::open(None).unwrap();
        let plain = Access::open(Some(path)).unwrap();
        let warning = |access: &Access, address: &str| {
            let warning = exposure_warning(access, address.parse().unwrap());
            warning.unwrap_or_default()
        };
        for address in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(warning(&open, address), "");
            assert_eq!(warning(&plain, address), "");
        }
        for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1"] {
            assert!(warning(&open, address).starts_with("no access control"));
            assert!(warning(&plain, address).contains("in the clear"));
        }
    }
}
