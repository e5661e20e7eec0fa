//! New series become leaves.

use std::collections::{HashMap, HashSet};

use icecore_model::CatalogChange;

use super::Trees;
use super::branch::{Branch, BranchId, Leaf};
use super::builder::{TreeSeries, build};
use super::definition::Tree;
use crate::catalog::{self, Records};
use crate::catalog_key;
use crate::error::Error;
use crate::java::string_hash;

/// What is in `changes`, and not in the catalog yet.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    /// The TSUID of each leaf by its key.
    leaves: HashMap<Vec<u8>, String>,
    /// Keys.
    pub(super) branches: HashSet<Vec<u8>>,
}

/// Adds a series to a tree: what has to be stored goes to `changes`. The caller holds the lock of
/// the records until that is done.
pub(crate) async fn grow(
    (trees, records): (&Trees, &Records),
    tree: &Tree,
    series: &TreeSeries,
    growth: &mut Growth,
    changes: &mut Vec<CatalogChange>,
) -> Result<(), Error> {
    let built = build(tree, series);
    let tsuid = hex::decode(&series.tsuid).unwrap_or_default();
    if built.is_left_out(tree) {
        if tree.store_failures && !built.not_matched.is_empty() && tree.strict_match {
            changes.push(CatalogChange {
                key: catalog_key::not_matched(tree.id, &tsuid),
                value: Some(not_matched_message(&built.not_matched).into_bytes()),
            });
        }
        return Ok(());
    }
    let Some((name, branches)) = built.path.split_last() else {
        return Ok(());
    };
    let parent = BranchId::of(tree.id, branches);
    let key = catalog_key::leaf(tree.id, &parent.hashes, string_hash(name));
    let owner = match growth.leaves.get(&key) {
        Some(owner) => Some(owner.clone()),
        None => stored_owner(records, &key).await?,
    };
    match owner {
        None => {
            push_branches(trees, tree.id, branches, growth, changes);
            growth.leaves.insert(key.clone(), series.tsuid.clone());
            changes.push(Leaf::new(name, &series.tsuid).stored(key));
        }
        Some(owner) if owner != series.tsuid && tree.store_failures => {
            changes.push(CatalogChange {
                key: catalog_key::collision(tree.id, &tsuid),
                value: Some(owner.into_bytes()),
            });
        }
        Some(_) => {}
    }
    Ok(())
}

/// What is remembered of a series that matched no rule of some levels.
fn not_matched_message(rules: &[String]) -> String {
    format!("Failed rules: {}", rules.join(", "))
}

/// The series that a leaf belongs to.
async fn stored_owner(records: &Records, key: &[u8]) -> Result<Option<String>, Error> {
    let Some(value) = records.get(key).await? else {
        return Ok(None);
    };
    let leaf = Leaf::decode(&value).ok_or_else(|| catalog_key::unreadable("a leaf", key));
    leaf.map(|leaf| Some(leaf.tsuid)).map_err(catalog::failed)
}

/// The root and the branches on the way to a leaf.
fn push_branches(
    trees: &Trees,
    tree: u16,
    branches: &[String],
    growth: &mut Growth,
    changes: &mut Vec<CatalogChange>,
) {
    for depth in 0..=branches.len() {
        let stored = Branch::new(tree, branches[..depth].to_vec()).stored();
        if !trees.has_stored(&stored.key) && growth.branches.insert(stored.key.clone()) {
            changes.push(stored);
        }
    }
}
