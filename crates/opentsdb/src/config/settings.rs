//! Every setting by its key: how it is read, and how it is shown.

use std::collections::BTreeMap;

use super::{Config, Mode};
use crate::json::Json;
use crate::time::find_zone;

/// Bytes of an identifier.
const UID_WIDTH_MAX: usize = 8;

/// Settings that are JSON documents, or name a file that has one.
const HISTOGRAM_CODECS: &str = "tsd.core.histograms.config";
const ROLLUPS_DOCUMENT: &str = "tsd.rollups.config";

/// A setting of [`Config`].
struct Setting {
    key: &'static str,
    get: fn(&Config) -> String,
    set: fn(&mut Config, &str) -> Result<(), String>,
}

macro_rules! flag {
    ($key:literal, $field:ident) => {
        Setting {
            key: $key,
            get: |config| config.$field.to_string(),
            set: |config, text| parse_flag(text).map(|value| config.$field = value),
        }
    };
}

macro_rules! number {
    ($key:literal, $field:ident) => {
        Setting {
            key: $key,
            get: |config| config.$field.to_string(),
            set: |config, text| parse_number(text).map(|value| config.$field = value),
        }
    };
}

macro_rules! text {
    ($key:literal, $field:ident) => {
        Setting {
            key: $key,
            get: |config| config.$field.clone(),
            set: |config, text| {
                config.$field = text.to_owned();
                Ok(())
            },
        }
    };
}

macro_rules! uid_width {
    ($key:literal, $index:literal) => {
        Setting {
            key: $key,
            get: |config| config.uid_widths[$index].to_string(),
            set: |config, text| {
                let width = parse_number(text)?;
                if (1..=UID_WIDTH_MAX).contains(&width) {
                    config.uid_widths[$index] = width;
                    Ok(())
                } else {
                    Err(format!("{width} is not from 1 to {UID_WIDTH_MAX}"))
                }
            },
        }
    };
}

const SETTINGS: &[Setting] = &[
    flag!("tsd.core.auto_create_metrics", auto_create_metrics),
    flag!("tsd.core.auto_create_tagks", auto_create_tagks),
    flag!("tsd.core.auto_create_tagvs", auto_create_tagvs),
    Setting {
        key: HISTOGRAM_CODECS,
        get: |config| show_codecs(config.histogram_codecs.as_ref()),
        set: |config, text| {
            config.histogram_codecs = parse_codecs(text)?;
            Ok(())
        },
    },
    flag!("tsd.core.meta.enable_realtime_ts", realtime_ts),
    flag!("tsd.core.meta.enable_realtime_uid", realtime_uid),
    flag!(
        "tsd.core.meta.enable_tsuid_incrementing",
        tsuid_incrementing
    ),
    flag!("tsd.core.meta.enable_tsuid_tracking", tsuid_tracking),
    number!("tsd.core.socket.timeout", socket_timeout_s),
    text!("tsd.core.tag.allow_specialchars", allow_special_chars),
    Setting {
        key: "tsd.core.timezone",
        get: |config| config.timezone.clone().unwrap_or_else(|| "UTC".into()),
        set: |config, text| {
            if !text.is_empty() && find_zone(text).is_none() {
                return Err(format!("{text:?} is no time zone, such as Europe/Berlin"));
            }
            config.timezone = Some(text.to_owned()).filter(|text| !text.is_empty());
            Ok(())
        },
    },
    flag!("tsd.core.tree.enable_processing", tree_processing),
    flag!("tsd.core.uid.random_metrics", random_metric_uids),
    flag!("tsd.http.query.allow_delete", allow_delete),
    Setting {
        key: "tsd.http.request.cors_domains",
        get: |config| config.cors_domains.join(","),
        set: |config, text| {
            let domains = text.split(',').map(str::trim);
            let domains = domains.filter(|domain| !domain.is_empty());
            config.cors_domains = domains.map(String::from).collect();
            Ok(())
        },
    },
    text!("tsd.http.request.cors_headers", cors_headers),
    flag!("tsd.http.request.enable_chunked", enable_chunked),
    number!("tsd.http.request.max_chunk", max_chunk),
    flag!("tsd.http.show_stack_trace", show_stack_trace),
    Setting {
        key: "tsd.mode",
        get: |config| {
            String::from(match config.mode {
                Mode::ReadWrite => "rw",
                Mode::ReadOnly => "ro",
                Mode::WriteOnly => "wo",
            })
        },
        set: |config, text| {
            config.mode = match text {
                "rw" => Mode::ReadWrite,
                "ro" => Mode::ReadOnly,
                "wo" => Mode::WriteOnly,
                _ => return Err(format!("{text:?} is not rw, ro or wo")),
            };
            Ok(())
        },
    },
    flag!("tsd.no_diediedie", no_diediedie),
    flag!(
        "tsd.query.allow_simultaneous_duplicates",
        allow_simultaneous_duplicates
    ),
    number!("tsd.query.limits.bytes.default", query_bytes_max),
    number!("tsd.query.limits.data_points.default", query_points_max),
    flag!("tsd.query.skip_unresolved_tagvs", skip_unresolved_tagvs),
    number!("tsd.query.timeout", query_timeout_ms),
    text!("tsd.rollups.agg_tag_key", rollups_agg_tag_key),
    flag!("tsd.rollups.block_derived", rollups_block_derived),
    Setting {
        key: ROLLUPS_DOCUMENT,
        get: |config| config.rollups_document.clone().unwrap_or_default(),
        set: |config, text| {
            config.rollups_document = Some(text.to_owned()).filter(|text| !text.is_empty());
            Ok(())
        },
    },
    flag!("tsd.rollups.enable", rollups_enabled),
    text!("tsd.rollups.raw_agg_tag_value", rollups_raw_agg_tag_value),
    flag!("tsd.rollups.tag_raw", rollups_tag_raw),
    flag!("tsd.rpc.telnet.return_errors", telnet_return_errors),
    flag!("tsd.storage.fix_duplicates", fix_duplicates),
    number!("tsd.storage.max_tags", max_tags),
    uid_width!("tsd.storage.uid.width.metric", 0),
    uid_width!("tsd.storage.uid.width.tagk", 1),
    uid_width!("tsd.storage.uid.width.tagv", 2),
];

impl Config {
    /// Sets what a key names; `None` where none has that key. Documents in `.json` files are read
    /// with `open`.
    pub fn set(
        &mut self,
        key: &str,
        text: &str,
        open: impl Fn(&str) -> Result<String, String>,
    ) -> Option<Result<(), String>> {
        let setting = SETTINGS.iter().find(|setting| setting.key == key)?;
        let text = text.trim();
        let is_document = [HISTOGRAM_CODECS, ROLLUPS_DOCUMENT].contains(&key);
        if !(is_document && text.ends_with(".json")) {
            return Some((setting.set)(self, text));
        }
        let document = open(text).map_err(|error| format!("{text}: {error}"));
        Some(document.and_then(|document| (setting.set)(self, document.trim())))
    }

    /// All settings as texts.
    pub(crate) fn entries(&self) -> BTreeMap<&'static str, String> {
        let shown = |setting: &Setting| (setting.key, (setting.get)(self));
        let mut entries: BTreeMap<_, _> = SETTINGS.iter().map(shown).collect();
        if self.rollups_document.is_none() {
            entries.remove(ROLLUPS_DOCUMENT);
        }
        entries
    }
}

/// As the original reads it, except that what is neither yes nor no is not taken for no.
fn parse_flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" | "" => Ok(false),
        _ => Err(format!("{text:?} is not true or false")),
    }
}

fn parse_number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no number that fits"))
}

/// `{"<class>": <id>}`.
fn parse_codecs(text: &str) -> Result<Option<BTreeMap<String, u8>>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let document = Json::parse(text).map_err(|error| error.reason.to_owned())?;
    let members = document.as_object().ok_or("an object is expected")?;
    let codec = |(class, id): &(std::borrow::Cow<'_, str>, Json<'_>)| {
        let id = id.text().and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| format!("the id of {class:?} is not from 0 to 255"))?;
        Ok((class.to_string(), id))
    };
    members
        .iter()
        .map(codec)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn show_codecs(codecs: Option<&BTreeMap<String, u8>>) -> String {
    let Some(codecs) = codecs else {
        return String::new();
    };
    let members = codecs.iter().map(|(class, id)| format!("\"{class}\":{id}"));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_set() {
        let config = Config {
            mode: Mode::WriteOnly,
            cors_domains: vec!["a".into(), "b".into()],
            histogram_codecs: Some([("net.X".to_owned(), 7)].into()),
            uid_widths: [3, 4, 8],
            timezone: Some("Europe/Berlin".into()),
            rollups_enabled: true,
            rollups_document: Some("{}".into()),
            socket_timeout_s: 60,
            max_tags: 16,
            auto_create_metrics: true,
            ..Config::default()
        };
        let mut copy = Config::default();
        for setting in SETTINGS {
            let text = (setting.get)(&config);
            assert_eq!(
                copy.set(setting.key, &text, no_file),
                Some(Ok(())),
                "{}",
                setting.key
            );
        }
        assert_eq!(copy, config);
        assert_eq!(copy.set("tsd.x", "", no_file), None);
    }

    fn no_file(path: &str) -> Result<String, String> {
        panic!("{path} is no file")
    }

    #[test]
    fn documents_may_lie_in_files() {
        let mut config = Config::default();
        let open = |path: &str| match path {
            "r.json" => Ok("{\"intervals\":[]}\n".into()),
            "h.json" => Ok("{\"X\":7}".into()),
            _ => Err("no such file".into()),
        };
        let mut set = |key, text| config.set(key, text, open).unwrap();
        set("tsd.rollups.config", " r.json").unwrap();
        set("tsd.core.histograms.config", "h.json").unwrap();
        let missing = set("tsd.rollups.config", "x.json").unwrap_err();
        assert_eq!(missing, "x.json: no such file");
        assert_eq!(config.rollups(), None);
        config
            .set("tsd.rollups.enable", "true", open)
            .unwrap()
            .unwrap();
        assert_eq!(config.rollups(), Some("{\"intervals\":[]}"));
        assert_eq!(config.histogram_codecs.unwrap()["X"], 7);
    }

    #[test]
    fn zones_must_exist() {
        let mut config = Config::default();
        let mut set = |zone| config.set("tsd.core.timezone", zone, no_file).unwrap();
        set("Europe/Berlin").unwrap();
        assert!(set("Europe/Berlim").unwrap_err().contains("Europe/Berlim"));
        set("").unwrap();
        assert_eq!(config.timezone, None);
    }
}
