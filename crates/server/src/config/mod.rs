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
//! - Secrets appear in no rendering, no complaint and no debug output.
//!
//! Elsewhere: what the settings mean and their defaults (`options`, `icecore_storage::Options`),
//! reading of arguments (`cli`), opening the doors (`process`).

#[cfg(test)]
mod docs;
mod file;
mod options;
mod registry;
mod reload;
mod render;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use icecore_settings::nearest;
use icecore_settings::quoted;
pub use icecore_settings::{ConfigError, Kind, ListenAddress, Position, Problem};
pub use options::{
    LogFormat, LogLevel, LogOptions, OriginPattern, QueryOptions, ScrapeOptions, ServerOptions,
};
pub use registry::{SECTIONS, SETTINGS, Setting};
pub(crate) use reload::Changes;

use icecore_scrape::ScrapeSettings;

/// Names the configuration file where no flag does.
pub const FILE_VARIABLE: &str = "ICECORE_CONFIG";

const VARIABLE_PREFIX: &str = "ICECORE_";

/// Everything a process is told before it starts.
#[derive(Clone)]
pub struct Config {
    pub server: ServerOptions,
    pub query: QueryOptions,
    pub log: LogOptions,
    pub scraping: ScrapeOptions,
    /// Prometheus' section of the same name.
    pub otlp: icecore_wire::otlp::Translation,
    storage: icecore_storage::Options,
    scrape: ScrapeSettings,
    /// One for each of [`SETTINGS`].
    sources: Vec<Source>,
    file: Option<PathBuf>,
    warnings: Vec<String>,
    /// What it was put together from, for reading it anew.
    inputs: Inputs,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    File(Position),
    /// The variable's name.
    Environment(String),
    /// The flag with its dashes.
    Flag(String),
}

/// What there is to build a [`Config`] from. The environment is passed in, not looked up, so that
/// tests decide it.
#[derive(Clone, Default)]
pub struct Inputs {
    /// The file named by a flag; without one, the variable [`FILE_VARIABLE`] counts.
    pub file: Option<PathBuf>,
    /// As `std::env::vars_os` gives it; everything that does not begin with `ICECORE_` is ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// Key of the setting and the text given for it.
    pub flags: Vec<(String, String)>,
}

impl Config {
    pub fn load(inputs: &Inputs) -> Result<Self, ConfigError> {
        let mut loading = Loading::default();
        loading.config.inputs = inputs.clone();
        let variables = loading.variables(&inputs.environment);
        let file = inputs
            .file
            .clone()
            .or_else(|| variables.get(FILE_VARIABLE).map(PathBuf::from));
        if let Some(path) = file {
            loading.file(&path)?;
            loading.config.file = Some(path);
        }
        loading.environment(&variables);
        loading.flags(&inputs.flags);
        if loading.config.scraping.start_timestamps {
            loading.config.scrape.take_start_timestamps();
        }
        if loading.problems.is_empty() {
            loading.problems = contradictions(&loading.config);
        }
        if loading.problems.is_empty() {
            Ok(loading.config)
        } else {
            Err(ConfigError::Invalid(loading.problems))
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

    /// Whether somebody asked for this very address: then failing to listen there is an error,
    /// while a default that is taken is only a warning.
    pub fn listen_is_explicit(&self) -> bool {
        self.is_explicit("server.listen")
    }

    /// The same for the gRPC door.
    pub fn grpc_listen_is_explicit(&self) -> bool {
        self.is_explicit("otlp.grpc_listen")
    }

    fn is_explicit(&self, key: &str) -> bool {
        self.source(key)
            .is_some_and(|source| *source != Source::Default)
    }

    /// Where the value of a setting came from; `None` for a key that does not exist.
    pub fn source(&self, key: &str) -> Option<&Source> {
        self.sources.get(registry::index_of(key)?)
    }

    /// The configuration file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What a person should know although the configuration is valid; for the log, once it is set up.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The effective configuration as YAML that can be given back as a file, each line with where
    /// its value came from. Secrets are shown as `<secret>`.
    pub fn render(&self) -> String {
        render::effective(self)
    }

    /// Flag and value of every setting, in the order in which they are documented. Secrets are shown
    /// as `<secret>`.
    pub(crate) fn shown(&self) -> Vec<(String, String)> {
        render::flags(self)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            server: ServerOptions::default(),
            query: QueryOptions::default(),
            log: LogOptions::default(),
            scraping: ScrapeOptions::default(),
            otlp: icecore_wire::otlp::Translation::default(),
            storage: icecore_storage::Options::default(),
            scrape: ScrapeSettings::default(),
            sources: vec![Source::Default; SETTINGS.len()],
            file: None,
            warnings: Vec::new(),
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

/// A configuration on its way: values are written from the weakest source to the strongest.
#[derive(Default)]
struct Loading {
    config: Config,
    problems: Vec<Problem>,
}

impl Loading {
    fn file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let found = file::read(path)?;
        self.problems.extend(found.problems);
        self.config.warnings.extend(found.scrape.warnings.clone());
        self.config.scrape = found.scrape;
        for given in found.given {
            let subject = SETTINGS
                .get(given.index)
                .map(|setting| format!("{}.{}", file::SECTION, setting.key));
            let source = Source::File(given.at);
            if let Some(problem) = self.write(
                given.index,
                subject.unwrap_or_default(),
                &given.text,
                source,
            ) {
                self.problems.push(problem.at(path, given.at));
            }
        }
        file::sort_problems(&mut self.problems, path);
        Ok(())
    }

    /// Our variables as text. An empty one counts as not given: that is how container tools pass on
    /// what was not set.
    fn variables(&mut self, environment: &[(OsString, OsString)]) -> HashMap<String, String> {
        let mut variables = HashMap::new();
        for (name, value) in environment {
            let Some(name) = name
                .to_str()
                .filter(|name| name.starts_with(VARIABLE_PREFIX))
            else {
                continue;
            };
            match value.to_str() {
                Some("") => {}
                Some(value) => {
                    variables.insert(name.to_owned(), value.to_owned());
                }
                None => self.problems.push(Problem::new(name, "is not valid UTF-8")),
            }
        }
        variables
    }

    fn environment(&mut self, variables: &HashMap<String, String>) {
        let mut known = vec![FILE_VARIABLE.to_owned()];
        for (index, setting) in SETTINGS.iter().enumerate() {
            let names = [setting.short_variable(), Some(setting.variable())];
            let mut first: Option<(String, &String)> = None;
            for name in names.into_iter().flatten() {
                known.push(name.clone());
                match (variables.get(&name), &first) {
                    (Some(value), None) => first = Some((name, value)),
                    (Some(value), Some((other, other_value))) if value != *other_value => {
                        let reason = format!("says something else than {other}");
                        self.problems
                            .push(Problem::new(name, reason).cure(Some("give one of them".into())));
                    }
                    _ => {}
                }
            }
            if let Some((name, value)) = first {
                let source = Source::Environment(name.clone());
                let problem = self.write(index, name, value, source);
                self.problems.extend(problem);
            }
        }
        self.warn_of_unknown(variables, &known);
    }

    /// Unknown variables are no errors: Kubernetes sets some that begin like ours when a service is
    /// called icecore.
    fn warn_of_unknown(&mut self, variables: &HashMap<String, String>, known: &[String]) {
        let mut unknown: Vec<_> = variables
            .keys()
            .filter(|name| !known.contains(name) && *name != icecore_storage::FAIL_POINT_VARIABLE)
            .map(
                |name| match nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => format!("{name} (did you mean {near}?)"),
                    None => name.clone(),
                },
            )
            .collect();
        unknown.sort();
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            self.config.warnings.push(format!(
                "environment variables that name no setting: {unknown}"
            ));
        }
    }

    fn flags(&mut self, flags: &[(String, String)]) {
        for (key, text) in flags {
            let found =
                registry::index_of(key).and_then(|index| Some((index, SETTINGS.get(index)?)));
            let Some((index, setting)) = found else {
                self.problems.push(Problem::new(key, "unknown setting"));
                continue;
            };
            let flag = format!("--{}", setting.flag());
            let problem = self.write(index, flag.clone(), text, Source::Flag(flag));
            self.problems.extend(problem);
        }
    }

    fn write(
        &mut self,
        index: usize,
        subject: String,
        text: &str,
        source: Source,
    ) -> Option<Problem> {
        let setting = SETTINGS.get(index)?;
        match (setting.write)(&mut self.config, text) {
            Ok(()) => {
                if let Some(slot) = self.config.sources.get_mut(index) {
                    *slot = source;
                }
                None
            }
            Err(bad) if setting.is_secret() => {
                Some(Problem::new(subject, format!("expected {}", bad.expected)))
            }
            Err(bad) => {
                let found = quoted(text);
                let reason = format!("expected {}, found {found}", bad.expected);
                Some(Problem::new(subject, reason))
            }
        }
    }
}

/// Values that are right by themselves and wrong together.
fn contradictions(config: &Config) -> Vec<Problem> {
    let store = &config.storage.store;
    let head = &config.storage.head;
    let server = &config.server;
    let mut problems = Vec::new();
    let mut require = |holds: bool, key: &str, reason: &str| {
        if !holds {
            problems.push(problem_of(config, key, reason));
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
    let otlp = &config.otlp;
    require(
        !otlp.promote_all_resource_attributes || otlp.promote_resource_attributes.is_empty(),
        "otlp.promote_resource_attributes",
        "must be empty when otlp.promote_all_resource_attributes is true",
    );
    problems
}

/// A problem with the value of a setting, under the name and at the place where it was given.
fn problem_of(config: &Config, key: &str, reason: &str) -> Problem {
    let in_file = format!("{}.{key}", file::SECTION);
    match (config.source(key), &config.file) {
        (Some(Source::Flag(name) | Source::Environment(name)), _) => Problem::new(name, reason),
        (Some(Source::File(at)), Some(path)) => Problem::new(in_file, reason).at(path, *at),
        _ => Problem::new(in_file, reason),
    }
}
