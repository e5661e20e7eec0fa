//! Series selectors of `match[]`: `name{a="b", c=~"d.*", "quoted.name"!="x"}` and
//! `{"utf8.metric.name", a="b"}`, by the rules of Prometheus 3.
//!
//! As in Prometheus, a selector that would match every series is refused, and conditions on one
//! label, the metric name included, add up.

mod quoted;

use icecore_model::{METRIC_NAME, MatchOp, Matcher, MatcherBudget};
use thiserror::Error;

/// Why a selector could not be read, and where.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SelectorError {
    #[error("{line}:{column}: parse error: {message}")]
    Syntax {
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        message: String,
    },
    #[error("match[] must contain at least one non-empty matcher")]
    MatchesEverything,
}

/// Reads one series selector. The matchers are in the order of the text.
pub fn parse_selector(text: &str) -> Result<Vec<Matcher>, SelectorError> {
    parse_within(text, &mut MatcherBudget::default())
}

/// Reads all selectors of a request, whose patterns are bounded in sum.
pub fn parse_selectors<'a>(
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Vec<Matcher>>, SelectorError> {
    let mut budget = MatcherBudget::default();
    let texts = texts.into_iter();
    texts.map(|text| parse_within(text, &mut budget)).collect()
}

fn parse_within(text: &str, budget: &mut MatcherBudget) -> Result<Vec<Matcher>, SelectorError> {
    let mut parser = Parser {
        text,
        position: 0,
        budget,
    };
    let matchers = parser.selector().map_err(|error| error.locate(text))?;
    if matchers.iter().all(Matcher::matches_empty) {
        return Err(SelectorError::MatchesEverything);
    }
    Ok(matchers)
}

/// An error at a byte of the text.
#[derive(Debug)]
struct ErrorAt {
    position: usize,
    message: String,
}

impl ErrorAt {
    fn new(position: usize, message: impl Into<String>) -> Self {
        Self {
            position,
            message: message.into(),
        }
    }

    fn locate(self, text: &str) -> SelectorError {
        let before = text.get(..self.position).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        SelectorError::Syntax {
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            message: self.message,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    /// The next byte to read; always at the beginning of a character.
    position: usize,
    budget: &'a mut MatcherBudget,
}

impl<'a> Parser<'a> {
    fn selector(&mut self) -> Result<Vec<Matcher>, ErrorAt> {
        let mut matchers = Vec::new();
        self.skip_space();
        let name = self.word(|c| is_word_char(c) || c == ':');
        if !name.is_empty() {
            matchers.push(Matcher::equal(METRIC_NAME, name));
            self.skip_space();
        }
        if self.take('{') {
            self.braces(&mut matchers)?;
        } else if name.is_empty() {
            return Err(self.unexpected("expected a metric name or \"{\""));
        }
        self.skip_space();
        if self.rest().is_empty() {
            Ok(matchers)
        } else {
            Err(self.unexpected("expected the end of the selector"))
        }
    }

    /// Reads what is between the braces, and the closing one.
    fn braces(&mut self, matchers: &mut Vec<Matcher>) -> Result<(), ErrorAt> {
        loop {
            self.skip_space();
            if self.take('}') {
                return Ok(());
            }
            matchers.push(self.matcher()?);
            self.skip_space();
            if !self.take(',') && !self.rest().starts_with('}') {
                return Err(self.unexpected("expected \",\" or \"}\""));
            }
        }
    }

    fn matcher(&mut self) -> Result<Matcher, ErrorAt> {
        let (name, is_quoted) = match self.quoted()? {
            Some(name) => (name, true),
            None => (self.word(is_word_char).to_string(), false),
        };
        if name.is_empty() && !is_quoted {
            return Err(self.unexpected("expected a label name or \"}\""));
        }
        self.skip_space();
        // A quoted string alone is the metric name.
        if is_quoted && self.rest().starts_with([',', '}']) {
            return Ok(Matcher::equal(METRIC_NAME, name));
        }
        let op = self.operator()?;
        self.skip_space();
        let value_position = self.position;
        let value = self
            .quoted()?
            .ok_or_else(|| self.unexpected("expected the label value in quotes"))?;
        self.budget
            .matcher(op, name, value)
            .map_err(|error| ErrorAt::new(value_position, error.to_string()))
    }

    fn operator(&mut self) -> Result<MatchOp, ErrorAt> {
        const OPERATORS: [(&str, MatchOp); 4] = [
            ("=~", MatchOp::Regex),
            ("!~", MatchOp::NotRegex),
            ("!=", MatchOp::NotEqual),
            ("=", MatchOp::Equal),
        ];
        for (text, op) in OPERATORS {
            if self.rest().starts_with(text) {
                self.position += text.len();
                return Ok(op);
            }
        }
        Err(self.unexpected("expected one of \"=\", \"!=\", \"=~\" and \"!~\""))
    }

    /// A string in quotes of any kind; `None` when there is none here.
    fn quoted(&mut self) -> Result<Option<String>, ErrorAt> {
        let Some(quoted) = quoted::parse(self.rest()) else {
            return Ok(None);
        };
        let (value, length) =
            quoted.map_err(|error| ErrorAt::new(self.position + error.position, error.message))?;
        self.position += length;
        Ok(Some(value))
    }

    /// A name without quotes, empty when there is none here.
    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            return "";
        }
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.position += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Steps over white space and comments.
    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
            self.position += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.position += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn take(&mut self, expected: char) -> bool {
        let taken = self.rest().starts_with(expected);
        if taken {
            self.position += expected.len_utf8();
        }
        taken
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn unexpected(&self, expected: &str) -> ErrorAt {
        let found = match self.rest().chars().next() {
            Some(c) => format!("unexpected character {c:?}, {expected}"),
            None => format!("unexpected end of input, {expected}"),
        };
        ErrorAt::new(self.position, found)
    }
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests;
