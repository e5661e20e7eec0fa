//! The groups of an aggregation.

use icecore_model::Labels;

use super::super::label_key::{KeyInterner, LabelKey};
use crate::exec::Row;
use crate::plan::Grouping;

/// Bytes of a group besides its labels: an entry in the map, and a label set.
const GROUP_BYTES: usize = 200;

/// Numbers groups in the order in which they are first seen.
pub(super) struct Groups {
    keys: LabelKey,
    numbers: KeyInterner,
    key: Vec<u8>,
    groups: Vec<Group>,
}

pub(super) struct Group {
    pub(super) labels: Labels,
    pub(super) drop_name: bool,
}

impl Groups {
    pub(super) fn new(grouping: &Grouping) -> Self {
        Self {
            keys: LabelKey::new(&grouping.labels, grouping.without),
            numbers: KeyInterner::default(),
            key: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// The number of the row's group; groups get numbers from 0 upwards.
    pub(super) fn of(&mut self, row: &Row) -> usize {
        self.keys.write(&row.labels, &mut self.key);
        let (number, is_new) = self.numbers.intern(&self.key);
        if is_new {
            self.groups.push(Group {
                labels: self.keys.project(&row.labels),
                drop_name: false,
            });
        }
        // A name that is to be removed later must not come back through `by (__name__)`; nor type
        // and unit.
        self.groups[number].drop_name |= row.drop_name;
        number
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Bytes held, approximately: the key twice (as key and as labels) and the overhead of map and
    /// list; and the last key twice.
    pub(super) fn heap_bytes(&self) -> usize {
        let last = 2 * self.key.capacity();
        self.numbers.key_bytes() * 2 + self.groups.len() * GROUP_BYTES + last
    }

    pub(super) fn get(&self, number: usize) -> &Group {
        &self.groups[number]
    }

    pub(super) fn into_groups(self) -> Vec<Group> {
        self.groups
    }
}
