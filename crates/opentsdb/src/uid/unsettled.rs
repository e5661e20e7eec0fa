//! What is said of ids and may not be durable yet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Uid;

/// A record of the catalog. What it has to say is what the names say when it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum UidRecord {
    /// The name of an id.
    Name(Uid),
    /// The id that had a name before, if any.
    Former(Arc<str>),
    /// Whether a metric is adopted.
    Adopted(Uid),
    /// That the first point of a metric was a float.
    FloatMetric(Arc<str>),
    /// How many bytes ids have.
    Width,
}

#[derive(Debug, Default)]
pub(super) struct Unsettled {
    records: HashSet<UidRecord>,
    /// Which records are stored with what uses an id; some may be durable by now.
    needed: HashMap<Uid, Vec<UidRecord>>,
}

impl Unsettled {
    /// A record has changed: whoever uses the id stores it.
    pub(super) fn add(&mut self, uid: Uid, record: UidRecord) {
        let needed = self.needed.entry(uid).or_default();
        if !needed.contains(&record) {
            needed.push(record.clone());
        }
        self.records.insert(record);
    }

    /// An id gets a name that another one had: were only that stored, both would have the name.
    pub(super) fn share(&mut self, previous: Uid, uid: Uid) {
        let shared: Vec<_> = self.of(previous).cloned().collect();
        shared.into_iter().for_each(|record| self.add(uid, record));
    }

    /// What has to be stored with what uses an id.
    pub(super) fn of(&self, uid: Uid) -> impl Iterator<Item = &UidRecord> {
        let needed = self.needed.get(&uid).into_iter().flatten();
        needed.filter(|record| self.records.contains(record))
    }

    pub(super) fn is_settled(&self, uid: Uid) -> bool {
        self.of(uid).next().is_none()
    }

    /// Returns `true` if the name of an id is known to be durable. Other records of it may not be.
    pub(super) fn has_durable_name(&self, uid: Uid) -> bool {
        let is_name = |record: &UidRecord| matches!(record, UidRecord::Name(_));
        !self.of(uid).any(is_name)
    }

    /// A record is durable as it is now.
    pub(super) fn settle(&mut self, record: &UidRecord) {
        self.records.remove(record);
        if self.records.is_empty() {
            self.needed.clear();
        }
        if let UidRecord::Name(uid) | UidRecord::Adopted(uid) = record
            && self.is_settled(*uid)
        {
            self.needed.remove(uid);
        }
    }
}
