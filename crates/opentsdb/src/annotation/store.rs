//! Annotations in the catalog.

use std::collections::BTreeMap;

use icecore_model::CatalogRecord;

use super::{Annotation, to_ms};
use crate::catalog::{self, Records};
use crate::catalog_key;
use crate::error::Error;
use crate::uid::{Tsuid, Uid};

/// The original keeps annotations in rows of an hour, and some of its answers are about rows.
const ROW_S: i64 = 3600;

/// The annotation of a series, or a global one.
pub(crate) async fn get(
    records: &Records,
    tsuid: Option<&Tsuid>,
    start_time: i64,
    widths: [usize; 3],
) -> Result<Option<Annotation>, Error> {
    let key = key(tsuid, start_time, widths);
    let value = records.get(&key).await?;
    value
        .map(|value| decode(tsuid.cloned(), &(key, value)))
        .transpose()
}

/// Stores an annotation.
pub(crate) async fn put(
    records: &Records,
    note: &Annotation,
    widths: [usize; 3],
) -> Result<(), Error> {
    let key = key(note.tsuid.as_ref(), note.start_time, widths);
    records
        .write(vec![catalog::stored(key, &note.encode())])
        .await
}

pub(crate) async fn delete(
    records: &Records,
    tsuid: Option<&Tsuid>,
    start_time: i64,
    widths: [usize; 3],
) -> Result<(), Error> {
    let key = key(tsuid, start_time, widths);
    records.write(vec![catalog::removed(key)]).await
}

/// Deletes those of a series, or global ones, that start from `start_ms` to `end_ms`, both
/// included. The result is how many there were.
pub(crate) async fn delete_range(
    records: &Records,
    tsuid: Option<&Tsuid>,
    (start_ms, end_ms): (i64, i64),
    widths: [usize; 3],
) -> Result<u64, Error> {
    let (start, end) = (key_time(start_ms), key_time(end_ms));
    let keys = match tsuid {
        None => catalog_key::global_annotations(start, end),
        Some(tsuid) => catalog_key::annotations(tsuid.metric.0, start, end),
    };
    let tsuid = tsuid.map(|tsuid| tsuid.to_bytes(widths));
    let found = records.range(keys, usize::MAX).await?;
    let of_series = |(key, _): &CatalogRecord| {
        let tsuid = tsuid.as_deref();
        tsuid.is_none() || catalog_key::parse_annotation(key) == tsuid
    };
    let found = found.into_iter().filter(of_series);
    let changes: Vec<_> = found.map(|(key, _)| catalog::removed(key)).collect();
    let count = changes.len() as u64;
    records.write(changes).await?;
    Ok(count)
}

/// The annotations of the series of a metric that start from `start_ms` to `end_ms`, both
/// included; those of a series in the order of their start as given.
pub(crate) async fn in_window(
    records: &Records,
    metric: Uid,
    (start_ms, end_ms): (i64, i64),
    widths: [usize; 3],
) -> Result<BTreeMap<Tsuid, Vec<Annotation>>, Error> {
    let keys = catalog_key::annotations(metric.0, key_time(start_ms), key_time(end_ms));
    let found = records.range(keys, usize::MAX).await?;
    let mut series: BTreeMap<Tsuid, Vec<Annotation>> = BTreeMap::new();
    for record in found {
        let tsuid = catalog_key::parse_annotation(&record.0);
        let tsuid = tsuid.and_then(|tsuid| Tsuid::from_bytes(tsuid, widths));
        let tsuid = tsuid.ok_or_else(|| catalog_key::unreadable("an annotation", &record.0));
        let tsuid = tsuid.map_err(catalog::failed)?;
        let note = decode(Some(tsuid.clone()), &record)?;
        series.entry(tsuid).or_default().push(note);
    }
    for notes in series.values_mut() {
        notes.sort_by_key(|note| note.start_time);
    }
    Ok(series)
}

/// Global annotations of the hours from `start_s` to `end_s` that do not start before, and do not
/// end after it. As in the original, times given in milliseconds are compared as they are.
pub(crate) async fn globals(
    records: &Records,
    start_s: i64,
    end_s: i64,
) -> Result<Vec<Annotation>, Error> {
    let row = |time_s: i64| time_s.div_euclid(ROW_S) * ROW_S;
    let start = key_time(row(start_s).saturating_mul(1000));
    let end = key_time((row(end_s) + ROW_S).saturating_mul(1000) - 1);
    let keys = catalog_key::global_annotations(start, end);
    let found = records.range(keys, usize::MAX).await?;
    let notes = found.iter().map(|record| decode(None, record));
    let mut notes = notes.collect::<Result<Vec<_>, _>>()?;
    notes.retain(|note| note.start_time >= start_s && note.end_time <= end_s);
    Ok(notes)
}

/// Global annotations as a query shows them: those that start before its end. `None` where there
/// is none in its hours, so that the answer does not mention them.
pub(crate) async fn globals_in_window(
    records: &Records,
    start_s: i64,
    end_s: i64,
) -> Result<Option<Vec<Annotation>>, Error> {
    let mut notes = globals(records, start_s, end_s).await?;
    if notes.is_empty() {
        return Ok(None);
    }
    notes.retain(|note| note.start_time <= end_s);
    Ok(Some(notes))
}

fn key(tsuid: Option<&Tsuid>, start_time: i64, widths: [usize; 3]) -> Vec<u8> {
    let time = key_time(to_ms(start_time));
    match tsuid {
        None => catalog_key::global_annotation(time),
        Some(tsuid) => {
            let bytes = tsuid.to_bytes(widths);
            catalog_key::annotation(tsuid.metric.0, time, &bytes)
        }
    }
}

fn key_time(time_ms: i64) -> u64 {
    u64::try_from(time_ms).unwrap_or(0)
}

fn decode(tsuid: Option<Tsuid>, (key, value): &CatalogRecord) -> Result<Annotation, Error> {
    let json = catalog::json_of(value);
    let note = json.and_then(|json| Annotation::decode(tsuid, json));
    let note = note.ok_or_else(|| catalog_key::unreadable("an annotation", key));
    note.map_err(catalog::failed)
}
