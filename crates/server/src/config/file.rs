//! The configuration file: a Prometheus configuration plus one section `icecore:`. Prometheus' own
//! section `otlp:` has the same settings as `icecore.otlp:`, its `runtime.log_level` is
//! `icecore.log.level`, which counts where both are given.
//!
//! Holds always: an unknown key is an error with its line and column; a part of Prometheus that has
//! no effect is named with its place, its consequence and what to use instead.

use std::path::Path;

use icecore_scrape as scrape;
use icecore_settings::yaml::parse_stream;
use icecore_settings::{
    ConfigError, Fields, Loader, Node, SECTION, SourceFile, Value, parse_binary_size, read_text,
};

use super::Config;
use super::registry::{REGISTRY, SECTIONS};
use super::retention;

/// Prometheus' section whose settings are ours by the same names.
const OTLP: &str = "otlp";

/// The path of Prometheus' key for how long samples are kept, which is a setting here as well.
const TSDB_RETENTION: &str = "storage.tsdb.retention";

/// A real file has a few hundred kilobytes at most.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 20;

pub(super) fn read(path: &Path, loader: &mut Loader<Config>) -> Result<(), ConfigError> {
    let text = read_text(path, FILE_BYTES_MAX).map_err(|source| ConfigError::Read {
        path: path.into(),
        source,
    })?;
    interpret(&text, path, loader);
    Ok(())
}

/// Takes over what the text of the file says.
pub(super) fn interpret(text: &str, path: &Path, loader: &mut Loader<Config>) {
    let source = SourceFile::new(path);
    if let Some((root, second)) = source.parse_first(text) {
        let mut top = Fields::of(&root, "", &source);
        if let Some(at) = second {
            if has_own_section(text) {
                let reason = "must stand in the first document, because others are not read";
                source.report(at, SECTION, reason);
            } else {
                let instead = "use one document, or scrape_config_files";
                top.unsupported_at(at, "a second document", "it is not read", instead);
            }
        }
        // Its level of the log is weaker than ours, which follows.
        if let Some(runtime) = top.map("runtime") {
            read_runtime(runtime, &source, loader);
        }
        if let Some(node) = top.node(OTLP) {
            loader.section(OTLP, node, &source);
        }
        if let Some(storage) = top.map("storage") {
            read_prometheus_storage(storage, loader);
        }
        if let Some(node) = top.node(SECTION) {
            loader.section(SECTION, node, &source);
        }
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        loader.config.scrape = scrape::read(&mut top, &variable);
        top.finish_with(|key, problem| {
            if SECTIONS.iter().any(|(name, _)| *name == key) {
                problem.did_you_mean(Some(&format!("{SECTION}.{key}")))
            } else if retention::KEYS.contains(&key) {
                problem.did_you_mean(Some(&format!("{SECTION}.retention.{key}")))
            } else {
                problem
            }
        });
    }
    let findings = source.into_findings();
    loader.problems.extend(findings.problems);
    loader.config.unsupported = findings.unsupported;
}

/// Returns `true` if a document behind the first one has our section.
fn has_own_section(text: &str) -> bool {
    let documents = parse_stream(text).unwrap_or_default();
    documents
        .iter()
        .skip(1)
        .any(|document| match &document.value {
            Value::Map(entries) => entries.iter().any(|entry| entry.key == SECTION),
            _ => false,
        })
}

/// Reads Prometheus' section `runtime`.
fn read_runtime(mut runtime: Fields<'_>, source: &SourceFile<'_>, loader: &mut Loader<Config>) {
    check_integer(&mut runtime, "gogc");
    let instead = "nothing like it is needed here: leave it out";
    runtime.unsupported("gogc", "there is no garbage collection", instead);
    if let Some(level) = runtime.node("log_level") {
        // There, upper case will do, and an empty text is as good as none.
        let level = match &level.value {
            Value::Scalar { text, .. } if text.is_empty() => None,
            Value::Scalar { text, quoted } => Some(Node {
                at: level.at,
                value: Value::Scalar {
                    text: text.to_ascii_lowercase(),
                    quoted: *quoted,
                },
            }),
            _ => Some(level.clone()),
        };
        if let Some(level) = level {
            loader.other_name("log.level", "runtime.log_level", &level, source);
        }
    }
    runtime.finish();
}

/// Reads Prometheus' top-level section `storage`. Keys without effect are checked as well, because
/// our own storage settings are easily written there by mistake.
fn read_prometheus_storage(mut storage: Fields<'_>, loader: &mut Loader<Config>) {
    if let Some(tsdb) = storage.map("tsdb") {
        read_tsdb(tsdb, loader);
    }
    let exemplars = storage.map("exemplars");
    let has_exemplars = exemplars.is_some_and(|mut exemplars| {
        check_integer(&mut exemplars, "max_exemplars");
        let is_given = exemplars.has("max_exemplars");
        exemplars.finish();
        is_given
    });
    if has_exemplars {
        let instead = "use icecore.limits.exemplars_per_series_max";
        storage.unsupported(
            "exemplars",
            "exemplars are kept with their samples",
            instead,
        );
    }
    storage.finish_with(|key, problem| {
        let key = format!("storage.{key}");
        if REGISTRY.index_of(&key).is_some() {
            problem.did_you_mean(Some(&format!("{SECTION}.{key}")))
        } else {
            problem
        }
    });
}

/// `storage.tsdb`: how long samples are kept, and details of Prometheus' own files.
fn read_tsdb(mut tsdb: Fields<'_>, loader: &mut Loader<Config>) {
    const NO_BLOCKS: &str = "nothing like it is needed here: leave it out";
    tsdb.duration("out_of_order_time_window");
    let any_order = "samples are accepted in any order, whatever their age";
    tsdb.unsupported("out_of_order_time_window", any_order, NO_BLOCKS);
    tsdb.factor("stale_series_compaction_threshold");
    let idle = "series are forgotten when they are idle";
    let instead = "use icecore.head.series_idle_max";
    tsdb.unsupported("stale_series_compaction_threshold", idle, instead);
    if let Some(mut encoding) = tsdb.map("chunk_encoding") {
        encoding.parsed("floats", |name| match name {
            "" | "xor" | "xor2" => Ok(()),
            _ => Err("xor or xor2".into()),
        });
        encoding.finish();
        let own = "chunks have a format of their own";
        tsdb.unsupported("chunk_encoding", own, NO_BLOCKS);
    }
    if let Some(retention) = tsdb.map("retention") {
        read_retention(retention, loader);
    }
    tsdb.finish();
}

/// `storage.tsdb.retention`, of which the time is a setting.
fn read_retention(mut retention: Fields<'_>, loader: &mut Loader<Config>) {
    const NO_SIZE: &str = "samples are not deleted by their size";
    const BY_TIME: &str = "use a time, or a policy (icecore.retention)";
    if let Some(node) = retention.node("time") {
        let entries = retention.entries().iter();
        let time = entries.filter(|entry| entry.key == "time").cloned();
        let only = Node {
            at: node.at,
            value: Value::Map(time.collect()),
        };
        loader.section(TSDB_RETENTION, &only, retention.source);
    }
    let size = retention.parsed("size", parse_binary_size);
    if size.is_some_and(|bytes| bytes > 0) {
        retention.unsupported("size", NO_SIZE, BY_TIME);
    }
    let percentage = retention.factor("percentage").unwrap_or(0.0);
    if !(0.0..=100.0).contains(&percentage) {
        retention.report("percentage", "expected 0 to 100");
    } else if percentage > 0.0 {
        retention.unsupported("percentage", NO_SIZE, BY_TIME);
    }
    retention.finish();
}

/// A number that may be negative.
fn check_integer(fields: &mut Fields<'_>, key: &'static str) {
    let parse = |text: &str| text.parse::<i64>().map_err(|_| "a number".to_owned());
    fields.parsed(key, parse);
}
