//! Paths of the user interface, which is not here: what monitoring and old clients ask for.

use http::{HeaderName, StatusCode};

use crate::error::Error;
use crate::json::push_text;
use crate::request::Request;
use crate::response::{HTML, JSON, Response};

/// `/`.
pub(super) fn home() -> Response {
    let body = "<h1>OpenTSDB</h1><p>The API is served at <code>/api</code>.</p>";
    page(StatusCode::OK, "OpenTSDB", body)
}

/// `/s/<file>`: there are no files.
pub(super) fn file() -> Result<Response, Error> {
    Err(Error::not_found("Page not found"))
}

/// `/favicon.ico`.
pub(super) fn favicon() -> Response {
    let mut response = Response::error(&Error::not_found("Page not found"));
    response.content_type = "image/x-icon";
    response
}

/// `/logs`: log lines are not kept in memory, so that none is there to be shown.
pub(super) fn logs(request: &Request) -> Response {
    if request.flag("json") {
        Response::json("[]")
    } else {
        Response::text(String::new())
    }
}

/// `/q` without a format: the page on which the original would draw.
pub(super) fn graph(request: &Request) -> Response {
    let query = request.query.as_str();
    let target = if query.is_empty() {
        "/".to_owned()
    } else {
        format!("/#{query}")
    };
    let escaped = escape(&target);
    let body = format!(
        "<html></head><meta http-equiv=\"refresh\" content=\"0; url={escaped}\"></head></html>"
    );
    let mut response = Response::new(StatusCode::OK, HTML, body.into_bytes());
    response
        .headers
        .push((HeaderName::from_static("location"), target));
    response
}

/// An error of a path that is not of the API.
pub(super) fn error(request: &Request, error: &Error) -> Response {
    if request.flag("json") {
        let mut body = String::from("{\"err\":");
        push_text(&mut body, &error.message);
        body.push('}');
        return Response::new(error.status, JSON, body.into_bytes());
    }
    let title = match error.status {
        StatusCode::NOT_FOUND => "Page Not Found",
        StatusCode::BAD_REQUEST => "Bad Request",
        status => status.canonical_reason().unwrap_or("Error"),
    };
    let body = format!(
        "<h1>{title}</h1><blockquote>{}</blockquote>",
        escape(&error.message)
    );
    page(error.status, title, &body)
}

/// What is said of a path that nobody answers.
pub(super) fn not_found() -> Error {
    Error::not_found("Page Not Found")
}

/// The refusal of a body that came in pieces.
pub(super) fn chunked() -> Response {
    let body = "<h1>Bad Request</h1><blockquote>Chunked request not supported.</blockquote>";
    page(StatusCode::BAD_REQUEST, "Bad Request", body)
}

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let page = format!(
        "<!DOCTYPE html><html><head><meta http-equiv=content-type \
         content=\"text/html;charset=utf-8\"><title>{title}</title></head><body>{body}</body></html>"
    );
    Response::new(status, HTML, page.into_bytes())
}

/// Text within a page: names come from requests.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_no_markup() {
        let error = Error::bad_request("<script>");
        let request = Request::new(
            http::Method::GET,
            "/q?\"><script>",
            http::HeaderMap::new(),
            bytes::Bytes::new(),
        );
        for response in [super::error(&request, &error), graph(&request)] {
            let body = String::from_utf8(response.body).unwrap();
            assert!(!body.contains("<script>"), "{body}");
        }
    }
}
