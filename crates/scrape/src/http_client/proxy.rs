//! Selection of the proxy for a request.
//!
//! As in Go, which Prometheus leaves this to: where exceptions can be given (`no_proxy`, the
//! environment), addresses of this machine are never proxied.

use std::net::IpAddr;

use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Proxy, Url};

use super::{secret_value, text_of};
use crate::config::ProxyConfig;

pub(super) fn of(
    config: &ProxyConfig,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, String> {
    let variable = |upper: &str, lower: &str| {
        let found = environment(upper).filter(|value| !value.is_empty());
        found.or_else(|| environment(lower).filter(|value| !value.is_empty()))
    };
    let (http, https, exceptions) = if config.from_environment {
        let exceptions = variable("NO_PROXY", "no_proxy").unwrap_or_default();
        let http = variable("HTTP_PROXY", "http_proxy");
        let https = variable("HTTPS_PROXY", "https_proxy");
        (http, https, Some(exceptions))
    } else {
        let url = config.url.clone();
        (url.clone(), url, config.no_proxy.clone())
    };
    let (http, https) = (parse(http)?, parse(https)?);
    if http.is_none() && https.is_none() {
        return Ok(None);
    }
    let exceptions = exceptions.as_deref().map(NoProxyList::new);
    let proxy = Proxy::custom(move |url| {
        if exceptions
            .as_ref()
            .is_some_and(|exceptions| exceptions.hold(url))
        {
            return None;
        }
        match url.scheme() {
            "https" => https.clone(),
            _ => http.clone(),
        }
    });
    Ok(Some(proxy.headers(headers(config)?)))
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

/// What `no_proxy` lists.
struct NoProxyList(Vec<NoProxyRule>);

enum NoProxyRule {
    Everything,
    Addresses {
        network: IpAddr,
        bits: u32,
        port: Option<u16>,
    },
    /// `suffix` begins with a dot.
    Names {
        suffix: String,
        itself: bool,
        port: Option<u16>,
    },
}

impl NoProxyList {
    fn new(list: &str) -> Self {
        let entries = list
            .split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty());
        Self(entries.map(NoProxyRule::new).collect())
    }

    fn hold(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else {
            return false;
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address: Option<IpAddr> = host.parse().ok();
        let is_this_machine =
            host == "localhost" || address.is_some_and(|address| address.is_loopback());
        let port = url.port_or_known_default();
        is_this_machine || self.0.iter().any(|one| one.holds(host, address, port))
    }
}

impl NoProxyRule {
    fn new(entry: &str) -> Self {
        if entry == "*" {
            return Self::Everything;
        }
        let entry = entry.to_ascii_lowercase();
        if let Some((network, bits)) = entry.split_once('/')
            && let (Ok(network), Ok(bits)) = (network.parse(), bits.parse())
        {
            return Self::Addresses {
                network,
                bits,
                port: None,
            };
        }
        let (host, port) = match entry.rsplit_once(':') {
            // More than one colon without brackets is an address of version 6.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().ok())
            }
            _ => (entry.as_str(), None),
        };
        let address = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(network) = address.parse::<IpAddr>() {
            let bits = if network.is_ipv4() { 32 } else { 128 };
            return Self::Addresses {
                network,
                bits,
                port,
            };
        }
        let host = host.strip_prefix('*').unwrap_or(host);
        let itself = !host.starts_with('.');
        let suffix = format!(".{}", host.trim_start_matches('.'));
        Self::Names {
            suffix,
            itself,
            port,
        }
    }

    fn holds(&self, host: &str, address: Option<IpAddr>, port: Option<u16>) -> bool {
        let of_port = |wanted: &Option<u16>| wanted.is_none() || *wanted == port;
        match self {
            Self::Everything => true,
            Self::Addresses {
                network,
                bits,
                port,
            } => of_port(port) && address.is_some_and(|address| contains(*network, *bits, address)),
            Self::Names {
                suffix,
                itself,
                port,
            } => {
                let is_itself = *itself && suffix.strip_prefix('.') == Some(host);
                of_port(port) && (is_itself || host.ends_with(suffix.as_str()))
            }
        }
    }
}

fn contains(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    let differing = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => (network.to_bits() ^ address.to_bits())
            .checked_shr(32_u32.saturating_sub(bits))
            .map(u128::from),
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (network.to_bits() ^ address.to_bits()).checked_shr(128_u32.saturating_sub(bits))
        }
        _ => return false,
    };
    // Shifting everything out leaves no bits to differ in.
    differing.unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_those_of_go() {
        for (list, url, held) in [
            ("", "http://a.test", false),
            ("", "http://localhost:9090", true),
            ("", "http://127.0.0.9", true),
            ("", "http://[::1]", true),
            ("*", "http://a.test", true),
            ("a.test", "http://a.test", true),
            ("a.test", "http://b.a.test", true),
            ("a.test", "http://ba.test", false),
            (" x , A.test ", "http://a.test", true),
            (".a.test", "http://a.test", false),
            (".a.test", "http://b.a.test", true),
            ("*.a.test", "http://b.a.test", true),
            ("*.a.test", "http://a.test", false),
            ("a.test:81", "http://a.test:81", true),
            ("a.test:81", "http://a.test", false),
            ("a.test:443", "https://a.test", true),
            ("10.0.0.0/8", "http://10.1.2.3", true),
            ("10.0.0.0/8", "http://11.1.2.3", false),
            ("0.0.0.0/0", "http://11.1.2.3", true),
            ("10.1.2.3", "http://10.1.2.3:9", true),
            ("10.1.2.3:8", "http://10.1.2.3:9", false),
            ("2001:db8::/32", "http://[2001:db8::5]", true),
            ("2001:db8::5", "http://[2001:db8::5]", true),
            ("[2001:db8::5]:9", "http://[2001:db8::5]:9", true),
            ("::/0", "http://10.0.0.1", false),
            ("10.0.0.0/99", "http://10.0.0.1", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(NoProxyList::new(list).hold(&url), held, "{list} {url}");
        }
    }
}
