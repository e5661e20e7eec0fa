//! Strings in any of the three quotes.

use super::super::token::TokenKind;
use super::{Fault, Lexer};

impl<'a> Lexer<'a> {
    /// The string literal at the start of the text, with its quotes.
    pub(in crate::parse) fn leading_string(mut self) -> Option<&'a str> {
        let quote = self.take().filter(|c| matches!(c, '"' | '\'' | '`'))?;
        self.string(quote).ok()?;
        Some(self.read())
    }

    /// Reads a string whose opening quote has been taken.
    pub(super) fn string(&mut self, quote: char) -> Result<TokenKind, Fault> {
        let raw = quote == '`';
        loop {
            match self.take() {
                Some(c) if c == quote => return Ok(TokenKind::String),
                // Prometheus takes this character for invalid UTF-8.
                Some(char::REPLACEMENT_CHARACTER) => return Err(self.fault("invalid UTF-8 rune")),
                Some('\\') if !raw => self.escape(quote)?,
                None if raw => return Err(self.fault("unterminated raw string")),
                None => return Err(self.fault("unterminated quoted string")),
                Some('\n') if !raw => return Err(self.fault("unterminated quoted string")),
                Some(_) => {}
            }
        }
    }

    /// Checks an escape whose backslash has been taken.
    fn escape(&mut self, quote: char) -> Result<(), Fault> {
        let (digits, radix, limit) = match self.take() {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\') => return Ok(()),
            Some(c) if c == quote => return Ok(()),
            Some(c @ '0'..='7') => {
                self.position -= c.len_utf8();
                (3, 8, 0xff)
            }
            Some('x') => (2, 16, 0xff),
            Some('u') => (4, 16, u32::from(char::MAX)),
            Some('U') => (8, 16, u32::from(char::MAX)),
            None => return Err(self.fault("escape sequence not terminated")),
            Some(c) => {
                let c = unicode(c);
                return Err(self.fault(format!("unknown escape sequence {c}")));
            }
        };
        let mut code = 0u32;
        for _ in 0..digits {
            let Some(c) = self.take() else {
                return Err(self.fault("escape sequence not terminated"));
            };
            let Some(digit) = c.to_digit(radix) else {
                let c = unicode(c);
                return Err(self.fault(format!("illegal character {c} in escape sequence")));
            };
            code = code.wrapping_mul(radix).wrapping_add(digit);
        }
        if code > limit || (0xD800..0xE000).contains(&code) {
            Err(self.fault("escape sequence is an invalid Unicode code point"))
        } else {
            Ok(())
        }
    }
}

/// A character as Go's `%#U` writes it.
fn unicode(c: char) -> String {
    if c.is_control() {
        format!("U+{:04X}", u32::from(c))
    } else {
        format!("U+{:04X} '{c}'", u32::from(c))
    }
}
