//! `/api/query`: GET, POST and DELETE.

use http::{Method, StatusCode};

use super::annotations::global_annotations;
use super::answer::AnswerWriter;
use super::get::{parse_m, parse_tsuid};
use super::post;
use super::request::QueryRequest;
use super::run::{RunOptions, run};
use crate::allowance::Allowance;
use crate::error::Error;
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;

pub(crate) async fn query(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let method = &request.method;
    if ![Method::GET, Method::POST, Method::DELETE].contains(method) {
        return Err(Error::method_not_allowed(method));
    }
    let verb = request.verb()?;
    let allow_delete = tsd.config.allow_delete;
    if *method == Method::DELETE && !allow_delete {
        return Err(deletion_not_enabled());
    }
    let mut asked = if *method == Method::POST {
        parse_post(request)?
    } else {
        parse_get(request)?
    };
    if asked.delete && !allow_delete {
        return Err(deletion_not_enabled());
    }
    asked.delete |= verb == Method::DELETE && allow_delete;
    if asked.delete && !request.may_delete {
        let message = "Deleting data needs the role of an administrator";
        return Err(Error::new(StatusCode::FORBIDDEN, message));
    }
    let arrays = request.flag("arrays");
    let (answer, warning) = answer(tsd, &asked, arrays, &request.allowance).await?;
    Ok(Response::json(answer).with_warning(warning))
}

fn deletion_not_enabled() -> Error {
    Error::bad_request("Bad request")
        .with_details("Deleting data is not enabled (tsd.http.query.allow_delete=false)")
}

fn parse_post(request: &Request) -> Result<QueryRequest, Error> {
    if !request.has_content() {
        return Err(Error::bad_request("Missing message content")
            .with_details("Supply valid JSON formatted data in the body of your request"));
    }
    post::parse(&request.json()?)
}

pub(super) fn parse_get(request: &Request) -> Result<QueryRequest, Error> {
    let mut query = parse_times_and_flags(request)?;
    let by_tsuid = request.all("tsuid").map(parse_tsuid);
    let by_metric = request.all("m").map(parse_m);
    for sub_query in by_tsuid.chain(by_metric) {
        query.push(sub_query?).map_err(Error::bad_request)?;
    }
    if query.sub_queries.is_empty() {
        return Err(Error::bad_request("Missing sub queries"));
    }
    Ok(query)
}

/// A query string without what it asks for.
pub(crate) fn parse_times_and_flags(request: &Request) -> Result<QueryRequest, Error> {
    Ok(QueryRequest {
        start: request.required("start")?.to_owned(),
        end: request.param("end").unwrap_or_default().to_owned(),
        no_annotations: request.flag("no_annotations"),
        global_annotations: request.flag("global_annotations"),
        ms_resolution: request.flag("ms"),
        show_tsuids: request.flag("show_tsuids"),
        show_summary: request.flag("show_summary"),
        show_stats: request.flag("show_stats"),
        show_query: request.flag("show_query"),
        ..QueryRequest::default()
    })
}

/// An answer, and what there is to say about it.
type Answer = (String, Option<String>);

async fn answer(
    tsd: &Tsd,
    asked: &QueryRequest,
    arrays: bool,
    allowance: &Allowance,
) -> Result<Answer, Error> {
    let started_ms = tsd.clock.elapsed_ms();
    let planned = asked.plan(&tsd.config, tsd.clock.now_ms())?;
    let options = RunOptions {
        annotations: !asked.no_annotations,
        delete: asked.delete,
        ..RunOptions::new(tsd, allowance)
    };
    let globals = if asked.global_annotations && !asked.no_annotations {
        global_annotations(tsd, allowance, planned.window).await?
    } else {
        None
    };
    let mut writer = AnswerWriter::new(tsd, asked, planned.window, arrays, globals);
    for (index, sub_query) in planned.sub_queries.iter().enumerate() {
        let results = run(tsd, sub_query, planned.window, options).await?;
        for series in &results {
            writer.push(series, sub_query, index)?;
        }
    }
    Ok(writer.finish(tsd.clock.elapsed_ms() - started_ms))
}
