//! `POST /events/sql`.

use std::sync::Arc;

use axum::response::Response;

use super::call::Call;
use crate::app::App;
use crate::middleware::error::ApiError;

/// Answers in the format that the request asks for. Queries run on threads of their own.
#[cfg(feature = "sql")]
pub(super) async fn query(app: Arc<App>, call: Call) -> Result<Response, ApiError> {
    use axum::http::header;
    use axum::response::IntoResponse as _;
    use icecore_event_sql::SqlRequest;

    let request = SqlRequest::parse(&call.body)?;
    let _slot = app.queries.slot(app.queries.longest()).await?;
    let view = app.all_events()?.view().await?;
    let answer = app.sql()?.query(view, request).await?;
    let content_type = [(header::CONTENT_TYPE, answer.content_type)];
    Ok((content_type, answer.body).into_response())
}

#[cfg(not(feature = "sql"))]
pub(super) async fn query(_app: Arc<App>, _call: Call) -> Result<Response, ApiError> {
    let detail =
        "this program was built without SQL; `cargo build --release --features sql` has it";
    Err(icecore_events::Problem::new(501, "sql.not-built", detail).into())
}
