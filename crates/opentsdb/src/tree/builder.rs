//! Applies the rules of a tree to a series.
//!
//! ```text
//! level 0 ─► name or nothing ┐
//! level 1 ─► name or nothing ├─ slots ─ from the last one up ─► ROOT / branch / … / leaf
//! level 1 ─► its next part   ┘
//! ```
//!
//! A level whose rule splits a name takes one slot for each part. Slots without a name are skipped;
//! the last name is the leaf, and equal names of neighbouring branches are one.

use std::collections::BTreeMap;

use super::branch::ROOT;
use super::definition::Tree;
use super::rule::{Rule, RuleType};

/// A name of a series with its custom fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedMeta {
    pub(crate) name: String,
    pub(crate) custom: BTreeMap<String, String>,
}

/// What rules see of a series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeSeries {
    /// Hexadecimal.
    pub(crate) tsuid: String,
    pub(crate) metric: NamedMeta,
    /// In the order of the TSUID.
    pub(crate) tags: Vec<(NamedMeta, NamedMeta)>,
}

/// Where a series belongs in a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Build {
    /// Branches below the root, and last the leaf; with fewer than two names there is no place.
    pub(crate) path: Vec<String>,
    /// The last rule of each level that gave no name.
    pub(crate) not_matched: Vec<String>,
    /// What was done, for who tests rules.
    pub(crate) messages: Vec<String>,
}

impl Build {
    /// Whether a tree has no place for the series.
    pub(crate) fn is_left_out(&self, tree: &Tree) -> bool {
        (tree.strict_match && !self.not_matched.is_empty()) || self.path.len() < 2
    }
}

/// Applies all rules.
pub(crate) fn build(tree: &Tree, series: &TreeSeries) -> Build {
    let mut build = Build::default();
    let mut slots = Vec::new();
    for rules in tree.rules.values() {
        let mut parts = None;
        loop {
            let mut name = None;
            let mut last = None;
            for rule in rules.values() {
                last = Some(rule);
                build
                    .messages
                    .push(format!("Processing rule: {}", rule.label()));
                let mut messages = Vec::new();
                name = apply(rule, series, &mut parts, &mut messages);
                build.messages.append(&mut messages);
                if name.is_some() {
                    break;
                }
            }
            if name.is_none() {
                build.not_matched.extend(last.map(Rule::label));
            }
            slots.push(name);
            if parts.as_ref().is_none_or(Parts::is_at_end) {
                break;
            }
        }
    }
    build.path = place(&slots, &series.tsuid, &mut build.messages);
    if tree.strict_match && !build.not_matched.is_empty() {
        let tsuid = &series.tsuid;
        build.messages.push(format!(
            "TSUID failed to match one or more rule levels, will not add: {tsuid}"
        ));
    }
    build
}

/// A name that is being split.
struct Parts {
    parts: Vec<String>,
    next: usize,
}

impl Parts {
    fn is_at_end(&self) -> bool {
        self.next >= self.parts.len()
    }
}

/// The name that a rule gives, if it does.
fn apply(
    rule: &Rule,
    series: &TreeSeries,
    parts: &mut Option<Parts>,
    messages: &mut Vec<String>,
) -> Option<String> {
    let value = value_of(rule, series, messages)?;
    let label = rule.label();
    let extracted = match &rule.pattern {
        None => value.to_owned(),
        Some(regex) if !rule.regex.is_empty() => {
            let captures = regex.captures(value)?;
            let group = rule.regex_group as usize + 1;
            if group >= captures.len() {
                messages.push(format!(
                    "Regex group index [{}] for rule {label} was out of bounds [{}]",
                    rule.regex_group,
                    captures.len() - 1
                ));
                return None;
            }
            let extracted = captures.get(group).map_or("", |found| found.as_str());
            if extracted.is_empty() {
                messages.push(format!(
                    "Extracted value for rule {label} was null or empty"
                ));
                return None;
            }
            extracted.to_owned()
        }
        Some(separator) => {
            let parts = parts.get_or_insert_with(|| split(separator, value));
            let part = parts.parts.get(parts.next).cloned();
            parts.next += 1;
            part?
        }
    };
    Some(displayed(rule, series, value, &extracted)).filter(|name| !name.is_empty())
}

/// As Java splits: empty parts at the end are dropped.
fn split(separator: &regex::Regex, value: &str) -> Parts {
    let mut parts: Vec<String> = separator.split(value).map(String::from).collect();
    while parts.last().is_some_and(String::is_empty) {
        parts.pop();
    }
    Parts { parts, next: 0 }
}

/// What a rule looks at.
fn value_of<'a>(
    rule: &Rule,
    series: &'a TreeSeries,
    messages: &mut Vec<String>,
) -> Option<&'a str> {
    let label = rule.label();
    let field = &rule.field;
    let mut found = |what: &str, name: &str, is_found: bool| {
        messages.push(if is_found {
            format!("Matched {what} [{name}] for rule: {label}")
        } else {
            format!("No match on {what} [{name}] for rule: {label}")
        });
    };
    let of_key = series.tags.iter().find(|(key, _)| key.name == *field);
    let owner = match rule.kind {
        RuleType::Metric => return Some(&series.metric.name),
        RuleType::Tagk => {
            found("tagk", field, of_key.is_some());
            return of_key.map(|(_, value)| value.name.as_str());
        }
        RuleType::MetricCustom => Some(&series.metric),
        RuleType::TagkCustom => {
            found("tagk", field, of_key.is_some());
            of_key.map(|(key, _)| key)
        }
        RuleType::TagvCustom => {
            let mut values = series.tags.iter().map(|(_, value)| value);
            let owner = values.find(|value| value.name == *field);
            found("tagv", field, owner.is_some());
            owner
        }
    };
    let value = owner?.custom.get(&rule.custom_field);
    found("custom tag", &rule.custom_field, value.is_some());
    value.map(String::as_str)
}

/// The name as the rule formats it.
fn displayed(rule: &Rule, series: &TreeSeries, original: &str, extracted: &str) -> String {
    if rule.display_format.is_empty() {
        return extracted.to_owned();
    }
    let tag_name = match rule.kind {
        RuleType::Metric => "",
        RuleType::Tagk => &rule.field,
        _ => &rule.custom_field,
    };
    rule.display_format
        .replace("{ovalue}", original)
        .replace("{value}", extracted)
        .replace("{tsuid}", &series.tsuid)
        .replace("{tag_name}", tag_name)
}

/// Branches and leaf of the names in slots. Slots are looked at from the last one, each with the
/// one above it as its parent; messages count the root and its parent, too.
fn place(slots: &[Option<String>], tsuid: &str, messages: &mut Vec<String>) -> Vec<String> {
    let Some(last) = slots.iter().rposition(Option::is_some) else {
        return Vec::new();
    };
    let mut path: Vec<String> = slots[last].iter().cloned().collect();
    for slot in (0..=last).rev() {
        let depth = slot + 2;
        let parent = match slot.checked_sub(1) {
            Some(above) => slots[above].as_deref(),
            None if path.len() == 1 => Some(ROOT),
            None => break,
        };
        let Some(current) = path.last() else { break };
        let is_leaf = path.len() == 1;
        let Some(parent) = parent else {
            messages.push(if is_leaf {
                format!("Depth [{depth}] Parent branch was empty, rolling back")
            } else {
                format!(
                    "Depth [{depth}] Skipping a non-matched branch, returning: Name: [{current}]"
                )
            });
            continue;
        };
        if is_leaf {
            messages.push(format!(
                "Depth [{depth}] Adding leaf [name: {current} tsuid: {tsuid}] \
                 to parent branch [Name: [{parent}]]"
            ));
        } else if current == parent {
            messages.push(format!("Depth [{depth}] Current was the same as previous"));
            continue;
        } else {
            messages.push(format!(
                "Depth [{depth}] Adding branch: Name: [{current}] to parent: Name: [{parent}]"
            ));
        }
        if slot > 0 {
            path.push(parent.to_owned());
        }
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rule::RuleEdit;
    use super::*;

    fn named(name: &str) -> NamedMeta {
        NamedMeta {
            name: name.into(),
            custom: BTreeMap::new(),
        }
    }

    fn series(metric: &str, tags: &[(&str, &str)]) -> TreeSeries {
        let tags = tags.iter().map(|(key, value)| (named(key), named(value)));
        TreeSeries {
            tsuid: "000001000001000001".into(),
            metric: named(metric),
            tags: tags.collect(),
        }
    }

    /// Level, order, type, field, regex, separator.
    type RuleText = (u32, u32, RuleType, &'static str, &'static str, &'static str);

    fn tree(rules: &[RuleText]) -> Tree {
        let mut tree = Tree {
            id: 1,
            ..Tree::default()
        };
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        for (level, order, kind, field, regex, separator) in rules {
            let edit = RuleEdit {
                kind: Some(*kind),
                field: given(field),
                regex: given(regex),
                separator: given(separator),
                ..RuleEdit::default()
            };
            tree.put_rule(edit.apply((1, *level, *order), None).unwrap());
        }
        tree
    }

    const SITE: &str = r"^.*\.([a-zA-Z]{3,4})[0-9]{0,1}\..*\..*$";
    const KIND: &str = r"^([a-zA-Z]+)(\-|[0-9])*.*\..*$";

    fn sites(separator: &'static str) -> Tree {
        tree(&[
            (0, 0, RuleType::Tagk, "fqdn", SITE, ""),
            (0, 1, RuleType::Tagk, "host", SITE, ""),
            (1, 0, RuleType::Tagk, "host", KIND, ""),
            (2, 0, RuleType::Tagk, "host", "", ""),
            (3, 0, RuleType::Metric, "", "", separator),
            (4, 0, RuleType::Tagk, "type", "", ""),
        ])
    }

    #[test]
    fn names_become_branches_and_a_leaf() {
        let web = series(
            "sys.cpu.0",
            &[("host", "web-01.lga.mysite.com"), ("type", "user")],
        );
        let expected = [
            "lga",
            "web",
            "web-01.lga.mysite.com",
            "sys",
            "cpu",
            "0",
            "user",
        ];
        assert_eq!(build(&sites("\\."), &web).path, expected);
        let expected = ["lga", "web", "web-01.lga.mysite.com", "sys.cpu.0", "user"];
        assert_eq!(build(&sites(""), &web).path, expected);
    }

    #[test]
    fn levels_without_a_name_are_skipped_unless_the_tree_is_strict() {
        let plain = series("tr.mem", &[("host", "nodots")]);
        let mut tree = sites("\\.");
        let built = build(&tree, &plain);
        assert_eq!(built.path, ["nodots", "tr", "mem"]);
        assert_eq!(
            built.not_matched,
            ["[1:0:1:TAGK]", "[1:1:0:TAGK]", "[1:4:0:TAGK]"]
        );
        assert!(!built.is_left_out(&tree));
        assert_eq!(
            built.messages[10..],
            [
                "Processing rule: [1:4:0:TAGK]",
                "No match on tagk [type] for rule: [1:4:0:TAGK]",
                "Depth [6] Adding leaf [name: mem tsuid: 000001000001000001] to parent branch [Name: [tr]]",
                "Depth [5] Adding branch: Name: [tr] to parent: Name: [nodots]",
                "Depth [4] Skipping a non-matched branch, returning: Name: [nodots]",
                "Depth [3] Skipping a non-matched branch, returning: Name: [nodots]",
            ]
        );
        tree.strict_match = true;
        assert!(build(&tree, &plain).is_left_out(&tree));
    }

    #[test]
    fn a_leaf_needs_a_branch() {
        let tree = tree(&[
            (0, 0, RuleType::Tagk, "host", "", ""),
            (1, 0, RuleType::Metric, "", "", ""),
        ]);
        let built = build(&tree, &series("m", &[("dc", "lga")]));
        assert_eq!(built.path, ["m"]);
        assert!(built.is_left_out(&tree));
    }

    #[test]
    fn equal_neighbours_are_one_branch() {
        let tree = tree(&[
            (0, 0, RuleType::Tagk, "host", "", ""),
            (1, 0, RuleType::Tagk, "host", "", ""),
            (2, 0, RuleType::Metric, "", "", ""),
        ]);
        let built = build(&tree, &series("m", &[("host", "a")]));
        assert_eq!(built.path, ["a", "m"]);
        let message = "Depth [3] Current was the same as previous";
        assert_eq!(built.messages.last().map(String::as_str), Some(message));
    }

    #[test]
    fn formats_name_what_they_show() {
        let edit = RuleEdit {
            kind: Some(RuleType::Tagk),
            field: Some("port".into()),
            regex: Some("([0-9]+)".into()),
            display_format: Some("{tag_name}: {value} of {ovalue} {tsuid}".into()),
            ..RuleEdit::default()
        };
        let mut tree = tree(&[(0, 0, RuleType::Metric, "", "", "")]);
        tree.put_rule(edit.apply((1, 1, 0), None).unwrap());
        let built = build(&tree, &series("m", &[("port", "p80")]));
        assert_eq!(built.path, ["m", "port: 80 of p80 000001000001000001"]);
    }

    #[test]
    fn a_separator_may_leave_empty_parts() {
        let tree = tree(&[(0, 0, RuleType::Metric, "", "", "\\.")]);
        assert_eq!(build(&tree, &series("a..b..", &[])).path, ["a", "b"]);
        let built = build(&tree, &series("...", &[]));
        assert_eq!(built.path, [] as [&str; 0]);
    }

    /// Names without gaps, and without branches that repeat the one above.
    fn model(slots: &[Option<String>]) -> Vec<String> {
        let mut names: Vec<String> = slots.iter().flatten().cloned().collect();
        let leaf = names.pop();
        names.dedup();
        names.extend(leaf);
        names
    }

    proptest! {
        #[test]
        fn places_are_those_of_the_model(
            slots in prop::collection::vec(prop::option::of("[ab]"), 0..8),
        ) {
            let mut messages = Vec::new();
            prop_assert_eq!(place(&slots, "00", &mut messages), model(&slots));
        }
    }
}
