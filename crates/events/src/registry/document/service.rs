//! All of a service in one map:
//! `{service, snapshotId, createdAt, defaults, events, stateExtractors, stateRetention}`.
//!
//! Each event is a document with its metrics in the list `metrics`; what they inherit from the
//! service and the event need not be said again. The file of state extractors is such a map, too.

use std::time::Duration;

use icecore_settings::{Fields, Node, SourceFile, Value};

use super::{Body, Document, Places, checked_text, metric, names, read_document, read_ttl, states};
use crate::registry::WindowRetention;

/// What a document need not say, because it is a part of something that does.
#[derive(Default)]
pub(super) struct Inherited {
    pub(super) service: Option<String>,
    pub(super) event: Option<String>,
    pub(super) kind: Option<&'static str>,
    pub(super) event_ttl: Option<Duration>,
    pub(super) window_retention: WindowRetention,
}

pub(super) fn read(node: &Node, source: &SourceFile<'_>) -> Vec<Document> {
    let mut fields = Fields::of(node, "", source);
    let check = |name: &str| names::check_name(name, names::SERVICE_CHARS_MAX);
    let service = checked_text(&mut fields, "service", check);
    // Who has made the document, and when, is theirs to know.
    fields.text("snapshotId");
    fields.text("createdAt");
    let mut inherited = Inherited {
        service: service.clone(),
        ..Inherited::default()
    };
    if let Some(defaults) = fields.map("defaults") {
        read_defaults(defaults, &mut inherited);
    }
    let mut documents = Vec::new();
    let nodes = fields.list("events");
    for (index, node) in nodes.iter().enumerate() {
        let path = format!("events[{index}]");
        documents.extend(read_event(node, &path, source, &mut inherited));
    }
    let has_states = fields.raw("stateExtractors").is_some();
    let extractors = states::read_list(&mut fields);
    let mut retention = inherited.window_retention;
    if let Some(windows) = fields.map("stateRetention") {
        metric::read_windows(windows, &mut retention);
        if !has_states {
            fields.report("stateRetention", "is only for `stateExtractors`");
        }
    }
    if has_states && let Some(service) = service {
        let body = Body::States {
            service,
            extractors,
            retention,
        };
        let places = Places::of(node, "", source.file);
        documents.push(Document { body, places });
    }
    fields.finish();
    documents
}

/// `{retention: {ttl}, rollup: {retention: {5s: …}}}`: of events, and of cells.
fn read_defaults(mut defaults: Fields<'_>, inherited: &mut Inherited) {
    inherited.event_ttl = read_ttl(&mut defaults);
    if let Some(mut rollup) = defaults.map("rollup") {
        metric::read_retention(&mut rollup, &mut inherited.window_retention);
        rollup.finish();
    }
    defaults.finish();
}

/// An event with its metrics. The metrics are taken out first: an event alone has none.
fn read_event(
    node: &Node,
    path: &str,
    source: &SourceFile<'_>,
    inherited: &mut Inherited,
) -> Vec<Document> {
    let mut event = node.clone();
    let mut metrics = None;
    if let Value::Map(entries) = &mut event.value {
        let at = entries.iter().position(|entry| entry.key == "metrics");
        metrics = at.map(|at| entries.remove(at).node);
    }
    inherited.kind = Some("Event");
    inherited.event = None;
    let mut documents = Vec::new();
    documents.extend(read_document(&event, path, source, inherited));
    inherited.kind = None;
    inherited.event = documents.iter().find_map(|document| match &document.body {
        Body::Event(event_type) => Some(event_type.name.clone()),
        _ => None,
    });
    let path = format!("{path}.metrics");
    match metrics.as_ref().map(|node| (&node.value, node.at)) {
        None | Some((Value::Null, _)) => {}
        Some((Value::List(nodes), _)) => {
            for (index, node) in nodes.iter().enumerate() {
                let path = format!("{path}[{index}]");
                // An event that could not be read has been reported; its metrics have no other.
                if inherited.event.is_some() {
                    documents.extend(read_document(node, &path, source, inherited));
                }
            }
        }
        Some((_, at)) => source.report(at, &path, "expected a list of documents"),
    }
    documents
}
