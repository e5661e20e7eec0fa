//! The timestamp columns of a selection: series with the same times share one.

use std::hash::{BuildHasher, Hash};
use std::ops::Range;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use icecore_model::TimeColumn;

use crate::cache::{Chunk, ChunkTimes, TimesIdentity};

/// Timestamps that are kept for series of later batches; where hardly any series share their times,
/// the memory of a stream must not grow with it.
const KEPT_TIMES_MAX: usize = 1 << 22;

/// Lives as long as the stream, so that series of different batches share, too.
pub(super) struct Columns {
    start_ms: i64,
    end_ms: i64,
    columns: Vec<Column>,
    by_lists: HashTable<u32>,
    /// Columns of series that were put together sample by sample.
    loose: HashTable<TimeColumn>,
    hasher: DefaultHashBuilder,
    kept_times: usize,
}

/// What a sequence of chunks makes up, cut to the range of the selection.
pub(super) struct Column {
    /// The lists of the buckets. Held, so that no other list can have their identity.
    lists: Vec<ChunkTimes>,
    pub(super) times: TimeColumn,
    /// Which part of each chunk lies within the range.
    pub(super) parts: Vec<(u32, u32)>,
}

impl Columns {
    pub(super) fn new(start_ms: i64, end_ms: i64) -> Self {
        Self {
            start_ms,
            end_ms,
            columns: Vec::new(),
            by_lists: HashTable::new(),
            loose: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            kept_times: 0,
        }
    }

    /// The range of the selection, both ends included.
    pub(super) fn range_ms(&self) -> (i64, i64) {
        (self.start_ms, self.end_ms)
    }

    /// Before a batch: numbers of columns hold until the next one.
    pub(super) fn begin_batch(&mut self) {
        if self.kept_times > KEPT_TIMES_MAX {
            self.columns.clear();
            self.by_lists.clear();
            self.loose.clear();
            self.kept_times = 0;
        }
    }

    pub(super) fn get(&self, column: u32) -> &Column {
        &self.columns[column as usize]
    }

    /// The column of a series with these chunks, oldest first. Lists are told apart by identity:
    /// those of the cache are shared by series with the same times.
    pub(super) fn of_chunks(&mut self, chunks: &[Arc<Chunk>]) -> u32 {
        let hash = self
            .hasher
            .hash_one_all(chunks.iter().map(|chunk| chunk.times.identity()));
        let columns = &self.columns;
        let is_same = |column: &u32| {
            let lists = &columns[*column as usize].lists;
            lists.len() == chunks.len()
                && lists
                    .iter()
                    .zip(chunks)
                    .all(|(list, chunk)| list.identity() == chunk.times.identity())
        };
        if let Some(column) = self.by_lists.find(hash, is_same) {
            return *column;
        }
        let made = self.join(chunks);
        self.kept_times += made.times.len();
        let number = self.columns.len() as u32;
        self.columns.push(made);
        let (columns, hasher) = (&self.columns, &self.hasher);
        self.by_lists.insert_unique(hash, number, |column| {
            let lists = &columns[*column as usize].lists;
            hasher.hash_one_all(lists.iter().map(ChunkTimes::identity))
        });
        number
    }

    fn join(&self, chunks: &[Arc<Chunk>]) -> Column {
        let lists: Vec<ChunkTimes> = chunks.iter().map(|chunk| chunk.times.clone()).collect();
        let ranges: Vec<Range<usize>> = lists
            .iter()
            .map(|list| list.range(self.start_ms, self.end_ms))
            .collect();
        let times = match (lists.as_slice(), ranges.as_slice()) {
            // A single hour is not even copied.
            ([ChunkTimes::Plain(list)], [range]) => {
                TimeColumn::from(Arc::clone(list)).slice(range.clone())
            }
            _ => {
                let len = ranges.iter().map(Range::len).sum();
                let mut times = Vec::with_capacity(len);
                for (list, range) in lists.iter().zip(&ranges) {
                    list.copy_into(range.clone(), &mut times);
                }
                TimeColumn::from(times)
            }
        };
        let narrow = |range: Range<usize>| (range.start as u32, range.end as u32);
        Column {
            lists,
            times,
            parts: ranges.into_iter().map(narrow).collect(),
        }
    }

    /// The column for times that lie in no list.
    pub(super) fn of_times(&mut self, times: Vec<i64>) -> TimeColumn {
        let hasher = &self.hasher;
        let hash = hasher.hash_one(&times);
        if let Some(same) = self.loose.find(hash, |known| **known == *times) {
            return same.clone();
        }
        self.kept_times += times.len();
        let column = TimeColumn::from(times);
        let hash_of = |column: &TimeColumn| hasher.hash_one(&**column);
        self.loose.insert_unique(hash, column.clone(), hash_of);
        column
    }
}

trait HashAll: BuildHasher {
    /// One hash for a sequence.
    fn hash_one_all(&self, lists: impl Iterator<Item = TimesIdentity>) -> u64 {
        use std::hash::Hasher;
        let mut hasher = self.build_hasher();
        lists.for_each(|list| list.hash(&mut hasher));
        hasher.finish()
    }
}

impl HashAll for DefaultHashBuilder {}
