//! A source whose samples are rolled up, some time ago and at several levels.

use std::sync::Arc;

use icecore_model::rollup::{
    HistogramWindow, Resolution, RollupChoice, Segment, Window, WindowColumns, WindowFields,
    last_histogram_positions, last_positions, roll_up, roll_up_histogram_windows,
    roll_up_histograms, roll_up_windows, unite_ends,
};
use icecore_model::{
    BoxFuture, HistogramSample, Levels, RolledSamples, RolledTime, SelectHints, Selection,
    SeriesSamples, SeriesSource, SeriesStream, SourceError, is_stale_nan,
};

use crate::memory_source::MemorySource;

/// Series per batch: a few, so that queries get several.
const BATCH_SERIES: usize = 3;

/// A part of time, and the levels at which it is kept, the finest first.
#[derive(Clone, Debug)]
pub struct KeptTime {
    pub start_ms: i64,
    /// The first millisecond after it.
    pub end_ms: i64,
    /// With the columns that windows have.
    pub levels: Vec<(Resolution, WindowFields)>,
}

impl KeptTime {
    /// Kept at one level, with all columns.
    pub fn at(start_ms: i64, end_ms: i64, resolution: Resolution) -> Self {
        Self {
            start_ms,
            end_ms,
            levels: vec![(resolution, WindowFields::ALL)],
        }
    }
}

/// Samples in memory, rolled up when they are read.
#[derive(Clone, Debug)]
pub struct RolledSource {
    pub samples: MemorySource,
    /// In time order, without gaps; borders lie on the grids of both sides.
    pub kept: Vec<KeptTime>,
    /// How much earlier than needed it begins to read, as a source may.
    pub reads_before_ms: i64,
}

impl RolledSource {
    /// The level of a part of time; the excluded one where none may be read.
    fn level(
        kept: &KeptTime,
        choice: &RollupChoice,
        fields: WindowFields,
    ) -> Result<(Resolution, WindowFields), Resolution> {
        let preferred = |level: &&(Resolution, WindowFields)| {
            choice.prefers(level.0) && (level.0.is_raw() || level.1.contains(fields))
        };
        let coarsest = kept.levels.iter().rev().find(preferred);
        let finest = kept.levels.first();
        match coarsest.or(finest) {
            Some(level) if choice.among([]).permits(level.0) => Ok(*level),
            Some(level) => Err(level.0),
            None => Ok((Resolution::RAW, WindowFields::NONE)),
        }
    }

    /// The segments of a selection, with the columns that are kept there.
    fn segments(
        &self,
        selection: &Selection,
        choice: &RollupChoice,
        fields: WindowFields,
    ) -> (Levels, Vec<WindowFields>) {
        let level_at = |time: i64| {
            let kept = self.kept.iter().find(|kept| time < kept.end_ms);
            let level = kept.and_then(|kept| Self::level(kept, choice, fields).ok());
            level.map_or(Resolution::RAW, |(resolution, _)| resolution)
        };
        let start_ms = choice.read_start(selection.start_ms, level_at);
        let start_ms = start_ms.saturating_sub(self.reads_before_ms);
        let mut levels = Levels::default();
        let mut kept_fields = Vec::new();
        for kept in &self.kept {
            if kept.end_ms <= start_ms || kept.start_ms > selection.end_ms {
                continue;
            }
            let level = Self::level(kept, choice, fields);
            let (resolution, has) = match level {
                Ok(level) => level,
                Err(excluded) => {
                    levels.excluded = Some((excluded, kept.end_ms));
                    continue;
                }
            };
            let segment = Segment {
                start_ms: kept.start_ms.max(resolution.floor(start_ms)),
                end_ms: kept.end_ms,
                resolution,
            };
            levels.segments.push(segment);
            kept_fields.push(has);
        }
        (levels, kept_fields)
    }

    fn series(
        &self,
        all: SeriesSamples,
        selection: &Selection,
        levels: &Arc<Levels>,
        kept_fields: &[WindowFields],
        fields: WindowFields,
    ) -> SeriesSamples {
        let mut raw = Vec::new();
        let mut raw_histograms = Vec::new();
        let (mut windows, mut histograms) = (Vec::new(), Vec::new());
        for (segment, kept) in levels.segments.iter().zip(kept_fields) {
            let within = |time: i64| (segment.start_ms..segment.end_ms).contains(&time);
            let floats = all.floats.timestamps.iter().zip(&all.floats.values);
            let floats = floats.filter(|(time, _)| within(**time));
            let samples: Vec<(i64, f64)> = floats.map(|(time, value)| (*time, *value)).collect();
            let of_histograms = all.histograms.iter().filter(|h| within(h.timestamp_ms));
            if segment.resolution.is_raw() {
                let end_ms = selection.end_ms;
                raw.extend(samples.into_iter().filter(|(time, _)| *time <= end_ms));
                let until = of_histograms.filter(|sample| sample.timestamp_ms <= end_ms);
                raw_histograms.extend(until.cloned());
                continue;
            }
            let missing = fields.without(*kept);
            let (mut rolled, mut rolled_histograms) =
                rolled_up(segment.resolution, &samples, of_histograms);
            rolled.retain(|window| window.start_ms <= selection.end_ms);
            rolled_histograms.retain(|window| window.start_ms <= selection.end_ms);
            windows.push(WindowColumns::from_windows(
                &rolled,
                fields.without(missing),
            ));
            for window in &mut rolled_histograms {
                read_only(window, fields.of_histograms());
            }
            histograms.push(rolled_histograms);
        }
        SeriesSamples {
            floats: icecore_model::FloatColumns {
                timestamps: raw.iter().map(|(time, _)| *time).collect(),
                values: raw.iter().map(|(_, value)| *value).collect(),
            },
            histograms: raw_histograms,
            forms: Default::default(),
            rolled: Some(RolledSamples {
                levels: Arc::clone(levels),
                windows,
                histograms,
                room: Default::default(),
            }),
            labels: all.labels,
            start_timestamps: all.start_timestamps,
        }
    }
}

/// Each level is made of the next finer one, as a store does it.
fn rolled_up<'h>(
    resolution: Resolution,
    samples: &[(i64, f64)],
    histograms: impl Iterator<Item = &'h HistogramSample>,
) -> (Vec<Window>, Vec<HistogramWindow>) {
    let fine = Resolution::FIVE_MINUTES.min(resolution);
    let timed: Vec<_> = histograms.map(|h| (h.timestamp_ms, &h.histogram)).collect();
    let mut floats = roll_up(fine, samples.iter().copied());
    let mut histograms = roll_up_histograms(fine, timed.iter().copied());
    let float_times: Vec<i64> = samples.iter().map(|(time, _)| *time).collect();
    let histogram_times: Vec<i64> = timed.iter().map(|(time, _)| *time).collect();
    let float_ends = (&mut floats, &float_times[..]);
    unite_ends(fine, float_ends, (&mut histograms, &histogram_times));
    if resolution == fine {
        return (floats, histograms);
    }
    let float_positions = last_positions(&floats);
    let histogram_positions = last_histogram_positions(&histograms);
    let mut floats = roll_up_windows(resolution, &floats);
    let mut histograms = roll_up_histogram_windows(resolution, &histograms);
    let float_ends = (&mut floats, &float_positions[..]);
    unite_ends(
        resolution,
        float_ends,
        (&mut histograms, &histogram_positions),
    );
    (floats, histograms)
}

/// Leaves out what is not read.
fn read_only(window: &mut HistogramWindow, fields: WindowFields) {
    let Some(interior) = &mut window.interior else {
        return;
    };
    for (field, part) in [
        (WindowFields::FIRST, &mut interior.first),
        (WindowFields::LAST, &mut interior.last),
        (WindowFields::SUM, &mut interior.sum),
        (WindowFields::CORRECTION, &mut interior.correction),
    ] {
        if !fields.contains(field) {
            *part = None;
        }
    }
}

impl SeriesSource for RolledSource {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        Box::pin(async move {
            let (choice, fields) = match selection.hints.rolled {
                RolledTime::Windows(choice, fields) => (choice, fields),
                RolledTime::Samples => {
                    let reason = "only windows are handed over here".to_string();
                    return Err(SourceError::Internal(reason));
                }
            };
            let (levels, kept_fields) = self.segments(&selection, &choice, fields);
            let levels = Arc::new(levels);
            let everything = Selection {
                start_ms: i64::MIN,
                end_ms: i64::MAX,
                hints: SelectHints::default(),
                matchers: selection.matchers.clone(),
            };
            let mut selected = Vec::new();
            for series in self.samples.read(&everything)? {
                let series = self.series(series, &selection, &levels, &kept_fields, fields);
                let has_samples = (series.floats.values.iter()).any(|v| !is_stale_nan(*v))
                    || (series.histograms.iter()).any(|sample| !sample.histogram.is_stale());
                if has_samples || series.rolled.as_ref().is_some_and(|r| !r.is_empty()) {
                    selected.push(series);
                }
            }
            let selected = selected.into_iter();
            Ok(Box::new(RolledStream { selected, levels }) as Box<dyn SeriesStream>)
        })
    }
}

struct RolledStream {
    selected: std::vec::IntoIter<SeriesSamples>,
    levels: Arc<Levels>,
}

impl SeriesStream for RolledStream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        let batch: Vec<_> = self.selected.by_ref().take(BATCH_SERIES).collect();
        Box::pin(async move { Ok(Some(batch).filter(|batch| !batch.is_empty())) })
    }

    fn levels(&self) -> Vec<Arc<Levels>> {
        vec![Arc::clone(&self.levels)]
    }
}
