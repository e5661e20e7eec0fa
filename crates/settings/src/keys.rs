//! Keys of a configuration file as rows of a table, from which a file is both read and rendered.
//!
//! Holds always: what a row renders, it reads back as the same value; a key that is absent leaves
//! the value as it is, which is how defaults and inherited values come about.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use crate::binary_size::{parse_binary_size, show_binary_size};
use crate::fields::Fields;
use crate::format::Choice;
use crate::render::Map;

/// One key of the map that describes a `T`. Made by [`key!`](crate::key).
pub struct Key<T> {
    pub read: fn(&mut Fields<'_>, &mut T),
    pub render: fn(&T, &mut Map),
}

/// Reads all keys of a table into `target`.
pub fn read_keys<T>(keys: &[Key<T>], fields: &mut Fields<'_>, target: &mut T) {
    for key in keys {
        (key.read)(fields, target);
    }
}

/// Renders all keys of a table in its order.
pub fn render_keys<T>(keys: &[Key<T>], source: &T, map: &mut Map) {
    for key in keys {
        (key.render)(source, map);
    }
}

/// A row of a table of keys: name, kind of value, field.
#[macro_export]
macro_rules! key {
    ($name:literal, $kind:ty, $($field:ident).+) => {
        $crate::keys::Key {
            read: |fields, target| {
                if let Some(value) = <$kind as $crate::keys::KeyKind>::read(fields, $name) {
                    target.$($field).+ = value;
                }
            },
            render: |source, map| {
                <$kind as $crate::keys::KeyKind>::render(map, $name, &source.$($field).+);
            },
        }
    };
}

/// How a kind of value is read from a key and rendered as one.
pub trait KeyKind {
    type Native;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<Self::Native>;
    fn render(map: &mut Map, key: &str, value: &Self::Native);
}

/// A boolean.
pub struct Flag;
/// A boolean that is rendered only when true.
pub struct FlagIfTrue;
/// A number for which zero means no limit: it is neither read nor rendered.
pub struct Limit;
/// Such a limit in bytes, as Prometheus writes them.
pub struct ByteLimit;
/// A number; zero is not rendered.
pub struct Factor;
/// A duration; zero counts as absent.
pub struct Interval;
/// A text.
pub struct Text;
/// A text, empty for none.
pub struct OptionalText;
/// A path relative to the file, empty for none.
pub struct OptionalPath;
/// One of the words of `C`.
pub struct Word<C>(PhantomData<C>);
/// One of the words of `C`, empty for none.
pub struct OptionalWord<C>(PhantomData<C>);

impl KeyKind for Flag {
    type Native = bool;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<bool> {
        fields.boolean(key)
    }

    fn render(map: &mut Map, key: &str, value: &bool) {
        map.boolean(key, *value);
    }
}

impl KeyKind for FlagIfTrue {
    type Native = bool;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<bool> {
        fields.boolean(key)
    }

    fn render(map: &mut Map, key: &str, value: &bool) {
        if *value {
            map.boolean(key, true);
        }
    }
}

impl KeyKind for Limit {
    type Native = u64;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<u64> {
        fields.number(key).filter(|limit| *limit > 0)
    }

    fn render(map: &mut Map, key: &str, value: &u64) {
        map.text_if(key, (*value > 0).then(|| value.to_string()));
    }
}

impl KeyKind for ByteLimit {
    type Native = u64;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<u64> {
        let bytes = fields.parsed(key, parse_binary_size);
        bytes.filter(|bytes| *bytes > 0)
    }

    fn render(map: &mut Map, key: &str, value: &u64) {
        map.text_if(key, (*value > 0).then(|| show_binary_size(*value)));
    }
}

impl KeyKind for Factor {
    type Native = f64;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<f64> {
        fields.factor(key)
    }

    fn render(map: &mut Map, key: &str, value: &f64) {
        map.text_if(key, (*value != 0.0).then(|| value.to_string()));
    }
}

impl KeyKind for Interval {
    type Native = Duration;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<Duration> {
        fields.duration_or_unset(key)
    }

    fn render(map: &mut Map, key: &str, value: &Duration) {
        map.duration(key, value);
    }
}

impl KeyKind for Text {
    type Native = String;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
        fields.text(key)
    }

    fn render(map: &mut Map, key: &str, value: &String) {
        map.text(key, value);
    }
}

impl KeyKind for OptionalText {
    type Native = Option<String>;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<Option<String>> {
        fields
            .text(key)
            .map(|text| Some(text).filter(|text| !text.is_empty()))
    }

    fn render(map: &mut Map, key: &str, value: &Option<String>) {
        map.text_if(key, value.as_deref());
    }
}

impl KeyKind for OptionalPath {
    type Native = Option<PathBuf>;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<Option<PathBuf>> {
        let text = OptionalText::read(fields, key)?;
        Some(text.map(|text| fields.source.path(&text)))
    }

    fn render(map: &mut Map, key: &str, value: &Option<PathBuf>) {
        map.text_if(key, value.as_ref().map(|path| path.to_string_lossy()));
    }
}

impl<C: Choice> KeyKind for Word<C> {
    type Native = C::Value;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<C::Value> {
        fields.parsed(key, C::parse_word)
    }

    fn render(map: &mut Map, key: &str, value: &C::Value) {
        map.text(key, C::word(*value));
    }
}

impl<C: Choice> KeyKind for OptionalWord<C> {
    type Native = Option<C::Value>;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<Option<C::Value>> {
        fields.parsed(key, |text| {
            if text.is_empty() {
                Ok(None)
            } else {
                C::parse_word(text).map(Some)
            }
        })
    }

    fn render(map: &mut Map, key: &str, value: &Option<C::Value>) {
        map.text_if(key, value.map(C::word));
    }
}
