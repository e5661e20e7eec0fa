//! Which series of the target share a column of timestamps.
//!
//! ```text
//! list of timestamps ─ regular, or short ─► own
//!                    └ first time seen ───► own    second ─► a new column    later ─► that column
//! ```
//!
//! Holds always:
//! - Decisions are made in the order of ids and depend on nothing but the lists before: not on
//!   batches, threads, or where a job was interrupted.
//! - Memory is bounded: of lists that were seen once the oldest are forgotten, and when the columns
//!   take too much room no new ones are made.
//! - A list is told from others by its hash; who encodes compares with the column itself.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use icecore_records::Bucket;
use icecore_records::coarse_samples::{self, Part};
use icecore_records::columns::{RecordTimes, TimeList, is_regular, time_column};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};
use crate::slate::read_view::View;
use crate::stored;

/// Shorter lists cost less than a column of their own and the look-up of it.
const SHARED_LEN_MIN: usize = 16;

/// Lists seen once that are remembered: more than there are scrape targets, whose series lie as far
/// apart as there are targets.
const ONCE_MAX: usize = 1 << 18;

/// Memory of the columns, in their compact form: those of some ten thousand scrape targets.
const COLUMNS_BYTES_MAX: usize = 96 << 20;

/// What a list of timestamps is recognised by; `None` where it is not worth sharing.
pub(crate) fn shareable(timestamps: &[i64]) -> Option<u128> {
    let worth_it = timestamps.len() >= SHARED_LEN_MIN && !is_regular(timestamps);
    worth_it.then(|| hash(timestamps))
}

fn hash(timestamps: &[i64]) -> u128 {
    let bytes: Vec<u8> = timestamps.iter().flat_map(|t| t.to_le_bytes()).collect();
    xxh3_128(&bytes)
}

/// Where the timestamps of a series go.
#[derive(Clone, Debug)]
pub(crate) enum TimesPlacement {
    Own,
    /// Into this column, which is to be written with the series.
    New(u32, Bytes, Arc<TimeList>),
    /// They are in this column.
    Known(u32, Arc<TimeList>),
}

#[derive(Clone, Copy)]
enum Seen {
    Once,
    Column(u32),
}

/// The lists that were seen, and the columns.
pub(crate) struct ColumnTable {
    target: Bucket,
    seen: HashMap<u128, Seen>,
    /// Those seen once, oldest first; some of them are columns by now.
    once: VecDeque<u128>,
    columns: Vec<Arc<TimeList>>,
    bytes: usize,
    once_max: usize,
    bytes_max: usize,
}

impl ColumnTable {
    pub(crate) fn new(target: Bucket) -> Self {
        Self {
            target,
            seen: HashMap::new(),
            once: VecDeque::new(),
            columns: Vec::new(),
            bytes: 0,
            once_max: ONCE_MAX,
            bytes_max: COLUMNS_BYTES_MAX,
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.columns.len()
    }

    /// Decides about the next list, which [`shareable`] gave this hash.
    pub(crate) fn place(&mut self, hash: u128, timestamps: &[i64]) -> Result<TimesPlacement> {
        match self.seen.get(&hash) {
            Some(Seen::Column(column)) => {
                let list = &self.columns[*column as usize];
                return Ok(TimesPlacement::Known(*column, Arc::clone(list)));
            }
            Some(Seen::Once) => {}
            None => {
                self.remember(hash);
                return Ok(TimesPlacement::Own);
            }
        }
        let column = self.columns.len() as u32;
        let value = Bytes::from(time_column::encode(self.target.start_ms(), timestamps));
        let list = stored::decode_column(self.target, column, &value)?;
        if self.bytes + list.heap_bytes() > self.bytes_max {
            return Ok(TimesPlacement::Own);
        }
        let (mut decoded, all) = (Vec::with_capacity(list.len()), 0..list.len());
        list.copy_into(all, &mut decoded);
        if decoded != timestamps {
            return Err(Error::Corrupt(format!(
                "column {column} of timestamps in bucket {} does not decode to what was encoded",
                self.target
            ).into()));
        }
        self.bytes += list.heap_bytes();
        self.columns.push(Arc::clone(&list));
        self.seen.insert(hash, Seen::Column(column));
        Ok(TimesPlacement::New(column, value, list))
    }

    fn remember(&mut self, hash: u128) {
        self.seen.insert(hash, Seen::Once);
        self.once.push_back(hash);
        if self.once.len() > self.once_max
            && let Some(oldest) = self.once.pop_front()
            && let Some(Seen::Once) = self.seen.get(&oldest)
        {
            self.seen.remove(&oldest);
        }
    }
}

/// The columns that an interrupted job has written, with their hashes.
pub(crate) struct WrittenColumns(HashMap<u32, (u128, Arc<TimeList>)>);

impl WrittenColumns {
    pub(crate) async fn read(view: &View, target: Bucket) -> Result<Self> {
        let found = stored::all_columns(view, target).await?;
        let mut columns = HashMap::with_capacity(found.len());
        for (column, list) in found {
            let mut timestamps = Vec::with_capacity(list.len());
            list.copy_into(0..list.len(), &mut timestamps);
            columns.insert(column, (hash(&timestamps), list));
        }
        Ok(Self(columns))
    }

    /// Decides once more about a record that is already written. Fails where another decision was
    /// made then: the job has to start over.
    pub(crate) fn replay(&self, table: &mut ColumnTable, id: u32, value: &Bytes) -> Result<()> {
        let target = table.target;
        let error = |cause: &str| {
            Error::Corrupt(format!("series {id} of the unfinished bucket {target}: {cause}").into())
        };
        let part = coarse_samples::parse(value).map_err(|cause| error(&cause.to_string()))?;
        let Part::Columns(record) = part else {
            return Err(error("a late stream before the commit"));
        };
        let mut timestamps = Vec::new();
        let (column, hash) = match record.times() {
            RecordTimes::Own => {
                let own = record.decode_times(target.start_ms());
                let own = own.map_err(|cause| error(&cause.to_string()))?;
                own.copy_into(0..own.len(), &mut timestamps);
                match shareable(&timestamps) {
                    Some(hash) => (None, hash),
                    None => return Ok(()),
                }
            }
            RecordTimes::Shared { column, .. } => {
                let known = self.0.get(&column);
                let (hash, list) = known.ok_or_else(|| error("its column is missing"))?;
                list.copy_into(0..list.len(), &mut timestamps);
                (Some(column), *hash)
            }
        };
        match (column, table.place(hash, &timestamps)?) {
            // The latter after a collision of hashes.
            (None, TimesPlacement::Own | TimesPlacement::Known(..)) => Ok(()),
            (Some(was), TimesPlacement::New(is, ..) | TimesPlacement::Known(is, _))
                if was == is =>
            {
                Ok(())
            }
            _ => Err(error("its timestamps would lie elsewhere now")),
        }
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::BucketSize;

    use super::*;

    fn table() -> ColumnTable {
        let size = BucketSize::from_exponent(3).unwrap();
        let start = size.bucket_of(1_700_000_000_000).unwrap();
        ColumnTable::new(Bucket { size, start })
    }

    /// A list that is not regular.
    fn list(table: &ColumnTable, number: i64) -> Vec<i64> {
        let jitter = |i: i64| (i * i * (number + 3)) % 97;
        let start = table.target.start_ms();
        (0..40).map(|i| start + i * 15_000 + jitter(i)).collect()
    }

    /// `o` own, `n` new column, `k` known column.
    fn decisions(table: &mut ColumnTable, numbers: &[i64]) -> String {
        let mut made = String::new();
        for number in numbers {
            let timestamps = list(table, *number);
            let hash = shareable(&timestamps).unwrap();
            made.push(match table.place(hash, &timestamps).unwrap() {
                TimesPlacement::Own => 'o',
                TimesPlacement::New(..) => 'n',
                TimesPlacement::Known(..) => 'k',
            });
        }
        made
    }

    #[test]
    fn the_second_time_makes_a_column() {
        let mut table = table();
        assert_eq!(decisions(&mut table, &[1, 2, 1, 1, 3, 2, 2, 1]), "oonkonkk");
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn regular_and_short_lists_are_not_shared() {
        let regular: Vec<i64> = (0..100).map(|i| i * 15_000).collect();
        assert_eq!(shareable(&regular), None);
        let irregular = list(&table(), 1);
        assert_eq!(shareable(&irregular[..SHARED_LEN_MIN - 1]), None);
        assert!(shareable(&irregular[..SHARED_LEN_MIN]).is_some());
    }

    #[test]
    fn what_was_seen_once_and_long_ago_is_forgotten() {
        let mut table = table();
        table.once_max = 2;
        // 1 is forgotten when 3 comes, 2 is a column by then and stays.
        assert_eq!(decisions(&mut table, &[1, 2, 2, 3, 4, 1, 2, 1]), "oonoookn");
    }

    #[test]
    fn columns_do_not_take_more_than_their_room() {
        let mut table = table();
        table.bytes_max = 0;
        assert_eq!(decisions(&mut table, &[1, 1, 1]), "ooo");
        assert_eq!(table.len(), 0);
    }
}
