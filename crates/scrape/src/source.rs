//! Where a job's targets are scraped.

use std::sync::Arc;

use super::http_client::HttpClient;

/// Where exposition pages come from.
pub(super) enum Source {
    Http(HttpClient),
    /// This process: without network and credentials.
    Own(SelfMetricsPage),
}

/// Renders the metrics of this process; `None` while it shuts down.
pub(super) type SelfMetricsPage = Arc<dyn Fn() -> Option<Vec<u8>> + Send + Sync>;
