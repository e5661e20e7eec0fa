//! Whether anything lies in the time of a target whose source holds more than that.
//!
//! A large bucket of samples reaches into windows in which there are none. What is rolled up of
//! those would be an index of all series and nothing else.

use std::sync::Arc;

use icecore_records::Bucket;
use rayon::prelude::*;

use super::super::pace::Watch;
use super::batches::{Batch, Batches};
use super::series_map::SeriesMap;
use super::sources::Source;
use super::windows::RollUp;
use crate::error::Result;
use crate::maintenance::Maintenance;

/// Whether the sources have nothing of the target's time. Reads until something is found.
pub(super) async fn is_empty(
    maintenance: &Arc<Maintenance>,
    watch: &Watch,
    roll_up: RollUp,
    sources: &[Source],
) -> Result<bool> {
    // A source inside the target has something, or it would not be there; and one that is not
    // inside holds all of it, so that there is no other.
    let [source] = sources else {
        return Ok(false);
    };
    if source.bucket.size <= roll_up.target.size {
        return Ok(false);
    }
    let view = maintenance.context.engine.live_view();
    let map = SeriesMap::identity(source.meta.next_series_id);
    let bucket = source.bucket;
    let mut batches = Batches::new(sources, &map, 0);
    while let Some(batch) = batches.read(&view).await? {
        watch.read(batch.bytes).await?;
        let work = move || has_windows(roll_up, bucket, &batch);
        if maintenance.context.job_pool.run(work).await?? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_windows(roll_up: RollUp, source: Bucket, batch: &Batch) -> Result<bool> {
    let series = batch.series.par_iter();
    let has_windows = series.map(|series| {
        let made = roll_up.windows(&[source], &batch.columns, series)?;
        Ok(!made.windows.is_empty())
    });
    has_windows.try_reduce(|| false, |a, b| Ok(a || b))
}
