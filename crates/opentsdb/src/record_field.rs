//! Fields of records.

use std::collections::BTreeMap;

use crate::json::Json;

/// `None` where the field is missing or of another type.
pub(crate) fn text(json: &Json<'_>, name: &str) -> Option<String> {
    match json.get(name)? {
        Json::Text(text) => Some(text.clone().into_owned()),
        _ => None,
    }
}

pub(crate) fn integer<T: std::str::FromStr>(json: &Json<'_>, name: &str) -> Option<T> {
    match json.get(name)? {
        Json::Number(text) => text.parse().ok(),
        _ => None,
    }
}

pub(crate) fn boolean(json: &Json<'_>, name: &str) -> Option<bool> {
    match json.get(name)? {
        Json::Bool(value) => Some(*value),
        _ => None,
    }
}

/// A float, or `NaN` as a text.
pub(crate) fn float(json: &Json<'_>, name: &str) -> Option<f64> {
    match json.get(name)? {
        Json::Number(text) => text.parse().ok(),
        Json::Text(text) if text == "NaN" => Some(f64::NAN),
        _ => None,
    }
}

/// A map of texts that may be `null`.
pub(crate) fn map(json: &Json<'_>, name: &str) -> Option<Option<BTreeMap<String, String>>> {
    let members = match json.get(name)? {
        Json::Null => return Some(None),
        Json::Object(members) => members,
        _ => return None,
    };
    let mut map = BTreeMap::new();
    for (key, value) in members {
        let Json::Text(value) = value else {
            return None;
        };
        map.insert(key.clone().into_owned(), value.clone().into_owned());
    }
    Some(Some(map))
}
