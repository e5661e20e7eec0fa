use proptest::prelude::*;

use super::*;

/// Checks a selector against its matchers, each written the way PromQL writes it.
fn check(text: &str, expected: &[&str]) {
    let matchers = parse_selector(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let printed: Vec<String> = matchers.iter().map(ToString::to_string).collect();
    assert_eq!(printed, expected, "{text}");
}

fn check_error(text: &str, expected: &str) {
    let error = parse_selector(text).map_err(|error| error.to_string());
    assert_eq!(error, Err(expected.to_string()), "{text}");
}

#[test]
fn names_and_matchers() {
    check("up", &[r#"__name__="up""#]);
    check(" job:up:sum { } ", &[r#"__name__="job:up:sum""#]);
    check("sum{}", &[r#"__name__="sum""#]);
    check(
        r#"name{a="b",c=~"d.*",'e'!="f","quoted.name"!~"g",}"#,
        &[
            r#"__name__="name""#,
            r#"a="b""#,
            r#"c=~"d.*""#,
            r#"e!="f""#,
            r#""quoted.name"!~"g""#,
        ],
    );
    check(r#"{a="b"}"#, &[r#"a="b""#]);
    check(
        "{\n a = \"b\" , # comment }\n\tc != 'd'\r\n}#end",
        &[r#"a="b""#, r#"c!="d""#],
    );
}

#[test]
fn metric_names_in_quotes() {
    check(
        r#"{"utf8.metric.name", a="b"}"#,
        &[r#"__name__="utf8.metric.name""#, r#"a="b""#],
    );
    check(
        r#"{a="b", `raw name`}"#,
        &[r#"a="b""#, r#"__name__="raw name""#],
    );
    check(r#"{'up'}"#, &[r#"__name__="up""#]);
    // Conditions on the name add up, as everywhere.
    check(
        r#"up{__name__!="down"}"#,
        &[r#"__name__="up""#, r#"__name__!="down""#],
    );
}

#[test]
fn strings_and_escapes() {
    check(
        r#"{a="\a\b\f\n\r\t\v\\\"'"}"#,
        &[r#"a="\a\b\f\n\r\t\v\\\"'""#],
    );
    check(r#"{a='it\'s "x"'}"#, &[r#"a="it's \"x\"""#]);
    check(r#"{a="\x41\101\u00e9\U0001F631"}"#, &["a=\"AAé😱\""]);
    check(r#"{a="\xc3\xa9"}"#, &["a=\"é\""]);
    check("{a=`\\d+\n\"'`}", &[r#"a="\\d+\n\"'""#]);
    check("{a=`b\rc`}", &[r#"a="bc""#]);
    check("{a=~\"日本.*\"}", &["a=~\"日本.*\""]);
}

#[test]
fn selectors_of_everything_are_refused() {
    for text in [
        "{}",
        r#"{a=""}"#,
        r#"{a=~".*"}"#,
        r#"{a!="b"}"#,
        r#"{a!~"b+",}"#,
        r#"{""}"#,
    ] {
        check_error(text, "match[] must contain at least one non-empty matcher");
    }
    check(r#"{a!=""}"#, &[r#"a!="""#]);
    check(r#"{a=~".+"}"#, &[r#"a=~".+""#]);
}

#[test]
fn errors_say_where() {
    let expected_name = "expected a metric name or \"{\"";
    check_error(
        "",
        &format!("1:1: parse error: unexpected end of input, {expected_name}"),
    );
    check_error(
        "1a",
        &format!("1:1: parse error: unexpected character '1', {expected_name}"),
    );
    check_error(
        "up[5m]",
        "1:3: parse error: unexpected character '[', expected the end of the selector",
    );
    check_error(
        "up{a=\"b\"} 5",
        "1:11: parse error: unexpected character '5', expected the end of the selector",
    );
    check_error(
        "{a}",
        "1:3: parse error: unexpected character '}', expected one of \"=\", \"!=\", \"=~\" and \"!~\"",
    );
    check_error(
        "{,}",
        "1:2: parse error: unexpected character ',', expected a label name or \"}\"",
    );
    check_error(
        "{a=\"b\",,}",
        "1:8: parse error: unexpected character ',', expected a label name or \"}\"",
    );
    check_error(
        "{a=\"b\"",
        "1:7: parse error: unexpected end of input, expected \",\" or \"}\"",
    );
    check_error(
        "{a=\"b\" c=\"d\"}",
        "1:8: parse error: unexpected character 'c', expected \",\" or \"}\"",
    );
    check_error(
        "{a=b}",
        "1:4: parse error: unexpected character 'b', expected the label value in quotes",
    );
    check_error(
        "{a:b=\"c\"}",
        "1:3: parse error: unexpected character ':', expected one of \"=\", \"!=\", \"=~\" and \"!~\"",
    );
    check_error(
        "{\n  é=\"b\"}",
        "2:3: parse error: unexpected character 'é', expected a label name or \"}\"",
    );
    check_error(
        "{\"é\"=\"b}",
        "1:9: parse error: unterminated quoted string",
    );
    check_error(
        "{a=\"b\n\"}",
        "1:6: parse error: unterminated quoted string",
    );
    check_error("{a=`b}", "1:4: parse error: unterminated raw string");
    check_error("{a=\"b\\'\"}", "1:6: parse error: unknown escape sequence");
    check_error("{a=\"\\q\"}", "1:5: parse error: unknown escape sequence");
    check_error(
        "{a=\"\\400\"}",
        "1:5: parse error: escape sequence is larger than a byte",
    );
    check_error(
        "{a=\"\\x4\"}",
        "1:5: parse error: illegal character in escape sequence",
    );
    check_error(
        "{a=\"\\ud800\"}",
        "1:5: parse error: escape sequence is an invalid Unicode code point",
    );
    check_error(
        "{a=\"\\Uffffffff\"}",
        "1:5: parse error: escape sequence is an invalid Unicode code point",
    );
    check_error(
        "{a=\"\\",
        "1:5: parse error: escape sequence not terminated",
    );
    check_error(
        "{a=\"\\xff\"}",
        "1:5: parse error: string is not valid UTF-8",
    );
}

#[test]
fn regular_expressions_are_limited_in_sum() {
    let selector = |number: usize| format!("x{{a=~\"\\\\pL{{20}}{number}\"}}");
    let texts: Vec<String> = (0..100).map(selector).collect();
    assert!(parse_selector(&texts[0]).is_ok());
    let refused = parse_selectors(texts.iter().map(String::as_str)).unwrap_err();
    let reason = "the regular expressions of the request may take more than";
    assert!(refused.to_string().contains(reason), "{refused}");
    let few = parse_selectors(["a", "{b=~\"c.*d\"}"]).unwrap();
    assert_eq!(
        few.concat(),
        ["a", "{b=~\"c.*d\"}"]
            .map(|t| parse_selector(t).unwrap())
            .concat()
    );
}

#[test]
fn errors_of_regular_expressions_point_at_them() {
    let error = parse_selector(r#"{a="b",c=~"("}"#).unwrap_err();
    assert!(
        matches!(
            error,
            SelectorError::Syntax {
                line: 1,
                column: 11,
                ..
            }
        ),
        "{error}"
    );
}

fn arbitrary_matcher() -> impl Strategy<Value = Matcher> {
    let op = prop_oneof![Just(MatchOp::Equal), Just(MatchOp::NotEqual)];
    let plain = (op, any::<String>(), any::<String>());
    let regex = (
        prop_oneof![Just(MatchOp::Regex), Just(MatchOp::NotRegex)],
        any::<String>(),
        "[a-z.*+|\"'`\\n]{0,8}",
    );
    prop_oneof![plain, regex].prop_filter_map("not a regular expression", |(op, name, value)| {
        Matcher::new(op, name, value).ok()
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_parsed(matchers in proptest::collection::vec(arbitrary_matcher(), 0..5)) {
        let mut matchers = matchers;
        matchers.push(Matcher::equal("last", "x"));
        let printed: Vec<String> = matchers.iter().map(ToString::to_string).collect();
        let text = format!("{{{}}}", printed.join(", "));
        prop_assert_eq!(parse_selector(&text).unwrap(), matchers);
    }

    #[test]
    fn any_text_is_a_selector_or_an_error(
        text in "\\PC*",
        spec in "[a-c{}=!~,\"'`\\\\#xuU0-9é \n]{0,24}",
    ) {
        let _ = parse_selector(&text);
        let _ = parse_selector(&spec);
    }
}
