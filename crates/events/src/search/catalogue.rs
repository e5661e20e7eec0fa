//! What there is to search by: event types, indexed attributes, and values that they have had.

use serde_json::{Value, json};

use super::fields;
use super::request::MAX_LIMIT;
use super::source::EventRows;
use crate::time_text::time_text;
use crate::{EventType, FieldType, Problem, Registry};

/// Entries of a list, unless the request says otherwise.
const DEFAULT_LIMIT: usize = 100;

/// Which entries of a list.
#[derive(Clone, Debug, Default)]
pub struct CataloguePage {
    /// Only entries that begin with this.
    pub prefix: Option<String>,
    pub offset: Option<usize>,
    pub limit: Option<usize>,
}

impl CataloguePage {
    /// The entries of the page, and how many there are.
    fn of<T>(
        &self,
        entries: impl Iterator<Item = T>,
        name: impl Fn(&T) -> &str,
    ) -> Result<(Vec<T>, Value), Problem> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        if limit == 0 {
            return Err(fields::invalid("limit", "must be at least 1"));
        }
        let limit = limit.min(MAX_LIMIT);
        let offset = self.offset.unwrap_or(0);
        let prefix = self.prefix.as_deref().unwrap_or_default();
        let all: Vec<T> = entries
            .filter(|entry| name(entry).starts_with(prefix))
            .collect();
        let total = all.len();
        let page: Vec<T> = all.into_iter().skip(offset).take(limit).collect();
        let count = page.len();
        let sizes = json!({ "count": count, "total": total, "limit": limit, "offset": offset });
        Ok((page, sizes))
    }
}

/// Answers `GET /api/catalog/attributes/{service}/names`: indexed attributes of any of its types.
pub fn attribute_names(
    rows: &dyn EventRows,
    service: &str,
    page: &CataloguePage,
) -> Result<String, Problem> {
    let known = rows.registry().service(service);
    let types = known.iter().flat_map(|service| service.types.values());
    let indexed = types.flat_map(|event_type| &event_type.fields);
    let indexed = indexed.filter(|field| field.indexed);
    let mut names: Vec<&str> = indexed.map(|field| field.path.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let (names, mut answer) = page.of(names.into_iter(), |name| name)?;
    answer["service"] = json!(service);
    answer["attributes"] = json!(names);
    Ok(answer.to_string())
}

/// Answers `GET /api/catalog/attributes/{service}/{attribute}/values`.
pub async fn attribute_values(
    rows: &dyn EventRows,
    service: &str,
    attribute: &str,
    page: &CataloguePage,
) -> Result<String, Problem> {
    let values = match rows.registry().service(service) {
        Some(service) => rows.values_of(service.number, attribute).await?,
        None => Vec::new(),
    };
    let (values, mut answer) = page.of(values.into_iter(), |seen| &seen.value)?;
    let entries = values.into_iter().map(|seen| {
        json!({
            "attribute": seen.value,
            "seenCount": seen.events,
            "firstSeen": time_text(seen.first_ns),
            "lastSeen": time_text(seen.last_ns),
        })
    });
    let entries: Vec<Value> = entries.collect();
    answer["service"] = json!(service);
    answer["attribute"] = json!(attribute);
    answer["values"] = json!(entries);
    Ok(answer.to_string())
}

/// Answers `GET /api/catalog/event-type`: the types of all services, or of one.
pub fn event_types(registry: &Registry, service: Option<&str>) -> String {
    let types = registry.event_types();
    let types = types.filter(|of| service.is_none_or(|service| of.service == service));
    let entries: Vec<Value> = types.map(|event_type| entry(event_type)).collect();
    json!({ "count": entries.len(), "eventTypes": entries }).to_string()
}

fn entry(event_type: &EventType) -> Value {
    let fields = event_type.fields.iter().map(|field| {
        json!({
            "path": field.path,
            "type": type_name(field.kind),
            "required": field.required,
            "indexed": field.indexed,
        })
    });
    json!({
        "service": event_type.service,
        "name": event_type.name,
        "retentionSeconds": event_type.retention.as_secs(),
        "attributes": fields.collect::<Vec<_>>(),
        "dimensions": event_type.dimensions,
    })
}

fn type_name(kind: FieldType) -> &'static str {
    match kind {
        FieldType::String => "string",
        FieldType::Integer => "integer",
        FieldType::Number => "number",
        FieldType::Boolean => "boolean",
        FieldType::Timestamp => "timestamp",
        FieldType::ArrayOfString => "array of string",
        FieldType::ArrayOfInteger => "array of integer",
        FieldType::ArrayOfNumber => "array of number",
        FieldType::ArrayOfBoolean => "array of boolean",
        FieldType::ArrayOfTimestamp => "array of timestamp",
    }
}
