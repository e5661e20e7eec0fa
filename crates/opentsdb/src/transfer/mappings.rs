//! Orphans among UIDs of elsewhere.
//!
//! The original writes the name of a new id first, and then the id of the name, if the name has
//! none by then. Of writers that meet, one wins. The others leave an id with a name that has
//! another id, and no points.
//!
//! Both directions have to be known to tell which of two ids is the orphan, so an import looks at
//! all cells of the table before it sends the first.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_128;

use super::report::Skipped;
use crate::hbase::UidCell;
use crate::uid::{Uid, UidKind};

/// Most mappings that are remembered, of a hundred bytes each at most. In a larger table orphans
/// are not found, and end an import as other conflicts do.
const MAPPINGS_MAX: usize = 32 << 20;

/// The reason in a report.
const ORPHAN: &str = "an orphaned UID, whose name has another one";

/// The ids and names of a table of UIDs.
#[derive(Debug, Default)]
pub struct UidMappings {
    /// By the hash of a name.
    ids: HashMap<(UidKind, u128), IdsOfName>,
    /// The hash of the name of an id.
    names: HashMap<(UidKind, Uid), u128>,
    is_full: bool,
}

/// The ids of a name in either direction.
#[derive(Clone, Copy, Debug, Default)]
struct IdsOfName {
    /// The id that points with the name are written under.
    forward: Option<Uid>,
    /// The least id that has the name.
    least: Option<Uid>,
}

impl UidMappings {
    /// Remembers a cell.
    pub fn add(&mut self, cell: &UidCell) {
        if self.ids.len() + self.names.len() >= MAPPINGS_MAX {
            self.is_full = true;
            return;
        }
        match cell {
            UidCell::Id(kind, name, uid) => {
                let ids = self.ids.entry((*kind, hash(name))).or_default();
                ids.forward = Some(*uid);
            }
            UidCell::Name(kind, uid, name) => {
                let hash = hash(name);
                self.names.insert((*kind, *uid), hash);
                let ids = self.ids.entry((*kind, hash)).or_default();
                ids.least = Some(ids.least.map_or(*uid, |least| least.min(*uid)));
            }
            UidCell::Meta(..) | UidCell::Greatest(..) => {}
        }
    }

    /// Returns the entry of a report for a cell that gives a name to an orphan. Ids are shown with
    /// as many bytes as the widths say.
    pub fn orphan(&self, line: u64, cell: &UidCell, widths: [usize; 3]) -> Option<Skipped> {
        let owner = self.orphaned_by(cell)?;
        let UidCell::Name(kind, uid, name) = cell else {
            return None;
        };
        let width = widths[*kind as usize];
        let (table, uid, owner) = (kind.table_name(), uid.to_hex(width), owner.to_hex(width));
        let example = format!("{table}: UID {uid} of {name:?}, which has UID {owner}");
        Some(Skipped::one(ORPHAN, line, example))
    }

    /// Returns the id that a name has instead, if a cell gives the name to an orphan.
    fn orphaned_by(&self, cell: &UidCell) -> Option<Uid> {
        let UidCell::Name(kind, uid, name) = cell else {
            return None;
        };
        if self.is_full {
            return None;
        }
        let hash = hash(name);
        let ids = self.ids.get(&(*kind, hash))?;
        // An id that has another name is not that of this one, whatever the table says.
        let has_name = |owner: &Uid| self.names.get(&(*kind, *owner)) == Some(&hash);
        let owner = ids.forward.filter(has_name).or(ids.least)?;
        (owner != *uid).then_some(owner)
    }
}

/// Names are remembered by their hashes: there may be millions.
fn hash(name: &str) -> u128 {
    xxh3_128(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(uid: u64, name: &str) -> UidCell {
        UidCell::Name(UidKind::Tagv, Uid(uid), name.into())
    }

    fn id(name: &str, uid: u64) -> UidCell {
        UidCell::Id(UidKind::Tagv, name.into(), Uid(uid))
    }

    fn orphans(cells: &[UidCell]) -> Vec<(u64, u64)> {
        let mut mappings = UidMappings::default();
        cells.iter().for_each(|cell| mappings.add(cell));
        let orphan = |cell: &UidCell| {
            let owner = mappings.orphaned_by(cell)?;
            match cell {
                UidCell::Name(_, uid, _) => Some((uid.0, owner.0)),
                _ => None,
            }
        };
        cells.iter().filter_map(orphan).collect()
    }

    #[test]
    fn an_orphan_has_a_name_whose_id_is_another() {
        let both = [name(17, "t2"), id("t2", 17)];
        assert_eq!(orphans(&both), []);
        let behind = [&both[..], &[name(18, "t2")]].concat();
        assert_eq!(orphans(&behind), [(18, 17)]);
        let before = [name(17, "t2"), name(18, "t2"), id("t2", 18)];
        assert_eq!(orphans(&before), [(17, 18)]);
        // Another kind of names has ids of its own.
        let metric = UidCell::Name(UidKind::Metric, Uid(18), "t2".into());
        assert_eq!(orphans(&[&both[..], &[metric]].concat()), []);
        // Writers that went away before they were done.
        assert_eq!(orphans(&[name(17, "t2")]), []);
        assert_eq!(orphans(&[name(18, "t2"), name(17, "t2")]), [(18, 17)]);
        // The id of the name has another name, and that counts where points are read.
        let wrong = [id("t2", 17), name(17, "x"), id("x", 17), name(18, "t2")];
        assert_eq!(orphans(&wrong), []);
    }

    proptest! {
        /// Of the ids with a name one is left, in whatever order cells come.
        #[test]
        fn one_id_of_a_name_is_left(
            cells in prop::collection::vec((0u64..6, 0u64..4, any::<bool>()), 0..20),
        ) {
            // An id has one name, a name has one id.
            let (mut names, mut ids) = (HashMap::new(), HashMap::new());
            for (uid, text, is_name) in cells {
                if is_name {
                    names.entry(uid).or_insert(text);
                } else {
                    ids.entry(text).or_insert(uid);
                }
            }
            let mut mappings = UidMappings::default();
            let text = |text: u64| format!("n{text}");
            let reverse = names.iter().map(|(uid, of)| name(*uid, &text(*of)));
            let cells: Vec<_> = reverse.collect();
            cells.iter().for_each(|cell| mappings.add(cell));
            ids.iter().for_each(|(of, uid)| mappings.add(&id(&text(*of), *uid)));
            let mut left: HashMap<u64, Vec<u64>> = HashMap::new();
            for (cell, (uid, of)) in cells.iter().zip(&names) {
                match mappings.orphaned_by(cell) {
                    None => left.entry(*of).or_default().push(*uid),
                    Some(owner) => prop_assert_eq!(names.get(&owner.0), Some(of)),
                }
            }
            for (of, uids) in &left {
                prop_assert_eq!(uids.len(), 1);
                let forward = ids.get(of).filter(|uid| names.get(*uid) == Some(of));
                prop_assert!(forward.is_none_or(|uid| uids[0] == *uid));
            }
            for of in names.values() {
                prop_assert!(left.contains_key(of));
            }
        }
    }
}
