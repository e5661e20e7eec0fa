//! The timestamp columns of a selection: series with the same times share one.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use icecore_model::TimeColumn;

use crate::cache::Chunk;

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

/// What a sequence of hours makes up, cut to the range of the selection.
pub(super) struct Column {
    /// The lists of the hours. Held, so that no other list can have their addresses.
    lists: Vec<Arc<[i64]>>,
    pub(super) times: TimeColumn,
    /// Which part of each hour lies within the range.
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

    /// The column of a series with these hours, oldest first. Lists are told apart by address: those
    /// of the cache are shared by series with the same times.
    pub(super) fn of_hours(&mut self, hours: &[Arc<Chunk>]) -> u32 {
        let hash = self
            .hasher
            .hash_one_all(hours.iter().map(|c| address(&c.times)));
        let columns = &self.columns;
        let is_same = |column: &u32| {
            let lists = &columns[*column as usize].lists;
            lists.len() == hours.len()
                && lists
                    .iter()
                    .zip(hours)
                    .all(|(list, hour)| address(list) == address(&hour.times))
        };
        if let Some(column) = self.by_lists.find(hash, is_same) {
            return *column;
        }
        let made = self.join(hours);
        self.kept_times += made.times.len();
        let number = self.columns.len() as u32;
        self.columns.push(made);
        let (columns, hasher) = (&self.columns, &self.hasher);
        self.by_lists.insert_unique(hash, number, |column| {
            hasher.hash_one_all(columns[*column as usize].lists.iter().map(address))
        });
        number
    }

    fn join(&self, hours: &[Arc<Chunk>]) -> Column {
        let lists: Vec<Arc<[i64]>> = hours.iter().map(|hour| Arc::clone(&hour.times)).collect();
        let parts: Vec<(usize, usize)> = lists
            .iter()
            .map(|list| Chunk::range(list, self.start_ms, self.end_ms))
            .collect();
        let times = match (lists.as_slice(), parts.as_slice()) {
            // A single hour is not even copied.
            ([list], [(start, end)]) => TimeColumn::from(Arc::clone(list)).slice(*start..*end),
            _ => {
                let parts = lists.iter().zip(&parts);
                let times = parts.flat_map(|(list, (start, end))| &list[*start..*end]);
                times.copied().collect()
            }
        };
        let narrow = |(start, end)| (start as u32, end as u32);
        Column {
            lists,
            times,
            parts: parts.into_iter().map(narrow).collect(),
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

fn address(list: &Arc<[i64]>) -> usize {
    list.as_ptr() as usize
}

trait HashAll: BuildHasher {
    /// One hash for a sequence.
    fn hash_one_all(&self, addresses: impl Iterator<Item = usize>) -> u64 {
        use std::hash::Hasher;
        let mut hasher = self.build_hasher();
        addresses.for_each(|address| hasher.write_usize(address));
        hasher.finish()
    }
}

impl HashAll for DefaultHashBuilder {}
