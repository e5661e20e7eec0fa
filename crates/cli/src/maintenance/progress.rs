//! How far a run is, on standard error.

use indicatif::ProgressBar;
use serde_json::Value;

use super::show;
use crate::output;

/// A bar that is kept up to date in a terminal, or a line while nothing is planned; elsewhere a
/// line for each change that is more than a counter.
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
            if let Some((done, total)) = fraction(status) {
                output::show_fraction(&self.line, done, total);
            }
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

/// Parts that a job counts as: some of it may be done.
const JOB_PARTS: u64 = 1000;

/// How much of a run is done and how much there is, in parts of jobs, if that is known.
pub(super) fn fraction(status: &Value) -> Option<(u64, u64)> {
    let run = status["run"].as_object()?;
    let (done, waiting) = (run.get("done")?.as_u64()?, run.get("waiting")?.as_u64()?);
    let jobs = done.saturating_add(waiting);
    let running = &status["running"];
    // Most of the work of a job is to write samples; other phases count other things.
    let series = |key: &str| {
        running[key]
            .as_u64()
            .filter(|_| running["phase"] == "samples")
    };
    let of_running = match (series("seriesDone"), series("seriesTotal")) {
        (Some(series_done), Some(total)) if total > 0 && waiting > 0 => {
            series_done.min(total) * (JOB_PARTS - 1) / total
        }
        _ => 0,
    };
    (jobs > 0).then_some((done * JOB_PARTS + of_running, jobs * JOB_PARTS))
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
    // What the run could do now; `waiting` is without what is too young to be done by itself.
    let run = &status["run"];
    let jobs = run["done"].as_u64().zip(run["waiting"].as_u64());
    if let Some((done, waiting)) = jobs {
        parts.push(format!(
            "{done} of {} jobs done",
            done.saturating_add(waiting)
        ));
    }
    let waiting = if jobs.is_some() { "" } else { "waiting" };
    for (key, what) in [
        (waiting, "waiting"),
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
