//! Start timestamps: when a counter started, if the client reports it.

use super::series::RangeSeries;

/// Start timestamps of the samples, 0 if unknown; empty if none is known.
#[derive(Debug, Default)]
pub(super) struct StartTimes {
    pub(super) floats: Vec<i64>,
    pub(super) histograms: Vec<i64>,
}

impl StartTimes {
    pub(super) fn of(series: &RangeSeries) -> Self {
        if series.starts.is_empty() {
            return Self::default();
        }
        let points = series.histograms.iter().map(|point| point.time_ms);
        Self {
            floats: align(&series.starts, series.times.iter().copied()),
            histograms: align(&series.starts, points),
        }
    }
}

fn align(starts: &[(i64, i64)], times: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut rest = starts;
    times
        .map(|time| {
            while rest.first().is_some_and(|(of, _)| *of < time) {
                rest = &rest[1..];
            }
            match rest.first() {
                Some((of, start)) if *of == time => *start,
                _ => 0,
            }
        })
        .collect()
}

/// A sample's time and its start timestamp, 0 if unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleStart {
    pub(super) time: i64,
    pub(super) start: i64,
}

impl SampleStart {
    /// That of the sample at `index`; `starts` may be empty.
    pub(super) fn at(index: usize, time: i64, starts: &[i64]) -> Self {
        let start = starts.get(index).copied().unwrap_or(0);
        Self { time, start }
    }
}

/// Whether start timestamps show that the counter restarted between two samples.
pub(super) fn is_restart(previous: SampleStart, current: SampleStart) -> bool {
    // Unknown or invalid: a counter cannot start after its sample, and a start at the sample itself
    // is how OpenTelemetry encodes "unknown".
    if current.start == 0 || current.start >= current.time {
        return false;
    }
    // The same counter, even if it seems to have started after the previous sample.
    if current.start == previous.start {
        return false;
    }
    if current.start != previous.time {
        return current.start > previous.time;
    }
    // The counter started at the previous sample: a delta if the start of the previous sample is
    // known, else the second sample of a counter with an unknown start.
    previous.start != 0 && previous.start < previous.time
}

/// Whether the start of a sample lies before the time of the previous one.
pub(super) fn overlaps(previous: SampleStart, current: SampleStart) -> bool {
    current.start != 0 && current.start < previous.time && current.start != previous.start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts() {
        let of = |previous: (i64, i64), current: (i64, i64)| {
            let at = |(time, start)| SampleStart { time, start };
            is_restart(at(previous), at(current))
        };
        assert!(!of((10, 5), (20, 0)), "unknown");
        assert!(!of((10, 5), (20, 20)), "unknown, as OpenTelemetry says it");
        assert!(!of((10, 5), (20, 21)), "after the sample");
        assert!(!of((10, 5), (20, 5)), "the same counter");
        assert!(of((10, 5), (20, 11)), "a new counter");
        assert!(of((10, 5), (20, 10)), "a delta");
        assert!(
            !of((10, 0), (20, 10)),
            "unknown start, then the first sample as start"
        );
        assert!(!of((10, 10), (20, 10)), "the same, said in the other way");
        assert!(
            !of((10, 11), (20, 10)),
            "an invalid start is an unknown one"
        );
        assert!(
            !of((10, 11), (20, 11)),
            "the same start, after the first sample"
        );
        assert!(of((10, 12), (20, 11)), "another start");
    }
}
