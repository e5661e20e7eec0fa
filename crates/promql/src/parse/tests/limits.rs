//! Hostile texts end in an error, not in a crash.

use super::super::{MAX_HEIGHT, MAX_QUERY_BYTES, ast_json, parse, parse_selector, pretty};

fn refused(text: &str) {
    assert!(parse(text).is_err());
    let _ = parse_selector(text);
}

#[test]
fn deep_nesting() {
    for piece in [
        "(",
        "-",
        "sum(",
        "a[1:][",
        "1^",
        "a[(",
        "a[-",
        "a[1^",
        "{",
        "abs(a,",
        "a offset (",
    ] {
        refused(&piece.repeat(MAX_QUERY_BYTES / piece.len()));
    }
    refused(&"(".repeat(MAX_QUERY_BYTES + 1));
}

#[test]
fn long_chains() {
    for (piece, end) in [("1+", "1"), ("a or ", "a"), ("(a)==bool ", "1")] {
        let many = MAX_QUERY_BYTES / piece.len() - 1;
        refused(&format!("{}{end}", piece.repeat(many)));
    }
    refused(&format!("a{}", "[1:]".repeat(100_000)));
    refused(&format!("a[{}1]", "1+".repeat(100_000)));
    // Within the limit everything that walks the tree works.
    let text = format!("{}a", "a or ".repeat(MAX_HEIGHT - 1));
    let expr = parse(&text).unwrap();
    assert_eq!(expr.to_string(), text);
    assert!(pretty(&expr).len() > text.len());
    assert!(ast_json(&expr).len() > text.len());
    let nested = format!("{}1{}", "(".repeat(100), ")".repeat(100));
    assert_eq!(parse(&nested).unwrap().to_string(), nested);
}

#[test]
fn wide_expressions_are_allowed() {
    let args = vec!["\"x\""; 100_000].join(",");
    parse(&format!("label_join(a, \"b\", \"c\", {args})")).unwrap();
}
