//! From the text that names a series to its labels: names are checked and get their UIDs.

use std::borrow::Cow;

use icecore_model::{CatalogChange, METRIC_NAME, NumberForm, ROLLUP_LABEL, push_raw_label};
use icecore_wire::opentsdb::{put_json, telnet};

use super::error::PutError;
use crate::config::Config;
use crate::error::Error;
use crate::java::{hash_map_order, map_text};
use crate::name::{RESERVED_PREFIX, validate};
use crate::refusals::RefusalReason;
use crate::rollup::RollupKind;
use crate::uid::{Tsuid, Uid, UidKind, Uids};

/// Most characters of tags that a message repeats.
const SHOWN_CHARS_MAX: usize = 4096;

/// A metric and its tags as sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SeriesText<'a> {
    /// The tags are a JSON object that was checked.
    Json {
        metric: &'a str,
        tags: Option<&'a str>,
    },
    /// The tags are the rest of a telnet line.
    Line { metric: &'a str, tags: &'a str },
    /// The tags of a document that was taken apart.
    Pairs {
        metric: &'a str,
        tags: &'a [put_json::JsonTag],
    },
}

/// A tag; a document may give `null` as the value.
pub(super) type Tag<'a> = (Cow<'a, str>, Option<Cow<'a, str>>);

impl<'a> SeriesText<'a> {
    pub(super) fn metric(&self) -> &'a str {
        match self {
            Self::Json { metric, .. } | Self::Line { metric, .. } => metric,
            Self::Pairs { metric, .. } => metric,
        }
    }

    /// Appends bytes that no other series has.
    #[inline]
    pub(super) fn push_key(&self, key: &mut Vec<u8>) {
        let (format, tags) = match self {
            Self::Json { tags, .. } => (b'{', tags.unwrap_or_default()),
            Self::Line { tags, .. } => (b'=', *tags),
            Self::Pairs { .. } => (b'"', ""),
        };
        key.push(format);
        key.extend_from_slice(self.metric().as_bytes());
        key.push(0);
        key.extend_from_slice(tags.as_bytes());
        if let Self::Pairs { tags, .. } = self {
            for text in tags.iter().flat_map(|tag| [Some(&tag.0), tag.1.as_ref()]) {
                key.push(text.is_some().into());
                let text = text.map_or("", String::as_str);
                key.extend_from_slice(&text.len().to_be_bytes());
                key.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// The tags in the order in which the original has them.
    pub(super) fn tags(&self) -> Result<Vec<Tag<'a>>, PutError> {
        let mut tags: Vec<Tag<'a>> = match self {
            Self::Json { tags, .. } => {
                let parsed = tags.map(put_json::parse_tags).transpose();
                let parsed = parsed.map_err(|e| PutError::argument(e.reason))?;
                let parsed = parsed.filter(|tags| !tags.is_empty());
                let parsed = parsed.ok_or_else(|| PutError::argument("Missing tags"))?;
                let tag = |(name, value): put_json::JsonTag| (name.into(), value.map(Cow::from));
                parsed.into_iter().map(tag).collect()
            }
            Self::Pairs { tags, .. } => {
                let tag = |(name, value): &'a put_json::JsonTag| {
                    (name.into(), value.as_ref().map(Cow::from))
                };
                tags.iter().map(tag).collect()
            }
            Self::Line { tags, .. } => {
                let mut parsed = Vec::new();
                let outcome = telnet::parse_tags(tags, &mut parsed);
                if let Err(error) = outcome {
                    hash_map_order(&mut parsed, |tag| tag.0);
                    return Err(PutError::of_tag(&error, &parsed));
                }
                let tag = |(name, value): (&'a str, &'a str)| (name.into(), Some(value.into()));
                parsed.into_iter().map(tag).collect()
            }
        };
        hash_map_order(&mut tags, |tag| tag.0.as_ref());
        Ok(tags)
    }
}

/// Tags as messages show them.
pub(super) fn tags_text(tags: &[Tag<'_>]) -> String {
    map_text(tags.iter().map(|(name, value)| {
        let value = value.as_deref();
        (name.as_ref(), value.unwrap_or("null"))
    }))
}

/// Checks names and gives them UIDs.
#[derive(Clone, Copy)]
pub(super) struct Naming<'a> {
    pub(super) config: &'a Config,
    pub(super) uids: &'a Uids,
}

/// A series with what identifies it.
pub(super) struct Identified {
    /// In the encoding of [`icecore_model::RawLabels`], in the order of names.
    pub(super) labels: Vec<u8>,
    pub(super) tsuid: Tsuid,
}

impl Naming<'_> {
    /// The labels of the series of a point, and in `changes` what has to be stored for its names.
    /// A rolled-up point is of a series of its own. The point has a form if it is a number.
    pub(super) fn identify(
        &self,
        metric: &str,
        tags: &[Tag<'_>],
        rollup: Option<&RollupKind>,
        form: Option<NumberForm>,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Identified, PutError> {
        let tags = self.check(metric, tags)?;
        let metric_uid = self.metric_uid(metric, form, changes)?;
        let mut uids = Vec::with_capacity(tags.len());
        let rolled_metric = rollup.map(|kind| kind.metric(metric));
        let rolled_kind = rollup.map(RollupKind::to_string);
        let mut labels = vec![(METRIC_NAME, rolled_metric.as_deref().unwrap_or(metric))];
        labels.extend(rolled_kind.as_deref().map(|kind| (ROLLUP_LABEL, kind)));
        for (name, value) in tags {
            let key = self.uid(UidKind::Tagk, name, changes)?;
            uids.push((key, self.uid(UidKind::Tagv, value, changes)?));
            labels.push((name, value));
        }
        labels.sort_unstable();
        let mut bytes = Vec::new();
        for (name, value) in labels {
            push_raw_label(&mut bytes, name, value);
        }
        Ok(Identified {
            labels: bytes,
            tsuid: Tsuid::new(metric_uid, uids),
        })
    }

    pub(super) fn check<'t>(
        &self,
        metric: &str,
        tags: &'t [Tag<'_>],
    ) -> Result<Vec<(&'t str, &'t str)>, PutError> {
        self.check_lengths(metric, tags)?;
        let max = self.config.max_tags;
        let count = tags.len();
        if count == 0 {
            let message = format!("Need at least one tag (metric={metric}, tags={{}})");
            return Err(PutError::Argument(message));
        }
        if count > max {
            let tags: String = tags_text(tags).chars().take(SHOWN_CHARS_MAX).collect();
            let message = format!("Too many tags: {count} maximum allowed: {max}, tags: {tags}");
            return Err(PutError::by_setting(RefusalReason::TooManyTags, message));
        }
        self.check_name("metric name", metric)?;
        let mut checked = Vec::with_capacity(count);
        for (name, value) in tags {
            let what = format!("tag value with key [{name}]");
            let Some(value) = value else {
                return Err(PutError::Argument(format!("Invalid {what}: null")));
            };
            let of_name = format!("tag name with value [{value}]");
            self.check_name(&of_name, name)?;
            if name.starts_with(RESERVED_PREFIX) {
                let message = format!("Invalid {of_name} (\"{name}\"): reserved name");
                return Err(PutError::Argument(message));
            }
            self.check_name(&what, value)?;
            checked.push((name.as_ref(), value.as_ref()));
        }
        Ok(checked)
    }

    /// Checks the lengths of all names. This comes first, because messages about one name repeat
    /// others, and before any of the names gets a UID.
    fn check_lengths(&self, metric: &str, tags: &[Tag<'_>]) -> Result<(), PutError> {
        let check = |kind, name: &str| {
            let checked = self.uids.limits().check_length(kind, name);
            let too_long = RefusalReason::NameTooLong;
            checked.map_err(|error| PutError::by_setting(too_long, error.message))
        };
        check(UidKind::Metric, metric)?;
        for (name, value) in tags {
            check(UidKind::Tagk, name)?;
            check(UidKind::Tagv, value.as_deref().unwrap_or_default())?;
        }
        Ok(())
    }

    fn check_name(&self, what: &str, name: &str) -> Result<(), PutError> {
        let checked = validate(what, name, &self.config.allow_special_chars);
        checked.map_err(|error| match name {
            "" => PutError::Argument(error.message),
            _ => PutError::by_setting(RefusalReason::IllegalCharacter, error.message),
        })
    }

    fn metric_uid(
        &self,
        name: &str,
        form: Option<NumberForm>,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Uid, PutError> {
        self.check_creation(UidKind::Metric, name)?;
        let is_float = form.is_some_and(|form| form.correction().is_none());
        let uid = self.uids.get_or_assign_metric(name, is_float, changes);
        uid.map_err(no_room)
    }

    fn uid(
        &self,
        kind: UidKind,
        name: &str,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Uid, PutError> {
        self.check_creation(kind, name)?;
        let uid = self.uids.get_or_assign(kind, name, changes);
        uid.map_err(no_room)
    }

    /// Fails if a name has no UID and may not get one.
    fn check_creation(&self, kind: UidKind, name: &str) -> Result<(), PutError> {
        let may_create = match kind {
            UidKind::Metric => self.config.auto_create_metrics,
            UidKind::Tagk => self.config.auto_create_tagks,
            UidKind::Tagv => self.config.auto_create_tagvs,
        };
        if may_create {
            return Ok(());
        }
        let known = self.uids.resolve(kind, name).map(drop);
        known.map_err(|error| PutError::UnknownName(kind, error.message))
    }
}

/// The error of a name that cannot get a UID. Its length was looked at before.
fn no_room(error: Error) -> PutError {
    PutError::by_setting(RefusalReason::NoRoomForNames, error.message)
}

#[cfg(test)]
mod tests {
    use icecore_model::RawLabels;

    use super::*;

    fn identify(config: Config, text: SeriesText<'_>) -> Result<Vec<(String, String)>, PutError> {
        let uids = Uids::new([3; 3], false);
        let naming = Naming {
            config: &config,
            uids: &uids,
        };
        let mut changes = Vec::new();
        let series = naming.identify(text.metric(), &text.tags()?, None, None, &mut changes)?;
        let mut pairs = Vec::new();
        RawLabels(&series.labels).parse(&mut pairs).unwrap();
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Ok(pairs.into_iter().map(owned).collect())
    }

    fn creating() -> Config {
        Config {
            auto_create_metrics: true,
            ..Config::default()
        }
    }

    #[test]
    fn both_texts_name_one_series() {
        let expected = [("__name__", "m"), ("host", "web01"), ("Zone", "b")];
        let mut expected = expected.map(|(n, v)| (n.to_owned(), v.to_owned()));
        expected.sort();
        let json = SeriesText::Json {
            metric: "m",
            tags: Some(r#"{"host":"web01","Zone":"b"}"#),
        };
        assert_eq!(identify(creating(), json).unwrap(), expected);
        let line = SeriesText::Line {
            metric: "m",
            tags: "Zone=b  host=web01 Zone=b",
        };
        assert_eq!(identify(creating(), line).unwrap(), expected);
    }

    #[test]
    fn names_are_checked_in_the_order_of_the_original() {
        let line = |metric, tags| SeriesText::Line { metric, tags };
        let nine = "a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9";
        let many = "Too many tags: 9 maximum allowed: 8, tags: \
                    {a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, i=9}";
        for (text, message) in [
            (line("m", "host"), "invalid tag: host"),
            (
                line("m", "host=a host=b"),
                "duplicate tag: host=b, tags={host=a}",
            ),
            (line("m", " "), "Need at least one tag (metric=m, tags={})"),
            (line("m", nine), many),
            (
                line("m", "ho:st=a"),
                "Invalid tag name with value [a] (\"ho:st\"): illegal character: :",
            ),
            (
                line("m", "host=a:b"),
                "Invalid tag value with key [host] (\"a:b\"): illegal character: :",
            ),
            (
                line("m", "__name__=x"),
                "Invalid tag name with value [x] (\"__name__\"): reserved name",
            ),
            (
                SeriesText::Json {
                    metric: "m",
                    tags: Some(r#"{"host":null}"#),
                },
                "Invalid tag value with key [host]: null",
            ),
            (
                SeriesText::Json {
                    metric: "m",
                    tags: Some("{}"),
                },
                "Missing tags",
            ),
        ] {
            let error = identify(creating(), text).unwrap_err();
            assert_eq!(error.http_text(), message);
        }
    }

    #[test]
    fn a_point_with_a_name_that_is_too_long_gives_no_name_a_uid() {
        let config = creating();
        let uids = Uids::new([3; 3], false);
        let naming = Naming {
            config: &config,
            uids: &uids,
        };
        let long = format!("host={}", "x".repeat(5000));
        let text = SeriesText::Line {
            metric: "m",
            tags: &long,
        };
        let tags = text.tags().unwrap();
        let refused = naming.identify("m", &tags, None, None, &mut Vec::new());
        let refused = refused.err().expect("5000 bytes are too many");
        assert_eq!(refused.reason(), RefusalReason::NameTooLong);
        let message = refused.cause();
        assert!(
            message.contains("limits.label_value_bytes_max = 4096"),
            "{message}"
        );
        assert!(message.len() < 300);
        assert!(UidKind::ALL.iter().all(|kind| uids.read(*kind).len() == 0));
    }

    #[test]
    fn no_message_repeats_long_names() {
        let long = "x".repeat(100_000);
        let many: Vec<String> = (0..10_000).map(|i| format!("k{i}=v")).collect();
        for (metric, tags) in [
            ("m", format!("__name__={long}")),
            ("m", format!("ho:st={long}")),
            ("m", format!("{long}=a:b")),
            ("m:", format!("host={long}")),
            ("m", format!("a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i={long}")),
            (&*long, String::new()),
            (&*long, "host=a".to_owned()),
            ("m", many.join(" ")),
        ] {
            let text = SeriesText::Line {
                metric,
                tags: &tags,
            };
            let message = identify(creating(), text).unwrap_err().cause();
            assert!(
                message.len() < 5000,
                "{} bytes: {message:.100}",
                message.len()
            );
        }
    }

    #[test]
    fn unknown_names_are_created_only_where_the_settings_say_so() {
        let text = SeriesText::Line {
            metric: "m",
            tags: "host=a",
        };
        let error = identify(Config::default(), text).unwrap_err();
        let message = "put: unknown metric: No such name for 'metrics': 'm'\n";
        assert_eq!(error.line_text("put"), message);
        assert_eq!(error.http_text(), "Unknown metric");
    }

    #[test]
    fn refusals_name_the_setting_that_takes_the_point() {
        let settings = |config: Config, tags: &str| {
            let text = SeriesText::Line { metric: "m", tags };
            identify(config, text).unwrap_err().reason().cure()
        };
        let without = |kind| Config {
            auto_create_tagks: kind != UidKind::Tagk,
            auto_create_tagvs: kind != UidKind::Tagv,
            auto_create_metrics: kind != UidKind::Metric,
            ..Config::default()
        };
        let long = format!("{}=b", "a".repeat(2000));
        for (config, tags, expected) in [
            (
                without(UidKind::Metric),
                "a=b",
                "tsd.core.auto_create_metrics",
            ),
            (without(UidKind::Tagk), "a=b", "tsd.core.auto_create_tagks"),
            (without(UidKind::Tagv), "a=b", "tsd.core.auto_create_tagvs"),
            (creating(), "a=b:c", "tsd.core.tag.allow_specialchars"),
            (
                creating(),
                "a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9",
                "tsd.storage.max_tags",
            ),
            (creating(), &long, "limits.label_name_bytes_max"),
        ] {
            let cure = settings(config, tags);
            assert!(cure.contains(expected), "{tags:.40}: {cure}");
        }
    }
}
