//! UIDs: short identifiers of metric names, tag keys and tag values, and TSUIDs made of them.
//!
//! ```text
//! name ──► Uids (in memory, all of them) ──► id
//!            └─ new: CatalogChange, with the points that need it ─► durable
//! ```
//!
//! Holds always:
//! - An id is given to one name and never again; the name of an id can be changed.
//! - A new name is no longer than a label may be, and all names together take bounded memory.
//! - Until what is said of an id is known to be durable, every request that uses it stores it
//!   again, so that no acknowledged point depends on a request that may be lost.

mod limits;
mod space;
pub(crate) mod tsuid;
mod unsettled;

use icecore_model::{Catalog, CatalogChange, StoreError};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use limits::NameLimits;
pub(crate) use space::{UidConflict, UidSpace};
pub(crate) use tsuid::{Tsuid, push_uid};

use crate::catalog_key;
use crate::error::Error;
use limits::NameMemory;

/// The three kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UidKind {
    Metric,
    Tagk,
    Tagv,
}

impl UidKind {
    pub const ALL: [Self; 3] = [Self::Metric, Self::Tagk, Self::Tagv];

    /// As messages name it.
    pub fn table_name(self) -> &'static str {
        match self {
            Self::Metric => "metrics",
            Self::Tagk => "tagk",
            Self::Tagv => "tagv",
        }
    }

    /// The kind that meta data calls so, in any case.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "metric" | "metrics" => Some(Self::Metric),
            "tagk" => Some(Self::Tagk),
            "tagv" => Some(Self::Tagv),
            _ => None,
        }
    }

    /// As meta data and `uid/assign` name it, in lower case.
    pub fn field_name(self) -> &'static str {
        match self {
            Self::Metric => "metric",
            Self::Tagk => "tagk",
            Self::Tagv => "tagv",
        }
    }
}

/// An identifier; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(pub u64);

impl Uid {
    /// From at most eight bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let fold = |id, byte: &u8| id << 8 | u64::from(*byte);
        Self(bytes.iter().fold(0, fold))
    }

    /// Upper-case hexadecimal of `width` bytes.
    pub(crate) fn to_hex(self, width: usize) -> String {
        let mut bytes = Vec::with_capacity(width);
        push_uid(&mut bytes, self, width);
        hex::encode_upper(bytes)
    }
}

/// All names with their identifiers.
#[derive(Debug)]
pub(crate) struct Uids {
    spaces: [RwLock<UidSpace>; 3],
    limits: NameLimits,
}

impl Uids {
    pub(crate) fn new(widths: [usize; 3], random_metrics: bool) -> Self {
        let spaces = UidKind::ALL.map(|kind| {
            let width = widths[kind as usize];
            let is_random = random_metrics && kind == UidKind::Metric;
            RwLock::new(UidSpace::new(kind, width, is_random))
        });
        Self {
            spaces,
            limits: NameLimits::default(),
        }
    }

    /// Sets the limits of new names; to be called before there are any.
    pub(crate) fn with_limits(mut self, limits: NameLimits) -> Self {
        let memory = NameMemory::with_max(limits.uid_bytes_max);
        for space in &mut self.spaces {
            space.get_mut().set_limits(limits, &memory);
        }
        self.limits = limits;
        self
    }

    /// Limits of new names.
    pub(crate) fn limits(&self) -> &NameLimits {
        &self.limits
    }

    /// Returns the memory of all names.
    pub(crate) fn memory_used(&self) -> usize {
        // All kinds count into one.
        self.read(UidKind::Metric).memory_used()
    }

    /// Reads all names from the catalog. Fails where they were assigned with other widths.
    pub(crate) async fn load(&self, catalog: &dyn Catalog) -> Result<(), StoreError> {
        for kind in UidKind::ALL {
            let uids = catalog_key::uids(kind as u8);
            let former = catalog_key::former_names(kind as u8);
            let uids = catalog.range(uids, usize::MAX).await?;
            let former = catalog.range(former, usize::MAX).await?;
            let greatest = catalog_key::exactly(&catalog_key::greatest_uid(kind as u8));
            let greatest = catalog.range(greatest, 1).await?;
            let width = catalog_key::exactly(&catalog_key::uid_width(kind as u8));
            let width = catalog.range(width, 1).await?;
            let mut space = self.write(kind);
            for (key, value) in greatest {
                space.load_greatest(&key, &value)?;
            }
            for (key, value) in uids {
                space.load(&key, &value)?;
            }
            for (key, value) in former {
                space.load_former(&key, &value)?;
            }
            space.check_width(width.first().map(|(_, value)| value.as_slice()))?;
        }
        let adopted = catalog
            .range(catalog_key::all_adopted(), usize::MAX)
            .await?;
        let floats = catalog
            .range(catalog_key::float_metrics(), usize::MAX)
            .await?;
        let mut metrics = self.write(UidKind::Metric);
        for (key, _) in adopted {
            metrics.load_adopted(&key)?;
        }
        for (key, _) in floats {
            metrics.load_float_metric(&key)?;
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
        match self.settled(kind, name) {
            Some(uid) => Ok(uid),
            None => self.write(kind).get_or_assign(name, changes),
        }
    }

    /// Returns the id of the metric of a point, and what has to be stored with it. Of the first
    /// point it is kept whether it is a float.
    pub(crate) fn get_or_assign_metric(
        &self,
        name: &str,
        is_float: bool,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Uid, Error> {
        let kind = UidKind::Metric;
        match self.settled(kind, name) {
            Some(uid) => Ok(uid),
            None => self
                .write(kind)
                .get_or_assign_metric(name, is_float, changes),
        }
    }

    /// The id of a name with which nothing has to be stored.
    fn settled(&self, kind: UidKind, name: &str) -> Option<Uid> {
        let space = self.read(kind);
        space
            .id(name)
            .filter(|uid| space.is_written_and_settled(*uid))
    }

    /// The id of a name that has to be shown, and that others may have written. Metrics that get
    /// one so are *adopted*: numbers of them are shown as before.
    pub(crate) fn get_or_adopt(
        &self,
        kind: UidKind,
        name: &str,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Uid, Error> {
        self.write(kind).get_or_adopt(name, changes)
    }

    /// What has to be stored with a record of an id.
    pub(crate) fn push_unsettled(&self, kind: UidKind, uid: Uid, out: &mut Vec<CatalogChange>) {
        self.read(kind).push_unsettled(uid, out);
    }

    /// What has to be stored with a record of a series.
    pub(crate) fn push_unsettled_of(&self, tsuid: &Tsuid, out: &mut Vec<CatalogChange>) {
        self.push_unsettled(UidKind::Metric, tsuid.metric, out);
        for (key, value) in &tsuid.tags {
            self.push_unsettled(UidKind::Tagk, *key, out);
            self.push_unsettled(UidKind::Tagv, *value, out);
        }
    }

    /// Returns `true` if all names of a series have durable ids.
    pub(crate) fn are_durable(&self, tsuid: &Tsuid) -> bool {
        let is_durable = |kind, uid: &Uid| self.read(kind).has_durable_name(*uid);
        let mut tags = tsuid.tags.iter();
        is_durable(UidKind::Metric, &tsuid.metric)
            && tags.all(|(key, value)| {
                is_durable(UidKind::Tagk, key) && is_durable(UidKind::Tagv, value)
            })
    }

    /// What has to be deleted after these changes were stored: metrics that they adopt and that
    /// were written in the meantime.
    pub(crate) fn outdated_adoptions(&self, changes: &[CatalogChange]) -> Vec<CatalogChange> {
        let keys = catalog_key::all_adopted();
        let adopted = changes.iter().filter(|change| keys.contains(&change.key));
        let metrics = self.read(UidKind::Metric);
        let outdated = adopted.filter(|change| !metrics.is_adopted(&change.key));
        let deleted = outdated.map(|change| CatalogChange {
            key: change.key.clone(),
            value: None,
        });
        deleted.collect()
    }

    /// Changes whenever a name was taken from an id, so that it may need another one.
    pub(crate) fn renames(&self) -> u64 {
        let of = |kind| self.read(kind).renames();
        UidKind::ALL.into_iter().map(of).sum()
    }

    /// These changes are durable: requests need not store them again.
    pub(crate) fn committed<'c>(&self, changes: &'c [CatalogChange]) {
        for kind in UidKind::ALL {
            let of_kind = |change: &'c CatalogChange| {
                let (of, key) = catalog_key::parse_uid_record(&change.key)?;
                (of == kind as u8).then_some((key, change))
            };
            let mut of_kind = changes.iter().filter_map(of_kind).peekable();
            if of_kind.peek().is_some() {
                let mut space = self.write(kind);
                of_kind.for_each(|(key, change)| space.committed(&key, change));
            }
        }
    }
}

/// What is said of a name that has no id.
pub(crate) fn no_such_name(kind: UidKind, name: &str) -> Error {
    let message = format!("No such name for '{}': '{name}'", kind.table_name());
    Error::bad_request(message.clone()).with_details(message)
}

/// What is said of an id that has no name.
pub(crate) fn no_such_id(kind: UidKind, uid: Uid, width: usize) -> String {
    let id = signed_bytes(uid, width);
    format!("No such unique ID for '{}': {id}", kind.table_name())
}

/// The bytes of an id as Java prints them.
pub(crate) fn signed_bytes(uid: Uid, width: usize) -> String {
    let mut bytes = Vec::new();
    push_uid(&mut bytes, uid, width);
    let bytes: Vec<i8> = bytes.into_iter().map(u8::cast_signed).collect();
    format!("{bytes:?}")
}

/// What is said when no id is left.
fn exhausted(kind: UidKind, width: usize) -> Error {
    let kind = kind.table_name();
    Error::bad_request(format!(
        "All Unique IDs for {kind} on {width} bytes are already assigned!"
    ))
}
