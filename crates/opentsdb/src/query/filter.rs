//! Filters of tag values: what a series' value of a tag key has to be.

use std::collections::HashSet;

use regex::{Regex, RegexBuilder};

/// Most bytes of a compiled regular expression.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// A condition on the value of one tag key.
#[derive(Clone, Debug)]
pub(crate) struct TagFilter {
    pub(crate) tagk: String,
    /// As written, without type and parentheses.
    pub(crate) text: String,
    pub(crate) group_by: bool,
    kind: FilterKind,
    test: Test,
}

/// The types of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterKind {
    LiteralOr,
    IliteralOr,
    NotLiteralOr,
    NotIliteralOr,
    Wildcard,
    Iwildcard,
    Regexp,
}

#[derive(Clone, Debug)]
enum Test {
    AnyOf(HashSet<String>),
    NoneOf(HashSet<String>),
    Glob(Glob),
    Regex(Regex),
}

impl FilterKind {
    pub(crate) const ALL: [Self; 7] = [
        Self::LiteralOr,
        Self::IliteralOr,
        Self::NotLiteralOr,
        Self::NotIliteralOr,
        Self::Wildcard,
        Self::Iwildcard,
        Self::Regexp,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LiteralOr => "literal_or",
            Self::IliteralOr => "iliteral_or",
            Self::NotLiteralOr => "not_literal_or",
            Self::NotIliteralOr => "not_iliteral_or",
            Self::Wildcard => "wildcard",
            Self::Iwildcard => "iwildcard",
            Self::Regexp => "regexp",
        }
    }

    /// Values are compared in lower case.
    fn ignores_case(self) -> bool {
        matches!(
            self,
            Self::IliteralOr | Self::NotIliteralOr | Self::Iwildcard
        )
    }
}

impl TagFilter {
    /// A filter of a type that is named.
    pub(crate) fn new(kind: &str, tagk: &str, text: &str, group_by: bool) -> Result<Self, String> {
        if kind.is_empty() {
            return Err("The filter type cannot be null or empty".into());
        }
        if tagk.is_empty() {
            return Err("Tagk cannot be null or empty".into());
        }
        let known = FilterKind::ALL.into_iter().find(|k| k.name() == kind);
        let kind = known
            .ok_or_else(|| format!("Could not find a tag value filter of the type: {kind}"))?;
        Self::of(kind, kind.ignores_case(), tagk, text, group_by)
    }

    /// A filter as tags have it: a value, values with `|`, a value with `*`, or `type(filter)`.
    pub(crate) fn short(tagk: &str, text: &str, group_by: bool) -> Result<Self, String> {
        if tagk.is_empty() {
            return Err("Tagk cannot be null or empty".into());
        }
        if text.is_empty() {
            return Err("Filter cannot be null or empty".into());
        }
        if let Some((kind, rest)) = text.split_once('(') {
            let inner = rest.strip_suffix(')');
            let inner = inner.ok_or_else(|| format!("Filter must end with a ')': {text}"))?;
            return Self::new(&kind.to_lowercase(), tagk, inner, group_by);
        }
        let kind = if text.contains('*') {
            FilterKind::Wildcard
        } else {
            FilterKind::LiteralOr
        };
        // A value with an asterisk ignores case, although its type does not say so.
        let ignores_case = kind == FilterKind::Wildcard;
        Self::of(kind, ignores_case, tagk, text, group_by)
    }

    fn of(
        kind: FilterKind,
        ignores_case: bool,
        tagk: &str,
        text: &str,
        group_by: bool,
    ) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Filter cannot be null or empty".into());
        }
        let test = match kind {
            FilterKind::LiteralOr | FilterKind::IliteralOr => {
                Test::AnyOf(literals(text, ignores_case)?)
            }
            FilterKind::NotLiteralOr | FilterKind::NotIliteralOr => {
                Test::NoneOf(literals(text, ignores_case)?)
            }
            FilterKind::Wildcard | FilterKind::Iwildcard => {
                Test::Glob(Glob::new(text, ignores_case)?)
            }
            FilterKind::Regexp => {
                let regex = RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build();
                Test::Regex(regex.map_err(|error| error.to_string())?)
            }
        };
        Ok(Self {
            tagk: tagk.to_owned(),
            text: text.to_owned(),
            group_by,
            kind,
            test,
        })
    }

    /// Whether both are the same, but perhaps for grouping.
    pub(crate) fn tests_the_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.tagk == other.tagk && self.text == other.text
    }

    pub(crate) fn kind(&self) -> FilterKind {
        self.kind
    }

    /// Whether values are compared in lower case; also where the type does not say so.
    pub(crate) fn ignores_case(&self) -> bool {
        match &self.test {
            Test::Glob(glob) => glob.ignores_case,
            _ => self.kind.ignores_case(),
        }
    }

    /// The values of a filter whose values must be known names.
    pub(crate) fn literals(&self) -> Option<&HashSet<String>> {
        match &self.test {
            Test::AnyOf(values) if self.kind == FilterKind::LiteralOr => Some(values),
            _ => None,
        }
    }

    pub(crate) fn accepts(&self, value: &str) -> bool {
        let lower = || value.to_lowercase();
        match &self.test {
            Test::AnyOf(values) if self.kind.ignores_case() => values.contains(&lower()),
            Test::AnyOf(values) => values.contains(value),
            Test::NoneOf(values) if self.kind.ignores_case() => !values.contains(&lower()),
            Test::NoneOf(values) => !values.contains(value),
            Test::Glob(glob) => glob.accepts(value),
            Test::Regex(regex) => regex.is_match(value),
        }
    }
}

/// A filter is what it was made of.
impl PartialEq for TagFilter {
    fn eq(&self, other: &Self) -> bool {
        self.tests_the_same(other) && self.group_by == other.group_by
    }
}

fn literals(text: &str, ignores_case: bool) -> Result<HashSet<String>, String> {
    if text == "|" {
        return Err("Filter must contain more than just a pipe".into());
    }
    let text = if ignores_case {
        text.to_lowercase()
    } else {
        text.to_owned()
    };
    let text = text.trim_end_matches('|');
    Ok(text.split('|').map(String::from).collect())
}

/// A pattern with asterisks.
#[derive(Clone, Debug)]
struct Glob {
    ignores_case: bool,
    starts_with_star: bool,
    ends_with_star: bool,
    pieces: Vec<String>,
}

impl Glob {
    fn new(text: &str, ignores_case: bool) -> Result<Self, String> {
        if !text.contains('*') {
            return Err("Filter must contain an asterisk".into());
        }
        let text = if ignores_case {
            text.to_lowercase()
        } else {
            text.to_owned()
        };
        let pieces = text.split('*').filter(|piece| !piece.is_empty());
        Ok(Self {
            ignores_case,
            starts_with_star: text.starts_with('*'),
            ends_with_star: text.ends_with('*'),
            pieces: pieces.map(String::from).collect(),
        })
    }

    /// The original anchors a pattern only where exactly one of its ends is an asterisk; otherwise
    /// its pieces have to occur in their order, anywhere.
    fn accepts(&self, value: &str) -> bool {
        let lower;
        let value = if self.ignores_case {
            lower = value.to_lowercase();
            &lower
        } else {
            value
        };
        let (Some(first), Some(last)) = (self.pieces.first(), self.pieces.last()) else {
            return true;
        };
        if self.starts_with_star && !self.ends_with_star && !value.ends_with(last.as_str()) {
            return false;
        }
        if !self.starts_with_star && self.ends_with_star && !value.starts_with(first.as_str()) {
            return false;
        }
        let mut rest = value;
        self.pieces.iter().all(|piece| {
            let found = rest.find(piece.as_str());
            found.is_some_and(|at| {
                rest = &rest[at + piece.len()..];
                true
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(filter: &str, value: &str) -> bool {
        TagFilter::short("host", filter, true)
            .unwrap()
            .accepts(value)
    }

    #[test]
    fn every_type_has_its_meaning() {
        for (filter, accepted, refused) in [
            ("web01", "web01", "Web01"),
            ("web01|web02|", "web02", "web03"),
            ("literal_or(web01)", "web01", "web010"),
            ("LITERAL_OR(web01)", "web01", "web010"),
            ("iliteral_or(WEB01)", "Web01", "web02"),
            ("not_literal_or(web01)", "Web01", "web01"),
            ("not_iliteral_or(web01|DB)", "web02", "Web01"),
            ("wildcard(web*)", "web01", "Web01"),
            ("wildcard(*01)", "web01", "web010"),
            ("iwildcard(WEB*)", "Web01", "xweb"),
            ("we*", "WEB01", "xweb"),
            ("regexp(eb.1)", "web01x", "web10"),
            ("regexp((?i)^WEB)", "web01", "xweb"),
        ] {
            assert!(accepts(filter, accepted), "{filter} {accepted}");
            assert!(!accepts(filter, refused), "{filter} {refused}");
        }
        assert!(accepts("*", "anything"));
        // Without an asterisk at either end nothing is anchored.
        assert!(accepts("we*1", "web10"));
        assert!(!accepts("we*1*1", "web10"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (filter, message) in [
            ("literal_or()", "Filter cannot be null or empty"),
            ("literal_or(|)", "Filter must contain more than just a pipe"),
            ("wildcard(web)", "Filter must contain an asterisk"),
            ("wildcard(web*", "Filter must end with a ')': wildcard(web*"),
            ("(web01)", "The filter type cannot be null or empty"),
            (
                "not_key()",
                "Could not find a tag value filter of the type: not_key",
            ),
            ("", "Filter cannot be null or empty"),
        ] {
            let error = TagFilter::short("host", filter, true).unwrap_err();
            assert_eq!(error, message);
        }
        assert!(TagFilter::short("host", "regexp([)", true).is_err());
        assert!(TagFilter::new("LITERAL_OR", "host", "a", true).is_err());
        assert!(TagFilter::short("", "a", true).is_err());
    }
}
