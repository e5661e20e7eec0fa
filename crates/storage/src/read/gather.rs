//! Label sets of a request, bucket by bucket: what was taken from one is forgotten with it.
//!
//! ```text
//! head ─► all hours of the range ─► larger buckets that it cuts, where something new is in them
//! ```
//!
//! Holds always:
//! - Memory follows the answer and a few slices of buckets, not the number of buckets.
//! - A bucket of which the range leaves hours out is read only for what nothing else has shown.

use std::sync::Arc;

use futures::{StreamExt, stream};
use icecore_model::{Labels, Matcher, Reservation};
use roaring::RoaringBitmap;

use super::postings::BucketView;
use super::presence::{is_cut, present};
use super::resolve::{
    CONCURRENT_BUCKETS, Matching, Memory, match_bucket, read_labels, reserve, too_many, views_of,
};
use crate::error::{Error, Result};
use crate::ingest::head::SeriesLabels;
use crate::read::Reader;

/// Series of a bucket whose labels are in memory at a time.
const SLICE_SERIES: usize = 1 << 14;

/// Series of a bucket that are looked into before it is asked again what is still new.
const LOOKED_INTO: usize = 1 << 12;

/// Takes label sets and keeps what a request asks for.
pub(super) trait Gather: Send + 'static {
    /// The series of the head, in label order; before those of buckets.
    fn add_head(&mut self, labels: SeriesLabels);

    /// Whether a label set adds something.
    fn is_new(&mut self, labels: &Labels) -> bool;

    fn add(&mut self, labels: Labels);

    /// Bytes held, about.
    fn heap_bytes(&self) -> usize;

    /// The number of series held.
    fn series(&self) -> usize {
        0
    }
}

/// Gathers the label sets of the series that satisfy all matchers and have samples in the hours of
/// a range. Also returns the memory that is held in the end.
pub(super) async fn gather<G: Gather>(
    reader: &Arc<Reader>,
    selectors: &[Vec<Matcher>],
    range_ms: (i64, i64),
    memory: &Memory,
    gathered: G,
) -> Result<(G, Option<Reservation>)> {
    let range_ms = reader.kept(range_ms);
    let mut gathering = Gathering {
        reader,
        range_ms,
        memory,
        held: reserve(memory, 0)?,
        gathered: Some(gathered),
    };
    for matchers in selectors {
        gathering.add_head(matchers).await?;
        let leased = reader.lease_finest(range_ms).leased;
        let views = views_of(reader, &leased)?;
        let (cut, whole): (Vec<_>, Vec<_>) =
            (views.into_iter()).partition(|view| is_cut(view.bucket, range_ms));
        gathering.add_whole(whole, matchers).await?;
        for view in cut {
            gathering.add_cut(view, matchers).await?;
        }
    }
    let Gathering { held, gathered, .. } = gathering;
    let gathered = gathered.ok_or_else(interrupted)?;
    Ok((gathered, held))
}

struct Gathering<'g, G> {
    reader: &'g Arc<Reader>,
    range_ms: (i64, i64),
    memory: &'g Memory,
    held: Option<Reservation>,
    /// Taken by the CPU pool for as long as it adds to it.
    gathered: Option<G>,
}

impl<G: Gather> Gathering<'_, G> {
    async fn add_head(&mut self, matchers: &[Matcher]) -> Result<()> {
        let Some(head) = self.reader.head.clone() else {
            return Ok(());
        };
        let cache = Arc::clone(self.reader.buckets.cache());
        let (wanted, range_ms) = (matchers.to_vec(), self.range_ms);
        self.change(move |gathered| {
            gathered.add_head(head.select(&wanted, range_ms, true, &cache).labels);
        })
        .await
    }

    /// Buckets that lie in the range with all of their hours.
    async fn add_whole(&mut self, views: Vec<BucketView>, matchers: &[Matcher]) -> Result<()> {
        let (reader, memory) = (self.reader, self.memory);
        let searches = stream::iter(views).map(|view| match_bucket(reader, view, matchers, memory));
        let mut found = std::pin::pin!(searches.buffered(CONCURRENT_BUCKETS));
        while let Some(found) = found.next().await {
            let found = self.checked(found?)?;
            for slice in found.ids.chunks(SLICE_SERIES) {
                let labels = self.labels_of(&found, slice.to_vec()).await?;
                self.change(move |gathered| {
                    let labels = labels.labels.into_iter().flatten();
                    labels.for_each(|labels| gathered.add(labels));
                })
                .await?;
            }
        }
        Ok(())
    }

    /// A bucket of which the range leaves hours out.
    async fn add_cut(&mut self, view: BucketView, matchers: &[Matcher]) -> Result<()> {
        let found = match_bucket(self.reader, view, matchers, self.memory).await?;
        let found = self.checked(found)?;
        for slice in found.ids.chunks(SLICE_SERIES) {
            let mut sets = self.labels_of(&found, slice.to_vec()).await?;
            loop {
                let (rest, ids) = self.next_new(sets).await?;
                if ids.is_empty() {
                    break;
                }
                let from = (&found.from, &found.meta);
                let has_samples = present(self.reader, from, &ids, self.range_ms).await?;
                sets = self.add_present(rest, ids, has_samples).await?;
            }
        }
        Ok(())
    }

    /// The ids of the next sets that would add something. Those that would not are forgotten.
    async fn next_new(&mut self, mut sets: Matching) -> Result<(Matching, RoaringBitmap)> {
        self.with(move |gathered| {
            let pairs = std::mem::take(&mut sets.ids).into_iter();
            let pairs = pairs.zip(std::mem::take(&mut sets.labels));
            let mut ids = RoaringBitmap::new();
            for (id, labels) in pairs {
                if !labels
                    .as_ref()
                    .is_some_and(|labels| gathered.is_new(labels))
                {
                    continue;
                }
                if (ids.len() as usize) < LOOKED_INTO {
                    ids.insert(id);
                }
                sets.ids.push(id);
                sets.labels.push(labels);
            }
            (sets, ids)
        })
        .await
    }

    /// Adds the sets of ids that have samples and forgets all that were looked into.
    async fn add_present(
        &mut self,
        mut sets: Matching,
        looked_into: RoaringBitmap,
        has_samples: RoaringBitmap,
    ) -> Result<Matching> {
        let sets = self
            .with(move |gathered| {
                let pairs = std::mem::take(&mut sets.ids).into_iter();
                let pairs = pairs.zip(std::mem::take(&mut sets.labels));
                for (id, labels) in pairs {
                    if !looked_into.contains(id) {
                        sets.ids.push(id);
                        sets.labels.push(labels);
                    } else if has_samples.contains(id) {
                        labels.into_iter().for_each(|labels| gathered.add(labels));
                    }
                }
                sets
            })
            .await?;
        self.count()?;
        Ok(sets)
    }

    /// Some series of a bucket with their labels.
    async fn labels_of(&self, found: &Matching, ids: Vec<u32>) -> Result<Matching> {
        let mut slice = Matching::of(found, ids);
        let look_up = move || {
            let all = slice.look_up_labels();
            (slice, all)
        };
        let (mut slice, all) = self.reader.context.pool.run(look_up).await?;
        if !all {
            read_labels(self.reader, &mut slice).await?;
        }
        Ok(slice)
    }

    fn checked(&self, found: Matching) -> Result<Matching> {
        let series_max = self.reader.context.options.read.series_max;
        if found.ids.len() > series_max {
            Err(too_many(series_max))
        } else {
            Ok(found)
        }
    }

    /// Changes what is gathered, on the CPU pool, and counts its memory anew.
    async fn change(&mut self, change: impl FnOnce(&mut G) + Send + 'static) -> Result<()> {
        self.with(change).await?;
        self.count()
    }

    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut G) -> T + Send + 'static,
    ) -> Result<T> {
        let mut gathered = self.gathered.take().ok_or_else(interrupted)?;
        let cache = Arc::clone(self.reader.buckets.cache());
        let work = move || {
            let done = work(&mut gathered);
            // Labels and postings were added.
            cache.make_room();
            (gathered, done)
        };
        let (gathered, done) = self.reader.context.pool.run(work).await?;
        self.gathered = Some(gathered);
        Ok(done)
    }

    fn count(&mut self) -> Result<()> {
        let gathered = self.gathered.as_ref().ok_or_else(interrupted)?;
        let series_max = self.reader.context.options.read.series_max;
        if gathered.series() > series_max {
            return Err(too_many(series_max));
        }
        if let Some(held) = &mut self.held {
            held.set(gathered.heap_bytes())?;
        }
        Ok(())
    }
}

/// A panic on the CPU pool took what was gathered.
fn interrupted() -> Error {
    Error::Unavailable("gathering labels was interrupted; the log has the cause".into())
}
