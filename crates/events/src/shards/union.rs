//! Several views as one.

use std::sync::Arc;

use super::registry::Numbers;
use crate::engine::shard_unavailable;
use crate::{EventsView, Problem, Registry};

/// The view of one shard.
pub(super) struct Part {
    /// `None` for the own instance.
    pub(super) name: Option<Arc<str>>,
    pub(super) view: EventsView,
    pub(super) numbers: Arc<Numbers>,
}

/// All shards. Their views are of moments that are close to each other, and each is consistent.
pub(super) struct UnionView {
    /// The own instance's comes first.
    pub(super) parts: Vec<Part>,
    pub(super) registry: Arc<Registry>,
    pub(super) now_ms: i64,
    pub(super) guarded_ms: i64,
}

impl UnionView {
    pub(super) fn new(parts: Vec<Part>, registry: &Arc<Registry>) -> Self {
        let times = parts.iter().map(|part| part.view.now_ms());
        let guarded = parts.iter().map(|part| part.view.guarded_ms());
        Self {
            now_ms: times.max().unwrap_or_default(),
            guarded_ms: guarded.max().unwrap_or_default(),
            registry: Arc::clone(registry),
            parts,
        }
    }
}

impl Part {
    /// A problem of this shard, with its name.
    pub(super) fn named(&self, problem: Problem) -> Problem {
        match &self.name {
            Some(name) if problem.status == 503 => shard_unavailable(name, &problem.detail),
            Some(name) => Problem {
                detail: format!("{name}: {}", problem.detail),
                ..problem
            },
            None => problem,
        }
    }
}
