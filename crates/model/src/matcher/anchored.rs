//! A regex whose captures are expanded into a template.
//!
//! Holds always: the pattern means what it means in a matcher (Go's syntax, anchored at both ends,
//! the dot matches a newline), and templates are those of Go's `Regexp.Expand`.

use std::fmt;
use std::sync::Arc;

use regex::Captures;
use thiserror::Error;

use super::MatcherError;
use super::go_syntax::translate_with_groups;
use super::pattern::{MAX_PATTERN_BYTES, Pattern, Shape, compile};
use super::recent::Compiled;

/// The pattern that relabelling uses where none is given: everything, caught by one group.
const EVERYTHING: &str = "(.*)";

/// A template would expand to more bytes than it may.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the template expands to too many bytes")]
pub struct ExpansionTooLong;

/// A compiled pattern whose captures can be used.
#[derive(Clone)]
pub struct AnchoredRegex {
    pattern: String,
    /// Whether the pattern matches, answered without the regex where that is possible.
    test: Arc<Pattern>,
    compiled: Compiled,
    /// The names of the groups from group 1 on, empty for those without.
    group_names: Vec<String>,
}

impl fmt::Debug for AnchoredRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnchoredRegex").field(&self.pattern).finish()
    }
}

impl PartialEq for AnchoredRegex {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}

impl Eq for AnchoredRegex {}

impl AnchoredRegex {
    pub fn new(pattern: &str) -> Result<Self, MatcherError> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(MatcherError::TooLong);
        }
        let (translated, groups) = translate_with_groups(pattern)?;
        Ok(Self {
            pattern: pattern.to_owned(),
            test: Arc::new(Pattern::new(pattern)?),
            compiled: compile(pattern, &translated)?,
            group_names: groups.into_iter().map(str::to_owned).collect(),
        })
    }

    /// As it was written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Bytes of compiled regexes that are too large to be shared with other users of the pattern;
    /// 0 for most patterns.
    pub fn unshared_bytes(&self) -> usize {
        self.test.unshared_bytes() + self.compiled.unshared_bytes()
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.test.matches(text)
    }

    /// The template with the groups that `text` gives, or `None` if the pattern does not match it.
    ///
    /// In the template, `$name` and `${name}` stand for what a group caught, where the name is as
    /// long as it can be: `$1x` is the group `1x`. A number is the group's number, 0 the whole
    /// text. A group that does not exist or caught nothing is empty, `$$` is a dollar sign, and a
    /// dollar sign with no name after it is itself.
    pub fn expand(&self, text: &str, template: &str) -> Option<String> {
        let expanded = self.expand_within(text, template, usize::MAX);
        expanded.ok().flatten()
    }

    /// As [`expand`](Self::expand), but fails before the result takes more than `bytes_max`: a
    /// template may name a group many times.
    pub fn expand_within(
        &self,
        text: &str,
        template: &str,
        bytes_max: usize,
    ) -> Result<Option<String>, ExpansionTooLong> {
        if !template.contains('$') {
            return match self.is_match(text) {
                true if template.len() > bytes_max => Err(ExpansionTooLong),
                true => Ok(Some(template.to_owned())),
                false => Ok(None),
            };
        }
        if self.pattern == EVERYTHING {
            let whole = |name: &str| match name {
                "0" | "1" => text,
                _ => "",
            };
            return fill(template, text.len(), bytes_max, whole).map(Some);
        }
        // Captures cost more than a test that needs no regex, and most texts do not match.
        if !matches!(self.test.shape(), Shape::Regex { .. }) && !self.test.matches(text) {
            return Ok(None);
        }
        let Some(captures) = self.compiled.regex.captures(text) else {
            return Ok(None);
        };
        let captured = |name: &str| self.captured(&captures, name);
        fill(template, text.len(), bytes_max, captured).map(Some)
    }

    /// What a group caught, by its number or name.
    fn captured<'t>(&self, captures: &Captures<'t>, name: &str) -> &'t str {
        let group = |number| captures.get(number).map(|found| found.as_str());
        if let Some(number) = group_number(name) {
            return group(number).unwrap_or_default();
        }
        // Several groups may have one name in Go; the first that caught something counts.
        let mut named = (1..).zip(&self.group_names).filter(|(_, n)| *n == name);
        named
            .find_map(|(number, _)| group(number))
            .unwrap_or_default()
    }
}

/// The template with each group replaced; `bytes` is how much the groups will roughly add.
fn fill<'t>(
    template: &str,
    bytes: usize,
    bytes_max: usize,
    captured: impl Fn(&str) -> &'t str,
) -> Result<String, ExpansionTooLong> {
    let mut out = String::with_capacity((template.len() + bytes).min(bytes_max));
    let mut push = |piece: &str| {
        if piece.len() > bytes_max - out.len() {
            return Err(ExpansionTooLong);
        }
        out.push_str(piece);
        Ok(())
    };
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        push(before)?;
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            push("$")?;
            rest = after;
        } else if let Some((name, after)) = split_group_name(rest) {
            push(captured(name))?;
            rest = after;
        } else {
            push("$")?;
        }
    }
    push(rest)?;
    Ok(out)
}

/// The group name after a dollar sign of a template, and what follows it.
fn split_group_name(rest: &str) -> Option<(&str, &str)> {
    let braced = rest.strip_prefix('{');
    let named = braced.unwrap_or(rest);
    let end = named
        .find(|c: char| !(c.is_alphabetic() || c.is_numeric() || c == '_'))
        .unwrap_or(named.len());
    let (name, after) = named.split_at(end);
    if name.is_empty() {
        return None;
    }
    match braced {
        Some(_) => after.strip_prefix('}').map(|after| (name, after)),
        None => Some((name, after)),
    }
}

/// The number that a name is. As in Go, leading zeros and huge numbers are names.
fn group_number(name: &str) -> Option<usize> {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit())
        && name.len() <= 9
        && (name == "0" || !name.starts_with('0'));
    is_number.then(|| name.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, template: &str, expected: Option<&str>) {
        let regex = AnchoredRegex::new(pattern).expect(pattern);
        let expanded = regex.expand(text, template);
        assert_eq!(expanded.as_deref(), expected, "{pattern} {text} {template}");
    }

    #[test]
    fn anchored_at_both_ends() {
        check("value-(.*)", "source-value-10", "$1", None);
        check(
            "(.*)-value-(.*)",
            "source-value-10",
            "$2 $1",
            Some("10 source"),
        );
        check("(a|ab)(c|bcd)(d*)", "abcd", "$1,$2,$3", Some("a,bcd,"));
        check("a.b", "a\nb", "$0!", Some("a\nb!"));
        check("", "", "x", Some("x"));
        check("", "y", "x", None);
    }

    #[test]
    fn templates_as_go_expands_them() {
        let pattern = "(?P<first>a+)(b+)?";
        for (template, expected) in [
            ("", ""),
            ("no group", "no group"),
            ("$0", "aa"),
            ("$1", "aa"),
            ("${1}x", "aax"),
            // The longest name counts: there is no group `1x`.
            ("$1x", ""),
            ("$1_x", ""),
            ("$1-x", "aa-x"),
            ("$first", "aa"),
            ("${first}s", "aas"),
            ("$firsts", ""),
            ("$2", ""),
            ("$3", ""),
            ("$01", ""),
            ("$99999999999999999999", ""),
            ("$$1", "$1"),
            ("$$$1", "$aa"),
            ("$", "$"),
            ("a$", "a$"),
            ("$-", "$-"),
            ("${1", "${1"),
            ("${}", "${}"),
            ("${1-}", "${1-}"),
            ("$é", ""),
            ("$1é", ""),
            ("$1…", "aa…"),
        ] {
            check(pattern, "aa", template, Some(expected));
        }
    }

    #[test]
    fn names_that_only_go_has() {
        check("(?P<1x>a)(b)", "ab", "$1x $2", Some("a b"));
        check("(?<n>a)?(?P<n>b)", "b", "$n", Some("b"));
        check("(?:a)(?i:(B))", "ab", "$1", Some("b"));
    }

    #[test]
    fn errors_of_the_pattern() {
        assert!(AnchoredRegex::new("(.*").is_err());
        assert!(AnchoredRegex::new("*").is_err());
        assert!(AnchoredRegex::new(&"a".repeat(MAX_PATTERN_BYTES + 1)).is_err());
    }

    #[test]
    fn what_needs_no_regex_is_the_same() {
        check(
            "(.*)",
            "a\nb",
            "<$1|$0|$2|${1}|$x>",
            Some("<a\nb|a\nb||a\nb|>"),
        );
        check("(.*)", "", "$1", Some(""));
        check("(.*)", "x", "plain", Some("plain"));
        check("(a|b)", "b", "$1!", Some("b!"));
        check("(a|b)", "c", "$1!", None);
        check("(a|b)", "c", "plain", None);
        check("(pre)-.*", "pre-x", "$1", Some("pre"));
        check("(pre)-.*", "x-pre", "$1", None);
        check("[0-9]+", "12", "plain", Some("plain"));
    }

    #[test]
    fn expansions_end_at_their_limit() {
        for (pattern, template) in [("(.*)", "$1-$1"), ("(x+)", "$1-$1"), ("x*", "xxx-xxx")] {
            let regex = AnchoredRegex::new(pattern).expect(pattern);
            let within = |bytes_max| regex.expand_within("xxx", template, bytes_max);
            assert_eq!(within(7), Ok(Some("xxx-xxx".to_owned())), "{pattern}");
            for bytes_max in [0, 3, 6] {
                assert_eq!(within(bytes_max), Err(ExpansionTooLong), "{pattern}");
            }
        }
        // The room for the groups is not taken before they need it.
        let regex = AnchoredRegex::new("(.*)").expect("everything");
        let template = "$1".repeat(1 << 20);
        assert_eq!(
            regex.expand_within(&"x".repeat(1 << 10), &template, 1 << 15),
            Err(ExpansionTooLong)
        );
    }

    proptest! {
        /// A template of known pieces expands to the pieces' values, whatever stands between.
        #[test]
        fn pieces_expand_one_by_one(
            pieces in prop::collection::vec(0..6usize, 0..8),
            text in "[a-c]{0,3}-[0-9]{0,3}",
        ) {
            let regex = AnchoredRegex::new("(?P<word>.*)-(.*)").unwrap();
            let (word, number) = text.split_once('-').unwrap();
            let values = [
                ("${word}", word), ("${2}", number), ("$0,", &format!("{text},")), ("$$", "$"),
                ("${3}", ""), (" plain ", " plain "),
            ];
            let template: String = pieces.iter().map(|piece| values[*piece].0).collect();
            let expected: String = pieces.iter().map(|piece| values[*piece].1).collect();
            prop_assert_eq!(regex.expand(&text, &template), Some(expected));
        }

        #[test]
        fn no_template_panics(text in "\\PC*", template in "[$${}a1é ]*") {
            let regex = AnchoredRegex::new("(.*?)(.?)").unwrap();
            prop_assert!(regex.expand(&text, &template).is_some());
        }
    }
}
