//! Which series a sub query is about, and which of them belong together.

use std::collections::{BTreeMap, HashSet};

use icecore_model::{Labels, METRIC_NAME, MatchOp, Matcher};

use super::filter::TagFilter;
use super::names::Names;
use super::request::SubQuery;
use super::series_key::{NameKey, SeriesKey, tags};
use super::window::Scan;
use crate::error::Error;
use crate::name::RESERVED_PREFIX;
use crate::series::{SeriesName, stored_as};
use crate::tsd::Tsd;
use crate::uid::{Tsuid, Uid, UidKind, Uids};

/// Selects series.
pub(crate) struct Selector {
    pub(crate) metric: String,
    /// What the store can check. It may let more pass than is selected.
    pub(crate) matchers: Vec<Matcher>,
    keys: Vec<KeyFilter>,
    /// Series have no other keys.
    is_explicit: bool,
    /// Only these series.
    tsuids: Option<HashSet<SeriesKey>>,
    /// Keys whose values make groups, in the order of their UIDs.
    pub(crate) group_by: Vec<String>,
}

/// All filters of one tag key.
#[derive(Default)]
struct KeyFilter {
    tagk: String,
    /// Values of the filters that name values and count.
    literals: Option<HashSet<String>>,
    others: Vec<TagFilter>,
}

impl KeyFilter {
    /// Adds a filter, with the values that it names, if it names some. Of several such filters of
    /// the first key the original unites the values. Of another key the last filter alone counts:
    /// it replaces what others name, even if it names nothing.
    fn add(&mut self, filter: &TagFilter, named: Option<Vec<String>>, is_of_first_key: bool) {
        if !is_of_first_key {
            self.literals = None;
        }
        match named {
            Some(named) => self.literals.get_or_insert_default().extend(named),
            None => self.others.push(filter.clone()),
        }
    }
}

impl KeyFilter {
    fn accepts(&self, value: &str) -> bool {
        let is_named = self.literals.as_ref().is_none_or(|l| l.contains(value));
        is_named && self.others.iter().all(|filter| filter.accepts(value))
    }

    /// What the store is asked: nothing where the key is stored under several names.
    fn matcher(&self, uids: &Uids) -> Option<Matcher> {
        if !uids.read(UidKind::Tagk).former_names(&self.tagk).is_empty() {
            return None;
        }
        let tagk = self.tagk.as_str();
        let present = || Matcher::new(MatchOp::NotEqual, tagk, "");
        let matcher = match &self.literals {
            None => present(),
            Some(literals) => {
                let tagvs = uids.read(UidKind::Tagv);
                let stored = |value: &String| {
                    let former = tagvs.former_names(value).into_iter();
                    let former = former.map(|name| regex::escape(&name));
                    std::iter::once(regex::escape(value))
                        .chain(former)
                        .collect::<Vec<_>>()
                };
                let values: Vec<String> = literals.iter().flat_map(stored).collect();
                // Values are checked here again, so that too many of them are no problem.
                Matcher::new(MatchOp::Regex, tagk, values.join("|")).or_else(|_| present())
            }
        };
        matcher.ok()
    }
}

impl Selector {
    /// Looks up all names; `None` where no series can be meant.
    pub(crate) async fn new(
        tsd: &Tsd,
        sub_query: &SubQuery,
        scan: Scan,
    ) -> Result<Option<Self>, Error> {
        match sub_query
            .tsuids
            .as_ref()
            .filter(|tsuids| !tsuids.is_empty())
        {
            Some(tsuids) => Self::of_tsuids(tsd, tsuids),
            None => Self::of_metric(tsd, sub_query, scan).await.map(Some),
        }
    }

    async fn of_metric(tsd: &Tsd, sub_query: &SubQuery, scan: Scan) -> Result<Self, Error> {
        let metric = sub_query.metric.clone().unwrap_or_default();
        let names = Names::new(tsd, scan);
        names.check(UidKind::Metric, &metric, METRIC_NAME).await?;
        let mut filters = Vec::new();
        let mut group_by = HashSet::new();
        for filter in &sub_query.filters {
            names.check_tagk(&filter.tagk).await?;
            let named = names.known_literals(filter).await?;
            let key = NameKey::of(&tsd.uids.read(UidKind::Tagk), &filter.tagk);
            filters.push((key, filter, named));
            if filter.group_by {
                group_by.insert(filter.tagk.clone());
            }
        }
        let first = filters.iter().map(|(key, ..)| key).min().cloned();
        let mut keys: BTreeMap<NameKey, KeyFilter> = BTreeMap::new();
        for (key, filter, named) in filters {
            let is_first = first.as_ref() == Some(&key);
            let of_key = keys.entry(key).or_default();
            of_key.tagk.clone_from(&filter.tagk);
            of_key.add(filter, named, is_first);
        }
        let keys: Vec<KeyFilter> = keys.into_values().collect();
        let groups = keys.iter().map(|key| key.tagk.clone());
        let group_by = groups.filter(|tagk| group_by.contains(tagk)).collect();
        let metric_matcher = stored_as(&tsd.uids, UidKind::Metric, METRIC_NAME, &metric);
        let mut matchers: Vec<Matcher> = metric_matcher.into_iter().collect();
        matchers.extend(keys.iter().filter_map(|key| key.matcher(&tsd.uids)));
        Ok(Self {
            metric,
            matchers,
            is_explicit: sub_query.explicit_tags && !keys.is_empty(),
            keys,
            tsuids: None,
            group_by,
        })
    }

    fn of_tsuids(tsd: &Tsd, texts: &[String]) -> Result<Option<Self>, Error> {
        let mut series = Vec::new();
        let mut metric = None;
        for text in texts {
            let tsuid = Tsuid::from_hex(text, tsd.config.uid_widths)
                .ok_or_else(|| Error::bad_request(format!("Invalid TSUID: {text}")))?;
            if tsuid.tags.is_empty() {
                return Err(Error::bad_request("UID was empty").with_details("UID was empty"));
            }
            if let Some(metric) = metric.filter(|metric: &Uid| *metric != tsuid.metric) {
                let width = tsd.config.uid_widths[UidKind::Metric as usize];
                let (first, other) = (metric.to_hex(width), tsuid.metric.to_hex(width));
                return Err(Error::bad_request(format!(
                    "One or more TSUIDs did not share the same metric [{first}] [{other}]"
                )));
            }
            metric = Some(tsuid.metric);
            series.push(tsuid);
        }
        let name = |metric| tsd.uids.read(UidKind::Metric).name(metric).cloned();
        let Some(metric) = metric.and_then(name) else {
            return Ok(None);
        };
        let Some(keys) = common_keys(&tsd.uids, &series) else {
            return Ok(None);
        };
        let matcher = stored_as(&tsd.uids, UidKind::Metric, METRIC_NAME, &metric);
        let of_keys = keys.iter().filter_map(|key| key.matcher(&tsd.uids));
        Ok(Some(Self {
            matchers: matcher.into_iter().chain(of_keys).collect(),
            metric: metric.to_string(),
            keys,
            is_explicit: false,
            tsuids: Some(series.iter().map(SeriesKey::from).collect()),
            group_by: Vec::new(),
        }))
    }

    /// Returns `true` if series must not have tags that no filter names.
    pub(crate) fn is_explicit(&self) -> bool {
        self.is_explicit
    }

    /// Whether series are selected by the values of a key.
    pub(crate) fn has_key(&self, tagk: &str) -> bool {
        self.keys.iter().any(|key| key.tagk == tagk)
    }

    /// The values of the keys that make groups.
    pub(crate) fn group_of(&self, uids: &Uids, labels: &Labels) -> Vec<NameKey> {
        let tagvs = uids.read(UidKind::Tagv);
        let value = |tagk: &String| NameKey::of(&tagvs, labels.get(tagk).unwrap_or_default());
        self.group_by.iter().map(value).collect()
    }

    /// Whether a series that the matchers let pass is selected.
    pub(crate) fn accepts(&self, labels: &Labels, key: &SeriesKey) -> bool {
        if labels.metric_name() != self.metric || is_reserved(labels) {
            return false;
        }
        if self
            .tsuids
            .as_ref()
            .is_some_and(|tsuids| !tsuids.contains(key))
        {
            return false;
        }
        if self.is_explicit && tags(labels).count() != self.keys.len() {
            return false;
        }
        let accepts =
            |filter: &KeyFilter| labels.get(&filter.tagk).is_some_and(|v| filter.accepts(v));
        self.keys.iter().all(accepts)
    }
}

/// The keys that all series have, with the values that any of them has, so that the store need not
/// hand out the whole metric. `None` where no series has names for all its ids.
fn common_keys(uids: &Uids, series: &[Tsuid]) -> Option<Vec<KeyFilter>> {
    let names = series
        .iter()
        .filter_map(|tsuid| SeriesName::of_tsuid(tsuid, uids).ok());
    let names: Vec<SeriesName> = names.collect();
    let first = names.first()?;
    let of_all = |key: &&String| names.iter().all(|name| name.tags.contains_key(*key));
    let filter = |key: &String| {
        let values = names.iter().filter_map(|name| name.tags.get(key));
        KeyFilter {
            tagk: key.clone(),
            literals: Some(values.cloned().collect()),
            others: Vec::new(),
        }
    };
    Some(first.tags.keys().filter(of_all).map(filter).collect())
}

/// Whether labels are those of something that is no ordinary point.
fn is_reserved(labels: &Labels) -> bool {
    tags(labels).any(|(name, _)| name.starts_with(RESERVED_PREFIX))
}
