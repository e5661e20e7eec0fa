//! `icecore events check` and `icecore events suggest`, as people see them: without a server.

use std::process::Output;

use serde_json::json;

use super::{DOCUMENTS, order, path_text};
use crate::served::{Workplace, icecore};

fn events(arguments: &[&str]) -> Output {
    let output = icecore().arg("events").args(arguments).output();
    output.expect("the binary was built for this test")
}

fn printed(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn documents_are_checked_by_line_and_column() {
    let workplace = Workplace::new();
    let file = workplace.path("shop.yaml");
    std::fs::write(&file, DOCUMENTS).expect("a file can be written");
    let (code, said, error) = printed(&events(&["check", path_text(&file)]));
    let warning = "icecore: warning: shop/order.placed: metric \"stock_level\" has no dimensions\n";
    assert_eq!((code, error.as_str()), (Some(0), warning), "{said}");
    // The three, and the one that every type has.
    assert_eq!(said, "shop: 1 types of events, 4 metrics\n");

    // A word that is none.
    let wrong = DOCUMENTS.replace("reducer: latest", "reducer: newest");
    std::fs::write(&file, &wrong).expect("a file can be written");
    let (code, said, error) = printed(&events(&["check", path_text(&file)]));
    assert_eq!((code, said.as_str()), (Some(1), ""), "{error}");
    let line = wrong
        .lines()
        .position(|line| line.contains("newest"))
        .expect("it is there");
    let column = wrong
        .lines()
        .nth(line)
        .and_then(|text| text.find("newest"))
        .expect("it is there");
    let (line, column) = (line + 1, column + 1);
    let place = format!("at line {line} column {column} of {}", path_text(&file));
    assert!(error.contains(&place), "{place} is not in\n{error}");

    // What is found only when documents are put together has a place, too: masking drops it.
    let dropped = "dimensions: [customer.email] }";
    let wrong = DOCUMENTS.replacen("dimensions: [order.channel] }", dropped, 1);
    std::fs::write(&file, &wrong).expect("a file can be written");
    let (code, _, error) = printed(&events(&["check", path_text(&file)]));
    assert_eq!(code, Some(1), "{error}");
    let line = wrong.lines().position(|line| line.contains(dropped));
    let place = format!("at line {} column", line.expect("it is there") + 1);
    let is_placed = error.contains(&place) && error.contains("customer.email");
    assert!(is_placed, "{place}:\n{error}");

    let (code, _, error) = printed(&events(&["check", path_text(&workplace.path("none.yaml"))]));
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("cannot read"), "{error}");
}

#[test]
fn documents_are_suggested_and_are_right() {
    let workplace = Workplace::new();
    let file = workplace.path("samples.json");
    let samples: Vec<_> = (0..20)
        .map(|number| order(number, 1_794_218_400_000))
        .collect();
    std::fs::write(&file, json!(samples).to_string()).expect("a file can be written");
    let (code, suggested, error) = printed(&events(&["suggest", path_text(&file)]));
    assert_eq!((code, error.as_str()), (Some(0), ""), "{suggested}");
    for expected in [
        "kind: Event",
        "kind: MetricCounter",
        "order.placed",
        "service: shop",
    ] {
        assert!(suggested.contains(expected), "{expected}:\n{suggested}");
    }
    let documents = workplace.path("suggested.yaml");
    std::fs::write(&documents, &suggested).expect("a file can be written");
    let (code, said, error) = printed(&events(&["check", path_text(&documents)]));
    assert_eq!(code, Some(0), "{error}\n{suggested}");
    assert!(said.starts_with("shop: 1 types of events, "), "{said}");

    std::fs::write(&file, "{\"event\": {\"name\": \"order.placed\"}}\n{").expect("a file");
    let (code, said, error) = printed(&events(&["suggest", path_text(&file)]));
    assert_eq!((code, said.as_str()), (Some(1), ""), "{error}");
    assert!(!error.is_empty());
}
