//! Gaps of series, bridged as OpenTSDB does.
//!
//! ```text
//! values   10  ·   ·  40  50        interval i, gaps up to R
//! previous 10  10  10 …             last_over_time(v[R:i])
//! next     …   40  40 …             first_over_time(v[R:i] offset -R)
//! linear   10  20  30  40  50
//! ```

use icecore_model::format_duration_ms;

use super::aggregation::{by, labels};
use super::downsampling::Downsampled;
use super::interval::Bucket;
use super::promql::Vector;
use crate::query::Interpolation;

/// The last value before a gap, the first behind it, and their times.
struct Edges {
    value: String,
    previous: String,
    next: String,
    previous_time: String,
    next_time: String,
}

impl Edges {
    /// `None` where the interval is not known.
    fn new(downsampled: &Downsampled, gap_ms: i64) -> Option<Self> {
        let Bucket::Fixed(interval_ms) = downsampled.bucket else {
            return None;
        };
        let value = downsampled.vector(0).operand();
        let gap = format_duration_ms(gap_ms);
        let range = format!("[{gap}:{}]", format_duration_ms(interval_ms));
        let timestamp = format!("timestamp({value})");
        Some(Self {
            previous: format!("last_over_time({value}{range})"),
            next: format!("first_over_time({value}{range} offset -{gap})"),
            previous_time: format!("last_over_time({timestamp}{range})"),
            next_time: format!("first_over_time({timestamp}{range} offset -{gap})"),
            value,
        })
    }
}

/// The values of series, and what they count as in gaps.
pub(super) fn bridged(
    downsampled: &Downsampled,
    interpolation: Interpolation,
    gap_ms: i64,
) -> Option<Vector> {
    let Edges {
        value,
        previous,
        next,
        previous_time,
        next_time,
    } = Edges::new(downsampled, gap_ms)?;
    let between = match interpolation {
        Interpolation::Linear => format!(
            "{previous} + (time() - {previous_time}) * ({next} - {previous}) / \
             ({next_time} - {previous_time})"
        ),
        Interpolation::Previous => format!("({previous} and {next})"),
        Interpolation::Zero => format!("0 * ({previous} and {next})"),
        Interpolation::Max | Interpolation::Min => return None,
    };
    Some(Vector::binary(format!("{value} or {between}")))
}

/// An aggregate only where some series of the group has a point.
pub(super) fn where_points_are(
    aggregate: &Vector,
    downsampled: &Downsampled,
    keys: &[String],
) -> Vector {
    let group = format!("group{}({})", by(keys), downsampled.vector(0).text);
    let on = labels(keys);
    Vector::binary(format!("{} and on ({on}) {group}", aggregate.operand()))
}

/// The last value before this interval, and the seconds since it.
pub(super) fn previous(downsampled: &Downsampled, gap_ms: i64) -> Option<(Vector, String)> {
    let Bucket::Fixed(interval_ms) = downsampled.bucket else {
        return None;
    };
    let value = downsampled.vector(0).operand();
    let interval = format_duration_ms(interval_ms);
    let range = format!(
        "[{}:{interval}] offset {interval}",
        format_duration_ms(gap_ms)
    );
    let previous = Vector::atom(format!("last_over_time({value}{range})"));
    let time = format!("last_over_time(timestamp({value}){range})");
    Some((previous, format!("(time() - {time})")))
}
