//! The documents say what there is.

use std::collections::BTreeSet;
use std::path::Path;

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

/// Codes of errors that sources name, without their quotes.
fn codes_in(path: &Path, found: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("a folder") {
            codes_in(&entry.expect("an entry").path(), found);
        }
        return;
    }
    let text = std::fs::read_to_string(path).expect("a source");
    let is_code = |text: &&str| {
        let areas = [
            "access", "config", "ingest", "query", "request", "sql", "store",
        ];
        let parts = text.split_once('.');
        let is_word = |word: &str| word.chars().all(|c| c == '-' || c.is_ascii_lowercase());
        parts.is_some_and(|(area, word)| areas.contains(&area) && is_word(word) && !word.is_empty())
    };
    let codes = text.split('"').filter(is_code);
    found.extend(codes.map(str::to_owned));
}

#[test]
fn every_code_of_an_error_of_events_is_documented_and_no_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut codes = BTreeSet::new();
    for sources in [
        "events/src",
        "event-files/src",
        "event-sql/src",
        "server/src/events",
        "server/src/middleware/error.rs",
    ] {
        codes_in(&crates.join(sources), &mut codes);
    }
    assert!(codes.contains("ingest.unavailable"));
    let text = document("http-api.md");
    let (_, table) = text.split_once("<!-- codes: begin -->").expect("a table");
    let (table, _) = table.split_once("<!-- codes: end -->").expect("its end");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let names = rows.filter_map(|line| line.split('|').nth(1));
    let names = names.flat_map(|cell| cell.split(','));
    let documented: Vec<String> = names.map(|name| name.trim().replace('`', "")).collect();
    let once: BTreeSet<String> = documented.iter().cloned().collect();
    assert_eq!(once.len(), documented.len(), "a code is listed twice");
    assert_eq!(once, codes);
}
