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
