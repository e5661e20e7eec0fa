//! Records of a key range, one after the other.

use icecore_records::{Bucket, RecordType, key};

use super::describe::{RecordView, describe};
use super::still::StillView;
use super::{ATTEMPTS_MAX, Inspector, after_prefix};
use crate::error::Result;
use crate::slate::reader::has_vanished;

/// Which records to show. Everything that is given must hold; nothing given means all records.
#[derive(Clone, Debug, Default)]
pub struct RecordSelection {
    /// What keys begin with.
    pub prefix: Vec<u8>,
    pub record_type: Option<RecordType>,
    pub bucket: Option<Bucket>,
    /// The first key.
    pub from: Vec<u8>,
    /// The first key that is not shown any more.
    pub to: Option<Vec<u8>>,
    pub limit: Option<u64>,
    /// Whether [`RecordView::details`] are wanted.
    pub details: bool,
}

/// Keys from the first to before the second; to the end where there is none.
type KeyRange = (Vec<u8>, Option<Vec<u8>>);

impl RecordSelection {
    /// Ascending ranges without overlap.
    fn ranges(&self) -> Vec<KeyRange> {
        let under = |prefix: &[u8]| (prefix.to_vec(), after_prefix(prefix));
        let of_type: Vec<KeyRange> = match (self.record_type, self.bucket) {
            (None, None) => vec![(Vec::new(), None)],
            (None, Some(bucket)) => {
                let scoped = RecordType::ALL.into_iter().filter(|t| t.is_bucket_scoped());
                scoped
                    .map(|t| under(&key::record_prefix(t, bucket)))
                    .collect()
            }
            (Some(record_type), Some(bucket)) if record_type.is_bucket_scoped() => {
                vec![under(&key::record_prefix(record_type, bucket))]
            }
            // Records of no bucket: none of the one that was asked for.
            (Some(_), Some(_)) => Vec::new(),
            (Some(record_type), None) => {
                // The low four bits of the tag are the bucket's size: all of them.
                let tag = record_type.number() << 4;
                vec![(
                    vec![key::VERSION, tag],
                    after_prefix(&[key::VERSION, tag | 0xf]),
                )]
            }
        };
        let given = intersect(under(&self.prefix), (self.from.clone(), self.to.clone()));
        let ranges = given.into_iter().flat_map(|given| {
            of_type
                .iter()
                .filter_map(move |range| intersect(range.clone(), given.clone()))
        });
        ranges.collect()
    }
}

fn intersect(a: KeyRange, b: KeyRange) -> Option<KeyRange> {
    let start = a.0.max(b.0);
    let end = match (a.1, b.1) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let some = end.as_ref().is_none_or(|end| start < *end);
    some.then_some((start, end))
}

impl Inspector {
    /// Hands over the selected records in key order until `take` returns false, and returns how
    /// many they were. Where a file vanishes, it goes on behind the last record with a fresh
    /// reader: each record was there at some moment, not all of them at the same.
    pub async fn records(
        &mut self,
        selection: &RecordSelection,
        mut take: impl FnMut(RecordView) -> bool,
    ) -> Result<u64> {
        let mut shown = 0;
        for (mut start, end) in selection.ranges() {
            let mut attempts = 1;
            loop {
                let mut listing = Listing {
                    selection,
                    end: end.as_deref(),
                    shown: &mut shown,
                    take: &mut take,
                };
                match listing.run(self, &mut start).await {
                    Ok(true) => break,
                    Ok(false) => return Ok(shown),
                    Err(error) if has_vanished(&error) && attempts < ATTEMPTS_MAX => {
                        attempts += 1;
                        self.reopen().await?;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(shown)
    }
}

struct Listing<'a, F> {
    selection: &'a RecordSelection,
    end: Option<&'a [u8]>,
    shown: &'a mut u64,
    take: &'a mut F,
}

impl<F: FnMut(RecordView) -> bool> Listing<'_, F> {
    /// Shows the records from `start` on and moves it behind them. False when enough were shown.
    async fn run(&mut self, inspector: &Inspector, start: &mut Vec<u8>) -> Result<bool> {
        let view = StillView::new(&inspector.reader, &inspector.meter);
        let mut records = view.between(start, self.end).await?;
        loop {
            if self
                .selection
                .limit
                .is_some_and(|limit| *self.shown >= limit)
            {
                return Ok(false);
            }
            let Some(record) = records.next().await? else {
                return Ok(true);
            };
            *start = record.key.to_vec();
            // The least key behind this one.
            start.push(0);
            *self.shown += 1;
            let view = describe(&record.key, &record.value, self.selection.details);
            if !(self.take)(view) {
                return Ok(false);
            }
        }
    }
}
