//! Cardinality: where the series come from.

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::METRIC_NAME;

use super::labels::{LabelQuery, series};
use crate::error::Result;
use crate::ingest::head::Index;
use crate::read::Reader;

/// A name with a number, for rankings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCount {
    pub name: String,
    pub value: u64,
}

/// What rankings are to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking {
    /// Entries of each.
    pub limit: usize,
    /// A label to look at in particular.
    pub focus_label: Option<String>,
}

/// Of the series that have a label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FocusCounts {
    pub series_by_value: Vec<NamedCount>,
    pub series_by_metric: Vec<NamedCount>,
}

/// Rankings, largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cardinality {
    pub series: u64,
    pub label_pairs: u64,
    pub series_by_metric: Vec<NamedCount>,
    pub values_by_label: Vec<NamedCount>,
    pub bytes_by_label: Vec<NamedCount>,
    /// Named `label=value`.
    pub series_by_pair: Vec<NamedCount>,
    /// Where a label is looked at.
    pub focus: Option<FocusCounts>,
}

/// The metrics in the head whose names are wanted, each with its series, in no order.
pub(crate) async fn head_metrics(
    reader: &Arc<Reader>,
    wanted: impl Fn(&str) -> bool + Send + 'static,
) -> Result<Vec<NamedCount>> {
    let Some(head) = reader.head.clone() else {
        return Ok(Vec::new());
    };
    let find = move || {
        let mut found = Vec::new();
        head.index().each_value(METRIC_NAME, |name, series| {
            if wanted(name) {
                found.push(named(name, series));
            }
        });
        found
    };
    reader.context.pool.run(find).await
}

/// Of the series in the head, from its index.
pub(crate) async fn head_cardinality(
    reader: &Arc<Reader>,
    ranking: Ranking,
) -> Result<Cardinality> {
    let Some(head) = reader.head.clone() else {
        return Ok(Cardinality::default());
    };
    let count = move || {
        let mut counts = Counts::default();
        let index = head.index();
        index.each_pair(|name, value, series| counts.add(name, value, series));
        let focus = ranking.focus_label.as_deref();
        let focus = focus.map(|label| head_focus(&index, label, ranking.limit));
        Cardinality {
            focus,
            ..counts.rank(index.series_count(), ranking.limit)
        }
    };
    reader.context.pool.run(count).await
}

fn head_focus(index: &Index, label: &str, limit: usize) -> FocusCounts {
    let mut by_value = Vec::new();
    index.each_value(label, |value, series| by_value.push(named(value, series)));
    let (having, mut by_metric) = (index.with_label(label), Vec::new());
    index.each_value_of(&having, METRIC_NAME, |metric, series| {
        if series > 0 {
            by_metric.push(named(metric, series));
        }
    });
    FocusCounts {
        series_by_value: top(by_value, limit),
        series_by_metric: top(by_metric, limit),
    }
}

/// Of the series that match, in head and buckets.
pub(crate) async fn cardinality(
    reader: &Arc<Reader>,
    query: &LabelQuery,
    ranking: Ranking,
) -> Result<Cardinality> {
    let found = series(reader, query).await?;
    let count = move || {
        let pairs = found.count_pairs();
        let mut counts = Counts::default();
        for ((name, value), series) in &pairs {
            counts.add(name, value, *series);
        }
        let focus = ranking.focus_label.as_deref();
        let focus = focus.map(|label| FocusCounts {
            series_by_value: ranked(
                pairs
                    .iter()
                    .filter(|((name, _), _)| *name == label)
                    .map(|((_, value), series)| (*value, *series)),
                ranking.limit,
            ),
            series_by_metric: ranked(found.count_metrics_with(label).into_iter(), ranking.limit),
        });
        Cardinality {
            focus,
            ..counts.rank(found.len() as u64, ranking.limit)
        }
    };
    reader.context.pool.run(count).await
}

fn ranked<'n>(counts: impl Iterator<Item = (&'n str, u64)>, limit: usize) -> Vec<NamedCount> {
    top(
        counts.map(|(name, value)| named(name, value)).collect(),
        limit,
    )
}

fn named(name: &str, value: u64) -> NamedCount {
    let name = name.into();
    NamedCount { name, value }
}

#[derive(Default)]
struct Counts {
    pairs: u64,
    metrics: Vec<NamedCount>,
    labels: HashMap<String, (u64, u64)>,
    by_pair: Vec<NamedCount>,
}

impl Counts {
    fn add(&mut self, name: &str, value: &str, series: u64) {
        self.pairs += 1;
        if name == METRIC_NAME {
            self.metrics.push(named(value, series));
        }
        if !self.labels.contains_key(name) {
            self.labels.insert(name.into(), (0, 0));
        }
        if let Some((values, bytes)) = self.labels.get_mut(name) {
            *values += 1;
            *bytes += (name.len() + value.len()) as u64 * series;
        }
        self.by_pair.push(NamedCount {
            name: format!("{name}={value}"),
            value: series,
        });
    }

    fn rank(self, series: u64, limit: usize) -> Cardinality {
        let by_label = |pick: fn(&(u64, u64)) -> u64| {
            let named = self.labels.iter();
            top(
                named
                    .map(|(n, c)| NamedCount {
                        name: n.clone(),
                        value: pick(c),
                    })
                    .collect(),
                limit,
            )
        };
        Cardinality {
            series,
            label_pairs: self.pairs,
            values_by_label: by_label(|counts| counts.0),
            bytes_by_label: by_label(|counts| counts.1),
            series_by_metric: top(self.metrics, limit),
            series_by_pair: top(self.by_pair, limit),
            focus: None,
        }
    }
}

fn top(mut counts: Vec<NamedCount>, limit: usize) -> Vec<NamedCount> {
    counts.sort_unstable_by(|a, b| b.value.cmp(&a.value).then_with(|| a.name.cmp(&b.name)));
    counts.truncate(limit);
    counts
}
