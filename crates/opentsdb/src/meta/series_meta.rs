//! TSMeta: what users say about a series.
//!
//! How many points a series has and when the last one came is not kept here, but asked of the
//! series when it is shown: points of known series cost nothing this way.

use std::collections::BTreeMap;

use icecore_model::CatalogChange;

use super::uid_meta::UidMeta;
use crate::allowance::Allowance;
use crate::catalog::{self, Records};
use crate::catalog_key;
use crate::error::Error;
use crate::java::double_text;
use crate::json::Json;
use crate::json_object::{ObjectWriter, push_array};
use crate::record_field::{float, integer, map, text};
use crate::series::SeriesPoints;
use crate::tsd::Tsd;
use crate::uid::{Tsuid, Uid, UidKind};

/// The meta data of one series.
#[derive(Clone, Debug)]
pub(crate) struct SeriesMeta {
    pub(crate) tsuid: Tsuid,
    pub(crate) display_name: String,
    pub(crate) description: String,
    pub(crate) notes: String,
    /// Seconds since the epoch; 0 where it is not known.
    pub(crate) created: i64,
    pub(crate) custom: Option<BTreeMap<String, String>>,
    pub(crate) units: String,
    pub(crate) data_type: String,
    pub(crate) retention: i32,
    pub(crate) max: f64,
    pub(crate) min: f64,
}

/// What a request changes. An empty text or 0 is as good as not given, as in the original.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SeriesMetaEdit {
    pub(crate) display_name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) notes: Option<String>,
    pub(crate) created: Option<i64>,
    pub(crate) custom: Option<BTreeMap<String, String>>,
    pub(crate) units: Option<String>,
    pub(crate) data_type: Option<String>,
    pub(crate) retention: Option<i32>,
    pub(crate) max: Option<f64>,
    pub(crate) min: Option<f64>,
}

impl SeriesMetaEdit {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Everything that a user writes.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = [
            &self.display_name,
            &self.description,
            &self.notes,
            &self.units,
            &self.data_type,
        ];
        let custom = self.custom.iter().flatten();
        let custom = custom.flat_map(|(name, value)| [name, value]);
        texts
            .into_iter()
            .flatten()
            .chain(custom)
            .map(String::as_str)
    }
}

impl SeriesMeta {
    pub(crate) fn new(tsuid: Tsuid, created: i64) -> Self {
        Self {
            tsuid,
            display_name: String::new(),
            description: String::new(),
            notes: String::new(),
            created,
            custom: None,
            units: String::new(),
            data_type: String::new(),
            retention: 0,
            max: f64::NAN,
            min: f64::NAN,
        }
    }

    /// Takes over what is given; with `replaces` the rest is reset, except for the time of
    /// creation.
    pub(crate) fn edit(&mut self, edit: SeriesMetaEdit, replaces: bool) {
        if replaces {
            *self = Self::new(self.tsuid.clone(), self.created);
        }
        let texts = [
            (&mut self.display_name, edit.display_name),
            (&mut self.description, edit.description),
            (&mut self.notes, edit.notes),
            (&mut self.units, edit.units),
            (&mut self.data_type, edit.data_type),
        ];
        for (field, value) in texts {
            if let Some(value) = value {
                *field = value;
            }
        }
        self.created = edit.created.unwrap_or(self.created);
        self.custom = edit.custom.or(self.custom.take());
        self.retention = edit.retention.unwrap_or(self.retention);
        self.max = edit.max.unwrap_or(self.max);
        self.min = edit.min.unwrap_or(self.min);
    }

    pub(crate) async fn get(
        records: &Records,
        tsuid: &Tsuid,
        widths: [usize; 3],
    ) -> Result<Option<Self>, Error> {
        let key = catalog_key::series_meta(tsuid.metric.0, &tsuid.to_bytes(widths));
        let Some(value) = records.get(&key).await? else {
            return Ok(None);
        };
        let meta = Self::decode(tsuid.clone(), &value);
        let meta = meta.ok_or_else(|| catalog_key::unreadable("meta data of a series", &key));
        meta.map(Some).map_err(catalog::failed)
    }

    /// The meta data of a metric's series, in the order of TSUIDs.
    pub(crate) async fn of_metric(
        records: &Records,
        allowance: &Allowance,
        metric: Uid,
        widths: [usize; 3],
    ) -> Result<Vec<Self>, Error> {
        let keys = catalog_key::series_metas(metric.0);
        let found = records.all(keys, allowance).await?;
        let metas = found.iter().map(|(key, value)| {
            let tsuid = catalog_key::parse_series_meta(key);
            let tsuid = tsuid.and_then(|tsuid| Tsuid::from_bytes(tsuid, widths));
            let meta = tsuid.and_then(|tsuid| Self::decode(tsuid, value));
            meta.ok_or_else(|| catalog_key::unreadable("meta data of a series", key))
        });
        metas.collect::<Result<_, _>>().map_err(catalog::failed)
    }

    pub(crate) fn stored(&self, widths: [usize; 3]) -> CatalogChange {
        let mut json = String::new();
        let mut object = ObjectWriter::new(&mut json);
        object.map("custom", self.custom.as_ref());
        self.write_fields(&mut object);
        drop(object);
        let tsuid = self.tsuid.to_bytes(widths);
        catalog::stored(catalog_key::series_meta(self.tsuid.metric.0, &tsuid), &json)
    }

    pub(crate) fn removed(tsuid: &Tsuid, widths: [usize; 3]) -> CatalogChange {
        let key = catalog_key::series_meta(tsuid.metric.0, &tsuid.to_bytes(widths));
        catalog::removed(key)
    }

    pub(crate) fn decode(tsuid: Tsuid, value: &[u8]) -> Option<Self> {
        let json = Json::parse(catalog::json_of(value)?).ok()?;
        Some(Self {
            tsuid,
            display_name: text(&json, "displayName")?,
            description: text(&json, "description")?,
            notes: text(&json, "notes")?,
            created: integer(&json, "created")?,
            custom: map(&json, "custom")?,
            units: text(&json, "units")?,
            data_type: text(&json, "dataType")?,
            retention: integer(&json, "retention")?,
            max: float(&json, "max")?,
            min: float(&json, "min")?,
        })
    }

    fn write_fields(&self, object: &mut ObjectWriter<'_>) {
        object.text("description", &self.description);
        object.text("notes", &self.notes);
        object.plain("created", self.created);
        object.text("units", &self.units);
        object.plain("retention", self.retention);
        for (name, value) in [("max", self.max), ("min", self.min)] {
            if value.is_finite() {
                object.plain(name, double_text(value));
            } else {
                object.text(name, &double_text(value));
            }
        }
        object.text("displayName", &self.display_name);
        object.text("dataType", &self.data_type);
    }

    /// As answers show it, with the meta data of its names and what its points say.
    pub(crate) async fn write(
        &self,
        tsd: &Tsd,
        points: SeriesPoints,
        out: &mut String,
    ) -> Result<(), Error> {
        let widths = tsd.config.uid_widths;
        let tags = self.tsuid.tags.iter();
        let tags = tags.flat_map(|(k, v)| [(UidKind::Tagk, *k), (UidKind::Tagv, *v)]);
        let mut names = Vec::new();
        for (kind, uid) in std::iter::once((UidKind::Metric, self.tsuid.metric)).chain(tags) {
            let meta = UidMeta::get(&tsd.records, kind, uid).await?;
            let name = tsd.uids.read(kind).name(uid).cloned();
            names.push((kind, uid, name, meta.unwrap_or_default()));
        }
        let mut names = names.iter().map(|(kind, uid, name, meta)| {
            let uid = uid.to_hex(widths[*kind as usize]);
            move |out: &mut String| {
                meta.write(out, *kind, &uid, name.as_deref().unwrap_or_default());
            }
        });
        let mut object = ObjectWriter::new(out);
        object.text("tsuid", &self.tsuid.to_hex(widths));
        if let Some(push_metric) = names.next() {
            push_metric(object.member("metric"));
        }
        push_array(object.member("tags"), names, |out, push| push(out));
        if let Some(custom) = &self.custom {
            object.map("custom", Some(custom));
        }
        self.write_fields(&mut object);
        let last_s = points.last_ms.unwrap_or(0).div_euclid(1000);
        object.plain("lastReceived", last_s);
        object.plain("totalDatapoints", points.count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tsuid() -> Tsuid {
        Tsuid::new(Uid(1), vec![(Uid(2), Uid(3))])
    }

    #[test]
    fn edits_merge_or_replace() {
        let mut meta = SeriesMeta::new(tsuid(), 7);
        let units = || SeriesMetaEdit {
            units: Some("%".into()),
            ..SeriesMetaEdit::default()
        };
        let limits = SeriesMetaEdit {
            max: Some(100.0),
            ..SeriesMetaEdit::default()
        };
        meta.edit(limits, false);
        meta.edit(units(), false);
        assert_eq!((meta.max, meta.units.as_str()), (100.0, "%"));
        meta.edit(units(), true);
        assert!(meta.max.is_nan());
        assert_eq!((meta.units.as_str(), meta.created), ("%", 7));
    }

    proptest! {
        #[test]
        fn records_are_read_as_written_and_never_in_part(
            texts in prop::array::uniform5(any::<String>()),
            created in any::<i64>(),
            retention in any::<i32>(),
            max in prop::num::f64::NORMAL,
        ) {
            let [display_name, description, notes, units, data_type] = texts;
            let mut meta = SeriesMeta::new(tsuid(), created);
            let edit = SeriesMetaEdit {
                display_name: Some(display_name),
                description: Some(description),
                notes: Some(notes),
                units: Some(units),
                data_type: Some(data_type),
                retention: Some(retention),
                max: Some(max),
                ..SeriesMetaEdit::default()
            };
            meta.edit(edit, false);
            let value = meta.stored([3; 3]).value.unwrap();
            let read = SeriesMeta::decode(tsuid(), &value).unwrap();
            prop_assert_eq!(format!("{read:?}"), format!("{meta:?}"));
            for end in 0..value.len() {
                prop_assert!(SeriesMeta::decode(tsuid(), &value[..end]).is_none());
            }
        }
    }
}
