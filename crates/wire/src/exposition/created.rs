//! The `_created` lines of an OpenMetrics family, found before its series are returned.
//!
//! ```text
//! # TYPE a counter
//! a_total{x="1"} 5        ◄─ the first line of a family: all its lines are scanned once
//! a_created{x="1"} 1.7e9     labels ─► created timestamp
//! ```
//!
//! Holds always: each line is scanned once, so the cost is linear in the body.

use std::borrow::Cow;
use std::collections::HashMap;

use icecore_model::METRIC_NAME;
use memchr::{memchr, memchr_iter};

use super::Series;
use super::float::{parse_float, seconds_to_ms};
use super::labels::{self, SEPARATOR, Syntax};
use super::openmetrics::split_series;

const SUFFIX: &[u8] = b"_created";

/// The `_created` lines of the current family.
#[derive(Default)]
pub(super) struct CreatedIndex<'a> {
    /// By labels as they are written: counters usually have the same ones in both lines.
    as_written: HashMap<&'a [u8], i64>,
    /// By labels without `le` and `quantile`, sorted; made when the first series needs it.
    sorted: Option<HashMap<Box<[u8]>, i64>>,
    /// Lines before this position of the body have been scanned.
    looked_until: usize,
    key: Vec<u8>,
}

impl<'a> CreatedIndex<'a> {
    /// Scans the rest of a family, which begins with the line at `start`, unless an earlier line
    /// did.
    pub(super) fn look_ahead(&mut self, start: usize, rest: &'a [u8], family: &str) {
        if start < self.looked_until {
            return;
        }
        self.as_written.clear();
        self.sorted = None;
        let mut line_start = 0;
        for line_end in memchr_iter(b'\n', rest) {
            let line = rest.get(line_start..line_end).unwrap_or_default();
            if line.starts_with(b"#") {
                break;
            }
            line_start = line_end + 1;
            let (text, tail) = split_series(line);
            if self.is_created(text) {
                self.add(text, tail, family);
            }
        }
        // Also when there was no line at all, this one is done.
        self.looked_until = start + line_start.max(1);
    }

    fn add(&mut self, text: &'a [u8], tail: &[u8], family: &str) {
        let mut words = tail.split(|byte| *byte == b' ').skip(1);
        let seconds = words.next().and_then(parse_float);
        let (name, labels) = split_name(text);
        let belongs = name.is_empty() || name.strip_suffix(SUFFIX) == Some(family.as_bytes());
        if let Some(created_ms) = seconds.and_then(seconds_to_ms)
            && belongs
        {
            self.as_written.insert(labels, created_ms);
        }
    }

    /// Whether a series is a `_created` line, by its name.
    #[inline]
    pub(super) fn is_created(&self, text: &[u8]) -> bool {
        match split_name(text) {
            ([], _) => quoted_name_is_created(text),
            (name, _) => name.ends_with(SUFFIX),
        }
    }

    /// When the series of a sample began to count.
    #[inline]
    pub(super) fn of(&mut self, series: &Series<'_>, family: &str) -> Option<i64> {
        if self.as_written.is_empty() {
            return None;
        }
        let (name, labels) = split_name(series.text);
        if !name.is_empty() && name.starts_with(family.as_bytes()) {
            let found = self.as_written.get(labels);
            if found.is_some() {
                return found.copied();
            }
        }
        let mut pairs = Vec::new();
        series.labels(&mut pairs).ok()?;
        if !name_of(&pairs).starts_with(family) {
            return None;
        }
        let (key, as_written) = (&mut self.key, &self.as_written);
        let sorted = self
            .sorted
            .get_or_insert_with(|| sorted_index(as_written, family, series.number_label, key));
        write_key(key, &mut pairs, series.number_label);
        sorted.get(key.as_slice()).copied()
    }
}

fn sorted_index(
    as_written: &HashMap<&[u8], i64>,
    family: &str,
    number_label: Option<&str>,
    key: &mut Vec<u8>,
) -> HashMap<Box<[u8]>, i64> {
    let mut sorted = HashMap::with_capacity(as_written.len());
    let mut text = Vec::new();
    for (labels, created_ms) in as_written {
        // A quoted name is among the labels; any other was checked against the family.
        text.clear();
        let quoted = quoted_name_is_created(labels);
        if !quoted {
            text.extend_from_slice(b"_created");
        }
        text.extend_from_slice(labels);
        let mut pairs = Vec::new();
        if labels::parse(&text, Syntax::OpenMetrics, None, &mut pairs).is_ok()
            && (!quoted
                || name_of(&pairs).as_bytes().strip_suffix(SUFFIX) == Some(family.as_bytes()))
        {
            write_key(key, &mut pairs, number_label);
            sorted.insert(key.as_slice().into(), *created_ms);
        }
    }
    sorted
}

/// The name before the brace, and the rest of a text.
#[inline]
fn split_name(text: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr(b'{', text).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, &[]))
}

fn quoted_name_is_created(text: &[u8]) -> bool {
    let mut pairs = Vec::new();
    labels::parse(text, Syntax::OpenMetrics, None, &mut pairs).is_ok()
        && name_of(&pairs).as_bytes().ends_with(SUFFIX)
}

fn name_of<'p>(pairs: &'p [labels::Pair<'_>]) -> &'p str {
    pairs.first().map_or("", |(_, name)| name)
}

/// Labels in order, without the name and without `le` or `quantile`.
fn write_key(key: &mut Vec<u8>, pairs: &mut [labels::Pair<'_>], number_label: Option<&str>) {
    pairs.sort_unstable();
    key.clear();
    for (name, value) in pairs.iter() {
        let left_out = |other: &str| <Cow<'_, str> as AsRef<str>>::as_ref(name) == other;
        if left_out(METRIC_NAME) || number_label.is_some_and(left_out) {
            continue;
        }
        key.extend_from_slice(name.as_bytes());
        key.push(SEPARATOR);
        key.extend_from_slice(value.as_bytes());
        key.push(SEPARATOR);
    }
}
