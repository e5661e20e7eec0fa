//! UIDMeta: what users say about a metric, tag key or tag value.

use std::collections::BTreeMap;

use icecore_model::CatalogChange;

use crate::catalog::{self, Records};
use crate::catalog_key;
use crate::error::Error;
use crate::json::Json;
use crate::json_object::ObjectWriter;
use crate::record_field::{integer, map, text};
use crate::uid::{Uid, UidKind};

/// The meta data of one UID; its name is kept with the UID itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UidMeta {
    pub(crate) display_name: String,
    pub(crate) description: String,
    pub(crate) notes: String,
    /// Seconds since the epoch; 0 where it is not known.
    pub(crate) created: i64,
    pub(crate) custom: Option<BTreeMap<String, String>>,
}

/// What a request changes. An empty text or 0 is as good as not given, as in the original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UidMetaEdit {
    pub(crate) display_name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) notes: Option<String>,
    pub(crate) created: Option<i64>,
    pub(crate) custom: Option<BTreeMap<String, String>>,
}

impl UidMetaEdit {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Everything that a user writes.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = [&self.display_name, &self.description, &self.notes];
        let custom = self.custom.iter().flatten();
        let custom = custom.flat_map(|(name, value)| [name, value]);
        texts
            .into_iter()
            .flatten()
            .chain(custom)
            .map(String::as_str)
    }
}

impl UidMeta {
    /// Takes over what is given; with `replaces` the rest is reset, except for the time of
    /// creation.
    pub(crate) fn edit(&mut self, edit: UidMetaEdit, replaces: bool) {
        if replaces {
            *self = Self {
                created: self.created,
                ..Self::default()
            };
        }
        let set = |field: &mut String, value: Option<String>| {
            if let Some(value) = value {
                *field = value;
            }
        };
        set(&mut self.display_name, edit.display_name);
        set(&mut self.description, edit.description);
        set(&mut self.notes, edit.notes);
        self.created = edit.created.unwrap_or(self.created);
        self.custom = edit.custom.or(self.custom.take());
    }

    pub(crate) async fn get(
        records: &Records,
        kind: UidKind,
        uid: Uid,
    ) -> Result<Option<Self>, Error> {
        let key = catalog_key::uid_meta(kind as u8, uid.0);
        let value = records.get(&key).await?;
        let meta = value.map(|value| {
            let meta = Self::decode(&value);
            meta.ok_or_else(|| catalog_key::unreadable("meta data of a UID", &key))
        });
        meta.transpose().map_err(catalog::failed)
    }

    pub(crate) fn stored(&self, kind: UidKind, uid: Uid) -> CatalogChange {
        let mut json = String::new();
        let mut object = ObjectWriter::new(&mut json);
        self.write_fields(&mut object);
        drop(object);
        catalog::stored(catalog_key::uid_meta(kind as u8, uid.0), &json)
    }

    pub(crate) fn removed(kind: UidKind, uid: Uid) -> CatalogChange {
        catalog::removed(catalog_key::uid_meta(kind as u8, uid.0))
    }

    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let json = Json::parse(catalog::json_of(value)?).ok()?;
        Some(Self {
            display_name: text(&json, "displayName")?,
            description: text(&json, "description")?,
            notes: text(&json, "notes")?,
            created: integer(&json, "created")?,
            custom: map(&json, "custom")?,
        })
    }

    fn write_fields(&self, object: &mut ObjectWriter<'_>) {
        object.text("description", &self.description);
        object.text("notes", &self.notes);
        object.plain("created", self.created);
        object.map("custom", self.custom.as_ref());
        object.text("displayName", &self.display_name);
    }

    /// As answers show it.
    pub(crate) fn write(&self, out: &mut String, kind: UidKind, uid: &str, name: &str) {
        let mut object = ObjectWriter::new(out);
        object.text("uid", uid);
        object.text("type", &kind.field_name().to_ascii_uppercase());
        object.text("name", name);
        self.write_fields(&mut object);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edits_merge_or_replace() {
        let mut meta = UidMeta {
            notes: "n".into(),
            created: 7,
            ..UidMeta::default()
        };
        let described = || UidMetaEdit {
            description: Some("d".into()),
            ..UidMetaEdit::default()
        };
        assert!(!described().is_empty());
        meta.edit(described(), false);
        assert_eq!((meta.notes.as_str(), meta.description.as_str()), ("n", "d"));
        meta.edit(described(), true);
        assert_eq!((meta.notes.as_str(), meta.created), ("", 7));
    }

    proptest! {
        #[test]
        fn records_are_read_as_written_and_never_in_part(
            texts in prop::array::uniform3(any::<String>()),
            created in any::<i64>(),
            custom in prop::option::of(prop::collection::btree_map(any::<String>(), any::<String>(), 0..3)),
        ) {
            let [display_name, description, notes] = texts;
            let meta = UidMeta { display_name, description, notes, created, custom };
            let value = meta.stored(UidKind::Tagv, Uid(5)).value.unwrap();
            prop_assert_eq!(UidMeta::decode(&value), Some(meta));
            for end in 0..value.len() {
                prop_assert_eq!(UidMeta::decode(&value[..end]), None);
            }
        }
    }
}
