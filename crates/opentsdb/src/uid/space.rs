//! The names of one kind.
//!
//! Samples are stored under names, so that PromQL sees them. When an id is renamed, what was
//! written before stays where it is: the id remembers its former names, what is asked for under
//! the current name is read from under those, too, and shown under the current name. A former name
//! that is assigned anew is no former name any more: it takes along what is stored under it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;

use icecore_model::{CatalogChange, StoreError};

use super::{Uid, UidKind, exhausted};
use crate::catalog_key;
use crate::error::Error;

/// Draws of a random id before the space is taken to be full.
const RANDOM_ATTEMPTS: usize = 64;

#[derive(Debug)]
pub(crate) struct UidSpace {
    kind: UidKind,
    /// Bytes of an id.
    width: usize,
    ids: BTreeMap<Arc<str>, Uid>,
    names: BTreeMap<Uid, Arc<str>>,
    /// Names that ids had before they were renamed.
    former: HashMap<Arc<str>, Uid>,
    /// The greatest id that was ever given out, also those whose names are gone.
    last: u64,
    /// Ids that may not be durable yet.
    pending: HashSet<Uid>,
    /// How often a name was taken from an id: what is known of names may not hold any more.
    renames: u64,
    /// Where random ids come from, instead of counting.
    random: Option<RandomState>,
}

impl UidSpace {
    pub(super) fn new(kind: UidKind, width: usize, is_random: bool) -> Self {
        Self {
            kind,
            width,
            ids: BTreeMap::new(),
            names: BTreeMap::new(),
            former: HashMap::new(),
            last: 0,
            pending: HashSet::new(),
            renames: 0,
            random: is_random.then(RandomState::new),
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn id(&self, name: &str) -> Option<Uid> {
        self.ids.get(name).copied()
    }

    pub(crate) fn name(&self, uid: Uid) -> Option<&Arc<str>> {
        self.names.get(&uid)
    }

    /// Names that begin with `prefix`, in byte order.
    pub(crate) fn names_from(&self, prefix: &str) -> impl Iterator<Item = &Arc<str>> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let names = self.ids.range::<str, _>(from).map(|(name, _)| name);
        names.take_while(move |name| name.starts_with(prefix))
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The greatest id that the width allows.
    pub(crate) fn max(&self) -> u64 {
        let unused_bits = 64 - 8 * self.width.min(8) as u32;
        u64::MAX.checked_shr(unused_bits).unwrap_or(0)
    }

    /// Whether any id was ever renamed.
    pub(crate) fn has_former_names(&self) -> bool {
        !self.former.is_empty()
    }

    /// Under which other names samples of this one are stored.
    pub(crate) fn former_names(&self, name: &str) -> Vec<Arc<str>> {
        let Some(uid) = self.id(name).filter(|_| self.has_former_names()) else {
            return Vec::new();
        };
        let of_id = self.former.iter().filter(|(_, id)| **id == uid);
        let mut names: Vec<_> = of_id.map(|(name, _)| Arc::clone(name)).collect();
        names.sort_unstable();
        names
    }

    /// How a name that samples are stored under is shown, if otherwise.
    pub(crate) fn current_name(&self, stored: &str) -> Option<&Arc<str>> {
        self.name(*self.former.get(stored)?)
    }

    pub(super) fn renames(&self) -> u64 {
        self.renames
    }

    pub(super) fn is_pending(&self, uid: Uid) -> bool {
        self.pending.contains(&uid)
    }

    pub(super) fn get_or_assign(
        &mut self,
        name: &str,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Uid, Error> {
        let uid = match self.id(name) {
            Some(uid) => uid,
            None => self.assign(name, changes)?,
        };
        if self.is_pending(uid) {
            changes.push(self.change(uid, name));
        }
        Ok(uid)
    }

    fn assign(&mut self, name: &str, changes: &mut Vec<CatalogChange>) -> Result<Uid, Error> {
        let uid = self.next_id()?;
        if self.former.remove(name).is_some() {
            changes.push(self.former_change(name, None));
        }
        self.insert(uid, name.into());
        self.pending.insert(uid);
        Ok(uid)
    }

    fn next_id(&mut self) -> Result<Uid, Error> {
        let Some(random) = &self.random else {
            if self.last >= self.max() {
                return Err(exhausted(self.kind, self.width));
            }
            return Ok(Uid(self.last + 1));
        };
        let draw = |attempt| {
            let mut hasher = random.build_hasher();
            hasher.write_usize(self.names.len());
            hasher.write_usize(attempt);
            Uid(hasher.finish() & self.max())
        };
        let mut drawn = (0..RANDOM_ATTEMPTS).map(draw);
        let free = drawn.find(|uid| uid.0 > 0 && !self.names.contains_key(uid));
        free.ok_or_else(|| exhausted(self.kind, self.width))
    }

    /// Gives an id another name. The caller has checked that the new one is free.
    pub(crate) fn rename(&mut self, uid: Uid, name: &str) -> Vec<CatalogChange> {
        let mut changes = Vec::new();
        if self.former.remove(name).is_some() {
            changes.push(self.former_change(name, None));
        }
        if let Some(old) = self.names.remove(&uid) {
            self.ids.remove(&old);
            changes.push(self.former_change(&old, Some(uid)));
            self.former.insert(old, uid);
        }
        self.renames += 1;
        self.insert(uid, name.into());
        changes.push(self.change(uid, name));
        changes
    }

    fn insert(&mut self, uid: Uid, name: Arc<str>) {
        self.ids.insert(Arc::clone(&name), uid);
        self.names.insert(uid, name);
        self.last = self.last.max(uid.0);
    }

    fn change(&self, uid: Uid, name: &str) -> CatalogChange {
        CatalogChange {
            key: catalog_key::uid(self.kind as u8, uid.0),
            value: Some(name.as_bytes().to_vec()),
        }
    }

    fn former_change(&self, name: &str, uid: Option<Uid>) -> CatalogChange {
        CatalogChange {
            key: catalog_key::former_name(self.kind as u8, name),
            value: uid.map(|uid| uid.0.to_be_bytes().to_vec()),
        }
    }

    /// The record of a UID.
    pub(super) fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let uid = catalog_key::parse_uid(key).map(Uid);
        let name = std::str::from_utf8(value).ok();
        let (uid, name) = uid
            .zip(name)
            .ok_or_else(|| catalog_key::unreadable("a UID", key))?;
        self.insert(uid, name.into());
        Ok(())
    }

    /// The record of a former name.
    pub(super) fn load_former(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let name = catalog_key::parse_former_name(key);
        let uid = catalog_key::parse_id(value).map(Uid);
        let (name, uid) = name
            .zip(uid)
            .ok_or_else(|| catalog_key::unreadable("a former name", key))?;
        self.former.insert(name.into(), uid);
        Ok(())
    }

    pub(super) fn committed(&mut self, key: &[u8]) {
        if let Some(id) = catalog_key::parse_uid(key) {
            self.pending.remove(&Uid(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(width: usize, is_random: bool) -> UidSpace {
        UidSpace::new(UidKind::Metric, width, is_random)
    }

    fn assign(space: &mut UidSpace, name: &str) -> Result<Uid, Error> {
        space.get_or_assign(name, &mut Vec::new())
    }

    #[test]
    fn ids_are_counted_until_the_width_is_exhausted() {
        let mut space = space(1, false);
        for id in 1..=255 {
            assert_eq!(assign(&mut space, &format!("m{id}")), Ok(Uid(id)));
        }
        assert_eq!(assign(&mut space, "m7"), Ok(Uid(7)));
        let error = assign(&mut space, "one.more").unwrap_err();
        let expected = "All Unique IDs for metrics on 1 bytes are already assigned!";
        assert_eq!(error.message, expected);
    }

    #[test]
    fn random_ids_are_distinct_and_fit_the_width() {
        let mut space = space(2, true);
        let ids: HashSet<u64> = (0..1000)
            .map(|i| assign(&mut space, &format!("m{i}")).unwrap().0)
            .collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| (1..=0xFFFF).contains(id)));
        assert!((1..=1000).any(|id| !ids.contains(&id)));
    }

    #[test]
    fn a_renamed_id_keeps_what_is_stored_under_its_former_names() {
        let mut space = space(3, false);
        let uid = assign(&mut space, "a").unwrap();
        let mut stored = space.rename(uid, "b");
        stored.extend(space.rename(uid, "c"));
        assert_eq!(space.id("a"), None);
        assert_eq!(space.former_names("c"), ["a".into(), "b".into()]);
        assert_eq!(space.current_name("a").map(AsRef::as_ref), Some("c"));
        assert_eq!(space.current_name("c"), None);

        // The same when it is read again.
        let mut records = BTreeMap::new();
        for change in stored {
            records.insert(change.key, change.value.unwrap());
        }
        let mut read = UidSpace::new(UidKind::Metric, 3, false);
        for (key, value) in &records {
            if catalog_key::uids(0).contains(key) {
                read.load(key, value).unwrap();
            } else {
                assert!(catalog_key::former_names(0).contains(key));
                read.load_former(key, value).unwrap();
            }
        }
        assert_eq!(read.former_names("c"), ["a".into(), "b".into()]);

        // A name that is assigned anew belongs to the new id.
        let mut changes = Vec::new();
        space.get_or_assign("a", &mut changes).unwrap();
        assert_eq!(changes[0].value, None);
        assert_eq!(space.former_names("c"), ["b".into()]);
        assert_eq!(space.current_name("a"), None);
        // And back to where it was.
        space.rename(uid, "b");
        assert_eq!(space.former_names("b"), ["c".into()]);
    }
}
