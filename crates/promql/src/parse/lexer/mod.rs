//! Text to tokens.
//!
//! ```text
//! outside ──{──► in braces: names and matchers, no keywords
//!    └────[──► in brackets: durations and their arithmetic
//! ```
//!
//! Holds always: a token takes time linear in its length; nothing is read after an error.

mod number;
mod string;

use super::ast::{BinaryOp, Span};
use super::text::quoted_char;
use super::token::{Keyword, Token, TokenKind, keyword};

/// A parse error with its position in bytes.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) position: usize,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(position: usize, message: impl Into<String>) -> Self {
        Self {
            position,
            message: message.into(),
        }
    }
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    /// The start of the current token.
    start: usize,
    /// The next byte to read; always at a character boundary.
    position: usize,
    open_parens: usize,
    in_braces: bool,
    in_brackets: bool,
    colon_seen: bool,
    /// Within brackets: a number or duration was read, so a colon may follow.
    duration_seen: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            start: 0,
            position: 0,
            open_parens: 0,
            in_braces: false,
            in_brackets: false,
            colon_seen: false,
            duration_seen: false,
        }
    }

    /// The next token; after the last one always the end of the input.
    pub(super) fn next_token(&mut self) -> Result<Token<'a>, Fault> {
        self.skip_space_and_comments();
        self.start = self.position;
        let kind = match (self.in_braces, self.in_brackets) {
            (true, _) => self.within_braces()?,
            (false, true) => self.within_brackets()?,
            (false, false) => self.outside()?,
        };
        Ok(Token {
            kind,
            span: Span {
                start: self.start,
                end: self.position,
            },
            text: self.read(),
        })
    }

    fn outside(&mut self) -> Result<TokenKind, Fault> {
        let Some(c) = self.take() else {
            return self.end_of_input();
        };
        if let Some(kind) = self.arithmetic(c) {
            return Ok(kind);
        }
        Ok(match c {
            '(' | ')' => return self.paren(c),
            '=' if self.take_if('=') => TokenKind::Operator(BinaryOp::Equal),
            '=' if self.peek() == Some('~') => {
                return Err(self.fault("unexpected character after '=': '~'"));
            }
            '=' => TokenKind::Assign,
            '!' => match self.take() {
                Some('=') => TokenKind::Operator(BinaryOp::NotEqual),
                other => {
                    let other = quoted_char(other);
                    return Err(self.fault(format!("unexpected character after '!': {other}")));
                }
            },
            '<' if self.take_if('=') => TokenKind::Operator(BinaryOp::LessOrEqual),
            '<' if self.take_if('/') => TokenKind::Operator(BinaryOp::TrimUpper),
            '<' => TokenKind::Operator(BinaryOp::Less),
            '>' if self.take_if('=') => TokenKind::Operator(BinaryOp::GreaterOrEqual),
            '>' if self.take_if('/') => TokenKind::Operator(BinaryOp::TrimLower),
            '>' => TokenKind::Operator(BinaryOp::Greater),
            '@' => TokenKind::At,
            '{' => {
                self.in_braces = true;
                TokenKind::LeftBrace
            }
            '[' => {
                self.in_brackets = true;
                self.colon_seen = false;
                self.duration_seen = false;
                TokenKind::LeftBracket
            }
            ']' => return Err(self.fault("unexpected right bracket ']'")),
            '"' | '\'' | '`' => return self.string(c),
            c if self.starts_number(c) => return self.number_or_duration(),
            c if is_alpha(c) || c == ':' => self.word(),
            c => return Err(self.fault(format!("unexpected character: {}", quoted_char(Some(c))))),
        })
    }

    fn within_brackets(&mut self) -> Result<TokenKind, Fault> {
        let Some(c) = self.take() else {
            return if self.duration_seen {
                self.end_of_input()
            } else {
                Err(self.fault("unexpected end of input in duration expression"))
            };
        };
        if let Some(kind) = self.arithmetic(c) {
            return Ok(kind);
        }
        match c {
            '(' | ')' => self.paren(c),
            ']' => {
                self.in_brackets = false;
                Ok(TokenKind::RightBracket)
            }
            '[' => Err(self.fault("unexpected left bracket '['")),
            ':' if self.colon_seen => Err(self.fault("unexpected colon ':'")),
            ':' => {
                self.colon_seen = true;
                Ok(TokenKind::Colon)
            }
            c if self.starts_number(c) => {
                self.duration_seen = true;
                self.number_or_duration()
            }
            c if is_alpha(c) => self.duration_word(c),
            // Tokens that do not belong in brackets are errors of the grammar.
            _ if self.duration_seen => {
                self.position = self.start;
                self.outside()
            }
            c => Err(self.unexpected_in_duration(c)),
        }
    }

    fn within_braces(&mut self) -> Result<TokenKind, Fault> {
        let Some(c) = self.take() else {
            return Err(self.fault("unexpected end of input inside braces"));
        };
        Ok(match c {
            ',' => TokenKind::Comma,
            '"' | '\'' | '`' => return self.string(c),
            '=' if self.take_if('~') => TokenKind::RegexMatch,
            '=' => TokenKind::Assign,
            '!' => match self.take() {
                Some('~') => TokenKind::RegexNotMatch,
                Some('=') => TokenKind::Operator(BinaryOp::NotEqual),
                other => {
                    let other = quoted_char(other);
                    return Err(self.fault(format!(
                        "unexpected character after '!' inside braces: {other}"
                    )));
                }
            },
            '{' => return Err(self.fault("unexpected left brace '{'")),
            '}' => {
                self.in_braces = false;
                TokenKind::RightBrace
            }
            c if is_alpha(c) => {
                self.take_while(is_alphanumeric);
                TokenKind::Identifier
            }
            c => {
                let c = quoted_char(Some(c));
                return Err(self.fault(format!("unexpected character inside braces: {c}")));
            }
        })
    }

    /// The operators that are the same outside of and within brackets.
    fn arithmetic(&self, c: char) -> Option<TokenKind> {
        Some(match c {
            ',' => TokenKind::Comma,
            '+' => TokenKind::Operator(BinaryOp::Add),
            '-' => TokenKind::Operator(BinaryOp::Subtract),
            '*' => TokenKind::Operator(BinaryOp::Multiply),
            '/' => TokenKind::Operator(BinaryOp::Divide),
            '%' => TokenKind::Operator(BinaryOp::Modulo),
            '^' => TokenKind::Operator(BinaryOp::Power),
            _ => return None,
        })
    }

    fn paren(&mut self, c: char) -> Result<TokenKind, Fault> {
        if c == '(' {
            self.open_parens += 1;
            return Ok(TokenKind::LeftParen);
        }
        match self.open_parens.checked_sub(1) {
            Some(open) => {
                self.open_parens = open;
                Ok(TokenKind::RightParen)
            }
            // Prometheus reports the position after the parenthesis.
            None => Err(Fault::new(
                self.position,
                "unexpected right parenthesis ')'",
            )),
        }
    }

    fn end_of_input(&self) -> Result<TokenKind, Fault> {
        if self.open_parens > 0 {
            return Err(self.fault("unclosed left parenthesis"));
        }
        if self.in_brackets {
            Err(self.fault("unclosed left bracket"))
        } else {
            Ok(TokenKind::EndOfInput)
        }
    }

    /// A keyword or a name; its first character has been taken.
    fn word(&mut self) -> TokenKind {
        self.take_while(|c| is_alphanumeric(c) || c == ':');
        let word = self.read();
        match keyword(word) {
            // Newer keywords, which are still names without a parenthesis.
            Some(TokenKind::Keyword(Keyword::Fill | Keyword::FillLeft | Keyword::FillRight))
                if !self.rest().trim_start_matches(is_space).starts_with('(') =>
            {
                TokenKind::Identifier
            }
            Some(kind) => kind,
            None if word.contains(':') => TokenKind::MetricIdentifier,
            None => TokenKind::Identifier,
        }
    }

    /// One of the few words of duration expressions; its first character has been taken.
    fn duration_word(&mut self, first: char) -> Result<TokenKind, Fault> {
        self.take_while(is_alphanumeric);
        match keyword(self.read()) {
            Some(kind @ TokenKind::Preprocessor(_)) => Ok(kind),
            None if ["min_of", "max_of"]
                .iter()
                .any(|name| self.read().eq_ignore_ascii_case(name)) =>
            {
                Ok(TokenKind::Identifier)
            }
            _ => Err(self.unexpected_in_duration(first)),
        }
    }

    fn unexpected_in_duration(&self, c: char) -> Fault {
        let c = quoted_char(Some(c));
        self.fault(if self.duration_seen {
            format!("unexpected character: {c}, expected ':'")
        } else {
            format!("unexpected character in duration expression: {c}")
        })
    }

    fn skip_space_and_comments(&mut self) {
        loop {
            self.take_while(is_space);
            if self.peek() != Some('#') {
                return;
            }
            self.take_while(|c| !matches!(c, '\r' | '\n'));
        }
    }

    fn starts_number(&self, c: char) -> bool {
        let digit_follows = || self.peek().is_some_and(|c| c.is_ascii_digit());
        c.is_ascii_digit() || (c == '.' && digit_follows())
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(self.start, message)
    }

    /// The token read so far.
    fn read(&self) -> &'a str {
        self.text.get(self.start..self.position).unwrap_or("")
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.position += c.len_utf8();
        Some(c)
    }

    fn take_if(&mut self, wanted: char) -> bool {
        self.take_any(|c| c == wanted)
    }

    fn take_any(&mut self, wanted: impl Fn(char) -> bool) -> bool {
        match self.peek() {
            Some(c) if wanted(c) => {
                self.position += c.len_utf8();
                true
            }
            _ => false,
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start_matches(wanted).len();
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_alpha(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
