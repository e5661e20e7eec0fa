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
//! Holds always: everything that is a character is written as a letter, digit or `\x{…}`, so nothing
//! in the output can be taken for syntax by accident.

use std::collections::HashSet;
use std::fmt::Write;

use super::MatcherError;

/// Largest count in `{n,m}`, as in RE2.
const MAX_REPEAT: u32 = 1000;

const DIGITS: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const SPACE: &str = r"\x{9}\x{a}\x{c}\x{d}\x{20}";

const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Rewrites a Go pattern. What the `regex` crate refuses as well (an operator with nothing to repeat)
/// may be left for it to find.
pub(super) fn translate(pattern: &str) -> Result<String, MatcherError> {
    let mut translator = Translator {
        pattern,
        rest: pattern,
        out: String::with_capacity(2 * pattern.len()),
        open_groups: 0,
        group_names: HashSet::new(),
        last_repetition: None,
        pending_flags: String::new(),
    };
    while !translator.rest.is_empty() {
        translator.step()?;
    }
    if translator.open_groups > 0 {
        return Err(error("missing closing )", pattern));
    }
    Ok(translator.out)
}

struct Translator<'p> {
    pattern: &'p str,
    rest: &'p str,
    out: String,
    open_groups: usize,
    group_names: HashSet<&'p str>,
    /// The pattern from the last item on, if that was `*`, `+`, `?` or `{n,m}`: Go forbids to repeat
    /// those again.
    last_repetition: Option<&'p str>,
    /// Flags such as `(?i)`, written before the next item: in Go they may stand between an item and its
    /// repetition, so `a(?i)*` becomes `a*(?i)`.
    pending_flags: String,
}

fn error(reason: &str, at: &str) -> MatcherError {
    MatcherError::Syntax {
        reason: reason.to_owned(),
        at: at.to_owned(),
    }
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
                        return Err(error("invalid repeat count", text));
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
                    .ok_or_else(|| error("unexpected )", self.pattern))?;
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
            self.out.push('(');
            self.open_groups += 1;
            return Ok(());
        };
        if let Some(named) = rest.strip_prefix("P<").or_else(|| rest.strip_prefix('<')) {
            let (name, rest) = named
                .split_once('>')
                .ok_or_else(|| error("invalid named capture", start))?;
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
        if self.group_names.contains(&name) || name.starts_with(|c: char| c.is_ascii_digit()) {
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

    fn escape_outside_class(&mut self, start: &'p str) -> Result<(), MatcherError> {
        let replacement = match self.rest.chars().next() {
            Some('A') => r"\A",
            Some('z') => r"\z",
            Some('b') => r"(?-u:\b)",
            Some('B') => r"(?-u:\B)",
            Some('Q') => {
                let quoted = &self.rest[1..];
                let (text, rest) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
                self.rest = rest;
                text.chars().for_each(|c| self.push_char(c));
                return Ok(());
            }
            _ => {
                if !self.class_escape(start, false)? {
                    let c = self.char_escape(start)?;
                    self.push_char(c);
                }
                return Ok(());
            }
        };
        self.rest = &self.rest[1..];
        self.out.push_str(replacement);
        Ok(())
    }

    /// After a backslash: writes a Perl or Unicode class if there is one, or says that there is none.
    fn class_escape(&mut self, start: &'p str, in_class: bool) -> Result<bool, MatcherError> {
        let Some(c) = self.rest.chars().next() else {
            return Ok(false);
        };
        let (content, negated) = match c {
            'd' | 'D' => (DIGITS, c == 'D'),
            's' | 'S' => (SPACE, c == 'S'),
            'w' | 'W' => (WORD, c == 'W'),
            'p' | 'P' => {
                self.rest = &self.rest[1..];
                self.unicode_class(start, c == 'P')?;
                return Ok(true);
            }
            _ => return Ok(false),
        };
        self.rest = &self.rest[1..];
        match (negated, in_class) {
            (false, true) => self.out.push_str(content),
            (false, false) => write!(self.out, "[{content}]").expect("a String takes all text"),
            (true, _) => write!(self.out, "[^{content}]").expect("a String takes all text"),
        }
        Ok(true)
    }

    /// After `\p` or `\P`: one letter, or a name in braces that `^` may negate once more.
    fn unicode_class(&mut self, start: &'p str, negated: bool) -> Result<(), MatcherError> {
        const REASON: &str = "invalid character class range";
        let (name, rest) = match self.rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or_else(|| error(REASON, start))?,
            None => {
                let length = self.rest.chars().next().map_or(0, char::len_utf8);
                self.rest.split_at(length)
            }
        };
        self.rest = rest;
        let (plain, negated) = match name.strip_prefix('^') {
            Some(plain) => (plain, !negated),
            None => (name, negated),
        };
        if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') {
            return Err(self.error_from(REASON, start));
        }
        let letter = if negated { 'P' } else { 'p' };
        write!(self.out, "\\{letter}{{{plain}}}").expect("a String takes all text");
        Ok(())
    }

    /// After a backslash that begins no class: the one character it stands for.
    fn char_escape(&mut self, start: &'p str) -> Result<char, MatcherError> {
        let Some(c) = self.next_char() else {
            return Err(error("trailing backslash at end of expression", ""));
        };
        let octal = |rest: &str| rest.starts_with(|c| matches!(c, '0'..='7'));
        let found = match c {
            'a' => Some('\x07'),
            'f' => Some('\x0c'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\x0b'),
            'x' => self.hex_escape(),
            '0' => Some(self.octal_escape(0)),
            // A single digit would be a backreference, which RE2 does not have.
            '1'..='7' if octal(self.rest) => Some(self.octal_escape(u32::from(c) - 0x30)),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
            _ => None,
        };
        found.ok_or_else(|| self.error_from("invalid escape sequence", start))
    }

    /// Up to two more octal digits.
    fn octal_escape(&mut self, first: u32) -> char {
        let mut value = first;
        for _ in 0..2 {
            let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else {
                break;
            };
            value = value * 8 + digit;
            self.rest = &self.rest[1..];
        }
        char::from_u32(value).expect("three octal digits are at most 511")
    }

    /// After `\x`: two hex digits, or any number of them in braces.
    fn hex_escape(&mut self) -> Option<char> {
        let (digits, rest) = match self.rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => self.rest.split_at_checked(2)?,
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        self.rest = rest;
        char::from_u32(u32::from_str_radix(digits, 16).ok()?)
    }

    fn class(&mut self, start: &'p str) -> Result<(), MatcherError> {
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.rest = rest;
            self.out.push('^');
        }
        let mut first = true;
        loop {
            if !first && let Some(rest) = self.rest.strip_prefix(']') {
                self.rest = rest;
                self.out.push(']');
                return Ok(());
            }
            first = false;
            self.class_item(start)?;
        }
    }

    fn class_item(&mut self, class: &'p str) -> Result<(), MatcherError> {
        let item = self.rest;
        if let Some((name, rest)) = item
            .strip_prefix("[:")
            .and_then(|name| name.split_once(":]"))
        {
            if !POSIX_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                return Err(error(
                    "invalid character class range",
                    &format!("[:{name}:]"),
                ));
            }
            self.rest = rest;
            write!(self.out, "[:{name}:]").expect("a String takes all text");
            return Ok(());
        }
        if let Some(rest) = item.strip_prefix('\\') {
            self.rest = rest;
            if self.class_escape(item, true)? {
                return Ok(());
            }
            self.rest = item;
        }
        let low = self.class_char(class)?;
        self.push_char(low);
        // A minus before the closing bracket is a character.
        if self.rest.starts_with('-') && self.rest.len() >= 2 && !self.rest.starts_with("-]") {
            self.rest = &self.rest[1..];
            let high = self.class_char(class)?;
            if high < low {
                return Err(self.error_from("invalid character class range", item));
            }
            self.out.push('-');
            self.push_char(high);
        }
        Ok(())
    }

    fn class_char(&mut self, class: &'p str) -> Result<char, MatcherError> {
        let start = self.rest;
        match self.next_char() {
            None => Err(error("missing closing ]", class)),
            Some('\\') => self.char_escape(start),
            Some(c) => Ok(c),
        }
    }

    /// An error about the part of the pattern from `start` to where reading has come.
    fn error_from(&self, reason: &str, start: &str) -> MatcherError {
        error(reason, &start[..start.len() - self.rest.len()])
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
    let (content, _) = rest.split_once('}')?;
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
