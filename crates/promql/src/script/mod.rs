//! Test scripts: data, queries and their expected answers, in the language of Prometheus' own tests.
//!
//! ```text
//! text ─ parse ─► Script ─ run ─► Backend (load, clear)
//!                           └───► Engine (eval) ─ compare ─► Report
//! ```
//!
//! Holds always:
//! - A script that parses can be run; what it loads and how often values repeat is limited.
//! - Queries reach the engine as they are written; a query that is none is a failed evaluation, not a
//!   bad script.
//! - Where the data lies is the backend's matter: the same script runs in memory and on a real store.

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

/// Why a text is not a script.
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

/// Runs the text of a script in memory. `name` says in the report where the text is from; a text that
/// is no script fails at the line that is wrong.
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
