//! Points as lines of the text format, or as cells.

use std::sync::Arc;

use http::StatusCode;
use icecore_model::{
    HOUR_MS, Labels, METRIC_NAME, Matcher, SelectHints, Selection, SeriesSamples, SeriesStream,
    SourceError, is_stale_nan,
};
use icecore_wire::opentsdb::cell_line::CellLine;
use icecore_wire::opentsdb::number::Number;

use super::report::{Report, Skipped};
use super::tables::TableLayout;
use crate::error::Error;
use crate::hbase::{CellPoint, Column, Offset, RollupCell, RollupFunction, RowKey, row_base};
use crate::histogram::{SIMPLE_CODEC, SimpleHistogram};
use crate::java::push_double;
use crate::name::validate;
use crate::rollup::{ROLLUP_LABEL, RollupKind, base_metric};
use crate::series::{SeriesName, assigned_tsuids};
use crate::tsd::Tsd;
use crate::uid::Tsuid;

/// The family of points.
const FAMILY: &[u8] = b"t";

/// Times up to this are read as seconds, and up to the next one as milliseconds.
const SECONDS_MAX: i64 = u32::MAX as i64;
const MILLISECONDS_MAX: i64 = 9_999_999_999_999;

/// What is shown of a series that is left out.
const EXAMPLE_CHARS: usize = 200;

/// How points are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    Text,
    Cells,
}

/// An export that is under way.
pub struct PointExport {
    tsd: Arc<Tsd>,
    format: ExportFormat,
    layout: TableLayout,
    selectors: Vec<Vec<Matcher>>,
    /// First and last millisecond.
    range_ms: (i64, i64),
    hints: SelectHints,
    /// Set if names without a UID get one, which writes.
    assigns_uids: bool,
    /// Selectors that were opened; the last of them is being read.
    opened: usize,
    stream: Option<Box<dyn SeriesStream>>,
    report: Report,
}

/// A series under the names that its UIDs have now.
struct NamedSeries {
    name: SeriesName,
    rollup: Option<RollupKind>,
    samples: SeriesSamples,
}

impl PointExport {
    pub fn new(
        tsd: Arc<Tsd>,
        format: ExportFormat,
        layout: TableLayout,
        selectors: Vec<Vec<Matcher>>,
        range_ms: (i64, i64),
        hints: SelectHints,
    ) -> Self {
        Self {
            tsd,
            format,
            layout,
            selectors,
            range_ms,
            hints: SelectHints {
                forms: true,
                ..hints
            },
            assigns_uids: false,
            opened: 0,
            stream: None,
            report: Report::default(),
        }
    }

    /// Gives UIDs to names that have none, where cells need them. Otherwise their series are left
    /// out and reported.
    pub fn assigning_uids(self) -> Self {
        Self {
            assigns_uids: true,
            ..self
        }
    }

    /// What was written, and what was not.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The next lines, which may be none; `None` at the end.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(stream) = &mut self.stream else {
            let Some(matchers) = self.selectors.get(self.opened) else {
                return Ok(None);
            };
            let selection = Selection {
                matchers: matchers.clone(),
                start_ms: self.range_ms.0,
                end_ms: self.range_ms.1,
                hints: self.hints.clone(),
            };
            let stream = self.tsd.stores.series.select(selection).await;
            self.stream = Some(stream.map_err(failed)?);
            self.opened += 1;
            return Ok(Some(Vec::new()));
        };
        let Some(batch) = stream.next_batch().await.map_err(failed)? else {
            self.stream = None;
            return Ok(Some(Vec::new()));
        };
        let earlier = &self.selectors[..self.opened - 1];
        let is_new = |samples: &SeriesSamples| {
            let labels = &samples.labels;
            let fits = |m: &Matcher| m.matches(labels.get(m.name()).unwrap_or_default());
            !earlier.iter().any(|matchers| matchers.iter().all(fits))
        };
        let batch: Vec<SeriesSamples> = batch.into_iter().filter(is_new).collect();
        let series: Vec<NamedSeries> = batch
            .into_iter()
            .filter_map(|samples| self.named(samples))
            .collect();
        let mut out = Vec::new();
        match self.format {
            ExportFormat::Text => series.iter().for_each(|s| self.write_lines(s, &mut out)),
            ExportFormat::Cells => {
                let names: Vec<&SeriesName> = series.iter().map(|series| &series.name).collect();
                let tsuids = tsuids(&self.tsd, &names, self.assigns_uids).await?;
                for (series, tsuid) in series.iter().zip(tsuids) {
                    match tsuid {
                        Some(tsuid) => self.write_cells(series, &tsuid, &mut out),
                        None => self.skip_unnamed(series),
                    }
                }
            }
        }
        Ok(Some(out))
    }

    fn skip_unnamed(&mut self, series: &NamedSeries) {
        let reason = "names without UIDs: POST with assign_uids=true gives them some";
        let count = series.samples.sample_count() as u64;
        self.skip(reason, count, series.samples.labels.to_string());
    }

    /// The series, if it is one that the original can have.
    fn named(&mut self, samples: SeriesSamples) -> Option<NamedSeries> {
        let labels = &samples.labels;
        let rollup = labels.get(ROLLUP_LABEL).and_then(RollupKind::parse);
        let metric = base_metric(labels).to_owned();
        let without_kind = labels
            .iter()
            .filter(|(name, _)| *name != ROLLUP_LABEL || rollup.is_none())
            .map(|(name, value)| match name {
                METRIC_NAME => (name, metric.as_str()),
                _ => (name, value),
            });
        let name = SeriesName::of(&Labels::from_pairs(without_kind), &self.tsd.uids);
        let problem = match &name {
            None => Some("a label that begins with __"),
            Some(name) if name.tags.is_empty() => Some("no tags"),
            Some(name) if !self.is_writable(name) => {
                Some("a name that OpenTSDB does not take (tsd.core.tag.allow_specialchars)")
            }
            _ => None,
        };
        match (problem, name) {
            (None, Some(name)) => Some(NamedSeries {
                name,
                rollup,
                samples,
            }),
            (problem, _) => {
                let count = samples.sample_count() as u64;
                let example = labels.to_string();
                self.skip(problem.unwrap_or_default(), count, example);
                None
            }
        }
    }

    /// Whether the original takes the names of a series.
    fn is_writable(&self, name: &SeriesName) -> bool {
        let tags = name.tags.iter().flat_map(|(key, value)| [key, value]);
        let allowed = &self.tsd.config.allow_special_chars;
        let mut names = std::iter::once(&name.metric).chain(tags);
        names.all(|name| validate("name", name, allowed).is_ok())
    }

    fn skip(&mut self, reason: &str, count: u64, example: String) {
        if count > 0 {
            self.report.skip(Skipped {
                reason: reason.to_owned(),
                count,
                line: None,
                example: example.chars().take(EXAMPLE_CHARS).collect(),
            });
        }
    }

    fn write_lines(&mut self, series: &NamedSeries, out: &mut Vec<u8>) {
        let histograms = series.samples.histograms.len() as u64;
        if series.rollup.is_some() {
            let floats = numbers(&series.samples).count() as u64;
            let reason = "rollups and pre-aggregates have no line: export cells";
            let count = floats + histograms;
            self.skip(reason, count, series.samples.labels.to_string());
            return;
        }
        let reason = "histograms have no line: export cells";
        self.skip(reason, histograms, series.samples.labels.to_string());
        let mut tags = String::new();
        for (key, value) in &series.name.tags {
            tags.extend([" ", key, "=", value]);
        }
        let (mut line, mut refused) = (String::new(), 0);
        for (timestamp_ms, number) in numbers(&series.samples) {
            let time = written_time(timestamp_ms);
            let (Some(time), true) = (time, is_finite(number)) else {
                refused += 1;
                continue;
            };
            line.clear();
            line.push_str(&series.name.metric);
            line.push_str(&format!(" {time} "));
            match number {
                Number::Integer(integer) => line.push_str(&integer.to_string()),
                Number::Float(value) => push_double(&mut line, value),
            }
            line.push_str(&tags);
            line.push('\n');
            out.extend_from_slice(line.as_bytes());
            self.report.samples += 1;
            self.report.lines += 1;
        }
        let reason = "a time or value that no line can have";
        self.skip(reason, refused, series.samples.labels.to_string());
    }

    fn write_cells(&mut self, series: &NamedSeries, tsuid: &Tsuid, out: &mut Vec<u8>) {
        let table = match &series.rollup {
            None => Some(self.layout.names.data.clone()),
            Some(kind) => match &kind.interval {
                Some(_) => return self.write_rollup_cells(series, kind, tsuid, out),
                None => self.pre_aggregates().filter(|table| !table.is_empty()),
            },
        };
        let Some(table) = table else {
            return self.skip_rollup(series);
        };
        let points: Vec<(i64, Number)> = numbers(&series.samples).collect();
        let mut refused = 0;
        for row in points.chunk_by(|a, b| a.0.div_euclid(HOUR_MS) == b.0.div_euclid(HOUR_MS)) {
            let base = row
                .first()
                .and_then(|(time, _)| row_base(time.div_euclid(1000)));
            let Some(base_s) = base else {
                refused += row.len() as u64;
                continue;
            };
            let point = |(time, number): &(i64, Number)| CellPoint {
                offset: offset(*time, base_s),
                number: *number,
            };
            let column = Column::Points(row.iter().map(point).collect());
            self.write_cell(&table, tsuid, base_s, column.encode(), out);
            self.report.samples += row.len() as u64;
        }
        let reason = "a time that no cell can have";
        self.skip(reason, refused, series.samples.labels.to_string());
        self.write_histograms(series, &table, tsuid, out);
    }

    fn write_histograms(
        &mut self,
        series: &NamedSeries,
        table: &str,
        tsuid: &Tsuid,
        out: &mut Vec<u8>,
    ) {
        let codecs = self.tsd.config.histogram_codecs.iter().flatten();
        let mut simple = codecs.filter(|(class, _)| class.as_str() == SIMPLE_CODEC);
        let id = simple.next().map(|(_, id)| *id);
        let mut refused = 0;
        for sample in &series.samples.histograms {
            let base = row_base(sample.timestamp_ms.div_euclid(1000));
            let histogram = SimpleHistogram::from_native(&sample.histogram);
            let histogram = histogram.filter(|histogram| !histogram.buckets.is_empty());
            let (Some(base_s), Some(histogram), Some(id)) = (base, histogram, id) else {
                refused += 1;
                continue;
            };
            let offset = offset(sample.timestamp_ms, base_s);
            let column = Column::Histogram(offset, id, histogram.to_payload());
            self.write_cell(table, tsuid, base_s, column.encode(), out);
            self.report.histograms += 1;
        }
        let reason = "a histogram that is no simple one (tsd.core.histograms.config)";
        self.skip(reason, refused, series.samples.labels.to_string());
    }

    fn write_rollup_cells(
        &mut self,
        series: &NamedSeries,
        kind: &RollupKind,
        tsuid: &Tsuid,
        out: &mut Vec<u8>,
    ) {
        let rollups = self.tsd.rollups.clone();
        let found = rollups.as_deref().and_then(|rollups| {
            let (interval, function) = kind.interval.as_ref()?;
            Some((rollups.interval(interval)?, rollups.function_id(function)?))
        });
        let Some((interval, id)) = found else {
            return self.skip_rollup(series);
        };
        let table = if kind.is_group_by {
            &interval.pre_aggregation_table
        } else {
            &interval.table
        };
        if table.is_empty() {
            return self.skip_rollup(series);
        }
        let mut refused = 0;
        for (timestamp_ms, number) in numbers(&series.samples) {
            let time_s = timestamp_ms.div_euclid(1000);
            let start_s = interval.row_span.start_s(time_s);
            let index = (time_s - start_s) / interval.seconds as i64;
            let place = u32::try_from(start_s).ok().zip(u16::try_from(index).ok());
            let Some((base_s, index)) = place else {
                refused += 1;
                continue;
            };
            let cell = RollupCell {
                function: RollupFunction::Id(id),
                interval: index,
                number,
            };
            self.write_cell(table, tsuid, base_s, cell.encode(), out);
            self.report.samples += 1;
        }
        let reason = "a time that no cell can have";
        self.skip(reason, refused, series.samples.labels.to_string());
    }

    fn skip_rollup(&mut self, series: &NamedSeries) {
        let reason = "a rollup that tsd.rollups.config has no table for";
        let count = series.samples.sample_count() as u64;
        self.skip(reason, count, series.samples.labels.to_string());
    }

    /// The table of pre-aggregates that have no interval.
    fn pre_aggregates(&self) -> Option<String> {
        let mut intervals = self.tsd.rollups.as_deref()?.intervals().iter();
        let default = intervals.find(|interval| interval.is_default)?;
        Some(default.pre_aggregation_table.clone())
    }

    fn write_cell(
        &mut self,
        table: &str,
        tsuid: &Tsuid,
        base_s: u32,
        (qualifier, value): (Vec<u8>, Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let row = RowKey {
            tsuid: tsuid.clone(),
            base_s,
        };
        let cell = CellLine {
            table: table.into(),
            row: self.layout.keys().encode(&row),
            family: FAMILY.to_vec(),
            qualifier,
            value,
            timestamp_ms: None,
        };
        cell.write(out);
        self.report.lines += 1;
    }
}

/// The TSUID of each series; names that have no UID get one if `assigns_uids` is set.
async fn tsuids(
    tsd: &Tsd,
    names: &[&SeriesName],
    assigns_uids: bool,
) -> Result<Vec<Option<Tsuid>>, Error> {
    if assigns_uids {
        let tsuids = assigned_tsuids(tsd, names.iter().copied()).await?;
        return Ok(tsuids.into_iter().map(Some).collect());
    }
    let known = names.iter().map(|name| name.durable_tsuid(&tsd.uids));
    Ok(known.collect())
}

/// Numbers in time order as they were written, without the marks that Prometheus puts at the end
/// of a series.
fn numbers(samples: &SeriesSamples) -> impl Iterator<Item = (i64, Number)> {
    let times = samples.floats.timestamps.iter().copied();
    let floats = times.zip(samples.floats.values.iter().copied());
    floats
        .filter(|(_, value)| !is_stale_nan(*value))
        .map(
            |(time, value)| match samples.forms.at(time).integer(value) {
                Some(integer) => (time, Number::Integer(integer)),
                None => (time, Number::Float(value)),
            },
        )
}

fn is_finite(number: Number) -> bool {
    match number {
        Number::Integer(_) => true,
        Number::Float(value) => value.is_finite(),
    }
}

/// Seconds where they tell the time, otherwise milliseconds; `None` where they would be taken for
/// seconds.
fn written_time(timestamp_ms: i64) -> Option<i64> {
    let seconds = timestamp_ms.div_euclid(1000);
    if timestamp_ms % 1000 == 0 && (1..=SECONDS_MAX).contains(&seconds) {
        return Some(seconds);
    }
    let is_told = timestamp_ms > SECONDS_MAX && timestamp_ms <= MILLISECONDS_MAX;
    is_told.then_some(timestamp_ms)
}

/// The place of a time in its row.
pub(super) fn offset(timestamp_ms: i64, base_s: u32) -> Offset {
    let offset_ms = timestamp_ms - i64::from(base_s) * 1000;
    let offset_ms = u32::try_from(offset_ms).unwrap_or(0);
    if offset_ms.is_multiple_of(1000) {
        Offset::Seconds(offset_ms / 1000)
    } else {
        Offset::Milliseconds(offset_ms)
    }
}

fn failed(error: SourceError) -> Error {
    let status = match error {
        SourceError::LimitReached(_) => StatusCode::PAYLOAD_TOO_LARGE,
        SourceError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        SourceError::Corrupt(_) | SourceError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Error::new(status, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_so_that_they_are_read_again() {
        for (timestamp_ms, written) in [
            (1_356_998_400_000, Some(1_356_998_400)),
            (1_356_998_400_250, Some(1_356_998_400_250)),
            (1000, Some(1)),
            (1500, None),
            (0, None),
            (-1000, None),
            (4_294_967_295_000, Some(4_294_967_295)),
            (4_294_967_296_000, Some(4_294_967_296_000)),
            (9_999_999_999_999, Some(9_999_999_999_999)),
            (10_000_000_000_000, None),
        ] {
            assert_eq!(written_time(timestamp_ms), written, "{timestamp_ms}");
        }
        assert_eq!(offset(3_600_500, 3600), Offset::Milliseconds(500));
        assert_eq!(offset(3_605_000, 3600), Offset::Seconds(5));
    }
}
