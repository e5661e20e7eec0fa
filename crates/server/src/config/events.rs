//! Settings of events.

use std::time::Duration;

use icecore_events::{EventOptions, MaskingKey, Unconfigured};
use icecore_settings::choice;

/// What events are opened with, and how they come in beside their own routes. Defaults and their
/// reasons are those of [`EventOptions`].
#[derive(Clone)]
pub struct EventSettings {
    /// A directory of documents; empty for none.
    pub registry: String,
    /// How often that directory is read again.
    pub registry_interval: Duration,
    /// Where the databases of other instances lie.
    pub shards: Vec<String>,
    /// How old what is read of them may be.
    pub shard_age_max: Duration,
    /// Shards that cannot be read are left out.
    pub partial_answers: bool,
    pub otlp_logs: OtlpLogs,
    /// In the clear; empty for none.
    pub masking_key: String,
    pub unconfigured: Unconfigured,
    pub keep_payload: bool,
    pub max_future_skew: Duration,
    pub memory_limit: usize,
    pub max_dimension_sets: usize,
    pub max_keys: usize,
    pub seal_interval: Duration,
    pub seal_bytes: usize,
    pub seal_events: usize,
    pub merge_up_to_events: usize,
    pub merge_files: usize,
    pub file_grace: Duration,
    pub orphan_age: Duration,
    pub retention_interval: Duration,
    pub max_catalog_values: usize,
    pub max_quarantine: usize,
    pub max_quarantine_bytes: usize,
    pub quarantine_ttl: Duration,
    pub max_accepted_types: usize,
}

/// What becomes of records of OpenTelemetry's logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtlpLogs {
    /// There is no place for them: nobody should believe that lines of logs are kept here.
    #[default]
    Off,
    /// Those with an event name are events; the others are refused.
    Events,
}

choice!(OtlpLogs { "off" => Off, "events" => Events });

pub(super) struct UnconfiguredWords;

choice!(UnconfiguredWords for Unconfigured {
    "quarantine" => Quarantine,
    "reject" => Reject,
    "accept" => Accept,
});

impl Default for EventSettings {
    fn default() -> Self {
        let options = EventOptions::default();
        Self {
            registry: String::new(),
            // A directory is commonly filled by a tool that syncs every minute or so.
            registry_interval: Duration::from_secs(60),
            shards: Vec::new(),
            // With a flush after 5.6 s and its commit, events of others are seen within 8 s.
            shard_age_max: Duration::from_secs(1),
            partial_answers: false,
            otlp_logs: OtlpLogs::default(),
            masking_key: String::new(),
            unconfigured: options.unconfigured,
            keep_payload: options.keep_payload,
            max_future_skew: options.max_future_skew,
            memory_limit: options.memory_limit,
            max_dimension_sets: options.max_dimension_sets,
            max_keys: options.max_keys,
            seal_interval: options.seal_interval,
            seal_bytes: options.seal_bytes,
            seal_events: options.seal_events,
            merge_up_to_events: usize::try_from(options.merge_up_to_events).unwrap_or(usize::MAX),
            merge_files: options.merge_files,
            file_grace: options.file_grace,
            orphan_age: options.orphan_age,
            retention_interval: options.retention_interval,
            max_catalog_values: options.max_catalog_values,
            max_quarantine: options.max_quarantine,
            max_quarantine_bytes: options.max_quarantine_bytes,
            quarantine_ttl: options.quarantine_ttl,
            max_accepted_types: options.max_accepted_types,
        }
    }
}

impl EventSettings {
    /// What the engine of events is opened with.
    pub(crate) fn options(&self) -> EventOptions {
        let key = self.masking_key.as_bytes();
        EventOptions {
            unconfigured: self.unconfigured,
            keep_payload: self.keep_payload,
            max_future_skew: self.max_future_skew,
            memory_limit: self.memory_limit,
            max_dimension_sets: self.max_dimension_sets,
            max_keys: self.max_keys,
            seal_interval: self.seal_interval,
            seal_bytes: self.seal_bytes,
            seal_events: self.seal_events,
            merge_up_to_events: self.merge_up_to_events as u64,
            merge_files: self.merge_files,
            file_grace: self.file_grace,
            orphan_age: self.orphan_age,
            retention_interval: self.retention_interval,
            max_catalog_values: self.max_catalog_values,
            max_quarantine: self.max_quarantine,
            max_quarantine_bytes: self.max_quarantine_bytes,
            quarantine_ttl: self.quarantine_ttl,
            max_accepted_types: self.max_accepted_types,
            masking_key: (!key.is_empty()).then(|| MaskingKey::new(key)),
        }
    }
}
