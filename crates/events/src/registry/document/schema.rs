//! The schema of an event: a tree of properties, which becomes a list of paths.
//!
//! Holds always: fields are sorted by path, each path once, and none of them is an object of
//! another.

use std::collections::{BTreeMap, BTreeSet};

use icecore_settings::{Fields, Position, Spanned};

use super::{names, required_text};
use crate::registry::{Field, FieldType};

/// Four times what one event may have.
const FIELDS_MAX: usize = 2_048;

#[derive(Default)]
pub(super) struct Schema {
    pub(super) fields: Vec<Field>,
    /// Sorted.
    pub(super) objects: Vec<String>,
}

/// What the tree has, with where it was written.
#[derive(Default)]
struct Leaves {
    fields: BTreeMap<String, (Field, Position, String)>,
    objects: BTreeSet<String>,
    required: Vec<(Spanned<String>, String)>,
}

/// Reads the key `schema` of a spec.
pub(super) fn read(spec: &mut Fields<'_>) -> Schema {
    let Some(mut schema) = spec.map("schema") else {
        return Schema::default();
    };
    let source = schema.source;
    if let Some(kind) = schema.text("type")
        && kind != "object"
    {
        schema.report("type", format!("expected object, found {kind:?}"));
    }
    let mut leaves = Leaves::default();
    read_object(&mut schema, "", &mut leaves);
    schema.finish();

    for (path, (field, ..)) in &leaves.fields {
        let dots = path.match_indices('.').map(|(at, _)| at);
        let parents = dots.map(|at| field.path[..at].to_owned());
        leaves.objects.extend(parents);
    }
    for (path, (_, at, subject)) in &leaves.fields {
        if leaves.objects.contains(path) {
            let reason = format!("{path:?} is an attribute and an object");
            source.report(*at, subject, reason);
        }
    }
    for (required, subject) in &leaves.required {
        let path = &required.value;
        match leaves.fields.get_mut(path) {
            Some((field, ..)) => field.required = true,
            None if leaves.objects.contains(path) => {
                let reason = format!("{path:?} is an object; name the attributes in it");
                source.report(required.at, subject, reason);
            }
            None => {
                let reason = format!("{path:?} is not among the properties");
                source.report(required.at, subject, reason);
            }
        }
    }
    if leaves.fields.len() > FIELDS_MAX {
        spec.report("schema", format!("has more than {FIELDS_MAX} attributes"));
    }
    Schema {
        fields: leaves
            .fields
            .into_values()
            .map(|(field, ..)| field)
            .collect(),
        objects: leaves.objects.into_iter().collect(),
    }
}

/// Reads `required` and `properties` of an object.
fn read_object(object: &mut Fields<'_>, path: &str, leaves: &mut Leaves) {
    let subject = object.path_of("required");
    let required = object.spanned_texts("required").into_iter().enumerate();
    leaves.required.extend(required.map(|(index, required)| {
        let value = joined(path, &required.value);
        let at = required.at;
        (Spanned { value, at }, format!("{subject}[{index}]"))
    }));
    let properties_path = object.path_of("properties");
    for entry in object.free_map("properties") {
        let subject = format!("{properties_path}.{}", entry.key);
        let path = joined(path, &entry.key);
        if let Err(reason) = names::check_path(&path) {
            let reason = format!("{path:?} {reason}");
            object.source.report(entry.key_at, &subject, reason);
            continue;
        }
        let property = Fields::of(&entry.node, subject.clone(), object.source);
        let Some(field) = read_property(property, &path, leaves) else {
            continue;
        };
        let leaf = (field, entry.key_at, subject.clone());
        if let Some((_, first, _)) = leaves.fields.insert(path.clone(), leaf) {
            let reason = format!("{path:?} is declared twice, first at {first}");
            object.source.report(entry.key_at, &subject, reason);
        }
    }
}

/// Reads one property; nothing is returned for an object, which may have more of them.
fn read_property(mut property: Fields<'_>, path: &str, leaves: &mut Leaves) -> Option<Field> {
    let kind = read_type(&mut property);
    if kind == Some(Type::Object) {
        leaves.objects.insert(path.into());
        read_object(&mut property, path, leaves);
        property.finish();
        return None;
    }
    let indexed = property.boolean("index").unwrap_or(false);
    property.finish();
    let Some(Type::Value(kind)) = kind else {
        return None;
    };
    Some(Field {
        path: path.into(),
        kind,
        required: false,
        indexed,
    })
}

#[derive(PartialEq)]
enum Type {
    Object,
    Value(FieldType),
}

fn read_type(property: &mut Fields<'_>) -> Option<Type> {
    if property.has("properties") && !property.has("type") {
        property.node("type");
        return Some(Type::Object);
    }
    let word = required_text(property, "type")?;
    match word.as_str() {
        "object" => Some(Type::Object),
        "array" => {
            let Some(mut items) = property.map("items") else {
                property.report("items", "is missing: a list says the type of its elements");
                return None;
            };
            let word = required_text(&mut items, "type");
            let kind = word.and_then(|word| scalar_type(&items, &word, ""));
            items.finish();
            kind.map(|kind| Type::Value(kind.list()))
        }
        _ => scalar_type(property, &word, ", array, object").map(Type::Value),
    }
}

fn scalar_type(fields: &Fields<'_>, word: &str, others: &str) -> Option<FieldType> {
    let kind = FieldType::from_word(word);
    if kind.is_none() {
        let scalars = "string, integer, number, boolean, timestamp";
        let reason = format!("expected one of {scalars}{others}, found {word:?}");
        fields.report("type", reason);
    }
    kind
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.into()
    } else {
        format!("{path}.{key}")
    }
}
