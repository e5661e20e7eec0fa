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

/// A few kilobytes of text would take gigabytes when compiled.
#[test]
fn regular_expressions_are_limited_in_sum() {
    let selector = |patterns: &dyn Fn(usize) -> String, count: usize| {
        let matchers: Vec<String> = (0..count)
            .map(|number| format!("l{number}=~`{}`", patterns(number)))
            .collect();
        format!("{{__name__=\"x\",{}}}", matchers.join(","))
    };
    let reason = "the regular expressions of the request may take more than 67108864 bytes when \
                  compiled: use fewer or simpler ones, or send several requests";
    let large = |number: usize| format!(r"\pL{{20}}{number}");
    let bomb = selector(&large, 100);
    let error = parse_selector(&bomb).unwrap_err().to_string();
    assert!(error.ends_with(reason), "{error}");
    // One account for all selectors of a query.
    let chain: Vec<String> = (0..100)
        .map(|n| format!("a{{b=~`{}`}}", large(n)))
        .collect();
    let error = parse(&chain.join(" or ")).unwrap_err().to_string();
    assert!(error.ends_with(reason), "{error}");
    // Usual queries have room, and equal patterns count once.
    parse(&selector(&|number| format!("[a-z]+-x{number}"), 90)).unwrap();
    parse(&selector(&|_| large(0), 1000)).unwrap();
    parse(&selector(&|number| format!("a|b|{number}"), 10_000)).unwrap();
}

#[test]
fn wide_expressions_are_allowed() {
    let args = vec!["\"x\""; 100_000].join(",");
    parse(&format!("label_join(a, \"b\", \"c\", {args})")).unwrap();
}
