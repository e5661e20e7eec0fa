//! Several instances without a leader: each one writes its own shard, and whoever is asked reads
//! all of them.
//!
//! ```text
//! own view ───────────────────────────┐  registry: one by names, with a number of its own for what
//! views of shards, as they are flushed ┴► only others have ─► union: cells are summed or reduced,
//!                                                             events follow each other
//! ```
//!
//! Holds always:
//! - Queries, searches, series and SQL read a union as they read a view: through [`CellSource`] and
//!   [`EventRows`]. None of them knows of shards.
//! - Shards have numbers of their own. What belongs together is found by the names of service, type
//!   and metric, and by the hash of dimension values, which does not depend on numbers.
//! - Intervals are those of [`icecore_model::event::EventWindow`] everywhere, so that cells of one
//!   interval are of the same time on all shards.
//! - An answer has all shards, or is an error that names the one that is missing, unless the
//!   settings allow it to be left out.
//! - Without shards a view is read as it is: nothing is added.

mod registry;
mod state_counts;
#[cfg(test)]
mod tests;
mod union;
mod union_cells;
mod union_rows;

use std::sync::Arc;

use icecore_model::event::EventShard;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::engine::Shard;
use crate::query::CellSource;
use crate::search::EventRows;
use crate::{Events, EventsView, Problem, Registry};
use registry::UnionRegistry;
use union::{Part, UnionView};

/// The most shards that are read beside the own one.
pub const SHARDS_MAX: usize = 64;

/// One state of events and of cells.
pub trait EventSource: CellSource + EventRows {}

impl<T: CellSource + EventRows> EventSource for T {}

/// The events of this instance and of all others, to be read. Cheap to clone.
#[derive(Clone)]
pub struct AllEvents {
    own: Events,
    shards: Arc<[Shard]>,
    allows_partial: bool,
    /// Made again when one of the registries has changed.
    union: Arc<Mutex<Option<Arc<UnionRegistry>>>>,
}

impl AllEvents {
    /// `allows_partial` leaves out shards that cannot be read, in place of an error.
    pub fn new(
        own: Events,
        shards: Vec<Arc<dyn EventShard>>,
        allows_partial: bool,
    ) -> Result<Self, Problem> {
        if shards.len() > SHARDS_MAX {
            let detail = format!("{} shards are more than {SHARDS_MAX}", shards.len());
            return Err(Problem::new(400, "config.invalid", detail));
        }
        let shards = shards.into_iter().map(|shard| own.shard(shard)).collect();
        Ok(Self {
            own,
            shards,
            allows_partial,
            union: Arc::default(),
        })
    }

    /// Whether events of other instances are read.
    pub fn has_shards(&self) -> bool {
        !self.shards.is_empty()
    }

    /// All cells and events of now, as far as other instances have flushed them.
    pub async fn view(&self) -> Result<Arc<dyn EventSource>, Problem> {
        self.read(true).await
    }

    /// The same for who asks for cells alone: events that are in no file yet are not read.
    pub async fn cells(&self) -> Result<Arc<dyn EventSource>, Problem> {
        self.read(false).await
    }

    /// What is known of services and their events, on this instance or on another.
    pub async fn registry(&self) -> Result<Arc<Registry>, Problem> {
        if self.shards.is_empty() {
            return Ok(self.own.registry());
        }
        let cells = self.cells().await?;
        Ok(Arc::clone(CellSource::registry(&*cells)))
    }

    async fn read(&self, with_tail: bool) -> Result<Arc<dyn EventSource>, Problem> {
        if self.shards.is_empty() {
            return Ok(Arc::new(self.own.view().await?));
        }
        let others = self.others(with_tail).await?;
        let own = self.own.view().await?;
        let mut views = vec![(None, own)];
        views.extend(others.into_iter().map(|(name, view)| (Some(name), view)));
        let registry = self.union_of(&views);
        let parts = views.into_iter().zip(registry.numbers());
        let parts = parts.map(|((name, view), numbers)| Part {
            name,
            view,
            numbers: Arc::clone(numbers),
        });
        Ok(Arc::new(UnionView::new(
            parts.collect(),
            registry.registry(),
        )))
    }

    /// Views of the shards, read at the same time.
    async fn others(&self, with_tail: bool) -> Result<Vec<(Arc<str>, EventsView)>, Problem> {
        let mut reads = JoinSet::new();
        for at in 0..self.shards.len() {
            let shards = Arc::clone(&self.shards);
            reads.spawn(async move { (at, shards[at].view(with_tail).await) });
        }
        let mut views = Vec::with_capacity(self.shards.len());
        while let Some(read) = reads.join_next().await {
            let (at, view) = read.map_err(|error| {
                Problem::new(503, "query.shard-unavailable", format!("{error}"))
            })?;
            match view {
                Ok(view) => views.push((at, view)),
                Err(problem) if self.allows_partial => {
                    tracing::warn!(reason = problem.detail, "a shard is left out");
                }
                Err(problem) => return Err(problem),
            }
        }
        // The first of several is the one that describes what they have in common.
        views.sort_by_key(|(at, _)| *at);
        let named = |(at, view): (usize, EventsView)| (self.shards[at].name().into(), view);
        Ok(views.into_iter().map(named).collect())
    }

    fn union_of(&self, views: &[(Option<Arc<str>>, EventsView)]) -> Arc<UnionRegistry> {
        let registries: Vec<_> = views.iter().map(|(_, view)| view.registry()).collect();
        let mut known = self.union.lock();
        if let Some(known) = known.as_ref().filter(|known| known.is_of(&registries)) {
            return Arc::clone(known);
        }
        let made = Arc::new(UnionRegistry::of(&registries));
        *known = Some(Arc::clone(&made));
        made
    }
}
