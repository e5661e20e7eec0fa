//! Settings of OpenTSDB: its own file, and single settings that count more than the file.

use std::path::Path;
use std::sync::Arc;

use icecore_opentsdb::{Config, ConfigFile, ConfigNote, NameLimits};
use icecore_settings::{ConfigError, Position, Problem};

use super::Config as ServerConfig;
use super::options::{ExcludeAggregates, OpenTsdbOptions, QueryOptions};

/// What queries imply about series that clients of OpenTSDB write, and its own about all others.
/// Both sides go by the same rule.
pub(crate) fn apply_exclusion(query: &mut QueryOptions, tsd: &mut Config) {
    tsd.exclude_aggregates = match query.exclude_aggregates {
        ExcludeAggregates::Auto => None,
        ExcludeAggregates::On => Some(true),
        ExcludeAggregates::Off => Some(false),
    };
    query.engine.implied = Arc::new(tsd.implied_matchers());
}

/// Limits of the names that get UIDs: those of labels, which they become.
pub(crate) fn name_limits(config: &ServerConfig) -> NameLimits {
    let limits = &config.storage.limits;
    NameLimits {
        label_name_bytes_max: limits.label_name_bytes_max,
        label_value_bytes_max: limits.label_value_bytes_max,
        uid_bytes_max: config.opentsdb.uid_bytes_max,
    }
}

/// Puts the settings together. What a person should know goes to `warnings`. Read when the process
/// starts, as the web configuration file is: a configuration can be looked at elsewhere.
pub(crate) fn tsd_config(
    options: &OpenTsdbOptions,
    warnings: &mut Vec<String>,
) -> Result<Config, ConfigError> {
    let (mut config, mut problems) = (Config::without_file(), Vec::new());
    if !options.config.is_empty() {
        match read_file(Path::new(&options.config), warnings, &mut problems) {
            Ok(read) => config = read,
            Err(reason) => problems.push(Problem::new("opentsdb.config", reason)),
        }
    }
    for setting in joined(&options.settings) {
        if let Err(reason) = set(&mut config, &setting) {
            problems.push(Problem::new("opentsdb.settings", reason));
        }
    }
    config.get_overrides = options.get_overrides;
    config.jsonp = options.jsonp;
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(ConfigError::Invalid(problems))
    }
}

fn read_file(
    path: &Path,
    warnings: &mut Vec<String>,
    problems: &mut Vec<Problem>,
) -> Result<Config, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let file = ConfigFile::read(&text, |name| read_document(&folder.join(name)));
    let keys = |notes: &[ConfigNote]| {
        let keys: Vec<&str> = notes.iter().map(|note| note.key.as_str()).collect();
        keys.join(", ")
    };
    let name = path.display();
    if !file.not_needed.is_empty() {
        let keys = keys(&file.not_needed);
        warnings.push(format!("{name}: not needed here: {keys}"));
    }
    if !file.listener.is_empty() {
        let keys = keys(&file.listener);
        warnings.push(format!("{name}: use opentsdb.listen instead of {keys}"));
    }
    for ConfigNote { line, key, .. } in &file.unknown {
        warnings.push(format!("{name}:{line}: unknown key {key}"));
    }
    for ConfigNote { line, key, text } in &file.problems {
        let position = Position {
            line: *line,
            column: 1,
        };
        problems.push(Problem::new(key, text).at(path, position));
    }
    Ok(file.config)
}

fn read_document(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// The settings of a list that commas separate. Values may have commas, too: what does not begin as
/// a key of the original does belongs to the value before it.
fn joined(list: &[String]) -> Vec<String> {
    let mut settings: Vec<String> = Vec::new();
    for element in list {
        match settings.last_mut() {
            Some(setting) if !element.trim_start().starts_with(KEY_START) => {
                setting.push(',');
                setting.push_str(element);
            }
            _ => settings.push(element.clone()),
        }
    }
    settings
}

/// How every key of the original begins that means something here.
const KEY_START: &str = "tsd.";

/// `key=value`, with a key of the original's file.
fn set(config: &mut Config, setting: &str) -> Result<(), String> {
    let Some((key, value)) = setting.split_once('=') else {
        return Err(format!("{setting}: expected KEY=VALUE"));
    };
    let (key, value) = (key.trim(), value.trim());
    match config.set(key, value, |name| read_document(Path::new(name))) {
        Some(outcome) => outcome.map_err(|reason| format!("{key}: {reason}")),
        None => Err(format!("{key}: no setting has this key")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_count_more_than_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opentsdb.conf");
        let text = "tsd.core.auto_create_metrics = true\n\
                    tsd.storage.hbase.zk_quorum = z1\n\
                    tsd.network.port = 4242\n\
                    tsd.core.autocreate = yes\n\
                    tsd.mode = ro\n";
        std::fs::write(&path, text).unwrap();
        let options = OpenTsdbOptions {
            config: path.display().to_string(),
            settings: vec!["tsd.mode=rw".into(), "tsd.storage.max_tags = 3".into()],
            ..OpenTsdbOptions::default()
        };
        let mut warnings = Vec::new();
        let config = tsd_config(&options, &mut warnings).unwrap();
        assert!(config.auto_create_metrics);
        assert_eq!(config.mode, icecore_opentsdb::Mode::ReadWrite);
        assert_eq!(config.max_tags, 3);
        let warnings = warnings.join("\n");
        for part in [
            "zk_quorum",
            "tsd.network.port",
            ":4: unknown key tsd.core.autocreate",
        ] {
            assert!(warnings.contains(part), "{warnings}");
        }
    }

    #[test]
    fn a_file_of_the_original_brings_its_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opentsdb.conf");
        std::fs::write(&path, "tsd.mode = rw\n").unwrap();
        let with = |config: String, setting: &str| {
            let options = OpenTsdbOptions {
                config,
                settings: vec![setting.into()],
                ..OpenTsdbOptions::default()
            };
            let config = tsd_config(&options, &mut Vec::new()).unwrap();
            let Config {
                auto_create_metrics,
                enable_chunked,
                max_chunk,
                ..
            } = config;
            (auto_create_metrics, enable_chunked, max_chunk)
        };
        let file = path.display().to_string();
        let any = "tsd.mode=rw";
        assert_eq!(with(file.clone(), any), (false, false, 4096));
        assert_eq!(with(String::new(), any), (true, true, usize::MAX));
        // Single settings count more than either.
        let create = "tsd.core.auto_create_metrics=true";
        assert_eq!(with(file, create), (true, false, 4096));
        let strict = "tsd.core.auto_create_metrics=false";
        assert_eq!(with(String::new(), strict), (false, true, usize::MAX));
    }

    #[test]
    fn values_may_have_commas_and_name_files() {
        let folder = tempfile::tempdir().unwrap();
        let rollups = folder.path().join("rollups.json");
        std::fs::write(&rollups, r#"{"intervals":[]}"#).unwrap();
        // As the list comes from a flag, where commas separate.
        let list = format!(
            "tsd.http.request.cors_domains=http://a,http://b,tsd.rollups.enable=true,\
             tsd.rollups.config={},tsd.core.histograms.config={{\"X\":1,\"Y\":2}},\
             tsd.core.socket.timeout=60",
            rollups.display()
        );
        let options = OpenTsdbOptions {
            settings: list.split(',').map(String::from).collect(),
            ..OpenTsdbOptions::default()
        };
        let config = tsd_config(&options, &mut Vec::new()).unwrap();
        assert_eq!(config.cors_domains, ["http://a", "http://b"]);
        assert_eq!(config.rollups(), Some(r#"{"intervals":[]}"#));
        let codecs = config.histogram_codecs.unwrap();
        assert_eq!((codecs["X"], codecs["Y"]), (1, 2));
        assert_eq!(config.socket_timeout_s, 60);
    }

    #[test]
    fn problems_say_what_is_wrong() {
        let options = OpenTsdbOptions {
            config: "/does/not/exist".into(),
            settings: vec![
                "tsd.mode".into(),
                "tsd.x=1".into(),
                "tsd.storage.max_tags=x".into(),
            ],
            ..OpenTsdbOptions::default()
        };
        let Err(ConfigError::Invalid(problems)) = tsd_config(&options, &mut Vec::new()) else {
            panic!("nothing of it is right")
        };
        assert_eq!(problems.len(), 4, "{problems:?}");
    }
}
