//! Matchers against Prometheus' rules, and the fast paths against the anchored regex.

use proptest::prelude::*;

use super::*;

fn regex(pattern: &str) -> Matcher {
    Matcher::new(MatchOp::Regex, "name", pattern).expect(pattern)
}

fn check_lookup(pattern: &str, expected: ValueLookup<'_>) {
    assert_eq!(regex(pattern).lookup(), expected, "{pattern}");
}

fn check_literals(pattern: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|text| text.to_string()).collect();
    check_lookup(pattern, ValueLookup::Literals(&expected));
}

#[test]
fn operators() {
    let matcher = |op, value| Matcher::new(op, "a", value).unwrap();
    assert!(matcher(MatchOp::Equal, "x").matches("x"));
    assert!(!matcher(MatchOp::Equal, "x").matches("xx"));
    assert!(!matcher(MatchOp::NotEqual, "x").matches("x"));
    assert!(matcher(MatchOp::NotEqual, "x").matches("y"));
    assert!(matcher(MatchOp::Regex, "x|y").matches("y"));
    assert!(!matcher(MatchOp::Regex, "x|y").matches("xy"));
    assert!(!matcher(MatchOp::NotRegex, "x|y").matches("y"));
    assert!(matcher(MatchOp::NotRegex, "x|y").matches("z"));
}

#[test]
fn an_absent_label_is_the_empty_value() {
    for (op, value, expected) in [
        (MatchOp::Equal, "", true),
        (MatchOp::Equal, "x", false),
        (MatchOp::NotEqual, "", false),
        (MatchOp::NotEqual, "x", true),
        (MatchOp::Regex, "x?", true),
        (MatchOp::Regex, ".+", false),
        (MatchOp::Regex, ".*", true),
        (MatchOp::Regex, "x|", true),
        (MatchOp::NotRegex, ".+", true),
        (MatchOp::NotRegex, "x?", false),
    ] {
        let matcher = Matcher::new(op, "a", value).unwrap();
        assert_eq!(matcher.matches_empty(), expected, "{matcher}");
    }
}

/// Prometheus 3.14 looked for neighbours one after the other, with anything between them.
#[test]
fn groups_beside_literals_belong_together() {
    for pattern in [r".*\|(foo)\|.*", r".*\|((fo)o)(\|).*"] {
        let matcher = regex(pattern);
        assert!(matcher.matches("a|foo|b"), "{pattern}");
        for other in ["|a foo b|", "a|foo b|c", "a|fo o|b", "foo"] {
            assert!(!matcher.matches(other), "{pattern} {other}");
        }
    }
    assert!(regex("(?i)a(b)|C").matches("c") && regex("(?i)x.*(Ä)").matches("X ä"));
}

#[test]
fn printed_as_promql_writes_it() {
    let text = |op, name, value| Matcher::new(op, name, value).unwrap().to_string();
    assert_eq!(text(MatchOp::Equal, "job", "a\"b\\"), r#"job="a\"b\\""#);
    assert_eq!(text(MatchOp::NotEqual, "job", "\n"), r#"job!="\n""#);
    assert_eq!(text(MatchOp::Regex, "job", r"\d+"), r#"job=~"\\d+""#);
    assert_eq!(
        text(MatchOp::NotRegex, "http.status", "5.."),
        r#""http.status"!~"5..""#
    );
    assert_eq!(format!("{:?}", Matcher::equal("a", "b")), r#"a="b""#);
}

#[test]
fn equal_by_operator_name_and_value() {
    let matcher = Matcher::new(MatchOp::Regex, "a", "b").unwrap();
    assert_eq!(matcher, matcher.clone());
    assert_eq!(matcher, Matcher::new(MatchOp::Regex, "a", "b").unwrap());
    assert_ne!(matcher, Matcher::equal("a", "b"));
    assert_ne!(matcher, Matcher::new(MatchOp::Regex, "a", "c").unwrap());
    assert_ne!(matcher, Matcher::new(MatchOp::Regex, "b", "b").unwrap());
    assert_eq!(
        (matcher.name(), matcher.op(), matcher.value()),
        ("a", MatchOp::Regex, "b")
    );
}

#[test]
fn lists_of_values_become_literals() {
    check_literals("", &[""]);
    check_literals("foo", &["foo"]);
    check_literals("b|a|b", &["a", "b"]);
    check_literals("a|b|foo(bar|baz)", &["a", "b", "foobar", "foobaz"]);
    check_literals("^(?:a|b)$", &["a", "b"]);
    check_literals("^a$|^b$", &["a", "b"]);
    check_literals("[ab]c", &["ac", "bc"]);
    check_literals("x{2}y?", &["xx", "xxy"]);
    check_literals("(a|b){1,2}", &["a", "aa", "ab", "b", "ba", "bb"]);
    check_literals(r"10\.0\.0\.1:9100|\Qa.b|c\E", &["10.0.0.1:9100", "a.b|c"]);
    check_literals(
        "5[0-9]{2}|",
        &{
            let mut values: Vec<String> = (500..600).map(|status| status.to_string()).collect();
            values.insert(0, String::new());
            values
        }
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>(),
    );
    check_literals(r"[^\x00-\x{10FFFF}]", &[]);
}

#[test]
fn a_long_list_is_still_a_list() {
    let values: Vec<String> = (10_000..15_000).map(|i| format!("pod-{i}")).collect();
    check_lookup(&values.join("|"), ValueLookup::Literals(&values));
    let regex = regex(&format!("^({})$", values.join("|")));
    assert!(regex.matches("pod-12345") && !regex.matches("pod-1234"));
}

#[test]
fn case_insensitive_letters_are_spelled_out() {
    check_literals("(?i)ab", &["AB", "Ab", "aB", "ab"]);
    check_literals("(?i:a)b", &["Ab", "ab"]);
    // The Kelvin sign folds to k.
    check_literals("(?i)k", &["K", "k", "\u{212a}"]);
    check_lookup("(?i)foo.*", ValueLookup::Scan);
    check_lookup("a(?i)foo.*", ValueLookup::Prefix("a"));
    assert!(regex("(?i)foo.*").matches("FoObar"));
    assert!(!regex("(?i:foo)bar").matches("fooBAR"));
}

#[test]
fn too_many_values_are_not_spelled_out() {
    check_lookup("[a-z]{3}", ValueLookup::Scan);
    check_lookup("x[a-z][a-z]", ValueLookup::Prefix("x"));
    // Few values, but 5 MB of them.
    check_lookup("(x{1000}){20}[a-p][a-p]", ValueLookup::Prefix("x"));
}

#[test]
fn words_with_gaps() {
    check_lookup(".*", ValueLookup::All);
    check_lookup("^(.*)$", ValueLookup::All);
    check_lookup(r"[\s\S]*", ValueLookup::All);
    check_lookup(".+", ValueLookup::NonEmpty);
    check_lookup("(?-s).+", ValueLookup::Scan);
    check_lookup("foo.*", ValueLookup::Prefix("foo"));
    check_lookup("foo.+bar", ValueLookup::Prefix("foo"));
    check_lookup("foo(bar.*|baz.*)", ValueLookup::Prefix("fooba"));
    check_lookup("foo-[0-9]+", ValueLookup::Prefix("foo-"));
    check_lookup("(foo)+", ValueLookup::Prefix("foo"));
    check_lookup("(foo)*", ValueLookup::Scan);
    check_lookup(".*foo", ValueLookup::Scan);
    check_lookup("é.*|è.*", ValueLookup::Scan);
}

#[test]
fn gaps_hold_any_characters() {
    for (pattern, yes, no) in [
        (
            "foo.*",
            &["foo", "foo\nbar", "fooé"][..],
            &["fo", "afoo"][..],
        ),
        ("foo.+", &["fooé"], &["foo"]),
        (".*foo", &["foo", "\nfoo"], &["foob"]),
        (".*foo.*", &["foo", "afoob"], &["fo o"]),
        (".+foo.+", &["afoob", "foofoof"], &["foo", "foob", "afoo"]),
        ("a.*a", &["aa", "aba"], &["a", "ab"]),
        ("a.+b.*c", &["axbc", "abbc"], &["abc", "axb"]),
        ("ab.*bc", &["abbc", "abcbc"], &["abc"]),
        (".+.+", &["ab", "éé"], &["a", "é", ""]),
    ] {
        let matcher = regex(pattern);
        for value in yes {
            assert!(matcher.matches(value), "{pattern} {value:?}");
        }
        for value in no {
            assert!(!matcher.matches(value), "{pattern} {value:?}");
        }
    }
}

#[test]
fn the_lookup_of_a_negative_matcher_is_what_it_excludes() {
    let not = Matcher::new(MatchOp::NotEqual, "a", "x").unwrap();
    assert_eq!(not.lookup(), ValueLookup::Literals(&["x".to_owned()]));
    let not = Matcher::new(MatchOp::NotRegex, "a", ".+").unwrap();
    assert_eq!(not.lookup(), ValueLookup::NonEmpty);
    assert!(not.is_negative() && not.matches("") && !not.matches("x"));
}

#[test]
fn patterns_are_bounded() {
    let new = |pattern: &str| Matcher::new(MatchOp::Regex, "a", pattern);
    assert_eq!(
        new(&"a".repeat(MAX_PATTERN_BYTES + 1)),
        Err(MatcherError::TooLong)
    );
    assert_eq!(
        new(r"((\pL{1000}){1000}){1000}"),
        Err(MatcherError::TooLarge)
    );
    let nested = format!("{}a{}", "(".repeat(50_000), ")".repeat(50_000));
    let error = new(&nested).unwrap_err();
    assert!(matches!(error, MatcherError::Syntax { .. }));
    assert!(error.to_string().len() < 300, "{error}");
    assert!(new(&"a".repeat(MAX_PATTERN_BYTES)).is_ok());
}

/// Patterns made of the pieces people use, over an alphabet small enough to hit.
fn pattern() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => "[abé]{1,3}",
        1 => Just(String::new()),
        3 => Just(".*".to_owned()),
        2 => Just(".+".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just("[ab]".to_owned()),
        1 => Just("[^a]".to_owned()),
        1 => Just("(?-s).*".to_owned()),
        1 => Just(r"\b".to_owned()),
        1 => Just("^".to_owned()),
        1 => Just("$".to_owned()),
        1 => Just("(?i)b".to_owned()),
        1 => Just(r"\Qa\Eb".to_owned()),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            2 => prop::collection::vec(inner.clone(), 1..4)
                .prop_map(|parts| format!("({})", parts.join("|"))),
            1 => prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.join("|")),
            1 => (inner, prop::sample::select(vec!["?", "*", "+", "{2}", "{0,2}", "{1,}"]))
                .prop_map(|(part, operator)| format!("(?:{part}){operator}")),
        ]
    })
}

fn value() -> impl Strategy<Value = String> {
    "[abBé\n]{0,6}"
}

/// The definition that all shortcuts have to agree with.
fn anchored(pattern: &str) -> ::regex::Regex {
    let translated = go_syntax::translate(pattern).unwrap();
    pattern::compile(pattern, &translated).unwrap().regex
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn shortcuts_agree_with_the_regex(
        pattern in pattern(),
        values in prop::collection::vec(value(), 30),
    ) {
        let matcher = regex(&pattern);
        let negative = Matcher::new(MatchOp::NotRegex, "name", pattern.as_str()).unwrap();
        let expected = anchored(&pattern);
        for value in &values {
            let accepted = expected.is_match(value);
            prop_assert_eq!(matcher.matches(value), accepted, "{:?}", value);
            prop_assert_eq!(negative.matches(value), !accepted, "{:?}", value);
            match matcher.lookup() {
                ValueLookup::Literals(literals) => {
                    prop_assert_eq!(literals.contains(value), accepted, "{:?}", value);
                }
                ValueLookup::Prefix(prefix) => {
                    prop_assert!(!accepted || value.starts_with(prefix), "{:?}", value);
                }
                ValueLookup::All => prop_assert!(accepted),
                ValueLookup::NonEmpty => prop_assert_eq!(accepted, !value.is_empty()),
                ValueLookup::Scan => {}
            }
        }
    }

    #[test]
    fn every_literal_is_accepted(pattern in pattern()) {
        let matcher = regex(&pattern);
        if let ValueLookup::Literals(literals) = matcher.lookup() {
            prop_assert!(literals.is_sorted_by(|a, b| a < b));
            let expected = anchored(&pattern);
            for literal in literals {
                prop_assert!(expected.is_match(literal), "{:?}", literal);
            }
        }
    }

    #[test]
    fn no_pattern_panics(pattern in r"[a-c\\QEpPdx0-9{},*+?()\[\]:^$|<>iUs&~é-]{0,24}") {
        if let Ok(matcher) = Matcher::new(MatchOp::Regex, "name", pattern) {
            matcher.matches("abc");
        }
    }
}
