//! Values of what an event keeps as JSON: its resource, its status, the state of its trace.

use serde_json::Value as Json;

use crate::Scalar;

/// The values at a path, of a list each element. An object may be written as such, or as keys with
/// dots.
pub(super) fn kept_values(rest: &str, path: &str) -> Vec<Scalar<'static>> {
    let mut values = Vec::new();
    if !rest.is_empty()
        && let Ok(json) = serde_json::from_str(rest)
    {
        collect(json, path, &mut values);
    }
    values
}

fn collect(json: Json, path: &str, values: &mut Vec<Scalar<'static>>) {
    let Json::Object(object) = json else {
        return;
    };
    for (name, json) in object {
        match path.strip_prefix(&name) {
            Some("") => push_scalars(json, values),
            Some(below) => {
                if let Some(below) = below.strip_prefix('.') {
                    collect(json, below, values);
                }
            }
            None => {}
        }
    }
}

/// Objects, and lists within lists, are compared with nothing.
fn push_scalars(json: Json, values: &mut Vec<Scalar<'static>>) {
    let list = match json {
        Json::Array(list) => list,
        one => vec![one],
    };
    values.extend(list.into_iter().filter_map(|json| match json {
        Json::String(text) => Some(Scalar::Text(text.into())),
        Json::Bool(boolean) => Some(Scalar::Boolean(boolean)),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Some(Scalar::Integer(integer)),
            None => number.as_f64().map(Scalar::Number),
        },
        _ => None,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_through_objects_and_dots() {
        let rest = r#"{"resource":{"host":{"name":"node-7"},"cloud.region":"eu",
            "process":{"pid":7,"args":["-v",1.5,true,null,{}]}},"traceState":"a=b"}"#;
        let texts = |path: &str| -> Vec<String> {
            let values = kept_values(rest, path);
            values.iter().map(|value| value.to_text().into()).collect()
        };
        assert_eq!(texts("resource.host.name"), ["node-7"]);
        assert_eq!(texts("resource.cloud.region"), ["eu"]);
        assert_eq!(texts("resource.process.pid"), ["7"]);
        assert_eq!(texts("resource.process.args"), ["-v", "1.5", "true"]);
        assert_eq!(texts("traceState"), ["a=b"]);
        for absent in ["resource.host", "resource.hos", "resource.host.name.x", ""] {
            assert!(texts(absent).is_empty(), "{absent}");
        }
        assert!(kept_values("", "resource.host.name").is_empty());
        assert!(kept_values("{", "resource.host.name").is_empty());
    }
}
