//! `icecore test promql`: runs PromQL test scripts in memory.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use icecore_promql::script::run_file;
use icecore_promql::{Engine, EngineOptions};

use crate::WrongUsage;
use crate::output::Output;

/// Run tests
#[derive(Args)]
pub(crate) struct Test {
    #[command(subcommand)]
    what: Action,
}

#[derive(Subcommand)]
enum Action {
    Promql(Promql),
}

/// Run PromQL test scripts in memory
///
/// Scripts are those of Prometheus' own tests: load series, evaluate queries, compare. No server
/// and no storage is needed. Exit code 1 when anything differs.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
struct Promql {
    /// Scripts, or directories whose files *.test are run
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Remove metric names at once, as a server does by default
    ///
    /// Scripts of Prometheus expect them to be removed when the answer is made.
    #[arg(long)]
    names_removed_at_once: bool,
}

const EXAMPLES: &str = "\
Examples:
  icecore test promql functions.test operators.test
  icecore test promql testdata/promql
A script:
  load 1m
    requests_total{job=\"a\"} 0+60x10
  eval instant at 10m rate(requests_total[5m])
    {job=\"a\"} 1";

impl Test {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.what {
            Action::Promql(promql) => promql.run(),
        }
    }
}

impl Promql {
    fn run(self) -> anyhow::Result<()> {
        let files = scripts(&self.files)?;
        let engine = Engine::new(EngineOptions {
            delayed_name_removal: !self.names_removed_at_once,
            ..EngineOptions::default()
        });
        let mut output = Output::new();
        let (mut evaluations, mut failures, mut failed_files) = (0, 0, 0);
        for file in &files {
            let text = std::fs::read_to_string(file)
                .map_err(|error| WrongUsage(format!("cannot read {}: {error}", file.display())))?;
            let report = run_file(&file.display().to_string(), &text, &engine);
            for line in report.render().lines() {
                output.line(line)?;
            }
            evaluations += report.evals;
            failures += report.failures.len();
            failed_files += usize::from(!report.is_success());
        }
        output.finish()?;
        if failures > 0 {
            bail!(
                "{failures} failures in {failed_files} of {} files, {evaluations} evaluations",
                files.len()
            );
        }
        Ok(())
    }
}

/// The scripts that are meant, those of a directory in the order of their names.
fn scripts(given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in given {
        if path.is_dir() {
            let found =
                scripts_in(path).with_context(|| format!("cannot read {}", path.display()))?;
            if found.is_empty() {
                bail!(WrongUsage(format!(
                    "{} has no files *.test",
                    path.display()
                )));
            }
            files.extend(found);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn scripts_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "test")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
