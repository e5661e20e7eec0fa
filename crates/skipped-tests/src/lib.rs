//! Tests that cannot run on this machine say so here, and the end of `cargo test --workspace` lists
//! them with what is missing.
//!
//! The test harness keeps what passing tests print to itself, and the lines of one binary scroll
//! away under those of the next. So they go to a file beside the test binaries.

mod prometheus;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

pub use prometheus::{PrometheusScripts, prometheus_scripts};

/// Says that something is not tested: what, and how to get what is missing.
pub fn skip(what: &str, cure: &str) {
    let line = format!("SKIPPED: {what}: {cure}\n");
    let mut stderr = io::stderr();
    // Nothing depends on whether anybody reads it.
    let _ = stderr.write_all(line.as_bytes());
    let file = OpenOptions::new().append(true).create(true).open(list());
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// What was skipped since the last call, each line once.
pub fn take() -> Vec<String> {
    let text = fs::read_to_string(list()).unwrap_or_default();
    let _ = fs::remove_file(list());
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    lines.sort();
    lines.dedup();
    lines
}

/// Test binaries lie in `target/<profile>/deps`, the list beside that folder.
fn list() -> PathBuf {
    let binary = std::env::current_exe().unwrap_or_default();
    let profile = binary.ancestors().nth(2).map(PathBuf::from);
    profile.unwrap_or_default().join("skipped-tests.txt")
}
