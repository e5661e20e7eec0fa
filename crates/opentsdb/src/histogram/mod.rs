//! Simple histograms: counts of buckets with bounds of 32 bits, and of what lies outside.
//!
//! They are kept as native histograms with custom bounds, which hold them without loss: the bounds
//! are those of all buckets, the first native bucket is the underflow and the last one the
//! overflow. A gap between two buckets is a native bucket that no span covers, a bucket with count
//! 0 one that is covered. What has no such form is refused: no buckets, buckets that overlap or end
//! before they begin, and negative counts.

mod native;
mod payload;
mod sum;

pub use payload::PayloadError;
pub(crate) use sum::HistogramSum;

/// The class that the settings give an id to.
pub const SIMPLE_CODEC: &str = "net.opentsdb.core.SimpleHistogramDecoder";

/// Most buckets: their number has 16 bits with a sign.
pub const BUCKETS_MAX: usize = i16::MAX as usize;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimpleHistogram {
    /// In the order of their bounds.
    pub buckets: Vec<Bucket>,
    pub underflow: u64,
    pub overflow: u64,
}

/// What lies from `low` to below `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    pub low: f32,
    pub high: f32,
    pub count: u64,
}

impl SimpleHistogram {
    /// Puts buckets in order; `None` where there are none, they overlap, or one holds nothing.
    pub fn new(mut buckets: Vec<Bucket>, underflow: u64, overflow: u64) -> Option<Self> {
        buckets.sort_by(|a, b| a.low.total_cmp(&b.low));
        let is_range = |b: &Bucket| b.low.is_finite() && b.high.is_finite() && b.low < b.high;
        let follows = |pair: &[Bucket]| pair[0].high <= pair[1].low;
        let is_good = (1..=BUCKETS_MAX).contains(&buckets.len())
            && buckets.iter().all(is_range)
            && buckets.windows(2).all(follows);
        is_good.then_some(Self {
            buckets,
            underflow,
            overflow,
        })
    }
}
