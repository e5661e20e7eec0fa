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
    let _guard = tsd.records.lock().await;
    let mut changes = Vec::new();
    for tsuid in series {
        let names = tsuid.tags.iter();
        let names = names.flat_map(|(k, v)| [(UidKind::Tagk, *k), (UidKind::Tagv, *v)]);
        for (kind, uid) in std::iter::once((UidKind::Metric, tsuid.metric)).chain(names) {
            describe_name(tsd, kind, uid, &mut changes).await?;
        }
        if tsd.config.realtime_ts {
            describe_series(tsd, tsuid, &mut changes).await?;
        }
    }
    tsd.records.write(changes).await
}

/// To be called after identifiers were assigned.
pub(crate) async fn names_written(tsd: &Tsd, names: &[(UidKind, Uid)]) -> Result<(), Error> {
    if names.is_empty() || !tsd.config.realtime_uid {
        return Ok(());
    }
    let _guard = tsd.records.lock().await;
    let mut changes = Vec::new();
    for (kind, uid) in names {
        describe_name(tsd, *kind, *uid, &mut changes).await?;
    }
    tsd.records.write(changes).await
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
    changes: &mut Vec<CatalogChange>,
) -> Result<(), Error> {
    let widths = tsd.config.uid_widths;
    if SeriesMeta::get(&tsd.records, tsuid, widths)
        .await?
        .is_none()
    {
        changes.push(SeriesMeta::new(tsuid.clone(), now_s(tsd)).stored(widths));
    }
    Ok(())
}

fn now_s(tsd: &Tsd) -> i64 {
    tsd.clock.now_ms().div_euclid(1000)
}
