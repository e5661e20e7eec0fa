//! Annotations in the catalog.

use std::collections::BTreeMap;

use icecore_model::{CatalogChange, CatalogRecord};

use super::{Annotation, to_ms};
use crate::allowance::Allowance;
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

/// The change that stores an annotation.
pub(crate) fn stored(note: &Annotation, widths: [usize; 3]) -> CatalogChange {
    let key = key(note.tsuid.as_ref(), note.start_time, widths);
    catalog::stored(key, &note.encode())
}

/// The change that removes one.
pub(crate) fn removed(tsuid: Option<&Tsuid>, start_time: i64, widths: [usize; 3]) -> CatalogChange {
    catalog::removed(key(tsuid, start_time, widths))
}

/// The changes that remove those of a series, or global ones, that start from `start_ms` to
/// `end_ms`, both included.
pub(crate) async fn removed_range(
    records: &Records,
    allowance: &Allowance,
    tsuid: Option<&Tsuid>,
    (start_ms, end_ms): (i64, i64),
    widths: [usize; 3],
) -> Result<Vec<CatalogChange>, Error> {
    let (start, end) = (key_time(start_ms), key_time(end_ms));
    let keys = match tsuid {
        None => catalog_key::global_annotations(start, end),
        Some(tsuid) => catalog_key::annotations(tsuid.metric.0, start, end),
    };
    let tsuid = tsuid.map(|tsuid| tsuid.to_bytes(widths));
    let found = records.keys(keys, allowance).await?;
    let of_series = |key: &Vec<u8>| {
        let tsuid = tsuid.as_deref();
        tsuid.is_none() || catalog_key::parse_annotation(key) == tsuid
    };
    let found = found.into_iter().filter(of_series);
    Ok(found.map(catalog::removed).collect())
}

/// The annotations of the series of a metric that start from `start_ms` to `end_ms`, both
/// included; those of a series in the order of their start as given.
pub(crate) async fn in_window(
    records: &Records,
    allowance: &Allowance,
    metric: Uid,
    (start_ms, end_ms): (i64, i64),
    widths: [usize; 3],
) -> Result<BTreeMap<Tsuid, Vec<Annotation>>, Error> {
    let keys = catalog_key::annotations(metric.0, key_time(start_ms), key_time(end_ms));
    let found = records.all(keys, allowance).await?;
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
    allowance: &Allowance,
    start_s: i64,
    end_s: i64,
) -> Result<Vec<Annotation>, Error> {
    let row = |time_s: i64| time_s.div_euclid(ROW_S) * ROW_S;
    let start = key_time(row(start_s).saturating_mul(1000));
    let end = key_time((row(end_s) + ROW_S).saturating_mul(1000) - 1);
    let keys = catalog_key::global_annotations(start, end);
    let found = records.all(keys, allowance).await?;
    let notes = found.iter().map(|record| decode(None, record));
    let mut notes = notes.collect::<Result<Vec<_>, _>>()?;
    notes.retain(|note| note.start_time >= start_s && note.end_time <= end_s);
    Ok(notes)
}

/// Global annotations as a query shows them: those that start before its end. `None` where there
/// is none in its hours, so that the answer does not mention them.
pub(crate) async fn globals_in_window(
    records: &Records,
    allowance: &Allowance,
    start_s: i64,
    end_s: i64,
) -> Result<Option<Vec<Annotation>>, Error> {
    let mut notes = globals(records, allowance, start_s, end_s).await?;
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

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::testing::MemoryStore;

    const WIDTHS: [usize; 3] = [3; 3];

    fn records() -> Records {
        let stores = MemoryStore::stores();
        Records::new(stores.points, stores.catalog)
    }

    fn write(records: &Records, changes: Vec<CatalogChange>) {
        block_on(async { records.lock().await.write(changes).await }).unwrap();
    }

    fn store(records: &Records, tsuid: Option<&Tsuid>, start: i64, end: i64) {
        let note = Annotation {
            end_time: end,
            ..Annotation::new(tsuid.cloned(), start)
        };
        write(records, vec![stored(&note, WIDTHS)]);
    }

    fn starts(notes: &[Annotation]) -> Vec<i64> {
        notes.iter().map(|note| note.start_time).collect()
    }

    #[test]
    fn a_window_has_the_annotations_of_a_metric_that_start_in_it() {
        let records = records();
        let series = |metric, value| Tsuid::new(Uid(metric), vec![(Uid(1), Uid(value))]);
        let (a, b) = (series(1, 1), series(1, 2));
        for start in [
            1_570_000_210,
            1_570_000_250,
            1_570_000_205_500,
            1_570_000_500,
        ] {
            store(&records, Some(&a), start, 0);
        }
        store(&records, Some(&b), 1_570_000_300, 0);
        store(&records, Some(&series(2, 1)), 1_570_000_220, 0);
        let allowance = Allowance::default();
        let found = |from_s: i64, to_s: i64| {
            let window = (from_s * 1000, to_s * 1000);
            let found = in_window(&records, &allowance, Uid(1), window, WIDTHS);
            let found = block_on(found).unwrap();
            let of = |tsuid| {
                found
                    .get(tsuid)
                    .map(|notes| starts(notes))
                    .unwrap_or_default()
            };
            (of(&a), of(&b))
        };
        // Those in milliseconds come last, as numbers do.
        let of_a = vec![1_570_000_210, 1_570_000_250, 1_570_000_205_500];
        assert_eq!(
            found(1_570_000_190, 1_570_000_300),
            (of_a, vec![1_570_000_300])
        );
        assert_eq!(found(1_570_000_301, 1_570_000_499), (vec![], vec![]));
        let window = (1_570_000_205_500, 1_570_000_210_000);
        let deleted = removed_range(&records, &allowance, Some(&a), window, WIDTHS);
        let deleted = block_on(deleted).unwrap();
        assert_eq!(deleted.len(), 2);
        write(&records, deleted);
        assert_eq!(
            found(1_570_000_190, 1_570_000_299),
            (vec![1_570_000_250], vec![])
        );
    }

    #[test]
    fn global_annotations_are_those_of_the_hour_that_do_not_end_later() {
        let records = records();
        store(&records, None, 1_570_000_220, 0);
        store(&records, None, 1_570_000_230, 1_570_000_700);
        store(&records, None, 1_570_000_600, 0);
        let allowance = Allowance::default();
        let shown = |from, to| {
            let notes = globals_in_window(&records, &allowance, from, to);
            let notes = block_on(notes).unwrap();
            notes.map(|notes| starts(&notes))
        };
        assert_eq!(
            shown(1_570_000_190, 1_570_000_300),
            Some(vec![1_570_000_220])
        );
        let all = vec![1_570_000_220, 1_570_000_230, 1_570_000_600];
        assert_eq!(shown(1_570_000_190, 1_570_000_800), Some(all));
        assert_eq!(shown(1_570_000_400, 1_570_000_550), Some(vec![]));
        assert_eq!(shown(1_570_030_200, 1_570_039_200), None);
        let listed = globals(&records, &allowance, 1_570_000_400, 1_570_000_550);
        let listed = block_on(listed).unwrap();
        assert_eq!(starts(&listed), [1_570_000_600]);
    }
}
