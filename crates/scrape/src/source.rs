//! Where the pages of a job come from.

use std::sync::Arc;

use super::http_client::HttpClient;

/// Where pages come from.
pub(super) enum Source {
    Http(HttpClient),
    /// This process: no network, and no credentials for its own door.
    Own(OwnPage),
}

/// Writes the page of this process; `None` when it is about to end.
pub(super) type OwnPage = Arc<dyn Fn() -> Option<Vec<u8>> + Send + Sync>;
