//! Cells of all shards: those of one interval and set of dimension values are one cell.

use std::sync::Arc;

use icecore_model::BoxFuture;
use icecore_model::event::{CellScan, DimensionHash, StoredCell};

use super::state_counts;
use super::union::{Part, UnionView};
use crate::query::{CellSource, DimensionValues};
use crate::{Problem, Registry};

impl CellSource for UnionView {
    fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    fn now_ms(&self) -> i64 {
        self.now_ms
    }

    fn guarded_ms(&self) -> i64 {
        self.guarded_ms
    }

    fn cells(&self, scan: CellScan) -> BoxFuture<'_, Result<Vec<StoredCell>, Problem>> {
        Box::pin(async move {
            let is_of = |part: &&Part| !part.numbers.metrics(scan.metric).is_empty();
            let several = self.parts.iter().filter(is_of).count() > 1;
            if several && state_counts::is_count(&self.registry, scan.metric) {
                return state_counts::cells(self, &scan).await;
            }
            let mut all = Vec::new();
            for part in &self.parts {
                all.extend(part_cells(part, &scan).await?);
            }
            merged(all, scan.limit)
        })
    }

    fn dimension_sets<'a>(
        &'a self,
        metric: u32,
        hashes: &'a [DimensionHash],
    ) -> BoxFuture<'a, Result<Vec<Option<DimensionValues>>, Problem>> {
        Box::pin(async move {
            let mut found: Vec<Option<DimensionValues>> = vec![None; hashes.len()];
            for part in &self.parts {
                for number in part.numbers.metrics(metric) {
                    let missing: Vec<usize> = (0..hashes.len())
                        .filter(|at| found[*at].is_none())
                        .collect();
                    let wanted: Vec<_> = missing.iter().map(|at| hashes[*at]).collect();
                    if wanted.is_empty() {
                        return Ok(found);
                    }
                    let sets = part.view.dimension_sets(*number, &wanted).await;
                    let sets = sets.map_err(|problem| part.named(problem))?;
                    for (at, set) in missing.into_iter().zip(sets) {
                        found[at] = set.map(|set| set.values);
                    }
                }
            }
            Ok(found)
        })
    }

    fn state_counts<'a>(
        &'a self,
        service: u32,
        object_type: &'a str,
        attribute: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(String, i64)>, Problem>> {
        Box::pin(state_counts::of_now(self, service, object_type, attribute))
    }
}

/// The cells of a shard that a scan of the union asks for: as many as it asks for, or all.
pub(super) async fn part_cells(part: &Part, scan: &CellScan) -> Result<Vec<StoredCell>, Problem> {
    let mut cells = Vec::new();
    for number in part.numbers.metrics(scan.metric) {
        let of_part = CellScan {
            metric: *number,
            ..scan.clone()
        };
        let read = part.view.cells(of_part).await;
        cells.extend(read.map_err(|problem| part.named(problem))?);
    }
    Ok(cells)
}

/// Merges cells with one key, in the order of keys, and takes the first. Of each shard there are as
/// many as are wanted, or all that it has: those that are taken are therefore complete.
fn merged(mut cells: Vec<StoredCell>, limit: usize) -> Result<Vec<StoredCell>, Problem> {
    // Sorting is quick where cells are sorted already, as those of each shard are.
    cells.sort_by_key(|cell| (cell.start_s, cell.dimensions));
    let mut sums: Vec<StoredCell> = Vec::with_capacity(cells.len().min(limit));
    for cell in cells {
        let key = (cell.start_s, cell.dimensions);
        let is_full = sums.len() == limit;
        match sums.last_mut() {
            Some(sum) if (sum.start_s, sum.dimensions) == key => {
                sum.cell.merge(&cell.cell).map_err(Problem::corrupt)?;
            }
            _ if is_full => break,
            _ => sums.push(cell),
        }
    }
    Ok(sums)
}
