//! A cursor in a line of a script.

use crate::parse::{leading_string, parse_signed_number};

/// A position in a line. Errors quote the text at the position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(crate) fn starts_with(&self, text: &str) -> bool {
        self.rest.starts_with(text)
    }

    /// Skips `text` if it is next.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    pub(crate) fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !accept(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// Skips blanks; false if there were none.
    pub(crate) fn skip_blanks(&mut self) -> bool {
        !self.take_while(|c| c == ' ' || c == '\t').is_empty()
    }

    pub(crate) fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.take(text) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("{text:?}")))
        }
    }

    pub(crate) fn unexpected(&self, wanted: &str) -> String {
        if self.rest.is_empty() {
            format!("expected {wanted} at the end of the line")
        } else {
            let shown: String = self.rest.chars().take(40).collect();
            format!("expected {wanted} at {shown:?}")
        }
    }

    /// A number without its sign. An `x` ends it, because it starts a repetition; so there are no
    /// hexadecimal numbers.
    pub(crate) fn unsigned_number(&mut self) -> Result<f64, String> {
        let before = *self;
        for word in ["inf", "nan"] {
            let found = self
                .rest
                .get(..3)
                .is_some_and(|w| w.eq_ignore_ascii_case(word));
            if found {
                self.rest = &self.rest[3..];
                return Ok(if word == "inf" {
                    f64::INFINITY
                } else {
                    f64::NAN
                });
            }
        }
        let mut previous = ' ';
        let end = self.rest.find(|c: char| {
            let sign_of_exponent = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
            previous = c;
            !(c.is_ascii_digit() || matches!(c, '.' | '_' | 'e' | 'E') || sign_of_exponent)
        });
        let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        if text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            parse_signed_number(text).ok_or_else(|| before.unexpected("a number"))
        } else {
            Err(before.unexpected("a number"))
        }
    }

    pub(crate) fn number(&mut self) -> Result<f64, String> {
        if self.take("-") {
            Ok(-self.unsigned_number()?)
        } else {
            self.take("+");
            self.unsigned_number()
        }
    }

    /// The number behind the `x` of a repetition.
    pub(crate) fn count(&mut self) -> Result<usize, String> {
        let before = *self;
        let digits = self.take_while(|c| c.is_ascii_digit());
        digits
            .parse()
            .map_err(|_| before.unexpected("how often to repeat"))
    }

    /// A string in double, single or back quotes, with Go's escapes in the first two.
    pub(crate) fn quoted(&mut self) -> Result<String, String> {
        let error = || self.unexpected("a quoted string");
        let (value, rest) = leading_string(self.rest).ok_or_else(error)?;
        self.rest = rest;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_go_ends_them() {
        let cases = [
            ("1+2x3", 1.0, "+2x3"),
            ("1e+3x2", 1000.0, "x2"),
            ("0x10", 0.0, "x10"),
            ("Infx2", f64::INFINITY, "x2"),
            (".5 1", 0.5, " 1"),
        ];
        for (text, value, rest) in cases {
            let mut cursor = Cursor::new(text);
            assert_eq!(cursor.number(), Ok(value), "{text}");
            assert_eq!(cursor.rest, rest, "{text}");
        }
        assert_eq!(Cursor::new("-5").number(), Ok(-5.0));
        assert!(Cursor::new("-nan").number().unwrap().is_nan());
        for text in ["", "e5", "_", "x", "1e", "é"] {
            assert!(Cursor::new(text).number().is_err(), "{text}");
        }
    }

    #[test]
    fn strings() {
        let cases = [
            (r#""a\"b\n" x"#, "a\"b\n"),
            (r"'it\'s \x41\101\u00e9\U0001F600'", "it's AAé😀"),
            (r"`raw \n`", r"raw \n"),
            ("\"\"", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(
                Cursor::new(text).quoted().as_deref(),
                Ok(expected),
                "{text}"
            );
        }
        for text in [
            "",
            "a",
            "\"a",
            r#""\q""#,
            r#""\xff""#,
            r#""\xf""#,
            r#""\400""#,
            "\"\\",
        ] {
            assert!(Cursor::new(text).quoted().is_err(), "{text}");
        }
    }
}
