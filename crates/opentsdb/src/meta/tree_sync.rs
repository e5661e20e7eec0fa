//! Series that were there before a tree become its leaves: what `tsdb uid treesync` does in the
//! original. New series do so when they are written.

use super::hook::tree_series;
use crate::allowance::Allowance;
use crate::catalog_key;
use crate::error::Error;
use crate::tree::{Growth, grow};
use crate::tsd::Tsd;
use crate::uid::Tsuid;

/// Series for which the records are locked at a time: others write in between.
const PAGE: usize = 1000;

/// Adds all series that have meta data to a tree; how many there are. Those that are leaves stay
/// as they are, so that it may be repeated. Ends early if the tree is deleted meanwhile.
pub(crate) async fn sync_tree(tsd: &Tsd, allowance: &Allowance, id: u16) -> Result<u64, Error> {
    let mut keys = catalog_key::all_series_metas();
    let mut series_count = 0;
    loop {
        allowance.check()?;
        let lock = tsd.records.lock().await;
        let Some(tree) = tsd.trees.get(id) else {
            return Ok(series_count);
        };
        let page = tsd.records.range(keys.clone(), PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Ok(series_count);
        };
        keys.start = catalog_key::exactly(last).end;
        let (mut growth, mut changes) = (Growth::default(), Vec::new());
        for (key, _) in &page {
            let tsuid = catalog_key::parse_series_meta(key);
            let tsuid = tsuid.and_then(|bytes| Tsuid::from_bytes(bytes, tsd.config.uid_widths));
            let Some(tsuid) = tsuid else { continue };
            if let Ok(series) = tree_series(tsd, &tsuid).await? {
                let stored = (&tsd.trees, &tsd.records);
                grow(stored, &tree, &series, &mut growth, &mut changes).await?;
                series_count += 1;
            }
        }
        let remember = || tsd.trees.add_stored(growth);
        lock.write_and(changes, remember).await?;
    }
}
