//! Which series of several variables belong together, and what an expression makes of them.

use std::collections::BTreeMap;

use http::StatusCode;
use icecore_model::Labels;
use icecore_wire::opentsdb::number::Number;
use rayon::prelude::*;

use super::expression::Expression;
use crate::error::Error;
use crate::query::{NameKey, ResultPoints, ResultSeries};
use crate::uid::{UidKind, Uids};

/// Values that one request computes, over all series and times.
const CELLS_MAX: usize = 1 << 25;

/// What a series without a partner counts as there.
const MISSING_SERIES: f64 = 0.0;

/// What a series is called.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Identity {
    /// In the order of UIDs.
    pub(crate) metrics: Vec<String>,
    pub(crate) tags: Vec<(String, String)>,
    /// In the order of UIDs.
    pub(crate) aggregate_tags: Vec<String>,
    /// The series behind it.
    pub(crate) members: Vec<Labels>,
}

impl Identity {
    pub(crate) fn of(series: &ResultSeries) -> Self {
        Self {
            metrics: vec![series.metric.clone()],
            tags: series.tags.clone(),
            aggregate_tags: series.aggregate_tags.clone(),
            members: series.members.clone(),
        }
    }
}

/// The series of a variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variable<'a> {
    pub(crate) series: &'a [Identity],
    /// Tag keys that its query filters by.
    pub(crate) query_tagks: &'a [String],
}

/// How series are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    pub(crate) operator: SetOperator,
    /// Only the tags count that queries filter by.
    pub(crate) use_query_tags: bool,
    /// Tag keys that were aggregated count.
    pub(crate) include_agg_tags: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetOperator {
    /// Series that are in any variable.
    Union,
    /// Series that are in all variables.
    Intersection,
}

impl Default for Join {
    fn default() -> Self {
        Self {
            operator: SetOperator::Union,
            use_query_tags: false,
            include_agg_tags: true,
        }
    }
}

/// Series that belong together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Joined {
    pub(crate) identity: Identity,
    /// For each variable, which of its series it is.
    pub(crate) inputs: Vec<Option<usize>>,
}

impl Join {
    /// The series of all variables by their tags, in the order of UIDs. Tags are those of the first
    /// variable.
    pub(crate) fn join(self, uids: &Uids, variables: &[Variable<'_>]) -> Vec<Joined> {
        let mut by_key: BTreeMap<Vec<NameKey>, Vec<Option<usize>>> = BTreeMap::new();
        for (v, variable) in variables.iter().enumerate() {
            for (s, series) in variable.series.iter().enumerate() {
                let key = self.key(uids, series, variable.query_tagks);
                let inputs = by_key.entry(key);
                inputs.or_insert_with(|| vec![None; variables.len()])[v] = Some(s);
            }
        }
        let is_kept = |inputs: &Vec<Option<usize>>| {
            self.operator == SetOperator::Union || inputs.iter().all(Option::is_some)
        };
        let joined = by_key.into_values().filter(is_kept);
        let joined = joined.map(|inputs| Joined {
            identity: combined(uids, variables, &inputs),
            inputs,
        });
        joined.collect()
    }

    fn key(self, uids: &Uids, series: &Identity, query_tagks: &[String]) -> Vec<NameKey> {
        // Without tags, what was aggregated does not count either.
        if series.tags.is_empty() {
            return Vec::new();
        }
        let (tagks, tagvs) = (uids.read(UidKind::Tagk), uids.read(UidKind::Tagv));
        let counts = |tagk: &String| !self.use_query_tags || query_tagks.contains(tagk);
        let tags = series.tags.iter().filter(|(tagk, _)| counts(tagk));
        let tags = tags.map(|(k, v)| (NameKey::of(&tagks, k), NameKey::of(&tagvs, v)));
        let mut tags: Vec<(NameKey, NameKey)> = tags.collect();
        tags.sort_unstable();
        let mut key: Vec<NameKey> = tags.into_iter().flat_map(|(k, v)| [k, v]).collect();
        if self.include_agg_tags {
            let aggregated = series.aggregate_tags.iter();
            let mut aggregated: Vec<_> = aggregated.map(|k| NameKey::of(&tagks, k)).collect();
            aggregated.sort_unstable();
            key.extend(aggregated);
        }
        key
    }
}

fn combined(uids: &Uids, variables: &[Variable<'_>], inputs: &[Option<usize>]) -> Identity {
    let mut found = Identity::default();
    for (v, (variable, input)) in variables.iter().zip(inputs).enumerate() {
        let Some(series) = input.and_then(|s| variable.series.get(s)) else {
            continue;
        };
        if v == 0 {
            found.tags = series.tags.clone();
        }
        found.metrics.extend_from_slice(&series.metrics);
        found
            .aggregate_tags
            .extend_from_slice(&series.aggregate_tags);
        found.members.extend_from_slice(&series.members);
    }
    by_uid(uids, UidKind::Metric, &mut found.metrics);
    by_uid(uids, UidKind::Tagk, &mut found.aggregate_tags);
    found
}

fn by_uid(uids: &Uids, kind: UidKind, names: &mut Vec<String>) {
    let space = uids.read(kind);
    names.sort_by_cached_key(|name| NameKey::of(&space, name));
    names.dedup();
}

/// Values of series, each at all of the times that count.
pub(crate) type Columns = Vec<Vec<f64>>;

/// Counts what is computed.
#[derive(Debug, Default)]
pub(crate) struct Cells(usize);

impl Cells {
    pub(crate) fn add(&mut self, series: usize, times: usize) -> Result<(), Error> {
        self.0 = self.0.saturating_add(series.saturating_mul(times));
        if self.0 <= CELLS_MAX {
            return Ok(());
        }
        let message = format!("Expressions must not compute more than {CELLS_MAX} values");
        Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, message))
    }
}

/// The values of a series at some times; the fill where it has none.
pub(crate) fn column(points: &ResultPoints, times: &[i64], fill: f64) -> Vec<f64> {
    let mut known = points.times.iter().zip(&points.values).peekable();
    let value = |time: &i64| {
        while known.next_if(|(t, _)| **t < *time).is_some() {}
        match known.next_if(|(t, _)| **t == *time) {
            Some((_, Number::Integer(value))) => *value as f64,
            Some((_, Number::Float(value))) => *value,
            None => fill,
        }
    };
    times.iter().map(value).collect()
}

/// The results of an expression, for each of the joined series at all times. Values that are not a
/// number count as the fill of their variable.
pub(crate) fn compute(
    expression: &Expression,
    joined: &[Joined],
    inputs: &[(&Columns, f64)],
    times: usize,
) -> Columns {
    let of_series = |series: &Joined| {
        let mut values = vec![MISSING_SERIES; inputs.len()];
        let at = |row: usize| {
            let given = series.inputs.iter().zip(inputs).zip(&mut values);
            for ((input, (columns, fill)), value) in given {
                if let Some(s) = input {
                    let known = columns[*s][row];
                    *value = if known.is_nan() { *fill } else { known };
                }
            }
            expression.evaluate(&values)
        };
        (0..times).map(at).collect()
    };
    joined.par_iter().map(of_series).collect()
}

/// All times that any series has.
pub(crate) fn union_of_times<'a>(all: impl Iterator<Item = &'a ResultPoints>) -> Vec<i64> {
    let mut times: Vec<i64> = Vec::new();
    for points in all {
        // Most series have the times that others have.
        if times != points.times {
            times.extend_from_slice(&points.times);
            // Two ordered runs: the stable sort merges them.
            times.sort();
            times.dedup();
        }
    }
    times
}
