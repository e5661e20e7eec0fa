//! Changes of a type of event that need force: those that refuse events which were fine, and those
//! that mask less.

use super::{EventType, Mask, MaskRule};

/// Calls `report` with the path and the reason of each change that may refuse what was accepted, or
/// make columns of one attribute differ.
pub(super) fn compare(
    known: &EventType,
    changed: &EventType,
    mut report: impl FnMut(&str, String),
) {
    for field in &changed.fields {
        let path = &field.path;
        match known.field(path) {
            Some(before) if before.kind != field.kind => {
                let shown = |kind: super::FieldType| {
                    let list = if kind.is_list() { "list of " } else { "" };
                    format!("{list}{}", kind.word())
                };
                let (before, after) = (shown(before.kind), shown(field.kind));
                report(path, format!("{path:?} was {before} and would be {after}"));
            }
            Some(before) if field.required && !before.required => {
                report(path, format!("{path:?} was optional and would be required"));
            }
            None if field.required => {
                report(path, format!("{path:?} is new and must not be required"));
            }
            Some(_) | None => {}
        }
        if known.objects.contains(path) {
            let reason = format!("{path:?} was an object and would be {}", field.kind.word());
            report(path, reason);
        }
    }
    for path in &changed.objects {
        if let Some(before) = known.field(path) {
            let reason = format!("{path:?} was {} and would be an object", before.kind.word());
            report(path, reason);
        }
    }
}

/// Returns why more of an attribute would be stored than `rule` allows. A document that is written
/// while it is read may lack rules, and what is stored once cannot be masked.
pub(super) fn weaker_mask(rule: &MaskRule, changed: &EventType) -> Option<String> {
    let path = &rule.path;
    match (rule.mask, changed.mask(path)) {
        (_, Some(Mask::Drop)) | (Mask::Hash, Some(Mask::Hash)) => None,
        (Mask::Drop, Some(Mask::Hash)) => Some(format!(
            "{path:?} was dropped and would be stored as a hash"
        )),
        (Mask::Drop, None) => Some(format!("{path:?} was dropped and would be stored")),
        (Mask::Hash, None) => Some(format!(
            "{path:?} was hashed and would be stored as it comes"
        )),
    }
}
