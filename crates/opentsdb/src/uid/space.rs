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

use super::limits::NameMemory;
use super::unsettled::{UidRecord, Unsettled};
use super::{NameLimits, Uid, UidKind, exhausted};
use crate::catalog_key::{self, UidKey};
use crate::error::Error;

/// Draws of a random id before the space is taken to be full.
const RANDOM_ATTEMPTS: usize = 64;

/// Why a name cannot have the id that it has elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UidConflict {
    /// The id has this name.
    IdTaken(String),
    /// The name has this id.
    NameTaken(Uid),
    /// It is 0, or has more bytes than ids have here.
    OutOfRange,
    /// The name is too long, or there is no room for it.
    Refused(Error),
}

#[derive(Debug)]
pub(crate) struct UidSpace {
    kind: UidKind,
    /// Bytes of an id.
    width: usize,
    /// Whether the width is known to be stored: it goes with the first ids.
    has_stored_width: bool,
    ids: BTreeMap<Arc<str>, Uid>,
    names: BTreeMap<Uid, Arc<str>>,
    /// Names that ids had before they were renamed.
    former: HashMap<Arc<str>, Uid>,
    /// The greatest id that was ever given out, also those whose names are gone.
    last: u64,
    /// No id below this one is free.
    gap: u64,
    /// What may not be durable yet.
    unsettled: Unsettled,
    /// Ids of metrics that only others than OpenTSDB's clients have written.
    adopted: HashSet<Uid>,
    /// Names of metrics whose first point was a float.
    float_metrics: HashSet<Arc<str>>,
    /// How often a name was taken from an id: what is known of names may not hold any more.
    renames: u64,
    /// Where random ids come from, instead of counting.
    random: Option<RandomState>,
    limits: NameLimits,
    /// Shared by all kinds.
    memory: Arc<NameMemory>,
}

impl UidSpace {
    pub(super) fn new(kind: UidKind, width: usize, is_random: bool) -> Self {
        Self {
            kind,
            width,
            has_stored_width: false,
            ids: BTreeMap::new(),
            names: BTreeMap::new(),
            former: HashMap::new(),
            last: 0,
            gap: 1,
            unsettled: Unsettled::default(),
            adopted: HashSet::new(),
            float_metrics: HashSet::new(),
            renames: 0,
            random: is_random.then(RandomState::new),
            limits: NameLimits::default(),
            memory: Arc::default(),
        }
    }

    /// Limits of new names, and the memory of those of all kinds; before there are any.
    pub(super) fn set_limits(&mut self, limits: NameLimits, memory: &Arc<NameMemory>) {
        self.limits = limits;
        self.memory = Arc::clone(memory);
    }

    /// Returns the memory of names of all kinds.
    pub(super) fn memory_used(&self) -> usize {
        self.memory.used()
    }

    /// Fails if a new name is too long, or if there is no room for it.
    pub(crate) fn check_new(&self, name: &str) -> Result<(), Error> {
        self.limits.check_length(self.kind, name)?;
        self.memory.check(name)
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

    /// Names that begin with `prefix`, in byte order; only those behind `last`, if there is one.
    pub(crate) fn names_behind<'a>(
        &'a self,
        prefix: &'a str,
        last: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        let from = last.map_or(Bound::Included(prefix), Bound::Excluded);
        let names = self.ids.range::<str, _>((from, Bound::Unbounded));
        let names = names.map(|(name, _)| name);
        names.take_while(move |name| name.starts_with(prefix))
    }

    /// Names of the ids behind one, in the order of ids.
    pub(crate) fn names_after(&self, uid: Uid) -> impl Iterator<Item = (Uid, &Arc<str>)> {
        let behind = (Bound::Excluded(uid), Bound::Unbounded);
        self.names.range(behind).map(|(uid, name)| (*uid, name))
    }

    /// The greatest id that was given out.
    pub(crate) fn last(&self) -> u64 {
        self.last
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

    /// Whether nothing has to be stored with a point that uses an id.
    pub(super) fn is_written_and_settled(&self, uid: Uid) -> bool {
        !self.adopted.contains(&uid) && self.unsettled.is_settled(uid)
    }

    /// Returns `true` if everything that is said of an id is known to be durable.
    pub(crate) fn is_settled(&self, uid: Uid) -> bool {
        self.unsettled.is_settled(uid)
    }

    /// Returns `true` if no crash can take the name from an id, so that others may be told of it.
    pub(crate) fn has_durable_name(&self, uid: Uid) -> bool {
        self.unsettled.has_durable_name(uid)
    }

    /// What has to be stored with anything that uses an id.
    pub(crate) fn push_unsettled(&self, uid: Uid, changes: &mut Vec<CatalogChange>) {
        let records = self.unsettled.of(uid);
        changes.extend(records.map(|record| self.change(record)));
    }

    /// Whether points of OpenTSDB's clients may be stored under a name.
    pub(crate) fn is_written(&self, stored: &str) -> bool {
        let uid = self.id(stored).or_else(|| self.former.get(stored).copied());
        uid.is_some_and(|uid| !self.adopted.contains(&uid))
    }

    /// Returns `true` if there is a metric whose first point was a float.
    pub(crate) fn has_float_metrics(&self) -> bool {
        !self.float_metrics.is_empty()
    }

    /// Returns `true` if the first point that was stored under a name was a float.
    pub(crate) fn is_float_metric(&self, stored: &str) -> bool {
        self.float_metrics.contains(stored)
    }

    /// Returns the id of the metric of a point. Of the first one it is kept whether it is a float.
    pub(super) fn get_or_assign_metric(
        &mut self,
        name: &str,
        is_float: bool,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Uid, Error> {
        let is_first = !self.is_written(name);
        let uid = self.get_or_assign(name, changes)?;
        if let Some(name) = self.name(uid).filter(|_| is_first && is_float) {
            let name = Arc::clone(name);
            self.float_metrics.insert(Arc::clone(&name));
            let record = UidRecord::FloatMetric(name);
            changes.push(self.change(&record));
            self.unsettled.add(uid, record);
        }
        Ok(uid)
    }

    /// The id of a name that is about to be written.
    pub(super) fn get_or_assign(
        &mut self,
        name: &str,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Uid, Error> {
        let uid = match self.id(name) {
            Some(uid) => uid,
            None => {
                self.check_new(name)?;
                self.assign(name)?
            }
        };
        self.write(uid, changes);
        Ok(uid)
    }

    /// What has to be stored with a point that uses an id.
    fn write(&mut self, uid: Uid, changes: &mut Vec<CatalogChange>) {
        if self.adopted.remove(&uid) {
            self.unsettled.add(uid, UidRecord::Adopted(uid));
        }
        self.push_unsettled(uid, changes);
    }

    /// The id of a name that has to be shown, and that others may have written.
    pub(super) fn get_or_adopt(
        &mut self,
        name: &str,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Uid, Error> {
        // Who found series before a renaming may ask for a name that is a former one by now.
        let known = self.id(name).or_else(|| self.former.get(name).copied());
        let uid = match known {
            Some(uid) => uid,
            None => {
                // Its series are stored, so only the memory is looked at.
                self.memory.check(name)?;
                let uid = self.assign(name)?;
                if self.kind == UidKind::Metric {
                    self.adopted.insert(uid);
                    self.unsettled.add(uid, UidRecord::Adopted(uid));
                }
                uid
            }
        };
        self.push_unsettled(uid, changes);
        Ok(uid)
    }

    fn assign(&mut self, name: &str) -> Result<Uid, Error> {
        let uid = self.next_id()?;
        self.give(uid, name);
        Ok(uid)
    }

    /// Gives a name the id that it has elsewhere; says whether it is new.
    pub(crate) fn import(
        &mut self,
        uid: Uid,
        name: &str,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<bool, UidConflict> {
        if uid.0 == 0 || uid.0 > self.max() {
            return Err(UidConflict::OutOfRange);
        }
        let is_new = match (self.name(uid), self.id(name)) {
            (Some(known), _) if **known == *name => false,
            (Some(known), _) => return Err(UidConflict::IdTaken(known.to_string())),
            (None, Some(known)) => return Err(UidConflict::NameTaken(known)),
            (None, None) => true,
        };
        if is_new {
            self.check_new(name).map_err(UidConflict::Refused)?;
            self.give(uid, name);
        }
        self.write(uid, changes);
        Ok(is_new)
    }

    /// Gives an id a name that no id has now.
    fn give(&mut self, uid: Uid, name: &str) {
        let name: Arc<str> = name.into();
        if let Some(previous) = self.former.remove(&name) {
            self.memory.remove(&name);
            self.unsettled.share(previous, uid);
            self.unsettled
                .add(uid, UidRecord::Former(Arc::clone(&name)));
        }
        self.insert(uid, name);
        self.unsettled.add(uid, UidRecord::Name(uid));
        if !self.has_stored_width {
            self.unsettled.add(uid, UidRecord::Width);
        }
    }

    fn next_id(&mut self) -> Result<Uid, Error> {
        let Some(random) = &self.random else {
            // One great id of elsewhere does not end the counting.
            if self.last >= self.max() {
                return self.first_gap();
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

    /// The first id that has no name.
    fn first_gap(&mut self) -> Result<Uid, Error> {
        for (uid, _) in self.names.range(Uid(self.gap)..) {
            if uid.0 != self.gap {
                break;
            }
            self.gap = self.gap.saturating_add(1);
        }
        let is_taken = self.names.contains_key(&Uid(self.gap));
        if is_taken || self.gap > self.max() {
            return Err(exhausted(self.kind, self.width));
        }
        Ok(Uid(self.gap))
    }

    /// The id that has been renamed so, as long as that may not be durable.
    pub(crate) fn unsettled_renaming(&self, old: &str, new: &str) -> Option<Uid> {
        let uid = self.id(new).filter(|uid| self.former.get(old) == Some(uid));
        uid.filter(|uid| !self.unsettled.is_settled(*uid))
    }

    /// Gives an id another name. The caller has checked that the new one is free and allowed.
    pub(crate) fn rename(&mut self, uid: Uid, name: &str) {
        if let Some(old) = self.names.remove(&uid) {
            self.ids.remove(&old);
            self.former.insert(Arc::clone(&old), uid);
            self.unsettled.add(uid, UidRecord::Former(old));
        }
        self.renames += 1;
        self.give(uid, name);
    }

    fn insert(&mut self, uid: Uid, name: Arc<str>) {
        self.memory.add(&name);
        self.ids.insert(Arc::clone(&name), uid);
        self.names.insert(uid, name);
        self.last = self.last.max(uid.0);
    }

    /// What a record has to say now.
    fn change(&self, record: &UidRecord) -> CatalogChange {
        let kind = self.kind as u8;
        let (key, value) = match record {
            UidRecord::Name(uid) => {
                let name = self.name(*uid).map(|name| name.as_bytes().to_vec());
                (catalog_key::uid(kind, uid.0), name)
            }
            UidRecord::Former(name) => {
                let uid = self
                    .former
                    .get(name)
                    .map(|uid| uid.0.to_be_bytes().to_vec());
                (catalog_key::former_name(kind, name), uid)
            }
            UidRecord::Adopted(uid) => {
                let is_adopted = self.adopted.contains(uid);
                (catalog_key::adopted(uid.0), is_adopted.then(Vec::new))
            }
            UidRecord::FloatMetric(name) => {
                let is_float = self.float_metrics.contains(name);
                (catalog_key::float_metric(name), is_float.then(Vec::new))
            }
            UidRecord::Width => (catalog_key::uid_width(kind), Some(vec![self.width as u8])),
        };
        CatalogChange { key, value }
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

    /// Ids up to this one were given out elsewhere, also those whose names are gone: they are not
    /// given to other names. To be stored before names are.
    pub(crate) fn import_greatest(&mut self, greatest: u64) -> CatalogChange {
        self.last = self.last.max(greatest.min(self.max()));
        CatalogChange {
            key: catalog_key::greatest_uid(self.kind as u8),
            value: Some(self.last.to_be_bytes().to_vec()),
        }
    }

    /// The record of the greatest id of elsewhere.
    pub(super) fn load_greatest(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let greatest = catalog_key::parse_id(value);
        let greatest = greatest.ok_or_else(|| catalog_key::unreadable("the greatest UID", key))?;
        self.last = self.last.max(greatest.min(self.max()));
        Ok(())
    }

    /// The record of a former name.
    pub(super) fn load_former(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let name = catalog_key::parse_name(key);
        let uid = catalog_key::parse_id(value).map(Uid);
        let (name, uid) = name
            .zip(uid)
            .ok_or_else(|| catalog_key::unreadable("a former name", key))?;
        // Of a name that was assigned anew it may have been left behind.
        match self.id(name) {
            None => {
                if self.former.insert(name.into(), uid).is_none() {
                    self.memory.add(name);
                }
            }
            Some(owner) => self.unsettled.add(owner, UidRecord::Former(name.into())),
        }
        Ok(())
    }

    /// The record of a metric that was adopted.
    pub(super) fn load_adopted(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let uid = catalog_key::parse_uid(key).map(Uid);
        let uid = uid.ok_or_else(|| catalog_key::unreadable("an adopted metric", key))?;
        self.adopted.insert(uid);
        Ok(())
    }

    /// The record of a metric whose first point was a float.
    pub(super) fn load_float_metric(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let name = catalog_key::parse_name(key);
        let name = name.ok_or_else(|| catalog_key::unreadable("a metric of floats", key))?;
        let known = self
            .ids
            .get_key_value(name)
            .map(|(name, _)| Arc::clone(name));
        self.float_metrics
            .insert(known.unwrap_or_else(|| name.into()));
        Ok(())
    }

    /// The record of the width, if there is one, after all ids: with other widths TSUIDs mean other
    /// series, and two ids may be shown as one.
    pub(super) fn check_width(&mut self, stored: Option<&[u8]>) -> Result<(), StoreError> {
        let (width, what) = (self.width, self.kind.table_name());
        let key = format!("tsd.storage.uid.width.{}", self.kind.field_name());
        match stored {
            Some([stored]) if usize::from(*stored) == width => {
                self.has_stored_width = true;
                Ok(())
            }
            Some([stored]) => Err(StoreError(format!(
                "{key} is {width}, but UIDs of {what} were assigned with {stored} bytes: set it to \
                 {stored}. For other widths, export text from here and import it into an empty \
                 database"
            ))),
            Some(_) => {
                let key = catalog_key::uid_width(self.kind as u8);
                Err(catalog_key::unreadable("the width of UIDs", &key))
            }
            None => match self.names.last_key_value() {
                Some((uid, name)) if uid.0 > self.max() => Err(StoreError(format!(
                    "{key} is {width}, but {name:?} has the UID {:X}, which has more bytes: set it \
                     to what it was when that was assigned",
                    uid.0
                ))),
                _ => Ok(()),
            },
        }
    }

    /// Whether the metric of a record of the catalog is adopted.
    pub(super) fn is_adopted(&self, key: &[u8]) -> bool {
        catalog_key::parse_uid(key).is_some_and(|id| self.adopted.contains(&Uid(id)))
    }

    /// A change is durable. Where something else holds by now, that is stored (again).
    pub(super) fn committed(&mut self, key: &UidKey<'_>, change: &CatalogChange) {
        let (record, uid) = match *key {
            UidKey::Name(id) => (UidRecord::Name(Uid(id)), Some(Uid(id))),
            UidKey::Adopted(id) => (UidRecord::Adopted(Uid(id)), Some(Uid(id))),
            UidKey::Former(name) => {
                let uid = self.id(name).or_else(|| self.former.get(name).copied());
                (UidRecord::Former(name.into()), uid)
            }
            UidKey::FloatMetric(name) => {
                let uid = self.id(name).or_else(|| self.former.get(name).copied());
                (UidRecord::FloatMetric(name.into()), uid)
            }
            UidKey::Width => {
                self.has_stored_width = true;
                (UidRecord::Width, None)
            }
        };
        if self.change(&record) == *change {
            self.unsettled.settle(&record);
        } else if let Some(uid) = uid {
            self.unsettled.add(uid, record);
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
    fn a_great_id_of_elsewhere_does_not_end_the_counting() {
        let mut space = space(1, false);
        for (id, name) in [(255, "z"), (2, "b")] {
            assert_eq!(space.import(Uid(id), name, &mut Vec::new()), Ok(true));
        }
        assert_eq!(assign(&mut space, "a"), Ok(Uid(1)));
        for id in 3..255 {
            assert_eq!(assign(&mut space, &format!("m{id}")), Ok(Uid(id)));
        }
        assert!(assign(&mut space, "one.more").is_err());
    }

    #[test]
    fn ids_that_were_given_out_elsewhere_are_not_given_again() {
        let mut first = space(1, false);
        let stored = first.import_greatest(9);
        assert_eq!(assign(&mut first, "a"), Ok(Uid(10)));
        let mut read = space(1, false);
        let value = stored.value.unwrap();
        read.load_greatest(&stored.key, &value).unwrap();
        assert_eq!(assign(&mut read, "a"), Ok(Uid(10)));
        // A smaller one that comes later takes nothing back.
        let again = read.import_greatest(3);
        assert_eq!(again.value.unwrap(), 10u64.to_be_bytes());
    }

    #[test]
    fn the_width_is_stored_with_the_first_ids_and_holds() {
        let mut first = space(2, false);
        let of_width = |changes: &[CatalogChange]| {
            let key = catalog_key::uid_width(UidKind::Metric as u8);
            let stored = changes.iter().filter(|change| change.key == key);
            stored
                .map(|change| change.value.clone())
                .collect::<Vec<_>>()
        };
        let mut changes = Vec::new();
        first.get_or_assign("a", &mut changes).unwrap();
        assert_eq!(of_width(&changes), [Some(vec![2])]);
        for change in &changes {
            let (_, key) = catalog_key::parse_uid_record(&change.key).unwrap();
            first.committed(&key, change);
        }
        let mut changes = Vec::new();
        first.get_or_assign("b", &mut changes).unwrap();
        assert_eq!(of_width(&changes), []);
        assert_eq!(changes.len(), 1);

        space(2, false).check_width(Some(&[2])).unwrap();
        let error = space(3, false).check_width(Some(&[2])).unwrap_err();
        let cause = "tsd.storage.uid.width.metric is 3, but UIDs of metrics were assigned with 2";
        assert!(error.0.starts_with(cause), "{error}");
        // Databases of earlier versions do not say it: ids have to fit.
        let old = |width: usize| {
            let mut old = space(width, false);
            old.load(&catalog_key::uid(0, 0x100), b"x").unwrap();
            old.check_width(None).map_err(|error| error.0)
        };
        assert!(old(1).unwrap_err().contains("\"x\" has the UID 100"));
        assert_eq!(old(2), Ok(()));
    }

    #[test]
    fn new_names_are_bounded_in_length_and_memory() {
        let limits = NameLimits {
            label_name_bytes_max: 5,
            label_value_bytes_max: 10,
            uid_bytes_max: 1000,
        };
        let memory = NameMemory::with_max(limits.uid_bytes_max);
        let of_kind = |kind| {
            let mut space = UidSpace::new(kind, 3, false);
            space.set_limits(limits, &memory);
            space
        };
        let (mut metrics, mut keys) = (of_kind(UidKind::Metric), of_kind(UidKind::Tagk));
        assign(&mut metrics, "1234567890").unwrap();
        assign(&mut keys, "12345").unwrap();
        let refused = assign(&mut metrics, "12345678901").unwrap_err().message;
        let expected = "Invalid metric (\"12345678901…\"): 11 bytes, more than \
                        limits.label_value_bytes_max = 10";
        assert_eq!(refused, expected);
        let refused = assign(&mut keys, "123456").unwrap_err().message;
        assert!(
            refused.contains("limits.label_name_bytes_max = 5"),
            "{refused}"
        );
        let import = metrics.import(Uid(77), "12345678901", &mut Vec::new());
        assert!(matches!(import, Err(UidConflict::Refused(_))), "{import:?}");
        // Series of others are shown, whatever was allowed when they were stored.
        metrics
            .get_or_adopt("12345678901", &mut Vec::new())
            .unwrap();
        assign(&mut keys, "b").unwrap();
        assert_eq!(memory.used(), 4 * 200 + 10 + 5 + 11 + 1);

        // One more is too many, of any kind and in any way; known names go on.
        for refused in [
            assign(&mut metrics, "c"),
            assign(&mut keys, "c"),
            keys.get_or_adopt("c", &mut Vec::new()),
        ] {
            let message = refused.unwrap_err().message;
            assert!(
                message.contains("opentsdb.uid_bytes_max = 1000"),
                "{message}"
            );
        }
        assert!(keys.import(Uid(9), "c", &mut Vec::new()).is_err());
        assert_eq!(assign(&mut keys, "b"), Ok(Uid(2)));
        // Stored ones are read all the same.
        keys.load(&catalog_key::uid(1, 5), b"stored").unwrap();
        assert_eq!(assign(&mut keys, "stored"), Ok(Uid(5)));
    }

    #[test]
    fn names_that_move_are_counted_once() {
        let mut space = space(3, false);
        let uid = assign(&mut space, "a").unwrap();
        space.rename(uid, "b");
        assert_eq!(space.memory.used(), 2 * 201);
        assign(&mut space, "a").unwrap();
        assert_eq!(space.memory.used(), 2 * 201);
        space
            .load_former(&catalog_key::former_name(0, "z"), &uid.0.to_be_bytes())
            .unwrap();
        space
            .load_former(&catalog_key::former_name(0, "z"), &uid.0.to_be_bytes())
            .unwrap();
        assert_eq!(space.memory.used(), 3 * 201);
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
        space.rename(uid, "b");
        space.rename(uid, "c");
        let mut stored = Vec::new();
        space.push_unsettled(uid, &mut stored);
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
        let width = records.remove(&catalog_key::uid_width(0));
        read.check_width(width.as_deref()).unwrap();
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
        let key = catalog_key::former_name(0, "a");
        assert!(changes.contains(&CatalogChange { key, value: None }));
        assert_eq!(space.former_names("c"), ["b".into()]);
        assert_eq!(space.current_name("a"), None);
        // And back to where it was.
        space.rename(uid, "b");
        assert_eq!(space.former_names("b"), ["c".into()]);
    }

    #[test]
    fn a_former_name_that_is_shown_is_that_of_its_id() {
        let mut space = space(3, false);
        let uid = assign(&mut space, "a").unwrap();
        space.rename(uid, "b");
        assert_eq!(space.get_or_adopt("a", &mut Vec::new()), Ok(uid));
        assert_eq!(space.current_name("a").map(AsRef::as_ref), Some("b"));
        assert_eq!(space.len(), 1);
    }

    #[test]
    fn the_first_point_of_a_metric_says_how_the_others_are_written() {
        let mut space = space(3, false);
        let write = |space: &mut UidSpace, name: &str, is_float| {
            let mut changes = Vec::new();
            let assigned = space.get_or_assign_metric(name, is_float, &mut changes);
            assigned.unwrap();
            changes
        };
        let has_record = |changes: &[CatalogChange], name: &str| {
            let key = catalog_key::float_metric(name);
            changes.iter().any(|change| change.key == key)
        };
        assert!(has_record(&write(&mut space, "f", true), "f"));
        assert!(!has_record(&write(&mut space, "n", false), "n"));
        // The first point may not be durable yet, and stays the first.
        let again = write(&mut space, "f", false);
        assert!(has_record(&again, "f"));
        assert!(!has_record(&write(&mut space, "n", true), "n"));
        for change in &again {
            let (_, key) = catalog_key::parse_uid_record(&change.key).unwrap();
            space.committed(&key, change);
        }
        assert!(write(&mut space, "f", true).is_empty());
        // What others have written before does not count.
        space.get_or_adopt("a", &mut Vec::new()).unwrap();
        assert!(has_record(&write(&mut space, "a", true), "a"));
        // Points stay where they are when a metric is renamed.
        let uid = space.id("f").unwrap();
        space.rename(uid, "g");
        assert!(space.is_float_metric("f") && !space.is_float_metric("g"));
        assert!(!has_record(&write(&mut space, "g", true), "g"));
        write(&mut space, "f", false);
        assert!(space.is_float_metric("f"));

        let mut read = UidSpace::new(UidKind::Metric, 3, false);
        read.load_float_metric(&catalog_key::float_metric("f"))
            .unwrap();
        assert!(read.is_float_metric("f") && !read.is_float_metric("n"));
    }

    #[test]
    fn ids_of_elsewhere_are_taken_over_unless_they_mean_something_else() {
        let mut space = space(1, false);
        space.check_width(Some(&[1])).unwrap();
        let mut changes = Vec::new();
        let mut adopt = |space: &mut UidSpace, id, name: &str| {
            let adopted = space.import(Uid(id), name, &mut changes);
            (adopted, changes.len())
        };
        assert_eq!(adopt(&mut space, 7, "a"), (Ok(true), 1));
        // It may not be durable yet, and is stored again.
        assert_eq!(adopt(&mut space, 7, "a"), (Ok(false), 2));
        let taken = UidConflict::IdTaken("a".into());
        assert_eq!(adopt(&mut space, 7, "b"), (Err(taken), 2));
        let taken = UidConflict::NameTaken(Uid(7));
        assert_eq!(adopt(&mut space, 8, "a"), (Err(taken), 2));
        for id in [0, 256] {
            let refused = adopt(&mut space, id, "c");
            assert_eq!(refused, (Err(UidConflict::OutOfRange), 2));
        }
        // Ids that are counted go on behind it.
        assert_eq!(assign(&mut space, "d"), Ok(Uid(8)));
        let names: Vec<_> = space.names_after(Uid(7)).map(|(uid, _)| uid).collect();
        assert_eq!((names, space.last()), (vec![Uid(8)], 8));
    }
}
