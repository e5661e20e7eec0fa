//! Where the cells of a question come from: a state of the engine, or a map in memory in tests.

use std::sync::Arc;

use icecore_model::BoxFuture;
use icecore_model::event::{CellScan, DimensionHash, StoredCell};

use crate::{Problem, Registry};

/// A state of all cells that does not change while it is read.
pub trait CellSource: Send + Sync {
    fn registry(&self) -> &Arc<Registry>;

    /// When the state was taken.
    fn now_ms(&self) -> i64;

    /// The guarded time of that moment: what is too old by it is not kept any more.
    fn guarded_ms(&self) -> i64;

    /// Cells of one metric in the order of their intervals, then of their dimensions.
    fn cells(&self, scan: CellScan) -> BoxFuture<'_, Result<Vec<StoredCell>, Problem>>;

    /// For each hash the values that it stands for; `None` where that is not known.
    fn dimension_sets<'a>(
        &'a self,
        metric: u32,
        hashes: &'a [DimensionHash],
    ) -> BoxFuture<'a, Result<Vec<Option<DimensionValues>>, Problem>>;

    /// How many objects of a type are in each state of an attribute, sorted by state.
    fn state_counts<'a>(
        &'a self,
        service: u32,
        object_type: &'a str,
        attribute: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(String, i64)>, Problem>>;
}

/// The values of a set of dimensions: paths and texts, in the order of the metric's dimensions.
pub type DimensionValues = Vec<(String, String)>;
