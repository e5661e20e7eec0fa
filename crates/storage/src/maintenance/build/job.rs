//! A bucket built out of others, with a job record that says how far it is.
//!
//! ```text
//! job record ─► hold back flushes ─► series map ─► forward records ─► index
//!    ─► samples or windows ─► verify ─► commit: target listed, job gone
//! ```
//!
//! Holds always:
//! - Until the commit the target is not listed and nobody reads it.
//! - From its begin to its commit no hour of the window is flushed, so the sources stand still and
//!   need no snapshot.
//! - Everything is put and depends on the sources alone: an interrupted job that goes on at its
//!   cursor, or starts over, ends in the same bytes. If a source was written to in between, what
//!   was written of the target is dropped first.
//! - A source that cannot be read ends the job: its buckets stay as they are rather than losing
//!   something.

use std::sync::Arc;
use std::time::Duration;

use icecore_records::maintenance_job::{self, Counts, Job, JobKind, Phase};
use icecore_records::{Bucket, key};
use tracing::{info, warn};

use super::super::pace::Watch;
use super::super::retire::{empty_buckets, segments_of};
use super::commit;
use super::empty::is_empty;
use super::phases::{Build, BuildError};
use super::remnant::Remnant;
use super::series_map::UnsortedRun;
use super::sources::{Source, read_sources};
use super::windows::{RollUp, SeriesFilter};
use super::write_limit::WriteLimit;
use super::writer::JobWriter;
use crate::error::{Error, Result};
use crate::maintenance::Maintenance;
use crate::slate::read_view::{ScanKind, View};

/// How long dropping what an abandoned job has written may take.
const CLEAR_PATIENCE: Duration = Duration::from_secs(60);

/// What a job did.
#[cfg_attr(not(feature = "testing"), expect(unreachable_pub))]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub sources: usize,
    pub series: u64,
    /// Floats and histograms.
    pub samples: u64,
    /// Bytes of keys and values, before SlateDB compresses them.
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Whether it went on where an earlier one was interrupted.
    pub resumed: bool,
    pub seconds: f64,
}

/// What a job makes of its sources.
#[derive(Clone, Copy)]
pub(super) enum Product<'p> {
    /// The same samples in a larger bucket.
    Samples,
    Windows(RollUp),
    /// The samples of some series, which outlive the others.
    Remnant(Remnant<'p>),
}

impl Product<'_> {
    pub(super) fn roll_up(self) -> Option<RollUp> {
        match self {
            Self::Windows(roll_up) => Some(roll_up),
            Self::Samples | Self::Remnant(_) => None,
        }
    }

    /// As the job record has it.
    fn kind(self) -> JobKind {
        match self {
            Self::Samples => JobKind::Coarsen,
            Self::Windows(roll_up) => roll_up.kind(),
            Self::Remnant(remnant) => JobKind::Remnant {
                left_out: remnant.left_out,
            },
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::Windows(roll_up) if !roll_up.coarsens => "buckets rolled up",
            Self::Samples | Self::Windows(_) => "buckets coarsened",
            Self::Remnant(_) => "raw buckets culled, except for series that are kept for longer",
        }
    }
}

/// Builds `target` out of sources, which are sorted and stand still, and commits it. With
/// `writes_max` it is interrupted when it wants to write more often than that.
pub(super) async fn build(
    maintenance: &Arc<Maintenance>,
    target: Bucket,
    sorted: &[Bucket],
    (product, filter): (Product<'_>, Option<SeriesFilter>),
    watch: &Watch,
    writes_max: Option<u64>,
) -> Result<Outcome> {
    let started = std::time::Instant::now();
    let (mut product, mut filter) = (product, filter);
    let view = maintenance.context.engine.live_view();
    let mut sources = read_sources(&view, sorted).await?;
    if let Product::Windows(roll_up) = &mut product
        && is_empty(maintenance, watch, *roll_up, &sources).await?
    {
        let nothing = SeriesFilter::Nothing;
        roll_up.left_out = nothing.hash();
        filter = Some(nothing);
    }
    let filter = filter.map(Arc::new);
    let kind = product.kind();
    let (job, resumed) = job_for(maintenance, target, kind, &sources).await?;
    let mut build = Build {
        maintenance,
        watch,
        roll_up: product.roll_up(),
        filter,
        writer: JobWriter::new(maintenance, watch, job, WriteLimit::new(writes_max)),
    };
    let mut resumed = resumed;
    if !resumed {
        build.begin().await?;
    }
    while let Err(stopped) = build.run(&sources).await {
        let UnsortedRun { source, id } = match stopped {
            BuildError::UnsortedRun(unsorted) => unsorted,
            BuildError::Failed(cause) => return Err(cause),
            BuildError::Unusable(cause) => {
                build.writer.forget_job().await?;
                return Err(cause);
            }
        };
        // Nothing but ids that no flush has committed can be out of order.
        warn!(%target, bucket = %sorted[source], id, "series are out of order: starting the job over");
        sources[source].break_run(id);
        clear(maintenance, &[target]).await?;
        build.writer.job = fresh_job(target, kind, &sources);
        build.begin().await?;
        resumed = false;
    }
    commit::commit(maintenance, watch, product, &mut build.writer).await?;
    let counts = &build.writer.job.counts;
    let outcome = Outcome {
        sources: sorted.len(),
        series: counts.series,
        samples: counts.floats + counts.histograms,
        bytes_read: counts.bytes_read,
        bytes_written: counts.bytes_written,
        resumed,
        seconds: started.elapsed().as_secs_f64(),
    };
    info!(
        %target,
        sources = outcome.sources,
        series = outcome.series,
        samples = outcome.samples,
        records = counts.records,
        bytes_read = outcome.bytes_read,
        bytes = outcome.bytes_written,
        seconds = outcome.seconds,
        resumed,
        "{}",
        product.done()
    );
    Ok(outcome)
}

/// The job that is under way, or was when the process ended.
pub(crate) async fn stored_job(maintenance: &Maintenance) -> Result<Option<Job>> {
    let value = maintenance
        .context
        .engine
        .live_view()
        .get(&key::maintenance_job())
        .await?;
    let Some(value) = value else {
        return Ok(None);
    };
    match maintenance_job::decode(&value) {
        Ok(job) => Ok(Some(job)),
        Err(cause) => {
            // As good as lost, which is harmless: its target is listed nowhere.
            warn!(%cause, "cannot read the record of the interrupted job");
            Ok(None)
        }
    }
}

/// The stored job if it is this one and its sources are as they were, else a fresh one with nothing
/// left of the target. Also says whether it is the stored one.
async fn job_for(
    maintenance: &Maintenance,
    target: Bucket,
    kind: JobKind,
    sources: &[Source],
) -> Result<(Job, bool)> {
    let fresh = fresh_job(target, kind, sources);
    let mut stale = vec![target];
    if let Some(stored) = stored_job(maintenance).await? {
        if stored.target == target && stored.kind == kind && stored.sources == fresh.sources {
            return Ok((stored, true));
        }
        let other = stored.target;
        info!(target = %other, "discarding interrupted job: its sources changed");
        if other != target && !maintenance.buckets.levels().contains(other) {
            stale.push(other);
        }
    }
    clear(maintenance, &stale).await?;
    Ok((fresh, false))
}

fn fresh_job(target: Bucket, kind: JobKind, sources: &[Source]) -> Job {
    Job {
        kind,
        target,
        sources: sources.iter().map(Source::job_source).collect(),
        phase: Phase::Series { next_id: 0 },
        counts: Counts::default(),
    }
}

/// Whether anything lies in a bucket. Asked of each of its segments: a list of all that there are
/// is long.
async fn has_records(view: &View, bucket: Bucket) -> Result<bool> {
    for segment in segments_of(bucket) {
        let mut records = view.scan_prefix(&segment, ScanKind::Once).await?;
        let first = records.next().await;
        if first
            .map_err(Error::store("looking for records"))?
            .is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Drops everything that lies in buckets which are not listed.
async fn clear(maintenance: &Maintenance, buckets: &[Bucket]) -> Result<()> {
    let view = maintenance.context.engine.live_view();
    let mut stale = Vec::new();
    for bucket in buckets {
        if has_records(&view, *bucket).await? {
            stale.push(*bucket);
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    let gone = empty_buckets(maintenance, &stale, CLEAR_PATIENCE).await?;
    if gone.len() == stale.len() {
        Ok(())
    } else {
        Err(Error::Unavailable(
            "records of a discarded job are not dropped yet: trying again later".into(),
        ))
    }
}
