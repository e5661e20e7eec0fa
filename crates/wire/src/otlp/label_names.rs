//! Label names out of attribute keys, as Prometheus 3 translates them.

use super::translation::Translation;

/// The label name for an attribute, or why it cannot be one. A name may become `key_` alone rather
/// than lose its attribute.
pub(super) fn label_name(translation: &Translation, key: &[u8]) -> Result<String, String> {
    let key = str::from_utf8(key).map_err(|_| "attribute name is not valid UTF-8".to_owned())?;
    if key.is_empty() {
        return Err("attribute without a name".into());
    }
    if !translation.strategy.escapes() {
        return if is_underscores(key) {
            Err(format!("attribute name {key:?} has only underscores"))
        } else {
            Ok(key.into())
        };
    }
    let name = escaped(translation, key);
    if is_underscores(&name) {
        return Err(format!(
            "attribute name {key:?} has no character that can stay"
        ));
    }
    Ok(name)
}

fn escaped(translation: &Translation, key: &str) -> String {
    let name = if translation.label_name_preserve_multiple_underscores {
        key.chars()
            .map(|c| if is_label_char(c) { c } else { '_' })
            .collect()
    } else {
        collapse_underscores(key)
    };
    let digit_first = name.as_bytes().first().is_some_and(u8::is_ascii_digit);
    let one_underscore_first = name.starts_with('_') && !name.starts_with("__");
    if digit_first {
        format!("key_{name}")
    } else if one_underscore_first && translation.label_name_underscore_sanitization {
        format!("key{name}")
    } else {
        name
    }
}

fn is_underscores(name: &str) -> bool {
    name.bytes().all(|byte| byte == b'_')
}

/// Runs of underscores and of what becomes one are a single one, except around a reserved name.
fn collapse_underscores(key: &str) -> String {
    let reserved = key
        .strip_prefix("__")
        .and_then(|rest| rest.strip_suffix("__"));
    let mut name = String::with_capacity(key.len());
    for c in reserved.unwrap_or(key).chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    match reserved {
        Some(_) => format!("__{name}__"),
        None => name,
    }
}

fn is_label_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::Strategy;

    #[track_caller]
    fn check(translation: &Translation, key: &str, expected: Option<&str>) {
        let name = label_name(translation, key.as_bytes());
        assert_eq!(name.ok().as_deref(), expected, "{key:?}");
    }

    #[test]
    fn characters_become_underscores() {
        let defaults = Translation::default();
        let check = |key, expected| check(&defaults, key, expected);
        check("http.method", Some("http_method"));
        check("label:with:colons", Some("label_with_colons"));
        check("with_foreign_字符", Some("with_foreign___"));
        check("123label", Some("key_123label"));
        check("_one", Some("key_one"));
        check("__two", Some("__two"));
        check("a__b..c", Some("a__b__c"));
        check("", None);
    }

    /// What Prometheus' own otlptranslator 1.0.0 answers, with both options, with one or the other,
    /// and with none; and where names stay as they are. Empty means refused.
    #[test]
    fn names_of_which_little_is_left() {
        let with = |strategy, sanitization, preserve| Translation {
            strategy,
            label_name_underscore_sanitization: sanitization,
            label_name_preserve_multiple_underscores: preserve,
            ..Translation::default()
        };
        for (key, expected) in [
            ("λ", ["key_", "key_", "", "", "λ"]),
            ("-", ["key_", "key_", "", "", "-"]),
            ("_", ["key_", "key_", "", "", ""]),
            ("__", ["", "key_", "", "", ""]),
            ("___", ["", "key_", "", "", ""]),
            ("____", ["", "", "", "", ""]),
            ("_____", ["", "", "", "", ""]),
            ("-_", ["", "key_", "", "", "-_"]),
            ("_-", ["", "key_", "", "", "_-"]),
            ("λμ", ["", "key_", "", "", "λμ"]),
            ("__-__", ["", "", "", "", "__-__"]),
            ("__λμ__", ["", "", "", "", "__λμ__"]),
            ("__a__", ["__a__", "__a__", "__a__", "__a__", "__a__"]),
            ("1", ["key_1", "key_1", "key_1", "key_1", "1"]),
            ("-1", ["key_1", "key_1", "_1", "_1", "-1"]),
            ("__1", ["__1", "key_1", "__1", "_1", "__1"]),
            ("ようこそ", ["", "key_", "", "", "ようこそ"]),
            (".a", ["key_a", "key_a", "_a", "_a", ".a"]),
            ("..a", ["__a", "key_a", "__a", "_a", "..a"]),
            ("a-", ["a_", "a_", "a_", "a_", "a-"]),
            ("é1", ["key_1", "key_1", "_1", "_1", "é1"]),
        ] {
            let options = [(true, true), (true, false), (false, true), (false, false)];
            for ((sanitization, preserve), expected) in options.into_iter().zip(expected) {
                let expected = Some(expected).filter(|name| !name.is_empty());
                for strategy in [
                    Strategy::UnderscoreEscapingWithSuffixes,
                    Strategy::UnderscoreEscapingWithoutSuffixes,
                ] {
                    check(&with(strategy, sanitization, preserve), key, expected);
                }
            }
            let expected = Some(expected[4]).filter(|name| !name.is_empty());
            for strategy in [
                Strategy::NoTranslation,
                Strategy::NoUtf8EscapingWithSuffixes,
            ] {
                check(&with(strategy, true, true), key, expected);
            }
        }
    }

    #[test]
    fn by_option_underscores_stay_or_are_joined() {
        let permissive = Translation {
            label_name_underscore_sanitization: false,
            ..Translation::default()
        };
        check(&permissive, "_one", Some("_one"));
        check(&permissive, "1one", Some("key_1one"));
        let joined = Translation {
            label_name_preserve_multiple_underscores: false,
            ..Translation::default()
        };
        check(&joined, "a__b..c", Some("a_b_c"));
        check(&joined, "__reserved..name__", Some("__reserved_name__"));
        check(&joined, "____", None);
    }

    #[test]
    fn utf8_names_stay() {
        let utf8 = Translation {
            strategy: Strategy::NoTranslation,
            ..Translation::default()
        };
        check(&utf8, "http.method", Some("http.method"));
        check(&utf8, "1ようこそ", Some("1ようこそ"));
        check(&utf8, "", None);
        check(&utf8, "__", None);
        assert!(label_name(&utf8, &[0xff]).is_err());
    }
}
