//! What to coarsen next: a pure function of the list of buckets, the head and the time.
//!
//! ```text
//! by itself     closed and quiet for a while:  16 h windows, else 4 h windows
//! asked for     closed at all:                 16 h, 8 h, 4 h, 2 h windows, the largest first
//! ```
//!
//! Holds always:
//! - A target is built once: it is never planned while it, or a bucket that covers it, is listed.
//! - Its sources are all listed raw buckets in its window, each smaller than it, so that buckets never
//!   overlap and every hour stays covered.
//! - A window that has not ended is left alone; asked for, the smaller windows in it that have ended
//!   are not.

use std::collections::{BTreeMap, BTreeSet};

use icecore_model::BucketSize;
use icecore_records::Bucket;

use super::hold::holds;

/// Windows, as exponents of their size, and how many sources each must have. By itself maintenance makes
/// 4 h and then 16 h buckets.
const BY_ITSELF: &[(u8, usize)] = &[(5, 1), (3, 1)];

/// Asked for, the rest of a window that has not ended is covered by 8 h and 2 h as well. A bucket that
/// would be alone in those stays as it is: rewriting it would save nothing.
const ASKED_FOR: &[(u8, usize)] = &[(5, 1), (4, 2), (3, 1), (2, 2)];

/// What a plan is made from.
pub(crate) struct Situation<'s> {
    pub(crate) buckets: &'s BTreeSet<Bucket>,
    /// When buckets were last written to, as far as that is known.
    pub(crate) written_ms: &'s BTreeMap<Bucket, i64>,
    /// Hours that the head holds something of and that must be flushed before they are copied.
    pub(crate) busy_hours: &'s BTreeSet<u32>,
    pub(crate) now_ms: i64,
    /// How long a window must have been closed, and quiet. Asked for, no time.
    pub(crate) delay_ms: i64,
    /// Somebody asked for everything that is closed to be coarse.
    pub(crate) everything: bool,
}

/// A bucket to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) target: Bucket,
    pub(crate) sources: Vec<Bucket>,
}

/// Everything that could be done now, without what a larger window takes along: the largest windows
/// first, of those the oldest.
pub(crate) fn waiting(situation: &Situation<'_>) -> Vec<Piece> {
    let mut all: Vec<Piece> = Vec::new();
    for (size, sources_min) in situation.windows() {
        let mut fresh = situation.pieces(size, sources_min);
        fresh.retain(|piece| !all.iter().any(|larger| covers(larger.target, piece.target)));
        all.append(&mut fresh);
    }
    all
}

impl Situation<'_> {
    fn windows(&self) -> impl Iterator<Item = (BucketSize, usize)> + use<> {
        let windows = match self.everything {
            true => ASKED_FOR,
            false => BY_ITSELF,
        };
        let size = |exponent: u8| BucketSize::from_exponent(exponent);
        windows
            .iter()
            .filter_map(move |(exponent, sources_min)| Some((size(*exponent)?, *sources_min)))
    }

    /// The buckets of a size that can be built now, oldest first.
    fn pieces(&self, size: BucketSize, sources_min: usize) -> Vec<Piece> {
        let mut windows: BTreeMap<Bucket, Vec<Bucket>> = BTreeMap::new();
        for source in self.buckets.iter().filter(|bucket| bucket.size < size) {
            if let Some(start) = size.bucket_of(source.start_ms()) {
                windows
                    .entry(Bucket { size, start })
                    .or_default()
                    .push(*source);
            }
        }
        let ready = windows.into_iter().filter(|(target, sources)| {
            sources.len() >= sources_min
                && self.is_quiet(*target, sources)
                && !self.buckets.iter().any(|listed| covers(*listed, *target))
        });
        ready
            .map(|(target, sources)| Piece { target, sources })
            .collect()
    }

    fn is_quiet(&self, target: Bucket, sources: &[Bucket]) -> bool {
        let delay_ms = if self.everything { 0 } else { self.delay_ms };
        let quiet_since_ms = self.now_ms.saturating_sub(delay_ms);
        let written = |source: &Bucket| self.written_ms.get(source).copied();
        target.end_ms() <= quiet_since_ms
            && !self.busy_hours.iter().any(|hour| holds(target, *hour))
            && (self.everything
                || sources
                    .iter()
                    .filter_map(written)
                    .all(|at| at <= quiet_since_ms))
    }
}

/// Whether a bucket is, or lies in, another one.
fn covers(larger: Bucket, smaller: Bucket) -> bool {
    larger.size >= smaller.size && larger.contains(smaller.start_ms())
}

#[cfg(test)]
mod tests;
