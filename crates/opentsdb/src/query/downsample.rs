//! Downsampling: one value for the points of each bucket, and a fill for buckets without any.

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::{TimeColumn, TimeColumnIdentity};

use super::aggregator::Function;
use super::buckets::{Buckets, buckets, floor};
use super::downsampler::{Downsampler, FillPolicy, Interval};
use super::fold::{Fold, WithFold, with_fold};
use super::points::SeriesPoints;
use super::rolled::Alignment;
use super::window::{Scan, Window};
use crate::error::Error;

/// Most buckets that a fill policy may make of one series.
pub(super) const FILLED_BUCKETS_MAX: usize = 4_000_000;

/// A downsampler at work on one query.
pub(crate) struct Downsampling {
    pub(super) downsampler: Downsampler,
    pub(super) window: Window,
    pub(super) scan: Scan,
    pub(super) alignment: Alignment,
    /// All buckets, where a fill policy wants them.
    pub(super) filled: Option<TimeColumn>,
}

/// The buckets of columns that series of a batch share.
pub(crate) type SharedBuckets = HashMap<TimeColumnIdentity, Arc<Buckets>>;

impl Downsampling {
    pub(crate) fn new(downsampler: Downsampler, window: Window, scan: Scan) -> Result<Self, Error> {
        let is_filled = downsampler.fill != FillPolicy::None;
        let filled = match (&downsampler.interval, is_filled) {
            (Interval::All, _) | (_, false) => None,
            (interval, true) => Some(grid(interval, scan)?),
        };
        Ok(Self {
            alignment: Alignment::of(&downsampler.interval, window, scan),
            downsampler,
            window,
            scan,
            filled,
        })
    }

    pub(crate) fn buckets(&self, times: &[i64]) -> Buckets {
        buckets(times, &self.downsampler.interval, self.window, self.scan)
    }

    /// The downsampled points of a series whose times are in these buckets.
    pub(crate) fn apply(&self, values: &[f64], buckets: &Buckets) -> Result<SeriesPoints, Error> {
        let function = self.downsampler.function;
        let values = with_fold(
            function,
            Reduction {
                function,
                values,
                bounds: &buckets.bounds,
            },
        );
        match &self.filled {
            None => Ok(SeriesPoints::floats(buckets.starts.clone(), values)),
            Some(grid) => self.fill(&buckets.starts, &values, grid),
        }
    }

    /// The values at their places among all buckets. Buckets that are none of them (days that a
    /// change of the clocks has moved) are left out.
    pub(super) fn fill(
        &self,
        starts: &[i64],
        values: &[f64],
        grid: &TimeColumn,
    ) -> Result<SeriesPoints, Error> {
        let fill = match self.downsampler.fill {
            FillPolicy::Zero => 0.0,
            _ => f64::NAN,
        };
        let mut filled = vec![fill; grid.len()];
        let mut placed = 0;
        let mut row = 0;
        for (start, value) in starts.iter().zip(values) {
            row += grid[row..].partition_point(|time| time < start);
            if grid.get(row) == Some(start) {
                filled[row] = *value;
                placed += 1;
            }
        }
        if self.downsampler.fill == FillPolicy::Scalar && placed < grid.len() {
            let message = "unhandled fill policy";
            return Err(Error::bad_request(message).with_details(message));
        }
        Ok(SeriesPoints::floats(grid.clone(), filled))
    }
}

/// The starts of all buckets that a scan touches; the last one is not whole and left out.
fn grid(interval: &Interval, scan: Scan) -> Result<TimeColumn, Error> {
    let mut starts = Vec::new();
    let mut push = |start| {
        if starts.len() == FILLED_BUCKETS_MAX {
            return Err(too_many_buckets());
        }
        starts.push(start);
        Ok(())
    };
    match interval {
        Interval::All => {}
        Interval::Fixed(length) => {
            let (mut start, end) = (floor(scan.start_ms, *length), floor(scan.end_ms, *length));
            while start < end {
                push(start)?;
                start += length;
            }
        }
        Interval::Calendar(calendar, _) => {
            let mut start = calendar.floor(scan.start_ms);
            let end = calendar.floor(scan.end_ms);
            while start < end {
                push(start)?;
                start = calendar.next(start);
            }
        }
    }
    Ok(starts.into())
}

pub(super) fn too_many_buckets() -> Error {
    Error::new(
        http::StatusCode::PAYLOAD_TOO_LARGE,
        format!(
            "Sorry, the fill policy makes more than {FILLED_BUCKETS_MAX} intervals. Please use a longer interval or decrease your time range."
        ),
    )
}

struct Reduction<'a> {
    function: Function,
    values: &'a [f64],
    bounds: &'a [u32],
}

impl WithFold<f64> for Reduction<'_> {
    type Output = Vec<f64>;

    fn run<F: Fold<f64>>(self) -> Vec<f64> {
        let of_bucket = |bounds: &[u32]| {
            let mut state = F::new(self.function);
            for value in &self.values[bounds[0] as usize..bounds[1] as usize] {
                state.add(*value);
            }
            state.finish()
        };
        self.bounds.windows(2).map(of_bucket).collect()
    }
}
