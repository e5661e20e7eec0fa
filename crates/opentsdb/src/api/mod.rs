//! The HTTP API: which endpoint answers which path.

mod admin;
mod annotation;
mod body;
mod cors;
mod fields;
mod last;
mod pages;
mod purpose;
mod search;
mod series_meta;
mod suggest;
mod tree;
mod tree_rule;
mod uid;
mod uid_meta;

pub use purpose::{Purpose, purpose};

use cors::Cors;
use http::{Method, StatusCode};
use icecore_model::BoxFuture;

use crate::config::Mode;
use crate::error::Error;
use crate::exp;
use crate::gexp;
use crate::json::push_text;
use crate::put;
use crate::query;
use crate::query_log::{LoggedQuery, QUERY_BYTES_MAX};
use crate::refusals::RefusalReason;
use crate::tsd::Tsd;

pub use crate::request::Request;
pub use crate::response::Response;

/// Bodies that the original takes in one piece; longer ones, and those that are sent in chunks, it
/// takes only where chunks are enabled. It counts what is sent, before anything is decompressed.
const WHOLE_BODY_BYTES: usize = 8 << 10;

/// Answers one request.
pub fn handle<'a>(tsd: &'a Tsd, request: &'a Request) -> BoxFuture<'a, Response> {
    // Boxed, so that the code of all commands is generated in this crate.
    Box::pin(respond(tsd, request))
}

async fn respond(tsd: &Tsd, request: &Request) -> Response {
    tsd.counters.http_requests.add(1);
    if let Err(error) = request.check_switches(&tsd.config) {
        return Response::error(&error);
    }
    let sent = request.sent_bytes;
    if sent > WHOLE_BODY_BYTES || request.is_chunked() {
        let max = tsd.config.max_chunk;
        if !tsd.config.enable_chunked {
            let cause = "Chunked request not supported.";
            tsd.refuse(RefusalReason::ChunkedBody, cause, &in_words(request));
            return pages::chunked();
        }
        if sent > max {
            let message = format!("The body has {sent} bytes, tsd.http.request.max_chunk is {max}");
            tsd.refuse(RefusalReason::ChunkTooLong, &message, &in_words(request));
            return error(&Error::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
    }
    let mut response = match Cors::of(&tsd.config, request) {
        Err(error) => Response::error(&error),
        Ok(Cors::Allowed(headers)) if request.method == Method::OPTIONS => {
            let mut response = Response::new(StatusCode::OK, "", Vec::new());
            response.headers = headers;
            response.headers.extend(Cors::vary(&tsd.config));
            return response;
        }
        Ok(cors) => {
            let mut response = answer(tsd, request).await;
            if let Cors::Allowed(headers) = cors {
                response.headers.extend(headers);
            }
            response
        }
    };
    response.headers.extend(Cors::vary(&tsd.config));
    if request.method == Method::HEAD {
        response.body = Vec::new();
    }
    response.wrapped(request)
}

async fn answer(tsd: &Tsd, request: &Request) -> Response {
    let answer = match check_serializer(request).and_then(|()| request.callback()) {
        Ok(_) => route(tsd, request).await,
        Err(error) => Err(error),
    };
    answer.unwrap_or_else(|error| {
        let is_page = request.is_page() && !request.path.starts_with("/s/");
        if is_page {
            pages::error(request, &error)
        } else {
            Response::error(&error)
        }
    })
}

/// There is one serializer.
fn check_serializer(request: &Request) -> Result<(), Error> {
    match request.param("serializer") {
        None | Some("" | "json") => Ok(()),
        Some(name) => {
            let details = format!("Could not find a serializer with the name: {name}");
            Err(Error::bad_request("Requested serializer was not found").with_details(details))
        }
    }
}

/// Whether endpoints exist in a mode.
fn is_served(mode: Mode, parts: &[&str]) -> bool {
    match (mode, parts) {
        (Mode::ReadWrite, _) => true,
        (Mode::ReadOnly, [first, ..]) => !matches!(
            *first,
            "put" | "rollup" | "histogram" | "annotation" | "annotations" | "uid" | "tree"
        ),
        (Mode::WriteOnly, ["", page, ..]) => {
            matches!(*page, "aggregators" | "logs" | "stats" | "version")
        }
        (Mode::WriteOnly, [first, ..]) => !matches!(*first, "query" | "search" | "suggest"),
        _ => true,
    }
}

/// The answer to a request that was refused before it came here.
pub fn error(error: &Error) -> Response {
    Response::error(error)
}

async fn route(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let endpoint = endpoint(&request.path)?;
    let parts: Vec<&str> = endpoint.split('/').collect();
    if !is_served(tsd.config.mode, &parts) {
        if let Some("put" | "rollup" | "histogram") = parts.first().copied() {
            let cause = "points are not taken in tsd.mode=ro";
            tsd.refuse(RefusalReason::ReadOnly, cause, &in_words(request));
        }
        return Err(unknown(&parts));
    }
    if parts.first() != Some(&"query") {
        return dispatch(tsd, request, &parts).await;
    }
    let may_repeat = tsd.config.allow_simultaneous_duplicates || parts.len() > 1;
    let running = tsd
        .query_log
        .start(logged(tsd, request), may_repeat, || tsd.clock.elapsed_ms());
    let Some(mut running) = running else {
        let remote = &request.remote;
        let message = format!("Query is already executing for endpoint: {remote}");
        return Err(Error::bad_request(message));
    };
    let answer = dispatch(tsd, request, &parts).await;
    let status = answer.as_ref().map_or_else(|e| e.status, |r| r.status);
    let counters = &tsd.counters;
    if status.is_success() {
        counters.queries_succeeded.add(1);
    } else if status.is_client_error() {
        counters.queries_invalid.add(1);
    } else {
        counters.queries_failed.add(1);
    }
    running.status = status.as_u16();
    answer
}

/// What is remembered of a query: the document, or the query string.
fn logged(tsd: &Tsd, request: &Request) -> LoggedQuery {
    let is_short = request.body.len() <= QUERY_BYTES_MAX;
    let query = if is_short && request.json().is_ok() {
        String::from_utf8_lossy(&request.body).into_owned()
    } else {
        let mut text = String::new();
        push_text(&mut text, &request.query);
        text
    };
    LoggedQuery {
        query,
        remote: request.remote.clone(),
        start_ms: tsd.clock.now_ms(),
        start_elapsed_ms: tsd.clock.elapsed_ms(),
        end_elapsed_ms: None,
        status: 0,
    }
}

async fn dispatch(tsd: &Tsd, request: &Request, parts: &[&str]) -> Result<Response, Error> {
    match parts {
        ["aggregators", ..] | ["", "aggregators"] => admin::aggregators(request),
        ["config", "filters", ..] => admin::filters(request),
        ["config", ..] => admin::config(tsd, request),
        ["dropcaches", ..] => admin::drop_caches(tsd, request).await,
        ["stats", rest @ ..] => admin::statistics(tsd, request, rest),
        ["version", ..] => admin::version(request),
        ["", ""] => Ok(pages::home()),
        ["", "favicon.ico"] => Ok(pages::favicon()),
        ["", "logs"] => Ok(pages::logs(request)),
        ["", "q"] if !query::names_format(request) => Ok(pages::graph(request)),
        ["", "q"] => query::graph(tsd, request).await,
        ["", "s", ..] => pages::file(),
        ["", "stats"] => admin::statistics_page(tsd, request),
        ["", "version"] => admin::version_page(request),
        ["put", ..] => written(tsd, request, put::endpoint::put(tsd, request).await),
        ["rollup", ..] => written(tsd, request, put::rollup::endpoint(tsd, request).await),
        ["histogram", ..] => written(tsd, request, put::histogram::endpoint(tsd, request).await),
        ["annotation", "bulk", ..] => annotation::bulk(tsd, request).await,
        ["annotation", ..] => annotation::one(tsd, request).await,
        ["annotations", ..] => annotation::many(tsd, request).await,
        ["query", "exp", ..] => exp::exp(tsd, request).await,
        ["query", "gexp", ..] => gexp::gexp(tsd, request).await,
        ["query", "last", ..] => last::handle(tsd, request).await,
        ["search", rest @ ..] => search::route(tsd, request, rest).await,
        ["suggest", ..] | ["", "suggest", ..] => suggest::handle(tsd, request).await,
        ["tree", rest @ ..] => tree::route(tsd, request, rest).await,
        ["uid", rest @ ..] => uid::route(tsd, request, rest).await,
        ["query", ..] => query::query(tsd, request).await,
        _ => Err(unknown(parts)),
    }
}

/// Passes on the answer to a request that writes, and counts it if all of it is refused.
fn written(
    tsd: &Tsd,
    request: &Request,
    answer: Result<Response, Error>,
) -> Result<Response, Error> {
    if let Err(error) = &answer
        && let Some(reason) = error.refusal
    {
        let Error {
            message, details, ..
        } = error;
        let separator = if details.is_empty() { "" } else { ": " };
        let cause = format!("{message}{separator}{details}");
        tsd.refuse(reason, &cause, &in_words(request));
    }
    answer
}

/// Returns a request in words, for the log.
fn in_words(request: &Request) -> String {
    let Request {
        method,
        path,
        remote,
        sent_bytes,
        ..
    } = request;
    format!("{method} {path} with {sent_bytes} bytes from {remote}")
}

/// What is said of a path that nobody answers.
fn unknown(parts: &[&str]) -> Error {
    if parts.first() == Some(&"") && parts.len() > 1 {
        pages::not_found()
    } else {
        Error::not_found("Endpoint not found")
    }
}

/// The path behind `/api/` and its version, in lower case. Other paths begin with an empty part.
fn endpoint(path: &str) -> Result<String, Error> {
    let path = path.strip_prefix('/').unwrap_or(path).to_ascii_lowercase();
    let (first, rest) = path.split_once('/').unwrap_or((&path, ""));
    if first != "api" {
        // Behind two slashes nothing counts.
        let page = if first.is_empty() { "" } else { &path };
        return Ok(format!("/{page}"));
    }
    let (first, behind) = rest.split_once('/').unwrap_or((rest, ""));
    let version = first.strip_prefix('v').and_then(|v| v.parse::<u32>().ok());
    match version {
        None => Ok(rest.to_owned()),
        Some(0 | 1) => Ok(behind.to_owned()),
        Some(version) => {
            let message = "Requested API version is greater than the max implemented";
            let details = format!("API version [{version}] is greater than the max [1]");
            Err(Error::new(StatusCode::NOT_IMPLEMENTED, message).with_details(details))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::executor::block_on;
    use http::{HeaderMap, HeaderValue, header};
    use icecore_model::ManualClock;

    use super::*;
    use crate::config::Config;
    use crate::testing::MemoryStore;

    fn tsd(config: Config) -> Tsd {
        let clock = Arc::new(ManualClock::at(0));
        block_on(Tsd::open(config, MemoryStore::stores(), clock)).unwrap()
    }

    #[test]
    fn caches_are_told_that_answers_depend_on_the_origin() {
        let origins = Config {
            cors_domains: vec!["http://a.example".into()],
            ..Config::default()
        };
        for (config, expected) in [(origins, 1), (Config::default(), 0)] {
            let tsd = tsd(config);
            for (method, origin) in [
                (Method::GET, "http://a.example"),
                (Method::OPTIONS, "http://a.example"),
                (Method::GET, "http://b.example"),
                (Method::GET, ""),
            ] {
                let mut headers = HeaderMap::new();
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
                let request = Request::new(method, "/api/version", headers, "".into());
                let response = block_on(handle(&tsd, &request));
                let vary = (header::VARY, "origin".to_owned());
                let found = response.headers.iter().filter(|h| **h == vary).count();
                assert_eq!(found, expected, "{request:?}");
            }
        }
    }

    #[test]
    fn callbacks_are_names_of_functions() {
        let tsd = tsd(Config {
            jsonp: true,
            ..Config::default()
        });
        let get = |callback: &str| {
            let target = format!("/api/aggregators?jsonp={callback}");
            let request = Request::new(Method::GET, &target, HeaderMap::new(), "".into());
            let Response { status, body, .. } = block_on(handle(&tsd, &request));
            (status, String::from_utf8(body).unwrap())
        };
        let longest = "f".repeat(128);
        for callback in ["cb", "a.b_$1", longest.as_str()] {
            let (status, body) = get(callback);
            assert_eq!(status, StatusCode::OK);
            assert!(body.starts_with(&format!("{callback}([")), "{body}");
        }
        assert!(get("").1.starts_with('['));
        // Pages of the user interface know no callbacks.
        for page in ["/aggregators", "/suggest?type=metrics", "/version?json"] {
            let separator = if page.contains('?') { '&' } else { '?' };
            for callback in ["cb", "alert(1)"] {
                let target = format!("{page}{separator}jsonp={callback}");
                let request = Request::new(Method::GET, &target, HeaderMap::new(), "".into());
                let Response { status, body, .. } = block_on(handle(&tsd, &request));
                assert_eq!(status, StatusCode::OK, "{target}");
                assert!(body.starts_with(b"[") || body.starts_with(b"{"), "{target}");
            }
        }
        let too_long = "f".repeat(129);
        for callback in ["alert(1);f", "%3Cscript%3E", "f%0A", "%C3%A4", &too_long] {
            let (status, body) = get(callback);
            assert_eq!(status, StatusCode::BAD_REQUEST, "{callback}");
            assert!(body.starts_with(r#"{"error":{"code":400,"#), "{body}");
        }
    }

    #[test]
    fn overrides_of_gets_and_callbacks_are_off_unless_set() {
        let off = tsd(Config::default());
        let on = tsd(Config {
            get_overrides: true,
            jsonp: true,
            ..Config::default()
        });
        let ask = |tsd: &Tsd, method: Method, target: &str| {
            let request = Request::new(method, target, HeaderMap::new(), "".into());
            let Response { status, body, .. } = block_on(handle(tsd, &request));
            (status.as_u16(), String::from_utf8(body).unwrap())
        };
        let delete = "/api/annotation/bulk?start_time=1&global&method_override=Delete";
        for (method, target, setting) in [
            (Method::GET, delete, "opentsdb.get_overrides"),
            (Method::GET, "/api/version?jsonp=f", "opentsdb.jsonp"),
            (Method::POST, "/api/version?jsonp=f", "opentsdb.jsonp"),
            (Method::GET, "/api/foo?jsonp=f", "opentsdb.jsonp"),
        ] {
            let (status, body) = ask(&off, method.clone(), target);
            assert!([403, 405].contains(&status), "{target}: {status} {body}");
            assert!(body.contains(setting), "{target}: {body}");
            assert!(body.starts_with(r#"{"error":{"code":40"#), "{body}");
            let (status, body) = ask(&on, method, target);
            assert!([200, 404].contains(&status), "{target}: {status} {body}");
        }
        // None names another verb, or a function that counts.
        for target in [
            "/api/version?method_override=get",
            "/api/version?jsonp=",
            "/version?json&jsonp=f",
            "/api/aggregators",
        ] {
            assert_eq!(ask(&off, Method::GET, target).0, 200, "{target}");
        }
        let unknown = "/api/tree?treeid=1&method_override=walk";
        assert!(
            ask(&off, Method::GET, unknown)
                .1
                .contains("Unknown or unsupported")
        );
        // HEAD is as safe as GET.
        assert_eq!(ask(&off, Method::HEAD, delete).0, 405);
        // A form on a page can send a POST, whose origin browsers name.
        assert_eq!(ask(&off, Method::POST, delete).0, 200);
    }

    #[test]
    fn paths_have_a_version_and_no_case() {
        let of = |path| endpoint(path).unwrap();
        assert_eq!(of("/api/query/Last"), "query/last");
        assert_eq!(of("/API/v1/put"), "put");
        assert_eq!(of("/api"), "");
        assert_eq!(of("/version"), "/version");
        assert_eq!(of("/"), "/");
        // Behind two slashes nothing counts.
        assert_eq!(of("//api/query"), "/");
        let error = endpoint("/api/v2/query").unwrap_err();
        assert_eq!(error.status, StatusCode::NOT_IMPLEMENTED);
        assert_eq!(error.details, "API version [2] is greater than the max [1]");
    }

    #[test]
    fn modes_have_no_endpoints_for_the_rest() {
        let served = |mode, path: &str| {
            let endpoint = endpoint(path).unwrap();
            let parts: Vec<&str> = endpoint.split('/').collect();
            is_served(mode, &parts)
        };
        for (path, reads, writes) in [
            ("/api/put", false, true),
            ("/api/uid/assign", false, true),
            ("/api/query", true, false),
            ("/api/suggest", true, false),
            ("/q", true, false),
            ("/", true, false),
            ("/s/logo.png", true, false),
            ("/favicon.ico", true, false),
            ("/suggest", true, false),
            ("/aggregators", true, true),
            ("/logs", true, true),
            ("/stats", true, true),
            ("/version", true, true),
            ("/api/version", true, true),
        ] {
            assert!(served(Mode::ReadWrite, path));
            assert_eq!(served(Mode::ReadOnly, path), reads, "{path}");
            assert_eq!(served(Mode::WriteOnly, path), writes, "{path}");
        }
    }
}
