//! Pieces of PromQL as text.

use icecore_model::format_duration_ms;

/// An expression, and whether it needs parentheses as an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vector {
    pub(super) text: String,
    is_binary: bool,
}

impl Vector {
    /// A selector, a call, or a number.
    pub(super) fn atom(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_binary: false,
        }
    }

    /// Operators between operands.
    pub(super) fn binary(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_binary: true,
        }
    }

    /// As an operand or argument of whatever kind.
    pub(super) fn operand(&self) -> String {
        if self.is_binary {
            format!("({})", self.text)
        } else {
            self.text.clone()
        }
    }

    pub(super) fn call(&self, function: &str) -> Self {
        Self::atom(format!("{function}({})", self.text))
    }
}

/// A text in quotes.
pub(super) fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\n', "\\n"))
}

/// A label name; in quotes if it is not one of the old kind.
pub(super) fn label_name(name: &str) -> String {
    let is_old = |(i, c): (usize, char)| {
        c.is_ascii_alphabetic() || c == '_' || (i > 0 && c.is_ascii_digit())
    };
    if !name.is_empty() && name.chars().enumerate().all(is_old) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// A value that a regular expression is to match as it is. Only what means something is escaped,
/// so that the result stays readable.
pub(super) fn escaped(text: &str) -> String {
    let mut found = String::new();
    for c in text.chars() {
        if "\\.+*?()|[]{}^$".contains(c) {
            found.push('\\');
        }
        found.push(c);
    }
    found
}

/// ` offset 1m`, also of negative spans; nothing where there is none.
pub(super) fn offset(ms: i64) -> String {
    match ms {
        0 => String::new(),
        ms if ms < 0 => format!(" offset -{}", format_duration_ms(-ms)),
        ms => format!(" offset {}", format_duration_ms(ms)),
    }
}

/// Milliseconds as seconds, without a fraction where there is none.
pub(super) fn seconds(ms: i64) -> String {
    match ms % 1000 {
        0 => (ms / 1000).to_string(),
        _ => format!("{}.{:03}", ms / 1000, ms.rem_euclid(1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_values_and_times() {
        assert_eq!(label_name("host"), "host");
        assert_eq!(label_name("data.center"), "\"data.center\"");
        assert_eq!(label_name("1st"), "\"1st\"");
        assert_eq!(quoted("a\"b\\c"), r#""a\"b\\c""#);
        assert_eq!(escaped("web-01.a|b"), r"web-01\.a\|b");
        assert_eq!(offset(-59_999), " offset -59s999ms");
        assert_eq!(offset(1), " offset 1ms");
        assert_eq!(offset(0), "");
        assert_eq!(seconds(1_500_000_000_999), "1500000000.999");
        assert_eq!(seconds(60_000), "60");
    }
}
