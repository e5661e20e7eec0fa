//! Vector selectors: `name{matchers}`.

use icecore_model::{METRIC_NAME, MatchOp, Matcher};

use super::super::ast::{BinaryOp, Span, TimeModifiers, VectorSelector};
use super::super::lexer::Fault;
use super::super::text::unquote;
use super::super::token::{Token, TokenKind};
use super::{Parse, Parser, is_metric_name};

const CONTEXT: &str = "label matching";

impl Parser<'_> {
    /// A selector and nothing else.
    pub(crate) fn lone_selector(&mut self) -> Parse<VectorSelector> {
        let token = self.token;
        let is_name = is_metric_name(token.kind)
            || matches!(
                token.kind,
                TokenKind::Identifier | TokenKind::Preprocessor(_) | TokenKind::Aggregate(_)
            );
        let selector = match token.kind {
            TokenKind::LeftBrace => self.selector(None)?,
            _ if is_name => {
                self.advance()?;
                self.selector(Some(token))?
            }
            _ => return Err(self.unexpected("", "")),
        };
        self.expect_end()?;
        Ok(selector)
    }

    /// The matchers after a name that has been consumed, or without one.
    pub(super) fn selector(&mut self, name: Option<Token<'_>>) -> Parse<VectorSelector> {
        let mut span = name.map_or(self.token.span, |name| name.span);
        let mut matchers = Vec::new();
        if self.at(TokenKind::LeftBrace) {
            span.end = self.matchers(&mut matchers)?;
        }
        if let Some(name) = name {
            matchers.push(Matcher::equal(METRIC_NAME, name.text));
        }
        Ok(VectorSelector {
            name: name.map(|name| name.text.to_string()),
            matchers,
            time: TimeModifiers::default(),
            anchored: false,
            smoothed: false,
            span,
        })
    }

    /// Reads the matchers in braces and returns the end.
    fn matchers(&mut self, matchers: &mut Vec<Matcher>) -> Parse<usize> {
        self.advance()?;
        loop {
            // A closing brace may follow the opening one or a comma.
            if self.at(TokenKind::RightBrace) {
                return Ok(self.advance()?.span.end);
            }
            matchers.push(self.matcher()?);
            match self.token.kind {
                TokenKind::Comma => {
                    self.advance()?;
                }
                TokenKind::RightBrace => return Ok(self.advance()?.span.end),
                _ => return Err(self.unexpected(CONTEXT, "\",\" or \"}\"")),
            }
        }
    }

    fn matcher(&mut self) -> Parse<Matcher> {
        let token = self.token;
        let name = match token.kind {
            TokenKind::Identifier => token.text.to_string(),
            TokenKind::String => lossy(token.text),
            _ => return Err(self.unexpected(CONTEXT, "identifier or \"}\"")),
        };
        self.advance()?;
        let op = match self.token.kind {
            TokenKind::Assign => MatchOp::Equal,
            TokenKind::Operator(BinaryOp::NotEqual) => MatchOp::NotEqual,
            TokenKind::RegexMatch => MatchOp::Regex,
            TokenKind::RegexNotMatch => MatchOp::NotRegex,
            // A string alone is the metric's name.
            _ if token.kind == TokenKind::String => return Ok(Matcher::equal(METRIC_NAME, name)),
            _ => return Err(self.unexpected(CONTEXT, "label matching operator")),
        };
        self.advance()?;
        if !self.at(TokenKind::String) {
            return Err(self.unexpected(CONTEXT, "string"));
        }
        let value = lossy(self.advance()?.text);
        self.budget
            .matcher(op, name, value)
            .map_err(|error| Fault::new(token.span.start, error.to_string()))
    }
}

/// Stored labels are UTF-8, so a label with replacement characters matches nothing either.
fn lossy(token: &str) -> String {
    String::from_utf8_lossy(&unquote(token)).into_owned()
}

/// The span from the start of one piece to the end of another.
pub(super) fn join(first: Span, last: Span) -> Span {
    Span {
        start: first.start,
        end: last.end,
    }
}
