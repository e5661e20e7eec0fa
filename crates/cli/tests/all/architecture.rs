//! `ARCHITECTURE.md` stays true: paths exist, crates depend on each other as its table says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn document() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

/// Text between backticks, outside of code fences.
fn quoted(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    prose
        .split('`')
        .skip(1)
        .step_by(2)
        .map(String::from)
        .collect()
}

#[test]
fn every_path_exists() {
    let root = root();
    let mut checked = 0;
    // A file or folder named without its crate belongs to the crate of the heading above it.
    let mut folders: Vec<PathBuf> = Vec::new();
    for line in document().lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            let name = quoted(heading).remove(0);
            folders = vec![root.join(&name).join("src"), root.join(&name)];
            assert!(folders[1].is_dir(), "{name} is no folder");
        }
        let mut within = folders.clone();
        for name in quoted(line) {
            let is_path = name.ends_with(".rs")
                || name.ends_with(".md")
                || name.ends_with('/')
                || name.starts_with("crates/");
            if !is_path || name.contains('*') {
                continue;
            }
            checked += 1;
            let found = std::iter::once(&root)
                .chain(&within)
                .map(|f| f.join(&name))
                .find(|p| p.exists());
            let Some(found) = found else {
                panic!("{name} does not exist (line: {line})")
            };
            if name.ends_with('/') {
                // Files that follow a folder in the same line are in it.
                within.insert(0, found);
            }
        }
        // A list item that names a folder may go on in the next lines.
        if line.starts_with("- ") || line.starts_with("  ") {
            folders = within;
        }
    }
    assert!(
        checked > 40,
        "only {checked} paths were found: has the document changed its form?"
    );
}

#[test]
fn crates_depend_on_each_other_as_drawn() {
    let mut drawn: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in document().lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').collect();
        let [name] = &quoted(cells[1])[..] else {
            continue;
        };
        if root().join("crates").join(name).is_dir() || name == "fuzz" {
            drawn.insert(name.clone(), quoted(cells[2]).into_iter().collect());
        }
    }
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let short = |name: &str| match name {
        "icecore" => "cli".to_string(),
        name => name.trim_start_matches("icecore-").to_string(),
    };
    let mut real: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let edges = package["dependencies"].as_array().unwrap().iter();
        let edges = edges.filter(|edge| edge["kind"].is_null());
        let names = edges.map(|edge| edge["name"].as_str().unwrap());
        let ours = names.filter(|name| name.starts_with("icecore")).map(short);
        real.insert(short(package["name"].as_str().unwrap()), ours.collect());
    }
    assert_eq!(
        drawn, real,
        "left: the table of ARCHITECTURE.md, right: the manifests"
    );
}
