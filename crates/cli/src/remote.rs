//! Requests of commands to a running server over HTTP: its address, credentials, and the shape of
//! its answers.
//!
//! Holds always: secrets come from files, and are in no message.

mod answer;
mod client;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use reqwest::{Method, RequestBuilder, Response};

pub(crate) use answer::Answer;
pub(crate) use client::Body;
use client::{ANSWER_GRACE, TlsTrust, parse_server_url};
pub(crate) use client::{Server, path_segment};

use crate::WrongUsage;

#[derive(Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ServerArgs {
    /// Where the server answers, http:// or https://
    #[arg(
        long,
        alias = "url",
        value_name = "URL",
        default_value = "http://127.0.0.1:9090",
        value_parser = parse_server_url
    )]
    server: Server,

    /// A header for every request, for example for a proxy; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,

    /// Certificates (PEM) that the server's must be signed by; the system's unless given
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Do not check the certificate of the server
    #[arg(long, conflicts_with = "ca_file")]
    insecure: bool,

    /// User name for basic authentication
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,

    /// The password of --user
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// A bearer token
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    token_file: Option<PathBuf>,
}

/// A server and the credentials for it.
pub(crate) struct Connection {
    client: reqwest::Client,
    server: Server,
    headers: reqwest::header::HeaderMap,
    basic: Option<(String, String)>,
    token: Option<String>,
}

impl ServerArgs {
    /// Reads the files that the flags name.
    pub(crate) fn connect(&self) -> anyhow::Result<Connection> {
        let authorities = self.ca_file.as_deref().map(read_file).transpose()?;
        let secret = |path: &Path| -> anyhow::Result<String> {
            let text = String::from_utf8(read_file(path)?);
            let text = text.with_context(|| format!("{} is not text", path.display()))?;
            Ok(text.trim().to_owned())
        };
        let password = self.password_file.as_deref().map(secret).transpose()?;
        Ok(Connection {
            client: client::client(TlsTrust {
                authorities,
                insecure: self.insecure,
            })?,
            server: self.server.clone(),
            headers: self.headers()?,
            basic: self.user.clone().zip(password),
            token: self.token_file.as_deref().map(secret).transpose()?,
        })
    }

    fn headers(&self) -> Result<reqwest::header::HeaderMap, WrongUsage> {
        let mut headers = reqwest::header::HeaderMap::new();
        for given in &self.headers {
            let Some((name, value)) = given.split_once(':') else {
                return Err(WrongUsage(format!(
                    "--header {given:?}: expected \"Name: value\""
                )));
            };
            let name = reqwest::header::HeaderName::from_bytes(name.trim().as_bytes());
            let value = reqwest::header::HeaderValue::from_str(value.trim());
            match (name, value) {
                (Ok(name), Ok(value)) => drop(headers.append(name, value)),
                _ => return Err(WrongUsage(format!("--header {given:?} is no header"))),
            }
        }
        Ok(headers)
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        params: &[(&'static str, String)],
        timeout_ms: Option<i64>,
    ) -> anyhow::Result<Answer> {
        let connection = self.connect()?;
        let exchange = connection.post(path, params);
        let body = match timeout_ms {
            None => exchange.await?,
            Some(timeout_ms) => {
                let longest = Duration::from_millis(timeout_ms.unsigned_abs());
                let longest = longest.saturating_add(ANSWER_GRACE);
                match tokio::time::timeout(longest, exchange).await {
                    Ok(answer) => answer?,
                    Err(_) => bail!(
                        "{} has not answered within --timeout and {ANSWER_GRACE:?}",
                        self.server
                    ),
                }
            }
        };
        Answer::parse(&body, &self.server)
    }

    /// Deletes what a path names, which is done at once.
    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        let body = self.at_once(Method::DELETE, path).await?;
        if body.bytes.is_empty() && body.status.is_success() {
            Ok(())
        } else {
            Answer::parse(&body, &self.server).map(drop)
        }
    }

    /// Gets what needs no parameters and is there at once.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        let body = self.at_once(Method::GET, path).await?;
        Answer::parse(&body, &self.server)
    }

    async fn at_once(&self, method: Method, path: &str) -> anyhow::Result<Body> {
        let request = self.connect()?.request(method, path);
        match tokio::time::timeout(ANSWER_GRACE, self.server.exchange(request)).await {
            Ok(body) => body,
            Err(_) => bail!("{} has not answered within {ANSWER_GRACE:?}", self.server),
        }
    }
}

impl Connection {
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// A request with the credentials.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.server.request(&self.client, method, path);
        request = request.headers(self.headers.clone());
        if let Some((user, password)) = &self.basic {
            request = request.basic_auth(user, Some(password));
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request
    }

    /// Posts parameters as a form, because long queries do not fit into a URL.
    pub(crate) async fn post(
        &self,
        path: &str,
        params: &[(&'static str, String)],
    ) -> anyhow::Result<Body> {
        self.server.exchange(self.form(path, params)).await
    }

    /// The same, for an answer that is read as it comes.
    pub(crate) async fn post_streamed(
        &self,
        path: &str,
        params: &[(&'static str, String)],
    ) -> anyhow::Result<Response> {
        self.server.send(self.form(path, params)).await
    }

    /// Sends a request and waits for the whole answer.
    pub(crate) async fn exchange(&self, request: RequestBuilder) -> anyhow::Result<Body> {
        self.server.exchange(request).await
    }

    fn form(&self, path: &str, params: &[(&'static str, String)]) -> RequestBuilder {
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(params)
            .finish();
        self.request(Method::POST, path)
            .header(
                reqwest::header::CONTENT_TYPE,
                "application/x-www-form-urlencoded",
            )
            .body(form)
    }
}

fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
