//! Points of a request, in parts that a store takes one by one.

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::{HOUR_MS, Histogram, NumberForm, RawLabels, Sample, SampleSink};

/// What one write may have.
#[derive(Clone, Copy, Debug)]
pub struct PartLimits {
    /// Hours from the first to the last point.
    pub hours_max: i64,
    pub points_max: usize,
}

/// Points of series, in the order in which they count.
#[derive(Default)]
pub(super) struct PointBatch {
    /// Labels, as [`RawLabels`] has them.
    series: Vec<Vec<u8>>,
    known: HashMap<Vec<u8>, usize>,
    points: Vec<Point>,
}

struct Point {
    series: usize,
    timestamp_ms: i64,
    value: PointValue,
}

pub(super) enum PointValue {
    Number(f64, NumberForm),
    Histogram(Box<Histogram>),
}

impl PointBatch {
    /// The number of a series in this batch.
    pub(super) fn series(&mut self, labels: Vec<u8>) -> usize {
        let (series, next) = (&mut self.series, self.known.len());
        *self.known.entry(labels).or_insert_with_key(|labels| {
            series.push(labels.clone());
            next
        })
    }

    pub(super) fn push(&mut self, series: usize, timestamp_ms: i64, value: PointValue) {
        self.points.push(Point {
            series,
            timestamp_ms,
            value,
        });
    }

    /// Parts in time order; within a part series by series, points in their order.
    pub(super) fn into_parts(mut self, limits: PartLimits) -> Vec<Arc<BatchPart>> {
        let series = Arc::new(self.series);
        self.points
            .sort_by_key(|point| point.timestamp_ms.div_euclid(HOUR_MS));
        let hours: Vec<i64> = self
            .points
            .iter()
            .map(|point| point.timestamp_ms.div_euclid(HOUR_MS))
            .collect();
        let mut points = self.points.into_iter();
        let mut parts = Vec::new();
        for length in part_lengths(&hours, limits) {
            let mut points: Vec<Point> = points.by_ref().take(length).collect();
            points.sort_by_key(|point| point.series);
            parts.push(Arc::new(BatchPart {
                series: Arc::clone(&series),
                points,
            }));
        }
        parts
    }
}

/// How many of the next points belong together; hours are in order.
pub(super) fn part_lengths(hours: &[i64], limits: PartLimits) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut rest = hours;
    while let Some(first) = rest.first() {
        let end = first.saturating_add(limits.hours_max.max(1));
        let length = rest.partition_point(|hour| *hour < end);
        let length = length.min(limits.points_max.max(1));
        lengths.push(length);
        rest = rest.get(length..).unwrap_or_default();
    }
    lengths
}

/// What one write stores.
pub(super) struct BatchPart {
    series: Arc<Vec<Vec<u8>>>,
    points: Vec<Point>,
}

impl BatchPart {
    pub(super) fn write(&self, sink: &mut dyn SampleSink) {
        let mut announced = None;
        for point in &self.points {
            if announced != Some(point.series) {
                sink.series(RawLabels(&self.series[point.series]));
                announced = Some(point.series);
            }
            let timestamp_ms = point.timestamp_ms;
            match &point.value {
                PointValue::Number(value, form) => {
                    let sample = Sample {
                        timestamp_ms,
                        value: *value,
                        start_timestamp_ms: 0,
                    };
                    sink.number(sample, *form);
                }
                PointValue::Histogram(histogram) => {
                    sink.histogram(timestamp_ms, 0, histogram.as_ref().clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_few_hours_and_few_points() {
        let limits = PartLimits {
            hours_max: 3,
            points_max: 4,
        };
        for (hours, expected) in [
            (&[][..], &[][..]),
            (&[5], &[1]),
            (&[1, 1, 1, 1, 1], &[4, 1]),
            (&[1, 2, 3, 4, 9], &[3, 1, 1]),
            (&[-2, 0, 1], &[2, 1]),
        ] {
            assert_eq!(part_lengths(hours, limits), expected, "{hours:?}");
        }
        let none = PartLimits {
            hours_max: 0,
            points_max: 0,
        };
        assert_eq!(part_lengths(&[1, 2], none), [1, 1]);
    }
}
