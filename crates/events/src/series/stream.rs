//! The series of views, name by name, in bounded batches.

use std::collections::VecDeque;
use std::sync::Arc;

use icecore_model::{FloatColumns, NumberForms, Selection, SeriesSamples, SourceError, TimeColumn};

use super::cumulative::{CumulativeTimes, cumulative_samples};
use super::load::{Point, ViewRange, load};
use super::resolution::step_of;
use super::resolve::{Family, ResolvedSeries, resolve};
use super::views::{CellField, ViewKind};
use super::{ViewMemory, source_error};
use crate::query::CellSource;

/// Series of a batch at most.
const BATCH_SERIES: usize = 256;
/// Samples of a batch, about: what is held does not depend on the range.
const BATCH_SAMPLES: usize = 1 << 19;

/// A series of a view.
pub(super) struct ViewSeries {
    pub(super) series: SeriesSamples,
    /// In the range; also where only labels are wanted.
    pub(super) has_samples: bool,
}

/// The views of one selection. Those without samples in the range are handed over without any, so
/// that they hide ordinary series all the same.
pub(super) struct ViewStream {
    cells: Arc<dyn CellSource>,
    families: VecDeque<Family>,
    loaded: Option<LoadedFamily>,
    range: ViewRange,
    labels_only: bool,
    memory: ViewMemory,
}

struct LoadedFamily {
    family: Family,
    points: Vec<Vec<Point>>,
    held_bytes: usize,
    times: CumulativeTimes,
    next: usize,
}

impl ViewStream {
    pub(super) async fn open(
        cells: Arc<dyn CellSource>,
        selection: &Selection,
    ) -> Result<Self, SourceError> {
        let hints = &selection.hints;
        let mut memory = ViewMemory::new(hints.memory.as_ref())?;
        let range = ViewRange {
            start_ms: selection.start_ms.max(0),
            end_ms: selection.end_ms,
            now_ms: cells.now_ms(),
            guarded_ms: cells.guarded_ms(),
            step: step_of(hints),
        };
        let families = if range.start_ms <= range.end_ms {
            let bounds = (range.start_ms, range.end_ms);
            let families = resolve(&*cells, &selection.matchers, bounds, &mut memory).await;
            families.map_err(source_error)?
        } else {
            Vec::new()
        };
        Ok(Self {
            cells,
            families: families.into(),
            loaded: None,
            range,
            labels_only: hints.labels_only,
            memory,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.families.is_empty() && self.loaded.is_none()
    }

    /// The next series, or `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<ViewSeries>>, SourceError> {
        if self.loaded.is_none() {
            let Some(family) = self.families.pop_front() else {
                return Ok(None);
            };
            self.loaded = Some(self.load(family).await?);
        }
        let labels_only = self.labels_only;
        let Some(loaded) = &mut self.loaded else {
            return Ok(None);
        };
        let batch = loaded.batch(labels_only);
        if loaded.next >= loaded.family.series.len() {
            self.memory.release(loaded.held_bytes);
            self.loaded = None;
        }
        Ok(Some(batch))
    }

    async fn load(&mut self, family: Family) -> Result<LoadedFamily, SourceError> {
        // Whether a cumulative view has samples is known without its cells.
        let needs_no_cells = self.labels_only && family.kind == ViewKind::Cumulative;
        let (points, held_bytes) = if needs_no_cells {
            (vec![Vec::new(); family.series.len()], 0)
        } else {
            let loaded = load(&*self.cells, &family, self.range, &mut self.memory).await;
            loaded.map_err(source_error)?
        };
        Ok(LoadedFamily {
            family,
            points,
            held_bytes,
            times: CumulativeTimes::new(self.range),
            next: 0,
        })
    }
}

impl LoadedFamily {
    fn batch(&mut self, labels_only: bool) -> Vec<ViewSeries> {
        let is_gauge = self
            .family
            .views
            .iter()
            .any(|(v, _)| v.field == CellField::Value);
        let mut batch = Vec::new();
        let mut samples = 0;
        while batch.len() < BATCH_SERIES && samples < BATCH_SAMPLES {
            let Some(series) = self.family.series.get(self.next) else {
                break;
            };
            let points = std::mem::take(&mut self.points[self.next]);
            self.next += 1;
            let floats = match self.family.kind {
                ViewKind::Cumulative => {
                    let times = self.times.of(&self.family, series);
                    cumulative_samples(times, &points)
                }
                _ => point_samples(points, is_gauge),
            };
            samples += floats.values.len();
            let has_samples = !floats.values.is_empty();
            let floats = if labels_only {
                FloatColumns::default()
            } else {
                floats
            };
            batch.push(ViewSeries {
                series: samples_of(series, floats),
                has_samples,
            });
        }
        batch
    }
}

/// Each point is a sample. Of several with one time, the last counts for gauges; others add up.
fn point_samples(points: Vec<Point>, is_gauge: bool) -> FloatColumns {
    let mut timestamps: Vec<i64> = Vec::with_capacity(points.len());
    let mut values: Vec<f64> = Vec::with_capacity(points.len());
    for (at_ms, value) in points {
        match values
            .last_mut()
            .filter(|_| timestamps.last() == Some(&at_ms))
        {
            Some(last) if is_gauge => *last = value,
            Some(last) => *last += value,
            None => {
                timestamps.push(at_ms);
                values.push(value);
            }
        }
    }
    FloatColumns {
        timestamps: TimeColumn::from(timestamps),
        values,
    }
}

fn samples_of(series: &ResolvedSeries, floats: FloatColumns) -> SeriesSamples {
    SeriesSamples {
        labels: series.labels.clone(),
        floats,
        histograms: Vec::new(),
        start_timestamps: Vec::new(),
        forms: NumberForms::default(),
        rolled: None,
    }
}
