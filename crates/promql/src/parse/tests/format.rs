//! Trees print as Prometheus prints them, and what is printed parses to the same.

use super::super::{Expr, parse};

fn printed(query: &str) -> String {
    match parse(query) {
        Ok(expr) => expr.to_string(),
        Err(error) => panic!("{query}: {error}"),
    }
}

#[test]
fn printed_as_prometheus_does() {
    let cases = [
        ("1_000", "1000"),
        ("0x1F", "31"),
        ("010", "8"),
        ("1e3", "1000"),
        ("1e-7", "0.0000001"),
        ("+Inf", "+Inf"),
        ("-inf", "-Inf"),
        ("NaN", "NaN"),
        ("Inf^2", "Inf ^ 2"),
        ("- -1", "1"),
        ("90m", "1h30m"),
        ("-5m", "-5m"),
        ("\"a\\\"b\"", r#""a\"b""#),
        ("'a\"b'", r#""a\"b""#),
        ("`a\\b`", r#""a\\b""#),
        (r#""a\xc5z""#, r#""a\xc5z""#),
        ("foo{b='c',a!~\"d\"}", "foo{a!~\"d\",b=\"c\"}"),
        (
            "{\"foo.bar\",'l.n'=\"x\"}",
            "{\"l.n\"=\"x\",__name__=\"foo.bar\"}",
        ),
        ("{__name__=\"foo\"}", "{__name__=\"foo\"}"),
        ("a:b{}", "a:b"),
        ("sum by(a,b)(c)", "sum by (a, b) (c)"),
        ("SUM(c)without()", "sum without () (c)"),
        ("sum by () (c)", "sum(c)"),
        ("topk by('a.b') (5, c)", "topk by (\"a.b\") (5, c)"),
        ("count_values('x',y)", "count_values(\"x\", y)"),
        ("a+b*c^d", "a + b * c ^ d"),
        ("a==bool 1", "a == bool 1"),
        ("a/on()b", "a / on () b"),
        ("a/ignoring()b", "a / b"),
        (
            "a/ignoring(x)group_left b",
            "a / ignoring (x) group_left () b",
        ),
        ("a/on(x)group_right(y)b", "a / on (x) group_right (y) b"),
        ("a+fill(-1)b", "a + fill (-1) b"),
        (
            "a+fill_right(2)fill_left(1)b",
            "a + fill_left (1) fill_right (2) b",
        ),
        ("a and on(x) b", "a and on (x) b"),
        ("a </ 1", "a </ 1"),
        ("a atan2 b", "a atan2 b"),
        ("-a^2", "-a ^ 2"),
        ("+(a)", "+(a)"),
        ("foo offset 90m", "foo offset 1h30m"),
        ("foo offset -1d", "foo offset -1d"),
        ("foo offset 0s", "foo"),
        ("foo offset 5m @ 10", "foo @ 10.000 offset 5m"),
        ("foo[5m] @ start() offset 1m", "foo[5m] @ start() offset 1m"),
        (
            "foo @ end() smoothed offset 1m",
            "foo @ end() smoothed offset 1m",
        ),
        ("foo[5m] offset 1m anchored", "foo[5m] anchored offset 1m"),
        ("foo[300]", "foo[5m]"),
        ("foo[5m:]", "foo[5m:]"),
        (
            "(a+b)[1h : 90s] @ -1.5 offset 1m",
            "(a + b)[1h:1m30s] @ -1.500 offset 1m",
        ),
        ("foo[5m*2]", "foo[5m * 2]"),
        ("foo[(5m)]", "foo[(5m)]"),
        ("foo[-5m+35m]", "foo[-5m + 35m]"),
        ("foo[2^3^2]", "foo[2 ^ 3 ^ 2]"),
        ("foo[STEP():range()/2]", "foo[step():range() / 2]"),
        (
            "foo[min_of(step(),1h)+MAX_OF(1,2)]",
            "foo[min_of(step(), 1h) + max_of(1, 2)]",
        ),
        ("foo offset -step()*2", "foo offset -step() * 2"),
        ("foo offset (-step()*2)", "foo offset (-step() * 2)"),
        ("foo offset -(5m+1)", "foo offset -(5m + 1)"),
        ("foo offset +(5)", "foo offset (5)"),
        ("foo offset -(5)", "foo offset -(5)"),
        ("foo offset (0s)", "foo offset (0s)"),
        (
            "foo offset +min_of(10s, 20s)",
            "foo offset min_of(10s, 20s)",
        ),
        ("foo[(5m):(1m)]", "foo[(5m):(1m)]"),
        ("min_of(1,2) + step()", "min_of(1, 2) + step()"),
        ("time( )", "time()"),
        (
            "label_join(a,'b','c','d','e')",
            "label_join(a, \"b\", \"c\", \"d\", \"e\")",
        ),
        ("info(a, {})", "info(a, {})"),
        ("fill + fill(0) fill_left", "fill + fill (0) fill_left"),
        ("sum # why\n(a)", "sum(a)"),
    ];
    for (query, expected) in cases {
        assert_eq!(printed(query), expected, "{query}");
        assert_eq!(printed(expected), expected, "{query} again");
    }
}

#[test]
fn keywords_are_names_where_no_keyword_can_stand() {
    for name in [
        "sum",
        "by",
        "without",
        "offset",
        "and",
        "or",
        "unless",
        "start",
        "end",
        "step",
        "range",
        "anchored",
        "smoothed",
        "fill",
        "fill_left",
        "fill_right",
        "limitk",
        "min_of",
        "topk",
    ] {
        assert_eq!(printed(name), name);
        assert_eq!(
            printed(&format!("{name}{{a=\"b\"}}")),
            format!("{name}{{a=\"b\"}}")
        );
        let labelled = format!("{{{name}=\"b\"}}");
        assert_eq!(printed(&labelled), labelled);
        if name != "without" {
            let grouped = format!("sum by ({name}) (a)");
            assert_eq!(printed(&grouped), grouped);
        }
    }
    assert_eq!(printed("and and and"), "and and and");
    assert_eq!(printed("sum + sum"), "sum + sum");
    for name in ["on", "ignoring", "bool", "group_left", "atan2"] {
        assert!(parse(name).is_err(), "{name}");
        printed(&format!("sum by ({name}) (a)"));
    }
}

#[test]
fn operators_group_by_precedence() {
    let grouped = |query: &str| group(&parse(query).unwrap());
    let cases = [
        ("a or b and c", "(a or (b and c))"),
        ("a and b unless c", "((a and b) unless c)"),
        ("a == b + c", "(a == (b + c))"),
        ("a > b </ c", "((a > b) </ c)"),
        ("a - b - c", "((a - b) - c)"),
        ("a * b atan2 c", "((a * b) atan2 c)"),
        ("a ^ b ^ c", "(a ^ (b ^ c))"),
        ("-a ^ b", "-(a ^ b)"),
        ("-a * b", "(-a * b)"),
        ("a ^ -b * c", "((a ^ -b) * c)"),
        ("a * -b ^ c + d", "((a * -(b ^ c)) + d)"),
        ("a offset 5m * 2", "(a offset 5m * 2)"),
        ("a offset -2 ^ 2", "(a offset -2s ^ 2)"),
    ];
    for (query, expected) in cases {
        assert_eq!(grouped(query), expected);
    }
}

fn group(expr: &Expr) -> String {
    match expr {
        Expr::Binary(binary) => format!(
            "({} {} {})",
            group(&binary.lhs),
            binary.op.symbol(),
            group(&binary.rhs)
        ),
        Expr::Unary(unary) => format!("-{}", group(&unary.expr)),
        other => other.to_string(),
    }
}
