//! Series in the order of their UIDs.

use icecore_model::{Labels, METRIC_NAME};

use crate::uid::{Tsuid, Uid, UidKind, UidSpace, Uids};

/// A name by its UID; names that have none come behind those that do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum NameKey {
    Id(Uid),
    Name(Box<str>),
}

/// The tags of a series in the order of the keys. Its metric is that of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SeriesKey(pub(crate) Vec<(NameKey, NameKey)>);

impl NameKey {
    pub(crate) fn of(space: &UidSpace, name: &str) -> Self {
        match space.id(name) {
            Some(uid) => Self::Id(uid),
            None => Self::Name(name.into()),
        }
    }
}

impl SeriesKey {
    pub(crate) fn of(labels: &Labels, uids: &Uids) -> Self {
        let (tagks, tagvs) = (uids.read(UidKind::Tagk), uids.read(UidKind::Tagv));
        let key = |(name, value)| (NameKey::of(&tagks, name), NameKey::of(&tagvs, value));
        let mut tags: Vec<_> = tags(labels).map(key).collect();
        tags.sort_unstable();
        Self(tags)
    }
}

impl From<&Tsuid> for SeriesKey {
    fn from(tsuid: &Tsuid) -> Self {
        let key = |(k, v): &(Uid, Uid)| (NameKey::Id(*k), NameKey::Id(*v));
        Self(tsuid.tags.iter().map(key).collect())
    }
}

/// The labels of a series that are tags.
pub(crate) fn tags(labels: &Labels) -> impl Iterator<Item = (&str, &str)> {
    labels.iter().filter(|(name, _)| *name != METRIC_NAME)
}
