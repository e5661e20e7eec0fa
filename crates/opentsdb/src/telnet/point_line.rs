//! The commands that write a point.

use icecore_wire::opentsdb::number::parse_integer;
use icecore_wire::opentsdb::telnet::PutLine;

use crate::put::histogram::NOT_ENABLED;
use crate::put::rollup::RollupSpec;
use crate::put::{PointWriter, PutError, SeriesText};
use crate::refusals::RefusalReason;

/// `<metric> <time> <value> <tags>`.
pub(super) fn write_point(
    writer: &mut PointWriter<'_>,
    arguments: Option<&str>,
) -> Result<(), PutError> {
    let line = PutLine::parse(arguments).map_err(|count| {
        PutError::Argument(format!("not enough arguments (need least 4, got {count})"))
    })?;
    let (series, timestamp) = series_and_time(line)?;
    writer.write(series, timestamp, line.value)
}

fn series_and_time(line: PutLine<'_>) -> Result<(SeriesText<'_>, i64), PutError> {
    if line.metric.is_empty() {
        return Err(PutError::argument("empty metric name"));
    }
    let timestamp = parse_timestamp(line.timestamp)?;
    if line.value.is_empty() {
        return Err(PutError::argument("empty value"));
    }
    let series = SeriesText::Line {
        metric: line.metric,
        tags: line.tags,
    };
    Ok((series, timestamp))
}

/// `<interval and functions> <metric> <time> <value> <tags>`.
pub(super) fn write_rollup(
    writer: &mut PointWriter<'_>,
    arguments: Option<&str>,
) -> Result<(), PutError> {
    let few = |count: usize| {
        let message = format!("not enough arguments (need least 7, got {count})");
        PutError::Argument(message)
    };
    let (spec, rest) = match arguments.map(|arguments| arguments.split_once(' ')) {
        None => return Err(few(0)),
        Some(None) => return Err(few(1)),
        Some(Some(parts)) => parts,
    };
    let line = PutLine::parse(Some(rest)).map_err(|count| few(count + 1))?;
    if spec.is_empty() {
        return Err(PutError::argument("Missing interval or aggregator"));
    }
    let (series, timestamp) = series_and_time(line)?;
    writer.write_rollup(series, RollupSpec::parse(spec), timestamp, line.value)
}

/// `<metric> <time> <counts, or an id and base 64> <tags>`.
pub(super) fn write_histogram(
    writer: &mut PointWriter<'_>,
    arguments: Option<&str>,
) -> Result<(), PutError> {
    if writer.naming_config().histogram_codecs.is_none() {
        let reason = RefusalReason::HistogramNotConfigured;
        return Err(PutError::by_setting(reason, NOT_ENABLED));
    }
    let line = PutLine::parse(arguments).map_err(|count| {
        PutError::Argument(format!("not enough arguments (need least 5, got {count})"))
    })?;
    let (_, timestamp) = series_and_time(line)?;
    let rest = format!("{} {}", line.value, line.tags);
    writer.write_line_histogram(line.metric, timestamp, &rest)
}

/// A point within the time is left out: milliseconds remain.
pub(super) fn parse_timestamp(text: &str) -> Result<i64, PutError> {
    let timestamp = if text.contains('.') {
        parse_integer(&text.replace('.', ""))?
    } else {
        parse_integer(text)?
    };
    if timestamp <= 0 {
        return Err(PutError::Argument(format!(
            "invalid timestamp: {timestamp}"
        )));
    }
    Ok(timestamp)
}
