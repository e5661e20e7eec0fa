//! By which dimensions an answer is split, and which group a set of dimension values belongs to.
//!
//! Holds always:
//! - A dimension that is not asked for is summed over.
//! - What is asked for by value is in the answer also if there is nothing of it.

use std::collections::HashMap;

use icecore_model::event::DimensionHash;
use serde_json::Value;

use super::CellSource;
use super::request::{invalid_field, texts_of};
use crate::query::DimensionValues;
use crate::{Metric, Problem};

/// The most keys that a request can name.
const MAX_KEYS: usize = 10_000;

/// The values of a group, in the order of the dimensions that were asked for. A dimension that an
/// event did not have has none.
pub(crate) type GroupKey = Vec<Option<String>>;

/// The dimensions of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grouping {
    /// In the order of the metric's dimensions.
    pub(crate) paths: Vec<String>,
    /// For each the values that are wanted; all if none are named.
    wanted: Vec<Option<Vec<String>>>,
}

impl Grouping {
    pub(crate) fn parse(
        metric: &Metric,
        key: Option<&Value>,
        group_by: Option<Vec<String>>,
    ) -> Result<Self, Problem> {
        let empty = serde_json::Map::new();
        let key = match key {
            None => &empty,
            Some(Value::Object(key)) => key,
            Some(_) => return Err(invalid_field("key", "must be an object")),
        };
        let group_by = group_by.unwrap_or_default();
        let is_dimension = |path: &String| metric.dimensions.iter().any(|d| d.path == **path);
        if let Some(other) = key.keys().chain(&group_by).find(|path| !is_dimension(path)) {
            let detail = format!("{other} is no dimension of {}", metric.name);
            return Err(Problem::new(400, "query.unknown-dimension", detail));
        }
        let mut grouping = Self::default();
        for dimension in &metric.dimensions {
            let path = &dimension.path;
            let values = match key.get(path) {
                None | Some(Value::Null) if !group_by.contains(path) => continue,
                None | Some(Value::Null) => None,
                Some(values) => {
                    let reason = "must be a list of values";
                    let field = || invalid_field(&format!("key.{path}"), reason);
                    Some(distinct(texts_of(values).ok_or_else(field)?))
                }
            };
            grouping.paths.push(path.clone());
            grouping.wanted.push(values);
        }
        let named = grouping.wanted.iter().flatten().map(Vec::len);
        let keys = named.fold(1usize, |product, values| product.saturating_mul(values));
        if keys > MAX_KEYS {
            let detail = format!("key names more than {MAX_KEYS} combinations of values");
            return Err(Problem::new(400, "query.limit-exceeded", detail));
        }
        Ok(grouping)
    }

    /// Dimensions with the values that are wanted; all if none are named.
    pub(crate) fn of(dimensions: Vec<(&str, Option<Vec<String>>)>) -> Self {
        let (paths, wanted) = dimensions.into_iter().unzip::<&str, _, Vec<_>, _>();
        Self {
            paths: paths.into_iter().map(str::to_owned).collect(),
            wanted,
        }
    }

    /// Whether groups are those that are found.
    pub(crate) fn is_open(&self) -> bool {
        self.wanted.iter().any(Option::is_none)
    }

    /// The group of a set of values, if it is wanted.
    fn key_of(&self, values: &DimensionValues) -> Option<GroupKey> {
        let wanted = self.paths.iter().zip(&self.wanted);
        let of = |(path, wanted): (&String, &Option<Vec<String>>)| {
            let value = values.iter().find(|(at, _)| at == path);
            let value = value.map(|(_, text)| text.clone());
            match (wanted, value) {
                (None, value) => Some(value),
                (Some(wanted), Some(value)) => wanted.contains(&value).then_some(Some(value)),
                (Some(_), None) => None,
            }
        };
        wanted.map(of).collect()
    }

    /// All combinations of the values that are named.
    fn product(&self) -> Vec<GroupKey> {
        let mut keys: Vec<GroupKey> = vec![Vec::new()];
        for values in self.wanted.iter().flatten() {
            let longer = |key: &GroupKey, value: &String| {
                let mut key = key.clone();
                key.push(Some(value.clone()));
                key
            };
            let with = |key: &GroupKey| values.iter().map(|v| longer(key, v)).collect::<Vec<_>>();
            keys = keys.iter().flat_map(with).collect();
        }
        keys
    }
}

fn distinct(values: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(values.len());
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept
}

/// The groups of an answer, as far as they are known.
pub(crate) struct Groups {
    grouping: Grouping,
    keys: Vec<GroupKey>,
    by_key: HashMap<GroupKey, usize>,
    /// `None` for what is not wanted. A hash stands for the same values in every metric.
    by_hash: HashMap<DimensionHash, Option<usize>>,
    max: usize,
}

impl Groups {
    /// At most `max` groups.
    pub(crate) fn new(grouping: &Grouping, max: usize) -> Result<Self, Problem> {
        let mut groups = Self {
            grouping: grouping.clone(),
            keys: Vec::new(),
            by_key: HashMap::new(),
            by_hash: HashMap::new(),
            max,
        };
        if !grouping.is_open() {
            for key in grouping.product() {
                groups.add(key)?;
            }
        }
        Ok(groups)
    }

    pub(crate) fn paths(&self) -> &[String] {
        &self.grouping.paths
    }

    pub(crate) fn keys(&self) -> &[GroupKey] {
        &self.keys
    }

    /// The group of a cell, if it is wanted. `None` for what [`Self::learn`] was not given.
    pub(crate) fn of(&self, dimensions: &DimensionHash) -> Option<Option<usize>> {
        if self.grouping.paths.is_empty() {
            return Some(Some(0));
        }
        self.by_hash.get(dimensions).copied()
    }

    /// Looks up the sets of dimension values that were not seen before.
    pub(crate) async fn learn(
        &mut self,
        source: &dyn CellSource,
        metric: u32,
        sets: impl Iterator<Item = DimensionHash>,
    ) -> Result<(), Problem> {
        if self.grouping.paths.is_empty() {
            return Ok(());
        }
        let mut new = Vec::new();
        for set in sets {
            self.by_hash.entry(set).or_insert_with(|| {
                new.push(set);
                None
            });
        }
        if new.is_empty() {
            return Ok(());
        }
        let sets = source.dimension_sets(metric, &new).await?;
        for (hash, values) in new.into_iter().zip(sets) {
            let key = self.grouping.key_of(&values.unwrap_or_default());
            let Some(key) = key else { continue };
            let group = match self.by_key.get(&key) {
                Some(group) => *group,
                None => self.add(key)?,
            };
            self.by_hash.insert(hash, Some(group));
        }
        Ok(())
    }

    fn add(&mut self, key: GroupKey) -> Result<usize, Problem> {
        let group = self.keys.len();
        if group >= self.max {
            let detail = format!("the answer would have more than {} keys a page", self.max);
            return Err(Problem::new(400, "query.limit-exceeded", detail)
                .with_hint("ask for fewer dimensions, values or intervals"));
        }
        self.by_key.insert(key.clone(), group);
        self.keys.push(key);
        Ok(group)
    }

    /// The groups in the order of the answer: as they were named, or by their values.
    pub(crate) fn in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        if self.grouping.is_open() {
            order.sort_by(|a, b| self.keys[*a].cmp(&self.keys[*b]));
        }
        order
    }
}
