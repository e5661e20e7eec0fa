//! Masking: what must not be stored is dropped or hashed before anything else sees an event.
//!
//! Holds always: a rule for an object masks everything in it, a rule for a list each element, and a
//! rule whose path leads into a list of objects what each of them has there.

use std::borrow::Cow;
use std::fmt;

use aws_lc_rs::hmac;
use serde_json::Value as Json;

use crate::{Attributes, EventBody, Mask, MaskRule, Problem, Scalar, Value};

/// The bytes of a digest that are kept.
const HASH_BYTES: usize = 16;

/// The key of hashes: without it a hash of few values could be turned back by trying them all.
#[derive(Clone)]
pub struct MaskingKey(hmac::Key);

impl MaskingKey {
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The beginning of the HMAC of a text, in lower hex.
    pub fn hash(&self, text: &str) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let tag = hmac::sign(&self.0, text.as_bytes());
        let bytes = tag.as_ref().iter().take(HASH_BYTES);
        bytes
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| char::from(DIGITS[usize::from(digit)]))
            .collect()
    }
}

impl fmt::Debug for MaskingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MaskingKey")
    }
}

/// Applies the rules of a type.
pub(crate) fn mask(
    rules: &[MaskRule],
    key: Option<&MaskingKey>,
    attributes: &mut Attributes<'_>,
) -> Result<(), Problem> {
    for rule in rules {
        let masker = masker(rule, key)?;
        match masker {
            None => attributes.remove(&rule.path),
            Some(key) => attributes.change(&rule.path, |value| hash_value(key, value)),
        }
        if let Some((rest, Value::Json(text))) = attributes.leaf_above_mut(&rule.path) {
            *text = Cow::Owned(masked_json(text, |json| mask_below(json, rest, masker)));
        }
    }
    Ok(())
}

/// The key to hash with, or `None` for what is dropped.
fn masker<'k>(
    rule: &MaskRule,
    key: Option<&'k MaskingKey>,
) -> Result<Option<&'k MaskingKey>, Problem> {
    match (rule.mask, key) {
        (Mask::Drop, _) => Ok(None),
        (Mask::Hash, Some(key)) => Ok(Some(key)),
        // Such a configuration is refused; a key that was taken away later must not unmask.
        (Mask::Hash, None) => {
            let detail = "there is no masking key, and an event has what must be hashed";
            Err(Problem::new(503, "ingest.unavailable", detail))
        }
    }
}

/// Applies the rules of a type to what an event has beside its attributes: paths that begin with
/// `resource` or `links`, and `status.message`.
pub(crate) fn mask_kept<'a>(
    rules: &[MaskRule],
    key: Option<&MaskingKey>,
    resource: &mut Cow<'a, str>,
    body: &mut EventBody<'a>,
) -> Result<(), Problem> {
    for rule in rules {
        let path = &*rule.path;
        if path == "status" || path == "status.message" {
            let masker = masker(rule, key)?;
            let message = body.status_message.take();
            body.status_message = message
                .zip(masker)
                .map(|(message, key)| Cow::Owned(key.hash(&message)));
        }
        for (name, text) in [("resource", &mut *resource), ("links", &mut body.links)] {
            let Some(below) = path.strip_prefix(name) else {
                continue;
            };
            let (masker, is_there) = (masker(rule, key)?, !text.is_empty());
            match (below.strip_prefix('.'), masker) {
                _ if !is_there => {}
                (Some(below), masker) => {
                    let masked = masked_json(text, |json| mask_below(json, below, masker));
                    *text = Cow::Owned(masked);
                }
                // A longer name.
                (None, _) if !below.is_empty() => {}
                (None, Some(key)) => {
                    *text = Cow::Owned(masked_json(text, |json| hash_json(key, json)));
                }
                (None, None) => *text = Cow::Borrowed(""),
            }
        }
    }
    Ok(())
}

fn hash_value(key: &MaskingKey, value: &mut Value<'_>) {
    let hash = |scalar: &mut Scalar<'_>| {
        *scalar = Scalar::Text(Cow::Owned(key.hash(&scalar.to_text())));
    };
    match value {
        Value::Null => {}
        Value::Scalar(scalar) => hash(scalar),
        Value::List(list) => list.iter_mut().for_each(hash),
        Value::Json(text) => *text = Cow::Owned(masked_json(text, |json| hash_json(key, json))),
    }
}

/// The text of a JSON value after a change; null if it cannot be read, which keeps no secret.
fn masked_json(text: &str, change: impl FnOnce(&mut Json)) -> String {
    let mut json = serde_json::from_str(text).unwrap_or_default();
    change(&mut json);
    json.to_string()
}

fn hash_json(key: &MaskingKey, json: &mut Json) {
    match json {
        Json::Null => {}
        Json::Array(list) => list.iter_mut().for_each(|json| hash_json(key, json)),
        Json::Object(object) => object.values_mut().for_each(|json| hash_json(key, json)),
        scalar => *scalar = Json::String(key.hash(&json_scalar_text(scalar))),
    }
}

/// The text of a scalar as it would be outside of a list.
fn json_scalar_text(json: &Json) -> String {
    let scalar = match json {
        Json::String(text) => Scalar::Text(Cow::Borrowed(text)),
        Json::Bool(boolean) => Scalar::Boolean(*boolean),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Scalar::Integer(integer),
            (None, number) => Scalar::Number(number.unwrap_or_default()),
        },
        other => return other.to_string(),
    };
    scalar.to_text().into_owned()
}

/// Masks what lies at a path below a value; without a key it is dropped.
fn mask_below(json: &mut Json, path: &str, key: Option<&MaskingKey>) {
    match json {
        Json::Array(list) => list.iter_mut().for_each(|json| mask_below(json, path, key)),
        Json::Object(object) => object.retain(|name, json| {
            let is_below = |longer: &str, outer: &str| {
                let rest = longer.strip_prefix(outer)?;
                rest.strip_prefix('.').map(str::len)
            };
            if name == path || is_below(name, path).is_some() {
                if let Some(key) = key {
                    hash_json(key, json);
                }
                return key.is_some();
            }
            if let Some(length) = is_below(path, name) {
                mask_below(json, &path[path.len() - length..], key);
            }
            true
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::parse_attributes;
    use crate::json_text::attributes_text;

    fn check(path: &str, mask_kind: Mask, attributes: &str, expected: &str) {
        let mut attributes = parse_attributes(attributes).unwrap();
        let rule = MaskRule {
            path: path.into(),
            mask: mask_kind,
        };
        let key = MaskingKey::new(b"key");
        mask(&[rule], Some(&key), &mut attributes).unwrap();
        assert_eq!(attributes_text(&attributes), expected);
    }

    /// HMAC-SHA-256 with the key `key`, as other programs compute it.
    const HASH_OF_C19: &str = "f67fdd1b10c5f0e4904ce3f22b19cff1";
    const HASH_OF_200: &str = "c2e74b68dd9917bc2f5a6279fdeae302";

    #[test]
    fn a_value_is_dropped_or_hashed() {
        let all = r#"{"customer":{"email":"a","id":"c-19"},"x":1}"#;
        check(
            "customer.email",
            Mask::Drop,
            all,
            r#"{"customer":{"id":"c-19"},"x":1}"#,
        );
        let hashed = format!(r#"{{"customer":{{"email":"a","id":"{HASH_OF_C19}"}},"x":1}}"#);
        check("customer.id", Mask::Hash, all, &hashed);
        check("customer.phone", Mask::Hash, all, all);
        check("customer.emai", Mask::Drop, all, all);
    }

    #[test]
    fn objects_and_lists_are_masked_as_a_whole() {
        let all = r#"{"a":{"b":"c-19","n":null},"l":["c-19",200.0]}"#;
        check("a", Mask::Drop, all, r#"{"l":["c-19",200.0]}"#);
        let object = format!(r#"{{"a":{{"b":"{HASH_OF_C19}","n":null}},"l":["c-19",200.0]}}"#);
        check("a", Mask::Hash, all, &object);
        let list =
            format!(r#"{{"a":{{"b":"c-19","n":null}},"l":["{HASH_OF_C19}","{HASH_OF_200}"]}}"#);
        check("l", Mask::Hash, all, &list);
    }

    #[test]
    fn rules_reach_into_lists_of_objects() {
        let all = r#"{"l":[{"a":{"b":"c-19"}},{"a.b":200,"c":1},[{"a":{"b":{"d":"c-19"}}}],"x"]}"#;
        let dropped = r#"{"l":[{"a":{}},{"c":1},[{"a":{}}],"x"]}"#;
        check("l.a.b", Mask::Drop, all, dropped);
        let hashed = format!(
            r#"{{"l":[{{"a":{{"b":"{HASH_OF_C19}"}}}},{{"a.b":"{HASH_OF_200}","c":1}},[{{"a":{{"b":{{"d":"{HASH_OF_C19}"}}}}}}],"x"]}}"#
        );
        check("l.a.b", Mask::Hash, all, &hashed);
        check("l", Mask::Drop, all, "{}");
        let whole = format!(r#"{{"l":[{{"a":"{HASH_OF_C19}"}}]}}"#);
        check("l", Mask::Hash, r#"{"l":[{"a":"c-19"}]}"#, &whole);
    }

    #[test]
    fn nothing_is_stored_that_cannot_be_hashed() {
        let rule = MaskRule {
            path: "a".into(),
            mask: Mask::Hash,
        };
        let problem = mask(&[rule], None, &mut Attributes::default()).unwrap_err();
        assert_eq!(problem.status, 503);
    }
}
