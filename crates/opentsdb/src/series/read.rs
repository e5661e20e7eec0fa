//! Reads series.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::StatusCode;
use icecore_model::rollup::{Edge, RollupChoice, WindowFields};
use icecore_model::{
    RolledSamples, RolledTime, SelectHints, Selection, SeriesSamples, SourceError, is_stale_nan,
};

use super::{SeriesFilter, SeriesName};
use crate::allowance::{Allowance, out_of_memory};
use crate::error::Error;
use crate::java::double_text;
use crate::tsd::Tsd;

/// Series that one request may find.
const SERIES_MAX: usize = 1_000_000;

const ALL_TIME: (i64, i64) = (i64::MIN, i64::MAX);

/// The last point of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastPoint {
    pub(crate) timestamp_ms: i64,
    pub(crate) value: String,
}

/// What the points of a series say of it, as far as they are still kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeriesPoints {
    pub(crate) count: u64,
    /// The time of the last one.
    pub(crate) last_ms: Option<i64>,
}

/// All series that pass, each once, in the order of names.
pub(crate) async fn find(
    tsd: &Tsd,
    allowance: &Allowance,
    filter: &SeriesFilter,
) -> Result<Vec<SeriesName>, Error> {
    let hints = SelectHints {
        labels_only: true,
        series_limit: Some(SERIES_MAX + 1),
        ..SelectHints::default()
    };
    let mut found = BTreeSet::new();
    let visit = |series: SeriesName, _: SeriesSamples| {
        found.insert(series);
    };
    select(tsd, allowance, filter, ALL_TIME, hints, visit).await?;
    if found.len() > SERIES_MAX {
        let message = format!("More than {SERIES_MAX} series match");
        return Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    Ok(found.into_iter().collect())
}

/// How many points the series that pass have, and the times of their last ones.
pub(crate) async fn count_points(
    tsd: &Tsd,
    allowance: &Allowance,
    filter: &SeriesFilter,
) -> Result<BTreeMap<SeriesName, SeriesPoints>, Error> {
    let mut points: BTreeMap<SeriesName, SeriesPoints> = BTreeMap::new();
    let visit = |series: SeriesName, samples: SeriesSamples| {
        let points = points.entry(series).or_default();
        let histograms = samples.histograms.iter().map(|sample| sample.timestamp_ms);
        let times = floats(&samples).map(|(timestamp_ms, _)| timestamp_ms);
        for timestamp_ms in times.chain(histograms) {
            points.add(1, timestamp_ms);
        }
        if let Some(rolled) = &samples.rolled {
            points.add_windows(rolled);
        }
    };
    let fields = WindowFields::COUNTS | WindowFields::LAST;
    let hints = SelectHints {
        rolled: RolledTime::Windows(RollupChoice::default(), fields),
        ..SelectHints::default()
    };
    select(tsd, allowance, filter, ALL_TIME, hints, visit).await?;
    Ok(points)
}

impl SeriesPoints {
    /// Adds so many, the last of them at this time.
    fn add(&mut self, count: u64, last_ms: i64) {
        if count > 0 {
            self.count += count;
            self.last_ms = self.last_ms.max(Some(last_ms));
        }
    }

    /// Adds the points that windows stand for.
    fn add_windows(&mut self, rolled: &RolledSamples) {
        for windows in &rolled.windows {
            for (at, start_ms) in windows.starts.iter().enumerate() {
                let edge = matches!(windows.edge(at), Edge::Sample(_));
                self.add(u64::from(edge), *start_ms);
                let inside = windows.interior(at);
                inside
                    .iter()
                    .for_each(|of| self.add(of.samples(), of.last_ms));
            }
        }
        for window in rolled.histograms.iter().flatten() {
            let inside = window.interior.as_ref();
            let last_ms = inside.map_or(window.start_ms, |of| of.last_ms);
            self.add(window.samples(), last_ms);
        }
    }
}

/// Floats in time order, without the marks that Prometheus puts at the end of a series.
fn floats(samples: &SeriesSamples) -> impl DoubleEndedIterator<Item = (i64, f64)> {
    let times = samples.floats.timestamps.iter().copied();
    let floats = times.zip(samples.floats.values.iter().copied());
    floats.filter(|(_, value)| !is_stale_nan(*value))
}

/// The last points from `start_ms` to `end_ms`, both included, of the series that pass.
pub(crate) async fn last_points(
    tsd: &Tsd,
    allowance: &Allowance,
    filter: &SeriesFilter,
    (start_ms, end_ms): (i64, i64),
) -> Result<BTreeMap<SeriesName, LastPoint>, Error> {
    let hints = SelectHints {
        forms: true,
        ..SelectHints::default()
    };
    let mut points: BTreeMap<SeriesName, LastPoint> = BTreeMap::new();
    let visit = |series: SeriesName, samples: SeriesSamples| {
        let Some((timestamp_ms, value)) = floats(&samples).next_back() else {
            return;
        };
        let known = points.get(&series).map(|point| point.timestamp_ms);
        if known < Some(timestamp_ms) {
            let integer = samples.forms.at(timestamp_ms).integer(value);
            let value = integer.map_or_else(|| double_text(value), |integer| integer.to_string());
            let point = LastPoint {
                timestamp_ms,
                value,
            };
            points.insert(series, point);
        }
    };
    select(tsd, allowance, filter, (start_ms, end_ms), hints, visit).await?;
    Ok(points)
}

/// Reads all series that pass, with the memory of a query and for as long as somebody waits. How
/// many points a query may read does not count here: an answer has one of them, or none.
async fn select(
    tsd: &Tsd,
    allowance: &Allowance,
    filter: &SeriesFilter,
    (start_ms, end_ms): (i64, i64),
    hints: SelectHints,
    mut visit: impl FnMut(SeriesName, SeriesSamples),
) -> Result<(), Error> {
    let selection = Selection {
        matchers: filter.matchers(&tsd.uids),
        start_ms,
        end_ms,
        hints: SelectHints {
            memory: Some(Arc::clone(&allowance.memory)),
            ..hints
        },
    };
    let mut memory = allowance.reserve(0)?;
    let mut name_bytes = 0;
    let mut stream = tsd.stores.series.select(selection).await.map_err(failed)?;
    while let Some(batch) = stream.next_batch().await.map_err(failed)? {
        allowance.check()?;
        for samples in batch {
            let series = SeriesName::of(&samples.labels, &tsd.uids);
            if let Some(series) = series.filter(|series| filter.matches(series)) {
                name_bytes += series.heap_bytes();
                visit(series, samples);
            }
        }
        // What is found is kept for as long as it is looked for, at least.
        memory.set(name_bytes).map_err(out_of_memory)?;
    }
    Ok(())
}

fn failed(error: SourceError) -> Error {
    let status = match error {
        SourceError::LimitReached(_) => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Error::new(status, error.to_string())
}
