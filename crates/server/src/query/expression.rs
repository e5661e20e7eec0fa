//! `/api/v1/format_query` and `/api/v1/parse_query`: queries as text, without evaluating them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use icecore_promql::parse;
use icecore_wire::prometheus::api_json::write_string;

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::success;
use crate::middleware::params::Params;

/// The query, well laid out.
pub(crate) async fn format(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    app.database()?;
    let slot = app.limits.read_slot().await?;
    let expression = parse::parse(query_of(&params))?;
    success(slot, Vec::new(), move |out| {
        write_string(out, &parse::pretty(&expression));
    })
    .await
}

/// The query as a syntax tree.
pub(crate) async fn parse(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    app.database()?;
    let slot = app.limits.read_slot().await?;
    let expression = parse::parse(query_of(&params))?;
    success(slot, Vec::new(), move |out| {
        out.extend_from_slice(parse::ast_json(&expression).as_bytes());
    })
    .await
}

pub(crate) fn query_of(params: &Params) -> &str {
    params.first("query").unwrap_or_default()
}
