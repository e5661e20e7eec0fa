//! Relabelling: rules that rewrite the labels of a target or a series, or drop it.
//!
//! Holds always:
//! - The meaning is that of Prometheus 3. An absent label and an empty one are the same.
//! - A [`LabelSet`] is sorted by name, has each name once and holds no empty value.
//! - A rule whose pattern is the default or a list of words runs no regex.

use std::borrow::Cow;

use md5::{Digest as _, Md5};

use super::config::{NameValidation, RelabelAction, RelabelRule};

#[cfg(test)]
mod tests;

/// Labels that are being rewritten.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LabelSet(Vec<(String, String)>);

impl LabelSet {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The value, empty for a label that is not there.
    pub(crate) fn get(&self, name: &str) -> &str {
        match self.position(name) {
            Ok(at) => self.0.get(at).map_or("", |(_, value)| value),
            Err(_) => "",
        }
    }

    /// Sets a label; the empty value removes it.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        match self.position(&name) {
            Ok(at) if value.is_empty() => {
                self.0.remove(at);
            }
            Ok(at) => {
                if let Some(pair) = self.0.get_mut(at) {
                    pair.1 = value;
                }
            }
            Err(_) if value.is_empty() => {}
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, &str) -> bool) {
        self.0.retain(|(name, value)| keep(name, value));
    }

    /// In the order of their names.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0
            .binary_search_by(|(other, _)| other.as_str().cmp(name))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for LabelSet {
    /// Of two values for one name the later counts.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut labels = Self::new();
        for (name, value) in pairs {
            labels.set(name, value);
        }
        labels
    }
}

/// Applies the rules one after the other. `false` means that the target or series is dropped; its
/// labels are then whatever the rules before made of them.
pub(crate) fn apply(rules: &[RelabelRule], labels: &mut LabelSet) -> bool {
    rules.iter().all(|rule| apply_one(rule, labels))
}

/// Applies one rule; `false` as for all.
pub(crate) fn apply_one(rule: &RelabelRule, labels: &mut LabelSet) -> bool {
    match rule.action {
        RelabelAction::Keep => return rule.regex.is_match(&joined(rule, labels)),
        RelabelAction::Drop => return !rule.regex.is_match(&joined(rule, labels)),
        RelabelAction::KeepEqual => return joined(rule, labels) == labels.get(&rule.target_label),
        RelabelAction::DropEqual => return joined(rule, labels) != labels.get(&rule.target_label),
        RelabelAction::Replace => replace(rule, labels),
        RelabelAction::HashMod => {
            // A modulus of zero is refused when the configuration is read.
            let modulus = rule.modulus.max(1);
            let hash = hash(&joined(rule, labels)) % modulus;
            labels.set(rule.target_label.as_str(), hash.to_string());
        }
        RelabelAction::Lowercase => {
            let value = map_chars(&joined(rule, labels), lower);
            labels.set(rule.target_label.as_str(), value);
        }
        RelabelAction::Uppercase => {
            let value = map_chars(&joined(rule, labels), upper);
            labels.set(rule.target_label.as_str(), value);
        }
        RelabelAction::LabelMap => label_map(rule, labels),
        RelabelAction::LabelDrop => labels.retain(|name, _| !rule.regex.is_match(name)),
        RelabelAction::LabelKeep => labels.retain(|name, _| rule.regex.is_match(name)),
    }
    true
}

/// The last eight bytes of the MD5 digest, big endian, as in Prometheus.
fn hash(text: &str) -> u64 {
    let digest: [u8; 16] = Md5::digest(text).into();
    let [.., a, b, c, d, e, f, g, h] = digest;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The values of the source labels with the separator between them.
fn joined<'l>(rule: &RelabelRule, labels: &'l LabelSet) -> Cow<'l, str> {
    match rule.source_labels.as_slice() {
        [] => Cow::Borrowed(""),
        [only] => Cow::Borrowed(labels.get(only)),
        [first, others @ ..] => {
            let mut text = labels.get(first).to_owned();
            for name in others {
                text.push_str(&rule.separator);
                text.push_str(labels.get(name));
            }
            Cow::Owned(text)
        }
    }
}

fn replace(rule: &RelabelRule, labels: &mut LabelSet) {
    let source = joined(rule, labels);
    let Some(value) = rule.regex.expand(&source, &rule.replacement) else {
        return;
    };
    let target = if rule.target_label.contains('$') {
        let Some(target) = rule.regex.expand(&source, &rule.target_label) else {
            return;
        };
        // What the expansion makes of a name need not be one. Then the rule does nothing.
        if !rule.name_validation.is_label_name(&target) {
            return;
        }
        Cow::Owned(target)
    } else {
        Cow::Borrowed(rule.target_label.as_str())
    };
    labels.set(target, value);
}

fn label_map(rule: &RelabelRule, labels: &mut LabelSet) {
    // All new names first: what is mapped must not be mapped again.
    let mapped: Vec<(String, String)> = labels
        .iter()
        .filter_map(|(name, value)| {
            let name = rule.regex.expand(name, &rule.replacement)?;
            (!name.is_empty()).then(|| (name, value.to_owned()))
        })
        .collect();
    for (name, value) in mapped {
        labels.set(name, value);
    }
}

impl NameValidation {
    pub(crate) fn is_label_name(self, name: &str) -> bool {
        match self {
            Self::Utf8 => !name.is_empty(),
            Self::Legacy => {
                !name.starts_with(|c: char| c.is_ascii_digit())
                    && !name.is_empty()
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            }
        }
    }
}

/// Letter by letter, as Go does it: a letter whose other case is several letters stays as it is,
/// and a sigma at the end of a word is no exception.
fn map_chars(text: &str, map: impl Fn(char) -> char) -> String {
    text.chars().map(map).collect()
}

fn lower(c: char) -> char {
    // The one letter whose lower case is two letters in Unicode's full mapping.
    if c == '\u{130}' {
        return 'i';
    }
    only(c.to_lowercase()).unwrap_or(c)
}

fn upper(c: char) -> char {
    only(c.to_uppercase()).unwrap_or(c)
}

fn only(mut chars: impl Iterator<Item = char>) -> Option<char> {
    let first = chars.next();
    if chars.next().is_some() { None } else { first }
}
