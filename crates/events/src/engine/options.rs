//! The settings of events, with what holds unless something else is said.

use std::time::Duration;

use crate::MaskingKey;

/// What becomes of an event whose service or type is not in the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unconfigured {
    /// It is listed for people to look at, and may be published again from there.
    #[default]
    Quarantine,
    Reject,
    /// Its type is registered without any attributes, and it is stored.
    Accept,
}

#[derive(Clone, Debug)]
pub struct EventOptions {
    pub unconfigured: Unconfigured,
    /// Quarantine and dead letters keep payloads. Off, because no masking rule is known for them.
    pub keep_payload: bool,
    /// How far ahead of this server's clock an event may begin or end.
    pub max_future_skew: Duration,
    /// Bytes of events in memory that are on their way into the store, cells or files. Beyond it
    /// requests are refused.
    pub memory_limit: usize,
    /// Sets of dimension values of a metric that get cells of their own on one day; what comes
    /// beyond them is counted together.
    pub max_dimension_sets: usize,
    /// Cells of 5 s that a generation has when it is flushed before its time.
    pub max_keys: usize,
    /// The longest time that an event waits for its file.
    pub seal_interval: Duration,
    /// Bytes of unsealed events that are sealed before their time.
    pub seal_bytes: usize,
    /// The same for their number.
    pub seal_events: usize,
    /// Events of a merged file, at most. There is a limit of its bytes, too.
    pub merge_up_to_events: u64,
    /// Small files of a group that are merged, at least.
    pub merge_files: usize,
    /// How long files that no record names any more can still be read, by those who began before.
    pub file_grace: Duration,
    /// Files that no record has named for this long are what a crash has left behind.
    pub orphan_age: Duration,
    /// Interval between checks of what is too old to be kept.
    pub retention_interval: Duration,
    /// Values of an attribute of a service that are catalogued: enough to choose from.
    pub max_catalog_values: usize,
    /// Entries of the quarantine, and of the dead letters; the newest stay.
    pub max_quarantine: usize,
    /// Bytes of their entries, payloads included, each; the newest stay.
    pub max_quarantine_bytes: usize,
    /// The time for which their entries stay.
    pub quarantine_ttl: Duration,
    /// Types that [`Unconfigured::Accept`] may register.
    pub max_accepted_types: usize,
    pub masking_key: Option<MaskingKey>,
}

impl EventOptions {
    pub(super) fn max_future_ns(&self) -> i64 {
        i64::try_from(self.max_future_skew.as_nanos()).unwrap_or(i64::MAX)
    }
}

impl Default for EventOptions {
    fn default() -> Self {
        Self {
            unconfigured: Unconfigured::default(),
            keep_payload: false,
            // Clocks of clients are rarely off by more.
            max_future_skew: Duration::from_secs(600),
            // Four times what is sealed at once: files are written while events go on coming.
            memory_limit: 256 << 20,
            max_dimension_sets: 100_000,
            // One batch of the store with the cells of five windows stays below 10 MB.
            max_keys: 16_384,
            seal_interval: Duration::from_secs(60),
            seal_bytes: 64 << 20,
            seal_events: 200_000,
            // Beyond what 128 MiB of Parquet have of usual events, which take 30 to 100 bytes.
            merge_up_to_events: 4_000_000,
            // An hour of seals makes 60 files; merging ten at a time rewrites an event about twice.
            merge_files: 10,
            file_grace: Duration::from_secs(600),
            orphan_age: Duration::from_secs(3_600),
            retention_interval: Duration::from_secs(600),
            max_catalog_values: 1_000,
            max_quarantine: 10_000,
            max_quarantine_bytes: 64 << 20,
            quarantine_ttl: Duration::from_secs(30 * 86_400),
            max_accepted_types: 10_000,
            masking_key: None,
        }
    }
}
