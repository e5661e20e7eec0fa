//! Which files snapshots of the database need: those that they list.
//!
//! A file that is no longer listed may be in the list of a snapshot. It stays for as long as that
//! snapshot does. No time is asked for this: neither the dates of files nor any clock.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use icecore_model::StoreError;

use super::Engine;
use super::file_list;

/// Files of all snapshots together that are remembered. The lists of further snapshots are read
/// each time.
const REMEMBERED_MAX: usize = 1 << 20;

/// Lists of files of snapshots. A snapshot does not change, so that each is read once.
#[derive(Default)]
pub(super) struct KeptFiles {
    by_snapshot: HashMap<String, HashSet<u64>>,
    /// Paths are remembered by their hashes: one that has the hash of another is kept as well.
    hasher: RandomState,
}

impl KeptFiles {
    fn remembered(&self) -> usize {
        self.by_snapshot.values().map(HashSet::len).sum()
    }
}

impl Engine {
    /// Returns the paths that no snapshot lists.
    pub(super) async fn not_kept(
        &self,
        known: &mut KeptFiles,
        mut paths: Vec<String>,
    ) -> Result<Vec<String>, StoreError> {
        if paths.is_empty() {
            return Ok(paths);
        }
        let ids = self.store.kept().await?;
        known.by_snapshot.retain(|id, _| ids.contains(id));
        for id in ids {
            if let Some(listed) = known.by_snapshot.get(&id) {
                paths.retain(|path| !listed.contains(&known.hasher.hash_one(path)));
                continue;
            }
            let Some(state) = self.store.kept_state(&id).await? else {
                continue;
            };
            let files = file_list::all_files(&*state).await?;
            let listed = files.iter().map(|file| known.hasher.hash_one(&file.path));
            let listed: HashSet<u64> = listed.collect();
            paths.retain(|path| !listed.contains(&known.hasher.hash_one(path)));
            if known.remembered() + listed.len() <= REMEMBERED_MAX {
                known.by_snapshot.insert(id, listed);
            }
        }
        Ok(paths)
    }
}
