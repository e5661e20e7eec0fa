//! `/api/query/exp`.

use http::Method;

use super::answer::{push_output, push_query};
use super::document::{ExpQuery, Output};
use super::evaluation::Evaluation;
use crate::error::Error;
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;

pub(crate) async fn exp(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    if ![Method::GET, Method::POST, Method::DELETE].contains(&request.method) {
        return Err(Error::method_not_allowed(&request.method));
    }
    if !request.has_content() {
        return Err(Error::bad_request("Incoming data was null or empty"));
    }
    let query = ExpQuery::parse(&request.json()?)?;
    let mut evaluation = Evaluation::new(tsd, &query, &request.allowance).await?;
    let mut out = String::from("{\"outputs\":[");
    let mut is_first = true;
    for output in outputs(&query) {
        request.allowance.check()?;
        let Some(table) = evaluation.table(&output.id)? else {
            continue;
        };
        out.push_str(if is_first { "" } else { "," });
        is_first = false;
        push_output(&mut out, &output.id, output.alias.as_deref(), &table);
    }
    out.push_str("],\"query\":");
    push_query(&mut out, &query);
    out.push('}');
    Ok(Response::json(out).with_warning(evaluation.warning()))
}

/// The outputs that are asked for; else all expressions, or all metrics where there are none.
fn outputs(query: &ExpQuery) -> Vec<Output> {
    if let Some(outputs) = query.outputs.as_ref().filter(|o| !o.is_empty()) {
        return outputs.clone();
    }
    let output = |id: &String| Output {
        id: id.clone(),
        alias: None,
    };
    let expressions = query.expressions();
    if expressions.is_empty() {
        query.metrics().iter().map(|m| output(&m.id)).collect()
    } else {
        expressions.iter().map(|e| output(&e.id)).collect()
    }
}
