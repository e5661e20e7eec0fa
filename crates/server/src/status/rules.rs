//! `/api/v1/rules`, `/api/v1/alerts` and `/api/v1/alertmanagers`: shapes that dashboards ask for.
//!
//! Holds always: parameters are checked as in Prometheus 3.15. There are no rules and no
//! Alertmanagers, so that every list is empty.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::small_success;
use crate::middleware::params::{Params, go_reason};

/// Groups of rules.
pub(crate) async fn rules(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    app.database()?;
    let _slot = app.limits.read_slot().await?;
    check(&params)?;
    Ok(small_success(|out| {
        out.extend_from_slice(b"{\"groups\":[]}")
    }))
}

/// Alerts that are pending or firing.
pub(crate) async fn alerts(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.database()?;
    Ok(small_success(|out| {
        out.extend_from_slice(b"{\"alerts\":[]}")
    }))
}

/// Alertmanagers that alerts are sent to.
pub(crate) async fn alertmanagers(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.database()?;
    Ok(small_success(|out| {
        out.extend_from_slice(b"{\"activeAlertmanagers\":[],\"droppedAlertmanagers\":[]}");
    }))
}

/// Checks what narrows a list of rules. Names of rules, groups and files may be any text.
fn check(params: &Params) -> Result<(), ApiError> {
    params.list_selectors()?;
    let kind = params.first("type").unwrap_or_default().to_lowercase();
    if !["", "alert", "record"].contains(&kind.as_str()) {
        let problem = format!("not supported value {kind:?}");
        return Err(ApiError::of_parameter("type", problem));
    }
    if let Some(text) = params.first("exclude_alerts") {
        let text = text.to_lowercase();
        if !["1", "t", "true", "0", "f", "false"].contains(&text.as_str()) {
            let problem = format!(
                "error converting exclude_alerts: strconv.ParseBool: parsing {text:?}: invalid syntax"
            );
            return Err(ApiError::of_parameter("exclude_alerts", problem));
        }
    }
    check_page(params)
}

fn check_page(params: &Params) -> Result<(), ApiError> {
    let (limit, token) = (
        params.first("group_limit"),
        params.first("group_next_token"),
    );
    let Some(limit) = limit else {
        return match token {
            None => Ok(()),
            Some(_) => Err(ApiError::of_parameter(
                "group_next_token",
                "group_limit needs to be present in order to paginate over the groups",
            )),
        };
    };
    let count = limit.parse::<i32>().map_err(|error| {
        let reason = go_reason(&error);
        let problem = format!(
            "group_limit needs to be a valid number: strconv.ParseInt: parsing {limit:?}: {reason}"
        );
        ApiError::of_parameter("group_limit", problem)
    })?;
    if count <= 0 {
        let problem = "group_limit needs to be greater than 0";
        return Err(ApiError::of_parameter("group_limit", problem));
    }
    match token {
        None => Ok(()),
        // A token is made of a group, and there is none.
        Some(token) => Err(ApiError::of_parameter(
            "group_next_token",
            format!("invalid group_next_token '{token}'. were rule groups changed?"),
        )),
    }
}
