//! Target groups as JSON, the form of `http_sd_configs` and of `.json` files.
//!
//! Holds always: the list is accepted as a whole or not at all.

use serde_json::{Map, Value};

use crate::config::TargetGroup;

/// `name` is where the groups come from; with its number it is a group's source.
pub(super) fn from_json(bytes: &[u8], name: &str) -> Result<Vec<TargetGroup>, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let list = match value {
        Value::Array(list) => list,
        Value::Null => Vec::new(),
        _ => return Err("expected a list of target groups".into()),
    };
    list.into_iter()
        .enumerate()
        .map(|(index, value)| group(value, index, name))
        .collect()
}

fn group(value: Value, index: usize, name: &str) -> Result<TargetGroup, String> {
    let Value::Object(fields) = value else {
        return Err(format!("group {index}: expected targets and labels"));
    };
    let mut group = TargetGroup {
        source: format!("{name}:{index}"),
        ..TargetGroup::default()
    };
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("targets" | "labels", Value::Null) => {}
            ("targets", Value::Array(targets)) => group.targets = texts(targets, index)?,
            ("labels", Value::Object(labels)) => group.labels = pairs(labels, index)?,
            ("targets", _) => return Err(format!("group {index}: targets must be a list")),
            ("labels", _) => return Err(format!("group {index}: labels must be a map")),
            _ => return Err(format!("group {index}: unknown key {key:?}")),
        }
    }
    Ok(group)
}

fn texts(values: Vec<Value>, index: usize) -> Result<Vec<String>, String> {
    let text = |value| match value {
        Value::String(text) => Ok(text),
        _ => Err(format!("group {index}: a target must be a string")),
    };
    values.into_iter().map(text).collect()
}

fn pairs(labels: Map<String, Value>, index: usize) -> Result<Vec<(String, String)>, String> {
    let pair = |(name, value): (String, Value)| match value {
        _ if name.is_empty() => Err(format!("group {index}: a label without a name")),
        Value::String(text) => Ok((name, text)),
        _ => Err(format!(
            "group {index}: the label {name:?} must be a string"
        )),
    };
    labels.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn groups_are_taken_as_a_whole_or_not_at_all() {
        let text = r#"[{"targets": ["a:1", "b"], "labels": {"x": "y"}}, {"targets": []}, {}]"#;
        let groups = from_json(text.as_bytes(), "n").unwrap();
        assert_eq!(groups.len(), 3);
        assert_eq!(groups[0].targets, ["a:1", "b"]);
        assert_eq!(groups[0].labels, [("x".into(), "y".into())]);
        assert_eq!(groups[2].source, "n:2");
        assert_eq!(from_json(b"[]", "n"), Ok(Vec::new()));
        assert_eq!(from_json(b"null", "n"), Ok(Vec::new()));
        for wrong in [
            "",
            "{}",
            "[",
            "[5]",
            r#"[{"targets": "a"}]"#,
            r#"[{"targets": [5]}]"#,
            r#"[{"labels": []}]"#,
            r#"[{"labels": {"a": 5}}]"#,
            r#"[{"labels": {"": "x"}}]"#,
            r#"[{"targets": ["a"]}, {"target": []}]"#,
        ] {
            assert!(from_json(wrong.as_bytes(), "n").is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in "[\\[\\]{}\":,a-c0-9]{0,60}") {
            let _ = from_json(bytes.as_bytes(), "n");
        }
    }
}
