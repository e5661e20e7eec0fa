//! Requests that a browser sends for a page of somebody else: which of them are refused.
//!
//! Any page can make a browser send a request to any address that the browser reaches, with the
//! credentials that it adds by itself. The page of another site is told by `Origin` and
//! `Sec-Fetch-Site`. A page whose own name is made to lead here (DNS rebinding) is told by `Host`.
//! Browsers send neither of the first two with the GET of an image or a link over plain HTTP to
//! another machine: then `User-Agent` tells that it is a browser, which is too little to let a GET
//! change something.
//!
//! | a request that | `Origin`, `Sec-Fetch-Site` | `Host`, without access control |
//! | --- | --- | --- |
//! | asks if the process lives or for its own metrics, or has no route | – | – |
//! | reads | – | checked |
//! | stores what clients send | checked | checked where a browser sends it |
//! | changes something else | checked | checked |
//!
//! Holds always:
//! - [`refusal_of`] is pure: the head of a request and the settings decide.
//! - Headers that a proxy adds are not believed: there is no setting that names a proxy.
//!
//! Elsewhere: which routes do what (`routes`, [`Effect`]), headers for pages that may read answers
//! (`origins`).

use std::fmt;
use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Uri, header};

use crate::config::OriginPattern;

/// The effect of a request on what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Reads what any load balancer and any other Prometheus may know, or has no route.
    Probe,
    Read,
    /// Stores what clients send: samples, events, OpenTSDB's annotations and names. Senders drop
    /// data that is refused, and none of them is a browser unless `server.cors_origin` says so.
    Ingest,
    Change,
}

/// The site that a request is sent to, and the one that it comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    host: Host<'a>,
    origin: Option<&'a str>,
    fetch_site: Option<&'a str>,
    is_https: bool,
    /// Set for a GET of a browser that does not say which page it is from.
    is_unnamed: bool,
}

/// The host that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host<'a> {
    /// HTTP/1.0 alone allows it; no browser leaves it out.
    Missing,
    Given(&'a str),
    /// More than one, or text that is no host.
    Unreadable,
}

/// The settings that decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trust<'a> {
    /// Set if every request needs a credential. Then a name that leads here gains nothing: a
    /// browser has no credential for it.
    pub(crate) is_restricted: bool,
    /// The name of this machine.
    pub(crate) machine: &'a str,
    /// `server.hosts`
    pub(crate) hosts: &'a [String],
    /// `server.cors_origin`, if it was set.
    pub(crate) origins: Option<&'a OriginPattern>,
    /// `tsd.http.request.cors_domains`, for requests of OpenTSDB.
    pub(crate) domains: &'a [String],
}

/// A mark on requests that a page of another site may have sent, for handlers whose bodies can ask
/// for a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForeignPage;

impl Trust<'_> {
    /// Returns `true` if settings allow pages of this origin to change something. OpenTSDB's `*`
    /// lets all pages read, and is in files that were written for a server behind a firewall.
    fn allows_pages_of(&self, origin: &str) -> bool {
        let fits = |domain: &String| domain.eq_ignore_ascii_case(origin);
        self.origins.is_some_and(|allowed| allowed.allows(origin)) || self.domains.iter().any(fits)
    }
}

/// The reason for which a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CrossSite {
    Host(String),
    Origin(String),
    /// Without an origin, as images and links are asked for.
    Page,
    /// Of a browser that says nothing about the page.
    Unnamed,
}

impl fmt::Display for CrossSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(
                f,
                "requests for the host {host:?} are refused while there is no access control: a \
                 page on the internet can give a name to this server. server.hosts lists names \
                 that are right, --web.config.file turns on access control"
            ),
            Self::Origin(origin) => write!(
                f,
                "a page of {origin} may not change anything here: server.hosts lists the names of \
                 this server, server.cors_origin allows pages of others"
            ),
            Self::Page => f.write_str(
                "a page of another site may not change anything here: server.cors_origin allows \
                 those that send an Origin",
            ),
            Self::Unnamed => f.write_str(
                "a GET that changes something is refused where User-Agent is that of a browser and \
                 nothing says which page it is from; POST and DELETE are answered: \
                 server.cors_origin and server.hosts allow pages to send them",
            ),
        }
    }
}

impl<'a> Site<'a> {
    /// The site of a request; `is_https` if this server speaks TLS.
    pub(crate) fn of(
        method: &Method,
        uri: &'a Uri,
        headers: &'a HeaderMap,
        is_https: bool,
    ) -> Self {
        let text = |name: &str| {
            let value = headers.get(name)?.to_str().unwrap_or("unreadable");
            Some(value).filter(|value| !value.is_empty())
        };
        let origin = text(header::ORIGIN.as_str());
        let fetch_site = text("sec-fetch-site");
        // A page cannot change it unless the browser sends an Origin as well, or the page is of the
        // host that it asks, which `Host` tells. Programs that begin so can use POST.
        let agent = text(header::USER_AGENT.as_str());
        let is_browser = agent.is_some_and(|agent| agent.starts_with("Mozilla/"));
        let is_safe = [Method::GET, Method::HEAD].contains(method);
        Self {
            host: Host::of(uri, headers),
            origin,
            fetch_site,
            is_https,
            is_unnamed: is_safe && is_browser && origin.is_none() && fetch_site.is_none(),
        }
    }

    /// Returns `true` if the request says which page it is from, as browsers do.
    fn is_from_browser(&self) -> bool {
        self.origin.is_some() || self.fetch_site.is_some()
    }

    /// Returns `true` if the origin is this server under the name that the request has for it.
    fn is_same_origin(&self, scheme: &str, origin: &Authority) -> bool {
        let Host::Given(host) = self.host else {
            return false;
        };
        // Behind a proxy that speaks TLS, pages have https and requests http.
        if self.is_https && scheme != HTTPS {
            return false;
        }
        let default_port = if scheme == HTTPS { 443 } else { 80 };
        let port = |authority: &Authority| authority.port_u16().unwrap_or(default_port);
        host.parse::<Authority>().is_ok_and(|host| {
            host.host().eq_ignore_ascii_case(origin.host()) && port(&host) == port(origin)
        })
    }

    /// Returns `true` if a page of another site may have sent the request.
    pub(crate) fn is_foreign(&self, trust: &Trust<'_>) -> bool {
        let Some(origin) = self.origin else {
            let fetch_site = self.fetch_site;
            return fetch_site.is_some_and(|site| !["same-origin", "none"].contains(&site));
        };
        if trust.allows_pages_of(origin) {
            return false;
        }
        let Some((scheme, authority)) = parse_origin(origin) else {
            return true;
        };
        // A host on the way of plain HTTP can make pages of any name.
        let is_plain = self.is_https && scheme != HTTPS;
        if is_listed(authority.host(), trust.hosts) && !is_plain {
            return false;
        }
        self.fetch_site == Some("cross-site") || !self.is_same_origin(scheme, &authority)
    }
}

impl<'a> Host<'a> {
    /// The host of the address counts more than the header: RFC 9112, section 3.2.2.
    fn of(uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        if let Some(authority) = uri.authority() {
            return Self::Given(authority.as_str());
        }
        let mut given = headers.get_all(header::HOST).iter();
        match (given.next(), given.next()) {
            (None, _) => Self::Missing,
            (Some(host), None) => host.to_str().map_or(Self::Unreadable, Self::Given),
            (Some(_), Some(_)) => Self::Unreadable,
        }
    }

    /// Returns the name without its port, if it is one.
    fn name(self) -> Option<String> {
        let Self::Given(host) = self else {
            return None;
        };
        let host = host.parse::<Authority>().ok()?;
        Some(without_dot(host.host()).to_ascii_lowercase())
    }

    /// Returns `true` if the name is one that no page on the internet can have.
    fn is_own(self, trust: &Trust<'_>) -> bool {
        if self == Self::Missing {
            return true;
        }
        let Some(name) = self.name() else {
            return false;
        };
        let address = name.trim_start_matches('[').trim_end_matches(']');
        let is_local = |suffix: &&str| name.ends_with(*suffix);
        address.parse::<IpAddr>().is_ok()
            || !name.contains('.')
            || name.eq_ignore_ascii_case(trust.machine)
            || LOCAL_SUFFIXES.iter().any(is_local)
            || is_listed(&name, trust.hosts)
    }

    fn shown(self) -> String {
        const CHARS_MAX: usize = 100;
        match self {
            Self::Given(host) => host.chars().take(CHARS_MAX).collect(),
            Self::Missing | Self::Unreadable => String::new(),
        }
    }
}

const HTTPS: &str = "https";

/// Endings of names in local networks and in clusters: no registry sells one. `.internal` is
/// reserved for private use, `.svc` is short for the last of them.
const LOCAL_SUFFIXES: [&str; 4] = [".local", ".internal", ".svc", ".svc.cluster.local"];

/// Scheme and authority of an origin; `None` for `null` and for pages that are on no server.
fn parse_origin(origin: &str) -> Option<(&str, Authority)> {
    let (scheme, authority) = origin.split_once("://")?;
    let authority: Authority = authority.parse().ok()?;
    ["http", HTTPS]
        .contains(&scheme)
        .then_some((scheme, authority))
}

fn is_listed(name: &str, hosts: &[String]) -> bool {
    let name = without_dot(name);
    let is_same = |host: &String| without_dot(host).eq_ignore_ascii_case(name);
    hosts.iter().any(is_same)
}

/// Returns a name without the dot at the end of a full one, which means nothing where names are
/// compared.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// Returns the reason to refuse a request, if there is one.
pub(crate) fn refusal_of(effect: Effect, site: &Site<'_>, trust: &Trust<'_>) -> Option<CrossSite> {
    let checks_host = match effect {
        Effect::Probe => false,
        Effect::Ingest => site.is_from_browser(),
        Effect::Read | Effect::Change => true,
    };
    if checks_host && !trust.is_restricted && !site.host.is_own(trust) {
        return Some(CrossSite::Host(site.host.shown()));
    }
    let checks_origin = matches!(effect, Effect::Ingest | Effect::Change);
    if checks_origin && site.is_unnamed {
        return Some(CrossSite::Unnamed);
    }
    if !checks_origin || !site.is_foreign(trust) {
        return None;
    }
    Some(match site.origin {
        Some(origin) => CrossSite::Origin(Host::Given(origin).shown()),
        None => CrossSite::Page,
    })
}

#[cfg(test)]
mod tests;
