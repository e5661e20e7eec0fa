//! Runs of maintenance that somebody asked for, and what maintenance says as JSON.
//!
//! ```text
//! callers ─► Runs ─► one run at a time ─► its report, to all who asked before it began
//! ```
//!
//! Holds always:
//! - A run that a caller hears of began after they asked, so that it covers all that was acknowledged
//!   before. Whoever asks while one is under way shares the next one.
//! - A run goes on when those who asked for it have gone.
//! - JSON has the same shape from a server and from `icecore maintenance --storage`.
//!
//! Elsewhere: what a run does (`icecore_storage`), the routes (`http::maintenance`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icecore_storage::{JobStatus, MaintenanceReport, MaintenanceStatus, SizeCount};
use icecore_wire::prometheus::api_json::{write_list, write_string};
use tokio::sync::oneshot;

/// Callers that may wait at once. Each holds a connection; people and scripts that ask are few.
pub(crate) const CALLERS_MAX: usize = 64;

/// The runs of one process.
pub(crate) struct Runs<T>(Arc<Mutex<Waiting<T>>>);

struct Waiting<T> {
    /// Whether the task that runs is there.
    running: bool,
    /// Whether somebody asked since the last run began.
    asked: bool,
    callers: Vec<oneshot::Sender<T>>,
}

/// As many callers wait as may.
#[derive(Debug)]
pub(crate) struct TooManyCallers;

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Waiting {
            running: false,
            asked: false,
            callers: Vec::new(),
        })))
    }
}

impl<T: Clone + Send + 'static> Runs<T> {
    /// Asks for a run; `run` is called when its turn has come. The receiver gets what it returns, or
    /// nothing when it panics.
    pub(crate) fn ask<F>(
        &self,
        run: impl Fn() -> F + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, TooManyCallers>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.0);
        if waiting.callers.len() >= CALLERS_MAX {
            waiting.callers.retain(|caller| !caller.is_closed());
        }
        if waiting.callers.len() >= CALLERS_MAX {
            return Err(TooManyCallers);
        }
        waiting.callers.push(sender);
        waiting.asked = true;
        if !waiting.running {
            waiting.running = true;
            tokio::spawn(run_while_asked(Arc::clone(&self.0), run));
        }
        Ok(receiver)
    }
}

async fn run_while_asked<T, F>(all: Arc<Mutex<Waiting<T>>>, run: impl Fn() -> F + Send + 'static)
where
    T: Clone + Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    loop {
        let callers = {
            let mut waiting = lock(&all);
            if !waiting.asked {
                waiting.running = false;
                return;
            }
            waiting.asked = false;
            std::mem::take(&mut waiting.callers)
        };
        // A task of its own: a panic in it ends that run and not those that follow.
        let Ok(result) = tokio::spawn(run()).await else {
            continue;
        };
        for caller in callers {
            // It may have gone away.
            let _ = caller.send(result.clone());
        }
    }
}

fn lock<T>(waiting: &Mutex<Waiting<T>>) -> MutexGuard<'_, Waiting<T>> {
    // Nothing that happens under the lock can panic halfway.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the state of maintenance as a JSON object. `docs/http-api.md` describes each field.
pub fn write_maintenance_status(out: &mut Vec<u8>, status: &MaintenanceStatus) {
    raw(
        out,
        &format!("{{\"enabled\":{},\"paused\":", status.enabled),
    );
    text_or_null(out, status.paused.as_deref());
    raw(out, ",\"running\":");
    match &status.running {
        Some(job) => write_job(out, job),
        None => raw(out, "null"),
    }
    raw(
        out,
        &format!(
            ",\"waiting\":{},\"lagSeconds\":{},\"buckets\":",
            status.waiting,
            finite(status.lag_seconds)
        ),
    );
    write_list(out, &status.buckets, |out, SizeCount { hours, count }| {
        raw(out, &format!("{{\"hours\":{hours},\"count\":{count}}}"));
    });
    raw(
        out,
        &format!(
            ",\"retired\":{},\"dirty\":{},\"lastError\":",
            status.retired, status.dirty
        ),
    );
    text_or_null(out, status.last_error.as_deref());
    out.push(b'}');
}

fn write_job(out: &mut Vec<u8>, job: &JobStatus) {
    raw(out, "{\"kind\":");
    write_string(out, job.kind);
    raw(
        out,
        &format!(
            ",\"startMs\":{},\"endMs\":{},\"sources\":{},\"phase\":",
            job.start_ms, job.end_ms, job.sources
        ),
    );
    write_string(out, job.phase);
    raw(
        out,
        &format!(
            ",\"seriesDone\":{},\"seriesTotal\":{},\"startedMs\":{}}}",
            job.series_done, job.series_total, job.started_ms
        ),
    );
}

/// Writes what a run did as a JSON object. `docs/http-api.md` describes each field.
pub fn write_maintenance_report(out: &mut Vec<u8>, report: &MaintenanceReport) {
    raw(
        out,
        &format!(
            "{{\"coarsened\":{},\"retired\":{},\"folded\":{},\"bytesRead\":{},\"bytesWritten\":{},\"seconds\":{}}}",
            report.coarsened,
            report.retired,
            report.folded,
            report.bytes_read,
            report.bytes_written,
            finite(report.seconds)
        ),
    );
}

fn raw(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn text_or_null(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => write_string(out, text),
        None => raw(out, "null"),
    }
}

/// JSON has no other numbers.
fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { 0.0 }
}

#[cfg(test)]
mod tests;
