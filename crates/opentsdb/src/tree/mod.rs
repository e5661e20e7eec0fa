//! Trees: series in a hierarchy that rules make of their names.
//!
//! ```text
//! new series ─► rules, level by level ─► names ─► branches ─► leaf
//!                                          └── a level without a name: skipped, or not matched
//! ```
//!
//! Holds always:
//! - A leaf belongs to the series that came first; others with its name are collisions.
//! - Definitions are all in memory, as they are in the catalog.

mod branch;
mod builder;
mod definition;
mod growth;
mod rule;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use icecore_model::{Catalog, StoreError};
use parking_lot::{Mutex, RwLock};

pub(crate) use branch::{Branch, BranchId, Leaf};
pub(crate) use builder::{NamedMeta, TreeSeries, build};
pub(crate) use definition::{PATTERNS_BYTES_MAX, RULES_MAX, Tree, TreeEdit};
pub(crate) use growth::{Growth, grow};
pub(crate) use rule::{Rule, RuleEdit, RuleType};

use crate::catalog_key;

/// Trees that there are at most; the original has 65 535.
const TREES_MAX: usize = 256;

/// Branches that are remembered as stored; when there are more, all are forgotten.
const STORED_BRANCHES_MAX: usize = 1 << 16;

/// The definitions of all trees.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    trees: RwLock<BTreeMap<u16, Arc<Tree>>>,
    /// Keys of branches that are in the catalog, so that they are not stored with every series.
    stored_branches: Mutex<HashSet<Vec<u8>>>,
}

impl Trees {
    /// Reads all definitions from the catalog.
    pub(crate) async fn load(catalog: &dyn Catalog) -> Result<Self, StoreError> {
        let mut trees = BTreeMap::new();
        for (key, value) in catalog.range(catalog_key::trees(), usize::MAX).await? {
            let tree = Tree::decode(&value);
            let tree = tree.ok_or_else(|| catalog_key::unreadable("a tree", &key))?;
            trees.insert(tree.id, Arc::new(tree));
        }
        Ok(Self {
            trees: RwLock::new(trees),
            stored_branches: Mutex::default(),
        })
    }

    pub(crate) fn get(&self, id: u16) -> Option<Arc<Tree>> {
        self.trees.read().get(&id).map(Arc::clone)
    }

    /// All trees, in the order of their ids.
    pub(crate) fn all(&self) -> Vec<Arc<Tree>> {
        self.trees.read().values().map(Arc::clone).collect()
    }

    /// Fails if there would be too many rules with changed trees in the places of those that have
    /// their ids. `others` are changed together with `tree`.
    pub(crate) fn check_rules<'t>(
        &self,
        tree: &'t Tree,
        others: impl Iterator<Item = &'t Tree>,
    ) -> Result<(), String> {
        let trees = self.trees.read();
        let known = trees.iter().map(|(id, tree)| (*id, &**tree));
        let mut all: BTreeMap<u16, &Tree> = known.collect();
        all.extend(others.chain([tree]).map(|tree| (tree.id, tree)));
        let rules: usize = all.values().map(|tree| tree.rule_count()).sum();
        let bytes: usize = all.values().map(|tree| tree.pattern_bytes()).sum();
        if rules > RULES_MAX {
            return Err(format!("Trees have at most {RULES_MAX} rules together"));
        }
        if bytes > PATTERNS_BYTES_MAX {
            return Err(format!(
                "The expressions of all rules of trees take more than {PATTERNS_BYTES_MAX} bytes"
            ));
        }
        Ok(())
    }

    /// The id of the next tree, if there may be one more.
    pub(crate) fn next_id(&self) -> Option<u16> {
        let trees = self.trees.read();
        if trees.len() >= TREES_MAX {
            return None;
        }
        let last = trees.last_key_value().map_or(0, |(id, _)| *id);
        last.checked_add(1)
    }

    pub(crate) fn put(&self, tree: Tree) {
        self.trees.write().insert(tree.id, Arc::new(tree));
    }

    pub(crate) fn remove(&self, id: u16) {
        self.trees.write().remove(&id);
    }

    /// Branches may have been deleted.
    pub(crate) fn forget_branches(&self) {
        self.stored_branches.lock().clear();
    }

    /// Whether a branch is known to be stored.
    fn has_stored(&self, key: &[u8]) -> bool {
        self.stored_branches.lock().contains(key)
    }

    /// What has grown is stored.
    pub(crate) fn add_stored(&self, growth: Growth) {
        let mut stored = self.stored_branches.lock();
        if stored.len() + growth.branches.len() > STORED_BRANCHES_MAX {
            stored.clear();
        }
        stored.extend(growth.branches);
    }
}
