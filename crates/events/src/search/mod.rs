//! Search: the events of a service, newest first, filtered before they are counted and paged.
//!
//! ```text
//! body ─► request ─► tail and files, newest first, until the page is full ─► answer
//! text ─► the same request
//! ```
//!
//! Holds always:
//! - What is read is one state of all events, each of them once.
//! - What is held depends on the size of a page, not on the number of events that are read.
//! - Events that are too old to be kept are not shown, even where they still are.

mod answer;
mod catalogue;
mod clauses;
mod collect;
mod cursor;
mod fields;
mod links;
mod objql;
mod one_event;
mod period;
mod request;
mod source;
#[cfg(test)]
mod tests;
mod time_zone;
mod view_rows;

use std::sync::Arc;
use std::time::Duration;

use crate::Problem;

pub use catalogue::{CataloguePage, attribute_names, attribute_values, event_types};
pub use objql::query_objql;
pub use one_event::find_event;
pub use source::{EventRows, RowFile, SeenValue, TailPart};

use answer::Answer;
use request::SearchRequest;

/// Where searches are sent: links say so.
const HREF: &str = "/api/search/events";

/// The longest that a search may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Answers the body of `POST /api/search/events`.
pub async fn search_events(rows: Arc<dyn EventRows>, body: &[u8]) -> Result<String, Problem> {
    let request = SearchRequest::parse(&*rows, body)?;
    let found = find(rows, &request).await?;
    on_thread(move || Answer::new(&request, &found).write()).await
}

async fn find(
    rows: Arc<dyn EventRows>,
    request: &SearchRequest,
) -> Result<collect::Found, Problem> {
    let found = tokio::time::timeout(TIME_LIMIT, collect::collect(rows, request)).await;
    found.unwrap_or_else(|_| {
        let detail = format!("the search took longer than {} s", TIME_LIMIT.as_secs());
        let hint = "a shorter period, a match on an indexed attribute, or no total";
        Err(Problem::new(422, "query.limit", detail).with_hint(hint))
    })
}

/// Work of the processor runs on threads for that, and not on those of requests.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::new(500, "query.failed", error.to_string()))
}
