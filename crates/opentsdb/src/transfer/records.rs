//! Meta data, annotations and trees: what the catalog keeps.

use std::collections::BTreeMap;

use icecore_model::CatalogChange;

use super::documents;
use super::lines::ends_import;
use super::report::{Report, Skipped};
use crate::annotation::{self, Annotation};
use crate::catalog::check_size;
use crate::catalog_key;
use crate::error::Error;
use crate::hbase::{SeriesMetaCell, TreeCell, UidCell};
use crate::tree::Tree;
use crate::tsd::Tsd;
use crate::uid::Tsuid;

/// What a cell says that becomes a record.
#[derive(Clone)]
pub(super) enum Record {
    Uid(UidCell),
    Series(SeriesMetaCell),
    Annotation(Annotation),
    Tree(u16, TreeCell),
}

/// Why a record cannot be stored.
enum Refusal {
    /// It may be passed over.
    Skip(Skipped),
    /// It belongs to something else than what has its place here.
    Conflict(Error),
}

/// Changes that are made together.
struct Changes<'a> {
    tsd: &'a Tsd,
    /// Widths of the cells.
    widths: [usize; 3],
    changes: Vec<CatalogChange>,
    trees: BTreeMap<u16, Tree>,
}

/// Stores records; nothing where one must not be passed over.
pub(super) async fn store(
    tsd: &Tsd,
    records: Vec<(u64, Record)>,
    widths: [usize; 3],
    skips_errors: bool,
    report: &mut Report,
) -> Result<(), Error> {
    let lock = tsd.records.lock().await;
    let mut changes = Changes {
        tsd,
        widths,
        changes: Vec::new(),
        trees: BTreeMap::new(),
    };
    let mut count = 0;
    for (line, record) in records {
        match changes.add(line, record) {
            Ok(()) => count += 1,
            Err(Refusal::Conflict(error)) => return Err(error),
            Err(Refusal::Skip(skipped)) if skips_errors => report.skip(skipped),
            Err(Refusal::Skip(skipped)) => return Err(ends_import(&skipped)),
        }
    }
    let mut all = changes.changes;
    all.extend(changes.trees.values().map(Tree::stored));
    // Requests see definitions in memory: they are there before others can change them.
    let trees = changes.trees.into_values();
    let put = || trees.for_each(|tree| tsd.trees.put(tree));
    lock.write_and(all, put).await?;
    report.records += count;
    Ok(())
}

impl Changes<'_> {
    fn add(&mut self, line: u64, record: Record) -> Result<(), Refusal> {
        match record {
            Record::Uid(cell) => self.add_uid_meta(line, cell),
            Record::Series(cell) => self.add_series_meta(line, cell),
            Record::Annotation(note) => {
                let widths = self.tsd.config.uid_widths;
                self.push(line, annotation::stored(&note, widths))
            }
            Record::Tree(id, cell) => self.add_tree(line, id, cell),
        }
    }

    fn push(&mut self, line: u64, change: CatalogChange) -> Result<(), Refusal> {
        let fits = check_size(&change);
        fits.map_err(|error| skip(line, "a record that is too large", error.message))?;
        self.changes.push(change);
        Ok(())
    }

    fn add_uid_meta(&mut self, line: u64, cell: UidCell) -> Result<(), Refusal> {
        if let UidCell::Meta(kind, uid, json) = cell {
            let json = documents::parse(&json).ok_or_else(|| no_document(line))?;
            let meta = documents::uid_meta(&json);
            self.push(line, meta.stored(kind, uid))?;
        }
        Ok(())
    }

    fn add_series_meta(&mut self, line: u64, cell: SeriesMetaCell) -> Result<(), Refusal> {
        if let SeriesMetaCell::Meta(tsuid, json) = cell {
            let json = documents::parse(&json).ok_or_else(|| no_document(line))?;
            let meta = documents::series_meta(&json, tsuid);
            self.push(line, meta.stored(self.tsd.config.uid_widths))?;
        }
        Ok(())
    }

    fn add_tree(&mut self, line: u64, id: u16, cell: TreeCell) -> Result<(), Refusal> {
        match cell {
            TreeCell::Definition(json) => {
                let json = documents::parse(&json).ok_or_else(|| no_document(line))?;
                let tree = self.tree(id);
                let before = tree.name.clone();
                documents::define_tree(&json, tree);
                if !before.is_empty() && tree.name != before {
                    let there = &tree.name;
                    let message = format!(
                        "line {line}: tree {id} is {there:?} there and {before:?} here: delete \
                         one of them"
                    );
                    let status = http::StatusCode::CONFLICT;
                    return Err(Refusal::Conflict(Error::new(status, message)));
                }
            }
            TreeCell::Rule(level, order, json) => {
                let json = documents::parse(&json).ok_or_else(|| no_document(line))?;
                let rule = documents::rule(&json, (id, level, order));
                let rule = rule.map_err(|reason| skip(line, "no rule of a tree", reason))?;
                let mut tree = self.tree(id).clone();
                tree.put_rule(rule);
                let others = self.trees.values().filter(|other| other.id != id);
                let checked = self.tsd.trees.check_rules(&tree, others);
                checked.map_err(|reason| skip(line, "too many rules of trees", reason))?;
                self.trees.insert(id, tree);
            }
            TreeCell::Branch(_, json) => {
                let json = documents::parse(&json).ok_or_else(|| no_document(line))?;
                let branch = documents::branch(&json, id);
                let branch = branch.ok_or_else(|| skip(line, "no branch of a tree", ""))?;
                self.changes.push(branch.stored());
            }
            TreeCell::Leaf(path, hash, json) => {
                let json = documents::parse(&json).ok_or_else(|| no_document(line))?;
                let mut leaf = documents::leaf(&json);
                leaf.tsuid = self.tsuid_here(line, &leaf.tsuid)?;
                let branch: Vec<u8> = path.iter().flat_map(|hash| hash.to_be_bytes()).collect();
                let key = catalog_key::leaf(id, &branch, hash.cast_signed());
                self.changes.push(leaf.stored(key));
            }
            TreeCell::Collision(tsuid, owner) => {
                let tsuid = self.tsuid_here(line, &hex::encode(tsuid))?;
                let tsuid = hex::decode(tsuid).unwrap_or_default();
                self.changes.push(CatalogChange {
                    key: catalog_key::collision(id, &tsuid),
                    value: Some(self.tsuid_here(line, &owner)?.into_bytes()),
                });
            }
            TreeCell::NotMatched(tsuid, message) => {
                let tsuid = self.tsuid_here(line, &hex::encode(tsuid))?;
                let tsuid = hex::decode(tsuid).unwrap_or_default();
                self.changes.push(CatalogChange {
                    key: catalog_key::not_matched(id, &tsuid),
                    value: Some(message.into_bytes()),
                });
            }
        }
        Ok(())
    }

    /// A tree as it will be.
    fn tree(&mut self, id: u16) -> &mut Tree {
        let trees = &self.tsd.trees;
        self.trees.entry(id).or_insert_with(|| {
            let known = trees.get(id).map(|tree| Tree::clone(&tree));
            known.unwrap_or_else(|| Tree {
                id,
                ..Tree::default()
            })
        })
    }

    /// A TSUID in hexadecimal, with the widths of this server.
    fn tsuid_here(&self, line: u64, text: &str) -> Result<String, Refusal> {
        let tsuid = Tsuid::from_hex(text, self.widths);
        let tsuid = tsuid.ok_or_else(|| skip(line, "no TSUID", text))?;
        Ok(tsuid.to_hex(self.tsd.config.uid_widths))
    }
}

fn no_document(line: u64) -> Refusal {
    skip(line, "a value is no JSON", "")
}

fn skip(line: u64, reason: &str, example: impl Into<String>) -> Refusal {
    Refusal::Skip(Skipped::one(reason, line, example))
}
