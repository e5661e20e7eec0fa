//! What there is to ask for: types of events, attributes and their values.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use icecore_events::Problem;
use icecore_events::search::{CataloguePage, attribute_names, attribute_values, event_types};

use super::call::{Call, Content, answered, json_bytes};
use super::search::{ask, two_variables, variable};
use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::params::Params;

pub(crate) async fn event_types_of(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, |app, call| async move {
        let registry = app.all_events()?.registry().await?;
        let answer = event_types(&registry, call.params.first("service"));
        Ok(json_bytes(StatusCode::OK, answer.into_bytes()))
    })
    .await
}

pub(crate) async fn names(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, |app, mut call| async move {
        let service = variable(&mut call).await?;
        let page = page_of(&call.params)?;
        ask(&app, |view| async move {
            attribute_names(&*view, &service, &page)
        })
        .await
    })
    .await
}

pub(crate) async fn values(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, list_values).await
}

async fn list_values(app: Arc<App>, mut call: Call) -> Result<Response, ApiError> {
    let (service, attribute) = two_variables(&mut call).await?;
    let page = page_of(&call.params)?;
    ask(&app, |view| async move {
        attribute_values(&*view, &service, &attribute, &page).await
    })
    .await
}

fn page_of(params: &Params) -> Result<CataloguePage, Problem> {
    let number = |name: &str| {
        let parsed = params.first(name).map(str::parse::<usize>).transpose();
        parsed.map_err(|_| {
            let detail = format!("{name} must be a whole number");
            Problem::new(400, "query.invalid-field", detail)
        })
    };
    Ok(CataloguePage {
        prefix: params.first("prefix").map(str::to_owned),
        offset: number("offset")?,
        limit: number("limit")?,
    })
}
