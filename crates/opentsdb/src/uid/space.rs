//! The names of one kind.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use icecore_model::{CatalogChange, StoreError};

use super::{Uid, UidKind, exhausted};
use crate::catalog_key;
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct UidSpace {
    kind: UidKind,
    /// Bytes of an id.
    width: usize,
    ids: BTreeMap<Arc<str>, Uid>,
    names: BTreeMap<Uid, Arc<str>>,
    /// The greatest id that was ever given out, also those whose names are gone.
    last: u64,
    /// Ids that may not be durable yet.
    pending: HashSet<Uid>,
    /// How often a name was taken from an id: what is known of names may not hold any more.
    renames: u64,
}

impl UidSpace {
    pub(crate) fn new(kind: UidKind, width: usize) -> Self {
        Self {
            kind,
            width,
            ids: BTreeMap::new(),
            names: BTreeMap::new(),
            last: 0,
            pending: HashSet::new(),
            renames: 0,
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
        u64::MAX >> (64 - 8 * self.width.min(8))
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
            None => self.assign(name)?,
        };
        if self.is_pending(uid) {
            changes.push(catalog_key::uid_change(self.kind, uid, name));
        }
        Ok(uid)
    }

    fn assign(&mut self, name: &str) -> Result<Uid, Error> {
        if self.last >= self.max() {
            return Err(exhausted(self.kind));
        }
        self.last += 1;
        let uid = Uid(self.last);
        self.insert(uid, name.into());
        self.pending.insert(uid);
        Ok(uid)
    }

    /// Gives an id another name. The caller has checked that the new one is free.
    pub(crate) fn rename(&mut self, uid: Uid, name: &str) -> CatalogChange {
        if let Some(old) = self.names.remove(&uid) {
            self.ids.remove(&old);
        }
        self.renames += 1;
        self.insert(uid, name.into());
        catalog_key::uid_change(self.kind, uid, name)
    }

    fn insert(&mut self, uid: Uid, name: Arc<str>) {
        self.ids.insert(Arc::clone(&name), uid);
        self.names.insert(uid, name);
        self.last = self.last.max(uid.0);
    }

    /// A record of the catalog.
    pub(super) fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let (uid, name) = catalog_key::parse_uid(key, value)?;
        self.insert(uid, name.into());
        Ok(())
    }

    pub(super) fn committed(&mut self, key: &[u8]) {
        if let Some(uid) = catalog_key::parse_uid_key(key) {
            self.pending.remove(&uid);
        }
    }
}
