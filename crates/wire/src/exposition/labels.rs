//! The labels of a series, parsed from its text on demand.
//!
//! ```text
//! name   name{a="b",c="d",}   {"any name",a="b","any label"="c"}
//! ```
//!
//! Holds always: a text is consumed to its last byte or refused, and no name comes twice.

use std::borrow::Cow;

use icecore_model::METRIC_NAME;
use thiserror::Error;

use super::float::{format_float, parse_float};

/// Separates the parts of a text that was built here rather than found: no UTF-8 contains it.
pub(super) const SEPARATOR: u8 = 0xff;

/// Up to this many names are compared pairwise; more are sorted.
const COMPARED_MAX: usize = 24;

/// How the text of a series is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// Blanks are allowed between the parts, and a comma may be missing, as in Prometheus.
    Prometheus,
    OpenMetrics,
    /// Name, label name, value, label name, value… with [`SEPARATOR`] between them.
    Separated,
}

/// Why a text is not a series.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LabelsError {
    #[error("name or label is not valid UTF-8")]
    NotUtf8,
    #[error("expected a metric name")]
    NoName,
    #[error("metric name already set")]
    SecondName,
    #[error("expected {expected}, got {}", got.map_or("the end".into(), |c| format!("{c:?}")))]
    Unexpected {
        expected: &'static str,
        got: Option<char>,
    },
    #[error("label name {0:?} is not unique")]
    Duplicate(String),
}

/// Name and value.
pub(super) type Pair<'p> = (Cow<'p, str>, Cow<'p, str>);

pub(super) fn parse<'p>(
    text: &'p [u8],
    syntax: Syntax,
    number_label: Option<&str>,
    pairs: &mut Vec<Pair<'p>>,
) -> Result<(), LabelsError> {
    let first = pairs.len();
    match syntax {
        Syntax::Separated => parse_separated(text, pairs)?,
        Syntax::Prometheus | Syntax::OpenMetrics => {
            let text = str::from_utf8(text).map_err(|_| LabelsError::NotUtf8)?;
            let blanks = syntax == Syntax::Prometheus;
            Cursor { rest: text, blanks }.series(pairs)?;
        }
    }
    let added = pairs.get_mut(first..).unwrap_or_default();
    if let Some(wanted) = number_label {
        for (_, value) in added.iter_mut().filter(|(name, _)| name == wanted) {
            normalise(value);
        }
    }
    check_unique(added)
}

fn parse_separated<'p>(text: &'p [u8], pairs: &mut Vec<Pair<'p>>) -> Result<(), LabelsError> {
    let mut parts = text.split(|byte| *byte == SEPARATOR);
    let mut next = || -> Result<Option<&'p str>, LabelsError> {
        let part = parts.next().map(str::from_utf8).transpose();
        part.map_err(|_| LabelsError::NotUtf8)
    };
    let name = next()?.unwrap_or_default();
    if name.is_empty() {
        return Err(LabelsError::NoName);
    }
    pairs.push((METRIC_NAME.into(), name.into()));
    while let Some(name) = next()? {
        pairs.push((name.into(), next()?.unwrap_or_default().into()));
    }
    Ok(())
}

/// The same bucket is the same series, whether a client writes `1` or `1.0`.
fn normalise(value: &mut Cow<'_, str>) {
    if let Some(number) = parse_float(value.as_bytes()) {
        let written = format_float(number);
        if *value != written {
            *value = written.into();
        }
    }
}

fn check_unique(pairs: &[Pair<'_>]) -> Result<(), LabelsError> {
    let duplicate = if pairs.len() <= COMPARED_MAX {
        let mut rest = pairs;
        loop {
            let [(name, _), tail @ ..] = rest else {
                break None;
            };
            if tail.iter().any(|(other, _)| other == name) {
                break Some(&**name);
            }
            rest = tail;
        }
    } else {
        let mut names: Vec<&str> = pairs.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        let mut neighbours = names.iter().zip(names.iter().skip(1));
        neighbours.find(|(a, b)| a == b).map(|(name, _)| *name)
    };
    match duplicate {
        Some(name) => Err(LabelsError::Duplicate(name.into())),
        None => Ok(()),
    }
}

/// What is left of a text.
pub(super) struct Cursor<'p> {
    pub(super) rest: &'p str,
    /// Whether blanks are allowed between the parts.
    pub(super) blanks: bool,
}

impl<'p> Cursor<'p> {
    fn series(mut self, pairs: &mut Vec<Pair<'p>>) -> Result<(), LabelsError> {
        let first = pairs.len();
        let mut has_name = false;
        if let Some(name) = self.identifier(true) {
            pairs.push((METRIC_NAME.into(), name.into()));
            has_name = true;
            self.skip_blanks();
            if self.rest.is_empty() {
                return Ok(());
            }
        }
        self.expect('{', "a metric name or {")?;
        while let Some(part) = self.next_item()? {
            match part {
                BraceItem::Label(name, value) => pairs.push((name, value)),
                BraceItem::Name(_) if has_name => return Err(LabelsError::SecondName),
                BraceItem::Name(name) if name.is_empty() => return Err(LabelsError::NoName),
                BraceItem::Name(name) => {
                    has_name = true;
                    pairs.insert(first, (METRIC_NAME.into(), name));
                }
            }
        }
        if !has_name {
            return Err(LabelsError::NoName);
        }
        match self.rest.chars().next() {
            None => Ok(()),
            got => Err(unexpected("the end of the series", got)),
        }
    }

    /// The next label between braces, or a metric name in quotes; `None` at the closing brace,
    /// which is consumed, and so is the comma after an item.
    pub(super) fn next_item(&mut self) -> Result<Option<BraceItem<'p>>, LabelsError> {
        self.skip_blanks();
        if self.take('}') {
            return Ok(None);
        }
        let (name, quoted) = match self.identifier(false) {
            Some(name) => (name.into(), false),
            None if self.rest.starts_with('"') => (self.quoted("a label name")?, true),
            None => return Err(unexpected("a label name", self.rest.chars().next())),
        };
        self.skip_blanks();
        if quoted && self.rest.starts_with([',', '}']) {
            self.take(',');
            return Ok(Some(BraceItem::Name(name)));
        }
        self.expect('=', "=")?;
        self.skip_blanks();
        let value = self.quoted("a label value in quotes")?;
        self.skip_blanks();
        if !self.take(',') && !self.blanks && !self.rest.starts_with('}') {
            return Err(unexpected("a comma or }", self.rest.chars().next()));
        }
        Ok(Some(BraceItem::Label(name, value)))
    }

    /// A legacy name; those of metrics may have colons.
    pub(super) fn identifier(&mut self, colons: bool) -> Option<&'p str> {
        let is_name =
            |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || (colons && *byte == b':');
        let end = self.rest.bytes().position(|byte| !is_name(&byte));
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.rest = rest;
        Some(name)
    }

    /// A quoted string, unescaped.
    pub(super) fn quoted(&mut self, expected: &'static str) -> Result<Cow<'p, str>, LabelsError> {
        self.expect('"', expected)?;
        let bytes = self.rest.as_bytes();
        let mut end = 0;
        let mut escaped = false;
        loop {
            let tail = bytes.get(end..).unwrap_or_default();
            match memchr::memchr2(b'"', b'\\', tail) {
                Some(at) if tail.get(at) == Some(&b'"') => {
                    end += at;
                    break;
                }
                Some(at) if !matches!(tail.get(at + 1), None | Some(b'\n')) => {
                    escaped = true;
                    end += at + 2;
                }
                _ => return Err(unexpected("a closing quote", None)),
            }
        }
        // Quotes and backslashes are ASCII, so this is a character boundary.
        let (content, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(if escaped {
            unescape(content, true).into()
        } else {
            content.into()
        })
    }

    fn expect(&mut self, wanted: char, expected: &'static str) -> Result<(), LabelsError> {
        if self.take(wanted) {
            return Ok(());
        }
        Err(unexpected(expected, self.rest.chars().next()))
    }

    fn take(&mut self, wanted: char) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_blanks(&mut self) {
        if self.blanks {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
        }
    }
}

/// An item between braces.
pub(super) enum BraceItem<'p> {
    Label(Cow<'p, str>, Cow<'p, str>),
    Name(Cow<'p, str>),
}

fn unexpected(expected: &'static str, got: Option<char>) -> LabelsError {
    LabelsError::Unexpected { expected, got }
}

/// Unescapes `\\`, `\n` and, where quotes are escaped, `\"`. Any other backslash stays as it is.
pub(super) fn unescape(text: &str, quotes: bool) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let mut tail = after.chars();
        match tail.next() {
            Some('\\') => plain.push('\\'),
            Some('n') => plain.push('\n'),
            Some('"') if quotes => plain.push('"'),
            _ => {
                plain.push('\\');
                tail = after.chars();
            }
        }
        rest = tail.as_str();
    }
    plain.push_str(rest);
    plain
}
