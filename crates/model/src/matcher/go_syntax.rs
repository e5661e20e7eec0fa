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
        group_names: Vec::new(),
        after_repetition: false,
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
    group_names: Vec<&'p str>,
    /// Whether the last thing read was `*`, `+`, `?` or `{n,m}`: Go forbids to repeat those again.
    after_repetition: bool,
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
        let repeats = std::mem::take(&mut self.after_repetition);
        match c {
            '*' | '+' | '?' => {
                self.out.push(c);
                self.finish_repetition(start, repeats)?;
            }
            '{' => match counted_repetition(self.rest) {
                Some((counts, length)) => {
                    let text = &start[..length + 1];
                    if !counts.is_valid() {
                        return Err(error("invalid repeat count", text));
                    }
                    self.rest = &self.rest[length..];
                    self.out.push_str(text);
                    self.finish_repetition(start, repeats)?;
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
    fn finish_repetition(&mut self, start: &str, repeats: bool) -> Result<(), MatcherError> {
        if repeats {
            return Err(error("invalid nested repetition operator", start));
        }
        if let Some(rest) = self.rest.strip_prefix('?') {
            self.rest = rest;
            self.out.push('?');
        }
        self.after_repetition = true;
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
            return self.open_named_group(name);
        }
        self.rest = rest;
        self.flags(start)
    }

    fn open_named_group(&mut self, name: &'p str) -> Result<(), MatcherError> {
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(error("invalid named capture", name));
        }
        if self.group_names.contains(&name) {
            return Err(error("duplicate capture group name", name));
        }
        self.group_names.push(name);
        self.open_groups += 1;
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            // The regex crate has no such names; the group keeps its number.
            self.out.push('(');
        } else {
            write!(self.out, "(?P<{name}>").expect("a String takes all text");
        }
        Ok(())
    }

    /// Reads `i-s)` or `i-s:`: the flags of the rest of the group, or of a group of their own.
    fn flags(&mut self, start: &'p str) -> Result<(), MatcherError> {
        let refuse = |rest: &str| {
            error(
                "invalid or unsupported Perl syntax",
                &start[..start.len() - rest.len()],
            )
        };
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
                    return self.finish_flags(end, &on, &off);
                }
                _ => return Err(refuse(self.rest)),
            }
        }
    }

    fn finish_flags(&mut self, end: char, on: &str, off: &str) -> Result<(), MatcherError> {
        if end == ':' {
            self.open_groups += 1;
        } else if on.is_empty() && off.is_empty() {
            return Ok(());
        }
        let minus = if off.is_empty() { "" } else { "-" };
        write!(self.out, "(?{on}{minus}{off}{end}").expect("a String takes all text");
        Ok(())
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
        let refuse = || error("invalid character class range", start);
        let (name, rest) = match self.rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or_else(refuse)?,
            None => {
                let length = self.rest.chars().next().ok_or_else(refuse)?.len_utf8();
                self.rest.split_at(length)
            }
        };
        let (plain, negated) = match name.strip_prefix('^') {
            Some(plain) => (plain, !negated),
            None => (name, negated),
        };
        if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') {
            return Err(refuse());
        }
        self.rest = rest;
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
        let length = start.len() - self.rest.len();
        found.ok_or_else(|| error("invalid escape sequence", &start[..length]))
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
                let length = item.len() - self.rest.len();
                return Err(error("invalid character class range", &item[..length]));
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
