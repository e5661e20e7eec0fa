//! Which format a scraper gets, and how names with unusual characters are written in it.

use std::borrow::Cow;

use crate::prometheus::escaping::{escape_name, is_legacy_char, is_legacy_name};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
const PROTOBUF_MESSAGE: &str = "io.prometheus.client.MetricFamily";

/// How a name is written that is not made of `[a-zA-Z0-9_:]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escaping {
    /// Other characters become underscores.
    Underscores,
    /// The same, but dots and underscores stay distinct.
    Dots,
    /// Reversible, see `escaping`.
    Values,
    /// As they are.
    AllowUtf8,
}

impl Escaping {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Underscores, "underscores"),
        (Self::Dots, "dots"),
        (Self::Values, "values"),
        (Self::AllowUtf8, "allow-utf-8"),
    ];

    fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(escaping, _)| *escaping)
    }

    pub(crate) fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(escaping, _)| *escaping == self);
        found.map_or("", |(_, name)| name)
    }

    pub(super) fn escape(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::AllowUtf8 => name.into(),
            Self::Dots => dotted(name).into(),
            _ if is_legacy_name(name) => name.into(),
            Self::Values => escape_name(name).into(),
            Self::Underscores => {
                let kept = |(i, c)| if is_legacy_char(c, i) { c } else { '_' };
                name.char_indices().map(kept).collect::<String>().into()
            }
        }
    }
}

fn dotted(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for (i, c) in name.char_indices() {
        match c {
            '.' => escaped.push_str("_dot_"),
            c if c != '_' && is_legacy_char(c, i) => escaped.push(c),
            _ => escaped.push_str("__"),
        }
    }
    escaped
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FederateFormat {
    /// Text, or protobuf messages with their lengths.
    pub(super) is_text: bool,
    pub(super) escaping: Escaping,
}

impl FederateFormat {
    /// Reads an `Accept` header. Unknown formats are ignored; the default is text.
    pub fn negotiate(accept: Option<&str>) -> Self {
        let mut format = Self {
            is_text: true,
            escaping: Escaping::Underscores,
        };
        let mut choices: Vec<MediaRange<'_>> = accept
            .unwrap_or_default()
            .split(',')
            .map(MediaRange::parse)
            .collect();
        choices.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        for choice in choices {
            if let Some(escaping) = choice.parameter("escaping").and_then(Escaping::from_name) {
                format.escaping = escaping;
            }
            let protobuf = choice.media_type == "application/vnd.google.protobuf"
                && choice.parameter("proto") == Some(PROTOBUF_MESSAGE)
                && choice.parameter("encoding") == Some("delimited");
            let text = choice.media_type == "text/plain"
                && matches!(choice.parameter("version"), None | Some("" | "0.0.4"));
            if protobuf || text {
                format.is_text = text;
                break;
            }
        }
        format
    }

    pub fn content_type(&self) -> String {
        let format = if self.is_text { TEXT } else { PROTOBUF };
        format!("{format}; escaping={}", self.escaping.name())
    }
}

/// One alternative of an `Accept` header.
struct MediaRange<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    weight: f32,
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let mut choice = Self {
            media_type,
            parameters,
            weight: 1.0,
        };
        let weight = choice.parameter("q").and_then(|q| q.parse().ok());
        choice.weight = weight.unwrap_or(1.0);
        choice
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        let found = self.parameters.iter().find(|(n, _)| n.trim() == name);
        found.map(|(_, value)| value.trim().trim_matches('"'))
    }
}
