//! What the end of a file says of the rest: groups of rows, statistics, where pages lie.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use icecore_events::FileBytes;
use icecore_model::StoreError;
use parquet::DecodeResult;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder};

use crate::write::{GROUP_ROWS, INCOMPLETE_KEY, VERSION, VERSION_KEY};

/// Read before anything is known of a file: has all of the footer, unless the file is large.
const TAIL_BYTES: u64 = 128 * 1024;

#[derive(Clone)]
pub(crate) struct Footer {
    pub(crate) metadata: ArrowReaderMetadata,
    /// Columns that do not have all values of their attributes.
    incomplete: Arc<[String]>,
    /// When the first and the last event of each group began, as far as that is known.
    started: Arc<[Option<(i64, i64)>]>,
}

impl Footer {
    pub(crate) async fn read(file: &FileBytes) -> Result<Self, StoreError> {
        let mut decoder = ParquetMetaDataPushDecoder::try_new(file.size)
            .map_err(damaged)?
            .with_column_index_policy(PageIndexPolicy::Skip)
            .with_offset_index_policy(PageIndexPolicy::Optional);
        let tail = file.size.saturating_sub(TAIL_BYTES)..file.size;
        let mut wanted = Vec::from([tail]);
        loop {
            let bytes = fetch(file, &wanted).await?;
            let (back, step) = on_thread(move || {
                let pushed = decoder.push_ranges(wanted, bytes);
                let step = pushed.and_then(|()| decoder.try_decode());
                (decoder, step.map_err(damaged).and_then(Self::step))
            })
            .await?;
            match step? {
                Step::Needs(ranges) => (decoder, wanted) = (back, ranges),
                Step::Read(footer) => return Ok(footer),
            }
        }
    }

    fn step(result: DecodeResult<ParquetMetaData>) -> Result<Step, StoreError> {
        match result {
            DecodeResult::NeedsData(ranges) => Ok(Step::Needs(ranges)),
            DecodeResult::Data(metadata) => Self::new(metadata).map(Step::Read),
            DecodeResult::Finished => Err(StoreError("a file has no footer".into())),
        }
    }

    fn new(metadata: ParquetMetaData) -> Result<Self, StoreError> {
        let entry = |key: &str| {
            let entries = metadata.file_metadata().key_value_metadata();
            let entry = entries.into_iter().flatten().find(|entry| entry.key == key);
            entry.and_then(|entry| entry.value.clone())
        };
        match entry(VERSION_KEY).as_deref() {
            Some(VERSION) => {}
            version => {
                let reason = format!("a file of events has the layout {version:?}");
                return Err(StoreError(reason));
            }
        }
        // Memory is taken for as many rows as a group says to have.
        let rows = metadata.row_groups().iter().map(|group| group.num_rows());
        if rows
            .into_iter()
            .any(|rows| !(0..=GROUP_ROWS as i64).contains(&rows))
        {
            return Err(StoreError(
                "a file of events has a group that is too large".into(),
            ));
        }
        let incomplete = entry(INCOMPLETE_KEY).unwrap_or_default();
        let options = ArrowReaderOptions::new();
        let mut footer = Self {
            metadata: ArrowReaderMetadata::try_new(Arc::new(metadata), options).map_err(damaged)?,
            incomplete: incomplete.lines().map(String::from).collect(),
            started: Arc::default(),
        };
        footer.started = (0..footer.groups())
            .map(|group| footer.started_by_statistics(group))
            .collect();
        Ok(footer)
    }

    pub(crate) fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    pub(crate) fn group_rows(&self, group: usize) -> usize {
        let rows = self.metadata.metadata().row_group(group).num_rows();
        usize::try_from(rows).unwrap_or_default()
    }

    /// The positions of columns, of those names that the file has.
    pub(crate) fn positions<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<usize> {
        let schema = self.metadata.schema();
        let positions = names
            .into_iter()
            .filter_map(|name| schema.index_of(name).ok());
        positions.collect()
    }

    /// When the first and the last event of a group began.
    pub(crate) fn started(&self, group: usize) -> Option<(i64, i64)> {
        self.started.get(group).copied().flatten()
    }

    /// Whether a column has the values of its attribute in all rows.
    pub(crate) fn is_complete(&self, name: &str) -> bool {
        self.metadata.schema().index_of(name).is_ok()
            && self.incomplete.iter().all(|lacking| lacking != name)
    }
}

/// What follows from the bytes so far.
enum Step {
    Needs(Vec<Range<u64>>),
    Read(Footer),
}

/// Reads ranges, all at the same time.
pub(crate) async fn fetch(
    file: &FileBytes,
    ranges: &[Range<u64>],
) -> Result<Vec<Bytes>, StoreError> {
    let read = |range: &Range<u64>| {
        let range = range.clone();
        async move {
            if range.start > range.end || range.end > file.size {
                return Err(StoreError("a file refers to bytes beyond its end".into()));
            }
            let bytes = (file.read)(range.clone()).await?;
            if bytes.len() as u64 != range.end - range.start {
                return Err(StoreError("a file is shorter than it was".into()));
            }
            Ok(bytes)
        }
    };
    try_join_all(ranges.iter().map(read)).await
}

/// Does the work of decoding on a thread that requests do not wait for. The libraries are written
/// for files that are as they should be: of others, a panic is an error, too.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError(format!("decoding a file of events: {error}")))
}

pub(crate) fn damaged(error: ParquetError) -> StoreError {
    StoreError(format!("a damaged file of events: {error}"))
}
