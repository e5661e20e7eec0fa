//! Numbers and durations. `literal` decides whether they are valid.

use super::super::text::quoted;
use super::super::token::TokenKind;
use super::{Fault, Lexer, is_alphanumeric};

impl Lexer<'_> {
    /// Reads a number or duration from the start of the token.
    pub(super) fn number_or_duration(&mut self) -> Result<TokenKind, Fault> {
        self.position = self.start;
        if self.number() {
            return Ok(TokenKind::Number);
        }
        if self.units() {
            return Ok(TokenKind::Duration);
        }
        let read = quoted(self.read());
        Err(self.fault(format!("bad number or duration syntax: {read}")))
    }

    /// `[.]digits` with at most one dot and one exponent, underscores in between, or `0x` and
    /// digits.
    fn number(&mut self) -> bool {
        if self.rest().starts_with("0x") || self.rest().starts_with("0X") {
            self.position += 2;
            self.take_while(|c| c.is_ascii_hexdigit() || c == '_');
            return !self.name_follows() && self.peek() != Some('.');
        }
        let (mut dot, mut exponent) = (false, false);
        loop {
            self.take_while(|c| c.is_ascii_digit());
            let before = self.position;
            let allowed = if self.take_if('.') {
                !std::mem::replace(&mut dot, true) && !self.take_any(|c| matches!(c, '_' | '.'))
            } else if self.take_any(|c| matches!(c, 'e' | 'E')) {
                let first = !std::mem::replace(&mut exponent, true);
                self.take_any(|c| matches!(c, '+' | '-'));
                first && self.more_digits_follow()
            } else if self.take_if('_') {
                self.more_digits_follow()
            } else {
                true
            };
            if !allowed {
                return false;
            }
            if self.position == before {
                return !self.name_follows();
            }
        }
    }

    fn more_digits_follow(&mut self) -> bool {
        !self.take_any(|c| matches!(c, '.' | '_' | 'e' | 'E')) && self.peek().is_some()
    }

    /// The rest of a duration whose first number has been read: `h30m`.
    fn units(&mut self) -> bool {
        const UNITS: [char; 6] = ['s', 'm', 'h', 'd', 'w', 'y'];
        loop {
            if !self.take_any(|c| UNITS.contains(&c)) {
                return false;
            }
            // That of `ms`; other units with an `s` are rejected later.
            self.take_if('s');
            if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
                // The error quotes the extra letter.
                return !self.take_any(is_alphanumeric);
            }
            self.take_while(|c| c.is_ascii_digit());
        }
    }

    fn name_follows(&self) -> bool {
        self.peek().is_some_and(is_alphanumeric)
    }
}
