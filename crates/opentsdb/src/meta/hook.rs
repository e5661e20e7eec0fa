//! What happens when a name or series is new.
//!
//! ```text
//! points appended ─► series_written ─► UIDMeta of its names, TSMeta, leaves of trees
//! uid/assign ─────► names_written ──► UIDMeta
//! ```

use std::collections::HashSet;

use icecore_model::CatalogChange;

use super::series_meta::SeriesMeta;
use super::uid_meta::UidMeta;
use crate::catalog::RecordsEdit;
use crate::config::Config;
use crate::error::Error;
use crate::tree::{Growth, NamedMeta, TreeSeries, grow};
use crate::tsd::Tsd;
use crate::uid::{Tsuid, Uid, UidKind};

/// Whether [`series_written`] does anything: otherwise nobody has to find out what is new.
pub(crate) fn wants_series(config: &Config) -> bool {
    config.realtime_uid || config.realtime_ts
}

/// To be called after points of these series were appended, once for a series in the life of this
/// process: known series cost nothing. What is missing when the process ends is made up for when
/// the series is written again.
pub(crate) async fn series_written(tsd: &Tsd, series: &[Tsuid]) -> Result<(), Error> {
    if series.is_empty() || !wants_series(&tsd.config) {
        return Ok(());
    }
    let records = tsd.records.lock().await;
    let mut described = Described::default();
    for tsuid in series {
        let names = tsuid.tags.iter();
        let names = names.flat_map(|(k, v)| [(UidKind::Tagk, *k), (UidKind::Tagv, *v)]);
        for (kind, uid) in std::iter::once((UidKind::Metric, tsuid.metric)).chain(names) {
            describe_name(tsd, kind, uid, &mut described).await?;
        }
        if tsd.config.realtime_ts {
            describe_series(tsd, tsuid, &mut described).await?;
        }
    }
    described.write(tsd, records).await
}

/// To be called after identifiers were assigned.
pub(crate) async fn names_written(tsd: &Tsd, names: &[(UidKind, Uid)]) -> Result<(), Error> {
    if names.is_empty() || !tsd.config.realtime_uid {
        return Ok(());
    }
    let records = tsd.records.lock().await;
    let mut described = Described::default();
    for (kind, uid) in names {
        describe_name(tsd, *kind, *uid, &mut described).await?;
    }
    described.write(tsd, records).await
}

/// What is made for new names and series.
#[derive(Default)]
struct Described {
    changes: Vec<CatalogChange>,
    /// Names that have meta data once the changes are stored.
    names: HashSet<(UidKind, Uid)>,
    growth: Growth,
}

impl Described {
    /// Stores everything, and remembers that only if it is so.
    async fn write(self, tsd: &Tsd, records: RecordsEdit<'_>) -> Result<(), Error> {
        let Self {
            changes,
            names,
            growth,
        } = self;
        let remember = || {
            tsd.described_names.lock().extend(names);
            tsd.trees.add_stored(growth);
        };
        records.write_and(changes, remember).await
    }
}

/// Meta data for a name that this process has not seen before and that has none.
async fn describe_name(
    tsd: &Tsd,
    kind: UidKind,
    uid: Uid,
    described: &mut Described,
) -> Result<(), Error> {
    if !tsd.config.realtime_uid || tsd.described_names.lock().contains(&(kind, uid)) {
        return Ok(());
    }
    if described.names.insert((kind, uid)) && UidMeta::get(&tsd.records, kind, uid).await?.is_none()
    {
        let meta = UidMeta {
            created: now_s(tsd),
            ..UidMeta::default()
        };
        described.changes.push(meta.stored(kind, uid));
    }
    Ok(())
}

/// Meta data for a series that has none, and its leaves.
async fn describe_series(tsd: &Tsd, tsuid: &Tsuid, described: &mut Described) -> Result<(), Error> {
    let widths = tsd.config.uid_widths;
    let meta = SeriesMeta::get(&tsd.records, tsuid, widths).await?;
    if meta.is_some() {
        return Ok(());
    }
    let meta = SeriesMeta::new(tsuid.clone(), now_s(tsd));
    described.changes.push(meta.stored(widths));
    let trees = tsd.trees.all().into_iter();
    let trees = trees.filter(|tree| tree.enabled && tsd.config.tree_processing);
    let trees: Vec<_> = trees.collect();
    if trees.is_empty() {
        return Ok(());
    }
    if let Ok(series) = tree_series(tsd, tsuid).await? {
        for tree in trees {
            let Described {
                growth, changes, ..
            } = described;
            let stored = (&tsd.trees, &tsd.records);
            grow(stored, &tree, &series, growth, changes).await?;
        }
    }
    Ok(())
}

/// What rules of trees see of a series; the inner error is the id that has no name.
pub(crate) async fn tree_series(
    tsd: &Tsd,
    tsuid: &Tsuid,
) -> Result<Result<TreeSeries, (UidKind, Uid)>, Error> {
    let metric = match named(tsd, UidKind::Metric, tsuid.metric).await? {
        Ok(metric) => metric,
        Err(missing) => return Ok(Err(missing)),
    };
    let mut tags = Vec::with_capacity(tsuid.tags.len());
    for (key, value) in &tsuid.tags {
        let key = named(tsd, UidKind::Tagk, *key).await?;
        let value = named(tsd, UidKind::Tagv, *value).await?;
        match (key, value) {
            (Ok(key), Ok(value)) => tags.push((key, value)),
            (Err(missing), _) | (_, Err(missing)) => return Ok(Err(missing)),
        }
    }
    Ok(Ok(TreeSeries {
        tsuid: tsuid.to_hex(tsd.config.uid_widths),
        metric,
        tags,
    }))
}

async fn named(
    tsd: &Tsd,
    kind: UidKind,
    uid: Uid,
) -> Result<Result<NamedMeta, (UidKind, Uid)>, Error> {
    let name = tsd.uids.read(kind).name(uid).map(ToString::to_string);
    let Some(name) = name else {
        return Ok(Err((kind, uid)));
    };
    let meta = UidMeta::get(&tsd.records, kind, uid).await?;
    let custom = meta.and_then(|meta| meta.custom).unwrap_or_default();
    Ok(Ok(NamedMeta { name, custom }))
}

fn now_s(tsd: &Tsd) -> i64 {
    tsd.clock.now_ms().div_euclid(1000)
}
