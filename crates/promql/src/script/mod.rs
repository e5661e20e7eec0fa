//! Test scripts: data, queries and their expected answers, in the language of Prometheus' own
//! tests.
//!
//! ```text
//! text ─ parse ─► Script ─ run ─► Backend (load, clear)
//!                           └───► Engine (eval) ─ compare ─► Report
//! ```
//!
//! Holds always:
//! - A script that parses can be run; repetitions of values are limited.
//! - Queries are passed to the engine unchanged; an invalid query is a failed evaluation, not an
//!   invalid script.
//! - The backend stores the data: the same script runs in memory and on a real store.

mod at_modifier;
mod command;
mod compare;
mod cursor;
mod expect;
mod histogram;
mod load;
mod nhcb;
mod report;
mod reset_hint;
mod run;
mod series;
mod start_time;

use std::fmt;

use crate::MemorySource;
use crate::engine::Engine;

pub use command::Script;
pub use load::{Backend, LoadedSample, LoadedSeries, LoadedValue};
pub use report::{Failure, Report};
pub use reset_hint::hints_as_stored;
pub use run::run;

/// A syntax error of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// Counted from 1.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ScriptError {}

/// Runs a script in memory. `name` is that of the report; a syntax error is a failure at its line.
pub fn run_file(name: &str, text: &str, engine: &Engine) -> Report {
    match Script::parse(text) {
        Ok(script) => {
            let mut report = run(&script, engine, &mut MemorySource::default());
            report.name = name.to_owned();
            report
        }
        Err(error) => Report::of_bad_script(name, error),
    }
}
