//! Which states of which objects are followed: a document of the kind `StateExtractors`, or the
//! list of a service; and how long what is counted of them is kept.

use icecore_settings::Fields;

use super::{Body, Inherited, checked_text, metric, names, read_service, read_ttl, required_map};
use crate::registry::{PreviousStates, StateExtractor, WindowRetention};

const EXTRACTORS_MAX: usize = 1_000;
const ATTRIBUTES_MAX: usize = 100;

/// `metadata: {service}`,
/// `spec: {stateExtractors: […], retention: {ttl}, rollup: {retention: {…}}}`.
pub(super) fn read_document(fields: &mut Fields<'_>, inherited: &Inherited) -> Option<Body> {
    let service = required_map(fields, "metadata").and_then(|mut metadata| {
        let service = read_service(&mut metadata, inherited);
        metadata.finish();
        service
    });
    let mut spec = required_map(fields, "spec")?;
    if spec.raw("stateExtractors").is_none() {
        spec.report("stateExtractors", "is missing");
    }
    let extractors = read_list(&mut spec);
    let mut retention = inherited.window_retention;
    if let Some(ttl) = read_ttl(&mut spec) {
        retention = WindowRetention::all(ttl);
    }
    if let Some(mut rollup) = spec.map("rollup") {
        metric::read_retention(&mut rollup, &mut retention);
        rollup.finish();
    }
    spec.finish();
    Some(Body::States {
        service: service?,
        extractors,
        retention,
    })
}

/// The key `stateExtractors` of a map.
pub(super) fn read_list(fields: &mut Fields<'_>) -> Vec<StateExtractor> {
    let mut extractors: Vec<StateExtractor> = Vec::new();
    for map in fields.maps("stateExtractors") {
        let subject = map.path.clone();
        let at = map.at;
        let Some(extractor) = read_extractor(map) else {
            continue;
        };
        let is_same = |other: &&StateExtractor| {
            other.event_type == extractor.event_type
                && other.object_type == extractor.object_type
                && other.object_id == extractor.object_id
                && other
                    .attributes
                    .iter()
                    .any(|a| extractor.attributes.contains(a))
        };
        if extractors.iter().any(|other| is_same(&other)) {
            // Each would see the state that the other has just set.
            let reason = "follows an attribute that an earlier one follows";
            fields.source.report(at, &subject, reason);
        }
        extractors.push(extractor);
    }
    if extractors.len() > EXTRACTORS_MAX {
        let reason = format!("has more than {EXTRACTORS_MAX} extractors");
        fields.report("stateExtractors", reason);
    }
    extractors
}

fn read_extractor(mut map: Fields<'_>) -> Option<StateExtractor> {
    let check_name = |name: &str| names::check_name(name, names::EVENT_CHARS_MAX);
    let event_type = checked_text(&mut map, "rawType", check_name);
    let object_type = checked_text(&mut map, "objectType", check_name);
    let object_id = checked_text(&mut map, "objectIdField", names::check_path);
    let attributes = map.spanned_texts("stateAttributes");
    if attributes.is_empty() || attributes.len() > ATTRIBUTES_MAX {
        let reason = format!("expected 1 to {ATTRIBUTES_MAX} paths");
        map.report("stateAttributes", reason);
    }
    let subject = map.path_of("stateAttributes");
    for (index, path) in attributes.iter().enumerate() {
        let repeated = attributes[..index].iter().any(|p| p.value == path.value);
        let problem = match names::check_path(&path.value) {
            Ok(()) if repeated => Some("is given twice".into()),
            checked => checked.err(),
        };
        if let Some(reason) = problem {
            let reason = format!("{:?} {reason}", path.value);
            map.source
                .report(path.at, &format!("{subject}[{index}]"), reason);
        }
    }
    let previous = map.map("transitionPolicy").map(read_policy);
    map.finish();
    Some(StateExtractor {
        event_type: event_type?,
        object_type: object_type?,
        object_id: object_id?,
        attributes: attributes.into_iter().map(|path| path.value).collect(),
        previous: previous.unwrap_or(PreviousStates::Latest),
    })
}

/// `{additional: […]}` or `{only: […]}`.
fn read_policy(mut policy: Fields<'_>) -> PreviousStates {
    let additional = policy.texts("additional");
    let only = policy.texts("only");
    let previous = if policy.has("only") {
        if policy.has("additional") {
            policy.report("only", "additional is given as well; one of them is enough");
        }
        if only.is_empty() {
            policy.report("only", "expected at least one state");
        }
        PreviousStates::Only(only)
    } else if additional.is_empty() {
        PreviousStates::Latest
    } else {
        PreviousStates::Additional(additional)
    };
    policy.finish();
    previous
}
