//! A small reader of JSON: complete values, in one pass, without building them.

use std::borrow::Cow;

use super::value::{is_number_byte, parse_number, parse_whole, parse_word};
use crate::prometheus::export::NORMAL_NAN_BITS;

/// What is wrong with a line. The texts are short; they are put behind the number of the line.
pub(super) type Problem = Cow<'static, str>;

type Result<T> = std::result::Result<T, Problem>;

/// How deep values may nest that nobody asked for.
const DEPTH_MAX: usize = 64;

/// Where a value that begins at the start of `input` ends: `None` when more must be read.
pub(super) fn value_end(input: &[u8]) -> Result<Option<usize>> {
    let Some(first) = input.first() else {
        return Ok(None);
    };
    match first {
        b'"' => string_end(input),
        b'{' | b'[' => nested_end(input),
        b',' | b'}' | b']' | b':' => Err("a value is missing".into()),
        // A number or a word ends where something follows that is no part of it.
        _ => Ok(input.iter().position(|byte| {
            matches!(
                byte,
                b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\r' | b'\n'
            )
        })),
    }
}

fn string_end(input: &[u8]) -> Result<Option<usize>> {
    let mut at = 1;
    while let Some(byte) = input.get(at) {
        match byte {
            b'"' => return Ok(Some(at + 1)),
            b'\n' => return Err("the line ends within a string".into()),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    Ok(None)
}

fn nested_end(input: &[u8]) -> Result<Option<usize>> {
    let (mut at, mut depth) = (0, 0usize);
    while let Some(byte) = input.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' if depth == DEPTH_MAX => return Err("values nest too deep".into()),
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return Ok(Some(at)),
            b'}' | b']' => depth -= 1,
            b'\n' => return Err("the line ends within a value".into()),
            b'"' => match string_end(input.get(at - 1..).unwrap_or_default())? {
                Some(length) => at += length - 1,
                None => return Ok(None),
            },
            _ => {}
        }
    }
    Ok(None)
}

/// Reads what lies in memory as a whole.
pub(super) struct Json<'a> {
    rest: &'a [u8],
}

impl<'a> Json<'a> {
    pub(super) fn new(value: &'a [u8]) -> Self {
        Self { rest: value }
    }

    #[inline]
    fn peek(&mut self) -> Option<u8> {
        while let Some((b' ' | b'\t' | b'\r', rest)) = self.rest.split_first() {
            self.rest = rest;
        }
        self.rest.first().copied()
    }

    #[inline]
    fn take_if(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        if there {
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        there
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<()> {
        match self.take_if(byte) {
            true => Ok(()),
            false => Err(format!("expected {:?}", char::from(byte)).into()),
        }
    }

    /// Each element of a list.
    pub(super) fn list(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.expect(b'[')?;
        if self.take_if(b']') {
            return Ok(());
        }
        loop {
            each(self)?;
            if self.take_if(b']') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Each member of an object.
    pub(super) fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        self.expect(b'{')?;
        if self.take_if(b'}') {
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            each(self, &key)?;
            if self.take_if(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    pub(super) fn string(&mut self) -> Result<Cow<'a, str>> {
        if self.peek() != Some(b'"') {
            return Err("expected a string".into());
        }
        let end = string_end(self.rest)?.ok_or("a string that does not end")?;
        let (quoted, rest) = self.rest.split_at(end);
        self.rest = rest;
        let inner = quoted.get(1..end - 1).unwrap_or_default();
        let text = std::str::from_utf8(inner).map_err(|_| "a string that is not UTF-8")?;
        if text.bytes().any(|byte| byte < 0x20) {
            return Err("a control character in a string".into());
        }
        match text.contains('\\') {
            false => Ok(Cow::Borrowed(text)),
            true => unescape(text).map(Cow::Owned),
        }
    }

    /// Any float: a number, a string as exports write them, or `null` for NaN as VictoriaMetrics does.
    pub(super) fn float(&mut self) -> Result<f64> {
        match self.peek() {
            Some(b'"') => {
                let word = self.string()?;
                parse_word(&word).ok_or_else(|| not_a("value", &word))
            }
            Some(b'n') => {
                self.rest = self.rest.strip_prefix(b"null").ok_or("expected a value")?;
                Ok(f64::from_bits(NORMAL_NAN_BITS))
            }
            _ => {
                let token = self.number_token();
                parse_number(token).ok_or_else(|| not_a("value", &String::from_utf8_lossy(token)))
            }
        }
    }

    pub(super) fn signed(&mut self) -> Result<i64> {
        self.peek();
        let token = self.number_token();
        parse_whole(token).ok_or_else(|| not_a("whole number", &String::from_utf8_lossy(token)))
    }

    /// The same as [`Json::float`], with the text that it was read from.
    pub(super) fn float_with_text(&mut self) -> Result<(f64, &'a [u8])> {
        self.peek();
        let before = self.rest;
        let value = self.float()?;
        let text = before.get(..before.len() - self.rest.len());
        Ok((value, text.unwrap_or_default()))
    }

    fn number_token(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !is_number_byte(*byte));
        let (token, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        token
    }

    /// Passes over a value, whatever it is.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.peek();
        let end = value_end(self.rest)?.unwrap_or(self.rest.len());
        self.rest = self.rest.get(end..).unwrap_or_default();
        Ok(())
    }

    /// Nothing may follow.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err("something follows a value".into()),
        }
    }
}

pub(super) fn not_a(what: &str, text: &str) -> Problem {
    let shown: String = text.chars().take(40).collect();
    format!("{shown:?} is not a {what}").into()
}

fn unescape(text: &str) -> Result<String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        plain.push(match chars.next() {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('u') => unicode(&mut chars)?,
            _ => return Err("an unknown escape in a string".into()),
        });
    }
    Ok(plain)
}

fn unicode(chars: &mut std::str::Chars<'_>) -> Result<char> {
    let wrong = || Problem::from("a \\u escape that is no character");
    let mut unit = || -> Option<u32> {
        let text = chars.as_str().get(..4)?;
        let unit = u32::from_str_radix(text, 16).ok();
        *chars = chars.as_str().get(4..)?.chars();
        unit.filter(|_| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let first = unit().ok_or_else(wrong)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first).ok_or_else(wrong);
    }
    let mut rest = chars
        .as_str()
        .strip_prefix("\\u")
        .ok_or_else(wrong)?
        .chars();
    let text = rest.as_str().get(..4).ok_or_else(wrong)?;
    let second = u32::from_str_radix(text, 16).map_err(|_| wrong())?;
    if !(0xdc00..0xe000).contains(&second) {
        return Err(wrong());
    }
    rest = rest.as_str().get(4..).ok_or_else(wrong)?.chars();
    *chars = rest;
    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)).ok_or_else(wrong)
}
