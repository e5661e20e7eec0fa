//! What happened since the start, for statistics.

use icecore_model::Counter;

/// One number for each kind of event.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) http_requests: Counter,
    pub(crate) telnet_lines: Counter,
    pub(crate) exceptions: Counter,
    /// Points that were sent, and of them those that were stored.
    pub(crate) points_received: Counter,
    pub(crate) points_added: Counter,
    pub(crate) rollups_received: Counter,
    pub(crate) histograms_received: Counter,
    pub(crate) invalid_values: Counter,
    pub(crate) illegal_arguments: Counter,
    pub(crate) unknown_metrics: Counter,
    pub(crate) storage_errors: Counter,
    pub(crate) queries_succeeded: Counter,
    pub(crate) queries_invalid: Counter,
    pub(crate) queries_failed: Counter,
}
