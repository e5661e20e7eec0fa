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
pub(super) struct Server {
    /// Host and port.
    pub(super) authority: String,
    /// Path before that of the API, without a slash at its end.
    pub(super) prefix: String,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.prefix)
    }
}

/// An answer before anything about it is understood.
pub(super) struct Body {
    pub(super) status: StatusCode,
    pub(super) bytes: Bytes,
}

impl Server {
    /// Posts parameters as a form, because long queries do not fit into a URL.
    pub(super) async fn post(
        &self,
        path: &str,
        params: &[(&'static str, String)],
        headers: &[String],
        timeout_ms: Option<i64>,
    ) -> anyhow::Result<Body> {
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(params)
            .finish();
        let mut request = Request::post(format!("{}{path}", self.prefix))
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        for given in headers {
            let Some((name, value)) = given.split_once(':') else {
                bail!(WrongUsage(format!(
                    "--header {given:?}: expected \"Name: value\""
                )));
            };
            request = request.header(name.trim(), value.trim());
        }
        let request = request
            .body(Full::new(Bytes::from(form)))
            .map_err(|error| WrongUsage(format!("--header or --server: {error}")))?;
        let exchange = self.exchange(request);
        let Some(timeout_ms) = timeout_ms else {
            return exchange.await;
        };
        let longest = Duration::from_millis(timeout_ms.unsigned_abs()).saturating_add(ANSWER_GRACE);
        match tokio::time::timeout(longest, exchange).await {
            Ok(answer) => answer,
            Err(_) => bail!("{self} has not answered within --timeout and {ANSWER_GRACE:?}"),
        }
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
pub(super) fn path_segment(word: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    word.bytes().map(escaped).collect()
}

/// What the server says about a query, with the query and a mark under the place it names.
pub(super) fn point_at(error: anyhow::Error, query: &str) -> anyhow::Error {
    let Some(WrongUsage(message)) = error.downcast_ref() else {
        return error;
    };
    let Some((line, column)) = place_in(message) else {
        return error;
    };
    let Some(text) = query.lines().nth(line - 1) else {
        return error;
    };
    let indent = " ".repeat(column - 1);
    WrongUsage(format!("{message}\n  {text}\n  {indent}^")).into()
}

/// Line and column of `…: 1:7: parse error: …`, both from 1.
fn place_in(message: &str) -> Option<(usize, usize)> {
    let (before, _) = message.split_once(": parse error")?;
    let place = before.rsplit(' ').next()?;
    let (line, column) = place.split_once(':')?;
    let (line, column) = (line.parse().ok()?, column.parse().ok()?);
    (line > 0 && column > 0 && column < 10_000).then_some((line, column))
}
