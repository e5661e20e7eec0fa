//! One target: where it is, which labels its series get, and how it fares.
//!
//! ```text
//! discovered labels + those of the job ─► relabel ─► dropped
//!                                                 └► labels; those without __ go to series
//!     URL: __scheme__ :// __address__ __metrics_path__ ? __param_…
//! ```
//!
//! Holds always: two targets of a job with the same labels and URL are one target, and its hash,
//! which decides when it is scraped, is the same in every process.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Url;
use xxhash_rust::xxh3::Xxh3;

use super::config::{
    ADDRESS, PARAMETER_PREFIX, Scheme, ScrapeConfig, TargetGroup, shown_address, shown_value,
};
use super::relabel::{self, LabelSet};
use super::series::TargetSeries;
use icecore_settings::{SECRET_PLACEHOLDER, duration};

const SCHEME: &str = "__scheme__";
const METRICS_PATH: &str = "__metrics_path__";
const INTERVAL: &str = "__scrape_interval__";
const TIMEOUT: &str = "__scrape_timeout__";
const UNIX_SOCKET: &str = "__unix_socket__";
const CONVERT_CLASSIC: &str = "__convert_classic_histograms_to_nhcb__";
const ALWAYS_CLASSIC: &str = "__always_scrape_classic_histograms__";
const SCRAPE_NATIVE: &str = "__scrape_native_histograms__";
const META_PREFIX: &str = "__meta_";
const INTERNAL_PREFIX: &str = "__";
const JOB: &str = "job";
const INSTANCE: &str = "instance";

/// The placeholder of a secret in a query.
const ENCODED_PLACEHOLDER: &str = "%3Csecret%3E";

/// What discovery and relabelling made of one address.
#[derive(Debug)]
pub(super) enum RelabelOutcome {
    Target(Box<TargetSpec>),
    /// Dropped by relabelling; these are the labels before it.
    Dropped(LabelSet),
}

/// Everything that makes a target this target.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TargetSpec {
    /// Before relabelling.
    pub(super) discovered: LabelSet,
    /// After it, without `__meta_…`.
    labels: LabelSet,
    pub(super) url: TargetUrl,
    /// The socket that is connected to, whatever host the URL names.
    pub(super) unix_socket: Option<Arc<Path>>,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    pub(super) histograms: HistogramOverrides,
}

/// The handling of histograms, where labels of a target say something else than its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HistogramOverrides {
    pub(super) convert_classic: Option<bool>,
    pub(super) always_classic: Option<bool>,
    pub(super) scrape_native: Option<bool>,
}

/// A URL as Prometheus writes it, which keeps a default port that was given.
#[derive(Clone, PartialEq)]
pub(super) struct TargetUrl {
    /// With its secrets: for no message.
    text: String,
    /// Without them.
    pub(super) shown: String,
    pub(super) parsed: Url,
}

impl fmt::Debug for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown, f)
    }
}

impl TargetSpec {
    /// What its series get.
    pub(super) fn public_labels(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let public = |(name, _): &(&str, &str)| !name.starts_with(INTERNAL_PREFIX);
        self.labels.iter().filter(public)
    }

    pub(super) fn hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        for (name, value) in self.labels.iter() {
            for part in [name, value] {
                hash.update(part.as_bytes());
                hash.update(&[0xff]);
            }
        }
        hash.update(self.url.text.as_bytes());
        hash.digest()
    }
}

/// The targets of a group, or what is wrong with one of them.
pub(super) fn targets_of(
    config: &ScrapeConfig,
    group: &TargetGroup,
) -> impl Iterator<Item = Result<RelabelOutcome, String>> {
    group.targets.iter().enumerate().map(|(i, address)| {
        let discovered = discovered_labels(config, group, address);
        found(config, discovered)
            .map_err(|reason| format!("instance {i} in group {}: {reason}", group.source))
    })
}

fn discovered_labels(config: &ScrapeConfig, group: &TargetGroup, address: &str) -> LabelSet {
    let mut labels = LabelSet::new();
    labels.set(ADDRESS, address);
    for (name, value) in &group.labels {
        set_if_absent(&mut labels, name, value);
    }
    let scheme = match config.scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let flag = |of_job: bool| if of_job { "true" } else { "false" };
    for (name, value) in [
        (JOB, config.job_name.as_str()),
        (INTERVAL, &duration::show(&config.scrape_interval)),
        (TIMEOUT, &duration::show(&config.scrape_timeout)),
        (METRICS_PATH, &config.metrics_path),
        (SCHEME, scheme),
        (
            CONVERT_CLASSIC,
            flag(config.convert_classic_histograms_to_nhcb),
        ),
        (
            ALWAYS_CLASSIC,
            flag(config.always_scrape_classic_histograms),
        ),
        (SCRAPE_NATIVE, flag(config.scrape_native_histograms)),
    ] {
        set_if_absent(&mut labels, name, value);
    }
    for (name, values) in &config.params {
        if let Some(first) = values.first() {
            set_if_absent(&mut labels, &format!("{PARAMETER_PREFIX}{name}"), first);
        }
    }
    labels
}

fn set_if_absent(labels: &mut LabelSet, name: &str, value: &str) {
    if labels.get(name).is_empty() {
        labels.set(name, value);
    }
}

/// Words of errors are Prometheus'.
fn found(config: &ScrapeConfig, discovered: LabelSet) -> Result<RelabelOutcome, String> {
    let mut labels = discovered.clone();
    if !relabel::apply(&config.relabel, &mut labels) {
        return Ok(RelabelOutcome::Dropped(discovered));
    }
    let address = labels.get(ADDRESS).to_owned();
    if address.is_empty() {
        return Err("no address".into());
    }
    if address.contains('/') {
        let address = shown_address(&address);
        return Err(format!("{address:?} is not a valid hostname"));
    }
    let interval = positive_duration(&labels, INTERVAL, "interval")?;
    let timeout = positive_duration(&labels, TIMEOUT, "timeout")?;
    if timeout > interval {
        let (timeout, interval) = (labels.get(TIMEOUT), labels.get(INTERVAL));
        return Err(format!(
            "scrape timeout cannot be greater than scrape interval ({timeout:?} > {interval:?})"
        ));
    }
    let histograms = HistogramOverrides {
        convert_classic: override_of(
            &mut labels,
            (CONVERT_CLASSIC, "convert classic histograms to nhcb"),
            config.convert_classic_histograms_to_nhcb,
        )?,
        always_classic: override_of(
            &mut labels,
            (ALWAYS_CLASSIC, "always scrape classic histograms"),
            config.always_scrape_classic_histograms,
        )?,
        scrape_native: override_of(
            &mut labels,
            (SCRAPE_NATIVE, "scrape native histograms"),
            config.scrape_native_histograms,
        )?,
    };
    let socket = Some(labels.get(UNIX_SOCKET)).filter(|path| !path.is_empty());
    let unix_socket = socket.map(|path| Path::new(path).into());
    let url = url_of(config, &labels)?;
    labels.retain(|name, _| !name.starts_with(META_PREFIX));
    // It is stored with every series: credentials are no part of it.
    let host = address.rsplit_once('@').map(|(_, host)| host);
    set_if_absent(&mut labels, INSTANCE, host.unwrap_or(&address));
    Ok(RelabelOutcome::Target(Box::new(TargetSpec {
        discovered,
        labels,
        url,
        unix_socket,
        interval,
        timeout,
        histograms,
    })))
}

/// Reads a flag of a target. One that says what its job says is taken off: it makes no other target
/// of it, and follows the job.
fn override_of(
    labels: &mut LabelSet,
    (name, what): (&str, &str),
    of_job: bool,
) -> Result<Option<bool>, String> {
    let text = labels.get(name);
    // The words of Go.
    let value = match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        "" => None,
        _ => {
            return Err(format!(
                "error parsing {what}: strconv.ParseBool: parsing {text:?}: invalid syntax"
            ));
        }
    };
    let value = value.filter(|value| *value != of_job);
    let kept = match value {
        Some(true) => "true",
        Some(false) => "false",
        None => "",
    };
    labels.set(name, kept);
    Ok(value)
}

fn positive_duration(labels: &LabelSet, name: &str, what: &str) -> Result<Duration, String> {
    let text = labels.get(name);
    let parsed = duration::parse(text).map_err(|_| {
        format!("error parsing scrape {what}: not a valid duration string: {text:?}")
    })?;
    if parsed.is_zero() {
        return Err(format!("scrape {what} cannot be 0"));
    }
    Ok(parsed)
}

fn url_of(config: &ScrapeConfig, labels: &LabelSet) -> Result<TargetUrl, String> {
    // Of each parameter the first value may have been changed by relabelling, and new ones may have
    // come.
    let mut params: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, values) in &config.params {
        params.insert(name, values.iter().map(String::as_str).collect());
    }
    for (name, value) in labels.iter() {
        let Some(name) = name.strip_prefix(PARAMETER_PREFIX) else {
            continue;
        };
        let values = params.entry(name).or_default();
        match values.first_mut() {
            Some(first) => *first = value,
            None => values.push(value),
        }
    }
    let url_text = |address: &str, query: &str| {
        let mut text = format!("{}://{address}", labels.get(SCHEME));
        push_path(&mut text, labels.get(METRICS_PATH));
        if !query.is_empty() {
            let _ = write!(text, "?{query}");
        }
        text
    };
    let address = labels.get(ADDRESS);
    let text = url_text(address, &query_of(&params, |_, value| Cow::Borrowed(value)));
    // What is escaped cannot be told apart: secrets are taken out before.
    let query = query_of(&params, shown_value).replace(ENCODED_PLACEHOLDER, SECRET_PLACEHOLDER);
    let shown = url_text(&shown_address(address), &query);
    let parsed = Url::parse(&text).map_err(|error| format!("{shown:?} is not a URL: {error}"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(format!("unsupported protocol scheme {:?}", parsed.scheme()));
    }
    Ok(TargetUrl {
        text,
        shown,
        parsed,
    })
}

/// The parameters as the query of a URL.
fn query_of(
    params: &BTreeMap<&str, Vec<&str>>,
    value_of: impl for<'v> Fn(&str, &'v str) -> Cow<'v, str>,
) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, values) in params {
        for value in values {
            query.append_pair(name, &value_of(name, value));
        }
    }
    query.finish()
}

/// What is not usual in a path is escaped: a `?` in it does not begin the parameters.
fn push_path(text: &mut String, path: &str) {
    if !path.starts_with('/') && !path.is_empty() {
        text.push('/');
    }
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => text.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'='
            | b'@' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
}

/// A target that is being scraped.
pub(super) struct Target {
    pub(super) spec: TargetSpec,
    /// Labels before relabelling; of those that do not count for what it is, the newest.
    pub(super) discovered: Mutex<LabelSet>,
    pub(super) hash: u64,
    pub(super) health: Mutex<Health>,
    /// Passed on to the target that replaces this one, if its series have the same labels.
    pub(super) series: Arc<Mutex<TargetSeries>>,
}

/// How the last scrape went.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    /// When it began; `None` before the first one.
    pub(super) scraped_ms: Option<i64>,
    pub(super) seconds: f64,
    /// Whether there was nothing that could be stored.
    pub(super) is_down: bool,
    /// Why, or what else was not stored; `None` when everything is.
    pub(super) error: Option<String>,
}

impl Health {
    pub(super) fn name(&self) -> &'static str {
        match (self.scraped_ms, self.is_down) {
            (None, _) => "unknown",
            (Some(_), false) => "up",
            (Some(_), true) => "down",
        }
    }
}

#[cfg(test)]
mod tests;
