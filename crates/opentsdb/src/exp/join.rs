//! Which series of several variables belong together, and what an expression makes of them.

use std::collections::{BTreeMap, BTreeSet};

use http::StatusCode;
use icecore_model::Labels;
use rayon::prelude::*;

use super::expression::Expression;
use crate::error::Error;
use crate::query::{NameKey, ResultPoints, ResultSeries};
use crate::uid::{UidKind, Uids};

/// Values that one request reads and computes, over all series and times.
const CELLS_MAX: usize = 1 << 24;

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

/// Tags by which series of different variables are joined.
type Key = Vec<NameKey>;

/// The outcome of a join.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JoinedSeries {
    pub(crate) all: Vec<Joined>,
    /// For each variable, the series whose times are rows: also those that another series of the
    /// same key has taken the place of.
    pub(crate) of_rows: Vec<Vec<usize>>,
}

impl Join {
    /// Joins the series of all variables by their tags, in the order of UIDs. Tags are those of the
    /// first variable. Of several series of a variable with one key the last one counts.
    pub(crate) fn join(self, uids: &Uids, variables: &[Variable<'_>]) -> JoinedSeries {
        let keys = variables.iter().map(|variable| {
            let series = variable.series.iter();
            let keys = series.map(|series| self.key(uids, series, variable.query_tagks));
            keys.collect::<Vec<Key>>()
        });
        let keys: Vec<Vec<Key>> = keys.collect();
        let mut by_key: BTreeMap<&Key, Vec<Option<usize>>> = BTreeMap::new();
        for (v, keys) in keys.iter().enumerate() {
            for (s, key) in keys.iter().enumerate() {
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
        JoinedSeries {
            all: joined.collect(),
            of_rows: self.of_rows(&keys),
        }
    }

    /// Returns the series whose times are rows. The original goes through the variables of an
    /// intersection one after the other and leaves out what the others lack; of series before that
    /// have one key it then finds the last alone.
    fn of_rows(self, keys: &[Vec<Key>]) -> Vec<Vec<usize>> {
        let mut is_out: Vec<Vec<bool>> = keys.iter().map(|of| vec![false; of.len()]).collect();
        if self.operator == SetOperator::Intersection {
            let lasts = keys.iter().map(|of| of.iter().zip(0..).collect());
            let lasts: Vec<BTreeMap<&Key, usize>> = lasts.collect();
            let mut kept: BTreeSet<&Key> = keys.iter().take(1).flatten().collect();
            for (v, of_variable) in keys.iter().enumerate().skip(1) {
                for (key, is_out) in of_variable.iter().zip(&mut is_out[v]) {
                    *is_out = !kept.contains(key);
                }
                let is_here = |key: &&Key| lasts[v].contains_key(*key);
                let (here, missing): (BTreeSet<_>, BTreeSet<_>) =
                    kept.into_iter().partition(is_here);
                for key in missing {
                    for (before, last) in lasts[..v].iter().enumerate() {
                        if let Some(s) = last.get(key) {
                            is_out[before][*s] = true;
                        }
                    }
                }
                kept = here;
            }
        }
        let of_variable = |is_out: Vec<bool>| {
            let series = is_out.into_iter().enumerate();
            let series = series.filter(|(_, is_out)| !is_out);
            series.map(|(s, _)| s).collect::<Vec<usize>>()
        };
        is_out.into_iter().map(of_variable).collect()
    }

    fn key(self, uids: &Uids, series: &Identity, query_tagks: &[String]) -> Key {
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

/// Counts what is read and computed.
#[derive(Debug, Default)]
pub(crate) struct Cells(usize);

impl Cells {
    /// Counts the points of results.
    pub(crate) fn add_results(&mut self, results: &[ResultSeries]) -> Result<(), Error> {
        self.add(1, results.iter().map(|s| s.points.times.len()).sum())
    }

    pub(crate) fn add(&mut self, series: usize, times: usize) -> Result<(), Error> {
        self.0 = self.0.saturating_add(series.saturating_mul(times));
        if self.0 <= CELLS_MAX {
            return Ok(());
        }
        let message = format!("Expressions must not read and compute more than {CELLS_MAX} values");
        Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, message))
    }
}

/// The values of a series at some times; the fill where it has none.
pub(crate) fn column(points: &ResultPoints, times: &[i64], fill: f64) -> Vec<f64> {
    let mut known = points.times.iter().zip(&points.values).peekable();
    let value = |time: &i64| {
        while known.next_if(|(t, _)| **t < *time).is_some() {}
        match known.next_if(|(t, _)| **t == *time) {
            Some((_, value)) => value.to_f64(),
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

#[cfg(test)]
mod tests {
    use icecore_wire::opentsdb::number::Number;

    use super::*;

    fn identity(metric: &str, tags: &[(&str, &str)], aggregated: &[&str]) -> Identity {
        let tag = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        Identity {
            metrics: vec![metric.into()],
            tags: tags.iter().map(tag).collect(),
            aggregate_tags: aggregated.iter().map(|k| (*k).to_owned()).collect(),
            members: Vec::new(),
        }
    }

    fn joined(join: Join, sets: &[Vec<Identity>], query_tagks: &[&str]) -> Vec<Joined> {
        outcome(join, sets, query_tagks).all
    }

    fn outcome(join: Join, sets: &[Vec<Identity>], query_tagks: &[&str]) -> JoinedSeries {
        let uids = Uids::new([3, 3, 3], false);
        let query_tagks: Vec<String> = query_tagks.iter().map(|k| (*k).to_owned()).collect();
        let variables = sets.iter().map(|series| Variable {
            series,
            query_tagks: &query_tagks,
        });
        join.join(&uids, &variables.collect::<Vec<_>>())
    }

    fn inputs(joined: &[Joined]) -> Vec<Vec<Option<usize>>> {
        joined.iter().map(|j| j.inputs.clone()).collect()
    }

    #[test]
    fn unions_keep_every_series_and_intersections_those_of_all() {
        let of = |metric: &str, hosts: &[&str]| {
            let series = hosts.iter().map(|h| identity(metric, &[("host", h)], &[]));
            series.collect::<Vec<_>>()
        };
        let sets = [of("a", &["web01", "db01"]), of("b", &["db02", "web01"])];
        let union = joined(Join::default(), &sets, &[]);
        assert_eq!(
            inputs(&union),
            [[Some(1), None], [None, Some(0)], [Some(0), Some(1)],]
        );
        // Tags are those of the first variable.
        assert!(union[1].identity.tags.is_empty());
        assert_eq!(union[1].identity.metrics, ["b"]);
        assert_eq!(union[2].identity.metrics, ["a", "b"]);
        let intersection = Join {
            operator: SetOperator::Intersection,
            ..Join::default()
        };
        let found = joined(intersection, &sets, &[]);
        assert_eq!(inputs(&found), [[Some(0), Some(1)]]);
        assert_eq!(found[0].identity.tags, [("host".into(), "web01".into())]);
        assert_eq!(joined(intersection, &[sets[0].clone(), vec![]], &[]), []);
    }

    #[test]
    fn series_of_one_key_have_rows_although_one_counts() {
        let of = |metric: &str, tags: &[(&str, &str)]| {
            let series = tags
                .iter()
                .map(|(h, dc)| identity(metric, &[("host", h), ("dc", dc)], &[]));
            series.collect::<Vec<_>>()
        };
        let sets = [
            of("a", &[("x", "1"), ("x", "2"), ("y", "1"), ("y", "2")]),
            of("b", &[("z", "1"), ("x", "1"), ("z", "2")]),
        ];
        let union = Join {
            use_query_tags: true,
            ..Join::default()
        };
        let found = outcome(union, &sets, &["host"]);
        assert_eq!(
            inputs(&found.all),
            [
                vec![Some(1), Some(1)],
                vec![Some(3), None],
                vec![None, Some(2)]
            ]
        );
        assert_eq!(found.of_rows, [vec![0, 1, 2, 3], vec![0, 1, 2]]);
        let intersection = Join {
            operator: SetOperator::Intersection,
            ..union
        };
        let found = outcome(intersection, &sets, &["host"]);
        assert_eq!(inputs(&found.all), [[Some(1), Some(1)]]);
        // Of the first variable the last series of a missing key is left out, of others all are.
        assert_eq!(found.of_rows, [vec![0, 1, 2], vec![1]]);
        assert_eq!(outcome(intersection, &[], &[]), JoinedSeries::default());
    }

    #[test]
    fn which_tags_count_can_be_chosen() {
        let sets = [
            vec![identity("a", &[("host", "x"), ("dc", "lga")], &["disk"])],
            vec![identity("b", &[("host", "x"), ("dc", "sjc")], &[])],
        ];
        assert_eq!(joined(Join::default(), &sets, &["host"]).len(), 2);
        let by_query = Join {
            use_query_tags: true,
            ..Join::default()
        };
        assert_eq!(joined(by_query, &sets, &["host"]).len(), 2);
        let without = Join {
            include_agg_tags: false,
            ..by_query
        };
        let found = joined(without, &sets, &["host"]);
        assert_eq!(inputs(&found), [[Some(0), Some(0)]]);
        assert_eq!(found[0].identity.aggregate_tags, ["disk"]);
        // Without tags all are one.
        let sets = [
            vec![identity("a", &[], &["host"])],
            vec![identity("b", &[], &["dc"])],
        ];
        assert_eq!(joined(Join::default(), &sets, &[]).len(), 1);
    }

    #[test]
    fn times_and_series_that_are_missing_are_filled() {
        let points = ResultPoints {
            times: vec![1, 3, 4],
            values: vec![
                Number::Integer(10),
                Number::Float(f64::NAN),
                Number::Float(1.5),
            ],
        };
        let other = ResultPoints {
            times: vec![1, 2],
            values: vec![Number::Integer(1), Number::Integer(2)],
        };
        let times = union_of_times([&points, &other].into_iter());
        assert_eq!(times, [1, 2, 3, 4]);
        let a = vec![column(&points, &times, 7.0)];
        assert_eq!(a[0][..2], [10.0, 7.0]);
        let b = vec![column(&other, &times, 0.0)];
        assert_eq!(b[0], [1.0, 2.0, 0.0, 0.0]);
        let expression = Expression::parse("a + b").unwrap();
        let series = |inputs: [Option<usize>; 2]| Joined {
            identity: Identity::default(),
            inputs: inputs.to_vec(),
        };
        let both = [
            series([Some(0), Some(0)]),
            series([Some(0), None]),
            series([None, Some(0)]),
        ];
        let found = compute(&expression, &both, &[(&a, 7.0), (&b, 0.0)], times.len());
        assert_eq!(
            found,
            [
                [11.0, 9.0, 7.0, 1.5],
                [10.0, 7.0, 7.0, 1.5],
                [1.0, 2.0, 0.0, 0.0]
            ]
        );
    }

    #[test]
    fn what_is_computed_has_a_limit() {
        let mut cells = Cells::default();
        cells.add(2, CELLS_MAX / 4).unwrap();
        assert!(cells.add(2, CELLS_MAX / 2).is_err());
        assert!(cells.add(usize::MAX, usize::MAX).is_err());
    }
}
