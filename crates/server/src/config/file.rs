//! The configuration file: a Prometheus configuration plus one section `icecore:`. Prometheus' own
//! section `otlp:` has the same settings as `icecore.otlp:`, its `runtime.log_level` is
//! `icecore.log.level`, which counts where both are given.
//!
//! Holds always: an unknown key is an error with its line and column; a key of Prometheus that has
//! no effect is named, so that nobody believes it had.

use std::path::Path;

use icecore_scrape as scrape;
use icecore_settings::yaml::{Node, Value};
use icecore_settings::{ConfigError, Fields, Loader, SECTION, SourceFile, read_text};

use super::Config;
use super::registry::{REGISTRY, SECTIONS};
use super::retention;

/// What a Prometheus configuration may contain and has no effect.
const UNSUPPORTED: [&str; 6] = [
    "rule_files",
    "alerting",
    "remote_write",
    "remote_read",
    "storage",
    "tracing",
];

/// Prometheus' section whose settings are ours by the same names.
const OTLP: &str = "otlp";

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
    if let Some(root) = source.parse(text) {
        let mut top = Fields::of(&root, "", &source);
        let runtime = top.map("runtime");
        let has_gogc = runtime.is_some_and(|runtime| read_runtime(runtime, &source, loader));
        for section in [SECTION, OTLP] {
            if let Some(node) = top.node(section) {
                loader.section(section, node, &source);
            }
        }
        let mut unsupported = UNSUPPORTED.to_vec();
        unsupported.retain(|key| top.node(key).is_some());
        unsupported.extend(has_gogc.then_some("runtime.gogc"));
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        loader.config.scrape = scrape::read(&mut top, &variable, &mut unsupported);
        if let Some(storage) = top.map("storage") {
            check_prometheus_storage(storage);
        }
        top.finish_with(|key, problem| {
            if SECTIONS.iter().any(|(name, _)| *name == key) {
                problem.did_you_mean(Some(&format!("{SECTION}.{key}")))
            } else if retention::KEYS.contains(&key) {
                problem.did_you_mean(Some(&format!("{SECTION}.retention.{key}")))
            } else {
                problem
            }
        });
        if !unsupported.is_empty() {
            let path = path.display();
            let keys = unsupported.join(", ");
            let warning = format!("{path}: ignoring unsupported keys: {keys}");
            loader.warnings.push(warning);
        }
    }
    loader.problems.extend(source.into_problems());
}

/// Reads Prometheus' section `runtime`, and returns whether it tunes Go's garbage collection.
fn read_runtime(
    mut runtime: Fields<'_>,
    source: &SourceFile<'_>,
    loader: &mut Loader<Config>,
) -> bool {
    if let Some(level) = runtime.node("log_level") {
        // There, upper case will do.
        let level = match &level.value {
            Value::Scalar { text, quoted } => Node {
                at: level.at,
                value: Value::Scalar {
                    text: text.to_ascii_lowercase(),
                    quoted: *quoted,
                },
            },
            _ => level.clone(),
        };
        loader.other_name("log.level", "runtime.log_level", &level, source);
    }
    let has_gogc = runtime.node("gogc").is_some();
    runtime.finish();
    has_gogc
}

/// Prometheus has a top-level section `storage` too. Its keys are checked although they have no
/// effect, because our own storage settings are easily written there by mistake.
fn check_prometheus_storage(mut storage: Fields<'_>) {
    storage.node("tsdb");
    storage.node("exemplars");
    storage.finish_with(|key, problem| {
        let key = format!("storage.{key}");
        if REGISTRY.index_of(&key).is_some() {
            problem.did_you_mean(Some(&format!("{SECTION}.{key}")))
        } else {
            problem
        }
    });
}
