//! Samples that remnants have of time that is read from windows: left out.
//!
//! Where the raw level is gone, raw samples have come late and are merged into windows, which those
//! of a remnant are in already.

use std::sync::Arc;

use icecore_model::Labels;

use super::resolve::{Resolution, ResolvedSeries};
use crate::buckets::ladder;
use crate::buckets::ranges::without;
use crate::cache::Chunk;
use crate::error::{Error, Result};

/// Leaves out of the chunks of remnants what is not read of their series. `stored` are the chunks
/// of neighbouring series, in the order of their places.
pub(super) fn leave_out_remnants(
    resolved: &Resolution,
    (series, labels): (&[ResolvedSeries], &[Labels]),
    stored: &mut [Arc<Chunk>],
    (start_ms, end_ms): (i64, i64),
) -> Result<()> {
    let is_remnant = |bucket: usize| ladder::is_remnant(resolved.buckets[bucket].0.bucket.size);
    if !(0..resolved.buckets.len()).any(is_remnant) {
        return Ok(());
    }
    let first = series.first().map_or(0, |series| series.stored.start);
    for (series, labels) in series.iter().zip(labels) {
        let at = |place: u32| resolved.stored[place as usize].bucket as usize;
        let mut places = series.stored.clone().filter(|p| is_remnant(at(*p)));
        let Some(place) = places.next() else {
            continue;
        };
        let of = resolved.levels.of(labels, resolved.buckets_of(series));
        for place in std::iter::once(place).chain(places) {
            let from = &resolved.buckets[at(place)].0;
            let bucket = from.bucket;
            let end_ms = bucket.end_ms().min(end_ms.saturating_add(1));
            let read = start_ms.max(bucket.start_ms())..end_ms;
            let kept = without(std::slice::from_ref(&read), &of.plan.late.gone);
            if kept == [read] {
                continue;
            }
            let chunk = &mut stored[(place - first) as usize];
            let corrupt = || format!("samples of {labels} in bucket {bucket}");
            let part = chunk.parts(&kept, &from.cache.times);
            *chunk = Arc::new(part.map_err(|cause| Error::corrupt(corrupt())(cause))?);
        }
    }
    Ok(())
}
