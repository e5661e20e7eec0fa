//! What all text forms share.

/// Why a text is not a value of its kind: "expected …". Who reports it adds what was found and
/// where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValue {
    pub expected: String,
}

impl BadValue {
    pub fn expected(what: impl Into<String>) -> Self {
        Self {
            expected: what.into(),
        }
    }
}

/// Decimal digits without sign, blanks or leading zeros (which YAML 1.1 reads as octal).
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    if plain && !leading_zero {
        text.parse().ok()
    } else {
        None
    }
}
