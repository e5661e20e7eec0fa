//! A request, as endpoints ask about it.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};

use crate::allowance::Allowance;
use crate::config::Config;
use crate::error::Error;
use crate::json::Json;

/// The longest name of a function that an answer is wrapped for.
const CALLBACK_BYTES_MAX: usize = 128;

/// The parameter that names another verb than the request's own.
pub(crate) const METHOD_OVERRIDE: &str = "method_override";

/// The parameter that names the function of a JSONP answer.
const JSONP: &str = "jsonp";

/// Returns the verb that counts: `named`, the value of `method_override`, or else the request's
/// own.
pub(crate) fn effective_verb(method: &Method, named: Option<&str>) -> Result<Method, Error> {
    let Some(name) = named else {
        return Ok(method.clone());
    };
    let refused = |message: &str| Error::new(StatusCode::METHOD_NOT_ALLOWED, message);
    if name.is_empty() {
        return Err(refused("Missing method override value"));
    }
    match name.to_ascii_lowercase().as_str() {
        "get" => Ok(Method::GET),
        "post" => Ok(Method::POST),
        "put" => Ok(Method::PUT),
        "delete" => Ok(Method::DELETE),
        _ => Err(refused("Unknown or unsupported method override value")),
    }
}

/// A request for one path of the API.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    /// As sent, percent-encoded, without the query string.
    pub path: String,
    /// The query string as sent.
    pub query: String,
    /// Decoded, in their order.
    pub params: Vec<(String, String)>,
    pub headers: HeaderMap,
    /// Decompressed.
    pub body: Bytes,
    /// Bytes of the body as it was sent.
    pub sent_bytes: usize,
    /// Whether its sender may delete what a query finds, if the settings allow it at all.
    pub may_delete: bool,
    /// The address of the client, for `stats/query`.
    pub remote: String,
    /// What may be taken to answer it.
    pub allowance: Allowance,
}

impl Request {
    /// A request for a path with its query string.
    pub fn new(method: Method, target: &str, headers: HeaderMap, body: Bytes) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let sent_bytes = body.len();
        let params = form_urlencoded::parse(query.as_bytes()).into_owned();
        Self {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            params: params.collect(),
            headers,
            body,
            sent_bytes,
            may_delete: true,
            remote: String::new(),
            allowance: Allowance::default(),
        }
    }

    /// Whether the body came in chunks, so that nobody knew its length before.
    pub(crate) fn is_chunked(&self) -> bool {
        let mut encodings = self.headers.get_all(header::TRANSFER_ENCODING).iter();
        let last = encodings.next_back().and_then(|value| value.to_str().ok());
        let last = last.and_then(|codings| codings.rsplit(',').next());
        last.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"))
    }

    /// The last value of a parameter.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        let found = self.params.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.params.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is there; whatever its value is.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.param(name).is_some()
    }

    /// A parameter that must be there and not empty.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Error> {
        let value = self.param(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| Error::bad_request(format!("Missing parameter <code>{name}</code>")))
    }

    /// Returns `true` if the path is one of the user interface, and not of the API.
    pub(crate) fn is_page(&self) -> bool {
        let first = self.path.split('/').nth(1).unwrap_or_default();
        !first.eq_ignore_ascii_case("api")
    }

    /// Returns the value of `jsonp`, if it counts: pages do not know it.
    fn named_callback(&self) -> Option<&str> {
        let name = self.param(JSONP).filter(|name| !name.is_empty());
        name.filter(|_| !self.is_page())
    }

    /// The function that the answer is to be an argument of. Nothing but a name: it is sent back as
    /// code that a browser runs.
    pub(crate) fn callback(&self) -> Result<Option<&str>, Error> {
        let Some(name) = self.named_callback() else {
            return Ok(None);
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_$.".contains(&byte);
        if name.len() <= CALLBACK_BYTES_MAX && name.bytes().all(is_name) {
            return Ok(Some(name));
        }
        let details = format!(
            "A name has letters, digits, '_', '$' and '.', at most {CALLBACK_BYTES_MAX} of them"
        );
        Err(Error::bad_request("'jsonp' is not the name of a function").with_details(details))
    }

    /// The verb, or the one that `method_override` names for clients that can only GET.
    pub(crate) fn verb(&self) -> Result<Method, Error> {
        effective_verb(&self.method, self.param(METHOD_OVERRIDE))
    }

    /// Refuses what a page of any origin can make a browser send or run, unless it is turned on.
    pub(crate) fn check_switches(&self, config: &Config) -> Result<(), Error> {
        let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&self.method);
        let changes = |verb: Method| verb != Method::GET && verb != self.method;
        if !config.get_overrides && is_safe && self.verb().is_ok_and(changes) {
            let details = "opentsdb.get_overrides=true allows method_override in a GET; without \
                           it, a POST may name another method";
            let message = "method_override in a GET is off";
            let error = Error::new(StatusCode::METHOD_NOT_ALLOWED, message);
            return Err(error.with_details(details));
        }
        if !config.jsonp && self.named_callback().is_some() {
            let details = "opentsdb.jsonp=true allows it; tsd.http.request.cors_domains lets pages \
                           of other origins read answers without it";
            let error = Error::new(StatusCode::FORBIDDEN, "JSONP is off");
            return Err(error.with_details(details));
        }
        Ok(())
    }

    /// Whether there is something in the body besides nothing.
    pub(crate) fn has_content(&self) -> bool {
        !self.body.is_empty()
    }

    /// The body as text.
    pub(crate) fn text(&self) -> Result<&str, Error> {
        std::str::from_utf8(&self.body)
            .map_err(|_| Error::bad_request("Unable to parse the given JSON"))
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Result<Json<'_>, Error> {
        Json::parse(self.text()?).map_err(|e| {
            Error::bad_request("Unable to parse the given JSON").with_details(e.reason)
        })
    }
}
