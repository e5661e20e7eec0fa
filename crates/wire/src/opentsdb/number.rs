//! Numbers as the original reads them: integers of 64 bits, unless there is a point or an exponent.

use thiserror::Error;

/// Digits of the greatest integer.
const INTEGER_DIGITS_MAX: usize = 19;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    /// The nearest float.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

/// Why a text is no number, in the original's words.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NumberError {
    #[error("Empty string")]
    Empty,
    #[error("Just a sign, no value: {0}")]
    SignAlone(String),
    #[error("Value too long: {0}")]
    TooLong(String),
    #[error("Invalid character '{0}' in {1}")]
    Character(char, String),
    #[error("Overflow in {0}")]
    Overflow(String),
    #[error("multiple points")]
    MultiplePoints,
    #[error("For input string: \"{0}\"")]
    NotANumber(String),
}

/// An integer, or a float where the text has a point or an exponent.
pub fn parse_number(text: &str) -> Result<Number, NumberError> {
    let is_float = text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'));
    if is_float {
        parse_float(text).map(Number::Float)
    } else {
        parse_integer(text).map(Number::Integer)
    }
}

/// An integer with an optional sign.
pub fn parse_integer(text: &str) -> Result<i64, NumberError> {
    let bytes = text.as_bytes();
    let digits = match bytes {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    };
    let mut magnitude = 0u64;
    let are_digits = digits.iter().all(|b| {
        magnitude = magnitude
            .wrapping_mul(10)
            .wrapping_add(u64::from(b.wrapping_sub(b'0')));
        b.is_ascii_digit()
    });
    if !are_digits || digits.is_empty() || digits.len() > INTEGER_DIGITS_MAX {
        return Err(integer_error(text, digits.len() < bytes.len()));
    }
    // Nineteen digits fit into 64 bits without a sign.
    let integer = if bytes.first() == Some(&b'-') {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    };
    integer.ok_or_else(|| NumberError::Overflow(text.into()))
}

fn integer_error(text: &str, signed: bool) -> NumberError {
    let digits = text.chars().skip(usize::from(signed));
    let is_wrong = |c: &char| !c.is_ascii_digit();
    if text.is_empty() {
        NumberError::Empty
    } else if digits.clone().next().is_none() {
        NumberError::SignAlone(text.into())
    } else if digits.clone().count() > INTEGER_DIGITS_MAX {
        NumberError::TooLong(text.into())
    } else {
        let wrong = digits.clone().find(is_wrong).unwrap_or_default();
        NumberError::Character(wrong, text.into())
    }
}

/// A float as Java reads it: blanks around it and a suffix for its type are allowed.
pub fn parse_float(text: &str) -> Result<f64, NumberError> {
    if let Ok(value) = text.parse()
        && !has_letters_of_names(text)
    {
        return Ok(value);
    }
    let trimmed = text.trim_matches(|c: char| c <= ' ');
    let bare = trimmed
        .strip_suffix(['f', 'F', 'd', 'D'])
        .unwrap_or(trimmed);
    match bare.parse() {
        Ok(value) if !has_letters_of_names(bare) => Ok(value),
        _ => Err(float_error(trimmed)),
    }
}

/// Rust reads `inf` and `nan` in any case; in Java they are no numbers.
fn has_letters_of_names(text: &str) -> bool {
    text.bytes().any(|b| matches!(b, b'n' | b'N'))
}

fn float_error(text: &str) -> NumberError {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let start = unsigned
        .bytes()
        .take_while(|b| matches!(b, b'0'..=b'9' | b'.'));
    if start.filter(|b| *b == b'.').count() > 1 {
        NumberError::MultiplePoints
    } else {
        NumberError::NotANumber(text.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_point_or_an_exponent_makes_a_float() {
        let integers = [
            ("42", 42),
            ("-7", -7),
            ("+8", 8),
            ("0042", 42),
            ("-0", 0),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ];
        for (text, integer) in integers {
            assert_eq!(parse_number(text), Ok(Number::Integer(integer)), "{text}");
        }
        let floats = [
            ("42.5", 42.5),
            ("1e3", 1000.0),
            ("1.5E-2", 0.015),
            (".5", 0.5),
            ("5.", 5.0),
            ("-0.0", -0.0),
            ("1.5f", 1.5),
            ("1.5d", 1.5),
            (" 1.5 ", 1.5),
            ("1e400", f64::INFINITY),
        ];
        for (text, float) in floats {
            assert_eq!(parse_number(text), Ok(Number::Float(float)), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_said_in_the_words_of_the_original() {
        let errors = [
            ("", "Empty string"),
            ("-", "Just a sign, no value: -"),
            ("+", "Just a sign, no value: +"),
            ("nan", "Invalid character 'n' in nan"),
            ("Infinity", "Invalid character 'I' in Infinity"),
            ("-inf", "Invalid character 'i' in -inf"),
            ("1x", "Invalid character 'x' in 1x"),
            ("0x10", "Invalid character 'x' in 0x10"),
            ("1,5", "Invalid character ',' in 1,5"),
            ("--1", "Invalid character '-' in --1"),
            ("9223372036854775808", "Overflow in 9223372036854775808"),
            ("-9223372036854775809", "Overflow in -9223372036854775809"),
            (
                "99999999999999999999",
                "Value too long: 99999999999999999999",
            ),
            ("1.2.3", "multiple points"),
            (".", "For input string: \".\""),
            ("e", "For input string: \"e\""),
            ("E5", "For input string: \"E5\""),
            ("1e", "For input string: \"1e\""),
        ];
        for (text, message) in errors {
            assert_eq!(parse_number(text).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn every_integer_is_read(integer in any::<i64>()) {
            prop_assert_eq!(parse_number(&integer.to_string()), Ok(Number::Integer(integer)));
        }

        #[test]
        fn no_text_panics(text in "[+-]?[0-9a-zA-Z.ü ]{0,24}") {
            let _ = parse_number(&text);
        }
    }
}
