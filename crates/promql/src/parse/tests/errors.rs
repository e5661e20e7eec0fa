//! Errors have the messages and positions of Prometheus.

use super::super::{parse, parse_selector};

fn error(query: &str) -> String {
    match parse(query) {
        Ok(expr) => panic!("{query} parsed as {expr}"),
        Err(error) => error.to_string(),
    }
}

fn assert_errors(cases: &[(&str, &str)]) {
    for (query, expected) in cases {
        let (place, message) = expected.split_once(' ').unwrap();
        assert_eq!(
            error(query),
            format!("{place}: parse error: {message}"),
            "{query}"
        );
    }
}

#[test]
fn of_the_text() {
    assert_eq!(
        error(""),
        "unknown position: parse error: no expression found in input"
    );
    assert_errors(&[
        ("# only a comment", "1:1 no expression found in input"),
        ("1+", "1:3 unexpected end of input"),
        (".", "1:1 unexpected character: '.'"),
        ("2.5.", "1:1 bad number or duration syntax: \"2.5.\""),
        ("100..4", "1:1 bad number or duration syntax: \"100..\""),
        ("0deadbeef", "1:1 bad number or duration syntax: \"0de\""),
        ("1 /", "1:4 unexpected end of input"),
        ("*1", "1:1 unexpected <op:*>"),
        ("(1))", "1:5 unexpected right parenthesis ')'"),
        ("((1)", "1:5 unclosed left parenthesis"),
        ("(", "1:2 unclosed left parenthesis"),
        ("1 !~ 1", "1:3 unexpected character after '!': '~'"),
        ("1 =~ 1", "1:3 unexpected character after '=': '~'"),
        ("1 = 1", "1:3 unexpected \"=\""),
        ("a\nb", "2:1 unexpected identifier \"b\""),
        ("foo bar", "1:5 unexpected identifier \"bar\""),
        ("foo]", "1:4 unexpected right bracket ']'"),
        ("$a", "1:1 unexpected character: '$'"),
        ("\"abc", "1:1 unterminated quoted string"),
        ("`abc", "1:1 unterminated raw string"),
        (r#""\q""#, "1:1 unknown escape sequence U+0071 'q'"),
        (
            r#""\xzz""#,
            "1:1 illegal character U+007A 'z' in escape sequence",
        ),
        (
            r#""\x""#,
            "1:1 illegal character U+0022 '\"' in escape sequence",
        ),
        (
            r#""\ud800""#,
            "1:1 escape sequence is an invalid Unicode code point",
        ),
        ("1.5h", "1:1 unknown unit \".\" in duration \"1.5h\""),
        (
            "1e400",
            "1:1 error parsing number: strconv.ParseFloat: parsing \"1e400\": value out of range",
        ),
    ]);
}

#[test]
fn of_selectors() {
    assert_errors(&[
        ("{", "1:2 unexpected end of input inside braces"),
        (
            "{}",
            "1:1 vector selector must contain at least one non-empty matcher",
        ),
        (
            "{x=\"\"}",
            "1:1 vector selector must contain at least one non-empty matcher",
        ),
        (
            "{x=~\".*\"}",
            "1:1 vector selector must contain at least one non-empty matcher",
        ),
        (
            "{x!~\".+\"}",
            "1:1 vector selector must contain at least one non-empty matcher",
        ),
        ("foo{1}", "1:5 unexpected character inside braces: '1'"),
        ("foo{{", "1:5 unexpected left brace '{'"),
        ("some}", "1:5 unexpected character: '}'"),
        (
            "foo{,}",
            "1:5 unexpected \",\" in label matching, expected identifier or \"}\"",
        ),
        (
            "foo{a=\"b\",,}",
            "1:11 unexpected \",\" in label matching, expected identifier or \"}\"",
        ),
        (
            "foo{a}",
            "1:6 unexpected \"}\" in label matching, expected label matching operator",
        ),
        (
            "foo{a=b}",
            "1:7 unexpected identifier \"b\" in label matching, expected string",
        ),
        (
            "foo{a=\"b\" c=\"d\"}",
            "1:11 unexpected identifier \"c\" in label matching, expected \",\" or \"}\"",
        ),
        (
            "foo{a!b}",
            "1:6 unexpected character after '!' inside braces: 'b'",
        ),
        (
            "foo{__name__=\"bar\"}",
            "1:1 metric name must not be set twice: \"foo\" or \"bar\"",
        ),
        (
            "foo{\"bar\"}",
            "1:1 metric name must not be set twice: \"foo\" or \"bar\"",
        ),
    ]);
    assert!(error("foo{a=~\"(\"}").starts_with("1:5: parse error: error parsing regexp"));
}

#[test]
fn of_ranges_and_modifiers() {
    const MISPLACED: &str =
        "must be preceded by an instant vector selector or range vector selector or a subquery";
    assert_eq!(
        error("1 offset 5m"),
        format!("1:1: parse error: offset modifier {MISPLACED}")
    );
    assert_eq!(
        error("sum(a) @ 5"),
        format!("1:1: parse error: @ modifier {MISPLACED}")
    );
    assert_errors(&[
        ("foo[", "1:5 unexpected end of input in duration expression"),
        ("foo[5m", "1:7 unclosed left bracket"),
        ("foo[5m30]", "1:5 bad number or duration syntax: \"5m30\""),
        ("foo[5mm]", "1:5 bad number or duration syntax: \"5mm\""),
        ("foo[0m]", "1:5 duration must be greater than 0"),
        ("foo[-5m]", "1:5 duration must be greater than 0"),
        (
            "foo[\"5m\"]",
            "1:5 unexpected character in duration expression: '\"'",
        ),
        (
            "foo[]",
            "1:5 unexpected \"]\" in subquery or range selector, expected number, duration, step(), or range()",
        ),
        (
            "foo[5m 3]",
            "1:8 unexpected number \"3\" in subquery or range, expected \":\" or \"]\"",
        ),
        (
            "foo[5m:5m 3]",
            "1:11 unexpected number \"3\" in subquery selector, expected \"]\"",
        ),
        (
            "foo[5m:*]",
            "1:8 unexpected <op:*> in subquery selector, expected number, duration, step(), range(), or \"]\"",
        ),
        (
            "foo[5m @ 3]",
            "1:8 unexpected <op:@> in subquery or range, expected \":\" or \"]\"",
        ),
        ("foo[5m:1m:]", "1:10 unexpected colon ':'"),
        ("foo[5m/0]", "1:7 division by zero"),
        ("foo[5m%0s]", "1:7 modulo by zero"),
        ("foo[99999999999]", "1:5 duration out of range"),
        (
            "foo[5m][5m]",
            "1:8 ranges only allowed for vector selectors",
        ),
        (
            "(foo + bar)[5m]",
            "1:12 ranges only allowed for vector selectors",
        ),
        (
            "foo offset 1m[5m]",
            "1:14 no offset modifiers allowed before range",
        ),
        (
            "foo offset (step())[5m]",
            "1:20 no offset modifiers allowed before range",
        ),
        ("foo @ 1[5m]", "1:8 no @ modifiers allowed before range"),
        (
            "foo @ start()[5m]",
            "1:14 no @ modifiers allowed before range",
        ),
        (
            "foo @ end()[5m]",
            "1:12 no @ modifiers allowed before range",
        ),
        (
            "1[5m:]",
            "1:1 subquery is only allowed on instant vector, got scalar instead",
        ),
        (
            "rate(foo[5m])[5m:][5m:]",
            "1:1 subquery is only allowed on instant vector, got matrix instead",
        ),
        (
            "foo offset",
            "1:11 unexpected end of input in offset, expected number, duration, step(), or range()",
        ),
        (
            "foo offset 1m offset 2m",
            "1:1 offset may not be set multiple times",
        ),
        (
            "foo @ 1 @ 2",
            "1:1 @ <timestamp> may not be set multiple times",
        ),
        (
            "foo @ start() @ 2",
            "1:1 @ <timestamp> may not be set multiple times",
        ),
        (
            "foo @",
            "1:6 unexpected end of input in @, expected timestamp",
        ),
        (
            "foo @ start",
            "1:12 unexpected end of input in @, expected timestamp",
        ),
        (
            "foo @ Inf",
            "1:1 timestamp out of bounds for @ modifier: +Inf",
        ),
        (
            "foo @ 1e30",
            "1:1 timestamp out of bounds for @ modifier: 1000000000000000019884624838656.000000",
        ),
        (
            "foo[5m] anchored smoothed",
            "1:1 anchored and smoothed modifiers cannot be used together",
        ),
        (
            "foo[5m:] anchored",
            "1:1 anchored modifier is not supported for subqueries",
        ),
        ("(foo) smoothed", "1:1 smoothed modifier not implemented"),
    ]);
}

#[test]
fn of_aggregations_and_calls() {
    assert_errors(&[
        (
            "sum()",
            "1:1 no arguments for aggregate expression provided",
        ),
        (
            "sum(a, b)",
            "1:1 wrong number of arguments for aggregate expression provided, expected 1, got 2",
        ),
        (
            "topk(a)",
            "1:1 wrong number of arguments for aggregate expression provided, expected 2, got 1",
        ),
        ("sum foo", "1:5 unexpected identifier \"foo\""),
        (
            "sum by (a) foo",
            "1:12 unexpected identifier \"foo\" in aggregation",
        ),
        (
            "sum(foo bar)",
            "1:9 unexpected identifier \"bar\" in aggregation",
        ),
        (
            "sum by a (foo)",
            "1:8 unexpected identifier \"a\" in grouping opts, expected \"(\"",
        ),
        (
            "sum by (a b) (foo)",
            "1:11 unexpected identifier \"b\" in grouping opts, expected \",\" or \")\"",
        ),
        (
            "sum by (1) (foo)",
            "1:9 unexpected number \"1\" in grouping opts, expected label",
        ),
        (
            "sum by (\"\") (foo)",
            "1:9 invalid label name for grouping: \"\"",
        ),
        (
            "sum(foo[5m])",
            "1:5 expected type instant vector in aggregation expression, got range vector",
        ),
        (
            "topk(\"a\", foo)",
            "1:6 expected type scalar in aggregation parameter, got string",
        ),
        (
            "count_values(5, foo)",
            "1:14 expected type string in aggregation parameter, got scalar",
        ),
        ("((nope(1)", "1:3 unknown function with name \"nope\""),
        ("nope(1)", "1:1 unknown function with name \"nope\""),
        ("START()", "1:1 unknown function with name \"START\""),
        (
            "rate(foo)",
            "1:6 expected type range vector in call to function \"rate\", got instant vector",
        ),
        (
            "floor()",
            "1:1 expected 1 argument(s) in call to \"floor\", got 0",
        ),
        (
            "time(1)",
            "1:1 expected 0 argument(s) in call to \"time\", got 1",
        ),
        (
            "round()",
            "1:1 expected at least 1 argument(s) in call to \"round\", got 0",
        ),
        (
            "hour(a, b)",
            "1:1 expected at most 1 argument(s) in call to \"hour\", got 2",
        ),
        (
            "label_join(a, \"b\")",
            "1:1 expected at least 3 argument(s) in call to \"label_join\", got 2",
        ),
        (
            "label_join(a, \"b\", \"c\", \"d\", 5)",
            "1:30 expected type string in call to function \"label_join\", got scalar",
        ),
        (
            "floor(a,)",
            "1:8 trailing commas not allowed in function call args",
        ),
        (
            "floor(a, == b)",
            "1:8 trailing commas not allowed in function call args",
        ),
        ("floor(,a)", "1:7 unexpected \",\""),
        (
            "info(a, b)",
            "1:9 expected label selectors only, got vector selector instead",
        ),
        (
            "info(a, 1)",
            "1:1 expected type instant vector in call to function \"info\", got scalar",
        ),
        ("info(a, (b))", "1:9 expected label selectors only"),
    ]);
    parse("info(a, {})").unwrap();
    parse("histogram_quantiles(a, \"q\", 0.1, 0.2, 0.3)").unwrap();
}

#[test]
fn of_operators() {
    const ONLY: &str = "binary expression must contain only scalar and instant vector types";
    assert_eq!(error("1 + \"a\""), format!("1:5: parse error: {ONLY}"));
    assert_eq!(error("a[5m] + b"), format!("1:1: parse error: {ONLY}"));
    assert_errors(&[
        (
            "1 == 1",
            "1:3 comparisons between scalars must use BOOL modifier",
        ),
        (
            "1 or 1",
            "1:1 set operator \"or\" not allowed in binary scalar expression",
        ),
        (
            "a unless 1",
            "1:1 set operator \"unless\" not allowed in binary scalar expression",
        ),
        (
            "a + bool b",
            "1:3 bool modifier can only be used on comparison operators",
        ),
        (
            "a + on(x) 1",
            "1:1 vector matching only allowed between instant vectors",
        ),
        (
            "a + fill(1) 1",
            "1:1 filling in missing series only allowed between instant vectors",
        ),
        (
            "a and fill(1) b",
            "1:1 filling in missing series not allowed for set operators",
        ),
        (
            "a and on(x) group_left(y) b",
            "1:1 no grouping allowed for \"and\" operation",
        ),
        (
            "a + on(x) group_left",
            "1:21 unexpected end of input in grouping opts, expected \"(\"",
        ),
        ("a + group_left(y) b", "1:5 unexpected <group_left>"),
        (
            "a + on(x) group_left(x) b",
            "1:3 label \"x\" must not occur in ON and GROUP clause at once",
        ),
        (
            "-\"a\"",
            "1:1 unary expression only allowed on expressions of type scalar or instant vector, got \"string\"",
        ),
        (
            "-a[5m]",
            "1:1 unary expression only allowed on expressions of type scalar or instant vector, got \"range vector\"",
        ),
    ]);
}

#[test]
fn of_lone_selectors() {
    let names = |text: &str| -> Vec<String> {
        let matchers = parse_selector(text).unwrap();
        matchers.iter().map(ToString::to_string).collect()
    };
    assert_eq!(names("sum{a!=\"b\"}"), ["a!=\"b\"", "__name__=\"sum\""]);
    assert_eq!(names("{\"a.b\"}"), ["__name__=\"a.b\""]);
    assert!(names("{}").is_empty());
    for (text, expected) in [
        ("foo offset 5m", "1:5: parse error: unexpected <offset>"),
        ("1", "1:1: parse error: unexpected number \"1\""),
        ("", "unknown position: parse error: unexpected end of input"),
    ] {
        assert_eq!(parse_selector(text).unwrap_err().to_string(), expected);
    }
}
