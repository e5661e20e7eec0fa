//! Import of text expositions with timestamps: chunks of a stream, straight into a sink.
//!
//! ```text
//! chunks ─► whole lines ─► samples ─► SampleSink
//!   └ the part of a line at the end waits for the next chunk
//! ```
//!
//! Holds always:
//! - A line that cannot be parsed is rejected at the sink with its number; the others are imported.
//! - Where chunks are cut changes nothing. Between them at most [`LINE_BYTES_MAX`] bytes are held.
//! - A line is a line: line ends between quotes, which a scrape may have, are not read here.

use std::borrow::Cow;

use icecore_model::{
    Exemplar, Metadata, MetricType, RawLabels, Sample, SampleSink, push_raw_label,
};
use memchr::{memchr, memchr_iter, memrchr};

use super::labels::Pair;
use super::lines::LineParser;
use super::openmetrics::OpenMetricsParser;
use super::text::TextParser;
use super::{Entry, Fault, Series, SeriesValue};

/// The longest line that is read. Labels are limited far below this by whatever stores them.
pub const LINE_BYTES_MAX: usize = 1 << 20;
const TOO_LONG: &str = "it is longer than 1 MiB";

/// What all samples of an import have in common.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Of OpenMetrics rather than text; `# EOF` is then allowed but not asked for.
    pub openmetrics: bool,
    /// For samples without a timestamp.
    pub default_timestamp_ms: i64,
    /// Labels that every series gets, in place of its own of the same name.
    pub extra_labels: Vec<(String, String)>,
}

/// The counts of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportCounts {
    /// Samples handed to the sink.
    pub samples: u64,
    /// Lines that could not be read.
    pub refused_lines: u64,
}

/// Reads a whole import.
pub fn import_text<C: AsRef<[u8]>>(
    chunks: impl IntoIterator<Item = C>,
    options: ImportOptions,
    sink: &mut impl SampleSink,
) -> ImportCounts {
    let mut import = TextImport::new(options);
    for chunk in chunks {
        import.push(chunk.as_ref(), sink);
    }
    import.finish(sink)
}

/// An import whose chunks come one by one.
pub struct TextImport {
    options: ImportOptions,
    counts: ImportCounts,
    /// Lines before the current chunk.
    lines: u64,
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
    /// Whether the current line is too long and its rest is skipped.
    skipping: bool,
    metric_type: MetricType,
    /// Metadata of the current family, until its last line.
    metadata: Option<(String, Metadata)>,
    /// The text of the series announced last; empty when there is none.
    announced: Vec<u8>,
    labels: Vec<u8>,
}

impl TextImport {
    pub fn new(options: ImportOptions) -> Self {
        Self {
            options,
            counts: ImportCounts::default(),
            lines: 0,
            partial: Vec::new(),
            skipping: false,
            metric_type: MetricType::Unknown,
            metadata: None,
            announced: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Reads the lines that end in this chunk.
    pub fn push(&mut self, chunk: &[u8], sink: &mut impl SampleSink) {
        let mut rest = chunk;
        if self.skipping || !self.partial.is_empty() {
            let Some(end) = memchr(b'\n', rest) else {
                self.keep_partial(rest, sink);
                return;
            };
            let (head, tail) = rest.split_at_checked(end + 1).unwrap_or((rest, &[]));
            rest = tail;
            self.keep_partial(head, sink);
            self.partial_line(sink);
        }
        let whole = memrchr(b'\n', rest).map_or(0, |end| end + 1);
        let (lines, partial) = rest.split_at_checked(whole).unwrap_or((rest, &[]));
        self.read_lines(lines, sink);
        self.keep_partial(partial, sink);
    }

    /// Reads a last line without a line end.
    pub fn finish(mut self, sink: &mut impl SampleSink) -> ImportCounts {
        if !self.partial.is_empty() {
            self.partial.push(b'\n');
        }
        self.partial_line(sink);
        self.flush_metadata(sink);
        self.counts
    }

    /// Forgets the current series, for a new sink that knows none.
    pub fn forget_series(&mut self) {
        self.announced.clear();
    }

    /// The counts so far.
    pub fn counts(&self) -> ImportCounts {
        self.counts
    }

    fn keep_partial(&mut self, part: &[u8], sink: &mut impl SampleSink) {
        if self.skipping {
            return;
        }
        if self.partial.len() + part.len() > LINE_BYTES_MAX {
            self.refuse(self.lines + 1, TOO_LONG, sink);
            self.partial = Vec::new();
            self.skipping = true;
        } else {
            self.partial.extend_from_slice(part);
        }
    }

    fn partial_line(&mut self, sink: &mut impl SampleSink) {
        if self.skipping {
            self.skipping = false;
            self.lines += 1;
            return;
        }
        let mut line = std::mem::take(&mut self.partial);
        self.read_lines(&line, sink);
        line.clear();
        self.partial = line;
    }

    /// Reads complete lines and refuses those that are too long.
    fn read_lines(&mut self, lines: &[u8], sink: &mut impl SampleSink) {
        let (mut first, mut start) = (0, 0);
        if lines.len() > LINE_BYTES_MAX {
            for end in memchr_iter(b'\n', lines) {
                if end + 1 - start > LINE_BYTES_MAX {
                    self.read_short_lines(lines.get(first..start).unwrap_or_default(), sink);
                    self.refuse(self.lines + 1, TOO_LONG, sink);
                    self.lines += 1;
                    first = end + 1;
                }
                start = end + 1;
            }
        }
        self.read_short_lines(lines.get(first..).unwrap_or_default(), sink);
    }

    fn read_short_lines(&mut self, lines: &[u8], sink: &mut impl SampleSink) {
        let mut parser = if self.options.openmetrics {
            LineParser::OpenMetrics(OpenMetricsParser::of_lines(lines, self.metric_type))
        } else {
            LineParser::Text(TextParser::of_lines(lines, self.metric_type))
        };
        let mut counter = LineCounter::default();
        let mut pairs = Vec::new();
        loop {
            let problem = match parser.next() {
                Ok(None) => break,
                Ok(Some(Entry::Series(series))) => {
                    pairs.clear();
                    match self.series(&series, &mut pairs, sink) {
                        Ok(()) => continue,
                        Err(reason) => Fault::new(parser.last_start(), reason),
                    }
                }
                Ok(Some(entry)) => {
                    self.metadata_line(entry, sink);
                    continue;
                }
                Err(fault) => fault,
            };
            let line = self.lines + 1 + counter.lines_before(problem.offset, lines);
            // The parser is past the line already.
            self.refuse(line, &problem.reason, sink);
        }
        self.metric_type = parser.metric_type();
        self.lines += counter.lines_before(lines.len(), lines);
    }

    fn refuse(&mut self, line: u64, reason: &str, sink: &mut impl SampleSink) {
        self.counts.refused_lines += 1;
        sink.reject(format!("line {line}: {reason}"));
    }

    fn series<'l>(
        &mut self,
        series: &Series<'l>,
        pairs: &mut Vec<Pair<'l>>,
        sink: &mut impl SampleSink,
    ) -> Result<(), String> {
        let SeriesValue::Float(value) = series.value else {
            return Ok(());
        };
        // Exports have the samples of a series one after the other.
        if self.announced.is_empty() || self.announced != series.text {
            series.labels(pairs).map_err(|error| error.to_string())?;
            self.flush_metadata(sink);
            self.announce(pairs, sink);
            self.announced.clear();
            self.announced.extend_from_slice(series.text);
        }
        let timestamp_ms = series
            .timestamp_ms
            .unwrap_or(self.options.default_timestamp_ms);
        sink.sample(Sample {
            timestamp_ms,
            value,
            start_timestamp_ms: 0,
        });
        self.counts.samples += 1;
        for exemplar in series.exemplars() {
            match exemplar {
                Ok(exemplar) => sink.exemplar(Exemplar {
                    labels: exemplar.labels,
                    timestamp_ms: exemplar.timestamp_ms.unwrap_or(timestamp_ms),
                    value: exemplar.value,
                }),
                Err(reason) => sink.reject(reason.into()),
            }
        }
        Ok(())
    }

    fn announce(&mut self, pairs: &mut Vec<Pair<'_>>, sink: &mut impl SampleSink) {
        let extra = &self.options.extra_labels;
        pairs.retain(|(name, value)| {
            !value.is_empty() && !extra.iter().any(|(other, _)| other == name)
        });
        let borrowed = |text: &String| Cow::Owned(text.clone());
        pairs.extend(extra.iter().map(|(n, v)| (borrowed(n), borrowed(v))));
        pairs.sort_unstable();
        self.labels.clear();
        for (name, value) in pairs.iter() {
            push_raw_label(&mut self.labels, name, value);
        }
        sink.series(RawLabels(&self.labels));
    }

    /// Type, unit and help have lines of their own; they reach the sink together.
    fn metadata_line(&mut self, entry: Entry<'_>, sink: &mut impl SampleSink) {
        let family = match &entry {
            Entry::Type { family, .. }
            | Entry::Help { family, .. }
            | Entry::Unit { family, .. } => family,
            Entry::Series(_) => return,
        };
        if self
            .metadata
            .as_ref()
            .is_some_and(|(name, _)| name != family)
        {
            self.flush_metadata(sink);
        }
        // The same text may mean other labels after another type.
        self.announced.clear();
        let new = || (family.to_string(), Metadata::default());
        let (_, metadata) = self.metadata.get_or_insert_with(new);
        match entry {
            Entry::Type { metric_type, .. } => metadata.metric_type = metric_type,
            Entry::Help { text, .. } => metadata.help = text.into_owned(),
            Entry::Unit { unit, .. } => metadata.unit = unit.into_owned(),
            Entry::Series(_) => {}
        }
    }

    fn flush_metadata(&mut self, sink: &mut impl SampleSink) {
        if let Some((family, metadata)) = self.metadata.take()
            && !family.is_empty()
        {
            sink.metadata(&family, metadata);
        }
    }
}

/// Counts lines up to offsets that ascend, each line once.
#[derive(Default)]
struct LineCounter {
    offset: usize,
    lines: u64,
}

impl LineCounter {
    fn lines_before(&mut self, offset: usize, lines: &[u8]) -> u64 {
        let between = lines.get(self.offset..offset).unwrap_or_default();
        self.lines += memchr_iter(b'\n', between).count() as u64;
        self.offset = self.offset.max(offset);
        self.lines
    }
}
