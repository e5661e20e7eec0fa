//! A reader of JSON text that hands out one token after the other.
//!
//! Holds always: strings without escapes are borrowed; what is skipped is checked all the same.

use std::borrow::Cow;

use super::{JsonError, Result};

pub(super) struct Text<'a> {
    text: &'a str,
    at: usize,
    depth_left: usize,
}

impl<'a> Text<'a> {
    pub(super) fn new(text: &'a str, depth_max: usize) -> Self {
        Self {
            text,
            at: 0,
            depth_left: depth_max,
        }
    }

    pub(super) fn error(&self, reason: &str) -> JsonError {
        JsonError::Malformed {
            offset: self.at,
            reason: reason.into(),
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is not blank.
    pub(super) fn peek(&mut self) -> Result<u8> {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let rest = self.rest().as_bytes();
        let blanks = rest.iter().take_while(|byte| blank(byte)).count();
        self.at += blanks;
        rest.get(blanks)
            .copied()
            .ok_or_else(|| self.error("the text ends too early"))
    }

    /// Nothing but blanks is left.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.peek() {
            Ok(_) => Err(self.error("text after the request")),
            Err(_) => Ok(()),
        }
    }

    fn word(&mut self, word: &str) -> Result<bool> {
        self.peek()?;
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        Ok(found)
    }

    pub(super) fn null(&mut self) -> Result<bool> {
        self.word("null")
    }

    pub(super) fn boolean(&mut self) -> Result<bool> {
        if self.word("true")? {
            Ok(true)
        } else if self.word("false")? {
            Ok(false)
        } else {
            Err(self.error("expected true or false"))
        }
    }

    /// Begins an object or an array. False when it is empty, and then it is over.
    pub(super) fn open(&mut self, opening: u8, closing: u8) -> Result<bool> {
        if self.peek()? != opening {
            return Err(self.error(match opening {
                b'{' => "expected an object",
                _ => "expected an array",
            }));
        }
        self.depth_left = match self.depth_left.checked_sub(1) {
            Some(left) => left,
            None => return Err(self.error("nested too deep")),
        };
        self.at += 1;
        if self.peek()? != closing {
            return Ok(true);
        }
        self.close();
        Ok(false)
    }

    /// Whether another entry follows; otherwise the object or array is over.
    pub(super) fn more(&mut self, closing: u8) -> Result<bool> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                Ok(true)
            }
            byte if byte == closing => {
                self.close();
                Ok(false)
            }
            _ => Err(self.error("expected a comma or the end")),
        }
    }

    fn close(&mut self) {
        self.at += 1;
        self.depth_left += 1;
    }

    /// A key and the colon after it.
    pub(super) fn key(&mut self) -> Result<Cow<'a, str>> {
        let key = self.string()?;
        if self.peek()? != b':' {
            return Err(self.error("expected a colon"));
        }
        self.at += 1;
        Ok(key)
    }

    /// The text of a number; whether it is one is found out by whoever reads it.
    pub(super) fn number(&mut self) -> Result<&'a str> {
        self.peek()?;
        let rest = self.rest();
        let length = rest
            .bytes()
            .take_while(|byte| super::is_number_byte(*byte))
            .count();
        if length == 0 {
            return Err(self.error("expected a number"));
        }
        self.at += length;
        Ok(rest.get(..length).unwrap_or_default())
    }

    pub(super) fn string(&mut self) -> Result<Cow<'a, str>> {
        if self.peek()? != b'"' {
            return Err(self.error("expected a string"));
        }
        self.at += 1;
        let mut unescaped: Option<String> = None;
        loop {
            let rest = self.rest();
            let plain = rest
                .bytes()
                .position(|byte| matches!(byte, b'"' | b'\\') || byte < 0x20)
                .ok_or_else(|| self.error("the text ends within a string"))?;
            let (part, tail) = rest.split_at(plain);
            self.at += plain;
            if let Some(text) = &mut unescaped {
                text.push_str(part);
            }
            match tail.as_bytes().first() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(unescaped.map_or(Cow::Borrowed(part), Cow::Owned));
                }
                Some(b'\\') => {
                    let text = unescaped.get_or_insert_with(|| part.into());
                    let c = self.escape()?;
                    text.push(c);
                }
                _ => return Err(self.error("control character within a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let bad = "unknown escape in a string";
        let letter = self.text.as_bytes().get(self.at + 1).copied();
        let c = match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.code_unit()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first).ok_or_else(|| self.error(bad));
                }
                // A character outside of the basic plane is two of them.
                if !self.rest().starts_with("\\u") {
                    return Err(self.error(bad));
                }
                let second = self.code_unit()?;
                let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400);
                let low = low.ok_or_else(|| self.error(bad))?;
                let code = 0x1_0000 + ((first - 0xd800) << 10) + low;
                return char::from_u32(code).ok_or_else(|| self.error(bad));
            }
            _ => return Err(self.error(bad)),
        };
        self.at += 2;
        Ok(c)
    }

    /// `\uXXXX` as a number.
    fn code_unit(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at + 2..self.at + 6);
        let is_hex = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let unit = digits
            .filter(is_hex)
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.error("unknown escape in a string"))?;
        self.at += 6;
        Ok(unit)
    }

    /// Steps over any value.
    pub(super) fn skip(&mut self) -> Result<()> {
        match self.peek()? {
            b'{' => {
                let mut more = self.open(b'{', b'}')?;
                while more {
                    self.key()?;
                    self.skip()?;
                    more = self.more(b'}')?;
                }
                Ok(())
            }
            b'[' => {
                let mut more = self.open(b'[', b']')?;
                while more {
                    self.skip()?;
                    more = self.more(b']')?;
                }
                Ok(())
            }
            b'"' => self.string().map(drop),
            b't' | b'f' => self.boolean().map(drop),
            b'n' => match self.null()? {
                true => Ok(()),
                false => Err(self.error("expected a value")),
            },
            _ => {
                let at = self.at;
                let number = self.number()?;
                match number.parse::<f64>() {
                    Ok(_) => Ok(()),
                    Err(_) => {
                        self.at = at;
                        Err(self.error("expected a value"))
                    }
                }
            }
        }
    }
}
