//! Annotations: notes about a time, of one series or of all.
//!
//! One is known by its TSUID and its start. Records are found by the metric and the time, so that
//! a query reads those of its series in its time and no others.

mod store;

use std::collections::BTreeMap;

pub(crate) use store::{
    get, globals, globals_in_window, in_window, removed, removed_range, stored,
};

use crate::json::Json;
use crate::json_object::ObjectWriter;
use crate::record_field::{integer, map, text};
use crate::uid::Tsuid;

/// Greater times are in milliseconds, smaller ones in seconds.
const SECONDS_MAX: i64 = u32::MAX as i64;

/// A note about a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Annotation {
    /// The series; without one it is global.
    pub(crate) tsuid: Option<Tsuid>,
    /// As given: seconds or milliseconds.
    pub(crate) start_time: i64,
    /// As given; 0 while it goes on.
    pub(crate) end_time: i64,
    pub(crate) description: String,
    pub(crate) notes: String,
    pub(crate) custom: Option<BTreeMap<String, String>>,
}

/// What a request changes. An empty text or 0 is as good as not given, as in the original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnnotationEdit {
    pub(crate) end_time: Option<i64>,
    pub(crate) description: Option<String>,
    pub(crate) notes: Option<String>,
    pub(crate) custom: Option<BTreeMap<String, String>>,
}

impl AnnotationEdit {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Everything that a user writes.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = self.description.iter().chain(&self.notes);
        let custom = self.custom.iter().flatten();
        let custom = custom.flat_map(|(name, value)| [name, value]);
        texts.chain(custom).map(String::as_str)
    }
}

impl Annotation {
    pub(crate) fn new(tsuid: Option<Tsuid>, start_time: i64) -> Self {
        Self {
            tsuid,
            start_time,
            ..Self::default()
        }
    }

    /// Takes over what is given; with `replaces` the rest is reset.
    pub(crate) fn edit(&mut self, edit: AnnotationEdit, replaces: bool) {
        if replaces {
            *self = Self::new(self.tsuid.take(), self.start_time);
        }
        self.end_time = edit.end_time.unwrap_or(self.end_time);
        if let Some(description) = edit.description {
            self.description = description;
        }
        if let Some(notes) = edit.notes {
            self.notes = notes;
        }
        self.custom = edit.custom.or(self.custom.take());
    }

    /// As answers show it.
    pub(crate) fn write(&self, out: &mut String, widths: [usize; 3]) {
        let mut object = ObjectWriter::new(out);
        let tsuid = self.tsuid.as_ref().map(|tsuid| tsuid.to_hex(widths));
        object.text("tsuid", &tsuid.unwrap_or_default());
        object.text("description", &self.description);
        object.text("notes", &self.notes);
        if let Some(custom) = &self.custom {
            object.map("custom", Some(custom));
        }
        object.plain("startTime", self.start_time);
        object.plain("endTime", self.end_time);
    }

    /// As records keep it: without the TSUID, which is in the key.
    fn encode(&self) -> String {
        let mut json = String::new();
        let mut object = ObjectWriter::new(&mut json);
        object.text("description", &self.description);
        object.text("notes", &self.notes);
        object.map("custom", self.custom.as_ref());
        object.plain("startTime", self.start_time);
        object.plain("endTime", self.end_time);
        drop(object);
        json
    }

    pub(crate) fn decode(tsuid: Option<Tsuid>, json: &str) -> Option<Self> {
        let json = Json::parse(json).ok()?;
        Some(Self {
            tsuid,
            start_time: integer(&json, "startTime")?,
            end_time: integer(&json, "endTime")?,
            description: text(&json, "description")?,
            notes: text(&json, "notes")?,
            custom: map(&json, "custom")?,
        })
    }
}

/// A time of seconds or milliseconds in milliseconds.
pub(crate) fn to_ms(time: i64) -> i64 {
    if time <= SECONDS_MAX {
        time.saturating_mul(1000)
    } else {
        time
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::uid::Uid;

    #[test]
    fn edits_merge_or_replace() {
        let mut note = Annotation::new(None, 1_570_000_200);
        let described = |description: &str| AnnotationEdit {
            description: Some(description.into()),
            ..AnnotationEdit::default()
        };
        note.edit(described("deploy"), false);
        let ended = AnnotationEdit {
            end_time: Some(1_570_000_260),
            notes: Some("more".into()),
            ..AnnotationEdit::default()
        };
        note.edit(ended, false);
        let mut out = String::new();
        note.write(&mut out, [3; 3]);
        let shown = r#"{"tsuid":"","description":"deploy","notes":"more","startTime":1570000200,"endTime":1570000260}"#;
        assert_eq!(out, shown);
        note.edit(described("put"), true);
        assert_eq!((note.end_time, note.notes.as_str()), (0, ""));
        assert_eq!(note.description, "put");
    }

    #[test]
    fn the_size_of_a_time_tells_its_unit() {
        assert_eq!(to_ms(1_570_000_200), 1_570_000_200_000);
        assert_eq!(to_ms(1_570_000_201_500), 1_570_000_201_500);
        assert_eq!(to_ms(4_294_967_295), 4_294_967_295_000);
        assert_eq!(to_ms(4_294_967_296), 4_294_967_296);
    }

    proptest! {
        #[test]
        fn records_are_read_as_written_and_never_in_part(
            times in prop::array::uniform2(any::<i64>()),
            texts in prop::array::uniform2(any::<String>()),
            custom in prop::option::of(prop::collection::btree_map(any::<String>(), any::<String>(), 0..3)),
        ) {
            let [start_time, end_time] = times;
            let [description, notes] = texts;
            let tsuid = Some(Tsuid::new(Uid(1), vec![(Uid(2), Uid(3))]));
            let note = Annotation { tsuid: tsuid.clone(), start_time, end_time, description, notes, custom };
            let json = note.encode();
            prop_assert_eq!(Annotation::decode(tsuid.clone(), &json), Some(note));
            for (end, _) in json.char_indices() {
                prop_assert_eq!(Annotation::decode(tsuid.clone(), &json[..end]), None);
            }
        }
    }
}
