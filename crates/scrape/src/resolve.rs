//! The labels of a series: what the target exposes, what the target is, and what relabelling makes
//! of it.
//!
//! Holds always: the result is canonical (sorted, no empty value), so that one series has one form
//! whatever the target's own order; words of errors are Prometheus'.

use std::borrow::Cow;

use icecore_model::{METRIC_NAME, push_raw_label};

use super::config::{NameValidation, ScrapeConfig};
use super::relabel::{self, LabelSet};

/// What stands in front of an exposed label that the target has, too.
const EXPORTED_PREFIX: &str = "exported_";

/// Characters of names and values that errors show.
const SHOWN_MAX: usize = 50;

pub(super) type Pairs<'p> = [(Cow<'p, str>, Cow<'p, str>)];

/// Writes the label bytes of a series to `bytes`, which is emptied first. `false` when relabelling
/// drops it.
pub(super) fn resolve(
    config: &ScrapeConfig,
    target: &[(String, String)],
    exposed: &Pairs<'_>,
    bytes: &mut Vec<u8>,
) -> Result<bool, String> {
    bytes.clear();
    let mut labels = LabelSet::new();
    for (name, value) in exposed {
        if !value.is_empty() && !labels.get(name).is_empty() {
            return Err(format!("label name {name:?} is not unique: invalid sample"));
        }
        labels.set(name.as_ref(), value.as_ref());
    }
    if config.honor_labels {
        honor(target, exposed, &mut labels);
    } else {
        override_exposed(target, &mut labels);
    }
    if !relabel::apply(&config.metric_relabel, &mut labels) || labels.is_empty() {
        return Ok(false);
    }
    if labels.get(METRIC_NAME).is_empty() {
        return Err("missing metric name (__name__ label)".into());
    }
    check_names(config.metric_name_validation, &labels)?;
    check_limits(config, &labels)?;
    for (name, value) in labels.iter() {
        push_raw_label(bytes, name, value);
    }
    Ok(true)
}

/// What is exposed counts; even an empty value keeps the target's label away.
fn honor(target: &[(String, String)], exposed: &Pairs<'_>, labels: &mut LabelSet) {
    for (name, value) in target {
        if !exposed.iter().any(|(exposed, _)| exposed == name) {
            labels.set(name.as_str(), value.as_str());
        }
    }
}

/// What the target is counts; what is exposed under the same name is kept under another.
fn override_exposed(target: &[(String, String)], labels: &mut LabelSet) {
    let mut conflicts = Vec::new();
    for (name, value) in target {
        let exposed = labels.get(name);
        if !exposed.is_empty() {
            conflicts.push((name.as_str(), exposed.to_owned()));
        }
        labels.set(name.as_str(), value.as_str());
    }
    // Short names first, as in Prometheus, so that the result does not depend on any other order.
    conflicts.sort_by_key(|(name, _)| name.len());
    for (name, value) in conflicts {
        let mut name = format!("{EXPORTED_PREFIX}{name}");
        while !labels.get(&name).is_empty() {
            name.insert_str(0, EXPORTED_PREFIX);
        }
        labels.set(name, value);
    }
}

fn check_names(validation: NameValidation, labels: &LabelSet) -> Result<(), String> {
    if validation == NameValidation::Utf8 {
        return Ok(());
    }
    let valid = |(name, value): (&str, &str)| match name {
        METRIC_NAME => is_legacy_name(value, true),
        _ => is_legacy_name(name, false),
    };
    if labels.iter().all(valid) {
        return Ok(());
    }
    let shown: Vec<String> = labels.iter().map(|(n, v)| format!("{n}={v:?}")).collect();
    let shown = shown.join(", ");
    Err(format!("invalid metric name or label names: {{{shown}}}"))
}

fn is_legacy_name(name: &str, colons: bool) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || (colons && b == b':'))
}

fn check_limits(config: &ScrapeConfig, labels: &LabelSet) -> Result<(), String> {
    let over = |length: usize, limit: u64| limit > 0 && length as u64 > limit;
    let metric = cut(labels.get(METRIC_NAME));
    let (count, limit) = (labels.len(), config.label_limit);
    if over(count, limit) {
        return Err(format!(
            "label_limit exceeded (metric: {metric}, number of labels: {count}, limit: {limit})"
        ));
    }
    for (name, value) in labels.iter() {
        let (length, limit, shown) = (name.len(), config.label_name_length_limit, cut(name));
        if over(length, limit) {
            return Err(format!(
                "label_name_length_limit exceeded (metric: {metric}, label name: {shown}, length: {length}, limit: {limit})"
            ));
        }
        let (length, limit) = (value.len(), config.label_value_length_limit);
        if over(length, limit) {
            let value = cut(value);
            return Err(format!(
                "label_value_length_limit exceeded (metric: {metric}, label name: {shown}, value: {value:?}, length: {length}, limit: {limit})"
            ));
        }
    }
    Ok(())
}

fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(SHOWN_MAX);
    end.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use icecore_model::RawLabels;

    use super::*;
    use crate::config::RelabelAction;
    use crate::testing::{job, rule};

    const TARGET: &[(&str, &str)] = &[("instance", "i"), ("job", "j")];

    fn resolved(
        config: &ScrapeConfig,
        target: &[(&str, &str)],
        exposed: &[(&str, &str)],
    ) -> Result<Option<String>, String> {
        let owned = |(n, v): &(&str, &str)| ((*n).to_owned(), (*v).to_owned());
        let target: Vec<_> = target.iter().map(owned).collect();
        let exposed: Vec<_> = exposed
            .iter()
            .map(|(n, v)| (Cow::Borrowed(*n), Cow::Borrowed(*v)))
            .collect();
        let mut bytes = Vec::new();
        let kept = resolve(config, &target, &exposed, &mut bytes)?;
        let mut pairs = Vec::new();
        RawLabels(&bytes).parse(&mut pairs).unwrap();
        assert!(pairs.is_sorted());
        let shown: Vec<_> = pairs.iter().map(|(n, v)| format!("{n}={v}")).collect();
        Ok(kept.then(|| shown.join(" ")))
    }

    #[track_caller]
    fn check(config: &ScrapeConfig, exposed: &[(&str, &str)], expected: &str) {
        let labels = resolved(config, TARGET, exposed).unwrap();
        assert_eq!(labels.as_deref(), Some(expected));
    }

    #[test]
    fn labels_of_the_target_win() {
        check(
            &job(),
            &[("__name__", "m"), ("z", "1"), ("a", ""), ("job", "own")],
            "__name__=m exported_job=own instance=i job=j z=1",
        );
        check(
            &job(),
            &[("__name__", "m"), ("job", "own"), ("exported_job", "mine")],
            "__name__=m exported_exported_job=own exported_job=mine instance=i job=j",
        );
    }

    #[test]
    fn exposed_labels_win_where_they_are_honored() {
        let mut config = job();
        config.honor_labels = true;
        check(
            &config,
            &[("__name__", "m"), ("job", "own"), ("instance", "")],
            "__name__=m job=own",
        );
    }

    #[test]
    fn metrics_are_relabelled_and_dropped() {
        let mut config = job();
        config.metric_relabel = vec![
            rule(RelabelAction::Drop, "__name__", "noise", "", ""),
            rule(RelabelAction::Replace, "job", "(.*)", "team", "$1-team"),
        ];
        check(
            &config,
            &[("__name__", "m")],
            "__name__=m instance=i job=j team=j-team",
        );
        let dropped = resolved(&config, TARGET, &[("__name__", "noise")]);
        assert_eq!(dropped, Ok(None));
        config.metric_relabel = vec![rule(RelabelAction::LabelDrop, "", "__name__", "", "")];
        let error = resolved(&config, TARGET, &[("__name__", "m")]).unwrap_err();
        assert_eq!(error, "missing metric name (__name__ label)");
    }

    #[test]
    fn limits_are_those_of_the_job_and_say_so() {
        let exposed = [("__name__", "m"), ("name", "value")];
        for (set, said) in [
            (
                (|c: &mut ScrapeConfig| c.label_limit = 3) as fn(&mut ScrapeConfig),
                "label_limit exceeded (metric: m, number of labels: 4, limit: 3)",
            ),
            (
                |c| c.label_name_length_limit = 7,
                "label_name_length_limit exceeded (metric: m, label name: __name__, length: 8, limit: 7)",
            ),
            (
                |c| c.label_value_length_limit = 4,
                "label_value_length_limit exceeded (metric: m, label name: name, value: \"value\", length: 5, limit: 4)",
            ),
        ] {
            let mut config = job();
            set(&mut config);
            let error = resolved(&config, TARGET, &exposed).unwrap_err();
            assert_eq!(error, said);
        }
    }

    #[test]
    fn names_are_checked_where_the_job_says_so() {
        let mut config = job();
        let exposed = [("__name__", "with.dots")];
        assert!(resolved(&config, TARGET, &exposed).is_ok());
        config.metric_name_validation = NameValidation::Legacy;
        let error = resolved(&config, TARGET, &exposed).unwrap_err();
        assert!(error.contains("invalid metric name"), "{error}");
        assert!(resolved(&config, TARGET, &[("__name__", "a:b")]).is_ok());
        let label = [("__name__", "a"), ("a:b", "1")];
        assert!(resolved(&config, TARGET, &label).is_err());
    }

    #[test]
    fn a_label_twice_is_no_series() {
        let twice = [("__name__", "m"), ("a", "1"), ("a", "2")];
        let error = resolved(&job(), TARGET, &twice).unwrap_err();
        assert_eq!(error, "label name \"a\" is not unique: invalid sample");
    }
}
