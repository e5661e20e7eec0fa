//! Float samples and the staleness marker.

/// The bit pattern Prometheus uses for "this series has ended here".
pub const STALE_NAN_BITS: u64 = 0x7ff0_0000_0000_0002;

/// Whether a value is the staleness marker (and not any other NaN).
pub fn is_stale_nan(value: f64) -> bool {
    value.to_bits() == STALE_NAN_BITS
}

/// One float sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub timestamp_ms: i64,
    pub value: f64,
    /// When the counter began to count; 0 where the client did not say.
    pub start_timestamp_ms: i64,
}
