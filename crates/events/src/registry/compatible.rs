//! Whether events that were fine stay fine when their schema changes.

use super::EventType;

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
