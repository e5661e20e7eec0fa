//! Samples of hours that become a coarse bucket at once: columns, as coarsening makes them.
//!
//! ```text
//! series in label order ─► copy their parts ─► unite (parallel)
//!    ─► choose columns (in order of ids) ─► encode, compare (parallel) ─► put
//! ```
//!
//! Holds always:
//! - Memory is bounded by slices of series, however many samples each has.
//! - Slices take tens of milliseconds, so they are worked on where jobs are: no request waits
//!   behind one.

use std::sync::Arc;

use icecore_model::BucketStart;
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::{Bucket, SeriesId};
use rayon::prelude::*;

use super::assemble::merge;
use super::batch_writer::BatchWriter;
use super::hour::SLICE_SERIES;
use crate::buckets::time_columns::ColumnTable;
use crate::buckets::united::{EncodedSeries, encode_all};
use crate::error::Result;
use crate::failpoint;
use crate::ingest::Ingest;
use crate::ingest::head::{HourPart, LabelOrder};

/// Samples that are decoded at once, about: 4 MiB.
const SLICE_SAMPLES: u64 = 1 << 18;

/// Writes what some hours hold to a bucket in which nothing is yet.
pub(super) struct ColumnsWriter<'f> {
    pub(super) ingest: &'f Arc<Ingest>,
    pub(super) bucket: Bucket,
    /// Ascending.
    pub(super) hours: &'f Arc<[BucketStart]>,
    pub(super) order: &'f Arc<LabelOrder>,
    /// By place in label order.
    pub(super) ids: &'f Arc<Vec<SeriesId>>,
}

impl ColumnsWriter<'_> {
    /// Writes about so many samples, and counts in the meta what there is.
    pub(super) async fn write(
        &mut self,
        writer: &mut BatchWriter<'_>,
        meta: &mut BucketMeta,
        samples: u64,
    ) -> Result<()> {
        let mut by_id: Vec<usize> = (0..self.ids.len()).collect();
        by_id.sort_unstable_by_key(|at| self.ids[*at]);
        let each = (samples / by_id.len().max(1) as u64).max(1);
        let slice_len = (SLICE_SAMPLES / each).clamp(1, SLICE_SERIES as u64);
        let mut table = ColumnTable::new(self.bucket);
        for slice in by_id.chunks(slice_len as usize) {
            let (encoded, after) = self.encode(slice.to_vec(), table).await?;
            table = after;
            for series in encoded {
                count(meta, &series);
                for (key, value) in series.records {
                    writer.put(key, value);
                }
                if writer.write_if_full().await? {
                    failpoint::pass("flush.samples");
                }
            }
        }
        writer.write_out().await
    }

    async fn encode(
        &self,
        slice: Vec<usize>,
        mut table: ColumnTable,
    ) -> Result<(Vec<EncodedSeries>, ColumnTable)> {
        let (head, order) = (Arc::clone(&self.ingest.head), Arc::clone(self.order));
        let (hours, ids) = (Arc::clone(self.hours), Arc::clone(self.ids));
        let bucket = self.bucket;
        let work = move || {
            let series = slice.iter().map(|at| order.series()[*at]);
            let mut frozen = head.frozen(&hours, series).into_iter().peekable();
            // Series without a frozen part are left out, so each is matched by what it is.
            let of_place = |at: usize| {
                let (_, parts) = frozen.next_if(|(series, _)| *series == order.series()[at])?;
                Some((ids[at].0, parts))
            };
            let parts: Vec<(u32, Vec<HourPart>)> =
                slice.iter().copied().filter_map(of_place).collect();
            let united = parts.par_iter().map(|(id, parts)| merge(*id, parts));
            let united: Vec<_> = united.collect();
            Ok((encode_all(bucket, &united, &mut table)?, table))
        };
        self.ingest.context.job_pool.run(work).await?
    }
}

fn count(meta: &mut BucketMeta, series: &EncodedSeries) {
    meta.float_samples += series.floats;
    meta.histogram_samples += series.histograms;
    meta.exemplars += series.exemplars;
    if let Some((first, last)) = series.range_ms {
        meta.min_timestamp_ms = meta.min_timestamp_ms.min(first);
        meta.max_timestamp_ms = meta.max_timestamp_ms.max(last);
    }
}
