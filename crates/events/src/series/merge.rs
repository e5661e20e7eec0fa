//! Views and ordinary series in one stream, in label order.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use icecore_model::{BoxFuture, Levels, SelectHints, SeriesSamples, SeriesStream, SourceError};

use super::stream::{ViewSeries, ViewStream};

/// Series of a batch at most.
const BATCH_SERIES: usize = 256;

pub(super) struct MergedStream {
    views: ViewStream,
    next_views: VecDeque<ViewSeries>,
    views_ended: bool,
    ordinary: Box<dyn SeriesStream>,
    next_ordinary: VecDeque<SeriesSamples>,
    ordinary_ended: bool,
    series_left: usize,
    samples_limit: usize,
    samples: usize,
}

impl MergedStream {
    pub(super) fn new(
        views: ViewStream,
        ordinary: Box<dyn SeriesStream>,
        hints: &SelectHints,
    ) -> Self {
        Self {
            views,
            next_views: VecDeque::new(),
            views_ended: false,
            ordinary,
            next_ordinary: VecDeque::new(),
            ordinary_ended: false,
            series_left: hints.series_limit.unwrap_or(usize::MAX),
            samples_limit: hints.samples_limit.unwrap_or(usize::MAX),
            samples: 0,
        }
    }

    /// Reads on where nothing is left to be compared.
    async fn fill(&mut self) -> Result<(), SourceError> {
        while self.next_views.is_empty() && !self.views_ended {
            match self.views.next().await? {
                Some(batch) => self.next_views.extend(batch),
                None => self.views_ended = true,
            }
        }
        while self.next_ordinary.is_empty() && !self.ordinary_ended {
            match self.ordinary.next_batch().await? {
                Some(batch) => self.next_ordinary.extend(batch),
                None => self.ordinary_ended = true,
            }
        }
        Ok(())
    }

    /// The next series of both. `None` where one has to be read on, or both have ended.
    fn pop(&mut self) -> Option<SeriesSamples> {
        loop {
            let (view, ordinary) = (self.next_views.front(), self.next_ordinary.front());
            let order = match (view, ordinary) {
                (Some(view), Some(ordinary)) => view.series.labels.cmp(&ordinary.labels),
                (Some(_), None) if self.ordinary_ended => Ordering::Less,
                (None, Some(_)) if self.views_ended => Ordering::Greater,
                _ => return None,
            };
            if order == Ordering::Greater {
                return self.next_ordinary.pop_front();
            }
            if order == Ordering::Equal {
                self.next_ordinary.pop_front();
            }
            let view = self.next_views.pop_front()?;
            if view.has_samples {
                return Some(view.series);
            }
            // Hidden all the same; the other side may have to be read on now.
            if self.next_views.is_empty() || self.next_ordinary.is_empty() {
                return None;
            }
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<SeriesSamples>>, SourceError> {
        let mut batch = Vec::new();
        while batch.len() < BATCH_SERIES.min(self.series_left) {
            let Some(series) = self.pop() else {
                // A batch that has something is handed over before more is read.
                if !batch.is_empty() {
                    break;
                }
                self.fill().await?;
                if self.next_views.is_empty() && self.next_ordinary.is_empty() {
                    return Ok(None);
                }
                continue;
            };
            self.samples = self.samples.saturating_add(series.sample_count());
            if self.samples > self.samples_limit {
                let limit = self.samples_limit;
                let reason = format!("the selection has more than {limit} samples");
                return Err(SourceError::LimitReached(reason));
            }
            batch.push(series);
        }
        self.series_left -= batch.len();
        Ok(Some(batch).filter(|batch| !batch.is_empty()))
    }
}

impl SeriesStream for MergedStream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        Box::pin(self.next())
    }

    fn levels(&self) -> Vec<Arc<Levels>> {
        self.ordinary.levels()
    }

    fn kept_since_ms(&self) -> Option<i64> {
        self.ordinary.kept_since_ms()
    }
}
