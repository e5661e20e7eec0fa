//! How Prometheus 3 writes names with arbitrary characters where only `[a-zA-Z0-9_:]` fit: the
//! "values" escaping scheme.
//!
//! ```text
//! http.status:sum → U__http_2e_status:sum        _ → __        é → _e9_
//! ```
//!
//! A name that needs no escaping stays as it is, and so does a text that is not a valid escape: the
//! API treats such a path segment as the name itself.

const PREFIX: &str = "U__";

/// Undoes [`escape_name`]. Text that was not escaped, or not correctly, is returned unchanged.
pub fn unescape_name(text: &str) -> String {
    text.strip_prefix(PREFIX)
        .and_then(unescape)
        .unwrap_or_else(|| text.into())
}

fn unescape(escaped: &str) -> Option<String> {
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(underscore) = rest.find('_') {
        let (plain, tail) = rest.split_at(underscore);
        name.push_str(plain);
        let (code, tail) = tail.strip_prefix('_')?.split_once('_')?;
        name.push(if code.is_empty() {
            '_'
        } else {
            code_point(code)?
        });
        rest = tail;
    }
    name.push_str(rest);
    Some(name)
}

/// Reads the hexadecimal digits between two underscores. Prometheus stops at five digits, so that
/// the last plane of Unicode does not survive the round trip there; a URL that means one name in
/// Prometheus must not mean another one here.
fn code_point(digits: &str) -> Option<char> {
    if digits.len() > 5 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

/// Writes any name with the characters of old metric names only.
pub fn escape_name(name: &str) -> String {
    if is_legacy_name(name) {
        return name.into();
    }
    let mut escaped = String::with_capacity(name.len() + 8);
    escaped.push_str(PREFIX);
    for (i, c) in name.char_indices() {
        if c == '_' {
            escaped.push_str("__");
        } else if is_legacy_char(c, i) {
            escaped.push(c);
        } else {
            escaped.push_str(&format!("_{:x}_", u32::from(c)));
        }
    }
    escaped
}

pub(super) fn is_legacy_name(name: &str) -> bool {
    name.char_indices().all(|(i, c)| is_legacy_char(c, i))
}

pub(super) fn is_legacy_char(c: char, position: usize) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == ':' || (c.is_ascii_digit() && position > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_pairs() {
        for (name, escaped) in [
            ("", ""),
            ("no:escaping_required", "no:escaping_required"),
            (
                "mysystem.prod.west.cpu.load",
                "U__mysystem_2e_prod_2e_west_2e_cpu_2e_load",
            ),
            (
                "mysystem.prod.west.cpu.load_total",
                "U__mysystem_2e_prod_2e_west_2e_cpu_2e_load__total",
            ),
            ("http.status:sum", "U__http_2e_status:sum"),
            ("1starts.with.digit", "U___31_starts_2e_with_2e_digit"),
            ("label with 😱", "U__label_20_with_20__1f631_"),
            ("花火", "U___82b1__706b_"),
        ] {
            assert_eq!(escape_name(name), escaped);
            assert_eq!(unescape_name(escaped), name);
        }
    }

    #[test]
    fn upper_case_digits_are_read() {
        assert_eq!(unescape_name("U__a_2E_b"), "a.b");
    }

    #[test]
    fn what_is_no_escape_stays() {
        for text in [
            "plain",
            "U_a_2e_b",
            "u__a_2e_b",
            "U__ends_",
            "U__ends_2e",
            "U__not_hex_",
            "U__not_+2e_",
            "U__surrogate_d800_",
            "U__long_000041_",
            "U__last_10ffff_",
            "U__half__way_zz_",
        ] {
            assert_eq!(unescape_name(text), text);
        }
    }

    proptest! {
        #[test]
        fn names_survive(name in "[^\u{100000}-\u{10ffff}]*") {
            let escaped = escape_name(&name);
            prop_assert!(is_legacy_name(&escaped));
            // A name that needs no escaping may itself look escaped; Prometheus misreads it, too.
            if !is_legacy_name(&name) {
                prop_assert_eq!(unescape_name(&escaped), name);
            }
        }

        #[test]
        fn any_text_is_read(text: String) {
            unescape_name(&text);
            unescape_name(&format!("U__{text}"));
        }
    }
}
