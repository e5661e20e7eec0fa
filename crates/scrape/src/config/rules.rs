//! Relabelling rules as they are written.

use icecore_model::AnchoredRegex;

use super::shown::refuse_placeholder;
use super::{NameValidation, RelabelAction, RelabelRule};
use icecore_settings::{Choice as _, Fields, Value};

/// Used where no pattern is given.
pub(super) const DEFAULT_PATTERN: &str = "(.*)";
pub(super) const DEFAULT_SEPARATOR: &str = ";";
pub(super) const DEFAULT_REPLACEMENT: &str = "$1";

/// The rules of a list, those without problems.
pub(super) fn read_all(
    fields: &mut Fields<'_>,
    key: &'static str,
    names: NameValidation,
) -> Vec<RelabelRule> {
    let rules = fields.maps(key).into_iter();
    rules.filter_map(|rule| read(rule, names)).collect()
}

fn read(mut fields: Fields<'_>, names: NameValidation) -> Option<RelabelRule> {
    let action = fields.parsed("action", |text| {
        RelabelAction::parse_word(&text.to_ascii_lowercase())
    });
    if is_null(&mut fields, "action") {
        fields.report("action", "must not be empty");
    }
    let sources = fields.texts("source_labels");
    for name in &sources {
        if !names.is_label_name(name) {
            fields.report("source_labels", format!("{name:?} is no label name"));
        }
    }
    let regex = pattern(&mut fields);
    let modulus = fields.number("modulus");
    let modulus_is_known = modulus.is_some() || !fields.has("modulus");
    let action_is_known = action.is_some() || !fields.has("action");
    let rule = RelabelRule {
        action: action.unwrap_or(RelabelAction::Replace),
        source_labels: sources,
        separator: text(&mut fields, "separator", DEFAULT_SEPARATOR),
        modulus: modulus.unwrap_or(0),
        target_label: fields.text("target_label").unwrap_or_default(),
        replacement: text(&mut fields, "replacement", DEFAULT_REPLACEMENT),
        name_validation: names,
        regex: regex?,
    };
    refuse_placeholder(&fields, "replacement", [&rule.replacement]);
    if action_is_known && modulus_is_known {
        check(&rule, &fields);
    }
    fields.finish();
    Some(rule)
}

/// Returns `true` for a key with nothing behind it.
fn is_null(fields: &mut Fields<'_>, key: &'static str) -> bool {
    let node = fields.raw(key);
    node.is_some_and(|node| matches!(node.value, Value::Null))
}

/// Unlike elsewhere, a key with nothing behind it is the empty text, as in Prometheus.
fn text(fields: &mut Fields<'_>, key: &'static str, default: &str) -> String {
    if is_null(fields, key) {
        return String::new();
    }
    fields.text(key).unwrap_or(default.into())
}

fn pattern(fields: &mut Fields<'_>) -> Option<AnchoredRegex> {
    let text = text(fields, "regex", DEFAULT_PATTERN);
    match AnchoredRegex::new(&text) {
        Ok(regex) => Some(regex),
        Err(error) => {
            fields.report("regex", error.to_string());
            None
        }
    }
}

/// What an action needs, and what it has no use for.
fn check(rule: &RelabelRule, fields: &Fields<'_>) {
    use RelabelAction::{
        Drop, DropEqual, HashMod, Keep, KeepEqual, LabelDrop, LabelKeep, LabelMap, Lowercase,
        Replace, Uppercase,
    };
    let action = RelabelAction::word(rule.action);
    let is_default_pattern = rule.regex.pattern() == DEFAULT_PATTERN;
    let is_default_separator = rule.separator == DEFAULT_SEPARATOR;
    let is_default_replacement = rule.replacement == DEFAULT_REPLACEMENT;
    match rule.action {
        Replace | HashMod | Lowercase | Uppercase | KeepEqual | DropEqual => {
            let template = rule.action == Replace;
            if rule.target_label.is_empty() {
                fields.report("target_label", format!("{action} needs one"));
            } else if !is_target(&rule.target_label, template, rule.name_validation) {
                let found = &rule.target_label;
                fields.report("target_label", format!("{found:?} is no label name"));
            }
        }
        LabelMap if !is_target(&rule.replacement, true, rule.name_validation) => {
            let found = &rule.replacement;
            fields.report("replacement", format!("{found:?} is no label name"));
        }
        LabelMap | LabelDrop | LabelKeep | Keep | Drop => {}
    }
    match rule.action {
        HashMod if rule.modulus == 0 => fields.report("modulus", "hashmod needs one above 0"),
        Lowercase | Uppercase if !is_default_replacement => {
            fields.report("replacement", format!("{action} has no use for it"));
        }
        KeepEqual | DropEqual
            if !(is_default_pattern
                && is_default_separator
                && is_default_replacement
                && rule.modulus == 0) =>
        {
            let reason = format!("{action} takes source_labels and target_label, nothing else");
            fields.report("action", reason);
        }
        LabelDrop | LabelKeep
            if !(rule.source_labels.is_empty()
                && rule.target_label.is_empty()
                && is_default_separator
                && is_default_replacement
                && rule.modulus == 0) =>
        {
            let reason = format!("{action} takes regex, nothing else");
            fields.report("action", reason);
        }
        _ => {}
    }
}

/// Whether a text can become the name of a label, with groups in it where it is a template.
fn is_target(text: &str, template: bool, names: NameValidation) -> bool {
    match names {
        NameValidation::Legacy if template && text.contains('$') => is_legacy_template(text),
        _ => names.is_label_name(text),
    }
}

/// Letters, underscores, and groups (`$1`, `${name}`), digits not at the beginning.
fn is_legacy_template(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        rest = if let Some(braced) = rest.strip_prefix("${") {
            match braced.split_once('}') {
                Some((name, after)) if !name.is_empty() && name.chars().all(is_word) => after,
                _ => return false,
            }
        } else if let Some(named) = rest.strip_prefix('$') {
            let after = named.trim_start_matches(is_word);
            if after.len() == named.len() {
                return false;
            }
            after
        } else if is_word(first) && !(first.is_ascii_digit() && rest.len() == text.len()) {
            rest.trim_start_matches(is_word)
        } else {
            return false;
        };
    }
    !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_groups_in_them() {
        for (text, valid) in [
            ("label", true),
            ("label${1}", true),
            ("${1}label", true),
            ("${1}", true),
            ("$1", true),
            ("asd$2asd", true),
            ("_${1}_", true),
            ("foo${bar}foo", true),
            ("-label", false),
            ("${", false),
            ("$", false),
            ("${}", false),
            ("foo${", false),
            ("-foo${1}bar-", false),
            ("0${3}", false),
        ] {
            assert_eq!(
                is_target(text, true, NameValidation::Legacy),
                valid,
                "{text}"
            );
        }
        assert!(is_target("-foo${1}bar-", true, NameValidation::Utf8));
        assert!(!is_target("", true, NameValidation::Utf8));
        assert!(!is_target("${1}", false, NameValidation::Legacy));
    }
}
