//! The `_created` lines of an OpenMetrics family, found before its series are handed out.
//!
//! ```text
//! # TYPE a counter
//! a_total{x="1"} 5        ◄─ the first line of a family: all its lines are looked through once
//! a_created{x="1"} 1.7e9     labels ─► created timestamp
//! ```
//!
//! Holds always: each line is looked at once, so that the cost is in proportion to the body. A family
//! without such lines pays for nothing else.

use std::borrow::Cow;
use std::collections::HashMap;

use icecore_model::METRIC_NAME;
use memchr::{memchr, memchr_iter};

use super::Series;
use super::float::{parse_float, seconds_to_ms};
use super::labels::{self, SEPARATOR, Syntax};
use super::openmetrics::split_series;

const SUFFIX: &str = "_created";

/// What the `_created` lines of the current family say.
#[derive(Default)]
pub(super) struct CreatedIndex {
    /// By labels without `le` and `quantile`, sorted.
    created_ms: HashMap<Box<[u8]>, i64>,
    /// Lines before this position of the body have been looked at.
    looked_until: usize,
    key: Vec<u8>,
}

impl CreatedIndex {
    /// Looks through the rest of a family, which begins with the line at `start`, unless that was done
    /// for a line before.
    pub(super) fn look_ahead(
        &mut self,
        start: usize,
        rest: &[u8],
        family: &str,
        number_label: Option<&str>,
    ) {
        if start < self.looked_until {
            return;
        }
        self.created_ms.clear();
        let mut line_start = 0;
        for line_end in memchr_iter(b'\n', rest) {
            let line = rest.get(line_start..line_end).unwrap_or_default();
            if line.starts_with(b"#") {
                break;
            }
            line_start = line_end + 1;
            let (text, tail) = split_series(line);
            if self.is_created(text) {
                self.add(text, tail, family, number_label);
            }
        }
        // Also when there was no line at all, this one is done.
        self.looked_until = start + line_start.max(1);
    }

    fn add(&mut self, text: &[u8], tail: &[u8], family: &str, number_label: Option<&str>) {
        let mut words = tail.split(|byte| *byte == b' ').skip(1);
        let seconds = words.next().and_then(parse_float);
        let mut pairs = Vec::new();
        if let Some(created_ms) = seconds.and_then(seconds_to_ms)
            && labels::parse(text, Syntax::OpenMetrics, None, &mut pairs).is_ok()
            && name_of(&pairs).strip_suffix(SUFFIX) == Some(family)
        {
            write_key(&mut self.key, &mut pairs, number_label);
            self.created_ms
                .insert(self.key.as_slice().into(), created_ms);
        }
    }

    /// Whether the name of a series says that its value is such a timestamp.
    #[inline]
    pub(super) fn is_created(&self, text: &[u8]) -> bool {
        let name = match memchr(b'{', text) {
            Some(0) => return quoted_name_is_created(text),
            Some(brace) => text.get(..brace).unwrap_or(text),
            None => text,
        };
        name.ends_with(SUFFIX.as_bytes())
    }

    /// When the series of a sample began to count.
    #[inline]
    pub(super) fn of(&mut self, series: &Series<'_>, family: &str) -> Option<i64> {
        if self.created_ms.is_empty() {
            return None;
        }
        let mut pairs = Vec::new();
        series.labels(&mut pairs).ok()?;
        if !name_of(&pairs).starts_with(family) {
            return None;
        }
        write_key(&mut self.key, &mut pairs, series.number_label);
        self.created_ms.get(self.key.as_slice()).copied()
    }
}

fn quoted_name_is_created(text: &[u8]) -> bool {
    let mut pairs = Vec::new();
    labels::parse(text, Syntax::OpenMetrics, None, &mut pairs).is_ok()
        && name_of(&pairs).ends_with(SUFFIX)
}

fn name_of<'p>(pairs: &'p [labels::Pair<'_>]) -> &'p str {
    pairs.first().map_or("", |(_, name)| name)
}

/// Labels in order, without the name and the one that tells the parts of a metric apart.
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
