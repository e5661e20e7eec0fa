//! Points that are rolled up when they are read, as a store does it.

use std::sync::Arc;

use icecore_model::rollup::{
    HistogramWindow, Resolution, RollupChoice, Segment, Window, WindowColumns, WindowFields,
    roll_up, roll_up_histograms, roll_up_windows,
};
use icecore_model::{
    FloatColumns, HistogramSample, Levels, RolledSamples, RolledTime, Selection, SeriesSamples,
};

/// A part of time, and the levels at which it is kept, the finest first. Borders lie on the grids
/// of all levels; what is in no part is kept as it is.
#[derive(Clone, Debug)]
pub struct KeptTime {
    pub start_ms: i64,
    /// The first millisecond after it.
    pub end_ms: i64,
    /// With the columns that windows have.
    pub levels: Vec<(Resolution, WindowFields)>,
}

/// What a selection reads.
pub(super) struct RolledSelection {
    levels: Arc<Levels>,
    /// For each segment the columns that its windows have; `None` where nothing may be read.
    kept: Vec<Option<WindowFields>>,
    fields: WindowFields,
    hands_over_windows: bool,
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
}

impl RolledSelection {
    pub(super) fn new(kept: &[KeptTime], selection: &Selection) -> Self {
        let ends = WindowFields::FIRST | WindowFields::LAST | WindowFields::COUNTS;
        let (choice, fields, hands_over_windows) = match selection.hints.rolled {
            RolledTime::Samples => (RollupChoice::default(), ends, false),
            RolledTime::Windows(choice, fields) => (choice, fields, true),
        };
        let levels = kept.iter().flat_map(|kept| &kept.levels);
        let coarsest = levels.clone().map(|level| level.0.ms()).max().unwrap_or(0);
        let permission = choice.among(levels.map(|level| level.0));
        let mut segments: Vec<Segment> = Vec::new();
        let mut kept_fields = Vec::new();
        let mut push = |start_ms, end_ms, level: Option<(Resolution, WindowFields)>| {
            if start_ms < end_ms {
                segments.push(Segment {
                    start_ms,
                    end_ms,
                    resolution: level.map_or(Resolution::RAW, |level| level.0),
                });
                kept_fields.push(level.map(|level| level.1));
            }
        };
        let raw = Some((Resolution::RAW, WindowFields::NONE));
        let mut until_ms = i64::MIN;
        for part in kept {
            push(until_ms, part.start_ms, raw);
            let is_preferred = |level: &&(Resolution, WindowFields)| {
                let has_all = level.0.is_raw() || level.1.contains(fields);
                choice.prefers(level.0) && has_all
            };
            let preferred = part.levels.iter().rev().find(is_preferred);
            let mut finest_first = part.levels.iter();
            let level = preferred.or(finest_first.find(|level| permission.permits(level.0)));
            push(part.start_ms, part.end_ms, level.copied());
            until_ms = part.end_ms;
        }
        push(until_ms, i64::MAX, raw);
        // Stores read somewhat more than they have to where there are windows.
        let early_ms = if hands_over_windows { 2 * coarsest } else { 0 };
        Self {
            levels: Arc::new(Levels {
                segments,
                excluded: None,
            }),
            kept: kept_fields,
            fields,
            hands_over_windows,
            start_ms: selection.start_ms.saturating_sub(early_ms),
            end_ms: selection.end_ms,
        }
    }

    pub(super) fn levels(&self) -> Arc<Levels> {
        Arc::clone(&self.levels)
    }

    /// Of all samples of a series those that are read, and windows.
    pub(super) fn read(&self, all: SeriesSamples) -> SeriesSamples {
        let floats = all.floats.timestamps.iter().copied();
        let floats: Vec<(i64, f64)> = floats.zip(all.floats.values.iter().copied()).collect();
        let mut raw = Vec::new();
        let mut raw_histograms = Vec::new();
        let (mut lists, mut histograms) = (Vec::new(), Vec::new());
        for (segment, kept) in self.levels.segments.iter().zip(&self.kept) {
            let range = segment.start_ms..segment.end_ms;
            let samples = floats.iter().filter(|sample| range.contains(&sample.0));
            let of_histograms = all.histograms.iter();
            let of_histograms = of_histograms.filter(|h| range.contains(&h.timestamp_ms));
            match kept {
                _ if !segment.resolution.is_raw() => {
                    let windows = rolled_up(segment.resolution, samples.copied());
                    let read = |w: &Window| {
                        let end_ms = w.start_ms + segment.resolution.ms();
                        end_ms > self.start_ms && w.start_ms <= self.end_ms
                    };
                    let windows: Vec<Window> = windows.into_iter().filter(read).collect();
                    let missing = self.fields.without(kept.unwrap_or_default());
                    let fields = self.fields.without(missing);
                    lists.push(WindowColumns::from_windows(&windows, fields));
                    let timed = of_histograms.map(|h| (h.timestamp_ms, &h.histogram));
                    histograms.push(roll_up_histograms(segment.resolution, timed));
                }
                None => {}
                Some(_) => {
                    raw.extend(samples);
                    raw_histograms.extend(of_histograms.cloned());
                }
            }
        }
        raw_histograms.retain(|h| (self.start_ms..=self.end_ms).contains(&h.timestamp_ms));
        if !self.hands_over_windows {
            let left = histograms.iter().flatten().flat_map(HistogramWindow::left);
            raw_histograms.extend(left.map(|(timestamp_ms, histogram)| HistogramSample {
                timestamp_ms,
                histogram: Arc::clone(histogram),
            }));
            raw_histograms.sort_by_key(|sample| sample.timestamp_ms);
            raw.extend(lists.iter().flat_map(WindowColumns::samples));
            raw.sort_by_key(|sample| sample.0);
        }
        raw.retain(|sample| (self.start_ms..=self.end_ms).contains(&sample.0));
        let mut start_timestamps = all.start_timestamps;
        start_timestamps.retain(|(time, _)| self.levels.at(*time).is_raw());
        let rolled = self.hands_over_windows.then(|| RolledSamples {
            levels: self.levels(),
            windows: lists,
            histograms,
            room: Default::default(),
        });
        SeriesSamples {
            histograms: raw_histograms,
            floats: FloatColumns {
                timestamps: raw.iter().map(|sample| sample.0).collect(),
                values: raw.iter().map(|sample| sample.1).collect(),
            },
            start_timestamps,
            rolled,
            ..all
        }
    }
}

/// Each level is made of the next finer one.
fn rolled_up(level: Resolution, samples: impl Iterator<Item = (i64, f64)>) -> Vec<Window> {
    let fine = Resolution::FIVE_MINUTES.min(level);
    let windows = roll_up(fine, samples);
    if fine == level {
        return windows;
    }
    roll_up_windows(level, &windows)
}
