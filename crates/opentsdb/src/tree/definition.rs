//! The definition of a tree: its settings and rules.

use std::collections::BTreeMap;

use icecore_model::CatalogChange;

use super::rule::Rule;
use crate::catalog;
use crate::catalog_key;
use crate::json::Json;
use crate::json_object::{ObjectWriter, push_array};
use crate::record_field::{boolean, integer, text};

/// Rules of all trees together.
pub(crate) const RULES_MAX: usize = 4096;

/// Bytes of the compiled expressions of all rules, which stay in memory.
pub(crate) const PATTERNS_BYTES_MAX: usize = 128 << 20;

/// A tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) id: u16,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) notes: String,
    /// Series that match no rule of some level are left out.
    pub(crate) strict_match: bool,
    pub(crate) enabled: bool,
    /// Collisions and series that do not match are remembered.
    pub(crate) store_failures: bool,
    /// Seconds since the epoch; 0 where it is not known.
    pub(crate) created: i64,
    /// By level and order.
    pub(crate) rules: BTreeMap<u32, BTreeMap<u32, Rule>>,
}

/// What a request changes. An empty text is as good as not given, as in the original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeEdit {
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) notes: Option<String>,
    pub(crate) strict_match: Option<bool>,
    pub(crate) enabled: Option<bool>,
    pub(crate) store_failures: Option<bool>,
}

impl TreeEdit {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Tree {
    /// Takes over what is given; with `replaces` the rest is reset, except for rules and the time
    /// of creation.
    pub(crate) fn edit(&mut self, edit: TreeEdit, replaces: bool) {
        if replaces {
            *self = Self {
                id: self.id,
                created: self.created,
                rules: std::mem::take(&mut self.rules),
                ..Self::default()
            };
        }
        let texts = [
            (&mut self.name, edit.name),
            (&mut self.description, edit.description),
            (&mut self.notes, edit.notes),
        ];
        for (field, value) in texts {
            if let Some(value) = value {
                *field = value;
            }
        }
        self.strict_match = edit.strict_match.unwrap_or(self.strict_match);
        self.enabled = edit.enabled.unwrap_or(self.enabled);
        self.store_failures = edit.store_failures.unwrap_or(self.store_failures);
    }

    pub(crate) fn rule(&self, level: u32, order: u32) -> Option<&Rule> {
        self.rules.get(&level)?.get(&order)
    }

    pub(crate) fn put_rule(&mut self, rule: Rule) {
        let level = self.rules.entry(rule.level).or_default();
        level.insert(rule.order, rule);
    }

    pub(crate) fn remove_rule(&mut self, level: u32, order: u32) {
        if let Some(rules) = self.rules.get_mut(&level) {
            rules.remove(&order);
            if rules.is_empty() {
                self.rules.remove(&level);
            }
        }
    }

    pub(crate) fn rule_count(&self) -> usize {
        self.rules.values().map(BTreeMap::len).sum()
    }

    /// The bytes that the expressions of its rules count for.
    pub(crate) fn pattern_bytes(&self) -> usize {
        let rules = self.rules.values().flat_map(BTreeMap::values);
        rules.map(|rule| rule.pattern_bytes).sum()
    }

    /// As answers show it.
    pub(crate) fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::new(out);
        self.write_settings(&mut object);
        let out = object.member("rules");
        if self.rules.is_empty() {
            out.push_str("null");
            return;
        }
        let mut levels = ObjectWriter::new(out);
        for (level, rules) in &self.rules {
            let mut orders = ObjectWriter::new(levels.member(&level.to_string()));
            for (order, rule) in rules {
                rule.write(orders.member(&order.to_string()));
            }
        }
    }

    fn write_settings(&self, object: &mut ObjectWriter<'_>) {
        object.text("name", &self.name);
        object.text("description", &self.description);
        object.text("notes", &self.notes);
        object.plain("enabled", self.enabled);
        object.plain("created", self.created);
        object.plain("treeId", self.id);
        object.plain("strictMatch", self.strict_match);
        object.plain("storeFailures", self.store_failures);
    }

    pub(crate) fn stored(&self) -> CatalogChange {
        let mut json = String::new();
        let mut object = ObjectWriter::new(&mut json);
        self.write_settings(&mut object);
        let rules = self.rules.values().flat_map(BTreeMap::values);
        push_array(object.member("rules"), rules, |out, rule| rule.write(out));
        drop(object);
        catalog::stored(catalog_key::tree(self.id), &json)
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let json = Json::parse(catalog::json_of(value)?).ok()?;
        let mut tree = Self {
            id: integer(&json, "treeId")?,
            name: text(&json, "name")?,
            description: text(&json, "description")?,
            notes: text(&json, "notes")?,
            strict_match: boolean(&json, "strictMatch")?,
            enabled: boolean(&json, "enabled")?,
            store_failures: boolean(&json, "storeFailures")?,
            created: integer(&json, "created")?,
            rules: BTreeMap::new(),
        };
        for rule in json.get("rules")?.as_array()? {
            tree.put_rule(Rule::decode(rule)?);
        }
        Some(tree)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rule::{RuleEdit, RuleType};
    use super::*;

    proptest! {
        #[test]
        fn records_are_read_as_written_and_never_in_part(
            id in any::<u16>(),
            texts in prop::array::uniform4(any::<String>()),
            flags in any::<[bool; 3]>(),
            places in prop::collection::vec((0..5u32, 0..5u32), 0..4),
        ) {
            let [name, description, notes, field] = texts;
            let [strict_match, enabled, store_failures] = flags;
            let mut tree = Tree {
                id, name, description, notes, strict_match, enabled, store_failures,
                created: 7,
                rules: BTreeMap::new(),
            };
            for (level, order) in places {
                let edit = RuleEdit {
                    kind: Some(RuleType::Metric),
                    field: Some(field.clone()),
                    separator: Some("\\.".into()),
                    ..RuleEdit::default()
                };
                tree.put_rule(edit.apply((id, level, order), None).unwrap());
            }
            let value = tree.stored().value.unwrap();
            let read = Tree::decode(&value).unwrap();
            prop_assert_eq!(format!("{read:?}"), format!("{tree:?}"));
            for end in 0..value.len() {
                prop_assert!(Tree::decode(&value[..end]).is_none());
            }
        }
    }
}
