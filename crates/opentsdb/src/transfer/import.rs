//! One request of an import, part by part.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use icecore_model::{AppendError, SampleSink, StoreError, WriteOutcome};
use icecore_wire::opentsdb::cell_line::CellLine;

use super::batch::{BatchPart, PartLimits};
use super::cells::{CellReader, NumberedCell};
use super::lines::{self, LinePart, ends_import};
use super::names;
use super::records::{self, Record};
use super::report::{Report, Skipped};
use super::tables::{Table, TableLayout};
use crate::config::Config;
use crate::error::Error;
use crate::hbase::{Cell, LayoutError, UidCell};
use crate::tsd::Tsd;

/// What is shown of a line that is no cell.
const SHOWN_CHARS: usize = 80;

/// How to import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Lines and cells that cannot be read are counted and passed over.
    pub skips_errors: bool,
    /// Metrics of lines that are not known get a UID, whatever the settings say.
    pub creates_metrics: bool,
    pub limits: PartLimits,
}

/// A request that is being stored. A part that fails with 503 can be tried again.
pub struct Import {
    options: ImportOptions,
    parts: VecDeque<Part>,
    report: Report,
}

enum Part {
    Lines(Arc<LinePart>),
    /// Cells of all tables.
    Cells(Vec<NumberedCell>, TableLayout),
    Names(Vec<(u64, UidCell)>),
    Records(Vec<(u64, Record)>, TableLayout),
    Points(Arc<BatchPart>),
}

impl Import {
    pub fn of_lines(text: &Bytes, options: ImportOptions) -> Self {
        let (parts, lines) = lines::split(text, options.limits);
        Self {
            options,
            parts: parts.into_iter().map(Part::Lines).collect(),
            report: Report {
                lines,
                ..Report::default()
            },
        }
    }

    /// Reads lines of cells.
    pub fn of_cells(
        text: &Bytes,
        layout: TableLayout,
        options: ImportOptions,
    ) -> Result<Self, Error> {
        let mut report = Report::default();
        let (mut names, mut cells) = (Vec::new(), Vec::new());
        for bytes in text.split(|byte| *byte == b'\n') {
            report.lines += 1;
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            let cell = read_line(report.lines, bytes).and_then(|cell| {
                let name = name_of(&cell, &layout).map_err(|error| {
                    let bytes = hex::encode(&error.bytes);
                    Skipped::one(error.what, cell.line, bytes)
                });
                Ok((name?, cell))
            });
            match cell {
                Ok((Some(name), cell)) => names.push((cell.line, name)),
                Ok((None, cell)) => cells.push(cell),
                Err(skipped) if options.skips_errors => report.skip(skipped),
                Err(skipped) => return Err(ends_import(&skipped)),
            }
        }
        // The end of the last line begins no other.
        if text.is_empty() || text.ends_with(b"\n") {
            report.lines -= 1;
        }
        let mut parts = VecDeque::new();
        if !names.is_empty() {
            parts.push_back(Part::Names(names));
        }
        parts.push_back(Part::Cells(cells, layout));
        Ok(Self {
            options,
            parts,
            report,
        })
    }

    /// What became of it so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Stores the next part; false when there is none. Where it fails, it is the next one again.
    pub async fn store_next(&mut self, tsd: &Tsd) -> Result<bool, Error> {
        let Some(part) = self.parts.pop_front() else {
            return Ok(false);
        };
        let skips_errors = self.options.skips_errors;
        match part {
            Part::Lines(lines) => {
                let config = self.config(tsd);
                let stored = Arc::clone(&lines).store(tsd, config, skips_errors).await;
                match stored {
                    Ok((report, outcome)) => {
                        report.skipped.into_iter().for_each(|s| self.report.skip(s));
                        self.report.stored(outcome);
                    }
                    Err(error) => return self.failed(Part::Lines(lines), error),
                }
            }
            Part::Names(cells) => {
                let again = cells.clone();
                let stored = names::store(tsd, cells, skips_errors, &mut self.report).await;
                if let Err(error) = stored {
                    return self.failed(Part::Names(again), error);
                }
            }
            Part::Cells(cells, layout) => self.sort(tsd, cells, layout)?,
            Part::Records(records, layout) => {
                let (again, widths) = (records.clone(), layout.widths);
                let stored =
                    records::store(tsd, records, widths, skips_errors, &mut self.report).await;
                if let Err(error) = stored {
                    return self.failed(Part::Records(again, layout), error);
                }
            }
            Part::Points(points) => match append(tsd, Arc::clone(&points)).await {
                Ok(outcome) => self.report.stored(outcome),
                Err(error) => return self.failed(Part::Points(points), error),
            },
        }
        Ok(true)
    }

    fn failed(&mut self, part: Part, error: Error) -> Result<bool, Error> {
        self.parts.push_front(part);
        // What a store says of records is no fault of theirs.
        let status = match error.status {
            StatusCode::INTERNAL_SERVER_ERROR => StatusCode::SERVICE_UNAVAILABLE,
            status => status,
        };
        Err(Error { status, ..error })
    }

    fn config(&self, tsd: &Tsd) -> Arc<Config> {
        if !self.options.creates_metrics || tsd.config.auto_create_metrics {
            return Arc::clone(&tsd.config);
        }
        Arc::new(Config {
            auto_create_metrics: true,
            ..Config::clone(&tsd.config)
        })
    }

    /// Takes cells apart, now that their names are known.
    fn sort(
        &mut self,
        tsd: &Tsd,
        cells: Vec<NumberedCell>,
        layout: TableLayout,
    ) -> Result<(), Error> {
        let sorted = CellReader::new(tsd, &layout).read(cells);
        let first = sorted.errors.iter().min_by_key(|skipped| skipped.line);
        if let Some(first) = first.filter(|_| !self.options.skips_errors) {
            return Err(ends_import(first));
        }
        let skipped = sorted.errors.into_iter().chain(sorted.not_needed);
        skipped.for_each(|skipped| self.report.skip(skipped));
        if !sorted.records.is_empty() {
            self.parts.push_back(Part::Records(sorted.records, layout));
        }
        let points = sorted.points.into_parts(self.options.limits);
        self.parts.extend(points.into_iter().map(Part::Points));
        Ok(())
    }
}

fn read_line(line: u64, bytes: &[u8]) -> Result<NumberedCell, Skipped> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| Skipped::one("not in UTF-8", line, ""))?;
    let cell = CellLine::parse(text).map_err(|error| {
        let start: String = text.chars().take(SHOWN_CHARS).collect();
        Skipped::one("no cell", line, format!("{error} in {start:?}"))
    })?;
    let table = Cow::Owned(cell.table.into_owned());
    let cell = CellLine { table, ..cell };
    Ok(NumberedCell { line, cell })
}

/// The name that a cell of the UID table is about, unless it is meta data.
fn name_of(cell: &NumberedCell, layout: &TableLayout) -> Result<Option<UidCell>, LayoutError> {
    let CellLine {
        table,
        row,
        family,
        qualifier,
        value,
        ..
    } = &cell.cell;
    if layout.table(table, None) != Some(Table::Uid) {
        return Ok(None);
    }
    let decoded = UidCell::decode(Cell {
        row,
        family,
        qualifier,
        value,
    });
    match decoded? {
        UidCell::Meta(..) => Ok(None),
        name => Ok(Some(name)),
    }
}

/// Stores points; they are durable afterwards.
async fn append(tsd: &Tsd, part: Arc<BatchPart>) -> Result<WriteOutcome, Error> {
    let fill = move |sink: &mut dyn SampleSink| {
        part.write(sink);
        Ok::<(), StoreError>(())
    };
    let busy = |error: StoreError| Error::new(StatusCode::SERVICE_UNAVAILABLE, error.0);
    let appended = tsd.stores.points.append(Duration::ZERO, fill).await;
    let appended = appended.map_err(|error| match error {
        AppendError::Fill(error) | AppendError::Store(error) => busy(error),
        AppendError::Refused(error) => Error::bad_request(error.0),
    })?;
    appended.commit.await.map_err(busy)?;
    Ok(appended.outcome)
}
