//! Names of metrics, tag keys and tag values: which characters they may have.

use std::sync::LazyLock;

use regex::Regex;

use crate::error::Error;

/// Labels that are no tags begin so: the metric, and what is not an ordinary point.
pub(crate) const RESERVED_PREFIX: &str = "__";

/// A letter as `Character.isLetter` knows it.
static LETTER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\p{L}$").expect("the pattern is valid"));

/// Whether a name is one: letters, digits and `-_./`, and what the settings allow besides.
/// `what` is how the message calls it.
pub(crate) fn validate(what: &str, name: &str, allowed: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::bad_request(format!("Invalid {what}: empty string")));
    }
    let is_good = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, '-' | '_' | '.' | '/')
            || allowed.contains(c)
            || is_letter(c)
    };
    match name.chars().find(|c| !is_good(*c)) {
        None => Ok(()),
        Some(bad) => {
            // The original looks at UTF-16, where such a character is two that are none.
            let bad = if bad > '\u{ffff}' { '\u{fffd}' } else { bad };
            let message = format!("Invalid {what} (\"{name}\"): illegal character: {bad}");
            Err(Error::bad_request(message))
        }
    }
}

fn is_letter(c: char) -> bool {
    if c.is_ascii() || c > '\u{ffff}' {
        return c.is_ascii_alphabetic();
    }
    LETTER.is_match(c.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_digits_and_four_others_make_a_name() {
        for name in ["sys.cpu/0_a-B", "métrique", "日本", "ª"] {
            assert_eq!(validate("metric name", name, ""), Ok(()), "{name}");
        }
        assert_eq!(validate("metric name", "a:b", ":"), Ok(()));
        for (name, message) in [
            ("", "Invalid metric name: empty string"),
            ("a b", "Invalid metric name (\"a b\"): illegal character:  "),
            ("a:b", "Invalid metric name (\"a:b\"): illegal character: :"),
            ("Ã©", "Invalid metric name (\"Ã©\"): illegal character: ©"),
            // A mark that belongs to a letter is alphabetic, but no letter.
            (
                "a\u{345}",
                "Invalid metric name (\"a\u{345}\"): illegal character: \u{345}",
            ),
            (
                "a😀",
                "Invalid metric name (\"a😀\"): illegal character: \u{fffd}",
            ),
        ] {
            let error = validate("metric name", name, "").unwrap_err();
            assert_eq!(error.message, message);
        }
    }
}
