//! What every request needs: settings, stores, UIDs, the clock.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use icecore_model::{
    BoxFuture, Catalog, Clock, ImpliedMatchers, Matcher, SampleStore, SeriesSource, StoreError,
};
use parking_lot::Mutex;

use crate::catalog::Records;
use crate::config::Config;
use crate::counters::Counters;
use crate::label_names::{LabelIndex, LabelNames};
use crate::numbers::{NumberStore, Numbers};
use crate::query_log::QueryLog;
use crate::refusals::{RefusalReason, RefusalTally, Refusals};
use crate::rollup::RollupConfig;
use crate::series_cache::SeriesCache;
use crate::tree::Trees;
use crate::uid::{Uid, UidKind, Uids};

/// Where points, series and records are kept.
#[derive(Clone)]
pub struct Stores {
    pub points: Arc<dyn SampleStore>,
    pub series: Arc<dyn SeriesSource>,
    pub catalog: Arc<dyn Catalog>,
    pub deletion: Arc<dyn PointDeletion>,
    pub labels: Arc<dyn LabelIndex>,
}

/// Deletes points.
pub trait PointDeletion: Send + Sync {
    /// Deletes points from `start_ms` to `end_ms`, both included, of the series that match any of
    /// the selectors. Queries that begin later do not see them.
    fn delete(
        &self,
        selectors: Vec<Vec<Matcher>>,
        start_ms: i64,
        end_ms: i64,
    ) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// A time series daemon, as the original calls itself.
pub struct Tsd {
    pub(crate) config: Arc<Config>,
    pub(crate) stores: Stores,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) uids: Arc<Uids>,
    pub(crate) series_cache: Arc<SeriesCache>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) refusals: Refusals,
    pub(crate) query_log: QueryLog,
    pub(crate) implied: ImpliedMatchers,
    /// What may be written by `/api/rollup`.
    pub(crate) rollups: Option<Arc<RollupConfig>>,
    /// Names that Prometheus clients have written.
    pub(crate) label_names: LabelNames,
    pub(crate) records: Records,
    pub(crate) trees: Trees,
    /// Names whose meta data was looked for: there is some.
    pub(crate) described_names: Mutex<HashSet<(UidKind, Uid)>>,
}

impl Tsd {
    /// Whether queries may delete what they find.
    pub fn allows_deletion(&self) -> bool {
        self.config.allow_delete
    }

    /// Returns `tsd.http.request.cors_domains`: origins whose pages are answered, `*` for all.
    pub fn cors_domains(&self) -> &[String] {
        &self.config.cors_domains
    }

    /// How long a query may take by the settings; `None` where they do not say.
    pub fn query_timeout(&self) -> Option<Duration> {
        let timeout_ms = self.config.query_timeout_ms;
        (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms))
    }

    /// Returns what clients were refused.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Counts a request that was refused before it came here. `example` says which.
    pub fn refuse(&self, reason: RefusalReason, cause: &str, example: &str) {
        let mut tally = RefusalTally::default();
        tally.add(reason, 1, || cause.to_owned(), || example.to_owned());
        self.note_refusals(tally);
    }

    /// Counts and logs the refusals of a request.
    pub(crate) fn note_refusals(&self, tally: RefusalTally) {
        self.refusals.add(tally, self.clock.elapsed_ms());
    }

    /// Whether anything was given a UID.
    pub fn has_uids(&self) -> bool {
        UidKind::ALL
            .iter()
            .any(|kind| self.uids.read(*kind).len() > 0)
    }

    /// Returns the memory of names with UIDs.
    pub fn name_bytes(&self) -> usize {
        self.uids.memory_used()
    }

    /// Returns the limit of [`Self::name_bytes`], beyond which new names are refused:
    /// `opentsdb.uid_bytes_max`.
    pub fn name_bytes_max(&self) -> usize {
        self.uids.limits().uid_bytes_max
    }

    /// Bytes of the UIDs of metrics, tag keys and tag values.
    pub fn uid_widths(&self) -> [usize; 3] {
        self.config.uid_widths
    }

    /// Reads all names. Fails where the configuration of rollups cannot be read, too.
    pub async fn open(
        config: Config,
        stores: Stores,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let rollups = config.rollups().map(RollupConfig::parse).transpose();
        let rollups =
            rollups.map_err(|error| StoreError(format!("tsd.rollups.config: {error}")))?;
        let uids = Uids::new(config.uid_widths, config.random_metric_uids);
        let uids = uids.with_limits(config.name_limits);
        uids.load(stores.catalog.as_ref()).await?;
        let uids = Arc::new(uids);
        let numbers = Numbers::load(stores.catalog.as_ref(), Arc::clone(&uids)).await?;
        let formed = Arc::new(NumberStore {
            points: stores.points,
            series: stores.series,
            numbers: Arc::new(numbers),
        });
        let stores = Stores {
            points: formed.clone(),
            series: formed,
            ..stores
        };
        let trees = Trees::load(stores.catalog.as_ref()).await?;
        let records = Records::new(Arc::clone(&stores.points), Arc::clone(&stores.catalog));
        Ok(Self {
            implied: config.implied_matchers(),
            config: Arc::new(config),
            label_names: LabelNames::default(),
            records,
            trees,
            described_names: Mutex::default(),
            stores,
            clock,
            uids,
            series_cache: Arc::default(),
            counters: Arc::default(),
            refusals: Refusals::default(),
            query_log: QueryLog::default(),
            rollups: rollups.map(Arc::new),
        })
    }
}
