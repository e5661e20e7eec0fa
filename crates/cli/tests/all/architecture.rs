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
        // A folder of a crate may be called like another crate.
        let is_crate = !name.ends_with('/') && root().join("crates").join(name).is_dir();
        if is_crate || name == "fuzz" {
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

/// A part can be read and changed without those that use it: imports between the top-level modules
/// of a crate have no ring.
#[test]
fn modules_of_a_crate_have_no_import_ring() {
    for folder in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = folder.unwrap().path();
        let ring = rings(&imports_of(&folder.join("src")));
        let name = folder.display();
        assert!(
            ring.is_empty(),
            "{name}: these import one another: {ring:?}"
        );
    }
}

/// Which top-level modules of a crate name which, tests left out.
fn imports_of(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut files = Vec::new();
    rust_files(source, &mut files);
    let module_of = |file: &Path| {
        let path = file.strip_prefix(source).unwrap();
        let first = path.components().next().unwrap().as_os_str();
        first.to_str().unwrap().trim_end_matches(".rs").to_owned()
    };
    let modules: BTreeSet<String> = files.iter().map(|file| module_of(file)).collect();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in &files {
        let depth = file.strip_prefix(source).unwrap().components().count();
        let is_root = depth == 1 || (depth == 2 && file.ends_with("mod.rs"));
        let module = module_of(file);
        if ["lib", "main"].contains(&module.as_str()) || is_test(file) {
            continue;
        }
        let text = std::fs::read_to_string(file).unwrap();
        let named = imports.entry(module.clone()).or_default();
        named.extend(names_after(&text, "crate::"));
        if is_root {
            named.extend(names_after(&text, "super::"));
        }
        named.retain(|name| *name != module && modules.contains(name));
    }
    imports
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

/// Whether a file is compiled for tests alone, by its name.
fn is_test(file: &Path) -> bool {
    let mut parts = file
        .components()
        .map(|part| part.as_os_str().to_str().unwrap());
    parts.any(|part| ["tests", "tests.rs", "testing", "testing.rs", "docs.rs"].contains(&part))
}

/// What follows a prefix in the code of a file, up to its tests: `crate::a` and `crate::{a, b::c}`.
fn names_after(text: &str, prefix: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.collect::<Vec<_>>().join(" ");
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let list = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap(),
            None => rest
                .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .next()
                .unwrap(),
        };
        let firsts = list
            .split(',')
            .map(|item| item.trim().split(':').next().unwrap());
        names.extend(firsts.map(String::from));
    }
    names
}

/// Modules that reach themselves.
fn rings(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let reaches_itself = |module: &&String| {
        let mut seen = BTreeSet::new();
        let mut open = vec![*module];
        while let Some(next) = open.pop() {
            for named in imports.get(next).into_iter().flatten() {
                if named == *module {
                    return true;
                }
                if seen.insert(named) {
                    open.push(named);
                }
            }
        }
        false
    };
    imports.keys().filter(reaches_itself).cloned().collect()
}
