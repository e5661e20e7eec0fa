//! Windows of samples and histograms that were rolled up.

use std::sync::Arc;

use icecore_model::Histogram;
use icecore_model::rollup::{
    Edge, HistogramAggregate, HistogramEdge, HistogramWindow, Resolution, Window, WindowFields,
};
use icecore_records::rollup_histograms::HistogramRecord;
use icecore_records::rollup_series::{Decoder, RollupRecord};
use icecore_records::{Bucket, DecodeError};

use super::{Reading, summary};

impl Reading<'_> {
    pub(super) fn windows(&mut self, bucket: Bucket, value: &[u8]) -> Result<(), DecodeError> {
        let record = RollupRecord::parse(bucket, value)?;
        let windows = Decoder::default().windows(&record)?;
        let starts = windows.iter().map(|window| window.start_ms);
        let samples = windows.iter().filter_map(Window::all);
        let samples = samples.map(|all| all.samples()).sum();
        self.window_facts(record.resolution(), starts, samples);
        let is_lean = !record.fields().contains(WindowFields::ALL);
        self.lines(is_lean.then_some("some columns are not kept"));
        self.lines(windows.iter().map(window_line));
        Ok(())
    }

    pub(super) fn histogram_windows(
        &mut self,
        bucket: Bucket,
        value: &[u8],
    ) -> Result<(), DecodeError> {
        let record = HistogramRecord::parse(bucket, value)?;
        let all = bucket.start_ms()..bucket.end_ms();
        let windows = record.windows(WindowFields::ALL, all)?;
        let starts = windows.iter().map(|window| window.start_ms);
        let samples = windows.iter().map(HistogramWindow::samples).sum();
        self.window_facts(record.resolution(), starts, samples);
        self.lines(windows.iter().map(histogram_window_line));
        Ok(())
    }

    fn window_facts(
        &mut self,
        resolution: Resolution,
        starts: impl ExactSizeIterator<Item = i64> + DoubleEndedIterator + Clone,
        samples: u64,
    ) {
        self.view.fact("resolution", resolution.to_string());
        self.view.fact("windows", starts.len());
        self.view.fact("samples", samples);
        let (first, last) = (starts.clone().next(), starts.clone().next_back());
        self.view.range(first, last);
    }
}

fn window_line(window: &Window) -> String {
    let edge = match window.edge {
        Edge::None => String::new(),
        Edge::Sample(value) => format!(" edge {value}"),
        Edge::Stale => " edge stale".to_owned(),
    };
    let interior = window.interior.map_or_else(String::new, |of| {
        format!(
            " samples {} from {} at {} to {} at {} sum {}",
            of.samples(),
            of.first,
            of.first_ms,
            of.last,
            of.last_ms,
            of.sum
        )
    });
    let end = end(window.ends_stale);
    format!("{}{edge}{interior}{end}", window.start_ms)
}

fn histogram_window_line(window: &HistogramWindow) -> String {
    let edge = match &window.edge {
        HistogramEdge::None => String::new(),
        HistogramEdge::Sample(histogram) => format!(" edge ({})", summary(histogram)),
        HistogramEdge::Stale => " edge stale".to_owned(),
    };
    let interior = window.interior.as_ref().map_or_else(String::new, |of| {
        let HistogramAggregate {
            samples,
            first_ms,
            last_ms,
            resets,
            ..
        } = of;
        let part = |histogram: &Option<Arc<Histogram>>| match histogram {
            Some(histogram) => summary(histogram),
            None => "none".to_owned(),
        };
        let (last, sum) = (part(&of.last), part(&of.sum));
        format!(
            " samples {samples} from {first_ms} to {last_ms} resets {resets} last ({last}) sum ({sum})"
        )
    });
    let end = end(window.ends_stale);
    format!("{}{edge}{interior}{end}", window.start_ms)
}

fn end(is_stale: bool) -> &'static str {
    if is_stale { ", then stale" } else { "" }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use icecore_model::rollup::{roll_up, roll_up_histograms};
    use icecore_model::{BucketSize, BucketStart, CounterResetHint, HistogramCounts};
    use icecore_records::{SeriesId, key, rollup_histograms, rollup_series};

    use super::super::{Fact, describe};
    use super::*;

    fn bucket() -> Bucket {
        let size = BucketSize::from_exponent(6).expect("a size");
        let start = BucketStart(0);
        Bucket { size, start }
    }

    fn histogram(count: u64) -> Arc<Histogram> {
        Arc::new(Histogram {
            schema: 2,
            reset_hint: CounterResetHint::Unknown,
            zero_threshold: 0.001,
            sum: 1.5,
            counts: HistogramCounts::Integer {
                count,
                zero_count: count,
                positive_deltas: Vec::new(),
                negative_deltas: Vec::new(),
            },
            ..Histogram::stale()
        })
    }

    #[test]
    fn windows_are_described() {
        let minute = 60_000;
        let windows = roll_up(Resolution::HOUR, (0..90).map(|i| (i * minute, 2.0)));
        let value = rollup_series::encode(bucket(), Resolution::HOUR, WindowFields::ALL, &windows);
        let id = SeriesId(7);
        let view = describe(&key::rollup_series(bucket(), id), &value.into(), true);
        assert_eq!(view.problem, None);
        let fact = |name: &str, of: &[(&str, Fact)]| {
            let found = of.iter().find(|(fact, _)| *fact == name);
            found.map(|(_, fact)| fact.clone())
        };
        assert_eq!(fact("windows", &view.facts), Some(Fact::Count(2)));
        assert_eq!(fact("samples", &view.facts), Some(Fact::Count(90)));
        assert_eq!(
            view.details[1],
            "3600000 edge 2 samples 29 from 2 at 3660000 to 2 at 5340000 sum 58"
        );

        let histograms: Vec<_> = (1..5)
            .map(|i| (i * minute, histogram(9 - i as u64)))
            .collect();
        let stale = Arc::new(Histogram::stale());
        let timed = histograms.iter().map(|(time, of)| (*time, of));
        let timed = timed.chain([(5 * minute, &stale)]);
        let windows = roll_up_histograms(Resolution::HOUR, timed);
        let value = rollup_histograms::encode(bucket(), Resolution::HOUR, &windows);
        let key = key::rollup_histograms(bucket(), id);
        let value = Bytes::from(value);
        let view = describe(&key, &value, true);
        assert_eq!(fact("samples", &view.facts), Some(Fact::Count(4)));
        let resolution = Some(Fact::Text("1h".to_owned()));
        assert_eq!(fact("resolution", &view.facts), resolution);
        assert_eq!(
            view.details,
            ["0 samples 4 from 60000 to 240000 resets 3 \
              last (schema 2 count 5 sum 1.5 buckets 0) \
              sum (schema 2 count 26 (float) sum 6 buckets 0), then stale"]
        );
        let broken = describe(&key, &value.slice(..value.len() - 1), false);
        assert!(broken.problem.is_some());
    }
}
