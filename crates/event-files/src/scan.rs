//! Reads the rows that are asked for: first the columns that say which they are, then the others.
//!
//! ```text
//! footer ─► groups that may have rows ─► columns of the condition ─► candidates ─► their pages
//! ```
//!
//! Holds always:
//! - Rows come in the order of the file, or in the opposite one.
//! - Pages without a candidate are not read, and groups behind the last wanted row neither.

use std::collections::VecDeque;

use arrow_array::cast::AsArray as _;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, BooleanArray, RecordBatch};
use icecore_events::{FileBytes, FileScan};
use icecore_model::StoreError;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::arrow::push_decoder::ParquetPushDecoderBuilder;

use crate::columns;
use crate::condition_mask::{RowColumns, columns_of, mask};
use crate::footer::{Footer, damaged, fetch, on_thread};
use crate::groups::candidate_groups;
use crate::id_text::uuid;

/// Rows of the first read from the new end: enough for a page of answers.
const FIRST_ROWS: usize = 64;

/// The most rows that are read at once.
const ROWS_MAX: usize = 8_192;

pub(crate) struct RowScan {
    file: FileBytes,
    pub(crate) footer: Footer,
    scan: FileScan,
    groups: VecDeque<usize>,
    /// Rows of the current group that are still to be read, in the order of the file.
    candidates: VecDeque<u32>,
    group: usize,
    /// How many rows are read next.
    rows: usize,
}

impl RowScan {
    pub(crate) async fn new(file: FileBytes, scan: FileScan) -> Result<Self, StoreError> {
        let footer = Footer::read(&file).await?;
        let groups = candidate_groups(&file, &footer, &scan).await?;
        Ok(Self {
            rows: if scan.newest_first {
                FIRST_ROWS
            } else {
                ROWS_MAX
            },
            groups: groups.into(),
            candidates: VecDeque::new(),
            group: 0,
            file,
            footer,
            scan,
        })
    }

    /// Some more rows with the columns at these positions, and how many there are.
    pub(crate) async fn next(
        &mut self,
        positions: &[usize],
    ) -> Result<Option<(usize, Option<RecordBatch>)>, StoreError> {
        while self.candidates.is_empty() {
            let next = if self.scan.newest_first {
                self.groups.pop_back()
            } else {
                self.groups.pop_front()
            };
            match next {
                Some(group) => self.enter(group).await?,
                None => return Ok(None),
            }
        }
        let rows = self.rows.min(self.candidates.len());
        self.rows = (4 * self.rows).min(ROWS_MAX);
        let rest = if self.scan.newest_first {
            self.candidates.len() - rows
        } else {
            rows
        };
        let mut taken = self.candidates.split_off(rest);
        if !self.scan.newest_first {
            std::mem::swap(&mut taken, &mut self.candidates);
        }
        if positions.is_empty() {
            return Ok(Some((rows, None)));
        }
        let batch = self.read(self.group, positions, Some(taken)).await?;
        Ok(Some((rows, Some(batch))))
    }

    /// Finds the rows of a group that are to be read.
    async fn enter(&mut self, group: usize) -> Result<(), StoreError> {
        self.group = group;
        let footer = &self.footer;
        let mut names = Vec::new();
        if let Some(condition) = &self.scan.condition {
            columns_of(condition, &mut names);
            names.retain(|name| footer.is_complete(name));
        }
        if self.scan.event.is_some() {
            names.push(columns::EVENT_ID.into());
        }
        if !footer.began_within(group, &self.scan.started_ns) {
            names.push(columns::STARTED_AT.into());
        }
        let positions = footer.positions(names.iter().map(String::as_str));
        let rows = u32::try_from(footer.group_rows(group)).unwrap_or(u32::MAX);
        if positions.is_empty() {
            self.candidates = (0..rows).collect();
            return Ok(());
        }
        let batch = self.read(group, &positions, None).await?;
        let scan = self.scan.clone();
        self.candidates = on_thread(move || candidates(&batch, &scan)).await?;
        Ok(())
    }

    /// Columns of a group as one batch, of all its rows or of some.
    async fn read(
        &self,
        group: usize,
        positions: &[usize],
        rows: Option<VecDeque<u32>>,
    ) -> Result<RecordBatch, StoreError> {
        let group_rows = self.footer.group_rows(group);
        let expected = rows.as_ref().map_or(group_rows, VecDeque::len);
        let (metadata, roots) = (self.footer.metadata.clone(), positions.to_vec());
        let begin = move || {
            let mask = ProjectionMask::roots(metadata.parquet_schema(), roots);
            let mut builder = ParquetPushDecoderBuilder::new_with_metadata(metadata)
                .with_row_groups(vec![group])
                .with_projection(mask)
                .with_batch_size(expected.max(1));
            if let Some(rows) = rows {
                let rows = rows.into_iter().map(|row| row as usize..row as usize + 1);
                let selection = RowSelection::from_consecutive_ranges(rows, group_rows);
                builder = builder.with_row_selection(selection);
            }
            builder.build()
        };
        let mut decoder = on_thread(begin).await?.map_err(damaged)?;
        let mut wanted = Vec::new();
        let mut bytes = Vec::new();
        loop {
            let (back, step) = on_thread(move || {
                let step = if wanted.is_empty() {
                    Ok(())
                } else {
                    decoder.push_ranges(wanted, bytes)
                };
                let step = step.and_then(|()| decoder.try_decode());
                (decoder, step)
            })
            .await?;
            match step.map_err(damaged)? {
                DecodeResult::NeedsData(ranges) => {
                    bytes = fetch(&self.file, &ranges).await?;
                    (decoder, wanted) = (back, ranges);
                }
                DecodeResult::Data(batch) if batch.num_rows() == expected => return Ok(batch),
                DecodeResult::Data(_) | DecodeResult::Finished => {
                    return Err(StoreError("a file has other rows than it says".into()));
                }
            }
        }
    }
}

/// The rows of a batch that may be asked for, by those columns that it has.
fn candidates(batch: &RecordBatch, scan: &FileScan) -> VecDeque<u32> {
    let by_condition = scan.condition.as_deref();
    let by_condition = by_condition.and_then(|condition| mask(condition, &RowColumns(batch)));
    let started = batch.column_by_name(columns::STARTED_AT);
    let started = started.and_then(|array| array.as_primitive_opt::<TimestampNanosecondType>());
    let ids = batch.column_by_name(columns::EVENT_ID);
    let ids = ids.and_then(|array| array.as_string_opt::<i32>());
    let id = scan.event.map(|event| uuid(&event.0));
    let is_candidate = |row: &u32| {
        let row = *row as usize;
        by_condition.as_ref().is_none_or(|mask| is_true(mask, row))
            && started.is_none_or(|started| scan.started_ns.contains(&started.value(row)))
            && match (&id, ids) {
                (Some(id), Some(ids)) => ids.value(row) == id,
                _ => true,
            }
    };
    let rows = u32::try_from(batch.num_rows()).unwrap_or(u32::MAX);
    (0..rows).filter(is_candidate).collect()
}

/// An event without the attribute does not satisfy a clause on it.
fn is_true(mask: &BooleanArray, row: usize) -> bool {
    mask.is_valid(row) && mask.value(row)
}
