//! The documents say what there is.

use std::collections::BTreeSet;

/// The text of a file in `docs/`.
pub(crate) fn document(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn every_route_is_documented_and_no_other() {
    let routes: BTreeSet<String> = icecore_server::ROUTES
        .iter()
        .map(|route| format!("{} {}", route.methods.join("|"), route.path))
        .collect();
    let text = document("http-api.md");
    let headings = text.lines().filter_map(|line| line.strip_prefix("### `"));
    let documented: BTreeSet<String> = headings
        .filter_map(|heading| heading.strip_suffix('`'))
        .map(str::to_owned)
        .collect();
    assert_eq!(routes, documented);
}
