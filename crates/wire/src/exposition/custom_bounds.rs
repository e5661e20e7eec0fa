//! Classic histograms of the text formats as native ones with custom bounds.
//!
//! ```text
//! h_bucket{le="1"} 2 ─┐
//! h_bucket{le="+Inf"} 3 ├─ gathered while name and other labels stay the same ─► h → one histogram
//! h_sum 2.5 · h_count 3 ┘
//! ```
//!
//! Holds always: only families that `# TYPE` calls histograms are converted. A histogram that
//! contradicts itself is returned as the series it came as: nothing is lost.

use std::borrow::Cow;
use std::collections::VecDeque;

use icecore_model::{Histogram, METRIC_NAME, MetricType};

use super::classic::ClassicHistogram;
use super::exemplars::{ExemplarSource, TextExemplar};
use super::float::parse_float;
use super::labels::{Pair, SEPARATOR, Syntax};
use super::lines::LineParser;
use super::{Entry, Fault, Series, SeriesValue};

const LE: &str = "le";

pub(super) struct CustomBounds<'a> {
    lines: LineParser<'a>,
    keep_classic: bool,
    /// The family, while it is one of histograms.
    family: Option<Cow<'a, str>>,
    /// Entries to return before reading on.
    ready: VecDeque<Output<'a>>,
    classic: ClassicHistogram,
    /// The histogram that is being gathered, as a text; empty when there is none.
    gathering: Vec<u8>,
    fields: SharedFields<'a>,
    /// The series that went into it.
    parts: Vec<Series<'a>>,
    /// The histogram returned last.
    text: Vec<u8>,
    last: SharedFields<'a>,
    key: Vec<u8>,
}

/// What the series of a histogram share besides their counts.
#[derive(Default)]
struct SharedFields<'a> {
    timestamp_ms: Option<i64>,
    created_ms: Option<i64>,
    exemplars: Vec<TextExemplar<'a>>,
}

enum Output<'a> {
    Entry(Entry<'a>),
    /// The one in `text` and `last`.
    Histogram(Histogram),
}

/// Which component of a histogram a series is.
enum Component {
    Bucket(f64),
    Count,
    Sum,
}

impl<'a> CustomBounds<'a> {
    pub(super) fn new(lines: LineParser<'a>, keep_classic: bool) -> Self {
        Self {
            lines,
            keep_classic,
            family: None,
            ready: VecDeque::new(),
            classic: ClassicHistogram::default(),
            gathering: Vec::new(),
            fields: SharedFields::default(),
            parts: Vec::new(),
            text: Vec::new(),
            last: SharedFields::default(),
            key: Vec::new(),
        }
    }

    pub(super) fn last_start(&self) -> usize {
        self.lines.last_start()
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry<'_>>, Fault> {
        let Some(step) = self.step()? else {
            return Ok(None);
        };
        Ok(Some(match step {
            Output::Entry(entry) => entry,
            Output::Histogram(histogram) => Entry::Series(Series {
                text: &self.text,
                value: SeriesValue::Histogram(histogram),
                timestamp_ms: self.last.timestamp_ms,
                created_ms: self.last.created_ms,
                syntax: Syntax::Separated,
                number_label: None,
                exemplars: ExemplarSource::TextList(&self.last.exemplars),
            }),
        }))
    }

    fn step(&mut self) -> Result<Option<Output<'a>>, Fault> {
        loop {
            if let Some(step) = self.ready.pop_front() {
                return Ok(Some(step));
            }
            let Some(entry) = self.lines.next()? else {
                self.finish();
                return Ok(self.ready.pop_front());
            };
            match entry {
                Entry::Series(series) => self.series(series),
                other => {
                    self.finish();
                    if let Entry::Type {
                        family,
                        metric_type,
                    } = &other
                    {
                        let histogram = *metric_type == MetricType::Histogram;
                        self.family = histogram.then(|| family.clone());
                    }
                    self.ready.push_back(Output::Entry(other));
                }
            }
        }
    }

    fn series(&mut self, series: Series<'a>) {
        let Some(part) = self.component_of(&series) else {
            self.finish();
            self.ready.push_back(Output::Entry(Entry::Series(series)));
            return;
        };
        if self.key != self.gathering {
            self.finish();
            std::mem::swap(&mut self.gathering, &mut self.key);
        }
        if let SeriesValue::Float(value) = series.value {
            match part {
                Component::Bucket(bound) => self.classic.add_bucket(bound, value),
                Component::Count => self.classic.set_count(value),
                Component::Sum => self.classic.set_sum(value),
            }
        }
        let fields = &mut self.fields;
        fields.timestamp_ms = fields.timestamp_ms.or(series.timestamp_ms);
        fields.created_ms = fields.created_ms.or(series.created_ms);
        if let ExemplarSource::Text(exemplar) = series.exemplars {
            fields.exemplars.push(exemplar);
        }
        if self.keep_classic {
            self.ready.push_back(Output::Entry(Entry::Series(series)));
        } else {
            self.parts.push(series);
        }
    }

    /// Which component of a histogram a series is. If it is one, `key` holds name and labels.
    fn component_of(&mut self, series: &Series<'_>) -> Option<Component> {
        let family = self.family.as_deref()?;
        let mut pairs = Vec::new();
        series.labels(&mut pairs).ok()?;
        let (_, name) = pairs.first()?;
        let part = match name.strip_prefix(family)? {
            "_count" => Component::Count,
            "_sum" => Component::Sum,
            "_bucket" => {
                let (_, bound) = pairs.iter().find(|(name, _)| name == LE)?;
                Component::Bucket(parse_float(bound.as_bytes()).filter(|bound| !bound.is_nan())?)
            }
            _ => return None,
        };
        write_text(&mut self.key, family, &mut pairs);
        Some(part)
    }

    /// Converts what was gathered to a histogram.
    fn finish(&mut self) {
        if self.gathering.is_empty() {
            return;
        }
        match self.classic.convert() {
            Some(histogram) => {
                std::mem::swap(&mut self.text, &mut self.gathering);
                self.last = std::mem::take(&mut self.fields);
                self.ready.push_back(Output::Histogram(histogram));
                self.parts.clear();
            }
            None => {
                let parts = self.parts.drain(..);
                self.ready
                    .extend(parts.map(|s| Output::Entry(Entry::Series(s))));
                self.fields = SharedFields::default();
            }
        }
        self.gathering.clear();
        self.classic.clear();
    }
}

/// Writes the series of a histogram: its name, and the labels of its parts without the bound.
fn write_text(text: &mut Vec<u8>, family: &str, pairs: &mut [Pair<'_>]) {
    pairs.sort_unstable();
    text.clear();
    text.extend_from_slice(family.as_bytes());
    for (name, value) in pairs
        .iter()
        .filter(|(name, _)| name != METRIC_NAME && name != LE)
    {
        for piece in [name, value] {
            text.push(SEPARATOR);
            text.extend_from_slice(piece.as_bytes());
        }
    }
}
