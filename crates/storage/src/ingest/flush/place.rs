//! Where hours are written, which of them together, and in which form.
//!
//! ```text
//! a bucket covers the hour  ─► that one: an hour joins its streams, a coarser bucket gets a part
//! nothing is in the window  ─► one bucket for what is long over, as columns: the older the larger
//! else                      ─► the bucket of the hour
//! ```
//!
//! Holds always:
//! - The list decides: the listed bucket that covers the hour, else one that overlaps with none.
//! - A bucket that was retired, or that a job has begun to build, is not written to.
//! - A coarse bucket that is listed gets late samples: streams behind its columns, and a note which
//!   hours they are of.
//! - What is long over, and of which nothing is listed, becomes one bucket at once. Each bucket is
//!   several files and entries of the manifest, however small, so a bucket per hour of years would
//!   be more than the store can carry. Where series have many samples it is a smaller one, because
//!   records are read whole.
//! - Hours with the same target are written together.
//! - Time whose own samples are gone has buckets of its own, overlays: none lies in such time and
//!   in other time, too.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use icecore_model::{BucketSize, BucketStart, HOUR_MS};
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::{Bucket, HistogramEntry, coarse_samples, histogram_series};

use crate::buckets::levels::Listed;
use crate::buckets::{ladder, list};

/// What an hour has, as far as that decides where it goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HourWeight {
    pub(super) series: u64,
    pub(super) samples: u64,
}

/// Hours that are written to one bucket, with one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Portion {
    /// `None`: there is no bucket that could be written to now.
    pub(super) target: Option<FlushTarget>,
    /// Ascending.
    pub(super) hours: Vec<BucketStart>,
}

/// What decides where hours go.
pub(super) struct Placement<'l> {
    /// The listed raw buckets.
    pub(super) listed: &'l BTreeSet<Bucket>,
    /// Buckets that are not listed and must not be written to.
    pub(super) taken: &'l BTreeSet<Bucket>,
    /// What is known of levels, which may be less than is listed.
    pub(super) levels: &'l Listed,
    pub(super) now_ms: i64,
}

impl Placement<'_> {
    /// Which hours are written together, and where, oldest first.
    pub(super) fn portions(&self, hours: &BTreeMap<BucketStart, HourWeight>) -> Vec<Portion> {
        let mut portions: Vec<Portion> = Vec::new();
        for hour in hours.keys().copied() {
            let target = self.target(hour, hours);
            match portions.last_mut() {
                Some(last) if last.target == target && target.is_some() => last.hours.push(hour),
                _ => portions.push(Portion {
                    target,
                    hours: vec![hour],
                }),
            }
        }
        portions
    }

    fn target(
        &self,
        start: BucketStart,
        hours: &BTreeMap<BucketStart, HourWeight>,
    ) -> Option<FlushTarget> {
        let hour = Bucket::hour(start);
        let is_overlay = self.levels.gone().any(|gone| gone.overlaps(hour));
        if let Some(bucket) = list::largest_covering(self.listed, hour) {
            // Among samples that windows were made of, late ones would be lost.
            let others = if is_overlay {
                self.levels.raw()
            } else {
                self.levels.overlays()
            };
            return (!others.contains(&bucket)).then_some(FlushTarget {
                bucket,
                listed: true,
                is_overlay,
            });
        }
        let is_free = |bucket: &Bucket| {
            !self.taken.contains(bucket)
                && self.is_empty_window(*bucket)
                && self.is_one_kind(*bucket, is_overlay)
        };
        let windows = windows_by_age(start, self.now_ms);
        let mut made = windows.filter(|window| is_free(window) && is_narrow(*window, hours));
        let made = made.next().or_else(|| Some(hour).filter(is_free));
        // One that was merged a moment ago has its name for a while.
        let others = || windows_around(start).find(|w| is_overlay && is_free(w));
        let bucket = made.or_else(others)?;
        Some(FlushTarget {
            bucket,
            listed: false,
            is_overlay,
        })
    }

    /// Whether all of a window is time whose own samples are gone, or none of it is.
    fn is_one_kind(&self, window: Bucket, is_gone: bool) -> bool {
        let mut gone = self.levels.gone().filter(|gone| gone.overlaps(window));
        if is_gone {
            gone.any(|gone| gone.size >= window.size)
        } else {
            gone.next().is_none()
        }
    }

    fn is_empty_window(&self, window: Bucket) -> bool {
        list::inside(self.listed, window).is_empty()
    }
}

/// The windows around an hour that are over for long enough to become one bucket, the largest
/// first.
fn windows_by_age(hour: BucketStart, now_ms: i64) -> impl Iterator<Item = Bucket> {
    ladder::backfilled().filter_map(move |(size, closed_ms)| {
        let start = size.bucket_of(hour.start_ms())?;
        let window = Bucket { size, start };
        (window.end_ms() <= now_ms.saturating_sub(closed_ms)).then_some(window)
    })
}

/// The small windows around an hour.
fn windows_around(hour: BucketStart) -> impl Iterator<Item = Bucket> {
    let sizes = (2..=ladder::lasting().exponent()).filter_map(BucketSize::from_exponent);
    sizes.filter_map(move |size| {
        let start = size.bucket_of(hour.start_ms())?;
        Some(Bucket { size, start })
    })
}

/// The bucket that an hour belongs to by its age alone: hours of one are best flushed together.
pub(crate) fn window_of(hour: BucketStart, now_ms: i64) -> Bucket {
    let largest = windows_by_age(hour, now_ms).next();
    largest.unwrap_or(Bucket::hour(hour))
}

/// Whether records of a window would be narrow, were all of its hours as those that are there. A
/// bucket of the smallest size that lasts is always made.
fn is_narrow(window: Bucket, hours: &BTreeMap<BucketStart, HourWeight>) -> bool {
    if window.size <= ladder::lasting() {
        return true;
    }
    let mut all = HourWeight::default();
    for weight in hours.range(window.hours()).map(|(_, weight)| weight) {
        all.series += weight.series;
        all.samples += weight.samples;
    }
    let window_hours = (window.size.duration_ms() / HOUR_MS) as u64;
    let most = ladder::RECORD_SAMPLES_MAX.saturating_mul(all.series);
    all.samples.saturating_mul(window_hours) <= most
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlushTarget {
    /// Where records go.
    pub(super) bucket: Bucket,
    /// Whether that bucket is listed: then records join what is there.
    pub(super) listed: bool,
    /// Whether it holds what came after the samples of its time had gone.
    pub(super) is_overlay: bool,
}

impl FlushTarget {
    fn is_coarse(self) -> bool {
        self.bucket.size > BucketSize::HOUR
    }

    /// Whether samples are written as columns: of a coarse bucket that is new.
    pub(super) fn is_columns(self) -> bool {
        self.is_coarse() && !self.listed
    }

    /// Whether samples come after the columns of a bucket.
    pub(super) fn is_late(self) -> bool {
        self.is_coarse() && self.listed
    }

    /// The value for a Gorilla stream.
    pub(super) fn samples_value(self, stream: Bytes) -> Bytes {
        if self.is_coarse() {
            coarse_samples::late_stream(&stream)
        } else {
            stream
        }
    }

    /// The histograms that a stored value holds. What cannot be read holds none: the merge operator
    /// keeps it, and `icecore check` reports it.
    pub(super) fn stored_histograms(self, stored: &Bytes) -> Vec<HistogramEntry> {
        if !self.is_coarse() {
            return histogram_series::decode(stored).unwrap_or_default();
        }
        histogram_series::decode_coarse(stored).unwrap_or_default()
    }

    /// Notes the hours that got samples after their bucket was built.
    pub(super) fn note_late(self, hours: &[BucketStart], meta: &mut BucketMeta) {
        if !self.is_late() {
            return;
        }
        for hour in hours {
            if let Err(at) = meta.dirty_hours.binary_search(&hour.minutes()) {
                meta.dirty_hours.insert(at, hour.minutes());
            }
        }
    }
}

#[cfg(test)]
mod tests;
