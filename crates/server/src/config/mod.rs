//! The configuration of a process: one typed [`Config`], put together from four places.
//!
//! ```text
//! flag  >  environment variable  >  file, section `icecore:`  >  default
//!   └───────────────┴── one row of `registry` ──┘          what the `Options` structs say
//! ```
//!
//! Holds always:
//! - Every setting can be given in each of the three ways, under a name that follows from its key.
//! - A `Config` knows where each value came from.
//! - All problems are reported at once, each with where it is and what would be right.
//! - Secrets appear in no rendering, no message and no debug output.
//!
//! Elsewhere: how settings are loaded (`icecore_settings::Loader`), their defaults (`options`,
//! `icecore_storage::Options`), reading of arguments (`cli`), listening (`process`).

#[cfg(test)]
mod docs;
mod events;
mod file;
mod opentsdb;
mod options;
mod registry;
mod reload;
#[cfg(test)]
mod replay;
mod retention;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

pub use events::{EventSettings, OtlpLogs};
use icecore_model::HOUR_MS;
use icecore_model::retention::RetentionPolicy;
use icecore_scrape::ScrapeSettings;
pub use icecore_settings::{
    ConfigError, FILE_VARIABLE, Inputs, Kind, ListenAddress, Position, Problem, Source,
};
use icecore_settings::{Loader, Sources, Unsupported};
use icecore_wire::otlp::Strategy;
pub(crate) use opentsdb::{apply_exclusion, name_limits, tsd_config};
pub use options::{
    FileOptions, LogFormat, LogLevel, LogOptions, OpenTsdbOptions, OriginPattern, QueryOptions,
    ScrapeOptions, ServerOptions, TsdbOptions,
};
use registry::REGISTRY;
pub use registry::{SECTIONS, SETTINGS, Setting};
pub(crate) use reload::Changes;
pub use retention::read_policy_file;
pub(crate) use retention::{column_word, late_data_word};

/// Everything that configures a process.
#[derive(Clone)]
pub struct Config {
    pub file_options: FileOptions,
    pub tsdb: TsdbOptions,
    pub server: ServerOptions,
    pub query: QueryOptions,
    pub log: LogOptions,
    pub scraping: ScrapeOptions,
    /// Prometheus' section of the same name.
    pub otlp: icecore_wire::otlp::Translation,
    pub opentsdb: OpenTsdbOptions,
    pub events: EventSettings,
    /// What is kept how long; without a policy everything, as it came.
    pub retention: Option<RetentionPolicy>,
    storage: icecore_storage::Options,
    scrape: ScrapeSettings,
    sources: Sources,
    warnings: Vec<String>,
    /// Parts of the file that are valid and have no effect.
    unsupported: Vec<Unsupported>,
    /// What it was loaded from, for reloading it.
    inputs: Inputs,
}

impl Config {
    pub fn load(inputs: &Inputs) -> Result<Self, ConfigError> {
        let mut loader = Loader::<Self>::new(&REGISTRY, inputs);
        if let Some(path) = loader.sources.file.clone() {
            file::read(&path, &mut loader)?;
        }
        loader.environment(icecore_storage::TEST_VARIABLES);
        loader.flags(&inputs.flags);
        let mut config = loader.config;
        config.sources = loader.sources;
        config.warnings = loader.warnings;
        config.inputs = inputs.clone();
        if config.explicit_cors_origin().is_some_and(allows_any_page) {
            config.warnings.push(ANY_PAGE.into());
        }
        if config.scraping.start_timestamps {
            config.scrape.take_start_timestamps();
        }
        let mut problems = loader.problems;
        if config.file_options.strict {
            let parts = config.unsupported.drain(..);
            problems.extend(parts.map(Unsupported::into_problem));
        }
        let parts = config.unsupported.iter().map(ToString::to_string);
        config.warnings.extend(parts);
        if problems.is_empty() {
            problems = contradictions(&config);
            problems.extend(unset_web_config(&config));
        }
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError::Invalid(problems))
        }
    }

    /// What the storage engine is opened with.
    pub fn storage_options(&self) -> icecore_storage::Options {
        self.storage.clone()
    }

    /// What is scraped.
    pub(crate) fn scrape(&self) -> &ScrapeSettings {
        &self.scrape
    }

    /// Returns `true` if the address of OTLP over gRPC was configured: then failing to listen there
    /// is an error, while a default port that is in use is only a warning.
    pub(crate) fn grpc_listen_is_explicit(&self) -> bool {
        self.is_explicit("otlp.grpc_listen")
    }

    /// Returns `server.cors_origin` if it was configured. Its default lets pages read; to change
    /// something they need to be allowed by name.
    pub(crate) fn explicit_cors_origin(&self) -> Option<&OriginPattern> {
        let is_explicit = self.is_explicit("server.cors_origin");
        is_explicit.then_some(&self.server.cors_origin)
    }

    /// Returns the policy of the configuration: `retention`, or else Prometheus' setting
    /// `storage.tsdb.retention.time` in whole hours, rounded up.
    pub fn retention_policy(&self) -> Option<RetentionPolicy> {
        match self.tsdb_retention_ms() {
            Some(ms) => RetentionPolicy::raw_for(ms).ok(),
            None => self.retention.clone(),
        }
    }

    /// Returns how long Prometheus' setting keeps samples, if it decides.
    pub(crate) fn tsdb_retention_ms(&self) -> Option<i64> {
        if self.is_explicit("retention") || self.tsdb.retention_time.is_zero() {
            return None;
        }
        let ms = i64::try_from(self.tsdb.retention_time.as_millis()).ok()?;
        let hours = ms.saturating_add(HOUR_MS - 1).div_euclid(HOUR_MS);
        Some(hours.saturating_mul(HOUR_MS))
    }

    fn is_explicit(&self, key: &str) -> bool {
        self.source(key)
            .is_some_and(|source| *source != Source::Default)
    }

    /// Where the value of a setting came from; `None` for a key that does not exist.
    pub fn source(&self, key: &str) -> Option<&Source> {
        REGISTRY.source(key, &self.sources)
    }

    /// The configuration file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.sources.file.as_deref()
    }

    /// What a person should know although the configuration is valid; for the log, once it is set
    /// up.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The parts of the file that are valid and have no effect, in its order. They are among the
    /// warnings, too.
    pub fn unsupported(&self) -> &[Unsupported] {
        &self.unsupported
    }

    /// The effective configuration as YAML that can be given back as a file, each line with where
    /// its value came from. Secrets are shown as `<secret>`.
    pub fn render(&self) -> String {
        REGISTRY.render(self, &self.sources)
    }

    /// Flag and value of every setting, in the order in which they are documented. Secrets are
    /// shown as `<secret>`.
    pub(crate) fn flags(&self) -> Vec<(String, String)> {
        REGISTRY.flags(self)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file_options: FileOptions::default(),
            tsdb: TsdbOptions::default(),
            server: ServerOptions::default(),
            query: QueryOptions::default(),
            log: LogOptions::default(),
            scraping: ScrapeOptions::default(),
            otlp: icecore_wire::otlp::Translation::default(),
            opentsdb: OpenTsdbOptions::default(),
            events: EventSettings::default(),
            // Nothing is deleted unless somebody says so.
            retention: None,
            storage: icecore_storage::Options::default(),
            scrape: ScrapeSettings::default(),
            sources: REGISTRY.default_sources(),
            warnings: Vec::new(),
            unsupported: Vec::new(),
            inputs: Inputs::default(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not derived: the storage options hold a secret in the clear.
        f.write_str(&self.render())
    }
}

/// A warning where the default of `server.cors_origin`, which lets pages read, was set.
const ANY_PAGE: &str = "server.cors_origin is set and allows every origin: any web page may store, \
                        change and delete through the browsers that show it. Name the origins \
                        that may, or leave the setting out, so that pages only read";

/// Returns `true` for patterns that allow pages without an origin of their own: those that name one
/// do not.
fn allows_any_page(origins: &OriginPattern) -> bool {
    origins.allows("null")
}

/// Values that are right by themselves and wrong together.
fn contradictions(config: &Config) -> Vec<Problem> {
    let store = &config.storage.store;
    let head = &config.storage.head;
    let server = &config.server;
    let mut problems = Vec::new();
    let mut require = |holds: bool, key: &str, reason: &str| {
        if !holds {
            problems.push(REGISTRY.problem(key, reason, &config.sources));
        }
    };
    require(
        store.block_bytes.is_power_of_two(),
        "storage.block_bytes",
        "must be a power of two: 1KiB, 2KiB, … 64KiB",
    );
    require(
        store.unflushed_bytes_max / 4 >= store.l0_sst_bytes,
        "storage.unflushed_bytes_max",
        "must be at least four times storage.l0_sst_bytes, or writes can hang",
    );
    require(
        head.flush_bytes.is_none()
            || head.bytes_max.is_none()
            || head.flush_bytes <= head.bytes_max,
        "head.flush_bytes",
        "must not be above head.bytes_max, or writes are refused before anything is flushed",
    );
    require(
        server.write_body_bytes_max <= server.write_decompressed_bytes_max,
        "server.write_body_bytes_max",
        "must not be above server.write_decompressed_bytes_max",
    );
    require(
        server.hosts.iter().all(|host| is_host_name(host)),
        "server.hosts",
        "must be names without scheme, port and path, such as metrics.example",
    );
    let otlp = &config.otlp;
    require(
        !otlp.promote_all_resource_attributes || otlp.promote_resource_attributes.is_empty(),
        "otlp.promote_resource_attributes",
        "must be empty when otlp.promote_all_resource_attributes is true",
    );
    require(
        otlp.promote_all_resource_attributes || otlp.ignore_resource_attributes.is_empty(),
        "otlp.ignore_resource_attributes",
        "must be empty unless otlp.promote_all_resource_attributes is true",
    );
    for (key, names) in [
        (
            "otlp.promote_resource_attributes",
            &otlp.promote_resource_attributes,
        ),
        (
            "otlp.ignore_resource_attributes",
            &otlp.ignore_resource_attributes,
        ),
    ] {
        let unique: HashSet<&String> = names.iter().collect();
        require(unique.len() == names.len(), key, "has a name twice");
    }
    require(
        !config.scrape.has_legacy_names() || !needs_utf8_names(otlp.strategy),
        "otlp.translation_strategy",
        "must escape names when global.metric_name_validation_scheme is legacy",
    );
    let events = &config.events;
    require(
        events.seal_bytes <= events.memory_limit,
        "events.seal_bytes",
        "must not be above events.memory_limit, or events are refused before they get into files",
    );
    problems
}

/// Returns `true` for strategies that keep names which only UTF-8 allows.
fn needs_utf8_names(strategy: Strategy) -> bool {
    match strategy {
        Strategy::NoUtf8EscapingWithSuffixes | Strategy::NoTranslation => true,
        Strategy::UnderscoreEscapingWithSuffixes | Strategy::UnderscoreEscapingWithoutSuffixes => {
            false
        }
    }
}

/// Refuses a path of the web configuration file that is given and empty: a variable that a script
/// forgot to set must not open a server.
fn unset_web_config(config: &Config) -> Option<Problem> {
    const KEY: &str = "server.web_config";
    const REASON: &str = "is empty: requests would need no credential; name a file, or leave this \
                          out to run without access control";
    if !config.server.web_config.is_empty() {
        return None;
    }
    if matches!(config.source(KEY), Some(Source::Flag(_))) {
        return Some(REGISTRY.problem(KEY, REASON, &config.sources));
    }
    let setting = SETTINGS.iter().find(|setting| setting.key == KEY)?;
    let names = [setting.short_variable(), Some(setting.variable())];
    let is_set_to_nothing = |name: &String| {
        let mut variables = config.inputs.environment.iter();
        variables.any(|(given, value)| given.to_str() == Some(name.as_str()) && value.is_empty())
    };
    let name = names.into_iter().flatten().find(is_set_to_nothing)?;
    Some(Problem::new(name, REASON))
}

/// Returns `true` if text is the name of a host, and nothing else.
fn is_host_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.chars().all(is_part)
}
