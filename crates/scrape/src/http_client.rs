//! The client that speaks to targets and discovery servers, made from [`HttpClientConfig`].
//!
//! Holds always:
//! - What a file holds, secret or certificate, is read for every request: a rotated one takes
//!   effect at once.
//! - Credentials go to the host they are meant for, never to another one that it redirects to.
//! - No error repeats a secret.
//!
//! Elsewhere: requests, limits and timeouts (`fetch`, `discovery`).

mod proxy;
#[cfg(test)]
mod tests;
mod tls;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{ClientBuilder, RequestBuilder, Url, redirect};

use super::config::{Credentials, HttpClientConfig, Secret};
use icecore_settings::read_bytes;
use tls::Material;

/// As many as Prometheus follows.
const REDIRECTS_MAX: usize = 10;

/// Longer than the usual scrape interval, so that a connection serves more than one scrape.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// Secrets and certificates are small.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Most clients of one configuration: one, and one for each Unix socket, because a client reuses
/// connections by the host that a URL names. Beyond that all are made again as they are needed.
const CLIENTS_MAX: usize = 256;

pub(super) struct HttpClient(Arc<Inner>);

struct Inner {
    config: HttpClientConfig,
    environment: fn(&str) -> Option<String>,
    /// The clients, with the certificates they were made of. Rebuilt when those change.
    built: Mutex<Clients>,
}

/// Clients by the socket that they connect to, if there is one.
type Clients = HashMap<Option<Arc<Path>>, (reqwest::Client, Material)>;

impl HttpClient {
    /// Checks what the configuration itself gives; files are read with each request.
    pub(super) fn new(config: &HttpClientConfig) -> Result<Self, String> {
        Self::with_environment(config, |name| std::env::var(name).ok())
    }

    fn with_environment(
        config: &HttpClientConfig,
        environment: fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let inner = Inner {
            config: config.clone(),
            environment,
            built: Mutex::default(),
        };
        if !inner.uses_files() {
            inner.client(None)?;
            inner.headers()?;
        }
        Ok(Self(Arc::new(inner)))
    }

    /// A request with everything that the configuration says about it.
    pub(super) async fn get(&self, url: Url) -> Result<RequestBuilder, String> {
        self.get_over(None, url).await
    }

    /// A request over a Unix socket, if there is one, whatever host the URL names.
    pub(super) async fn get_over(
        &self,
        socket: Option<&Arc<Path>>,
        url: Url,
    ) -> Result<RequestBuilder, String> {
        let (client, headers) = if self.0.uses_files() {
            let (inner, socket) = (Arc::clone(&self.0), socket.cloned());
            let prepared = tokio::task::spawn_blocking(move || inner.prepare(socket.as_ref()));
            prepared.await.map_err(|error| error.to_string())??
        } else {
            self.0.prepare(socket)?
        };
        Ok(client.get(url).headers(headers))
    }
}

impl Inner {
    fn prepare(&self, socket: Option<&Arc<Path>>) -> Result<(reqwest::Client, HeaderMap), String> {
        Ok((self.client(socket)?, self.headers()?))
    }

    fn uses_files(&self) -> bool {
        let tls = &self.config.tls;
        let certificates = [&tls.ca, &tls.cert, &tls.key].into_iter().flatten();
        let credentials = match &self.config.credentials {
            Some(Credentials::Basic { username, password }) => vec![username, password],
            Some(Credentials::Header { credentials, .. }) => vec![credentials],
            None => Vec::new(),
        };
        let headers = self.config.headers.iter().flat_map(|one| &one.secrets);
        let mut all = certificates.chain(credentials).chain(headers);
        all.any(|secret| matches!(secret, Secret::File(_)))
    }

    fn client(&self, socket: Option<&Arc<Path>>) -> Result<reqwest::Client, String> {
        let material = Material::read(&self.config.tls)?;
        let socket = socket.cloned();
        let mut built = self.built.lock();
        if let Some((client, of)) = built.get(&socket)
            && *of == material
        {
            return Ok(client.clone());
        }
        let client = self.build(&material, socket.as_deref())?;
        if built.len() >= CLIENTS_MAX {
            built.clear();
        }
        built.insert(socket, (client.clone(), material));
        Ok(client)
    }

    fn build(&self, material: &Material, socket: Option<&Path>) -> Result<reqwest::Client, String> {
        let config = &self.config;
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("Icecore/", env!("CARGO_PKG_VERSION")))
            .referer(false)
            .pool_idle_timeout(IDLE)
            .redirect(self.redirects());
        if !config.enable_http2 {
            builder = builder.http1_only();
        }
        // Left alone, the client takes the system's certificates when it first needs them.
        if config.tls != Default::default() {
            let tls = tls::client_config(&config.tls, material, config.enable_http2)?;
            builder = builder.tls_backend_preconfigured(tls);
        }
        builder = match (socket, proxy::of(&config.proxy, &self.environment)?) {
            (Some(socket), _) => over_socket(builder.no_proxy(), socket)?,
            (None, Some(proxy)) => builder.no_proxy().proxy(proxy),
            (None, None) => builder.no_proxy(),
        };
        builder.build().map_err(|error| reason(&error))
    }

    fn redirects(&self) -> redirect::Policy {
        if !self.config.follow_redirects {
            return redirect::Policy::none();
        }
        // The library takes `Authorization` off when the host changes. It does not know which other
        // headers are secret, so a request that has some does not leave its host.
        let has_secrets = self
            .config
            .headers
            .iter()
            .any(|one| !one.secrets.is_empty());
        redirect::Policy::custom(move |attempt| {
            let origin = attempt.previous().first().map(Url::origin);
            let leaves = origin.is_some_and(|origin| origin != attempt.url().origin());
            if attempt.previous().len() > REDIRECTS_MAX {
                attempt.error(format!("more than {REDIRECTS_MAX} redirects"))
            } else if has_secrets && leaves {
                attempt.error("a redirect to another host would take secret headers there")
            } else {
                attempt.follow()
            }
        })
    }

    fn headers(&self) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        let authorization = match &self.config.credentials {
            Some(Credentials::Basic { username, password }) => {
                let pair = format!("{}:{}", text_of(username)?, text_of(password)?);
                Some(format!("Basic {}", STANDARD.encode(pair)))
            }
            Some(Credentials::Header { kind, credentials }) => {
                Some(format!("{kind} {}", text_of(credentials)?))
            }
            None => None,
        };
        if let Some(text) = authorization {
            headers.insert(AUTHORIZATION, secret_value(&text, "authorization")?);
        }
        for header in &self.config.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes())
                .map_err(|_| format!("{:?} is no name of a header", header.name))?;
            for value in &header.values {
                let value = HeaderValue::from_str(value);
                let value = value.map_err(|_| format!("{name}: this is no value of a header"))?;
                headers.append(name.clone(), value);
            }
            for secret in &header.secrets {
                let value = secret_value(&text_of(secret)?, name.as_str())?;
                headers.append(name.clone(), value);
            }
        }
        Ok(headers)
    }
}

#[cfg(unix)]
fn over_socket(builder: ClientBuilder, socket: &Path) -> Result<ClientBuilder, String> {
    Ok(builder.unix_socket(socket))
}

#[cfg(not(unix))]
fn over_socket(_: ClientBuilder, _: &Path) -> Result<ClientBuilder, String> {
    Err("this system has no Unix sockets".into())
}

fn secret_value(text: &str, name: &str) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_str(text);
    let mut value = value.map_err(|_| format!("{name}: the secret is no value of a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The secret itself. In a file, blanks and newlines around it do not belong to it.
fn text_of(secret: &Secret) -> Result<String, String> {
    match secret {
        Secret::Inline(text) => Ok(text.clone()),
        Secret::File(path) => {
            let bytes = read_small(path)?;
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_| format!("{} is not valid UTF-8", path.display()))?;
            Ok(text.trim().to_owned())
        }
    }
}

fn read_small(path: &Path) -> Result<Vec<u8>, String> {
    read_bytes(path, FILE_BYTES_MAX)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// An error with its causes, which say more than the error itself. The URL, which may hold a
/// password, is not in it.
pub(super) fn reason(error: &reqwest::Error) -> String {
    let text = error.to_string();
    // The library appends the URL to its own message only.
    let mut text = match (error.url(), text.find(" for url (")) {
        (Some(_), Some(at)) => text.get(..at).unwrap_or_default().to_owned(),
        _ => text,
    };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
