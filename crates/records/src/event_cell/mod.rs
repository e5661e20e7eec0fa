//! A cell of events: a counter, a histogram or a gauge of one interval and one set of dimension
//! values. Window, metric and interval are in the key.
//!
//! ```text
//! version u8 = 1 | kind u8 | start of the earliest interval of 5 s in it, in seconds, zz | rest
//! 1 counter     count zz | sum f64
//! 2 histogram   counts: count uv, uv* | samples uv | sum f64 | min f64 | max f64
//!               | sketch u8: 0 none, 1 relative accuracy f64 | zero uv | positive | negative
//!               | exemplars: count uv, (bucket, uv | value f64 | time in ns, zz | event id 16
//!                 | trace u8: 0 none, 1 trace id 16)*
//! 3 gauge       reducer u8: 1 latest, 2 min, 3 max | value f64 | time in ns, zz | event id 16
//!
//! positive, negative: count uv, (index, the first zz, then uv to the one before | count uv)*
//! ```
//!
//! Buckets of exemplars ascend: the first is written as it is, the others as the difference to the
//! one before.
//!
//! Holds always:
//! - Equal cells have equal bytes. A float that is not a number has one form.
//! - What is read has its lists in order, without empty buckets of a sketch, and no exemplar of a
//!   bucket that is not there.
//! - Cells of one shape add up; those of different shapes are kept apart, never guessed at.

mod decode;
mod encode;
#[cfg(test)]
mod tests;
mod unite;

pub use decode::decode;
pub use encode::encode;
pub(crate) use unite::unite;

use icecore_model::event::Reducer;

const RECORD: &str = "EventCell";
const VERSION: u8 = 1;

/// What a cell is of. The numbers are stored.
mod kind {
    pub(super) const COUNTER: u8 = 1;
    pub(super) const HISTOGRAM: u8 = 2;
    pub(super) const GAUGE: u8 = 3;
}

/// The number of a reducer, as it is stored.
fn reducer_number(reducer: Reducer) -> u8 {
    match reducer {
        Reducer::Latest => 1,
        Reducer::Min => 2,
        Reducer::Max => 3,
    }
}

fn reducer_from_number(number: u8) -> Option<Reducer> {
    let all = [Reducer::Latest, Reducer::Min, Reducer::Max];
    all.into_iter()
        .find(|reducer| reducer_number(*reducer) == number)
}

/// The one form of what is not a number: its other bits depend on who has added it up.
fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}
