//! Series by metric and tags, under the names that their UIDs have now.
//!
//! ```text
//! filter ─► matchers (former names, too) ─► index ─► labels under current names ─► filter
//! ```
//!
//! Samples that were written before and after a renaming lie in two stored series; here they are
//! one.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use icecore_model::{
    CatalogChange, Labels, METRIC_NAME, MatchOp, Matcher, SelectHints, Selection, SeriesSamples,
    SourceError,
};

use crate::error::Error;
use crate::java::double_text;
use crate::name::RESERVED_PREFIX;
use crate::tsd::Tsd;
use crate::uid::{Tsuid, Uid, UidKind, Uids};

/// A metric with its tags.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeriesName {
    pub(crate) metric: String,
    pub(crate) tags: BTreeMap<String, String>,
}

/// Which series are meant. Conditions on one key are alternatives, as are those on any key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeriesFilter {
    pub(crate) metric: Option<String>,
    /// A key, a value, or both.
    pub(crate) tags: Vec<(Option<String>, Option<String>)>,
}

/// The last point of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastPoint {
    pub(crate) timestamp_ms: i64,
    pub(crate) value: String,
}

impl SeriesName {
    /// What stored labels are called now; `None` for what is no series of points.
    fn of(labels: &Labels, uids: &Uids) -> Option<Self> {
        let current = |kind: UidKind, stored: &str| {
            let space = uids.read(kind);
            let current = space.current_name(stored).map(Arc::clone);
            current.map_or_else(|| stored.to_owned(), |name| name.to_string())
        };
        let metric = current(UidKind::Metric, labels.metric_name());
        let mut tags = BTreeMap::new();
        for (key, value) in labels.iter().filter(|(key, _)| *key != METRIC_NAME) {
            if key.starts_with(RESERVED_PREFIX) {
                return None;
            }
            tags.insert(current(UidKind::Tagk, key), current(UidKind::Tagv, value));
        }
        Some(Self { metric, tags })
    }

    /// The name of a TSUID; the error says which id has none.
    pub(crate) fn of_tsuid(tsuid: &Tsuid, uids: &Uids) -> Result<Self, (UidKind, Uid)> {
        let name = |kind: UidKind, uid: Uid| {
            let name = uids.read(kind).name(uid).map(ToString::to_string);
            name.ok_or((kind, uid))
        };
        let mut tags = BTreeMap::new();
        for (key, value) in &tsuid.tags {
            tags.insert(name(UidKind::Tagk, *key)?, name(UidKind::Tagv, *value)?);
        }
        let metric = name(UidKind::Metric, tsuid.metric)?;
        Ok(Self { metric, tags })
    }

    /// The TSUID, if all names have ids.
    pub(crate) fn tsuid(&self, uids: &Uids) -> Option<Tsuid> {
        let metric = uids.read(UidKind::Metric).id(&self.metric)?;
        let (keys, values) = (uids.read(UidKind::Tagk), uids.read(UidKind::Tagv));
        let tags = self
            .tags
            .iter()
            .map(|(key, value)| Some((keys.id(key)?, values.id(value)?)));
        Some(Tsuid::new(metric, tags.collect::<Option<_>>()?))
    }

    /// The TSUID; names that have no id get one, and `changes` what has to be stored for it.
    pub(crate) fn assigned_tsuid(
        &self,
        uids: &Uids,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Tsuid, Error> {
        let metric = uids.get_or_assign(UidKind::Metric, &self.metric, changes)?;
        let mut tags = Vec::with_capacity(self.tags.len());
        for (key, value) in &self.tags {
            let key = uids.get_or_assign(UidKind::Tagk, key, changes)?;
            tags.push((key, uids.get_or_assign(UidKind::Tagv, value, changes)?));
        }
        Ok(Tsuid::new(metric, tags))
    }

    /// The filter that this series passes, and those with further tags.
    pub(crate) fn filter(&self) -> SeriesFilter {
        let tags = self.tags.iter();
        SeriesFilter {
            metric: Some(self.metric.clone()),
            tags: tags
                .map(|(key, value)| (Some(key.clone()), Some(value.clone())))
                .collect(),
        }
    }
}

impl SeriesFilter {
    pub(crate) fn matches(&self, series: &SeriesName) -> bool {
        if self
            .metric
            .as_ref()
            .is_some_and(|metric| *metric != series.metric)
        {
            return false;
        }
        self.tags.iter().all(|(key, _)| {
            let alternatives = self.tags.iter().filter(|(other, _)| other == key);
            alternatives.into_iter().any(|(key, value)| {
                let mut tags = series.tags.iter();
                tags.any(|(k, v)| {
                    key.as_ref().is_none_or(|key| key == k)
                        && value.as_ref().is_none_or(|value| value == v)
                })
            })
        })
    }

    /// Conditions that hold for all stored series that pass. What they cannot say is checked
    /// later.
    fn matchers(&self, uids: &Uids) -> Vec<Matcher> {
        let mut matchers = Vec::new();
        match &self.metric {
            Some(metric) => matchers.extend(stored_as(uids, UidKind::Metric, METRIC_NAME, metric)),
            None => matchers.extend(Matcher::new(MatchOp::NotEqual, METRIC_NAME, "")),
        }
        for (key, value) in &self.tags {
            let Some(key) = key else { continue };
            let of_key = self
                .tags
                .iter()
                .filter(|(other, _)| other.as_ref() == Some(key));
            let is_renamed = !uids.read(UidKind::Tagk).former_names(key).is_empty();
            if is_renamed || of_key.count() > 1 {
                continue;
            }
            match value {
                Some(value) => matchers.extend(stored_as(uids, UidKind::Tagv, key, value)),
                None => matchers.extend(Matcher::new(MatchOp::NotEqual, key.as_str(), "")),
            }
        }
        matchers
    }
}

/// The condition that a label is a name, or one that the same id had before.
pub(crate) fn stored_as(uids: &Uids, kind: UidKind, label: &str, name: &str) -> Option<Matcher> {
    let former = uids.read(kind).former_names(name);
    if former.is_empty() {
        return Some(Matcher::equal(label, name));
    }
    let names = std::iter::once(name).chain(former.iter().map(AsRef::as_ref));
    let names: Vec<String> = names.map(regex::escape).collect();
    Matcher::new(MatchOp::Regex, label, names.join("|")).ok()
}

/// All series that pass, each once, in the order of names.
pub(crate) async fn find(tsd: &Tsd, filter: &SeriesFilter) -> Result<Vec<SeriesName>, Error> {
    let hints = SelectHints {
        labels_only: true,
        ..SelectHints::default()
    };
    let mut found = std::collections::BTreeSet::new();
    let visit = |series: SeriesName, _: SeriesSamples| {
        found.insert(series);
    };
    select(tsd, filter, (i64::MIN, i64::MAX), hints, visit).await?;
    Ok(found.into_iter().collect())
}

/// How many points a series has, and the time of its last one.
pub(crate) async fn count_points(
    tsd: &Tsd,
    series: &SeriesName,
) -> Result<(u64, Option<i64>), Error> {
    let (mut count, mut last_ms) = (0, None);
    let visit = |name: SeriesName, samples: SeriesSamples| {
        if name == *series {
            count += samples.sample_count() as u64;
            last_ms = last_ms.max(last_time(&samples));
        }
    };
    let all = (i64::MIN, i64::MAX);
    select(tsd, &series.filter(), all, SelectHints::default(), visit).await?;
    Ok((count, last_ms))
}

fn last_time(samples: &SeriesSamples) -> Option<i64> {
    let histogram = samples.histograms.last().map(|sample| sample.timestamp_ms);
    samples.floats.timestamps.last().copied().max(histogram)
}

/// The last points from `start_ms` to `end_ms`, both included, of the series that pass.
pub(crate) async fn last_points(
    tsd: &Tsd,
    filter: &SeriesFilter,
    (start_ms, end_ms): (i64, i64),
) -> Result<BTreeMap<SeriesName, LastPoint>, Error> {
    let hints = SelectHints {
        forms: true,
        ..SelectHints::default()
    };
    let mut points: BTreeMap<SeriesName, LastPoint> = BTreeMap::new();
    let visit = |series: SeriesName, samples: SeriesSamples| {
        let last = samples
            .floats
            .timestamps
            .last()
            .zip(samples.floats.values.last());
        let Some((&timestamp_ms, &value)) = last else {
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
    select(tsd, filter, (start_ms, end_ms), hints, visit).await?;
    Ok(points)
}

/// Reads all series that pass.
async fn select(
    tsd: &Tsd,
    filter: &SeriesFilter,
    (start_ms, end_ms): (i64, i64),
    hints: SelectHints,
    mut visit: impl FnMut(SeriesName, SeriesSamples),
) -> Result<(), Error> {
    let selection = Selection {
        matchers: filter.matchers(&tsd.uids),
        start_ms,
        end_ms,
        hints,
    };
    let mut stream = tsd.stores.series.select(selection).await.map_err(failed)?;
    while let Some(batch) = stream.next_batch().await.map_err(failed)? {
        for samples in batch {
            let series = SeriesName::of(&samples.labels, &tsd.uids);
            if let Some(series) = series.filter(|series| filter.matches(series)) {
                visit(series, samples);
            }
        }
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

/// Stores what [`SeriesName::assigned_tsuid`] left to be stored.
pub(crate) async fn store_assigned(tsd: &Tsd, changes: Vec<CatalogChange>) -> Result<(), Error> {
    tsd.records.write(changes.clone()).await?;
    tsd.uids.committed(&changes);
    Ok(())
}

/// A series as text: `metric{key=value,…}`, where the braces may be missing.
///
/// With `is_partial` either side of a pair may be missing or `*`, and pairs may repeat their key.
pub(crate) fn parse_filter(text: &str, is_partial: bool) -> Result<SeriesFilter, Error> {
    let Some((metric, rest)) = text.split_once('{') else {
        return Ok(SeriesFilter {
            metric: Some(text.to_owned()),
            tags: Vec::new(),
        });
    };
    let Some(pairs) = rest.strip_suffix('}') else {
        return Err(Error::bad_request(format!(
            "Missing '}}' at the end of: {text}"
        )));
    };
    let mut tags: Vec<(Option<String>, Option<String>)> = Vec::new();
    for pair in pairs.split(',').filter(|pair| !pair.is_empty()) {
        let invalid = || format!("invalid tag: {pair}");
        let invalid = || Error::bad_request(format!("When parsing tag '{pair}': {}", invalid()));
        let (key, value) = pair.split_once('=').ok_or_else(invalid)?;
        let is_whole = !key.is_empty() && !value.is_empty();
        if value.contains('=') || !(is_whole || is_partial) || pair.len() == 1 {
            return Err(invalid());
        }
        let part = |part: &str| (!part.is_empty()).then(|| part.to_owned());
        tags.push((part(key), part(value)));
    }
    Ok(SeriesFilter {
        metric: Some(metric.to_owned()),
        tags,
    })
}

/// Checks that all names of a filter are known: that they have ids, or that a series that was
/// found has them.
pub(crate) fn check_names(
    filter: &SeriesFilter,
    uids: &Uids,
    found: &[SeriesName],
) -> Result<(), Error> {
    if let Some(metric) = &filter.metric
        && found.is_empty()
    {
        uids.resolve(UidKind::Metric, metric)?;
    }
    let keys = filter.tags.iter().filter_map(|(key, _)| key.as_ref());
    for key in keys {
        if !found.iter().any(|series| series.tags.contains_key(key)) {
            uids.resolve(UidKind::Tagk, key)?;
        }
    }
    let values = filter.tags.iter().filter_map(|(_, value)| value.as_ref());
    for value in values {
        if !found
            .iter()
            .any(|series| series.tags.values().any(|v| v == value))
        {
            uids.resolve(UidKind::Tagv, value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(metric: &str, tags: &[(&str, &str)]) -> SeriesName {
        let tags = tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        SeriesName {
            metric: metric.into(),
            tags: tags.collect(),
        }
    }

    #[test]
    fn filters_are_read_from_text() {
        let parsed = |text| parse_filter(text, true).map_err(|error| error.message);
        let some = |text: &str| Some(text.to_owned());
        let filter = parsed("m{host=*,=a,b=}").unwrap();
        assert_eq!(filter.metric, some("m"));
        let pairs = [
            (some("host"), some("*")),
            (None, some("a")),
            (some("b"), None),
        ];
        assert_eq!(filter.tags, pairs);
        assert_eq!(parsed("m").unwrap().tags, []);
        assert_eq!(parsed("m{}").unwrap().tags, []);
        assert_eq!(parsed("m{").unwrap_err(), "Missing '}' at the end of: m{");
        let invalid = "When parsing tag 'host': invalid tag: host";
        assert_eq!(parsed("m{host}").unwrap_err(), invalid);
        assert!(parsed("m{a=b=c}").is_err());
        assert!(parsed("m{=}").is_err());
        assert!(parse_filter("m{host=}", false).is_err());
    }

    #[test]
    fn conditions_on_one_key_are_alternatives() {
        let web01 = series("m", &[("host", "web01"), ("dc", "lga")]);
        for (text, passes) in [
            ("m", true),
            ("n", false),
            ("m{host=web01}", true),
            ("m{host=web02}", false),
            ("m{host=web02,host=web01}", true),
            ("m{host=web01,dc=dal}", false),
            ("m{=lga}", true),
            ("m{=dal}", false),
            ("m{=dal,=lga}", true),
            ("m{dc=}", true),
            ("m{dev=}", false),
        ] {
            let filter = parse_filter(text, true).unwrap();
            assert_eq!(filter.matches(&web01), passes, "{text}");
        }
    }
}
