//! Access control: TLS, credentials and roles, from a web configuration file like Prometheus' own.
//!
//! ```text
//! file ─► load ─► Rules ─┬─► tls: what connections are answered with
//!   ▲                    └─► credentials: what requests are checked against ─► Ok or AuthError
//!   └── changed, or reload requested: new rules, or the old ones and an error
//! ```
//!
//! Holds always:
//! - Without a file there is no access control, as in Prometheus.
//! - Once there is a credential, nothing but [`Role::Open`] is answered without one.
//! - A file that cannot be used changes nothing while the process runs. Nor does one without a
//!   protection that is in force (credentials, `rate_limit`, TLS, certificates of clients), for
//!   example because it was cut off: only a restart takes a protection away.
//! - An empty file cannot be used, neither at the start nor later.
//! - Secrets are in no log, no error and no `Debug`.

mod cache;
mod certificate;
mod client;
mod credentials;
mod file;
mod files;
mod identity;
mod load;
mod metrics;
mod rate;
mod roles;
#[cfg(test)]
mod tests;
mod tls;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::{Mutex, RwLock};
use rustls::ServerConnection;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

pub use self::certificate::PeerCertificate;
pub use self::client::client_network;
use self::credentials::{Credentials, HashingPool};
use self::files::{Files, Stamp, stamp};
pub use self::identity::Identity;
use self::load::load;
pub use self::metrics::AccessMetrics;
use self::rate::RateLimiter;
pub use self::roles::Role;
use self::tls::ClientAuth;
pub use self::tls::Tls;
use icecore_settings::{ConfigError, Problem};

/// Interval between checks for changed files. Renewed certificates are usually there days
/// before they are needed; a person who edits a file waits for it.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// There is no credential.
    Missing,
    /// There is one that does not match.
    Wrong,
    /// The header cannot be parsed.
    Malformed(&'static str),
    /// The credential is right and does not have this role.
    Forbidden(Role),
    /// Too many passwords are being checked.
    Busy,
    /// More requests than `rate_limit` allows.
    TooMany,
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => {
                f.write_str("a credential is needed: a user with a password, or a bearer token")
            }
            // Not which of user and password is wrong: that would help guessing.
            Self::Wrong => f.write_str("the credential is not known"),
            Self::Malformed(reason) => write!(f, "the credential cannot be read: {reason}"),
            Self::Forbidden(role) => {
                let role = role.word();
                write!(f, "the credential does not have the role {role}")
            }
            Self::Busy => f.write_str("too many passwords are being checked: try again"),
            Self::TooMany => f.write_str("more requests than rate_limit allows: try again"),
        }
    }
}

/// What one state of the files says.
struct Rules {
    tls: Option<Tls>,
    http1_only: bool,
    headers: Vec<(HeaderName, HeaderValue)>,
    rate: Option<RateLimiter>,
    credentials: Credentials,
}

impl Rules {
    /// No access control.
    fn none() -> Self {
        Self {
            tls: None,
            http1_only: false,
            headers: Vec::new(),
            rate: None,
            credentials: Credentials::new(Vec::new(), Vec::new(), Vec::new()),
        }
    }

    fn are_restricted(&self) -> bool {
        let clients = self.tls.as_ref().map(|tls| tls.clients);
        !self.credentials.are_none() || clients == Some(ClientAuth::RequireAndVerify)
    }

    /// Returns the protection that `new` drops, in words.
    fn protection_lost_in(&self, new: &Self) -> Option<&'static str> {
        if new.credentials.are_none() && !self.credentials.are_none() {
            return Some("requests would need no credential");
        }
        if self.rate.is_some() && new.rate.is_none() {
            return Some("clients could send as much as they like (rate_limit)");
        }
        match (&self.tls, &new.tls) {
            (Some(_), None) => Some("connections would not be encrypted (tls_server_config)"),
            (Some(old), Some(new)) => old.protection_lost_in(new),
            (None, _) => None,
        }
    }
}

/// The rules of a process, and where they come from.
pub struct Access {
    path: Option<PathBuf>,
    rules: RwLock<Arc<Rules>>,
    /// What the rules were read from. Held while they are read, so that one reload runs at a time.
    watched: Mutex<Vec<(PathBuf, Stamp)>>,
    /// Why the files could not be used when they were read last.
    problem: Mutex<Option<String>>,
    hashing: HashingPool,
    pub metrics: AccessMetrics,
    /// Notified when the way in which clients are verified changes.
    clients_changed: watch::Sender<()>,
}

impl Access {
    /// Reads the file; without one, there is no access control.
    pub fn open(path: Option<PathBuf>) -> Result<Arc<Self>, ConfigError> {
        let (rules, watched) = match &path {
            Some(path) => {
                let mut files = Files::new(path);
                let rules = load(&mut files)?;
                if !rules.are_restricted() && rules.tls.is_none() {
                    let file = path.display();
                    warn!(%file, "the web configuration file has neither credentials nor TLS: there is no access control");
                }
                (rules, files.seen)
            }
            None => (Rules::none(), Vec::new()),
        };
        Ok(Arc::new(Self {
            path,
            rules: RwLock::new(Arc::new(rules)),
            watched: Mutex::new(watched),
            problem: Mutex::new(None),
            hashing: HashingPool::new(),
            metrics: AccessMetrics::default(),
            clients_changed: watch::Sender::new(()),
        }))
    }

    /// Reads the files again. When they cannot be used, or would open what is restricted, the rules
    /// stay as they were. Reads files and prepares keys: not for async workers.
    pub fn reload(&self) -> Result<(), ConfigError> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut watched = self.watched.lock();
        let mut files = Files::again(path);
        let loaded = load(&mut files).and_then(|rules| self.protected(rules, path));
        *watched = files.seen;
        let file = path.display();
        let loaded = match loaded {
            Ok(rules) => {
                let clients = |rules: &Rules| rules.tls.as_ref().map(|tls| tls.clients_digest);
                let mut current = self.rules.write();
                let same_clients = clients(&current) == clients(&rules);
                *current = Arc::new(rules);
                drop(current);
                if !same_clients {
                    self.clients_changed.send_replace(());
                }
                info!(%file, "web configuration reloaded");
                Ok(())
            }
            Err(error) => {
                error!(%file, %error, "cannot load web configuration; keeping the previous one");
                Err(error)
            }
        };
        *self.problem.lock() = loaded.as_ref().err().map(ToString::to_string);
        self.metrics.reloaded(loaded.is_ok());
        loaded
    }

    /// Refuses rules that lack a protection which is in force. A file is empty or incomplete while
    /// an editor writes it, and when a disk is full.
    fn protected(&self, rules: Rules, path: &Path) -> Result<Rules, ConfigError> {
        let Some(lost) = self.rules().protection_lost_in(&rules) else {
            return Ok(rules);
        };
        let reason = format!("with this file {lost}, and a reload never takes a protection away");
        let problem = Problem::new(path.display().to_string(), reason)
            .hint("repair the file, or restart the process if this is wanted");
        Err(ConfigError::Invalid(vec![problem]))
    }

    /// Returns why the files could not be used when they were read last; the rules in force are
    /// older than the files then.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// Reloads whenever a file has changed, until the task is dropped.
    pub fn watch(self: &Arc<Self>) -> JoinSet<()> {
        let mut task = JoinSet::new();
        if self.path.is_none() {
            return task;
        }
        let access = Arc::clone(self);
        task.spawn(async move {
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                let access = Arc::clone(&access);
                let looked = tokio::task::spawn_blocking(move || {
                    if access.files_have_changed() {
                        // It logs its result itself.
                        let _ = access.reload();
                    }
                });
                let _ = looked.await;
            }
        });
        task
    }

    fn files_have_changed(&self) -> bool {
        let watched = self.watched.lock();
        watched.iter().any(|(path, seen)| stamp(path) != *seen)
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read())
    }

    /// Whether a request may be answered: by somebody with this role, or with `None`, by anybody
    /// who is known. For every listener; `certificate` is in the extensions of a request, if there
    /// is one, and so is the address of its client.
    pub async fn check(
        &self,
        headers: &HeaderMap,
        certificate: Option<&PeerCertificate>,
        client: Option<IpAddr>,
        needed: Option<Role>,
    ) -> Result<(), AuthError> {
        let checked = self.checked(headers, certificate, client, needed).await;
        if let Err(denied) = checked {
            self.metrics.denied(denied);
        }
        checked
    }

    async fn checked(
        &self,
        headers: &HeaderMap,
        certificate: Option<&PeerCertificate>,
        client: Option<IpAddr>,
        needed: Option<Role>,
    ) -> Result<(), AuthError> {
        if needed == Some(Role::Open) {
            return Ok(());
        }
        let rules = self.rules();
        if rules.rate.as_ref().is_some_and(|rate| !rate.take(client)) {
            return Err(AuthError::TooMany);
        }
        if rules.credentials.are_none() {
            return Ok(());
        }
        let credentials = &rules.credentials;
        let roles = credentials.roles_of(headers, certificate, &self.hashing);
        let roles = roles.await?;
        match needed {
            Some(role) if !roles.allow(role) => Err(AuthError::Forbidden(role)),
            _ => Ok(()),
        }
    }

    /// Adds the headers that the file asks for.
    pub fn add_headers(&self, headers: &mut HeaderMap) {
        let rules = self.rules();
        for (name, value) in &rules.headers {
            headers.insert(name, value.clone());
        }
    }

    /// Whether connections are TLS, and with what.
    pub fn with_tls<T>(&self, pick: impl FnOnce(&Tls) -> T) -> Option<T> {
        self.rules().tls.as_ref().map(pick)
    }

    /// Whether the file turns HTTP/2 off.
    pub fn is_http1_only(&self) -> bool {
        self.rules().http1_only
    }

    /// Whether every request needs a credential or a verified certificate.
    pub fn is_restricted(&self) -> bool {
        self.rules().are_restricted()
    }

    /// Returns `true` if passwords or tokens are sent to this server in the clear.
    pub fn takes_plain_secrets(&self) -> bool {
        let rules = self.rules();
        rules.tls.is_none() && !rules.credentials.schemes().is_empty()
    }

    /// The client's certificate of a connection that has just been accepted.
    pub fn certificate_of(
        connection: &ServerConnection,
        verified: bool,
    ) -> Option<Arc<PeerCertificate>> {
        let first = connection.peer_certificates()?.first()?;
        Some(Arc::new(PeerCertificate::read(first, verified)))
    }

    /// Notified when clients must reconnect, because they are verified in another way.
    pub fn clients_changed(&self) -> watch::Receiver<()> {
        self.clients_changed.subscribe()
    }
}

impl Tls {
    /// Whether certificates of clients are checked against an authority.
    pub fn verifies_clients(&self) -> bool {
        self.clients.verifies()
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
