//! `/api/v1/query_exemplars`: exemplars of the series that a query selects.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use icecore_model::Matcher;
use icecore_promql::parse::{self, Expr};
use icecore_storage::ExemplarQuery;
use icecore_wire::prometheus::api_json::write_list;
use icecore_wire::prometheus::query_json::write_exemplar_series;

use crate::app::App;
use crate::events::series as event_series;
use crate::metrics::QueryKind;
use crate::middleware::error::ApiError;
use crate::middleware::json::success;
use crate::middleware::params::Params;
use crate::query::expression::query_of;

pub(crate) async fn exemplars(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let timer = app.queries.metrics.begin(QueryKind::Exemplars);
    let answered = find(&app, &params).await;
    timer.ended(answered.as_ref().err().map(ApiError::type_name));
    answered
}

async fn find(app: &App, params: &Params) -> Result<Response, ApiError> {
    let database = app.database()?;
    let start_ms = params.time("start")?.unwrap_or(i64::MIN);
    let end_ms = params.time("end")?.unwrap_or(i64::MAX);
    if end_ms < start_ms {
        return Err(ApiError::bad_data(
            "end timestamp must not be before start timestamp",
        ));
    }
    let slot = app.limits.read_slot().await?;
    // Prometheus does not name the parameter here.
    let parsed = parse::parse(query_of(params));
    let expression = parsed.map_err(|error| ApiError::bad_data(error.to_string()))?;
    let selectors = selectors_of(&expression);
    // Without selectors the database takes every series, a query none.
    let found = if selectors.is_empty() {
        Vec::new()
    } else {
        let views = event_series::exemplars(app, selectors.clone(), start_ms, end_ms).await?;
        let query = ExemplarQuery {
            selectors,
            start_ms,
            end_ms,
        };
        let mut found = database.exemplars(query).await?;
        if !views.is_empty() {
            found.extend(views);
            found.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        found
    };
    success(slot, Vec::new(), move |out| {
        write_list(out, &found, |out, (labels, exemplars)| {
            write_exemplar_series(out, labels, exemplars);
        });
    })
    .await
}

/// The matchers of every selector of an expression.
fn selectors_of(expression: &Expr) -> Vec<Vec<Matcher>> {
    let mut selectors = Vec::new();
    // Not recursive, so that no depth of nesting matters.
    let mut rest = vec![expression];
    while let Some(expression) = rest.pop() {
        match expression {
            Expr::Number(_) | Expr::String(_) => {}
            Expr::Vector(selector) => selectors.push(selector.matchers.clone()),
            Expr::Matrix(matrix) => selectors.push(matrix.selector.matchers.clone()),
            Expr::Subquery(subquery) => rest.push(&subquery.expr),
            Expr::Aggregate(aggregate) => {
                rest.push(&aggregate.expr);
                rest.extend(aggregate.parameter.as_deref());
            }
            Expr::Binary(binary) => rest.extend([&*binary.lhs, &*binary.rhs]),
            Expr::Call(call) => rest.extend(&call.args),
            Expr::Paren(paren) => rest.push(&paren.expr),
            Expr::Unary(unary) => rest.push(&unary.expr),
        }
    }
    selectors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_found_wherever_they_are() {
        for (query, count) in [
            ("1 + 2", 0),
            ("up", 1),
            ("-(a + b)", 2),
            ("topk(scalar(a), sum by (x) (rate(b[5m])))", 2),
            (
                "max_over_time(sum(a)[1h:5m]) unless label_replace(b, \"x\", \"y\", \"z\", \"\")",
                2,
            ),
        ] {
            let selectors = selectors_of(&parse::parse(query).unwrap());
            assert_eq!(selectors.len(), count, "{query}");
            assert!(selectors.iter().all(|matchers| !matchers.is_empty()));
        }
    }
}
