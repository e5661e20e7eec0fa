//! Integers, with the original's words for what is wrong with them.

/// A signed integer of 64 bits, or why it is none.
pub(crate) fn parse_integer(text: &str) -> Result<i64, String> {
    if text.is_empty() {
        return Err("Empty string".into());
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() {
        return Err(format!("Just a sign, no value: {text}"));
    }
    if digits.chars().count() > 19 {
        return Err(format!("Value too long: {text}"));
    }
    if let Some(c) = digits.chars().find(|c| !c.is_ascii_digit()) {
        return Err(format!("Invalid character '{c}' in {text}"));
    }
    text.parse().map_err(|_| format!("Overflow in {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_what_is_none() {
        assert_eq!(parse_integer("42"), Ok(42));
        assert_eq!(parse_integer("+42"), Ok(42));
        assert_eq!(parse_integer("-9223372036854775808"), Ok(i64::MIN));
        for (text, reason) in [
            ("", "Empty string"),
            ("-", "Just a sign, no value: -"),
            ("4x2", "Invalid character 'x' in 4x2"),
            ("9223372036854775808", "Overflow in 9223372036854775808"),
            (
                "12345678901234567890",
                "Value too long: 12345678901234567890",
            ),
        ] {
            assert_eq!(parse_integer(text), Err(reason.to_owned()));
        }
    }
}
