//! Conformance scripts of the Prometheus project, and our own.

use std::fs;
use std::path::{Path, PathBuf};

use icecore_promql::script::{Script, run_file};
use icecore_promql::{Engine, EngineOptions};
use skipped_tests::prometheus_scripts;

fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The directory with the scripts of the Prometheus project; `None` if they are missing.
pub(crate) fn given_scripts() -> Option<PathBuf> {
    prometheus_scripts().map(|scripts| scripts.directory)
}

/// Our own scripts.
pub(crate) fn own_scripts() -> PathBuf {
    project_root().join("testdata/promql")
}

/// An engine with delayed name removal, as the scripts expect.
pub(crate) fn script_engine() -> Engine {
    Engine::new(script_options())
}

pub(crate) fn script_options() -> EngineOptions {
    EngineOptions {
        delayed_name_removal: true,
        ..EngineOptions::default()
    }
}

/// Name and text of all scripts in a directory.
fn scripts_in(directory: &Path) -> Vec<(String, String)> {
    let mut scripts: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "test")
        })
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    scripts.sort();
    scripts
}

/// Runs all scripts of a directory; all must pass.
pub(crate) fn run_all(directory: &Path, engine: &Engine) {
    let mut failed = 0;
    let (mut evals, mut passed) = (0, 0);
    for (name, text) in scripts_in(directory) {
        let report = run_file(&name, &text, engine);
        print!("{}", report.render());
        failed += report.failures.len();
        evals += report.evals;
        passed += report.passed;
    }
    println!("{}: {passed} of {evals} passed", directory.display());
    assert_eq!(failed, 0, "failures in {}", directory.display());
    assert!(evals > 0, "no scripts in {}", directory.display());
}

#[test]
fn given_scripts_parse() {
    let Some(scripts) = prometheus_scripts() else {
        return;
    };
    let mut evals = 0;
    for (name, text) in scripts_in(&scripts.directory) {
        let script = Script::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        evals += script.eval_count();
    }
    assert_eq!(evals, scripts.evals.unwrap_or(evals));
    assert!(evals > 0, "no scripts in {}", scripts.directory.display());
}

#[test]
fn given_scripts_pass() {
    if let Some(directory) = given_scripts() {
        run_all(&directory, &script_engine());
    }
}

#[test]
fn own_scripts_pass() {
    run_all(&own_scripts(), &script_engine());
}

/// Answers of Prometheus with default options: names are removed at once.
#[test]
fn own_scripts_of_names_removed_at_once_pass() {
    run_all(
        &own_scripts().join("names_removed_at_once"),
        &Engine::default(),
    );
}

/// A runner that never finds a difference would pass everything.
#[test]
fn differences_are_found() {
    let wrong = [
        ("eval instant at 1m m", "  m 3"),
        ("eval instant at 1m m", "  n 2"),
        ("eval instant at 1m m", ""),
        ("eval instant at 1m m", "  expect fail\n  m 2"),
        ("eval instant at 1m m", "  expect warn\n  m 2"),
        ("eval instant at 1m rate(m[2m])", "  expect no_info\n  {} 1"),
        ("eval instant at 1m 1 +", "  1"),
        ("eval instant at 1m 1", "  2"),
        ("eval instant at 1m \"a\"", "  expect string \"b\""),
        ("eval range from 0 to 1m step 1m m", "  m 1 3"),
        ("eval range from 0 to 1m step 1m m", "  m 1"),
        (
            "eval instant at 1m m[2m]",
            "  expect range vector from 0 to 1m step 1m\n  m 1 3",
        ),
        ("load_with_nhcb 1m", "  h_sum 1"),
        ("dance", ""),
    ];
    for (command, expectation) in wrong {
        let text = format!("load 1m\n  m 1 2\n\n{command}\n{expectation}\n");
        let report = run_file("wrong", &text, &script_engine());
        assert_eq!(report.failures.len(), 1, "{text}");
        assert_eq!(report.failures[0].line, 4, "{text}");
        assert_eq!(report.passed, 0, "{text}");
    }
}
