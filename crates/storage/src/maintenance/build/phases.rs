//! The phases of a job, one after the other.
//!
//! Holds always:
//! - A phase begins where the job's cursor stands and ends with the cursor at the begin of the
//!   next.
//! - The series map is made anew each time: it is in memory only.

use std::sync::Arc;

use bytes::Bytes;
use icecore_records::maintenance_job::Phase;
use icecore_records::{Bucket, RecordType, SeriesId, key};

use super::super::pace::Watch;
use super::batches::{Batch, Batches};
use super::index::{PairMerge, remap};
use super::samples::{coarsen_batch, columns_before, write_batches};
use super::series_map::{Merge, SeriesMap, UnsortedRun};
use super::sources::Source;
use super::verify::verify;
use super::windows::{RollUp, SeriesFilter};
use super::writer::JobWriter;
use crate::error::{Error, Result};
use crate::maintenance::Maintenance;
use crate::slate::fetch::join_bounded;

/// Pages of series that are read at once.
const CONCURRENT_PAGES: usize = 8;

/// A job at work.
pub(super) struct Build<'j> {
    pub(super) maintenance: &'j Arc<Maintenance>,
    pub(super) watch: &'j Watch,
    /// What becomes of samples; `None`: they stay what they are.
    pub(super) roll_up: Option<RollUp>,
    /// Which series the target has; `None`: all.
    pub(super) filter: Option<Arc<SeriesFilter>>,
    pub(super) writer: JobWriter<'j>,
}

/// Why a job did not come to its end.
pub(super) enum BuildError {
    /// A run is not in label order: the job starts over with a run more.
    UnsortedRun(UnsortedRun),
    /// What was written is not what it should be: the next job has to start over.
    Unusable(Error),
    /// The next job can go on.
    Failed(Error),
}

impl BuildError {
    /// For what looks at written records: damage there is not a matter of the sources.
    fn looking_back(cause: Error) -> Self {
        match cause {
            Error::Corrupt(_) => Self::Unusable(cause),
            _ => Self::Failed(cause),
        }
    }
}

impl From<Error> for BuildError {
    fn from(cause: Error) -> Self {
        Self::Failed(cause)
    }
}

impl Build<'_> {
    /// Says durably that the job is under way, before anything of it is written.
    pub(super) async fn begin(&mut self) -> Result<()> {
        self.writer.write_out().await?;
        self.writer.make_durable().await
    }

    pub(super) async fn run(&mut self, sources: &[Source]) -> Result<(), BuildError> {
        let map = self.write_series(sources).await?;
        self.write_index(sources, &map).await?;
        if let Phase::Samples { next_id } = self.writer.job.phase {
            self.write_samples(sources, &map, next_id).await?;
        }
        self.writer.reached(Phase::Verify).await?;
        self.writer.write_out().await?;
        let job = &self.writer.job;
        let series = job.counts.series;
        self.watch.phase("commit", series, series);
        let verified = verify(
            self.maintenance,
            self.watch,
            job.target,
            sources,
            self.roll_up,
            &job.counts,
        )
        .await;
        verified.map_err(BuildError::looking_back)
    }

    async fn write_samples(
        &mut self,
        sources: &[Source],
        map: &SeriesMap,
        first: u32,
    ) -> Result<(), BuildError> {
        let (maintenance, watch) = (self.maintenance, self.watch);
        let target = self.writer.job.target;
        let buckets: Arc<[Bucket]> = sources.iter().map(|source| source.bucket).collect();
        let mut batches = Batches::new(sources, map, first);
        let writer = &mut self.writer;
        if let Some(roll_up) = self.roll_up {
            let build = move |batch: Batch, ()| Ok((roll_up.build(&buckets, &batch)?, ()));
            write_batches(maintenance, watch, &mut batches, (), build, writer).await?;
        } else {
            let table = columns_before(maintenance, watch, target, first).await;
            let table = table.map_err(BuildError::looking_back)?;
            let build = move |batch, table| coarsen_batch(target, &buckets, batch, table);
            write_batches(maintenance, watch, &mut batches, table, build, writer).await?;
        }
        Ok(())
    }

    /// Makes the series map and writes forward records, as far as they are not.
    async fn write_series(&mut self, sources: &[Source]) -> Result<Arc<SeriesMap>, BuildError> {
        let target = self.writer.job.target;
        let view = self.maintenance.context.engine.live_view();
        let first = match self.writer.job.phase {
            Phase::Series { next_id } => Some(next_id),
            _ => None,
        };
        let total = sources.iter().map(|s| u64::from(s.meta.next_series_id));
        let total = total.max().unwrap_or(0);
        let mut merge = Merge::new(sources).only(self.filter.clone());
        while !merge.is_done() {
            let reads = merge.wanted().into_iter().map(|page| page.read(&view));
            let pages = join_bounded(reads.collect(), CONCURRENT_PAGES).await?;
            let bytes: usize = pages.iter().map(|page| page.bytes).sum();
            self.writer.job.counts.bytes_read += bytes as u64;
            self.watch.read(bytes).await?;
            let work = move || {
                merge.accept(pages)?;
                Ok::<_, Error>(match merge.advance() {
                    Ok(series) => Ok((merge, series)),
                    Err(unsorted) => Err(unsorted),
                })
            };
            let advanced = self.maintenance.context.job_pool.run(work).await??;
            let (after, series) = advanced.map_err(BuildError::UnsortedRun)?;
            merge = after;
            for new in series {
                let id = SeriesId(new.id);
                if first.is_some_and(|first| new.id >= first) {
                    let counts = &mut self.writer.job.counts;
                    counts.series += 1;
                    counts.labels += new.labels as u64;
                    // A copy: what was read is a slice of a whole block.
                    let value = Bytes::copy_from_slice(&new.value);
                    self.writer.put(key::forward_index(target, id), value);
                    let next_id = new.id + 1;
                    self.writer.reached(Phase::Series { next_id }).await?;
                }
            }
            let done = u64::from(merge.map.len());
            self.watch.phase("series", done, total.max(done));
        }
        if first.is_some() {
            let after = Vec::new();
            self.writer.reached(Phase::Index { after }).await?;
            self.writer.write_out().await?;
        }
        Ok(Arc::new(merge.map))
    }

    /// Writes the inverted index, as far as it is not.
    async fn write_index(&mut self, sources: &[Source], map: &Arc<SeriesMap>) -> Result<()> {
        let Phase::Index { after } = &self.writer.job.phase else {
            return Ok(());
        };
        let mut pairs = PairMerge::new(sources, after);
        let view = self.maintenance.context.engine.live_view();
        let buckets: Arc<[Bucket]> = sources.iter().map(|source| source.bucket).collect();
        let prefix = key::record_prefix(RecordType::InvertedIndex, self.writer.job.target);
        let series = u64::from(map.len());
        self.watch.phase("index", series, series);
        while !pairs.is_done() {
            let bytes = pairs.read(&view).await?;
            self.writer.job.counts.bytes_read += bytes as u64;
            self.watch.read(bytes).await?;
            let complete = pairs.take();
            let (map, buckets) = (Arc::clone(map), Arc::clone(&buckets));
            let work = move || remap(complete, &buckets, &map);
            for pair in self.maintenance.context.job_pool.run(work).await?? {
                self.writer.job.counts.postings += pair.ids;
                let key = [&prefix[..], &pair.name].concat();
                self.writer.put(key.into(), pair.value);
                let after = pair.name.to_vec();
                self.writer.reached(Phase::Index { after }).await?;
            }
        }
        self.writer.reached(Phase::Samples { next_id: 0 }).await?;
        self.writer.write_out().await
    }
}
