//! Cells of the original's tables, by what they say.

use icecore_model::{METRIC_NAME, NumberForm, is_stale_nan, push_raw_label};
use icecore_wire::opentsdb::cell_line::CellLine;
use icecore_wire::opentsdb::number::Number;

use super::batch::{PointBatch, PointValue};
use super::documents;
use super::records::Record;
use super::report::Skipped;
use super::tables::{RollupTable, Table, TableLayout};
use crate::hbase::{
    Cell, CellPoint, Column, LayoutError, Offset, RollupCell, RollupFunction, RowKey,
    SeriesMetaCell, TreeCell, UidCell,
};
use crate::histogram::{SIMPLE_CODEC, SimpleHistogram};
use crate::name::RESERVED_PREFIX;
use crate::rollup::{ROLLUP_LABEL, RollupInterval, RollupKind};
use crate::tsd::Tsd;
use crate::uid::{Tsuid, Uid, UidKind};

/// A cell and the line that it stands in.
pub(super) struct NumberedCell {
    pub(super) line: u64,
    pub(super) cell: CellLine<'static>,
}

/// What cells say, once names are known.
#[derive(Default)]
pub(super) struct Sorted {
    pub(super) records: Vec<(u64, Record)>,
    pub(super) points: PointBatch,
    /// What could not be read.
    pub(super) errors: Vec<Skipped>,
    /// What is not needed here.
    pub(super) not_needed: Vec<Skipped>,
}

/// Reads cells. UIDs are resolved with the names of this server.
pub(super) struct CellReader<'a> {
    tsd: &'a Tsd,
    layout: &'a TableLayout,
    sorted: Sorted,
    /// The series of the last cell: most cells of a row have the same.
    last: Option<(Tsuid, Option<RollupKind>, usize)>,
}

/// Why a cell was not taken.
struct Refusal {
    reason: &'static str,
    example: String,
    is_needed: bool,
}

impl From<LayoutError> for Refusal {
    fn from(error: LayoutError) -> Self {
        refused(error.what, hex::encode(&error.bytes))
    }
}

fn refused(reason: &'static str, example: impl Into<String>) -> Refusal {
    Refusal {
        reason,
        example: example.into(),
        is_needed: true,
    }
}

fn not_needed(reason: &'static str, example: impl Into<String>) -> Refusal {
    Refusal {
        is_needed: false,
        ..refused(reason, example)
    }
}

impl<'a> CellReader<'a> {
    pub(super) fn new(tsd: &'a Tsd, layout: &'a TableLayout) -> Self {
        Self {
            tsd,
            layout,
            sorted: Sorted::default(),
            last: None,
        }
    }

    /// Names are not looked at here: they are taken over before.
    pub(super) fn read(mut self, mut cells: Vec<NumberedCell>) -> Sorted {
        for row in
            cells.chunk_by_mut(|a, b| a.cell.table == b.cell.table && a.cell.row == b.cell.row)
        {
            // Of two points at one time the one that was written last counts.
            row.sort_by_key(|cell| cell.cell.timestamp_ms);
            for NumberedCell { line, cell } in row {
                if let Err(refusal) = self.read_cell(*line, cell) {
                    let list = if refusal.is_needed {
                        &mut self.sorted.errors
                    } else {
                        &mut self.sorted.not_needed
                    };
                    list.push(Skipped::one(refusal.reason, *line, refusal.example));
                }
            }
        }
        self.sorted
    }

    fn read_cell(&mut self, line: u64, cell: &CellLine<'_>) -> Result<(), Refusal> {
        let rollups = self.tsd.rollups.clone();
        let table = self.layout.table(&cell.table, rollups.as_deref());
        let table = table.ok_or_else(|| {
            let reason = "a table that is none of OpenTSDB's here";
            not_needed(reason, cell.table.as_ref())
        })?;
        let borrowed = Cell {
            row: &cell.row,
            family: &cell.family,
            qualifier: &cell.qualifier,
            value: &cell.value,
        };
        match table {
            Table::Data => self.read_data(line, borrowed),
            Table::Rollup(interval, kind) => self.read_rollup(borrowed, interval, kind),
            Table::Uid => {
                let cell = UidCell::decode(borrowed)?;
                if let UidCell::Meta(..) = cell {
                    self.record(line, Record::Uid(cell));
                }
                Ok(())
            }
            Table::Meta => {
                let cell = SeriesMetaCell::decode(borrowed, self.layout.widths)?;
                if let SeriesMetaCell::Counter(..) = cell {
                    return Err(not_needed("a counter of points: they are counted", ""));
                }
                self.record(line, Record::Series(cell));
                Ok(())
            }
            Table::Tree => {
                let (id, cell) = TreeCell::decode(borrowed)?;
                self.record(line, Record::Tree(id, cell));
                Ok(())
            }
        }
    }

    fn record(&mut self, line: u64, record: Record) {
        self.sorted.records.push((line, record));
    }

    fn read_data(&mut self, line: u64, cell: Cell<'_>) -> Result<(), Refusal> {
        let row = self.layout.keys().decode(cell.row)?;
        let column = Column::decode(cell.qualifier, cell.value)?;
        match &column {
            Column::Annotation(offset, json) => {
                let json = documents::parse(json);
                let json = json.ok_or_else(|| refused("an annotation is no JSON", ""))?;
                let is_global = row.tsuid.tags.is_empty();
                let tsuid = (!is_global).then(|| row.tsuid.clone());
                let start = start_time(&row, *offset);
                let note = documents::annotation(&json, tsuid, start);
                self.record(line, Record::Annotation(note));
                Ok(())
            }
            Column::Histogram(offset, id, bytes) => {
                let codecs = self.tsd.config.histogram_codecs.iter().flatten();
                let mut simple = codecs.filter(|(class, _)| class.as_str() == SIMPLE_CODEC);
                if !simple.any(|(_, known)| known == id) {
                    let reason = "a histogram of a kind that tsd.core.histograms.config has not";
                    return Err(refused(reason, format!("id {id}")));
                }
                let histogram = SimpleHistogram::from_payload(bytes);
                let histogram = histogram.map_err(|_| {
                    let reason = "a histogram that cannot be kept";
                    refused(reason, hex::encode(bytes))
                })?;
                let series = self.series(&row.tsuid, None)?;
                let value = PointValue::Histogram(Box::new(histogram.to_native()));
                let time_ms = time_ms(&row, *offset);
                self.sorted.points.push(series, time_ms, value);
                Ok(())
            }
            Column::Points(_) | Column::Appended(_) => {
                let series = self.series(&row.tsuid, None)?;
                self.push_points(series, &row, &column.points());
                Ok(())
            }
        }
    }

    fn push_points(&mut self, series: usize, row: &RowKey, points: &[CellPoint]) {
        for point in points {
            let value = point_value(point.number);
            let time_ms = time_ms(row, point.offset);
            self.sorted.points.push(series, time_ms, value);
        }
    }

    fn read_rollup(
        &mut self,
        cell: Cell<'_>,
        interval: &RollupInterval,
        table: RollupTable,
    ) -> Result<(), Refusal> {
        let row = self.layout.keys().decode(cell.row)?;
        let is_group_by = table == RollupTable::PreAggregates;
        let rollup = match RollupCell::decode(cell.qualifier, cell.value) {
            Ok(rollup) => rollup,
            // Pre-aggregates without an interval are in the table of the default one, as points.
            Err(_) if is_group_by && interval.is_default => {
                let column = Column::decode(cell.qualifier, cell.value)?;
                let kind = RollupKind {
                    interval: None,
                    is_group_by,
                };
                let series = self.series(&row.tsuid, Some(&kind))?;
                self.push_points(series, &row, &column.points());
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let function = match rollup.function {
            RollupFunction::Name(name) => name,
            RollupFunction::Id(id) => {
                let rollups = self.tsd.rollups.as_deref();
                let name = rollups.and_then(|rollups| rollups.function(id));
                let unknown = || {
                    let reason = "a function that tsd.rollups.config has no id for";
                    refused(reason, format!("id {id}"))
                };
                name.ok_or_else(unknown)?.to_owned()
            }
        };
        let kind = RollupKind {
            interval: Some((interval.text.clone(), function)),
            is_group_by,
        };
        let series = self.series(&row.tsuid, Some(&kind))?;
        let offset_s = i64::from(rollup.interval).saturating_mul(interval.seconds as i64);
        let time_ms = (i64::from(row.base_s) + offset_s) * 1000;
        let value = point_value(rollup.number);
        self.sorted.points.push(series, time_ms, value);
        Ok(())
    }

    /// The series of a TSUID, as points are stored for it.
    fn series(&mut self, tsuid: &Tsuid, rollup: Option<&RollupKind>) -> Result<usize, Refusal> {
        if let Some((last, kind, series)) = &self.last
            && last == tsuid
            && kind.as_ref() == rollup
        {
            return Ok(*series);
        }
        let labels = self.labels(tsuid, rollup)?;
        let series = self.sorted.points.series(labels);
        self.last = Some((tsuid.clone(), rollup.cloned(), series));
        Ok(series)
    }

    /// Labels of a series, as [`icecore_model::RawLabels`] has them.
    fn labels(&self, tsuid: &Tsuid, rollup: Option<&RollupKind>) -> Result<Vec<u8>, Refusal> {
        let mut labels: Vec<(String, String)> = Vec::with_capacity(tsuid.tags.len() + 2);
        let metric = self.name(UidKind::Metric, tsuid.metric)?;
        if tsuid.tags.is_empty() {
            return Err(refused("points without tags", metric));
        }
        for (key, value) in &tsuid.tags {
            let key = self.name(UidKind::Tagk, *key)?;
            if key.starts_with(RESERVED_PREFIX) {
                return Err(refused("a tag key that begins with __", key));
            }
            labels.push((key, self.name(UidKind::Tagv, *value)?));
        }
        match rollup {
            None => labels.push((METRIC_NAME.to_owned(), metric)),
            Some(kind) => {
                labels.push((METRIC_NAME.to_owned(), kind.metric(&metric)));
                labels.push((ROLLUP_LABEL.to_owned(), kind.to_string()));
            }
        }
        labels.sort_unstable();
        let mut bytes = Vec::new();
        for (name, value) in &labels {
            push_raw_label(&mut bytes, name, value);
        }
        Ok(bytes)
    }

    fn name(&self, kind: UidKind, uid: Uid) -> Result<String, Refusal> {
        let name = self.tsd.uids.read(kind).name(uid).map(ToString::to_string);
        name.ok_or_else(|| {
            let width = self.layout.widths[kind as usize];
            let example = format!("{} {}", kind.table_name(), uid.to_hex(width));
            refused("a UID that has no name", example)
        })
    }
}

fn time_ms(row: &RowKey, offset: Offset) -> i64 {
    i64::from(row.base_s) * 1000 + i64::from(offset.milliseconds())
}

/// In the unit of the offset.
fn start_time(row: &RowKey, offset: Offset) -> i64 {
    match offset {
        Offset::Seconds(seconds) => i64::from(row.base_s) + i64::from(seconds),
        Offset::Milliseconds(_) => time_ms(row, offset),
    }
}

fn point_value(number: Number) -> PointValue {
    match number {
        Number::Integer(integer) => {
            let (value, form) = NumberForm::of_integer(integer);
            PointValue::Number(value, form)
        }
        // The bits of one NaN mean the end of a series to PromQL.
        Number::Float(value) if is_stale_nan(value) => {
            PointValue::Number(f64::NAN, NumberForm::FLOAT)
        }
        Number::Float(value) => PointValue::Number(value, NumberForm::FLOAT),
    }
}
