//! Requests to one server, over HTTP or HTTPS.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use reqwest::{Method, RequestBuilder, Response, StatusCode};

/// A server that takes longer to be reached is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How much longer than the query an answer may take to arrive.
pub(super) const ANSWER_GRACE: Duration = Duration::from_secs(10);

/// Where a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) tls: bool,
    /// Host and port.
    pub(crate) authority: String,
    /// Path before that of the API, without a slash at its end.
    pub(crate) prefix: String,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.prefix)
    }
}

/// An answer before anything about it is understood.
pub(crate) struct Body {
    pub(crate) status: StatusCode,
    pub(crate) bytes: Bytes,
}

/// How to trust the server.
#[derive(Default)]
pub(super) struct TlsTrust {
    /// Certificates in PEM, in place of the system's.
    pub(super) authorities: Option<Vec<u8>>,
    /// Nothing is checked.
    pub(super) insecure: bool,
}

/// A client for this server.
pub(super) fn client(trust: TlsTrust) -> anyhow::Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("icecore/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy();
    if let Some(pem) = trust.authorities {
        let certificates = reqwest::Certificate::from_pem_bundle(&pem)
            .context("--ca-file: expected certificates in PEM")?;
        builder = builder.tls_certs_only(certificates);
    }
    if trust.insecure {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    Ok(builder.build()?)
}

impl Server {
    pub(super) fn request(
        &self,
        client: &reqwest::Client,
        method: Method,
        path: &str,
    ) -> RequestBuilder {
        client.request(method, format!("{self}{path}"))
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        request.send().await.map_err(|error| {
            let what = if error.is_connect() {
                format!("cannot connect to {self}; --server names another address")
            } else {
                format!("connection to {self} failed")
            };
            anyhow!(error.without_url()).context(what)
        })
    }

    /// The whole answer.
    pub(super) async fn exchange(&self, request: RequestBuilder) -> anyhow::Result<Body> {
        let response = self.send(request).await?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(reqwest::Error::without_url);
        let bytes = bytes.with_context(|| format!("response from {self} was cut off"))?;
        Ok(Body { status, bytes })
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

/// `http://host:port/prefix` or `https://…`.
pub(super) fn parse_server_url(text: &str) -> Result<Server, String> {
    let schemes = [("http://", false, 80), ("https://", true, 443)];
    let found = schemes
        .into_iter()
        .find_map(|(scheme, tls, port)| Some((text.strip_prefix(scheme)?, tls, port)));
    let Some((rest, tls, port)) = found else {
        return Err(if text.contains("://") {
            "only http:// and https:// are spoken here".into()
        } else {
            format!("expected http://{text}")
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
    let authority = if has_port {
        authority.to_owned()
    } else {
        format!("{authority}:{port}")
    };
    Ok(Server {
        tls,
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
        assert_eq!(server("https://a/x"), Ok("https://a:443/x".into()));
        assert_eq!(server("http://[::1]:90/p/"), Ok("http://[::1]:90/p".into()));
        assert!(server("ftp://a").unwrap_err().contains("https://"));
        assert!(server("a:9090").unwrap_err().contains("http://a:9090"));
        assert!(server("http://").is_err() && server("http://u@a").is_err());
        assert_eq!(path_segment("a.b/c ü"), "a.b%2Fc%20%C3%BC");
    }
}
