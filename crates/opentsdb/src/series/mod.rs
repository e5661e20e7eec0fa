//! Series by metric and tags, under the names that their UIDs have now.
//!
//! ```text
//! filter ─► matchers (former names, too) ─► index ─► labels under current names ─► filter
//! ```
//!
//! Samples that were written before and after a renaming lie in two stored series; here they are
//! one.

mod filter;
mod read;

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_model::{CatalogChange, Labels, METRIC_NAME};

pub(crate) use filter::{SeriesFilter, check_names, parse_filter, stored_as};
pub(crate) use read::{LastPoint, SeriesPoints, count_points, find, last_points};

use crate::error::Error;
use crate::name::RESERVED_PREFIX;
use crate::tsd::Tsd;
use crate::uid::{Tsuid, Uid, UidKind, Uids};

/// A metric with its tags.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeriesName {
    pub(crate) metric: String,
    pub(crate) tags: BTreeMap<String, String>,
}

impl SeriesName {
    /// What stored labels are called now; `None` for what is no series of points.
    pub(crate) fn of(labels: &Labels, uids: &Uids) -> Option<Self> {
        let current = |kind: UidKind, stored: &str| {
            let space = uids.read(kind);
            let current = space.current_name(stored).map(Arc::clone);
            current.map_or_else(|| stored.to_owned(), |name| name.to_string())
        };
        let metric = current(UidKind::Metric, labels.metric_name());
        let mut tags = BTreeMap::new();
        for (key, value) in labels.iter().filter(|(key, _)| *key != METRIC_NAME) {
            if key.starts_with(RESERVED_PREFIX) {
                return None;
            }
            tags.insert(current(UidKind::Tagk, key), current(UidKind::Tagv, value));
        }
        Some(Self { metric, tags })
    }

    /// The name of a TSUID; the error says which id has none.
    pub(crate) fn of_tsuid(tsuid: &Tsuid, uids: &Uids) -> Result<Self, (UidKind, Uid)> {
        let name = |kind: UidKind, uid: Uid| {
            let name = uids.read(kind).name(uid).map(ToString::to_string);
            name.ok_or((kind, uid))
        };
        let mut tags = BTreeMap::new();
        for (key, value) in &tsuid.tags {
            tags.insert(name(UidKind::Tagk, *key)?, name(UidKind::Tagv, *value)?);
        }
        let metric = name(UidKind::Metric, tsuid.metric)?;
        Ok(Self { metric, tags })
    }

    /// About the memory that it takes where it is kept.
    fn heap_bytes(&self) -> usize {
        let tag = |(key, value): (&String, &String)| {
            key.len() + value.len() + 2 * std::mem::size_of::<String>()
        };
        let tags: usize = self.tags.iter().map(tag).sum();
        std::mem::size_of::<Self>() + self.metric.len() + tags
    }

    /// Returns the TSUID if all names have ids that no crash can take from them: what a request
    /// that reads may show.
    pub(crate) fn durable_tsuid(&self, uids: &Uids) -> Option<Tsuid> {
        let tsuid = self.tsuid(uids)?;
        uids.are_durable(&tsuid).then_some(tsuid)
    }

    /// Returns the TSUID if nothing has to be stored with what uses it.
    fn settled_tsuid(&self, uids: &Uids) -> Option<Tsuid> {
        let tsuid = self.tsuid(uids)?;
        let mut unsettled = Vec::new();
        uids.push_unsettled_of(&tsuid, &mut unsettled);
        unsettled.is_empty().then_some(tsuid)
    }

    fn tsuid(&self, uids: &Uids) -> Option<Tsuid> {
        let metric = uids.read(UidKind::Metric).id(&self.metric)?;
        let (keys, values) = (uids.read(UidKind::Tagk), uids.read(UidKind::Tagv));
        let tags = self
            .tags
            .iter()
            .map(|(key, value)| Some((keys.id(key)?, values.id(value)?)));
        Some(Tsuid::new(metric, tags.collect::<Option<_>>()?))
    }

    fn assigned_tsuid(
        &self,
        uids: &Uids,
        changes: &mut Vec<CatalogChange>,
    ) -> Result<Tsuid, Error> {
        let metric = uids.get_or_adopt(UidKind::Metric, &self.metric, changes)?;
        let mut tags = Vec::with_capacity(self.tags.len());
        for (key, value) in &self.tags {
            let key = uids.get_or_adopt(UidKind::Tagk, key, changes)?;
            tags.push((key, uids.get_or_adopt(UidKind::Tagv, value, changes)?));
        }
        Ok(Tsuid::new(metric, tags))
    }

    /// The filter that this series passes, and those with further tags.
    pub(crate) fn filter(&self) -> SeriesFilter {
        let tags = self.tags.iter();
        SeriesFilter {
            metric: Some(self.metric.clone()),
            tags: tags
                .map(|(key, value)| (Some(key.clone()), Some(value.clone())))
                .collect(),
        }
    }
}

/// The TSUIDs of series. Names that have no id, because Prometheus clients wrote them, get one:
/// this writes, so that no request that reads may come here.
pub(crate) async fn assigned_tsuids<'a>(
    tsd: &Tsd,
    series: impl IntoIterator<Item = &'a SeriesName> + Clone,
) -> Result<Vec<Tsuid>, Error> {
    let known = series
        .clone()
        .into_iter()
        .map(|series| series.settled_tsuid(&tsd.uids));
    if let Some(tsuids) = known.collect() {
        return Ok(tsuids);
    }
    let records = tsd.records.lock().await;
    let mut changes = Vec::new();
    let tsuids = series
        .into_iter()
        .map(|series| series.assigned_tsuid(&tsd.uids, &mut changes));
    let tsuids = tsuids.collect::<Result<_, _>>()?;
    records.write(changes.clone()).await?;
    tsd.uids.committed(&changes);
    let outdated = tsd.uids.outdated_adoptions(&changes);
    if !outdated.is_empty() {
        tsd.records.lock().await.write(outdated).await?;
    }
    Ok(tsuids)
}
