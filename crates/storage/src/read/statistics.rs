//! Cardinality: where the series come from.

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::{Labels, METRIC_NAME};

use super::labels::{LabelQuery, series};
use crate::error::Result;
use crate::read::Reader;

/// A name with a number, for rankings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCount {
    pub name: String,
    pub value: u64,
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
}

/// Of the series in the head, from its index.
pub(crate) async fn head_cardinality(reader: &Arc<Reader>, limit: usize) -> Result<Cardinality> {
    let Some(head) = reader.head.clone() else {
        return Ok(Cardinality::default());
    };
    let count = move || {
        let mut counts = Counts::default();
        let index = head.index();
        index.each_pair(|name, value, series| counts.add(name, value, series));
        counts.rank(index.series_count(), limit)
    };
    reader.context.pool.run(count).await
}

/// Of the series that match, in head and buckets.
pub(crate) async fn cardinality(
    reader: &Arc<Reader>,
    query: &LabelQuery,
    limit: usize,
) -> Result<Cardinality> {
    let found = series(reader, query).await?;
    let count = move || {
        let found = found.into_labels();
        let mut pairs: HashMap<(&str, &str), u64> = HashMap::new();
        for pair in found.iter().flat_map(Labels::iter) {
            *pairs.entry(pair).or_default() += 1;
        }
        let mut counts = Counts::default();
        for ((name, value), series) in pairs {
            counts.add(name, value, series);
        }
        counts.rank(found.len() as u64, limit)
    };
    reader.context.pool.run(count).await
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
            self.metrics.push(NamedCount {
                name: value.into(),
                value: series,
            });
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
        }
    }
}

fn top(mut counts: Vec<NamedCount>, limit: usize) -> Vec<NamedCount> {
    counts.sort_unstable_by(|a, b| b.value.cmp(&a.value).then_with(|| a.name.cmp(&b.name)));
    counts.truncate(limit);
    counts
}
