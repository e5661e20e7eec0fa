//! The configuration file: a Prometheus configuration plus one section `icecore:`. Prometheus' own section
//! `otlp:` has the same settings as `icecore.otlp:`.
//!
//! Holds always: a key that nobody knows is an error with its line and column; a key of Prometheus
//! that is not acted upon is named, so that nobody believes it was.

use std::path::Path;

use icecore_settings::yaml::{self, Entry, Node, Position, Value};
use icecore_settings::{ConfigError, Fields, Kind, Problem, SourceFile, nearest, quoted};

use super::registry::{self, SECTIONS, SETTINGS, Setting};
use icecore_scrape::{self as scrape, ScrapeSettings};

/// Our section.
pub(super) const SECTION: &str = "icecore";

/// What a Prometheus configuration may contain besides [`scrape::KEYS`]; none of it is acted upon.
const PROMETHEUS_KEYS: [&str; 7] = [
    "rule_files",
    "alerting",
    "remote_write",
    "remote_read",
    "storage",
    "tracing",
    "runtime",
];

/// Prometheus' section whose settings are ours by the same names.
const OTLP: &str = "otlp";

/// Prometheus has a top-level section `storage` too. What it may hold is checked already, because
/// our own storage settings are easily written there by mistake, and would be ignored.
const PROMETHEUS_STORAGE_KEYS: [&str; 2] = ["tsdb", "exemplars"];

/// A real file is a few hundred kilobytes at most; this keeps a wrong path (a disk image, say) from
/// being read into memory.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What the file says.
#[derive(Debug, Default)]
pub(crate) struct FileSettings {
    /// About our settings.
    pub(super) given: Vec<Given>,
    pub(crate) scrape: ScrapeSettings,
    /// Keys of Prometheus that are there and not acted upon.
    not_acted_upon: Vec<String>,
    pub(crate) problems: Vec<Problem>,
}

pub(super) fn sort_problems(problems: &mut [Problem], main: &Path) {
    problems.sort_by_key(|problem| {
        let (path, at) = problem.place.as_ref()?;
        let other = (path != main).then(|| path.clone());
        Some((other, at.line, at.column))
    });
}

/// One setting found in the file.
#[derive(Debug)]
pub(crate) struct Given {
    /// Into [`SETTINGS`].
    pub(super) index: usize,
    pub(super) text: String,
    pub(super) at: Position,
}

pub(crate) fn read(path: &Path) -> Result<FileSettings, ConfigError> {
    let unreadable = |source| ConfigError::Read {
        path: path.into(),
        source,
    };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > FILE_BYTES_MAX {
        let reason = format!("it has {bytes} bytes, more than {FILE_BYTES_MAX}");
        return Err(unreadable(std::io::Error::other(reason)));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    Ok(interpret(&text, path))
}

/// Sorts the file's text into settings, known foreign keys and problems.
pub(super) fn interpret(text: &str, path: &Path) -> FileSettings {
    let source = SourceFile::new(path);
    let mut found = FileSettings::default();
    match yaml::parse(text) {
        Ok(root) => {
            let mut reader = Reader {
                source: &source,
                found,
            };
            reader.top_level(&root);
            reader.scrape(&root);
            found = reader.found;
        }
        Err(error) => source.complain(error.at, "", error.reason),
    }
    found.problems.extend(source.into_problems());
    if !found.not_acted_upon.is_empty() {
        found.scrape.warnings.push(format!(
            "{}: not acted upon yet: {}",
            path.display(),
            found.not_acted_upon.join(", ")
        ));
    }
    found
}

struct Reader<'a> {
    source: &'a SourceFile<'a>,
    found: FileSettings,
}

impl<'a> Reader<'a> {
    fn top_level(&mut self, root: &'a Node) {
        for entry in self.entries(root, "the file") {
            let known = PROMETHEUS_KEYS.iter().find(|key| **key == entry.key);
            if entry.key == SECTION {
                self.section(SECTION, &entry.node);
            } else if entry.key == OTLP {
                self.section(OTLP, &entry.node);
            } else if scrape::KEYS.contains(&entry.key.as_str()) {
                // Read below, as a whole: jobs depend on what `global` says.
            } else if let Some(key) = known {
                if !matches!(entry.node.value, Value::Null) {
                    self.found.not_acted_upon.push((*key).into());
                }
                if *key == "storage" {
                    self.prometheus_storage(&entry.node);
                }
            } else {
                let top = PROMETHEUS_KEYS
                    .into_iter()
                    .chain(scrape::KEYS)
                    .chain([SECTION, OTLP]);
                let cure = match SECTIONS.iter().find(|(name, _)| *name == entry.key) {
                    Some((name, _)) => Some(format!("{SECTION}.{name}")),
                    None => nearest(&entry.key, top).map(Into::into),
                };
                self.unknown(&entry.key, entry.key_at, cure);
            }
        }
    }

    fn scrape(&mut self, root: &Node) {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let not_acted_upon = &mut self.found.not_acted_upon;
        let (settings, problems) = scrape::read(root, self.source.file, &variable, not_acted_upon);
        self.found.scrape = settings;
        self.found.problems.extend(problems);
    }

    fn prometheus_storage(&self, node: &'a Node) {
        for entry in self.entries(node, "storage") {
            if !PROMETHEUS_STORAGE_KEYS.contains(&entry.key.as_str()) {
                let path = format!("storage.{}", entry.key);
                let cure = match registry::index_of(&path) {
                    Some(_) => Some(format!("{SECTION}.{path}")),
                    None => nearest(&entry.key, PROMETHEUS_STORAGE_KEYS)
                        .map(|near| format!("storage.{near}")),
                };
                self.unknown(&path, entry.key_at, cure);
            }
        }
    }

    /// `prefix` is the path from the top of the file: `icecore`, then `icecore.storage`; or `otlp`.
    fn section(&mut self, prefix: &str, node: &'a Node) {
        for entry in self.entries(node, prefix) {
            let path = format!("{prefix}.{}", entry.key);
            let key = within_section(&path);
            let begins = |setting: &&Setting| {
                let rest = setting.key.strip_prefix(key);
                rest.is_some_and(|rest| rest.starts_with('.'))
            };
            if let Some(index) = registry::index_of(key) {
                self.setting(index, &path, &entry.node);
            } else if SETTINGS.iter().find(begins).is_some() {
                self.section(&path, &entry.node);
            } else {
                self.unknown(
                    &path,
                    entry.key_at,
                    suggest(key).map(|near| format!("{SECTION}.{near}")),
                );
            }
        }
    }

    fn setting(&mut self, index: usize, path: &str, node: &Node) {
        let Some(setting) = SETTINGS.get(index) else {
            return;
        };
        let found = match &node.value {
            Value::Scalar {
                text,
                quoted: false,
            } => Ok(text.clone()),
            // A number or a boolean in quotes is a string: what goes in must be what was meant.
            Value::Scalar { text, quoted: true } => match setting.kind {
                Kind::Bool | Kind::Integer => Err(format!("the string {}", quoted(text))),
                _ => Ok(text.clone()),
            },
            Value::List(nodes) if setting.kind == Kind::Names => joined(nodes),
            Value::Null => Err("nothing".into()),
            Value::List(_) => Err("a list".into()),
            Value::Map(_) => Err("a map".into()),
        };
        match found {
            Ok(text) => self.found.given.push(Given {
                index,
                text,
                at: node.at,
            }),
            Err(found) => {
                let reason = format!("expected {}, found {found}", setting.kind);
                self.source.complain(node.at, path, reason);
            }
        }
    }

    /// The entries of a map; nothing at all is an empty one (everything in it commented out).
    fn entries(&self, node: &'a Node, path: &str) -> &'a [Entry] {
        Fields::of(node, path, self.source).entries()
    }

    fn unknown(&self, path: &str, at: Position, cure: Option<String>) {
        let cure = cure.map(|near| format!("did you mean {near}?"));
        let problem = Problem::new(path, "unknown key").cure(cure);
        self.source.complain_of(at, problem);
    }
}

/// A list of names as flags and variables have it, or what is in it instead.
fn joined(nodes: &[Node]) -> Result<String, String> {
    let mut names = Vec::with_capacity(nodes.len());
    for node in nodes {
        match &node.value {
            Value::Scalar { text, .. } if !text.contains(',') => names.push(text.as_str()),
            Value::Scalar { text, .. } => return Err(format!("{} in a list", quoted(text))),
            Value::Null | Value::List(_) | Value::Map(_) => {
                return Err("a list of something else".into());
            }
        }
    }
    Ok(names.join(","))
}

/// `icecore.storage.fsync` → `storage.fsync`.
fn within_section(path: &str) -> &str {
    path.strip_prefix(SECTION)
        .and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or(path)
}

/// The key or section that a misspelt key most likely means: spelt nearly the same, or of the same
/// name in another section.
fn suggest(key: &str) -> Option<&'static str> {
    let last = key.rsplit('.').next().unwrap_or(key);
    let keys = SETTINGS.iter().map(|setting| setting.key);
    let sections = SECTIONS.iter().map(|(name, _)| *name);
    let same_name = || SETTINGS.iter().find(|setting| setting.name() == last);
    let near_name = || nearest(last, SETTINGS.iter().map(Setting::name));
    let of_name = |name| SETTINGS.iter().find(|setting| setting.name() == name);
    nearest(key, keys.chain(sections))
        .or_else(|| same_name().map(|setting| setting.key))
        .or_else(|| near_name().and_then(of_name).map(|setting| setting.key))
}
