//! Which series are meant.

use icecore_model::{METRIC_NAME, MatchOp, Matcher};

use super::SeriesName;
use crate::error::Error;
use crate::uid::{UidKind, Uids};

/// Which series are meant. Conditions on one key are alternatives, as are those on any key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeriesFilter {
    pub(crate) metric: Option<String>,
    /// A key, a value, or both.
    pub(crate) tags: Vec<(Option<String>, Option<String>)>,
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
    pub(super) fn matchers(&self, uids: &Uids) -> Vec<Matcher> {
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
