//! The body of a search, checked.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::clauses::{Reader, Subjects};
use super::cursor::{Order, OrderBy, Place};
use super::fields::{self, Fields};
use super::period;
use super::source::EventRows;
use super::time_zone::Zone;
use crate::query::Condition;
use crate::{EventType, Problem};

/// Events of a page, unless the request says otherwise, and at most.
const DEFAULT_LIMIT: usize = 100;
pub(super) const MAX_LIMIT: usize = 1_000;

/// Places of events that are skipped are held until the page is known; a cursor needs no skipping.
const MAX_OFFSET: usize = 10_000;

#[derive(Clone, Debug)]
pub(super) struct SearchRequest {
    pub(super) service: String,
    pub(super) event: Option<String>,
    pub(super) started_ns: Range<i64>,
    pub(super) condition: Option<Arc<Condition>>,
    pub(super) order: Order,
    pub(super) limit: usize,
    pub(super) offset: usize,
    /// Go on behind this place instead of skipping.
    pub(super) after: Option<Place>,
    pub(super) include_total: bool,
    pub(super) columnar: bool,
    pub(super) zone: Zone,
    /// As it was sent: links repeat it.
    pub(super) body: Fields,
}

impl SearchRequest {
    pub(super) fn parse(rows: &dyn EventRows, body: &[u8]) -> Result<Self, Problem> {
        Self::from_fields(rows, fields::parse(body)?)
    }

    pub(super) fn from_fields(rows: &dyn EventRows, body: Fields) -> Result<Self, Problem> {
        let service = fields::required(&body, "service")?;
        let event = fields::text(&body, "event")?.filter(|event| !event.is_empty());
        let types = types(rows, service, event)?;
        let order = order(&body)?;
        let cursor = fields::text(&body, "cursor")?;
        let limit = fields::count(&body, "limit")?.unwrap_or(DEFAULT_LIMIT);
        if limit == 0 {
            return Err(fields::invalid("limit", "must be at least 1"));
        }
        let offset = fields::count(&body, "offset")?.unwrap_or(0);
        if offset > MAX_OFFSET && cursor.is_none() {
            let detail = format!("offset is greater than {MAX_OFFSET}");
            let hint = "links.next.body has a cursor, which goes on from any place";
            return Err(Problem::new(400, "query.limit-exceeded", detail).with_hint(hint));
        }
        Ok(Self {
            service: service.to_owned(),
            event: event.map(String::from),
            started_ns: period::parse(&body, rows.now_ms())?,
            condition: condition(&body, &types)?.map(Arc::new),
            order,
            limit: limit.min(MAX_LIMIT),
            offset,
            after: cursor
                .map(|cursor| order.parse_cursor(cursor))
                .transpose()?,
            include_total: fields::flag(&body, "includeTotal")?,
            columnar: columnar(&body)?,
            zone: Zone::parse(fields::text(&body, "tz")?.unwrap_or_default())?,
            body,
        })
    }

    /// How many of the first events are skipped: a cursor has skipped them already.
    pub(super) fn skipped(&self) -> usize {
        if self.after.is_some() { 0 } else { self.offset }
    }
}

/// The types that are searched.
fn types<'r>(
    rows: &'r dyn EventRows,
    service: &str,
    event: Option<&str>,
) -> Result<Vec<&'r EventType>, Problem> {
    let registry = rows.registry();
    let Some(event) = event else {
        let service = registry.service(service);
        let types = service.iter().flat_map(|service| service.types.values());
        return Ok(types.map(|event_type| &**event_type).collect());
    };
    let found = registry.event_type(service, event);
    let found = found.ok_or_else(|| {
        let detail = format!("{service} has no event type {event:?}");
        Problem::new(404, "query.unknown-type", detail)
    })?;
    Ok(vec![found])
}

/// What `match` and `filter` ask for.
fn condition(body: &Fields, types: &[&EventType]) -> Result<Option<Condition>, Problem> {
    let mut parts = Vec::new();
    for (name, subjects) in [
        ("match", Subjects::Indexed(types)),
        ("filter", Subjects::All),
    ] {
        if let Some(value) = fields::get(body, name) {
            parts.push(Reader::new(subjects).read(value)?);
        }
    }
    Ok(match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Condition::All(parts)),
    })
}

/// `[{"field": "started_at", "dir": "desc"}]`, or one of them.
fn order(body: &Fields) -> Result<Order, Problem> {
    let wrong = |reason: &str| Problem::new(400, "query.invalid-order", reason);
    let first = match fields::get(body, "order") {
        None => None,
        Some(Value::Array(list)) => {
            let by_id = |entry: &Value| entry["field"] == "event_id" && entry["dir"] != "desc";
            if list.iter().skip(1).any(|entry| !by_id(entry)) {
                return Err(wrong("events are ordered by one time, then by event_id"));
            }
            list.first()
        }
        Some(one) => Some(one),
    };
    let mut order = Order {
        by: OrderBy::Started,
        newest_first: true,
    };
    let Some(first) = first else {
        return Ok(order);
    };
    let Value::Object(entry) = first else {
        return Err(wrong("an entry of order has a field and a dir"));
    };
    order.by = match fields::text(entry, "field")? {
        Some("started_at" | "startedAt") => OrderBy::Started,
        Some("received_at" | "receivedAt") => OrderBy::Received,
        _ => return Err(wrong("events are ordered by started_at or received_at")),
    };
    let dir = fields::text(entry, "dir")?.map(str::to_ascii_lowercase);
    order.newest_first = match dir.as_deref() {
        None | Some("desc") => true,
        Some("asc") => false,
        Some(_) => return Err(wrong("dir is asc or desc")),
    };
    Ok(order)
}

fn columnar(body: &Fields) -> Result<bool, Problem> {
    match fields::text(body, "format")? {
        None | Some("row") => Ok(false),
        Some("columnar") => Ok(true),
        Some(_) => Err(fields::invalid("format", "must be row or columnar")),
    }
}
