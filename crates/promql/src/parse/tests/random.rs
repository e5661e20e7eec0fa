//! Properties over generated and mutated queries.

use proptest::prelude::*;

use super::super::{ast_json, parse, parse_selector, pretty};

fn leaf() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("1".to_string()),
        Just("5m".to_string()),
        Just("-Inf".to_string()),
        any::<f64>().prop_map(|value| format!("{value:e}").replace("inf", "Inf")),
        selector(),
    ]
}

fn selector() -> impl Strategy<Value = String> {
    let series = prop_oneof![
        Just("foo".to_string()),
        // The matchers are in the order in which they are printed.
        Just("by{\"b.c\"='d', a!~\"x|y\"}".to_string()),
        Just("{\"met.ric\", l=~\"z+\"}".to_string()),
        "[a-z_][a-z0-9_:]{0,5}".prop_map(|name| format!("x_{name}{{k=`v`}}")),
    ];
    (series, modifiers()).prop_map(|(series, modifiers)| series + &modifiers)
}

fn modifiers() -> impl Strategy<Value = String> {
    let offset = duration_term().prop_map(|duration| format!(" offset {duration}"));
    let signed = duration_term().prop_map(|duration| format!(" offset -{duration}"));
    let offset = prop_oneof![Just(String::new()), offset, signed];
    let at = prop_oneof![
        Just(String::new()),
        Just(" @ start()".to_string()),
        (-100_000i64..100_000).prop_map(|seconds| format!(" @ {seconds}.25")),
    ];
    let extension = prop_oneof![Just(""), Just(" anchored"), Just(" smoothed")];
    (offset, at, extension, any::<bool>()).prop_map(|(offset, at, extension, swap)| {
        if swap {
            format!("{at}{extension}{offset}")
        } else {
            format!("{offset}{at}{extension}")
        }
    })
}

fn duration_term() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("step()".to_string()),
        Just("range()".to_string()),
        (1u32..100_000).prop_map(|seconds| seconds.to_string()),
        (1u32..1000).prop_map(|minutes| format!("{minutes}m7s")),
        duration().prop_map(|inner| format!("({inner})")),
        (duration(), duration()).prop_map(|(a, b)| format!("min_of({a}, {b})")),
    ]
}

fn duration() -> impl Strategy<Value = String> {
    let term = prop_oneof![
        Just("step()".to_string()),
        Just("1h30m".to_string()),
        (1u32..1000).prop_map(|seconds| format!("{seconds}.5")),
    ];
    term.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), "[+*/%^-]", inner.clone()).prop_map(|(a, op, b)| format!("{a}{op}{b}")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("-{a}")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("max_of({a},{b})")),
        ]
    })
}

/// Expressions that parse, except where types do not fit.
fn query() -> impl Strategy<Value = String> {
    leaf().prop_recursive(5, 40, 3, |inner| {
        let binary = prop_oneof![
            Just("+"),
            Just("-"),
            Just("*"),
            Just("/"),
            Just("%"),
            Just("^"),
            Just(" atan2 "),
            Just("== bool "),
            Just(">="),
            Just("</"),
            Just(" and "),
            Just(" or on(a) "),
            Just(" unless ignoring(b, \"c.d\") "),
            Just("*on(a)group_left(by)"),
            Just("+fill(3)"),
            Just("+ignoring(a)group_right fill_left(1) fill_right(-2)"),
        ];
        let range = duration().prop_map(|duration| format!("[{duration}]"));
        let step = prop_oneof![
            Just("5m:".to_string()),
            duration().prop_map(|step| format!("1h:{step}"))
        ];
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(a, op, b)| format!("{a}{op}{b}")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("-{a}")),
            inner.clone().prop_map(|a| format!("sum without(a) ({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("topk({a}, {b}) by (sum)")),
            (inner.clone(), step).prop_map(|(a, step)| format!("sum_over_time(({a})[{step}])")),
            range.prop_map(|range| format!("rate(foo{range} offset 5m)")),
            inner.prop_map(|a| format!("label_replace({a}, \"a\", '\\u00e9', `$1`, \"\\x00\")")),
        ]
    })
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2_000,
        // A failing case is turned into a test by hand; there is no file of them.
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn printing_is_a_fixed_point(query in query()) {
        if let Ok(expr) = parse(&query) {
            let printed = expr.to_string();
            let again = match parse(&printed) {
                Ok(again) => again,
                Err(error) => panic!("{query}\n{printed}\n{error}"),
            };
            prop_assert_eq!(again.to_string(), &printed[..], "{}", query);
            let prettied = parse(&pretty(&expr)).unwrap();
            prop_assert_eq!(prettied.to_string(), &printed[..], "{}", query);
            prop_assert_eq!(ast_json(&again), ast_json(&expr));
        }
    }

    #[test]
    fn most_generated_queries_are_expressions(duration in duration()) {
        // Without this the property above could hold for lack of trees. Only a literal zero is
        // rejected.
        parse(&format!("foo[{duration}+1]")).map_err(|error| TestCaseError::fail(format!("{duration}: {error}")))?;
    }

    #[test]
    fn mutated_queries_never_panic(
        query in query(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), ".{0,2}"), 1..4),
    ) {
        let mut text: Vec<char> = query.chars().collect();
        for (place, insert) in edits {
            let place = place.index(text.len().max(1));
            if place < text.len() {
                text.remove(place);
            }
            for c in insert.chars() {
                text.insert(place.min(text.len()), c);
            }
        }
        let text: String = text.into_iter().collect();
        if let Ok(expr) = parse(&text) {
            let _ = (pretty(&expr), ast_json(&expr));
        }
        let _ = parse_selector(&text);
    }

    #[test]
    fn tokens_in_any_order_never_panic(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30),
    ) {
        for separator in ["", " "] {
            let text = pieces.join(separator);
            if let Ok(expr) = parse(&text) {
                let printed = expr.to_string();
                let again = parse(&printed).map(|expr| expr.to_string());
                prop_assert_eq!(again.as_deref(), Ok(&printed[..]), "{}", text);
            }
        }
    }

    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        let _ = parse(&text);
        let _ = parse_selector(&text);
    }
}

const PIECES: &[&str] = &[
    "a",
    "sum",
    "by",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "5m",
    "1",
    "0x",
    "_",
    ":",
    ",",
    "\"s\"",
    "'",
    "`",
    "\\",
    "=",
    "=~",
    "!=",
    "!",
    "<",
    ">",
    "/",
    "+",
    "-",
    "^",
    "@",
    "start",
    "offset",
    "step()",
    "min_of",
    "on",
    "group_left",
    "fill",
    "bool",
    "and",
    "rate",
    "#",
    "\n",
    "é",
    "\u{fffd}",
    "1e",
    ".",
    "anchored",
];
