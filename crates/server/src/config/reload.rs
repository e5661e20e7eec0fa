//! What may change while a process runs.
//!
//! ```text
//! the file, reloaded ─► every setting compared ─► live: applied
//!   flags and environment as at the start            └► others: named, because they need a restart
//! ```
//!
//! Holds always: a configuration in force is one that could have been started with, except for
//! settings that are named as waiting for a restart. A setting that protects is not taken back.

use super::{Config, ConfigError, SETTINGS, Setting};

/// Settings that a reload applies. The others are built into what a process sets up when it starts:
/// its sockets, its threads, the database.
const LIVE: [&str; 32] = [
    "storage.tsdb.retention.time",
    "config.strict",
    "server.request_timeout",
    "server.shutdown_grace",
    "server.stop_timeout",
    "server.cors_origin",
    "server.hosts",
    "server.remote_read_bytes_max",
    "server.remote_read_frame_bytes",
    "log.level",
    "query.lookback_delta",
    "query.default_step",
    "query.timeout",
    "query.max_samples",
    "query.max_memory",
    "query.label_value_bytes_max",
    "query.max_queue",
    "otlp.translation_strategy",
    "otlp.promote_resource_attributes",
    "otlp.promote_all_resource_attributes",
    "otlp.ignore_resource_attributes",
    "otlp.keep_identifying_resource_attributes",
    "otlp.promote_scope_metadata",
    "otlp.convert_histograms_to_nhcb",
    "otlp.exponential_histograms",
    "otlp.label_name_underscore_sanitization",
    "otlp.label_name_preserve_multiple_underscores",
    "events.registry_interval",
    "events.otlp_logs",
    "scrape.self",
    "scrape.start_timestamps",
    "retention",
];

/// Live settings that a reload does not take back: without them pages of other sites could read
/// more, and a file is empty or incomplete while an editor writes it.
const PROTECTING: [&str; 1] = ["server.cors_origin"];

/// What a reload did about settings, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) applied: Vec<&'static str>,
    /// Not in force before a restart.
    pub(crate) waiting: Vec<&'static str>,
}

/// Whether a reload applies it.
pub(super) fn is_live(setting: &Setting) -> bool {
    LIVE.contains(&setting.key)
}

impl Config {
    /// Reloads the file, with the flags and the environment of the start.
    pub(crate) fn reread(&self) -> Result<Self, ConfigError> {
        Self::load(&self.inputs)
    }

    /// The configuration that is in force once `anew` is applied as far as it can be.
    pub(crate) fn reloaded(&self, anew: &Self) -> (Self, Changes) {
        let mut config = self.clone();
        config.scrape = anew.scrape.clone();
        config.warnings.clone_from(&anew.warnings);
        config.unsupported.clone_from(&anew.unsupported);
        let mut changes = Changes::default();
        for (index, setting) in SETTINGS.iter().enumerate() {
            let differs = differs(setting, self, anew);
            let is_unprotected = PROTECTING.contains(&setting.key)
                && self.is_explicit(setting.key)
                && !anew.is_explicit(setting.key);
            if differs && (!is_live(setting) || is_unprotected) {
                changes.waiting.push(setting.key);
                continue;
            }
            // What a setting shows can be given back to it.
            let text = (setting.read)(anew);
            if differs && (setting.write)(&mut config, &text).is_ok() {
                changes.applied.push(setting.key);
            }
            let sources = (
                config.sources.values.get_mut(index),
                anew.sources.values.get(index),
            );
            if let (Some(to), Some(from)) = sources {
                to.clone_from(from);
            }
        }
        (config, changes)
    }
}

fn differs(setting: &Setting, one: &Config, other: &Config) -> bool {
    // What is secret is not shown, so that there is nothing to compare.
    (setting.read)(one) != (setting.read)(other)
        || (setting.is_secret() && secret(setting, one) != secret(setting, other))
}

/// A secret in the clear.
pub(super) fn secret<'a>(setting: &Setting, config: &'a Config) -> &'a str {
    match setting.key {
        "storage.secret_access_key" => &config.storage.store.secret_access_key,
        "events.masking_key" => &config.events.masking_key,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Inputs, Source};
    use super::*;

    fn load(file: &str, flags: &[(&str, &str)]) -> (tempfile::TempDir, Config) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("icecore.yml");
        std::fs::write(&path, file).unwrap();
        let flags = flags.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        let config = Config::load(&Inputs {
            file: Some(path),
            flags: flags.collect(),
            ..Inputs::default()
        });
        (directory, config.unwrap())
    }

    #[test]
    fn live_settings_exist() {
        for key in LIVE {
            assert!(SETTINGS.iter().any(|setting| setting.key == key), "{key}");
        }
    }

    #[test]
    fn live_settings_are_taken_over_and_others_named() {
        let flags = [("query.max_samples", "7")];
        let (directory, config) = load("icecore: {query: {timeout: 9s}}", &flags);
        let file = "\
icecore:
  query: {timeout: 8s, max_samples: 8, max_concurrency: 5}
  otlp: {promote_resource_attributes: [a, b]}
  storage: {secret_access_key: other}
  log: {level: debug}
";
        std::fs::write(directory.path().join("icecore.yml"), file).unwrap();
        let anew = config.reread().unwrap();
        let (merged, changes) = config.reloaded(&anew);
        // A flag is stronger than the file, then and now.
        let applied = [
            "log.level",
            "query.timeout",
            "otlp.promote_resource_attributes",
        ];
        assert_eq!(changes.applied, applied);
        let waiting = ["storage.secret_access_key", "query.max_concurrency"];
        assert_eq!(changes.waiting, waiting);
        assert_eq!(merged.query.engine.timeout.as_secs(), 8);
        assert_eq!(merged.query.engine.samples_max, 7);
        assert_eq!(merged.query.max_concurrency, config.query.max_concurrency);
        assert_eq!(merged.otlp.promote_resource_attributes, ["a", "b"]);
        let is_from_file = |key| matches!(merged.source(key), Some(Source::File(_)));
        assert!(is_from_file("query.timeout"));
        assert!(!is_from_file("query.max_concurrency"));
        // The next reload says again what waits, and nothing else.
        let (_, changes) = merged.reloaded(&anew);
        assert!(changes.applied.is_empty());
        assert_eq!(changes.waiting, waiting);
    }

    #[test]
    fn a_file_that_is_empty_or_cut_off_lets_no_other_pages_read() {
        let before = "icecore: {server: {cors_origin: 'https://a\\.example'}}";
        let (directory, mut config) = load(before, &[]);
        let path = directory.path().join("icecore.yml");
        for file in ["", "icecore: {log: {level: debug}}"] {
            std::fs::write(&path, file).unwrap();
            let anew = config.reread().unwrap();
            let (merged, changes) = config.reloaded(&anew);
            assert_eq!(changes.waiting, ["server.cors_origin"], "{file}");
            // Its pages may also go on writing.
            let origins = merged.explicit_cors_origin().expect(file);
            assert!(origins.allows("https://a.example"), "{file}");
            assert!(!origins.allows("https://b.example"), "{file}");
            config = merged;
        }
        let after = "icecore: {server: {cors_origin: 'https://b\\.example'}}";
        std::fs::write(&path, after).unwrap();
        let (merged, changes) = config.reloaded(&config.reread().unwrap());
        assert!(changes.applied.contains(&"server.cors_origin"));
        assert!(merged.server.cors_origin.allows("https://b.example"));
        assert!(!merged.server.cors_origin.allows("https://a.example"));
    }

    #[test]
    fn every_value_can_be_given_back() {
        let (_directory, config) = load("", &[]);
        let mut written = config.clone();
        for setting in SETTINGS.iter().filter(|setting| is_live(setting)) {
            let text = (setting.read)(&config);
            assert!(
                (setting.write)(&mut written, &text).is_ok(),
                "{}",
                setting.key
            );
            assert_eq!((setting.read)(&written), text);
        }
    }

    #[test]
    fn a_file_with_a_problem_is_not_taken() {
        let (directory, config) = load("", &[]);
        let path = directory.path().join("icecore.yml");
        for file in [
            "icecore: {query: {timeout: soon}}",
            "icecore: {nothing: {a: b}}",
            "scrape_configs: [{}]",
        ] {
            std::fs::write(&path, file).unwrap();
            assert!(config.reread().is_err(), "{file}");
        }
    }
}
