//! Delta points become running totals, whatever happens to the process meanwhile.

mod accumulation;
mod kinds;
mod model;
mod points;
mod recovery;

use icecore_model::{Histogram, RawLabels, Sample, SampleSink, SeriesSamples, SeriesStream};
use icecore_storage::{Database, WriteError, WriteOutcome};

use crate::process::Process;
use crate::support::*;

/// A change of a series; `start` 0 says none.
#[derive(Clone, Debug)]
pub(crate) struct Delta {
    pub(crate) series: String,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) change: Change,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Float(f64),
    Histogram(Histogram),
}

pub(crate) fn delta(series: &str, start: i64, end: i64, change: f64) -> Delta {
    Delta {
        series: series.into(),
        start,
        end,
        change: Change::Float(change),
    }
}

pub(crate) async fn try_send(
    db: &Database,
    deltas: Vec<Delta>,
) -> Result<WriteOutcome, WriteError<()>> {
    db.write(move |batch| {
        for delta in deltas {
            batch.series(RawLabels(&raw("m", &delta.series)));
            batch.point();
            match delta.change {
                Change::Float(value) => batch.delta(Sample {
                    timestamp_ms: delta.end,
                    value,
                    start_timestamp_ms: delta.start,
                }),
                Change::Histogram(h) => batch.delta_histogram(delta.end, delta.start, h),
            }
        }
        Ok::<(), ()>(())
    })
    .await
}

pub(crate) fn send(process: &Process, deltas: &[Delta]) -> WriteOutcome {
    process
        .run(try_send(&process.db, deltas.to_vec()))
        .expect("stored")
}

/// The one series that there is.
pub(crate) fn only_series(process: &Process) -> SeriesSamples {
    process.run(async {
        let mut stream = process.db.select(everything()).await.expect("selected");
        let mut found = Vec::new();
        while let Some(batch) = stream.next_batch().await.expect("read") {
            found.extend(batch);
        }
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    })
}
