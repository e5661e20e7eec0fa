//! Documents of a registry, as they are written: YAML or JSON, a stream, files or an archive.
//!
//! Holds always:
//! - An unknown key is a problem, and every problem says which key, what was expected, and where;
//!   all are reported at once.
//! - What depends on other documents, or on what is registered already, is checked later; a
//!   document knows where everything in it was written.

mod event;
mod filter;
mod histogram;
mod metric;
mod places;
mod schema;
mod service;
mod states;

use std::path::Path;

use icecore_settings::yaml::parse_stream;
use icecore_settings::{Fields, Node, Problem, SourceFile, Value, nearest};

use super::names::{self, EVENT_CHARS_MAX, SERVICE_CHARS_MAX};
use super::{EventType, Metric, StateExtractor, WindowRetention, archive};
pub(super) use histogram::DEFAULT_BOUNDS;
pub(super) use places::Places;
use service::Inherited;

/// Far above any real registry, and little memory.
pub(super) const BYTES_MAX: usize = 16 << 20;

/// The only version that there is.
pub(super) const API_VERSION: &str = "obsinity/v1";

pub(super) const KINDS: [&str; 5] = [
    "Event",
    "MetricCounter",
    "MetricHistogram",
    "MetricGauge",
    "StateExtractors",
];

/// Documents that could be read.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    pub(super) items: Vec<Document>,
}

impl FromIterator<Documents> for Documents {
    fn from_iter<T: IntoIterator<Item = Documents>>(all: T) -> Self {
        let items = all.into_iter().flat_map(|documents| documents.items);
        Self {
            items: items.collect(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) body: Body,
    pub(super) places: Places,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Without numbers and metrics.
    Event(EventType),
    /// Without a number.
    Metric {
        service: String,
        event: String,
        metric: Metric,
    },
    /// All extractors of a service, and how long cells of states are kept.
    States {
        service: String,
        extractors: Vec<StateExtractor>,
        retention: WindowRetention,
    },
}

impl Documents {
    /// A stream of documents that `---` sets apart. JSON is YAML, too.
    pub fn parse_yaml(text: &str) -> Result<Self, Vec<Problem>> {
        Self::parse_files([("", text)])
    }

    /// The files of a tree; their names are used in messages alone.
    pub fn parse_files<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Vec<Problem>> {
        let mut documents = Self::default();
        let mut problems = Vec::new();
        let mut bytes = 0_usize;
        for (name, text) in files {
            bytes = bytes.saturating_add(text.len());
            if bytes > BYTES_MAX {
                let reason = format!("more than {BYTES_MAX} bytes of documents");
                problems.push(Problem::new(name, reason));
                break;
            }
            let source = SourceFile::new(Path::new(name));
            documents.read_text(text, &source);
            problems.extend(source.into_problems());
        }
        if problems.is_empty() {
            Ok(documents)
        } else {
            Err(problems)
        }
    }

    /// A tar of files, as it is or compressed with gzip. What is no YAML or JSON is left out.
    pub fn parse_archive(bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        let files = archive::read(bytes).map_err(|reason| vec![Problem::new("", reason)])?;
        let files = files.iter();
        Self::parse_files(files.map(|(name, text)| (name.as_str(), text.as_str())))
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The services that are named, in order, each once.
    pub fn services(&self) -> Vec<&str> {
        let mut services: Vec<&str> = self.items.iter().map(|item| item.body.service()).collect();
        services.sort_unstable();
        services.dedup();
        services
    }

    fn read_text(&mut self, text: &str, source: &SourceFile<'_>) {
        match parse_stream(text) {
            Ok(nodes) => {
                for node in &nodes {
                    if !matches!(node.value, Value::Null) {
                        self.read_node(node, source);
                    }
                }
            }
            Err(error) => source.report(error.at, "", error.reason),
        }
    }

    fn read_node(&mut self, node: &Node, source: &SourceFile<'_>) {
        let fields = Fields::of(node, "", source);
        if !fields.has("kind") && (fields.has("stateExtractors") || fields.has("events")) {
            self.items.extend(service::read(node, source));
            return;
        }
        self.items
            .extend(read_document(node, "", source, &Inherited::default()));
    }
}

impl Body {
    pub(super) fn service(&self) -> &str {
        match self {
            Self::Event(event_type) => &event_type.service,
            Self::Metric { service, .. } | Self::States { service, .. } => service,
        }
    }
}

/// Reads one document of any kind. `None` only where a problem was reported.
fn read_document(
    node: &Node,
    path: &str,
    source: &SourceFile<'_>,
    inherited: &Inherited,
) -> Option<Document> {
    let mut fields = Fields::of(node, path, source);
    let version = fields.spanned_text("apiVersion");
    if version.is_some_and(|version| version.value != API_VERSION) {
        fields.report("apiVersion", format!("expected {API_VERSION}"));
    }
    let kind = match inherited.kind {
        Some(kind) if !fields.has("kind") => kind.to_owned(),
        _ => required_text(&mut fields, "kind")?,
    };
    let body = match kind.as_str() {
        "Event" => event::read(&mut fields, inherited).map(Body::Event),
        "MetricCounter" | "MetricHistogram" | "MetricGauge" => {
            metric::read(&mut fields, &kind, inherited)
        }
        "StateExtractors" => states::read_document(&mut fields, inherited),
        other => {
            let expected = KINDS.join(", ");
            let reason = format!("expected one of {expected}, found {other:?}");
            let problem = Problem::new(fields.path_of("kind"), reason);
            let problem = problem.did_you_mean(nearest(other, KINDS));
            source.report_problem(fields.position("kind"), problem);
            return None;
        }
    };
    fields.finish();
    Some(Document {
        body: body?,
        places: Places::of(node, path, source.file),
    })
}

fn required_text(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
    if fields.node(key).is_none() {
        fields.report(key, "is missing");
        return None;
    }
    fields.text(key)
}

/// A text that must be there and pass a check.
fn checked_text(
    fields: &mut Fields<'_>,
    key: &'static str,
    check: impl FnOnce(&str) -> Result<(), String>,
) -> Option<String> {
    let text = required_text(fields, key)?;
    match check(&text) {
        Ok(()) => Some(text),
        Err(reason) => {
            fields.report(key, reason);
            None
        }
    }
}

/// The path of an attribute, if one is given.
fn optional_path(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
    fields.node(key)?;
    checked_text(fields, key, names::check_path)
}

fn read_service(fields: &mut Fields<'_>, inherited: &Inherited) -> Option<String> {
    let known = inherited.service.as_deref();
    inherited_name(fields, "service", known, SERVICE_CHARS_MAX)
}

fn read_event_name(fields: &mut Fields<'_>, inherited: &Inherited) -> Option<String> {
    let known = inherited.event.as_deref();
    inherited_name(fields, "event", known, EVENT_CHARS_MAX)
}

/// A name that may be left out where the document around this one says it.
fn inherited_name(
    fields: &mut Fields<'_>,
    key: &'static str,
    known: Option<&str>,
    chars_max: usize,
) -> Option<String> {
    if known.is_some() && fields.node(key).is_none() {
        return known.map(str::to_owned);
    }
    let name = checked_text(fields, key, |name| names::check_name(name, chars_max))?;
    if let Some(known) = known.filter(|known| *known != name) {
        fields.report(
            key,
            format!("differs from {known:?}, which it is a part of"),
        );
        return None;
    }
    Some(name)
}

/// The map of a key that must be there.
fn required_map<'a>(fields: &mut Fields<'a>, key: &'static str) -> Option<Fields<'a>> {
    let map = fields.map(key);
    if map.is_none() {
        fields.report(key, "is missing");
    }
    map
}

/// `retention: {ttl: 30d}`.
fn read_ttl(fields: &mut Fields<'_>) -> Option<std::time::Duration> {
    let mut retention = fields.map("retention")?;
    let ttl = read_positive_duration(&mut retention, "ttl");
    retention.finish();
    ttl
}

fn read_positive_duration(
    fields: &mut Fields<'_>,
    key: &'static str,
) -> Option<std::time::Duration> {
    let duration = fields.duration(key)?;
    if duration.as_secs() == 0 {
        fields.report(key, "expected at least one second");
        return None;
    }
    Some(duration)
}
