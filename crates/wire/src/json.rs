//! A pull reader of JSON text: one token after the other, without a tree.
//!
//! OTLP/JSON and the lines of an import are read with it. `serde_json` has no pull interface: it
//! deserializes into types, and the schema of OTLP is a table.
//!
//! Holds always:
//! - Strings without escapes are borrowed.
//! - What is skipped is checked all the same.
//! - Objects and arrays nest no deeper than the caller allows.

use std::borrow::Cow;

/// What is wrong with a text, and where.
#[derive(Debug)]
pub struct SyntaxError {
    pub offset: usize,
    pub reason: &'static str,
}

/// The reason of an error for text that may be JSON, but nests deeper than the caller allows.
pub const TOO_DEEP: &str = "nested too deep";

type Result<T, E = SyntaxError> = std::result::Result<T, E>;

pub struct JsonReader<'a> {
    text: &'a str,
    at: usize,
    depth_left: usize,
}

impl<'a> JsonReader<'a> {
    pub fn new(text: &'a str, depth_max: usize) -> Self {
        Self {
            text,
            at: 0,
            depth_left: depth_max,
        }
    }

    /// An error at the current position.
    pub fn error(&self, reason: &'static str) -> SyntaxError {
        SyntaxError {
            offset: self.at,
            reason,
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is not blank.
    #[inline]
    pub fn peek(&mut self) -> Result<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        let byte = bytes.get(self.at).copied();
        byte.ok_or_else(|| self.error("the text ends too early"))
    }

    /// Whether nothing but blanks is left.
    pub fn is_at_end(&mut self) -> bool {
        self.peek().is_err()
    }

    /// Steps over a word, if it is next.
    pub fn word(&mut self, word: &str) -> Result<bool> {
        self.peek()?;
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        Ok(found)
    }

    /// Steps over `null`, if it is next.
    pub fn null(&mut self) -> Result<bool> {
        self.word("null")
    }

    pub fn boolean(&mut self) -> Result<bool> {
        if self.word("true")? {
            Ok(true)
        } else if self.word("false")? {
            Ok(false)
        } else {
            Err(self.error("expected true or false"))
        }
    }

    /// Each member of an object: `each` reads the value of the key it is given.
    pub fn object<E: From<SyntaxError>>(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        self.members(|json, key| each(json, &key))
    }

    /// The same with keys that the caller may keep.
    pub fn members<E: From<SyntaxError>>(
        &mut self,
        mut each: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut more = self.open(b'{', b'}')?;
        while more {
            let key = self.string()?;
            if self.peek()? != b':' {
                return Err(self.error("expected a colon").into());
            }
            self.at += 1;
            each(self, key)?;
            more = self.more(b'}')?;
        }
        Ok(())
    }

    /// Each element of an array.
    pub fn array<E: From<SyntaxError>>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut more = self.open(b'[', b']')?;
        while more {
            each(self)?;
            more = self.more(b']')?;
        }
        Ok(())
    }

    /// Begins an object or an array. False when it is empty, and then it is over.
    fn open(&mut self, opening: u8, closing: u8) -> Result<bool> {
        if self.peek()? != opening {
            return Err(self.error(match opening {
                b'{' => "expected an object",
                _ => "expected an array",
            }));
        }
        self.depth_left = match self.depth_left.checked_sub(1) {
            Some(left) => left,
            None => return Err(self.error(TOO_DEEP)),
        };
        self.at += 1;
        if self.peek()? != closing {
            return Ok(true);
        }
        self.close();
        Ok(false)
    }

    /// Whether another entry follows; otherwise the object or array is over.
    fn more(&mut self, closing: u8) -> Result<bool> {
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

    /// The text of a number; the caller parses it.
    pub fn number(&mut self) -> Result<&'a str> {
        self.peek()?;
        let rest = self.rest();
        let end = rest.bytes().position(|byte| !is_number_byte(byte));
        let length = end.unwrap_or(rest.len());
        if length == 0 {
            return Err(self.error("expected a number"));
        }
        self.at += length;
        Ok(rest.get(..length).unwrap_or_default())
    }

    pub fn string(&mut self) -> Result<Cow<'a, str>> {
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

    /// The text that `read` steps over, without the blanks before it.
    pub fn span<E: From<SyntaxError>>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<&'a str, E> {
        self.peek()?;
        let start = self.at;
        read(self)?;
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    /// Steps over any value.
    pub fn skip(&mut self) -> Result<()> {
        match self.peek()? {
            b'{' => self.object(|json, _| json.skip()),
            b'[' => self.array(Self::skip),
            b'"' => self.string().map(drop),
            b't' | b'f' => self.boolean().map(drop),
            _ => {
                let start = self.at;
                if self.null()? || self.number()?.parse::<f64>().is_ok() {
                    return Ok(());
                }
                self.at = start;
                Err(self.error("expected a value"))
            }
        }
    }
}

/// Whether a byte can be part of a number.
#[inline]
pub fn is_number_byte(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}
