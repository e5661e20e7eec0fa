//! Quoted strings of PromQL: double and single quotes with Go's escapes, backticks without.

use super::ErrorAt;

/// Reads the string at the beginning of `text`: its value and its length with the quotes. `None`
/// when it does not begin with a quote.
pub(super) fn parse(text: &str) -> Option<Result<(String, usize), ErrorAt>> {
    let quote = text
        .chars()
        .next()
        .filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let inner = text.get(1..)?;
    Some(match quote {
        '`' => match inner.split_once('`') {
            // Go drops carriage returns from raw strings.
            Some((raw, _)) => Ok((raw.replace('\r', ""), raw.len() + 2)),
            None => Err(ErrorAt::new(0, "unterminated raw string")),
        },
        _ => parse_escaped(inner, quote).map_err(|error| ErrorAt {
            position: error.position + 1,
            ..error
        }),
    })
}

fn parse_escaped(inner: &str, quote: char) -> Result<(String, usize), ErrorAt> {
    // Bytes, because `\xff` makes one; the whole must be UTF-8 in the end.
    let mut value = Vec::new();
    let mut position = 0;
    loop {
        let rest = inner.get(position..).unwrap_or_default();
        match rest.chars().next() {
            None | Some('\n') => return Err(ErrorAt::new(position, "unterminated quoted string")),
            Some(c) if c == quote => {
                let value = String::from_utf8(value)
                    .map_err(|_| ErrorAt::new(0, "string is not valid UTF-8"))?;
                return Ok((value, position + 2));
            }
            Some('\\') => {
                let escape = rest.get(1..).unwrap_or_default();
                let length = push_escape(escape, quote, &mut value)
                    .map_err(|message| ErrorAt::new(position, message))?;
                position += 1 + length;
            }
            Some(c) => {
                value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                position += c.len_utf8();
            }
        }
    }
}

/// Appends the bytes of an escape and returns its length without the backslash.
fn push_escape(escape: &str, quote: char, value: &mut Vec<u8>) -> Result<usize, &'static str> {
    let Some(c) = escape.chars().next() else {
        return Err("escape sequence not terminated");
    };
    let simple = match c {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        // Only the quote that ends the string may be escaped.
        '"' | '\'' if c == quote => c as u8,
        '0'..='7' => {
            let byte = number(escape, 3, 8)?;
            value.push(u8::try_from(byte).map_err(|_| "escape sequence is larger than a byte")?);
            return Ok(3);
        }
        'x' => {
            let byte = number(escape.get(1..).unwrap_or_default(), 2, 16)?;
            value.push(u8::try_from(byte).map_err(|_| "escape sequence is larger than a byte")?);
            return Ok(3);
        }
        'u' => return push_code_point(escape, 4, value),
        'U' => return push_code_point(escape, 8, value),
        _ => return Err("unknown escape sequence"),
    };
    value.push(simple);
    Ok(1)
}

fn push_code_point(
    escape: &str,
    digits: usize,
    value: &mut Vec<u8>,
) -> Result<usize, &'static str> {
    let code = number(escape.get(1..).unwrap_or_default(), digits, 16)?;
    let c = char::from_u32(code).ok_or("escape sequence is an invalid Unicode code point")?;
    value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(1 + digits)
}

fn number(text: &str, digits: usize, radix: u32) -> Result<u32, &'static str> {
    let digits = text.get(..digits).ok_or("escape sequence not terminated")?;
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return Err("illegal character in escape sequence");
    }
    u32::from_str_radix(digits, radix)
        .map_err(|_| "escape sequence is an invalid Unicode code point")
}
