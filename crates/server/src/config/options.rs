//! Settings of the process itself, beside those of the storage engine.
//!
//! As in `icecore_storage::Options`, each default carries its reason here; the registry maps names
//! onto these fields.

use std::time::Duration;

use icecore_model::{MatchOp, Matcher, MatcherError};
use icecore_promql::EngineOptions;

use icecore_settings::{BadValue, Format, Kind, ListenAddress, choice};
use icecore_storage::Compression;
use icecore_wire::otlp::{Exponential, Strategy};

const MIB: usize = 1 << 20;

/// The way in which the configuration file is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileOptions {
    /// Set if parts of the file that are not supported are errors. Off, so that any file that
    /// Prometheus accepts starts a server.
    pub strict: bool,
}

/// The retention of samples, as Prometheus says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TsdbOptions {
    /// Zero if it is not said: then nothing is deleted without a policy.
    pub retention_time: Duration,
}

/// The HTTP listener and how many requests it serves at once.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub listen: ListenAddress,
    /// `None`: gRPC is served on the HTTP port only.
    pub otlp_grpc_listen: Option<ListenAddress>,
    /// Path of the web configuration file; empty for none.
    pub web_config: String,
    pub write_body_bytes_max: usize,
    pub write_decompressed_bytes_max: usize,
    pub concurrent_writes_max: usize,
    pub concurrent_reads_max: usize,
    pub request_timeout: Duration,
    pub shutdown_grace: Duration,
    pub stop_timeout: Duration,
    pub cors_origin: OriginPattern,
    /// Further names of this server.
    pub hosts: Vec<String>,
    /// Percent of the connections of a port that one client address may have.
    pub client_share: usize,
    pub remote_read_bytes_max: usize,
    pub remote_read_frame_bytes: usize,
}

/// Origins whose pages may read answers: a regular expression for the whole origin.
#[derive(Clone, Debug)]
pub struct OriginPattern {
    /// The label name has no meaning here.
    pattern: Option<Matcher>,
}

/// What queries may use, and what they assume.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// Its own defaults carry their reasons.
    pub engine: EngineOptions,
    pub max_concurrency: usize,
    pub max_queue: usize,
    pub exclude_aggregates: ExcludeAggregates,
}

/// Whether series with OpenTSDB's label of pre-aggregates are left out of selectors that do not
/// name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExcludeAggregates {
    /// If clients may write pre-aggregates: `tsd.rollups.enable`.
    #[default]
    Auto,
    On,
    Off,
}

/// What is scraped beside what the Prometheus part of the file names.
#[derive(Clone, Copy, Debug)]
pub struct ScrapeOptions {
    /// Whether a process without any job scrapes its own metrics.
    pub itself: bool,
    /// Whether targets say since when their counters count.
    pub start_timestamps: bool,
}

/// OpenTSDB's protocols.
#[derive(Clone, Debug)]
pub struct OpenTsdbOptions {
    /// `None`: the API is served on the HTTP port only.
    pub listen: Option<ListenAddress>,
    /// Path of an `opentsdb.conf`; empty for none.
    pub config: String,
    /// `KEY=VALUE`, with keys of that file.
    pub settings: Vec<String>,
    /// Lets a GET name another verb. Off, because any page can make a browser send one.
    pub get_overrides: bool,
    /// Lets answers be code. Off, because the pages of any origin could run it.
    pub jsonp: bool,
    /// Memory of the names that have UIDs. They are never forgotten; four million of thirty bytes
    /// are no small installation.
    pub uid_bytes_max: usize,
}

impl Default for OpenTsdbOptions {
    fn default() -> Self {
        Self {
            listen: None,
            config: String::new(),
            settings: Vec::new(),
            get_overrides: false,
            jsonp: false,
            uid_bytes_max: 1 << 30,
        }
    }
}

/// Logging to standard error.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOptions {
    pub level: LogLevel,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    /// Lifecycle only: a healthy process writes a few lines per hour.
    #[default]
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line, for collectors.
    Json,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            // Only this machine, because there is no access control until one is configured; the
            // port at which dashboards and agents look for a Prometheus.
            listen: ListenAddress {
                host: "127.0.0.1".into(),
                port: 9090,
            },
            web_config: String::new(),
            // Where OpenTelemetry's exporters send to by default.
            otlp_grpc_listen: Some(ListenAddress {
                host: "127.0.0.1".into(),
                port: 4317,
            }),
            // Prometheus sends about 2 MiB at most per request, backfilling tools send more.
            write_body_bytes_max: 32 * MIB,
            // Snappy shrinks remote write by four to ten times; what claims more than this is
            // refused before memory is allocated for it.
            write_decompressed_bytes_max: 128 * MIB,
            // Five Prometheus servers with their default of 50 shards each. Most of them wait for
            // the commit and hold little memory meanwhile.
            concurrent_writes_max: 256,
            // As many as Prometheus runs: more would share the same cores and each take longer.
            concurrent_reads_max: 20,
            // What Prometheus gives a query, so that clients' own time-outs go on fitting.
            request_timeout: Duration::from_secs(120),
            // Orchestrators commonly kill after 30 s; this leaves the rest for flushing the head.
            shutdown_grace: Duration::from_secs(10),
            // Less than those 30 s, so that the end is one of ours.
            stop_timeout: Duration::from_secs(25),
            // As in Prometheus: dashboards on other hosts read the API from the browser.
            cors_origin: OriginPattern { pattern: None },
            // Names that no page on the internet can have need not be listed.
            hosts: Vec::new(),
            // A thousand of 4096: more than any agent has, and three such clients leave room for
            // others.
            client_share: 25,
            // About 14 million samples, and twenty of these at once fit into a large host. Larger
            // results need the streamed form, which holds little in memory.
            remote_read_bytes_max: 256 * MIB,
            // What Prometheus sends, which is what its clients expect.
            remote_read_frame_bytes: MIB,
        }
    }
}

impl OriginPattern {
    /// Matches everything, and is shown instead of the origin.
    const ANY: &'static str = ".*";

    pub(crate) fn parse(text: &str) -> Result<Self, MatcherError> {
        let pattern = match text {
            Self::ANY => None,
            _ => Some(Matcher::new(MatchOp::Regex, "origin", text)?),
        };
        Ok(Self { pattern })
    }

    pub(super) fn text(&self) -> &str {
        self.pattern.as_ref().map_or(Self::ANY, Matcher::value)
    }

    /// Whether every origin is allowed.
    pub(crate) fn allows_any(&self) -> bool {
        self.pattern.is_none()
    }

    pub(crate) fn allows(&self, origin: &str) -> bool {
        self.pattern.as_ref().is_none_or(|p| p.matches(origin))
    }
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self {
            engine: EngineOptions::default(),
            // As many as Prometheus runs: more would share the same cores and each take longer.
            max_concurrency: 20,
            // A few dashboards with dozens of panels each, opened at once. Beyond that the answer
            // would come after its client timed out.
            max_queue: 200,
            exclude_aggregates: ExcludeAggregates::Auto,
        }
    }
}

impl Default for ScrapeOptions {
    fn default() -> Self {
        Self {
            // A new installation has data to look at, and problems leave traces.
            itself: true,
            // As in Prometheus without its feature `st-storage`, so that `_created` series stay
            // available.
            start_timestamps: false,
        }
    }
}

choice!(LogLevel {
    "error" => Error,
    "warn" => Warn,
    "info" => Info,
    "debug" => Debug,
    "trace" => Trace,
});

choice!(ExcludeAggregates { "auto" => Auto, "on" => On, "off" => Off });

choice!(LogFormat { "text" => Text, "json" => Json });

pub(super) struct CompressionWords;

choice!(CompressionWords for Compression { "none" => None, "lz4" => Lz4, "zstd" => Zstd });

pub(super) struct StrategyWords;

choice!(StrategyWords for Strategy {
    "UnderscoreEscapingWithSuffixes" => UnderscoreEscapingWithSuffixes,
    "UnderscoreEscapingWithoutSuffixes" => UnderscoreEscapingWithoutSuffixes,
    "NoUTF8EscapingWithSuffixes" => NoUtf8EscapingWithSuffixes,
    "NoTranslation" => NoTranslation,
});

pub(super) struct ExponentialWords;

choice!(ExponentialWords for Exponential { "native" => Native, "classic" => Classic });

pub(super) struct Origins;

impl Format for Origins {
    type Native = OriginPattern;
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<OriginPattern, BadValue> {
        OriginPattern::parse(text).map_err(|_| {
            BadValue::expected("a regular expression such as .* or https?://(one|two)\\.example")
        })
    }

    fn show(value: &OriginPattern) -> String {
        value.text().into()
    }
}
