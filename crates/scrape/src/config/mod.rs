//! What is scraped, and how: the parts of a Prometheus configuration that are acted upon.
//!
//! Holds always: values are checked, defaults are filled in (those of `global` included), paths are
//! absolute (relative ones are taken from the directory of the file that names them).

mod client;
mod job;
mod load;
#[cfg(test)]
mod promtool_tests;
mod render;
mod rules;
mod shown;
mod targets;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod unused;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use icecore_model::AnchoredRegex;
pub(crate) use icecore_settings::Secret;
use icecore_settings::choice;

pub use load::read;
pub(crate) use render::job_text;
pub(crate) use shown::{ADDRESS, PARAMETER_PREFIX, shown_address, shown_label, shown_value};
pub(crate) use targets::read_groups;

/// Everything a Prometheus file says about scraping.
#[derive(Clone, Debug)]
pub struct ScrapeSettings {
    /// By `job_name`, which is unique.
    pub(crate) jobs: Vec<ScrapeConfig>,
    /// `global.external_labels`: shown by `/federate` and remote read; not added to stored series.
    pub external_labels: Vec<(String, String)>,
    /// The file as `/api/v1/status/config` shows it: defaults filled in, secrets masked.
    pub rendered: String,
    /// Jobs that are left out, and discoveries of others, because of what is not supported: one
    /// message for each part, with its place and what to use instead.
    pub unsupported: Vec<String>,
    /// The number of jobs that are left out.
    pub(crate) left_out_jobs: usize,
    global: Box<job::Global>,
    /// How many of the jobs stand in the file itself, and where further ones may be.
    own_jobs: usize,
    files: Vec<PathBuf>,
}

impl Default for ScrapeSettings {
    fn default() -> Self {
        let global = job::Global::default();
        Self {
            jobs: Vec::new(),
            external_labels: Vec::new(),
            rendered: render::file(&global, &[], &[]),
            unsupported: Vec::new(),
            left_out_jobs: 0,
            global: Box::new(global),
            own_jobs: 0,
            files: Vec::new(),
        }
    }
}

impl ScrapeSettings {
    /// Returns `true` if `global` allows no names that only UTF-8 has.
    pub fn has_legacy_names(&self) -> bool {
        self.global.job.metric_name_validation == NameValidation::Legacy
    }

    /// From now on all jobs store since when counters count, and ask for protobuf first where
    /// nothing else is said: it has these times at no cost.
    pub fn take_start_timestamps(&mut self) {
        let first = self.global.take_start_timestamps();
        for job in &mut self.jobs {
            job.start_timestamps = true;
            if job.protocols_by_default {
                job.protocols.clone_from(&first);
            }
        }
        let own = self.jobs.get(..self.own_jobs).unwrap_or_default();
        self.rendered = render::file(&self.global, own, &self.files);
    }
}

/// One of `scrape_configs`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScrapeConfig {
    pub(crate) job_name: String,
    pub(crate) scrape_interval: Duration,
    pub(crate) scrape_timeout: Duration,
    pub(crate) protocols: Vec<ScrapeProtocol>,
    /// Neither the job nor `global` says which.
    pub(super) protocols_by_default: bool,
    /// What a body without a usable `Content-Type` is taken for.
    pub(crate) fallback_protocol: Option<ScrapeProtocol>,
    pub(crate) metrics_path: String,
    pub(crate) scheme: Scheme,
    pub(crate) params: BTreeMap<String, Vec<String>>,
    pub(crate) honor_labels: bool,
    pub(crate) honor_timestamps: bool,
    /// Staleness markers also for series with their own timestamps.
    pub(crate) track_timestamps_staleness: bool,
    pub(crate) enable_compression: bool,
    /// Whether it is stored since when counters count; without, `_created` lines are series as any
    /// other.
    pub(crate) start_timestamps: bool,
    /// Whether native histograms are taken from protobuf; without, only their classic parts are.
    pub(crate) scrape_native_histograms: bool,
    /// Both of these: keep classic series beside native histograms, and make custom-bounds
    /// histograms of classic ones.
    pub(crate) always_scrape_classic_histograms: bool,
    pub(crate) convert_classic_histograms_to_nhcb: bool,
    pub(crate) native_histogram_bucket_limit: u64,
    pub(crate) native_histogram_min_bucket_factor: f64,
    pub(crate) metric_name_validation: NameValidation,
    pub(crate) metric_name_escaping: NameEscaping,
    /// `scrape_timeout_seconds`, `scrape_sample_limit` and `scrape_body_size_bytes` are stored as
    /// well.
    pub(crate) extra_scrape_metrics: bool,
    /// 0 means no limit, in all of these.
    pub(crate) body_size_limit: u64,
    pub(crate) sample_limit: u64,
    pub(crate) target_limit: u64,
    pub(crate) label_limit: u64,
    pub(crate) label_name_length_limit: u64,
    pub(crate) label_value_length_limit: u64,
    pub(crate) keep_dropped_targets: u64,
    pub(crate) http: HttpClientConfig,
    pub(crate) discovery: Vec<Discovery>,
    pub(crate) relabel: Vec<RelabelRule>,
    pub(crate) metric_relabel: Vec<RelabelRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

choice!(Scheme { "http" => Http, "https" => Https });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScrapeProtocol {
    PrometheusProto,
    OpenMetricsText0_0_1,
    OpenMetricsText1_0_0,
    OpenMetricsText2_0_0,
    PrometheusText0_0_4,
    PrometheusText1_0_0,
}

choice!(ScrapeProtocol {
    "PrometheusProto" => PrometheusProto,
    "OpenMetricsText0.0.1" => OpenMetricsText0_0_1,
    "OpenMetricsText1.0.0" => OpenMetricsText1_0_0,
    "OpenMetricsText2.0.0" => OpenMetricsText2_0_0,
    "PrometheusText0.0.4" => PrometheusText0_0_4,
    "PrometheusText1.0.0" => PrometheusText1_0_0,
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameValidation {
    Utf8,
    Legacy,
}

choice!(NameValidation { "utf8" => Utf8, "legacy" => Legacy });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameEscaping {
    AllowUtf8,
    Underscores,
    Dots,
    Values,
}

choice!(NameEscaping {
    "allow-utf-8" => AllowUtf8,
    "underscores" => Underscores,
    "dots" => Dots,
    "values" => Values,
});

/// How a client of ours speaks to targets and discovery servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpClientConfig {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) tls: TlsClientConfig,
    pub(crate) follow_redirects: bool,
    pub(crate) enable_http2: bool,
    pub(crate) proxy: ProxyConfig,
    /// `http_headers`.
    pub(crate) headers: Vec<HeaderConfig>,
}

impl Default for HttpClientConfig {
    fn default() -> Self {
        Self {
            credentials: None,
            tls: TlsClientConfig::default(),
            follow_redirects: true,
            enable_http2: true,
            proxy: ProxyConfig::default(),
            headers: Vec::new(),
        }
    }
}

/// A header with all its values: those that anyone may see come first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderConfig {
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
    pub(crate) secrets: Vec<Secret>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    Basic {
        username: Secret,
        password: Secret,
    },
    /// `Authorization: KIND CREDENTIALS`.
    Header {
        kind: String,
        credentials: Secret,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsClientConfig {
    pub(crate) ca: Option<Secret>,
    pub(crate) cert: Option<Secret>,
    pub(crate) key: Option<Secret>,
    pub(crate) server_name: Option<String>,
    pub(crate) insecure_skip_verify: bool,
    pub(crate) min_version: Option<TlsVersion>,
    pub(crate) max_version: Option<TlsVersion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TlsVersion {
    Tls12,
    Tls13,
}

choice!(TlsVersion { "TLS12" => Tls12, "TLS13" => Tls13 });

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProxyConfig {
    pub(crate) url: Option<String>,
    pub(crate) no_proxy: Option<String>,
    pub(crate) from_environment: bool,
    pub(crate) connect_headers: Vec<(String, Vec<Secret>)>,
}

/// Where the targets of a job come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Discovery {
    Static(Vec<TargetGroup>),
    File {
        /// Paths or patterns.
        files: Vec<PathBuf>,
        refresh_interval: Duration,
    },
    Http {
        url: String,
        refresh_interval: Duration,
        client: Box<HttpClientConfig>,
    },
    Dns {
        names: Vec<String>,
        record: DnsRecord,
        port: Option<u16>,
        refresh_interval: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DnsRecord {
    A,
    Aaaa,
    Srv,
    Mx,
    Ns,
}

choice!(DnsRecord { "A" => A, "AAAA" => Aaaa, "MX" => Mx, "NS" => Ns, "SRV" => Srv });

/// Targets that came from one source together, with the labels they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TargetGroup {
    /// The values of `__address__`.
    pub(crate) targets: Vec<String>,
    pub(crate) labels: Vec<(String, String)>,
    /// Which part of the discovery it is; a new group with the same source replaces it.
    pub(crate) source: String,
}

/// One step of relabelling.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RelabelRule {
    pub(crate) action: RelabelAction,
    pub(crate) source_labels: Vec<String>,
    pub(crate) separator: String,
    pub(crate) regex: AnchoredRegex,
    pub(crate) modulus: u64,
    pub(crate) target_label: String,
    pub(crate) replacement: String,
    /// What may be the name of a label after expansion.
    pub(crate) name_validation: NameValidation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelabelAction {
    Replace,
    Keep,
    Drop,
    KeepEqual,
    DropEqual,
    HashMod,
    LabelMap,
    LabelDrop,
    LabelKeep,
    Lowercase,
    Uppercase,
}

choice!(RelabelAction {
    "replace" => Replace,
    "keep" => Keep,
    "drop" => Drop,
    "keepequal" => KeepEqual,
    "dropequal" => DropEqual,
    "hashmod" => HashMod,
    "labelmap" => LabelMap,
    "labeldrop" => LabelDrop,
    "labelkeep" => LabelKeep,
    "lowercase" => Lowercase,
    "uppercase" => Uppercase,
});
