//! Matchers against Prometheus' rules, and fast paths against the anchored regex.

use super::*;

fn regex(pattern: &str) -> Matcher {
    Matcher::new(MatchOp::Regex, "name", pattern).unwrap()
}

#[test]
fn operators() {
    let value = |op, value| Matcher::new(op, "a", value).unwrap();
    assert!(value(MatchOp::Equal, "x").matches("x"));
    assert!(!value(MatchOp::Equal, "x").matches("xx"));
    assert!(!value(MatchOp::NotEqual, "x").matches("x"));
    assert!(value(MatchOp::NotEqual, "x").matches_empty());
    assert!(value(MatchOp::Regex, "x|y").matches("y"));
    assert!(!value(MatchOp::NotRegex, "x|y").matches("y"));
    assert!(value(MatchOp::NotRegex, "x|y").matches_empty());
}
