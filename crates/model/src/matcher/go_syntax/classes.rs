//! Escapes and bracketed classes of Go's regular expressions.
//!
//! Classes are written out as their ASCII members, because the `regex` crate would take the Unicode
//! ones, and a negated class inside brackets becomes a nested one.

use std::fmt::Write;

use super::{MatcherError, Translator};

const DIGITS: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const SPACE: &str = r"\x{9}\x{a}\x{c}\x{d}\x{20}";

const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

impl<'p> Translator<'p> {
    pub(super) fn escape_outside_class(&mut self, start: &'p str) -> Result<(), MatcherError> {
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

    /// After a backslash: writes a Perl or Unicode class; false if there is none.
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
            Some(braced) => braced
                .split_once('}')
                .ok_or_else(|| MatcherError::syntax(REASON, start))?,
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
            return Err(MatcherError::syntax(
                "trailing backslash at end of expression",
                "",
            ));
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

    pub(super) fn class(&mut self, start: &'p str) -> Result<(), MatcherError> {
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
        if let Some((name, rest)) = self.posix_class() {
            if !POSIX_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                return Err(MatcherError::syntax(
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

    /// The name between `[:` and `:]`, and what follows. The end is searched once per pattern, so
    /// that a pattern full of `[:` takes linear time.
    fn posix_class(&self) -> Option<(&'p str, &'p str)> {
        let name = self.rest.strip_prefix("[:")?;
        let last_end = self.last_posix_end?;
        let here = self.pattern.len() - name.len();
        if here > last_end {
            None
        } else {
            name.split_once(":]")
        }
    }

    fn class_char(&mut self, class: &'p str) -> Result<char, MatcherError> {
        let start = self.rest;
        match self.next_char() {
            None => Err(MatcherError::syntax("missing closing ]", class)),
            Some('\\') => self.char_escape(start),
            Some(c) => Ok(c),
        }
    }
}
