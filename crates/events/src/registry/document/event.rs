//! A document of the kind `Event`.

use std::time::Duration;

use icecore_settings::Fields;

use super::schema::{self, Schema};
use super::{Inherited, checked_text, names, read_service, read_ttl, required_map, required_text};
use crate::registry::lookup::is_within;
use crate::registry::{EventType, Mask, MaskRule};

const RETENTION: Duration = Duration::from_secs(30 * 86_400);

const LABELS_MAX: usize = 100;

/// More than an event may have.
const RULES_MAX: usize = 1_000;

/// Reads the metadata and the spec. `None` only where a problem was reported.
pub(super) fn read(fields: &mut Fields<'_>, inherited: &Inherited) -> Option<EventType> {
    let names =
        required_map(fields, "metadata").and_then(|metadata| read_names(metadata, inherited));
    let spec = fields.map("spec");
    let (mut retention, mut content) = (None, (Schema::default(), Vec::new(), Vec::new()));
    if let Some(mut spec) = spec {
        retention = read_ttl(&mut spec);
        let schema = schema::read(&mut spec);
        let dimensions = read_dimensions(&mut spec, &schema);
        let masking = read_masking(&mut spec, &schema);
        spec.finish();
        content = (schema, dimensions, masking);
    }
    let (schema, dimensions, masking) = content;
    let names = names?;
    Some(EventType {
        number: 0,
        service: names.service,
        name: names.name,
        display_name: names.display_name,
        labels: names.labels.into_iter().collect(),
        retention: retention.or(inherited.event_ttl).unwrap_or(RETENTION),
        fields: schema.fields,
        objects: schema.objects,
        dimensions,
        masking,
        metrics: Vec::new(),
        retired: Vec::new(),
    })
}

struct Names {
    service: String,
    name: String,
    display_name: Option<String>,
    labels: Vec<(String, String)>,
}

fn read_names(mut metadata: Fields<'_>, inherited: &Inherited) -> Option<Names> {
    let service = read_service(&mut metadata, inherited);
    let check = |name: &str| names::check_name(name, names::EVENT_CHARS_MAX);
    let name = checked_text(&mut metadata, "name", check);
    let display_name = metadata.text("displayName");
    let labels = metadata.text_map("labels");
    let bad_label = labels.iter().find(|(label, _)| check(label).is_err());
    if labels.len() > LABELS_MAX {
        metadata.report("labels", format!("has more than {LABELS_MAX} labels"));
    } else if let Some((label, _)) = bad_label {
        metadata.report("labels", format!("{label:?} cannot be the name of a label"));
    }
    metadata.finish();
    Some(Names {
        service: service?,
        name: name?,
        display_name,
        labels,
    })
}

/// The order of hashing; all that is indexed, if none is given.
fn read_dimensions(spec: &mut Fields<'_>, schema: &Schema) -> Vec<String> {
    if spec.node("dimensions").is_none() {
        let indexed = schema.fields.iter();
        let indexed = indexed.filter(|field| field.indexed && !field.kind.is_list());
        return indexed.map(|field| field.path.clone()).collect();
    }
    let mut dimensions: Vec<String> = Vec::new();
    let path = spec.path_of("dimensions");
    for (index, given) in spec.spanned_texts("dimensions").into_iter().enumerate() {
        let field = schema.fields.iter().find(|f| f.path == given.value);
        let reason = match field {
            None => Some("is not among the properties of the schema"),
            Some(field) if !field.indexed => Some("is not indexed: it needs `index: true`"),
            Some(field) if field.kind.is_list() => Some("is a list, which is no dimension"),
            Some(_) if dimensions.contains(&given.value) => Some("is given twice"),
            Some(_) => None,
        };
        if let Some(reason) = reason {
            let reason = format!("{:?} {reason}", given.value);
            spec.source
                .report(given.at, &format!("{path}[{index}]"), reason);
        }
        dimensions.push(given.value);
    }
    dimensions
}

fn read_masking(spec: &mut Fields<'_>, schema: &Schema) -> Vec<MaskRule> {
    let mut rules: Vec<MaskRule> = Vec::new();
    for mut map in spec.maps("masking") {
        let path = checked_text(&mut map, "path", names::check_path);
        let mask = read_action(&mut map);
        if let Some((path, mask)) = path.zip(mask) {
            if rules.iter().any(|rule| rule.path == path) {
                map.report("path", format!("{path:?} is masked twice"));
            }
            let mut fields = schema.fields.iter();
            let indexed = fields.find(|field| field.indexed && is_within(&field.path, &path));
            if let Some(field) = indexed.filter(|_| mask == Mask::Drop) {
                let reason = format!("drops {:?}, which is indexed", field.path);
                map.report("path", reason);
            }
            rules.push(MaskRule { path, mask });
        }
        map.finish();
    }
    if rules.len() > RULES_MAX {
        spec.report("masking", format!("has more than {RULES_MAX} rules"));
    }
    rules
}

fn read_action(map: &mut Fields<'_>) -> Option<Mask> {
    let action = required_text(map, "action")?;
    match action.as_str() {
        "drop" => Some(Mask::Drop),
        "hash" => Some(Mask::Hash),
        other => {
            map.report("action", format!("expected drop or hash, found {other:?}"));
            None
        }
    }
}
