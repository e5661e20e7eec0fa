//! What everyone may know of, and say to, the one job that is under way.
//!
//! Holds always:
//! - There is one job at a time; its [`Watch`](super::pace::Watch) reports here.
//! - Callers that ask for a run before it has begun share it; one that asks later gets the next
//!   run, because it may have written since.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::status::{JobStatus, MaintenanceReport, RunProgress};
use crate::error::{Error, Result};

/// What became of a run: told to all who asked for it.
type Ran = Result<MaintenanceReport, Arc<Error>>;

#[derive(Default)]
pub(crate) struct Jobs {
    state: Mutex<State>,
    /// The run that somebody asked for and that has not begun.
    asked: Mutex<RunRequest>,
    /// Wakes the task that does the jobs.
    pub(crate) wake: Notify,
}

#[derive(Clone, Default)]
struct State {
    running: Option<JobStatus>,
    run: Option<RunProgress>,
    paused: Option<String>,
    last_error: Option<String>,
}

enum RunRequest {
    Open(Option<Run>),
    /// No job will ever run again.
    Over,
}

impl Default for RunRequest {
    fn default() -> Self {
        Self::Open(None)
    }
}

/// A run that was asked for. Dropped without an answer, it tells the callers that there is none.
pub(crate) struct Run(watch::Sender<Option<Ran>>);

impl Jobs {
    /// Asks for a run and waits for it.
    pub(crate) async fn ask(&self) -> Result<MaintenanceReport> {
        let closed = || Error::Closed("the database is closing".into());
        let mut answer = match &mut *self.asked.lock() {
            RunRequest::Over => return Err(closed()),
            RunRequest::Open(Some(run)) => run.0.subscribe(),
            RunRequest::Open(asked) => asked.insert(Run(watch::channel(None).0)).0.subscribe(),
        };
        self.wake.notify_one();
        let answered = answer.wait_for(Option::is_some).await;
        match answered.ok().and_then(|answer| answer.clone()) {
            Some(Ok(report)) => Ok(report),
            Some(Err(cause)) => Err(match &*cause {
                Error::Closed(reason) => Error::Closed(reason.clone()),
                cause => Error::Unavailable(format!("maintenance failed: {cause}").into()),
            }),
            None => Err(closed()),
        }
    }

    /// The run that was asked for, which begins now.
    pub(crate) fn begin_run(&self) -> Option<Run> {
        match &mut *self.asked.lock() {
            RunRequest::Open(asked) => asked.take(),
            RunRequest::Over => None,
        }
    }

    /// No job will ever run again; who waits for one is told.
    pub(crate) fn over(&self) {
        *self.asked.lock() = RunRequest::Over;
    }

    pub(crate) fn set_running(&self, running: Option<JobStatus>) {
        self.state.lock().running = running;
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut JobStatus)) {
        if let Some(running) = &mut self.state.lock().running {
            change(running);
        }
    }

    pub(crate) fn set_run(&self, run: Option<RunProgress>) {
        self.state.lock().run = run;
    }

    pub(crate) fn run(&self) -> Option<RunProgress> {
        self.state.lock().run
    }

    pub(crate) fn set_paused(&self, reason: Option<String>) {
        self.state.lock().paused = reason;
    }

    pub(crate) fn set_error(&self, cause: Option<String>) {
        self.state.lock().last_error = cause;
    }

    pub(crate) fn running(&self) -> Option<JobStatus> {
        self.state.lock().running.clone()
    }

    pub(crate) fn paused(&self) -> Option<String> {
        self.state.lock().paused.clone()
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.state.lock().last_error.clone()
    }
}

impl Run {
    /// Tells everyone who asked.
    pub(crate) fn answer(self, ran: Result<MaintenanceReport>) {
        self.0.send_replace(Some(ran.map_err(Arc::new)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn callers_share_a_run_until_it_begins() {
        let jobs = Arc::new(Jobs::default());
        let ask = || {
            let jobs = Arc::clone(&jobs);
            tokio::spawn(async move { jobs.ask().await })
        };
        let asked = |wanted: usize| {
            let count = match &*jobs.asked.lock() {
                RunRequest::Open(Some(run)) => run.0.receiver_count(),
                _ => 0,
            };
            count == wanted
        };
        let first = [ask(), ask()];
        while !asked(2) {
            tokio::task::yield_now().await;
        }
        let run = jobs.begin_run().unwrap();
        let later = ask();
        while !asked(1) {
            tokio::task::yield_now().await;
        }
        run.answer(Ok(MaintenanceReport {
            coarsened: 7,
            ..MaintenanceReport::default()
        }));
        for caller in first {
            assert_eq!(caller.await.unwrap().unwrap().coarsened, 7);
        }
        assert!(!later.is_finished());
        jobs.over();
        assert!(matches!(later.await.unwrap(), Err(Error::Closed(_))));
        assert!(matches!(jobs.ask().await, Err(Error::Closed(_))));
    }
}
