//! `json_get(attributes, 'a.b')`: the value at a path of JSON text, as text.

use std::sync::Arc;

use arrow::array::{Array, AsArray, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use icecore_wire::json::{JsonReader, SyntaxError};

/// Deeper values are not found.
const DEPTH_MAX: usize = 64;

pub(crate) fn json_get() -> ScalarUDF {
    ScalarUDF::new_from_impl(JsonGet {
        signature: Signature::string(2, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonGet {
    signature: Signature,
}

impl ScalarUDFImpl for JsonGet {
    fn name(&self) -> &str {
        "json_get"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let texts = |at: usize| -> Result<StringArray> {
            let value = args.args.get(at).cloned();
            let value = value
                .ok_or_else(|| DataFusionError::Plan("json_get needs a text and a path".into()))?;
            let array = cast(&value.into_array(rows)?, &DataType::Utf8)?;
            Ok(array.as_string::<i32>().clone())
        };
        let (json, paths) = (texts(0)?, texts(1)?);
        let mut found = StringBuilder::with_capacity(rows, rows * 8);
        for at in 0..rows {
            if json.is_null(at) || paths.is_null(at) {
                found.append_null();
            } else {
                found.append_option(value_at(json.value(at), paths.value(at)));
            }
        }
        Ok(ColumnarValue::Array(Arc::new(found.finish())))
    }
}

/// Text without quotes, anything else as it is written; nothing for `null` and for what is not
/// there or is no JSON.
fn value_at(json: &str, path: &str) -> Option<String> {
    let mut found = None;
    let mut reader = JsonReader::new(json, DEPTH_MAX);
    find(&mut reader, path, &mut found).ok()?;
    found
}

fn find(
    json: &mut JsonReader<'_>,
    path: &str,
    found: &mut Option<String>,
) -> Result<(), SyntaxError> {
    if json.peek()? != b'{' {
        return json.skip();
    }
    json.object(|json, key| {
        if key == path {
            *found = match json.peek()? {
                b'"' => Some(json.string()?.into_owned()),
                b'n' => {
                    json.skip()?;
                    None
                }
                _ => Some(json.span(JsonReader::skip)?.to_owned()),
            };
            return Ok(());
        }
        let rest = path
            .strip_prefix(key)
            .and_then(|rest| rest.strip_prefix('.'));
        match rest {
            Some(rest) => find(json, rest, found),
            None => json.skip(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_paths() {
        let json = r#"{"a":{"b":"x","c":[1,{"d":2}],"e":null},"f.g":1.50,"h":true}"#;
        for (path, expected) in [
            ("a.b", Some("x")),
            ("a.c", Some(r#"[1,{"d":2}]"#)),
            ("a", Some(r#"{"b":"x","c":[1,{"d":2}],"e":null}"#)),
            ("a.e", None),
            ("a.b.c", None),
            ("f.g", Some("1.50")),
            ("h", Some("true")),
            ("i", None),
            ("", None),
        ] {
            assert_eq!(value_at(json, path).as_deref(), expected, "{path}");
        }
        for bad in ["", "{", "[1]", "{\"a\":", "nonsense"] {
            assert_eq!(value_at(bad, "a"), None);
        }
    }
}
