//! Lines of the text format: `metric timestamp value tagk=tagv …`, as `tsdb import` reads them and
//! `tsdb scan --import` writes them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use icecore_model::{HOUR_MS, WriteOutcome};
use icecore_wire::opentsdb::number::parse_integer;
use icecore_wire::opentsdb::telnet::{PutLine, decode_line};

use super::batch::{PartLimits, part_lengths};
use super::report::{Report, Skipped};
use crate::config::Config;
use crate::error::Error;
use crate::put::append::append_with;
use crate::put::{PointWriter, PutError, SeriesText, milliseconds};
use crate::tsd::Tsd;

/// The longest line: names have limits that are far below.
const LINE_BYTES_MAX: usize = 1 << 20;

/// What is shown of a line that is wrong.
const SHOWN_CHARS: usize = 200;

/// Lines that are stored with one write.
pub(super) struct LinePart {
    text: Bytes,
    lines: Vec<Line>,
}

struct Line {
    bytes: Range<usize>,
    /// Counted from 1.
    number: u64,
    /// Lines without a time come first: they are refused before others are stored.
    hour: Option<i64>,
}

/// Lines in parts of some hours each, and how many there are.
pub(super) fn split(text: &Bytes, limits: PartLimits) -> (Vec<Arc<LinePart>>, u64) {
    let mut lines = Vec::new();
    let (mut start, mut number) = (0, 0);
    while start < text.len() {
        let rest = &text[start..];
        let length = rest.iter().position(|byte| *byte == b'\n');
        let length = length.unwrap_or(rest.len());
        let line = rest[..length].trim_ascii();
        // What is trimmed at the front is no part of the line.
        let blanks = rest[..length].len() - rest[..length].trim_ascii_start().len();
        number += 1;
        if !line.is_empty() {
            lines.push(Line {
                bytes: start + blanks..start + blanks + line.len(),
                number,
                hour: hour_of(line),
            });
        }
        start += length + 1;
    }
    lines.sort_by_key(|line| line.hour);
    let hours: Vec<i64> = lines
        .iter()
        .map(|line| line.hour.unwrap_or(i64::MIN))
        .collect();
    let mut lines = lines.into_iter();
    let parts = part_lengths(&hours, limits).into_iter().map(|length| {
        let lines = lines.by_ref().take(length);
        Arc::new(LinePart {
            text: text.clone(),
            lines: lines.collect(),
        })
    });
    (parts.collect(), number)
}

fn hour_of(line: &[u8]) -> Option<i64> {
    let mut words = line.splitn(3, |byte| *byte == b' ').skip(1);
    let timestamp = std::str::from_utf8(words.next()?).ok()?;
    let timestamp = parse_integer(timestamp).ok()?;
    Some(milliseconds(timestamp).div_euclid(HOUR_MS))
}

impl LinePart {
    /// Stores the lines. Without `skips_errors` nothing is stored where one cannot be.
    pub(super) async fn store(
        self: Arc<Self>,
        tsd: &Tsd,
        config: Arc<Config>,
        skips_errors: bool,
    ) -> Result<(Report, WriteOutcome), Error> {
        let write = move |writer: &mut PointWriter<'_>| {
            let mut refused: Vec<Skipped> = Vec::new();
            let mut report = Report::default();
            for line in &self.lines {
                let bytes = &self.text[line.bytes.clone()];
                if let Err(error) = write_line(writer, bytes) {
                    writer.count_invalid(&error);
                    let skipped = skipped(&error, line.number, bytes);
                    if skips_errors {
                        report.skip(skipped);
                    } else {
                        refused.push(skipped);
                    }
                }
            }
            match refused.into_iter().min_by_key(|skipped| skipped.line) {
                None => Ok(report),
                Some(first) => Err(ends_import(&first)),
            }
        };
        let appended = append_with(tsd, config, Duration::ZERO, write).await?;
        appended.durable.wait().await?;
        Ok((appended.report, appended.outcome))
    }
}

/// The error that a line is which must not be passed over.
pub(super) fn ends_import(skipped: &Skipped) -> Error {
    let line = skipped.line.unwrap_or(0);
    let (reason, example) = (&skipped.reason, &skipped.example);
    let separator = if example.is_empty() { "" } else { ": " };
    Error::bad_request(format!("line {line}: {reason}{separator}{example}"))
}

fn write_line(writer: &mut PointWriter<'_>, line: &[u8]) -> Result<(), PutError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(PutError::argument("longer than 1 MiB"));
    }
    let line = text_of(line);
    let line = PutLine::parse(Some(&line)).map_err(|count| {
        PutError::Argument(format!("not enough words (need least 4, got {count})"))
    })?;
    if line.metric.is_empty() {
        return Err(PutError::argument("empty metric name"));
    }
    let timestamp = parse_integer(line.timestamp)?;
    if timestamp <= 0 {
        return Err(PutError::Argument(format!(
            "invalid timestamp: {timestamp}"
        )));
    }
    if line.value.is_empty() {
        return Err(PutError::argument("empty value"));
    }
    let series = SeriesText::Line {
        metric: line.metric,
        tags: line.tags,
    };
    writer.write(series, timestamp, line.value)
}

/// Files are in UTF-8; what is not was written where letters were ISO-8859-1.
fn text_of(line: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(line) {
        Ok(text) => text.into(),
        Err(_) => decode_line(line),
    }
}

fn skipped(error: &PutError, number: u64, line: &[u8]) -> Skipped {
    let (reason, message) = match error {
        PutError::Number(error) => ("not a number", error.to_string()),
        PutError::UnknownName(_, message) => {
            let reason = "unknown name: --auto-metric creates metrics";
            (reason, message.clone())
        }
        PutError::Argument(message) | PutError::BySetting(_, message) => {
            ("illegal line", message.clone())
        }
        other => ("illegal line", other.http_text().into_owned()),
    };
    let text: String = text_of(line).chars().take(SHOWN_CHARS).collect();
    Skipped::one(reason, number, format!("{message} in {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_ordered_by_hours_and_keep_their_numbers() {
        let text = "a 7200 1 h=x\r\n\n b 1 2 h=x\nc ? 3\nd 3600000000000 1 h=x\n";
        let limits = PartLimits {
            hours_max: 2,
            points_max: 100,
        };
        let (parts, lines) = split(&Bytes::from(text), limits);
        assert_eq!(lines, 5);
        let shown: Vec<Vec<(u64, &str)>> = parts
            .iter()
            .map(|part| {
                let show = |line: &Line| (line.number, &text[line.bytes.clone()]);
                part.lines.iter().map(show).collect()
            })
            .collect();
        assert_eq!(
            shown,
            [
                vec![(4, "c ? 3")],
                vec![(3, "b 1 2 h=x")],
                vec![(1, "a 7200 1 h=x")],
                vec![(5, "d 3600000000000 1 h=x")],
            ]
        );
    }
    #[test]
    fn times_that_cannot_be_have_hours() {
        let text = format!("a {} 1 h=x\na {} 1 h=x\n", i64::MIN, i64::MAX);
        let limits = PartLimits {
            hours_max: 2,
            points_max: 100,
        };
        let (parts, lines) = split(&Bytes::from(text), limits);
        assert_eq!(lines, 2);
        let lines = parts.iter().flat_map(|part| &part.lines);
        let hours: Vec<Option<i64>> = lines.map(|line| line.hour).collect();
        assert_eq!(
            hours,
            [i64::MIN, i64::MAX].map(|time| Some(time.div_euclid(HOUR_MS)))
        );
    }
}
