//! Which names are allowed.

use std::sync::LazyLock;

use regex::Regex;

/// Letters as Java's `Character.isLetter` knows them.
static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());

/// Checks a name. `what` says in the message what it would name; `special` are the characters
/// that are allowed besides letters, digits and `-_./`.
pub(crate) fn validate_name(what: &str, name: &str, special: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("Invalid {what}: empty string"));
    }
    match name.chars().find(|c| !is_allowed(*c, special)) {
        None => Ok(()),
        Some(c) => Err(format!(
            "Invalid {what} (\"{name}\"): illegal character: {c}"
        )),
    }
}

fn is_allowed(c: char, special: &str) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || "-_./".contains(c) || special.contains(c);
    }
    // Java looks at UTF-16 units, and halves of a pair are no letters.
    let is_letter = || {
        let mut bytes = [0; 4];
        let text: &str = c.encode_utf8(&mut bytes);
        LETTER.as_ref().is_some_and(|letter| letter.is_match(text))
    };
    (c <= '\u{FFFF}' && is_letter()) || special.contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_digits_and_some_signs_are_allowed() {
        for name in ["a", "sys.cpu-0/x_Y", "ü", "中"] {
            assert_eq!(validate_name("metric", name, ""), Ok(()), "{name}");
        }
        assert_eq!(validate_name("metric", "a b:", " :"), Ok(()));
        for (name, message) in [
            ("", "Invalid metric name: empty string"),
            ("a b", "Invalid metric name (\"a b\"): illegal character:  "),
            ("a:b", "Invalid metric name (\"a:b\"): illegal character: :"),
            ("²", "Invalid metric name (\"²\"): illegal character: ²"),
            ("𝒳", "Invalid metric name (\"𝒳\"): illegal character: 𝒳"),
        ] {
            let refused = validate_name("metric name", name, "");
            assert_eq!(refused, Err(message.into()));
        }
    }
}
