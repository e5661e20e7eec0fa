//! `/api/query/gexp`.

use http::Method;

use super::call::Evaluator;
use super::parser::Call;
use crate::error::Error;
use crate::exp::Cells;
use crate::query::{AnswerWriter, RunOptions, global_annotations, parse_times_and_flags};
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;

/// Expressions of a request.
const EXPRESSIONS_MAX: usize = 64;

pub(crate) async fn gexp(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    if ![Method::GET, Method::POST, Method::DELETE].contains(&request.method) {
        return Err(Error::method_not_allowed(&request.method));
    }
    if request.method != Method::GET {
        let message = "Expressions are taken from the query string of a GET";
        return Err(Error::bad_request(message).with_details(message));
    }
    let started_ms = tsd.clock.elapsed_ms();
    let asked = parse_times_and_flags(request)?;
    let calls = request.all("exp").map(Call::parse);
    let calls = calls.collect::<Result<Vec<Call>, Error>>()?;
    if calls.is_empty() {
        return Err(Error::bad_request("Missing sub queries"));
    }
    if calls.len() > EXPRESSIONS_MAX {
        let message = format!("There must not be more than {EXPRESSIONS_MAX} expressions");
        return Err(Error::bad_request(message));
    }
    let mut evaluator = Evaluator {
        tsd,
        asked: &asked,
        options: RunOptions {
            annotations: !asked.no_annotations,
            ..RunOptions::new(tsd, &request.allowance)
        },
        now_ms: tsd.clock.now_ms(),
        first: None,
        cells: Cells::default(),
    };
    let mut writer: Option<AnswerWriter<'_>> = None;
    for (index, call) in calls.iter().enumerate() {
        evaluator.first = None;
        let results = evaluator.call(call, 0).await?;
        let Some((planned, window)) = evaluator.first.take() else {
            let message = "An expression needs a query";
            return Err(Error::bad_request(message));
        };
        if writer.is_none() {
            let globals = if asked.global_annotations && !asked.no_annotations {
                global_annotations(tsd, &request.allowance, window).await?
            } else {
                None
            };
            let arrays = request.flag("arrays");
            writer = Some(AnswerWriter::new(tsd, &asked, window, arrays, globals));
        }
        if let Some(writer) = &mut writer {
            for series in &results {
                writer.push(series, &planned, index)?;
            }
        }
    }
    let elapsed_ms = tsd.clock.elapsed_ms() - started_ms;
    let answer = writer.map(|writer| writer.finish(elapsed_ms));
    let (answer, warning) = answer.unwrap_or_else(|| ("[]".into(), None));
    Ok(Response::json(answer).with_warning(warning))
}
