//! JSON documents in cells of the original, both ways. Members that are missing or `null` have
//! their defaults, as the original reads them.

use std::collections::BTreeMap;

use crate::annotation::Annotation;
use crate::java::double_text;
use crate::json::Json;
use crate::json_object::ObjectWriter;
use crate::meta::{SeriesMeta, UidMeta};
use crate::record_field::float;
use crate::tree::{Branch, Leaf, Rule, RuleEdit, RuleType, Tree};
use crate::uid::{Tsuid, UidKind};

/// A document; `None` where it is none.
pub(super) fn parse(bytes: &[u8]) -> Option<Json<'_>> {
    let json = Json::parse(std::str::from_utf8(bytes).ok()?).ok()?;
    json.as_object().is_some().then_some(json)
}

fn text(json: &Json<'_>, name: &str) -> String {
    let text = json.get(name).and_then(Json::text);
    text.unwrap_or_default().to_owned()
}

fn integer<T: std::str::FromStr + Default>(json: &Json<'_>, name: &str) -> T {
    let text = json.get(name).and_then(Json::text);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn boolean(json: &Json<'_>, name: &str) -> bool {
    json.get(name).and_then(Json::text) == Some("true")
}

fn map(json: &Json<'_>, name: &str) -> Option<BTreeMap<String, String>> {
    let members = json.get(name)?.as_object()?;
    let pairs = members.iter().map(|(key, value)| {
        let value = value.text().unwrap_or_default();
        (key.clone().into_owned(), value.to_owned())
    });
    Some(pairs.collect())
}

pub(super) fn uid_meta(json: &Json<'_>) -> UidMeta {
    UidMeta {
        display_name: text(json, "displayName"),
        description: text(json, "description"),
        notes: text(json, "notes"),
        created: integer(json, "created"),
        custom: map(json, "custom"),
    }
}

pub(super) fn write_uid_meta(meta: &UidMeta, kind: UidKind) -> Vec<u8> {
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.text("type", &kind.field_name().to_ascii_uppercase());
    object.text("displayName", &meta.display_name);
    object.text("description", &meta.description);
    object.text("notes", &meta.notes);
    object.plain("created", meta.created);
    object.map("custom", meta.custom.as_ref());
    drop(object);
    out.into_bytes()
}

pub(super) fn series_meta(json: &Json<'_>, tsuid: Tsuid) -> SeriesMeta {
    SeriesMeta {
        display_name: text(json, "displayName"),
        description: text(json, "description"),
        notes: text(json, "notes"),
        custom: map(json, "custom"),
        units: text(json, "units"),
        data_type: text(json, "dataType"),
        retention: integer(json, "retention"),
        max: float(json, "max").unwrap_or(f64::NAN),
        min: float(json, "min").unwrap_or(f64::NAN),
        ..SeriesMeta::new(tsuid, integer(json, "created"))
    }
}

pub(super) fn write_series_meta(meta: &SeriesMeta, widths: [usize; 3]) -> Vec<u8> {
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.text("tsuid", &meta.tsuid.to_hex(widths));
    object.text("displayName", &meta.display_name);
    object.text("description", &meta.description);
    object.text("notes", &meta.notes);
    object.plain("created", meta.created);
    object.map("custom", meta.custom.as_ref());
    object.text("units", &meta.units);
    object.text("dataType", &meta.data_type);
    object.plain("retention", meta.retention);
    for (name, value) in [("max", meta.max), ("min", meta.min)] {
        if value.is_finite() {
            object.plain(name, double_text(value));
        } else {
            object.text(name, &double_text(value));
        }
    }
    drop(object);
    out.into_bytes()
}

/// `start_time` is what row and qualifier say.
pub(super) fn annotation(json: &Json<'_>, tsuid: Option<Tsuid>, start_time: i64) -> Annotation {
    let given = integer(json, "startTime");
    Annotation {
        end_time: integer(json, "endTime"),
        description: text(json, "description"),
        notes: text(json, "notes"),
        custom: map(json, "custom"),
        ..Annotation::new(tsuid, if given > 0 { given } else { start_time })
    }
}

pub(super) fn write_annotation(note: &Annotation, widths: [usize; 3]) -> Vec<u8> {
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    if let Some(tsuid) = &note.tsuid {
        object.text("tsuid", &tsuid.to_hex(widths));
    }
    object.plain("startTime", note.start_time);
    object.plain("endTime", note.end_time);
    object.text("description", &note.description);
    object.text("notes", &note.notes);
    object.map("custom", note.custom.as_ref());
    drop(object);
    out.into_bytes()
}

/// Sets what the definition of a tree says; its rules stay.
pub(super) fn define_tree(json: &Json<'_>, tree: &mut Tree) {
    tree.name = text(json, "name");
    tree.description = text(json, "description");
    tree.notes = text(json, "notes");
    tree.strict_match = boolean(json, "strictMatch");
    tree.enabled = boolean(json, "enabled");
    tree.store_failures = boolean(json, "storeFailures");
    tree.created = integer(json, "created");
}

pub(super) fn write_tree(tree: &Tree) -> Vec<u8> {
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.text("name", &tree.name);
    object.text("description", &tree.description);
    object.text("notes", &tree.notes);
    object.plain("strictMatch", tree.strict_match);
    object.plain("created", tree.created);
    object.plain("enabled", tree.enabled);
    object.plain("storeFailures", tree.store_failures);
    drop(object);
    out.into_bytes()
}

/// The error says what is missing.
pub(super) fn rule(json: &Json<'_>, place: (u16, u32, u32)) -> Result<Rule, String> {
    let given = |name: &str| Some(text(json, name));
    let edit = RuleEdit {
        kind: RuleType::parse(&text(json, "type")),
        field: given("field"),
        custom_field: given("customField"),
        regex: given("regex"),
        regex_group: Some(integer(json, "regexGroupIdx")),
        separator: given("separator"),
        display_format: given("displayFormat"),
        description: given("description"),
        notes: given("notes"),
    };
    edit.apply(place, None)
}

/// The path below the root, by the depths that are its members.
pub(super) fn branch(json: &Json<'_>, tree: u16) -> Option<Branch> {
    let members = json.get("path")?.as_object()?;
    let mut path: BTreeMap<u32, String> = BTreeMap::new();
    for (depth, name) in members {
        path.insert(depth.parse().ok()?, name.text()?.to_owned());
    }
    let below = path.split_off(&1);
    Some(Branch::new(tree, below.into_values().collect()))
}

pub(super) fn write_branch(branch: &Branch) -> Vec<u8> {
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    branch.write_path(&mut object);
    object.text("displayName", branch.display_name());
    drop(object);
    out.into_bytes()
}

/// Its TSUID has the widths of the document.
pub(super) fn leaf(json: &Json<'_>) -> Leaf {
    Leaf::new(&text(json, "displayName"), &text(json, "tsuid"))
}

pub(super) fn write_leaf(leaf: &Leaf) -> Vec<u8> {
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.text("displayName", &leaf.display_name);
    object.text("tsuid", &leaf.tsuid);
    drop(object);
    out.into_bytes()
}
