use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::sync::Semaphore;

use super::*;

/// Runs that end when they are let; each returns its number, from 1.
struct Gate {
    runs: Runs<usize>,
    begun: Arc<AtomicUsize>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self {
            runs: Runs::default(),
            begun: Arc::default(),
            open: Arc::new(Semaphore::new(0)),
        }
    }

    fn ask(&self) -> Result<oneshot::Receiver<usize>, TooManyCallers> {
        let (begun, open) = (Arc::clone(&self.begun), Arc::clone(&self.open));
        self.runs.ask(move || {
            let (begun, open) = (Arc::clone(&begun), Arc::clone(&open));
            async move {
                let number = begun.fetch_add(1, SeqCst) + 1;
                open.acquire().await.expect("never closed").forget();
                number
            }
        })
    }

    async fn until_begun(&self, number: usize) {
        while self.begun.load(SeqCst) < number {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn who_asks_during_a_run_shares_the_next() {
    let gate = Gate::new();
    let first = gate.ask().unwrap();
    gate.until_begun(1).await;
    let second = gate.ask().unwrap();
    let third = gate.ask().unwrap();
    gate.open.add_permits(2);
    assert_eq!(first.await, Ok(1));
    assert_eq!((second.await, third.await), (Ok(2), Ok(2)));
    gate.open.add_permits(1);
    assert_eq!(gate.ask().unwrap().await, Ok(3));
}

#[tokio::test]
async fn a_run_goes_on_without_those_who_asked() {
    let gate = Gate::new();
    drop(gate.ask().unwrap());
    gate.until_begun(1).await;
    drop(gate.ask().unwrap());
    gate.open.add_permits(1);
    gate.until_begun(2).await;
    gate.open.add_permits(2);
    assert_eq!(gate.ask().unwrap().await, Ok(3));
}

#[tokio::test]
async fn callers_are_limited_and_those_who_left_do_not_count() {
    let gate = Gate::new();
    let first = gate.ask().unwrap();
    gate.until_begun(1).await;
    let mut waiting: Vec<_> = (0..CALLERS_MAX).map(|_| gate.ask().unwrap()).collect();
    assert!(gate.ask().is_err());
    waiting.pop();
    let last = gate.ask().unwrap();
    gate.open.add_permits(2);
    assert_eq!((first.await, last.await), (Ok(1), Ok(2)));
}

#[tokio::test]
async fn a_panic_ends_its_run_only() {
    let runs: Runs<usize> = Runs::default();
    let asked = runs.ask(|| async { panic!("a run that panics") });
    assert!(asked.unwrap().await.is_err());
    assert_eq!(runs.ask(|| async { 7 }).unwrap().await, Ok(7));
}

#[test]
fn json_has_every_field() {
    let status = MaintenanceStatus {
        enabled: true,
        paused: Some("ingest \"first\"".into()),
        running: Some(JobStatus {
            kind: "coarsen",
            start_ms: 1,
            end_ms: 2,
            sources: 3,
            phase: "samples",
            series_done: 4,
            series_total: 5,
            started_ms: 6,
        }),
        waiting: 7,
        lag_seconds: 8.5,
        buckets: vec![
            SizeCount { hours: 1, count: 9 },
            SizeCount {
                hours: 16,
                count: 10,
            },
        ],
        retired: 11,
        dirty: 12,
        last_error: Some("none".into()),
    };
    let mut out = Vec::new();
    write_maintenance_status(&mut out, &status);
    let expected = r#"{"enabled":true,"paused":"ingest \"first\"","running":{"kind":"coarsen","startMs":1,"endMs":2,"sources":3,"phase":"samples","seriesDone":4,"seriesTotal":5,"startedMs":6},"waiting":7,"lagSeconds":8.5,"buckets":[{"hours":1,"count":9},{"hours":16,"count":10}],"retired":11,"dirty":12,"lastError":"none"}"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);

    let mut out = Vec::new();
    let idle = MaintenanceStatus {
        lag_seconds: f64::NAN,
        ..MaintenanceStatus::default()
    };
    write_maintenance_status(&mut out, &idle);
    let expected = r#"{"enabled":false,"paused":null,"running":null,"waiting":0,"lagSeconds":0,"buckets":[],"retired":0,"dirty":0,"lastError":null}"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);

    let mut out = Vec::new();
    let report = MaintenanceReport {
        coarsened: 1,
        retired: 2,
        folded: 3,
        bytes_read: 4,
        bytes_written: 5,
        seconds: 0.25,
    };
    write_maintenance_report(&mut out, &report);
    let expected =
        r#"{"coarsened":1,"retired":2,"folded":3,"bytesRead":4,"bytesWritten":5,"seconds":0.25}"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
