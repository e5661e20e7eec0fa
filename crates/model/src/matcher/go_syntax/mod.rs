//! Go's regular expressions (RE2 with Perl classes), rewritten in the syntax of the `regex` crate.
//!
//! Both are close, and the differences would change which series a query selects:
//!
//! | in Go | in the `regex` crate |
//! | --- | --- |
//! | `\d \w \s \b` are ASCII, `\s` without vertical tab | Unicode |
//! | `\Q…\E`, `\141` (octal), `\p{^Greek}`, `(?)` | unknown |
//! | `\<` is the character `<` | start of a word |
//! | `{`, `{,2}`, `[a[b]`, `[a&&b]` are characters | error, nested class, intersection |
//! | `a**`, `a{1001}`, `(?x)`, `(?u)` are errors | accepted |
//!
//! Holds always: everything that is a character is written as a letter, digit or `\x{…}`, so
//! nothing in the output can be taken for syntax by accident.

mod classes;

use std::collections::HashSet;
use std::fmt::Write;

use super::MatcherError;

/// Largest count in `{n,m}`, as in RE2.
const MAX_REPEAT: u32 = 1000;

/// Rewrites a Go pattern. What the `regex` crate refuses as well (an operator with nothing to
/// repeat) may be left for it to find.
///
/// Groups catch nothing in the result: for those that do, `regex` builds one more automaton.
pub(super) fn translate(pattern: &str) -> Result<String, MatcherError> {
    translate_as(pattern, false).map(|(translated, _)| translated)
}

/// As [`translate`], with groups that catch, and the name of each in the order of their numbers,
/// from group 1 on; empty for those without. Go allows names that the `regex` crate does not have.
pub(super) fn translate_with_groups(pattern: &str) -> Result<(String, Vec<&str>), MatcherError> {
    translate_as(pattern, true)
}

fn translate_as(pattern: &str, captures: bool) -> Result<(String, Vec<&str>), MatcherError> {
    let mut translator = Translator {
        pattern,
        rest: pattern,
        out: String::with_capacity(2 * pattern.len()),
        captures,
        open_groups: 0,
        groups: Vec::new(),
        group_names: HashSet::new(),
        last_repetition: None,
        pending_flags: String::new(),
        last_posix_end: pattern.rfind(":]"),
    };
    while !translator.rest.is_empty() {
        translator.step()?;
    }
    if translator.open_groups > 0 {
        return Err(MatcherError::syntax("missing closing )", pattern));
    }
    Ok((translator.out, translator.groups))
}

struct Translator<'p> {
    pattern: &'p str,
    rest: &'p str,
    out: String,
    /// Set if groups catch what they match.
    captures: bool,
    open_groups: usize,
    /// The name of each capture group so far, empty where it has none.
    groups: Vec<&'p str>,
    /// The names that were passed to the `regex` crate.
    group_names: HashSet<&'p str>,
    /// The pattern from the last item on, if that was `*`, `+`, `?` or `{n,m}`: Go forbids to
    /// repeat those again.
    last_repetition: Option<&'p str>,
    /// Flags such as `(?i)`, written before the next item: in Go they may stand between an item and
    /// its repetition, so `a(?i)*` becomes `a*(?i)`.
    pending_flags: String,
    /// Where the last `:]` of the pattern is.
    last_posix_end: Option<usize>,
}

impl<'p> Translator<'p> {
    /// Translates one item: a character, class, group bracket or operator.
    fn step(&mut self) -> Result<(), MatcherError> {
        let start = self.rest;
        let Some(c) = self.next_char() else {
            return Ok(());
        };
        let repeated = self.last_repetition.take();
        let counted = if c == '{' {
            counted_repetition(self.rest)
        } else {
            None
        };
        let is_flags = c == '(' && self.rest.starts_with('?');
        if counted.is_none() && !is_flags && !matches!(c, '*' | '+' | '?') {
            self.flush_flags();
        }
        match c {
            '*' | '+' | '?' => {
                // After flags, `?` must not turn into the mark of a lazy repetition.
                let optional = c == '?' && !self.pending_flags.is_empty();
                self.out
                    .push_str(if optional { "{0,1}" } else { &start[..1] });
                self.finish_repetition(start, repeated)?;
            }
            '{' => match counted {
                Some((counts, length)) => {
                    let text = &start[..length + 1];
                    if !counts.is_valid() {
                        return Err(MatcherError::syntax("invalid repeat count", text));
                    }
                    self.rest = &self.rest[length..];
                    self.out.push_str(text);
                    self.finish_repetition(start, repeated)?;
                }
                None => self.push_char('{'),
            },
            '(' => self.open_group(start)?,
            ')' => {
                self.open_groups = self
                    .open_groups
                    .checked_sub(1)
                    .ok_or_else(|| MatcherError::syntax("unexpected )", self.pattern))?;
                self.out.push(')');
            }
            '|' | '.' | '^' | '$' => self.out.push(c),
            '[' => self.class(start)?,
            '\\' => self.escape_outside_class(start)?,
            c => self.push_char(c),
        }
        Ok(())
    }

    /// Reads the `?` that makes a repetition lazy, and refuses a repetition of a repetition.
    fn finish_repetition(
        &mut self,
        start: &'p str,
        repeated: Option<&'p str>,
    ) -> Result<(), MatcherError> {
        if let Some(rest) = self.rest.strip_prefix('?') {
            self.rest = rest;
            self.out.push('?');
        }
        if let Some(repeated) = repeated {
            return Err(self.error_from("invalid nested repetition operator", repeated));
        }
        self.last_repetition = Some(start);
        Ok(())
    }

    fn open_group(&mut self, start: &'p str) -> Result<(), MatcherError> {
        let Some(rest) = self.rest.strip_prefix('?') else {
            self.out.push_str(if self.captures { "(" } else { "(?:" });
            self.open_groups += 1;
            self.groups.push("");
            return Ok(());
        };
        if let Some(named) = rest.strip_prefix("P<").or_else(|| rest.strip_prefix('<')) {
            let (name, rest) = named
                .split_once('>')
                .ok_or_else(|| MatcherError::syntax("invalid named capture", start))?;
            self.rest = rest;
            return self.open_named_group(start, name);
        }
        self.rest = rest;
        self.flags(start)
    }

    fn open_named_group(&mut self, start: &'p str, name: &'p str) -> Result<(), MatcherError> {
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(self.error_from("invalid named capture", start));
        }
        self.flush_flags();
        self.open_groups += 1;
        self.groups.push(name);
        if !self.captures {
            self.out.push_str("(?:");
        } else if self.group_names.contains(&name) || name.starts_with(|c: char| c.is_ascii_digit())
        {
            // The regex crate has no such names; the group keeps its number.
            self.out.push('(');
        } else {
            self.group_names.insert(name);
            write!(self.out, "(?P<{name}>").expect("a String takes all text");
        }
        Ok(())
    }

    /// Reads `i-s)` or `i-s:`: the flags of the rest of the group, or of a group of their own.
    fn flags(&mut self, start: &'p str) -> Result<(), MatcherError> {
        let (mut on, mut off) = (String::new(), String::new());
        let mut negative = false;
        let mut flag_missing = false;
        loop {
            match self.next_char() {
                Some(flag @ ('i' | 'm' | 's' | 'U')) => {
                    flag_missing = false;
                    let set = if negative { &mut off } else { &mut on };
                    if !set.contains(flag) {
                        set.push(flag);
                    }
                }
                Some('-') if !negative => {
                    negative = true;
                    flag_missing = true;
                }
                Some(end @ (':' | ')')) if !flag_missing => {
                    on.retain(|flag| !off.contains(flag));
                    self.finish_flags(end, &on, &off);
                    return Ok(());
                }
                _ => return Err(self.error_from("invalid or unsupported Perl syntax", start)),
            }
        }
    }

    fn finish_flags(&mut self, end: char, on: &str, off: &str) {
        let minus = if off.is_empty() { "" } else { "-" };
        let flags = format!("(?{on}{minus}{off}{end}");
        if end == ':' {
            self.flush_flags();
            self.open_groups += 1;
            self.out.push_str(&flags);
        } else if !(on.is_empty() && off.is_empty()) {
            self.pending_flags.push_str(&flags);
        }
    }

    fn flush_flags(&mut self) {
        self.out.push_str(&self.pending_flags);
        self.pending_flags.clear();
    }

    /// An error about the part of the pattern from `start` to where reading has come.
    fn error_from(&self, reason: &str, start: &str) -> MatcherError {
        MatcherError::syntax(reason, &start[..start.len() - self.rest.len()])
    }

    fn next_char(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    fn push_char(&mut self, c: char) {
        if c.is_ascii() && !c.is_ascii_alphanumeric() {
            write!(self.out, "\\x{{{:x}}}", u32::from(c)).expect("a String takes all text");
        } else {
            self.out.push(c);
        }
    }
}

struct Counts {
    min: u32,
    max: Option<u32>,
}

impl Counts {
    fn is_valid(&self) -> bool {
        let max = self.max.unwrap_or(self.min);
        self.min <= max && max <= MAX_REPEAT
    }
}

/// After `{`: the counts and the length of `n}`, `n,}` or `n,m}`. Anything else makes the brace a
/// character, a number with a leading zero included.
fn counted_repetition(rest: &str) -> Option<(Counts, usize)> {
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',')?;
    let content = rest[end..].starts_with('}').then_some(&rest[..end])?;
    let counts = match content.split_once(',') {
        None => {
            let count = repeat_number(content)?;
            Counts {
                min: count,
                max: Some(count),
            }
        }
        Some((min, "")) => Counts {
            min: repeat_number(min)?,
            max: None,
        },
        Some((min, max)) => Counts {
            min: repeat_number(min)?,
            max: Some(repeat_number(max)?),
        },
    };
    Some((counts, content.len() + 1))
}

fn repeat_number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    // A number too large for the type is too large for the limit, and refused there.
    Some(text.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use crate::{MatchOp, Matcher};

    fn decode(text: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((byte, tail)) = rest.split_first() {
            rest = tail;
            if *byte == b'%' {
                let digits = std::str::from_utf8(&rest[..2]).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = &rest[2..];
            } else {
                bytes.push(*byte);
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn go_says_the_same() {
        let cases = include_str!("../../../testdata/go-regexp.txt");
        let mut checked = 0;
        for line in cases.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let kind = words.next().unwrap();
            let pattern = decode(words.next().unwrap());
            let matcher = Matcher::new(MatchOp::Regex, "name", pattern.as_str());
            if kind == "error" {
                assert!(matcher.is_err(), "Go refuses {pattern:?}");
                continue;
            }
            let matcher = matcher.unwrap_or_else(|error| panic!("Go accepts {pattern:?}: {error}"));
            for word in words {
                let value = decode(&word[1..]);
                let expected = word.starts_with('+');
                assert_eq!(
                    matcher.matches(&value),
                    expected,
                    "{pattern:?} on {value:?}"
                );
                checked += 1;
            }
        }
        assert!(checked > 2500, "only {checked} checks were made");
    }

    #[test]
    fn errors_use_the_words_of_go() {
        for (pattern, expected) in [
            ("a(b", "missing closing ): `a(b`"),
            ("a)b", "unexpected ): `a)b`"),
            ("a[b", "missing closing ]: `[b`"),
            ("ab[c-a]", "invalid character class range: `c-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"x\p{Foo}", r"invalid character class range: `\p{Foo}`"),
            (r"x\yz", r"invalid escape sequence: `\y`"),
            ("a**b", "invalid nested repetition operator: `**`"),
            ("a|*b", "missing argument to repetition operator: `*`"),
            ("x|{2}b", "missing argument to repetition operator: `{2}`"),
            ("a{1001}b", "invalid repeat count: `{1001}`"),
            ("a(?<n-m>b)", "invalid named capture: `(?<n-m>`"),
            ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ] {
            let error = Matcher::new(MatchOp::Regex, "name", pattern).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("error parsing regexp: {expected}")
            );
        }
    }
}
