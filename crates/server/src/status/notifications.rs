//! `/api/v1/notifications` and `/api/v1/notifications/live`: what people who look at this process
//! should know.
//!
//! Holds always: both answer before the database is open, because that is one of the notices.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use icecore_wire::prometheus::api_json::{write_list, write_string};
use tokio::sync::mpsc;

use crate::app::App;
use crate::middleware::json::small_success;
use crate::middleware::rfc3339;
use crate::notifications::Notification;

/// The pause after which a comment is sent. A client that has gone without a word is found out, and
/// its place is free again.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The notices that hold.
pub(crate) async fn list(State(app): State<Arc<App>>) -> Response {
    let listed = app.notifications.list();
    small_success(|out| write_list(out, &listed, write_notification))
}

/// The notices that hold and every change, as server-sent events. 204 if too many clients listen: a
/// browser does not ask again then.
pub(crate) async fn live(State(app): State<Arc<App>>) -> Response {
    let Some(receiver) = app.notifications.subscribe() else {
        return StatusCode::NO_CONTENT.into_response();
    };
    let events = Body::from_stream(stream::unfold(receiver, next_event));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, events).into_response()
}

async fn next_event(
    mut receiver: mpsc::Receiver<Notification>,
) -> Option<(Result<Bytes, Infallible>, mpsc::Receiver<Notification>)> {
    let event = match tokio::time::timeout(KEEP_ALIVE, receiver.recv()).await {
        Ok(notification) => {
            let mut event = b"data: ".to_vec();
            write_notification(&mut event, &notification?);
            event.extend_from_slice(b"\n\n");
            event.into()
        }
        Err(_) => Bytes::from_static(b":\n\n"),
    };
    Some((Ok(event), receiver))
}

fn write_notification(out: &mut Vec<u8>, notification: &Notification) {
    out.extend_from_slice(b"{\"text\":");
    write_string(out, notification.notice.text());
    let rest = format!(
        ",\"date\":\"{}\",\"active\":{}}}",
        rfc3339::format(notification.at_ms),
        notification.is_active
    );
    out.extend_from_slice(rest.as_bytes());
}
