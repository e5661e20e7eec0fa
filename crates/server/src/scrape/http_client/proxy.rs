//! Through which proxy a request goes, if any.
//!
//! As in Go, which Prometheus leaves this to: where exceptions can be given (`no_proxy`, the environment), addresses
//! of this very machine are never proxied.

use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{NoProxy, Proxy, Url};

use super::{secret_value, text_of};
use crate::scrape::config::ProxyConfig;

pub(super) fn of(
    config: &ProxyConfig,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, String> {
    let variable = |upper: &str, lower: &str| {
        let found = environment(upper).filter(|value| !value.is_empty());
        found.or_else(|| environment(lower).filter(|value| !value.is_empty()))
    };
    let (http, https, exceptions) = if config.from_environment {
        (
            variable("HTTP_PROXY", "http_proxy"),
            variable("HTTPS_PROXY", "https_proxy"),
            variable("NO_PROXY", "no_proxy"),
        )
    } else {
        (
            config.url.clone(),
            config.url.clone(),
            config.no_proxy.clone(),
        )
    };
    let (http, https) = (parse(http)?, parse(https)?);
    if http.is_none() && https.is_none() {
        return Ok(None);
    }
    let spares_this_machine = config.from_environment || config.no_proxy.is_some();
    let proxy = Proxy::custom(move |url| {
        if spares_this_machine && is_this_machine(url) {
            return None;
        }
        match url.scheme() {
            "https" => https.clone(),
            _ => http.clone(),
        }
    });
    let exceptions = exceptions.as_deref().and_then(NoProxy::from_string);
    Ok(Some(proxy.no_proxy(exceptions).headers(headers(config)?)))
}

/// In the environment, the scheme of a proxy may be missing.
fn parse(text: Option<String>) -> Result<Option<Url>, String> {
    let Some(text) = text else {
        return Ok(None);
    };
    let text = if text.contains("://") {
        text
    } else {
        format!("http://{text}")
    };
    // The URL may hold a password.
    let url = Url::parse(&text).map_err(|error| format!("the URL of the proxy: {error}"))?;
    Ok(Some(url))
}

fn is_this_machine(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<std::net::IpAddr> = address.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

fn headers(config: &ProxyConfig) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, values) in &config.connect_headers {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{name:?} is no name of a header"))?;
        for value in values {
            let value = secret_value(&text_of(value)?, name.as_str())?;
            headers.append(name.clone(), value);
        }
    }
    Ok(headers)
}
