//! The points of a `/api/put` document, one after the other.

use std::borrow::Cow;

use super::DISTINCT_TAGS_MAX;
use crate::json::{JsonReader, SyntaxError};

/// Objects and arrays within each other; more than a point with unknown members needs.
const DEPTH_MAX: usize = 64;

/// A point as sent. What is missing and what is `null` are the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PutPoint<'a> {
    pub metric: Option<Cow<'a, str>>,
    /// 0 where there is none.
    pub timestamp: i64,
    /// A number as written, or a text.
    pub value: Option<Cow<'a, str>>,
    /// The text of the object, whose values are known to be scalars.
    pub tags: Option<&'a str>,
}

/// A tag of a document; its value may be `null`.
pub type JsonTag = (String, Option<String>);

/// Appends all points of a document, which is one object or an array. `None` is a `null`.
pub fn read_points<'a>(
    text: &'a str,
    points: &mut Vec<Option<PutPoint<'a>>>,
) -> Result<(), SyntaxError> {
    let mut reader = JsonReader::new(text, DEPTH_MAX);
    if reader.peek()? == b'[' {
        reader.array(|reader| {
            let point = read_point(reader)?;
            points.push(point);
            Ok::<_, SyntaxError>(())
        })
    } else {
        let point = read_point(&mut reader)?;
        points.push(point);
        Ok(())
    }
}

fn read_point<'a>(reader: &mut JsonReader<'a>) -> Result<Option<PutPoint<'a>>, SyntaxError> {
    if reader.null()? {
        return Ok(None);
    }
    let mut point = PutPoint::default();
    reader.object(|reader, name| {
        match name {
            "metric" => point.metric = read_text(reader)?,
            "timestamp" => point.timestamp = read_timestamp(reader)?,
            "value" => point.value = read_text(reader)?,
            "tags" => point.tags = read_tags(reader)?,
            _ => reader.skip()?,
        }
        Ok::<_, SyntaxError>(())
    })?;
    Ok(Some(point))
}

fn read_tags<'a>(reader: &mut JsonReader<'a>) -> Result<Option<&'a str>, SyntaxError> {
    if reader.null()? {
        return Ok(None);
    }
    let check =
        |reader: &mut JsonReader<'a>| reader.object(|reader, _| read_text(reader).map(drop));
    reader.span(check).map(Some)
}

/// Takes the text of tags apart. Of tags with one name the last counts, in the place of the first.
pub fn parse_tags(object: &str) -> Result<Vec<JsonTag>, SyntaxError> {
    let mut tags: Vec<JsonTag> = Vec::new();
    JsonReader::new(object, DEPTH_MAX).object(|reader, name| {
        let value = read_text(reader)?.map(Cow::into_owned);
        let mut known = tags.iter_mut().take(DISTINCT_TAGS_MAX);
        match known.find(|tag| tag.0 == name) {
            Some(tag) => tag.1 = value,
            None => tags.push((name.to_owned(), value)),
        }
        Ok::<_, SyntaxError>(())
    })?;
    Ok(tags)
}

/// What a field of text is given: a text, or a number or boolean as written.
fn read_text<'a>(reader: &mut JsonReader<'a>) -> Result<Option<Cow<'a, str>>, SyntaxError> {
    Ok(Some(match reader.peek()? {
        b'"' => reader.string()?,
        b't' | b'f' => Cow::Borrowed(if reader.boolean()? { "true" } else { "false" }),
        b'n' if reader.null()? => return Ok(None),
        _ => Cow::Borrowed(read_number(reader)?),
    }))
}

/// The text of a number; those that are none are allowed as in the original.
fn read_number<'a>(reader: &mut JsonReader<'a>) -> Result<&'a str, SyntaxError> {
    if matches!(reader.peek()?, b'N' | b'I' | b'-') {
        for word in ["NaN", "Infinity", "-Infinity"] {
            if reader.word(word)? {
                return Ok(word);
            }
        }
    }
    let text = reader.number()?;
    if is_json_number(text.as_bytes()) {
        Ok(text)
    } else {
        Err(reader.error("expected a number"))
    }
}

/// Fractions are cut off; a text is an integer, and an empty one 0.
fn read_timestamp(reader: &mut JsonReader<'_>) -> Result<i64, SyntaxError> {
    const REASON: &str = "a timestamp is no integer of 64 bits";
    match reader.peek()? {
        b'"' => {
            let text = reader.string()?;
            let text = text.trim();
            if text.is_empty() {
                return Ok(0);
            }
            text.parse().map_err(|_| reader.error(REASON))
        }
        b'n' if reader.null()? => Ok(0),
        _ => {
            let text = read_number(reader)?;
            if let Ok(integer) = text.parse() {
                return Ok(integer);
            }
            let is_fraction = text.contains(['.', 'e', 'E', 'N', 'I']);
            let value: Option<f64> = text.parse().ok().filter(|_| is_fraction);
            value
                .map(|value| value as i64)
                .ok_or_else(|| reader.error(REASON))
        }
    }
}

/// Whether a text of digits, signs, points and `e` is a number of JSON.
fn is_json_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(text);
    if whole == 0 || (whole > 1 && text.first() == Some(&b'0')) {
        return false;
    }
    let mut rest = text.get(whole..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = fraction.get(length..).unwrap_or_default();
    }
    match rest {
        [] => true,
        [b'e' | b'E', b'+' | b'-', exponent @ ..] | [b'e' | b'E', exponent @ ..] => {
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn points(text: &str) -> Result<Vec<Option<PutPoint<'_>>>, SyntaxError> {
        let mut points = Vec::new();
        read_points(text, &mut points).map(|()| points)
    }

    fn point(text: &str) -> PutPoint<'_> {
        points(text).unwrap().remove(0).unwrap()
    }

    #[test]
    fn points_borrow_from_the_document() {
        let text = r#"[{"metric":"disk.used","timestamp":1700000040,"value":71,
                        "tags": {"host":"db7","rack":"r2"} , "extra":[{}]},
                       null,
                       {"metric":5,"timestamp":"1700000040250","value":"3.25","tags":null}]"#;
        let points = points(text).unwrap();
        let [Some(first), None, Some(last)] = points.as_slice() else {
            panic!("three elements: {points:?}")
        };
        assert_eq!(first.metric, Some(Cow::Borrowed("disk.used")));
        assert_eq!(first.timestamp, 1_700_000_040);
        assert_eq!(first.value.as_deref(), Some("71"));
        assert_eq!(first.tags, Some(r#"{"host":"db7","rack":"r2"}"#));
        assert_eq!(last.metric.as_deref(), Some("5"));
        assert_eq!(last.timestamp, 1_700_000_040_250);
        assert_eq!(last.value.as_deref(), Some("3.25"));
        assert_eq!(last.tags, None);
    }

    #[test]
    fn timestamps_are_cut_and_numbers_keep_their_text() {
        for (text, timestamp) in [
            ("1500000001.9", 1_500_000_001),
            ("1.5e9", 1_500_000_000),
            ("\"\"", 0),
            ("null", 0),
            ("-1", -1),
        ] {
            let text = format!("{{\"timestamp\":{text}}}");
            assert_eq!(point(&text).timestamp, timestamp, "{text}");
        }
        for value in ["1.0", "1e2", "-0", "NaN", "Infinity", "-Infinity", "true"] {
            let text = format!("{{\"value\":{value}}}");
            assert_eq!(point(&text).value.as_deref(), Some(value));
        }
    }

    #[test]
    fn what_has_the_wrong_type_is_no_document() {
        for text in [
            "{",
            "[",
            "[1]",
            "[[]]",
            "[{},]",
            "[{} {}]",
            "{'metric':'a'}",
            r#"{"timestamp":"abc"}"#,
            r#"{"timestamp":true}"#,
            r#"{"timestamp":99999999999999999999}"#,
            r#"{"value":[1]}"#,
            r#"{"value":1.2.3}"#,
            r#"{"value":01}"#,
            r#"{"tags":["host","a"]}"#,
            r#"{"tags":"host=a"}"#,
            r#"{"tags":{"host":{}}}"#,
        ] {
            assert!(points(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_tag_of_a_name_counts() {
        let tags = parse_tags(r#"{"a":"1","b":null,"a":2,"c\n":"ü"}"#).unwrap();
        let expected = [("a", Some("2")), ("b", None), ("c\n", Some("ü"))];
        let expected: Vec<JsonTag> = expected
            .map(|(name, value)| (name.to_owned(), value.map(String::from)))
            .into();
        assert_eq!(tags, expected);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in r#"[{}\[\]",:0-9eE.\-NI a-z\\]{0,60}"#) {
            let _ = points(&text);
        }

        #[test]
        fn any_point_is_read(metric in any::<String>(), tag in any::<String>(), value in any::<i64>()) {
            let document = serde_json::json!({
                "metric": metric, "timestamp": 7, "value": value, "tags": {"k": tag},
            });
            let text = document.to_string();
            let point = point(&text);
            prop_assert_eq!(point.metric.as_deref(), Some(metric.as_str()));
            let value = value.to_string();
            prop_assert_eq!(point.value.as_deref(), Some(value.as_str()));
            let tags = parse_tags(point.tags.unwrap()).unwrap();
            prop_assert_eq!(tags, vec![("k".to_owned(), Some(tag))]);
        }
    }
}
