use super::*;

fn transcode(body: &[u8], max_bytes: usize) -> Result<Vec<u8>> {
    super::transcode(body, METRICS_REQUEST, max_bytes)
}
use crate::prometheus::message::put_double;

fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, number, content);
    out
}

fn reason(body: &str) -> String {
    transcode(body.as_bytes(), 1 << 20).unwrap_err().to_string()
}

/// A request with one gauge, one point, one field.
fn point(json: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"gauge":{{"dataPoints":[{json}]}}}}]}}]}}]}}"#
    );
    transcode(body.as_bytes(), 1 << 20).unwrap()
}

fn expected(point: &[u8]) -> Vec<u8> {
    [1, 5, 2, 2, 1]
        .iter()
        .fold(point.to_vec(), |inner, number| field(*number, &inner))
}

#[test]
fn numbers_of_every_form() {
    let fixed = |number: u8, value: u64| [&[number << 3 | 1][..], &value.to_le_bytes()].concat();
    for text in ["1700000000000000000", r#""1700000000000000000""#, "17e17"] {
        let json = format!(r#"{{"timeUnixNano":{text}}}"#);
        assert_eq!(point(&json), expected(&fixed(3, 1_700_000_000_000_000_000)));
        let json = format!(r#"{{"time_unix_nano": {text} }}"#);
        assert_eq!(point(&json), expected(&fixed(3, 1_700_000_000_000_000_000)));
    }
    assert_eq!(
        point(r#"{"asInt":"-5"}"#),
        expected(&fixed(6, -5i64 as u64))
    );
    assert_eq!(point(r#"{"asInt":0}"#), expected(&fixed(6, 0)));
    for (text, value) in [
        ("1.5", 1.5),
        (r#""1.5""#, 1.5),
        (r#""-Infinity""#, f64::NEG_INFINITY),
        (r#""NaN""#, f64::NAN),
        ("-1e-7", -1e-7),
    ] {
        let mut double = Vec::new();
        put_double(&mut double, 4, value);
        assert_eq!(
            point(&format!(r#"{{"asDouble":{text}}}"#)),
            expected(&double)
        );
    }
    assert_eq!(point(r#"{"flags":1}"#), expected(&[0x40, 1]));
}

#[test]
fn keys_that_are_not_known_are_skipped() {
    let json =
        r#"{"new":{"a":[1,"x\u00e9",{"b":null}],"c":true},"flags":null,"other":[],"flags":1}"#;
    assert_eq!(point(json), expected(&[0x40, 1]));
}

#[test]
fn strings_are_unescaped() {
    let attribute = r#"{"attributes":[{"key":"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude31ß","value":{"bytesValue":"AP9hYg"}}]}"#;
    let key = "a\"\\/\u{8}\u{c}\n\r\té😱ß";
    let value = field(2, &field(7, b"\x00\xffab"));
    let pair = [field(1, key.as_bytes()), value].concat();
    assert_eq!(point(attribute), expected(&field(7, &pair)));
}

#[test]
fn ids_are_hexadecimal() {
    let exemplar = r#"{"exemplars":[{"traceId":"5B8efff798038103d269b633813fc60c","spanId":""}]}"#;
    let trace = b"\x5b\x8e\xff\xf7\x98\x03\x81\x03\xd2\x69\xb6\x33\x81\x3f\xc6\x0c";
    let message = [field(5, trace), field(4, b"")].concat();
    assert_eq!(point(exemplar), expected(&field(5, &message)));
}

#[test]
fn enumerations_by_word_and_number() {
    let temporality = |text: &str| {
        let body = format!(
            r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"sum":{{"aggregationTemporality":{text}}}}}]}}]}}]}}"#
        );
        transcode(body.as_bytes(), 1 << 20)
    };
    let word = temporality(r#""AGGREGATION_TEMPORALITY_DELTA""#).unwrap();
    assert_eq!(word, temporality("1").unwrap());
    assert_eq!(word, temporality(r#""1""#).unwrap());
    assert!(temporality(r#""DELTA""#).is_err());
}

#[test]
fn errors_name_their_position() {
    assert_eq!(reason(""), "the text ends too early (at byte 0)");
    assert_eq!(reason("[]"), "expected an object (at byte 0)");
    assert_eq!(reason("{} {}"), "text after the request (at byte 3)");
    assert_eq!(reason(r#"{"a" 1}"#), "expected a colon (at byte 5)");
    assert_eq!(
        reason(r#"{"a":1 "b":2}"#),
        "expected a comma or the end (at byte 7)"
    );
    assert_eq!(
        reason(r#"{"resourceMetrics":5}"#),
        "expected an array (at byte 19)"
    );
    assert_eq!(
        reason(r#"{"a":"\q"}"#),
        "unknown escape in a string (at byte 6)"
    );
    assert_eq!(
        reason(r#"{"a":"x"#),
        "the text ends within a string (at byte 6)"
    );
    assert_eq!(reason(r#"{"a":-}"#), "expected a value (at byte 5)");
    assert!(transcode(&[b'{', 0xff], 9).is_err());
    for bad in [r#""1.5""#, "1e400", "-1", r#""""#, "true", r#""0x5""#] {
        let body = format!(
            r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"gauge":{{"dataPoints":[{{"timeUnixNano":{bad}}}]}}}}]}}]}}]}}"#
        );
        assert!(transcode(body.as_bytes(), 1 << 20).is_err(), "{bad}");
    }
}

#[test]
fn depth_and_size_are_limited() {
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    assert!(reason(&deep).starts_with("nested too deep"));
    let open = r#"{"arrayValue":{"values":["#.repeat(40);
    let deep = format!(r#"{{"resourceMetrics":[{{"resource":{{"attributes":[{{"value":{open}"#);
    assert!(reason(&deep).starts_with("nested too deep"));
    let body = r#"{"resourceMetrics":[{"schemaUrl":"0123456789"}]}"#.as_bytes();
    assert_eq!(transcode(body, 14).unwrap().len(), 14);
    assert_eq!(transcode(body, 13), Err(JsonError::TooLarge { max: 13 }));
}

#[test]
fn base64_in_both_alphabets() {
    assert_eq!(base64("+/-_"), Some(vec![0xfb, 0xff, 0xbf]));
    assert_eq!(base64("Zg=="), Some(b"f".to_vec()));
    assert_eq!(base64(""), Some(vec![]));
    assert_eq!(base64("A"), None);
    assert_eq!(base64("Z g="), None);
}
