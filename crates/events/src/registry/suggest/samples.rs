//! Sample events, added up by service and type.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::attributes::AttributeStats;
use crate::Problem;
use crate::registry::names::{EVENT_CHARS_MAX, SERVICE_CHARS_MAX, check_name, check_path};
use crate::registry::{FieldType, lookup};

const BYTES_MAX: usize = 64 << 20;

/// Of all types together. What comes later is not looked at.
const ATTRIBUTES_MAX: usize = 20_000;

/// As deep as events may be.
const DEPTH_MAX: usize = 8;

#[derive(Default)]
pub(super) struct TypeStats {
    pub(super) samples: usize,
    pub(super) has_end: bool,
    pub(super) attributes: BTreeMap<String, AttributeStats>,
    /// Paths that were objects.
    objects: BTreeSet<String>,
}

impl TypeStats {
    /// The type of an attribute; none where samples differ.
    pub(super) fn field_type(&self, path: &str) -> Option<FieldType> {
        let is_object = self.objects.contains(path);
        let mut others = self.attributes.keys();
        let has_more = others.any(|other| other != path && lookup::is_within(other, path));
        let attribute = self.attributes.get(path)?;
        attribute.field_type().filter(|_| !is_object && !has_more)
    }
}

/// By service and type.
pub(super) type Types = BTreeMap<(String, String), TypeStats>;

pub(super) fn read(samples: &str) -> Result<Types, Problem> {
    if samples.len() > BYTES_MAX {
        let reason = format!("samples have more than {BYTES_MAX} bytes");
        return Err(Problem::new(413, "config.invalid", reason));
    }
    let mut reader = Reader::default();
    if samples.trim_start().starts_with('[') {
        let list: Vec<Value> = serde_json::from_str(samples).map_err(|e| invalid(e, ""))?;
        for (index, sample) in list.iter().enumerate() {
            reader
                .add(sample)
                .map_err(|e| invalid(e, &format!("sample {index}: ")))?;
        }
    } else {
        let lines = samples.lines().enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let place = format!("line {}: ", index + 1);
            let sample = serde_json::from_str(line).map_err(|e| invalid(e, &place))?;
            reader.add(&sample).map_err(|e| invalid(e, &place))?;
        }
    }
    if reader.types.is_empty() {
        return Err(invalid("there are no samples", ""));
    }
    Ok(reader.types)
}

fn invalid(reason: impl std::fmt::Display, place: &str) -> Problem {
    Problem::new(400, "config.invalid", format!("{place}{reason}"))
}

#[derive(Default)]
struct Reader {
    types: Types,
    attributes: usize,
}

impl Reader {
    fn add(&mut self, sample: &Value) -> Result<(), String> {
        let resource = &sample["resource"];
        let places = [
            &resource["service"]["id"],
            &resource["service.id"],
            &resource["service"]["name"],
            &resource["service.name"],
        ];
        let service = places.iter().find_map(|place| place.as_str());
        let service = service.ok_or("it has no resource.service.id")?;
        check_name(service, SERVICE_CHARS_MAX).map_err(|why| format!("its service {why}"))?;
        let event = &sample["event"];
        let name = event["name"].as_str().or(sample["event.name"].as_str());
        let name = name.ok_or("it has no event.name")?;
        check_name(name, EVENT_CHARS_MAX).map_err(|why| format!("its name {why}"))?;
        self.add_event(service, name, sample, false, 0);
        Ok(())
    }

    fn add_event(
        &mut self,
        service: &str,
        name: &str,
        event: &Value,
        parent_ends: bool,
        depth: usize,
    ) {
        let key = (service.to_owned(), name.to_owned());
        let stats = self.types.entry(key).or_default();
        stats.samples += 1;
        let ends = ["endedAt", "endUnixNano"];
        let is_end = |key: &&str| !event["time"][*key].is_null() || !event[*key].is_null();
        let has_end = parent_ends || ends.iter().any(is_end);
        stats.has_end |= has_end;
        if let Value::Object(attributes) = &event["attributes"] {
            let mut leaves = BTreeMap::new();
            flatten(attributes, "", &mut leaves, &mut stats.objects, 0);
            for (path, value) in leaves {
                if stats.attributes.contains_key(&path) || self.attributes < ATTRIBUTES_MAX {
                    self.attributes += usize::from(!stats.attributes.contains_key(&path));
                    stats.attributes.entry(path).or_default().add(value);
                }
            }
        }
        let Value::Array(nested) = &event["events"] else {
            return;
        };
        for child in nested.iter().filter(|_| depth < DEPTH_MAX) {
            let child_name = match child["name"].as_str() {
                Some(child_name) => nested_name(child_name),
                None => format!("{name}:event"),
            };
            if check_name(&child_name, EVENT_CHARS_MAX).is_ok() {
                self.add_event(service, &child_name, child, has_end, depth + 1);
            }
        }
    }
}

/// The leaves of an object by their paths. Nulls say nothing, and paths that cannot be declared are
/// left out.
fn flatten<'a>(
    object: &'a Map<String, Value>,
    prefix: &str,
    leaves: &mut BTreeMap<String, &'a Value>,
    objects: &mut BTreeSet<String>,
    depth: usize,
) {
    for (key, value) in object {
        let path = match prefix {
            "" => key.clone(),
            prefix => format!("{prefix}.{key}"),
        };
        if check_path(&path).is_err() || depth > DEPTH_MAX {
            continue;
        }
        match value {
            Value::Null => {}
            Value::Object(inner) => {
                objects.insert(path.clone());
                flatten(inner, &path, leaves, objects, depth + 1);
            }
            leaf => {
                leaves.insert(path, leaf);
            }
        }
    }
}

/// The type of a nested event: lower case, and a `_` for each run of other characters.
fn nested_name(name: &str) -> String {
    let mut made = String::new();
    for c in name.trim().to_lowercase().chars() {
        if c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c) {
            made.push(c);
        } else if !made.ends_with('_') {
            made.push('_');
        }
    }
    made
}
