//! What happens when a name or series is new.
//!
//! ```text
//! points appended ─► series_written ─► UIDMeta of its names, TSMeta, leaves of trees
//! uid/assign ─────► names_written ──► UIDMeta
//! ```

use icecore_model::CatalogChange;

use super::series_meta::SeriesMeta;
use super::uid_meta::UidMeta;
use crate::config::Config;
use crate::error::Error;
use crate::tree::{NamedMeta, NewLeaves, TreeSeries, grow};
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
    let mut changes = Vec::new();
    let mut new_leaves = NewLeaves::new();
    for tsuid in series {
        let names = tsuid.tags.iter();
        let names = names.flat_map(|(k, v)| [(UidKind::Tagk, *k), (UidKind::Tagv, *v)]);
        for (kind, uid) in std::iter::once((UidKind::Metric, tsuid.metric)).chain(names) {
            describe_name(tsd, kind, uid, &mut changes).await?;
        }
        if tsd.config.realtime_ts {
            describe_series(tsd, tsuid, &mut new_leaves, &mut changes).await?;
        }
    }
    records.write(changes).await
}

/// To be called after identifiers were assigned.
pub(crate) async fn names_written(tsd: &Tsd, names: &[(UidKind, Uid)]) -> Result<(), Error> {
    if names.is_empty() || !tsd.config.realtime_uid {
        return Ok(());
    }
    let records = tsd.records.lock().await;
    let mut changes = Vec::new();
    for (kind, uid) in names {
        describe_name(tsd, *kind, *uid, &mut changes).await?;
    }
    records.write(changes).await
}

/// Meta data for a name that this process has not seen before and that has none.
async fn describe_name(
    tsd: &Tsd,
    kind: UidKind,
    uid: Uid,
    changes: &mut Vec<CatalogChange>,
) -> Result<(), Error> {
    let is_new = tsd.config.realtime_uid && tsd.described_names.lock().insert((kind, uid));
    if is_new && UidMeta::get(&tsd.records, kind, uid).await?.is_none() {
        let meta = UidMeta {
            created: now_s(tsd),
            ..UidMeta::default()
        };
        changes.push(meta.stored(kind, uid));
    }
    Ok(())
}

/// Meta data for a series that has none, and its leaves.
async fn describe_series(
    tsd: &Tsd,
    tsuid: &Tsuid,
    new_leaves: &mut NewLeaves,
    changes: &mut Vec<CatalogChange>,
) -> Result<(), Error> {
    let widths = tsd.config.uid_widths;
    let meta = SeriesMeta::get(&tsd.records, tsuid, widths).await?;
    if meta.is_some() {
        return Ok(());
    }
    changes.push(SeriesMeta::new(tsuid.clone(), now_s(tsd)).stored(widths));
    let trees = tsd.trees.all().into_iter();
    let trees = trees.filter(|tree| tree.enabled && tsd.config.tree_processing);
    let trees: Vec<_> = trees.collect();
    if trees.is_empty() {
        return Ok(());
    }
    if let Ok(series) = tree_series(tsd, tsuid).await? {
        for tree in trees {
            grow(
                &tsd.trees,
                &tsd.records,
                &tree,
                &series,
                new_leaves,
                changes,
            )
            .await?;
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
