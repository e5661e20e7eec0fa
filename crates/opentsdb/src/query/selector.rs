//! Which series a sub query is about, and which of them belong together.

use std::collections::{BTreeMap, HashSet};

use icecore_model::{Labels, METRIC_NAME, MatchOp, Matcher, SelectHints, Selection};

use super::filter::TagFilter;
use super::request::SubQuery;
use super::series_key::{NameKey, SeriesKey, tags};
use super::window::Scan;
use crate::error::Error;
use crate::tsd::Tsd;
use crate::uid::{Tsuid, UidKind, no_such_name};

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
    /// Values of all filters that name values: the original unites them.
    literals: Option<HashSet<String>>,
    others: Vec<TagFilter>,
}

impl KeyFilter {
    fn accepts(&self, value: &str) -> bool {
        let is_named = self.literals.as_ref().is_none_or(|l| l.contains(value));
        is_named && self.others.iter().all(|filter| filter.accepts(value))
    }

    /// What the store is asked.
    fn matcher(&self) -> Matcher {
        let present = || Matcher::new(MatchOp::NotEqual, self.tagk.as_str(), "");
        let matcher = match &self.literals {
            None => present(),
            Some(literals) => {
                let literals: Vec<String> = literals.iter().map(|l| regex::escape(l)).collect();
                // Values are checked here again, so that too many of them are no problem.
                Matcher::new(MatchOp::Regex, self.tagk.as_str(), literals.join("|"))
                    .or_else(|_| present())
            }
        };
        matcher.unwrap_or_else(|_| Matcher::equal(self.tagk.as_str(), ""))
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
        let names = Names { tsd, scan };
        names
            .check(UidKind::Metric, &metric, METRIC_NAME, &metric)
            .await?;
        let mut keys: BTreeMap<NameKey, KeyFilter> = BTreeMap::new();
        let mut group_by = HashSet::new();
        for filter in &sub_query.filters {
            names.check_tagk(&filter.tagk).await?;
            let known = names.known_literals(filter).await?;
            let name = NameKey::of(&tsd.uids.read(UidKind::Tagk), &filter.tagk);
            let of_key = keys.entry(name).or_default();
            of_key.tagk.clone_from(&filter.tagk);
            match known {
                Some(known) => of_key.literals.get_or_insert_default().extend(known),
                None => of_key.others.push(filter.clone()),
            }
            if filter.group_by {
                group_by.insert(filter.tagk.clone());
            }
        }
        let keys: Vec<KeyFilter> = keys.into_values().collect();
        let groups = keys.iter().map(|key| key.tagk.clone());
        let group_by = groups.filter(|tagk| group_by.contains(tagk)).collect();
        let mut matchers = vec![Matcher::equal(METRIC_NAME, metric.as_str())];
        matchers.extend(keys.iter().map(KeyFilter::matcher));
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
        let mut series = HashSet::new();
        let mut metric = None;
        for text in texts {
            let tsuid = Tsuid::from_hex(text, tsd.config.uid_widths)
                .ok_or_else(|| Error::bad_request(format!("Invalid TSUID: {text}")))?;
            if tsuid.tags.is_empty() {
                return Err(Error::bad_request("UID was empty").with_details("UID was empty"));
            }
            if metric.is_some_and(|metric| metric != tsuid.metric) {
                let message = "One or more TSUIDs did not share the same metric";
                return Err(Error::bad_request(message));
            }
            metric = Some(tsuid.metric);
            series.insert(SeriesKey::from(&tsuid));
        }
        let metrics = tsd.uids.read(UidKind::Metric);
        let Some(metric) = metric.and_then(|metric| metrics.name(metric).cloned()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            matchers: vec![Matcher::equal(METRIC_NAME, &*metric)],
            metric: metric.to_string(),
            keys: Vec::new(),
            is_explicit: false,
            tsuids: Some(series),
            group_by: Vec::new(),
        }))
    }

    /// Whether a series that the matchers let pass is selected.
    pub(crate) fn accepts(&self, labels: &Labels, key: &SeriesKey) -> bool {
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

/// Names that queries have to know. One without a UID is known if series have it that somebody else
/// has written.
struct Names<'a> {
    tsd: &'a Tsd,
    scan: Scan,
}

impl Names<'_> {
    async fn check(
        &self,
        kind: UidKind,
        name: &str,
        label: &str,
        value: &str,
    ) -> Result<(), Error> {
        let is_known = self.tsd.uids.read(kind).id(name).is_some();
        if is_known || self.has_series(Matcher::equal(label, value)).await? {
            return Ok(());
        }
        Err(no_such_name(kind, name))
    }

    async fn check_tagk(&self, tagk: &str) -> Result<(), Error> {
        let is_known = self.tsd.uids.read(UidKind::Tagk).id(tagk).is_some();
        if is_known {
            return Ok(());
        }
        if let Ok(present) = Matcher::new(MatchOp::NotEqual, tagk, "")
            && self.has_series(present).await?
        {
            return Ok(());
        }
        Err(no_such_name(UidKind::Tagk, tagk))
    }

    /// The values of a filter that names them, and that are names; `None` where there is none, so
    /// that the filter has to be applied as it is.
    async fn known_literals(&self, filter: &TagFilter) -> Result<Option<Vec<String>>, Error> {
        let Some(literals) = filter.literals() else {
            return Ok(None);
        };
        let mut literals: Vec<&String> = literals.iter().collect();
        literals.sort_unstable();
        let mut known = Vec::new();
        for value in literals {
            match self.check(UidKind::Tagv, value, &filter.tagk, value).await {
                Ok(()) => known.push(value.clone()),
                Err(_) if self.tsd.config.skip_unresolved_tagvs => {}
                Err(error) => return Err(error),
            }
        }
        Ok((!known.is_empty()).then_some(known))
    }

    /// Whether some series in the time of the query matches.
    async fn has_series(&self, matcher: Matcher) -> Result<bool, Error> {
        // An empty value would match all series without the label.
        if matcher.op() == MatchOp::Equal && matcher.matches("") {
            return Ok(false);
        }
        let selection = Selection {
            matchers: vec![matcher],
            start_ms: self.scan.start_ms,
            end_ms: self.scan.end_ms.saturating_sub(1),
            hints: SelectHints {
                series_limit: Some(1),
                labels_only: true,
                ..SelectHints::default()
            },
        };
        let source = &self.tsd.stores.series;
        let mut stream = source
            .select(selection)
            .await
            .map_err(super::run::source_error)?;
        while let Some(batch) = stream
            .next_batch()
            .await
            .map_err(super::run::source_error)?
        {
            if !batch.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
