//! UIDs: short identifiers of metric names, tag keys and tag values, and TSUIDs made of them.
//!
//! ```text
//! name ──► Uids (in memory, all of them) ──► id
//!            └─ new: CatalogChange, with the points that need it ─► durable
//! ```
//!
//! Holds always:
//! - An id is given to one name and never again; the name of an id can be changed.
//! - Until an id is known to be durable, every request that uses it stores it again, so that no
//!   acknowledged point depends on a request that may be lost.

mod space;
mod tsuid;

use http::StatusCode;
use icecore_model::{Catalog, CatalogChange, StoreError};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use space::UidSpace;
pub(crate) use tsuid::{Tsuid, push_uid};

use crate::catalog_key;
use crate::error::Error;

/// The three kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum UidKind {
    Metric,
    Tagk,
    Tagv,
}

impl UidKind {
    pub(crate) const ALL: [Self; 3] = [Self::Metric, Self::Tagk, Self::Tagv];

    /// As messages name it.
    pub(crate) fn table_name(self) -> &'static str {
        match self {
            Self::Metric => "metrics",
            Self::Tagk => "tagk",
            Self::Tagv => "tagv",
        }
    }

    /// As meta data and `uid/assign` name it, in lower case.
    pub(crate) fn field_name(self) -> &'static str {
        match self {
            Self::Metric => "metric",
            Self::Tagk => "tagk",
            Self::Tagv => "tagv",
        }
    }
}

/// An identifier; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Uid(pub(crate) u64);

/// All names with their identifiers.
#[derive(Debug)]
pub(crate) struct Uids {
    spaces: [RwLock<UidSpace>; 3],
}

impl Uids {
    pub(crate) fn new(widths: [usize; 3]) -> Self {
        let spaces = UidKind::ALL.map(|kind| {
            let width = widths[kind as usize];
            RwLock::new(UidSpace::new(kind, width))
        });
        Self { spaces }
    }

    /// Reads all names from the catalog.
    pub(crate) async fn load(&self, catalog: &dyn Catalog) -> Result<(), StoreError> {
        for kind in UidKind::ALL {
            let records = catalog.range(catalog_key::uids(kind), usize::MAX).await?;
            let mut space = self.write(kind);
            for (key, value) in records {
                space.load(&key, &value)?;
            }
        }
        Ok(())
    }

    pub(crate) fn read(&self, kind: UidKind) -> RwLockReadGuard<'_, UidSpace> {
        self.spaces[kind as usize].read()
    }

    pub(crate) fn write(&self, kind: UidKind) -> RwLockWriteGuard<'_, UidSpace> {
        self.spaces[kind as usize].write()
    }

    /// The id of a name that must exist.
    pub(crate) fn resolve(&self, kind: UidKind, name: &str) -> Result<Uid, Error> {
        let uid = self.read(kind).id(name);
        uid.ok_or_else(|| no_such_name(kind, name))
    }

    /// The id of a name, and what has to be stored with the request that uses it.
    pub(crate) fn get_or_assign(
        &self,
        kind: UidKind,
        name: &str,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Uid, Error> {
        {
            let space = self.read(kind);
            if let Some(uid) = space.id(name)
                && !space.is_pending(uid)
            {
                return Ok(uid);
            }
        }
        self.write(kind).get_or_assign(name, changes)
    }

    /// Changes whenever a name was taken from an id, so that it may need another one.
    pub(crate) fn renames(&self) -> u64 {
        let of = |kind| self.read(kind).renames();
        UidKind::ALL.into_iter().map(of).sum()
    }

    /// Ids of these changes are durable: requests need not store them again.
    pub(crate) fn committed(&self, changes: &[CatalogChange]) {
        for kind in UidKind::ALL {
            let keys = catalog_key::uids(kind);
            let of_kind = |change: &&CatalogChange| keys.contains(&change.key);
            let mut of_kind = changes.iter().filter(of_kind).peekable();
            if of_kind.peek().is_some() {
                let mut space = self.write(kind);
                of_kind.for_each(|change| space.committed(&change.key));
            }
        }
    }
}

/// What is said of a name that has no id.
pub(crate) fn no_such_name(kind: UidKind, name: &str) -> Error {
    let message = format!("No such name for '{}': '{name}'", kind.table_name());
    Error::bad_request(message.clone()).with_details(message)
}

/// What is said when no id is left.
fn exhausted(kind: UidKind) -> Error {
    let message = format!("All Unique IDs for {} are assigned", kind.table_name());
    Error::new(StatusCode::BAD_REQUEST, message)
}
