//! A small HTTP client: one request, one connection, the whole answer.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::WrongUsage;

/// A server that takes longer to be reached is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How much longer than the query an answer may take to arrive.
const ANSWER_GRACE: Duration = Duration::from_secs(10);

/// Where a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// Host and port.
    pub(crate) authority: String,
    /// Path before that of the API, without a slash at its end.
    pub(crate) prefix: String,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.prefix)
    }
}

/// An answer before anything about it is understood.
pub(crate) struct Body {
    pub(crate) status: StatusCode,
    pub(crate) bytes: Bytes,
}

impl Server {
    /// Posts parameters as a form, because long queries do not fit into a URL.
    pub(crate) async fn post(
        &self,
        path: &str,
        params: &[(&'static str, String)],
        headers: &[String],
        timeout_ms: Option<i64>,
    ) -> anyhow::Result<Body> {
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(params)
            .finish();
        let request = Request::post(format!("{}{path}", self.prefix))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let exchange = self.exchange(self.complete(request, headers, form)?);
        let Some(timeout_ms) = timeout_ms else {
            return exchange.await;
        };
        let longest = Duration::from_millis(timeout_ms.unsigned_abs()).saturating_add(ANSWER_GRACE);
        match tokio::time::timeout(longest, exchange).await {
            Ok(answer) => answer,
            Err(_) => bail!("{self} has not answered within --timeout and {ANSWER_GRACE:?}"),
        }
    }

    /// Gets what needs no parameters and is there at once.
    pub(crate) async fn get(&self, path: &str, headers: &[String]) -> anyhow::Result<Body> {
        let request = Request::get(format!("{}{path}", self.prefix));
        self.at_once(request, headers).await
    }

    /// Deletes what a path names, which is done at once.
    pub(crate) async fn delete(&self, path: &str, headers: &[String]) -> anyhow::Result<Body> {
        let request = Request::delete(format!("{}{path}", self.prefix));
        self.at_once(request, headers).await
    }

    async fn at_once(
        &self,
        request: hyper::http::request::Builder,
        headers: &[String],
    ) -> anyhow::Result<Body> {
        let request = self.complete(request, headers, String::new())?;
        match tokio::time::timeout(ANSWER_GRACE, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => bail!("{self} has not answered within {ANSWER_GRACE:?}"),
        }
    }

    /// Adds what every request has.
    fn complete(
        &self,
        request: hyper::http::request::Builder,
        headers: &[String],
        body: String,
    ) -> Result<Request<Full<Bytes>>, WrongUsage> {
        let mut request = request.header(header::HOST, &self.authority);
        for given in headers {
            let Some((name, value)) = given.split_once(':') else {
                return Err(WrongUsage(format!(
                    "--header {given:?}: expected \"Name: value\""
                )));
            };
            request = request.header(name.trim(), value.trim());
        }
        request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| WrongUsage(format!("--header or --server: {error}")))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> anyhow::Result<Body> {
        let connect = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.authority));
        let unreachable = || {
            format!(
                "cannot connect to {self}: does a server run there? (--server names another one)"
            )
        };
        let stream = connect
            .await
            .with_context(unreachable)?
            .with_context(unreachable)?;
        let broken = || format!("the connection to {self} broke");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .with_context(broken)?;
        // The connection works while it is polled; it ends with the answer.
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await.with_context(broken)?;
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body.with_context(|| format!("the answer of {self} broke off"))?;
        connection.abort();
        Ok(Body {
            status,
            bytes: body.to_bytes(),
        })
    }
}

/// A word as a part of a path.
pub(crate) fn path_segment(word: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    word.bytes().map(escaped).collect()
}

/// `http://host:port/prefix`.
pub(super) fn parse_server_url(text: &str) -> Result<Server, String> {
    let Some(rest) = text.strip_prefix("http://") else {
        return Err(match text.contains("://") {
            true => "only http:// is spoken here; for TLS use a tunnel or a proxy".into(),
            false => format!("expected http://{text}"),
        });
    };
    let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.is_empty() || authority.contains(['@', '?', '#', ' ']) {
        return Err("expected a host and a port, as in http://127.0.0.1:9090".into());
    }
    // A colon within brackets belongs to the address.
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    let authority = match has_port {
        true => authority.to_owned(),
        false => format!("{authority}:80"),
    };
    Ok(Server {
        authority,
        prefix: prefix.trim_end_matches('/').to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let server = |text| parse_server_url(text).map(|server| server.to_string());
        assert_eq!(server("http://a:9090"), Ok("http://a:9090".into()));
        assert_eq!(server("http://a"), Ok("http://a:80".into()));
        assert_eq!(server("http://[::1]:90/p/"), Ok("http://[::1]:90/p".into()));
        assert!(server("https://a").unwrap_err().contains("TLS"));
        assert!(server("a:9090").unwrap_err().contains("http://a:9090"));
        assert!(server("http://").is_err() && server("http://u@a").is_err());
        assert_eq!(path_segment("a.b/c ü"), "a.b%2Fc%20%C3%BC");
    }
}
