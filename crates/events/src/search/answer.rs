//! Answers as JSON text: a list of events, or columns of them.

use std::fmt::Write as _;

use super::collect::Found;
use super::links::Links;
use super::request::SearchRequest;
use super::time_zone::Zone;
use crate::json_text::{push_attributes, push_string};
use crate::{StoredEvent, event_id_text};

pub(super) struct Answer<'a> {
    request: &'a SearchRequest,
    found: &'a Found,
}

impl<'a> Answer<'a> {
    pub(super) fn new(request: &'a SearchRequest, found: &'a Found) -> Self {
        Self { request, found }
    }

    pub(super) fn write(&self) -> String {
        let Self { request, found } = self;
        let mut out = String::with_capacity(1_024 * (found.events.len() + 1));
        push(
            &mut out,
            format_args!("{{\"count\":{},", found.events.len()),
        );
        if let Some(total) = found.total {
            push(&mut out, format_args!("\"total\":{total},"));
        }
        let format = if request.columnar { "columnar" } else { "row" };
        push(
            &mut out,
            format_args!(
                "\"limit\":{},\"offset\":{},\"format\":\"{format}\",\"data\":{{\"events\":",
                request.limit, request.offset,
            ),
        );
        if request.columnar {
            push_columns(&mut out, &found.events, &request.zone);
        } else {
            push_rows(&mut out, &found.events, &request.zone);
        }
        out.push_str("},\"links\":");
        let last = found.events.last().filter(|_| found.has_more);
        let links = Links {
            request,
            total: found.total,
            next: last.map(|event| request.order.cursor(request.order.place(event))),
        };
        out.push_str(&links.json().to_string());
        out.push('}');
        out
    }
}

/// A list of events as objects.
pub(super) fn push_rows(out: &mut String, events: &[StoredEvent<'_>], zone: &Zone) {
    out.push('[');
    for (at, event) in events.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_row(out, event, zone);
    }
    out.push(']');
}

/// An event as an object: what it does not have is not there.
pub(super) fn push_row(out: &mut String, event: &StoredEvent<'_>, zone: &Zone) {
    out.push('{');
    let start = out.len();
    for column in &COLUMNS {
        let before = out.len();
        if before > start {
            out.push(',');
        }
        push(out, format_args!("\"{}\":", column.name));
        if !(column.push)(out, event, zone) {
            out.truncate(before);
        }
    }
    // An object of its own: its fields follow those of the columns.
    let rest = event.rest.trim().strip_prefix('{').unwrap_or_default();
    if !rest.trim_start().is_empty() && !rest.trim_start().starts_with('}') {
        out.push(',');
        out.push_str(rest);
    } else {
        out.push('}');
    }
}

/// `{"schema": …, "data": …}`, with those columns that one of the events has.
fn push_columns(out: &mut String, events: &[StoredEvent<'_>], zone: &Zone) {
    let mut scratch = String::new();
    let mut has = |column: &&Column| {
        let mut events = events.iter();
        column.is_required || events.any(|event| (column.push)(&mut scratch, event, zone))
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| has(column)).collect();
    out.push_str("{\"schema\":{\"fields\":[");
    for (at, column) in columns.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let (name, kind) = (column.name, column.kind);
        push(
            out,
            format_args!("{comma}{{\"name\":\"{name}\",\"type\":\"{kind}\"}}"),
        );
    }
    out.push_str("]},\"data\":{");
    for (at, column) in columns.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        push(out, format_args!("{comma}\"{}\":[", column.name));
        for (at, event) in events.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            if !(column.push)(out, event, zone) {
                out.push_str("null");
            }
        }
        out.push(']');
    }
    out.push_str("}}");
}

struct Column {
    name: &'static str,
    /// As columnar answers name types.
    kind: &'static str,
    is_required: bool,
    /// Appends the value; false, and nothing appended, if the event has none.
    push: fn(&mut String, &StoredEvent<'_>, &Zone) -> bool,
}

const fn column(
    name: &'static str,
    kind: &'static str,
    is_required: bool,
    push: fn(&mut String, &StoredEvent<'_>, &Zone) -> bool,
) -> Column {
    Column {
        name,
        kind,
        is_required,
        push,
    }
}

const COLUMNS: [Column; 20] = [
    column("event_id", "string", true, |out, event, _| {
        text(out, Some(&event_id_text(event.id)))
    }),
    column("parent_event_id", "string", false, |out, event, _| {
        text(out, event.parent.map(event_id_text).as_deref())
    }),
    column("service_id", "string", true, |out, event, _| {
        text(out, Some(&event.service))
    }),
    column("event_type", "string", true, |out, event, _| {
        text(out, Some(&event.event_type))
    }),
    column("name", "string", true, |out, event, _| {
        text(out, Some(&event.name))
    }),
    column("kind", "string", false, |out, event, _| {
        text(out, event.kind.map(|kind| kind.name()))
    }),
    column("outcome", "string", true, |out, event, _| {
        text(out, Some(&event.outcome))
    }),
    column("error_code", "string", false, |out, event, _| {
        text(out, event.error_code.as_deref())
    }),
    column("error_message", "string", false, |out, event, _| {
        text(out, event.error_message.as_deref())
    }),
    column("started_at", "datetime", true, |out, event, zone| {
        time(out, zone, Some(event.started_ns))
    }),
    column("ended_at", "datetime", false, |out, event, zone| {
        time(out, zone, event.ended_ns)
    }),
    column("received_at", "datetime", true, |out, event, zone| {
        time(out, zone, Some(event.received_ns))
    }),
    column("duration_nanos", "integer", false, |out, event, _| {
        event
            .duration_ns
            .map(|ns| push(out, format_args!("{ns}")))
            .is_some()
    }),
    column("trace_id", "string", false, |out, event, _| {
        text(out, event.trace_id.map(|id| hex(&id)).as_deref())
    }),
    column("span_id", "string", false, |out, event, _| {
        text(out, event.span_id.map(|id| hex(&id)).as_deref())
    }),
    column("parent_span_id", "string", false, |out, event, _| {
        text(out, event.parent_span_id.map(|id| hex(&id)).as_deref())
    }),
    column("correlation_id", "string", false, |out, event, _| {
        text(out, event.correlation_id.as_deref())
    }),
    column("dim_hash", "string", true, |out, event, _| {
        text(out, Some(&hex(&event.dimensions.0)))
    }),
    column("synthetic", "boolean", false, |out, event, _| {
        event.synthetic.then(|| out.push_str("true")).is_some()
    }),
    column("attributes", "object", true, |out, event, _| {
        push_attributes(out, &event.attributes);
        true
    }),
];

fn text(out: &mut String, text: Option<&str>) -> bool {
    text.map(|text| push_string(out, text)).is_some()
}

fn time(out: &mut String, zone: &Zone, at_ns: Option<i64>) -> bool {
    at_ns.map(|at_ns| zone.push(out, at_ns)).is_some()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    bytes
        .iter()
        .for_each(|byte| push(&mut text, format_args!("{byte:02x}")));
    text
}

/// Writing to a string does not fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
