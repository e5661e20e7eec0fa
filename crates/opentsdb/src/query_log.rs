//! Queries that run and that ran last, for `/api/stats/query`.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

/// Queries that are remembered after their end.
const COMPLETED_MAX: usize = 256;

/// Bytes of a query that are remembered; longer ones are not shown.
pub(crate) const QUERY_BYTES_MAX: usize = 4 << 10;

/// A query, and when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedQuery {
    /// JSON.
    pub(crate) query: String,
    /// The address of the client.
    pub(crate) remote: String,
    pub(crate) start_ms: i64,
    /// By a clock that nobody sets.
    pub(crate) start_elapsed_ms: i64,
    pub(crate) end_elapsed_ms: Option<i64>,
    /// The status of the answer; 0 while there is none, and where nobody waited for it.
    pub(crate) status: u16,
}

#[derive(Debug, Default)]
pub(crate) struct QueryLog {
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    next: u64,
    running: BTreeMap<u64, LoggedQuery>,
    completed: VecDeque<LoggedQuery>,
}

/// A query that runs until this is dropped.
pub(crate) struct RunningQuery<'a> {
    log: &'a QueryLog,
    id: u64,
    elapsed_ms: Box<dyn Fn() -> i64 + Send + 'a>,
    pub(crate) status: u16,
}

impl QueryLog {
    /// A query has begun; `None` where it may not repeat one of its client that still runs.
    /// Queries that are too long to be remembered may.
    pub(crate) fn start<'a>(
        &'a self,
        mut query: LoggedQuery,
        may_repeat: bool,
        elapsed_ms: impl Fn() -> i64 + Send + 'a,
    ) -> Option<RunningQuery<'a>> {
        let is_long = query.query.len() > QUERY_BYTES_MAX;
        if is_long {
            query.query = "null".into();
        }
        let mut log = self.log.lock();
        let is_same =
            |other: &LoggedQuery| other.query == query.query && other.remote == query.remote;
        if !may_repeat && !is_long && log.running.values().any(is_same) {
            return None;
        }
        let id = log.next;
        log.next += 1;
        log.running.insert(id, query);
        Some(RunningQuery {
            log: self,
            id,
            elapsed_ms: Box::new(elapsed_ms),
            status: 0,
        })
    }

    /// Those that run, and those that ended, the last one first.
    pub(crate) fn queries(&self) -> (Vec<LoggedQuery>, Vec<LoggedQuery>) {
        let log = self.log.lock();
        let running = log.running.values().cloned().collect();
        (running, log.completed.iter().rev().cloned().collect())
    }
}

impl Drop for RunningQuery<'_> {
    fn drop(&mut self) {
        let now_ms = (self.elapsed_ms)();
        let mut log = self.log.log.lock();
        if let Some(mut query) = log.running.remove(&self.id) {
            query.end_elapsed_ms = Some(now_ms);
            query.status = self.status;
            if log.completed.len() == COMPLETED_MAX {
                log.completed.pop_front();
            }
            log.completed.push_back(query);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> LoggedQuery {
        LoggedQuery {
            query: text.into(),
            remote: "a".into(),
            start_ms: 1000,
            start_elapsed_ms: 0,
            end_elapsed_ms: None,
            status: 0,
        }
    }

    #[test]
    fn queries_run_until_they_are_dropped() {
        let log = QueryLog::default();
        let mut running = log.start(query("{}"), false, || 7).unwrap();
        assert!(log.start(query("{}"), false, || 7).is_none());
        assert!(log.start(query("{} "), false, || 7).is_some());
        assert!(log.start(query("{}"), true, || 7).is_some());
        log.log.lock().completed.clear();
        assert_eq!(log.queries(), (vec![query("{}")], vec![]));
        running.status = 200;
        drop(running);
        let (running, completed) = log.queries();
        assert_eq!((running.len(), completed.len()), (0, 1));
        assert_eq!(completed[0].end_elapsed_ms, Some(7));
        assert_eq!(completed[0].status, 200);
        for i in 0..2 * COMPLETED_MAX {
            log.start(query(&i.to_string()), false, || 8);
        }
        let (_, completed) = log.queries();
        assert_eq!(completed.len(), COMPLETED_MAX);
        assert_eq!(completed[0].query, (2 * COMPLETED_MAX - 1).to_string());
        let long = "x".repeat(QUERY_BYTES_MAX + 1);
        let running = log.start(query(&long), false, || 9);
        let again = log.start(query(&long), false, || 9);
        assert!(running.is_some() && again.is_some());
        assert_eq!(log.queries().0[0].query, "null");
    }
}
