//! How far a run is, on standard error.

use indicatif::ProgressBar;
use serde_json::Value;

use super::show;
use crate::output;

/// One line that is kept up to date in a terminal; elsewhere a line for each change that is more
/// than a counter.
pub(super) struct Progress {
    line: ProgressBar,
    last: String,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            line: output::status_line(),
            last: String::new(),
        }
    }

    pub(super) fn update(&mut self, status: &Value) {
        if !self.line.is_hidden() {
            let seconds = self.line.elapsed().as_secs();
            let text = format!("{}, {seconds} s", line(status, true));
            self.line.set_message(text);
            return;
        }
        let line = line(status, false);
        if line != self.last {
            eprintln!("{line}");
            self.last = line;
        }
    }

    pub(super) fn clear(&self) {
        self.line.finish_and_clear();
    }
}

/// What is under way and what waits.
pub(super) fn line(status: &Value, with_counters: bool) -> String {
    // A run flushes first, and in the end waits for the store.
    let job = if status["running"].is_object() {
        show::job(&status["running"], with_counters)
    } else {
        "between jobs".into()
    };
    let mut parts = vec![job];
    for (key, what) in [
        ("waiting", "waiting"),
        ("dirty", "with late samples"),
        ("retired", "retired"),
    ] {
        match status[key].as_u64() {
            None | Some(0) => {}
            Some(count) => parts.push(format!("{count} {what}")),
        }
    }
    if let Some(reason) = status["paused"].as_str() {
        parts.push(format!("paused: {reason}"));
    }
    parts.join(", ")
}
