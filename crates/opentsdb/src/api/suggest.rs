//! `/api/suggest` and `/suggest`: names that begin so.

use http::Method;

use super::body::required_json;
use super::fields::Fields;
use crate::error::Error;
use crate::json::push_text;
use crate::json_object::push_array;
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;
use crate::uid::UidKind;

/// Names without a `max`, or with one below 1.
const MAX_DEFAULT: usize = 25;

/// What all names begin with that an empty prefix stands for: the original looks between these.
const FIRST: char = '!';
const LAST: char = '~';

pub(super) async fn handle(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let fields = match request.method {
        Method::GET => Fields::Parameters(request),
        Method::POST => Fields::of_json(required_json(request)?)?,
        _ => return Err(Error::method_not_allowed(&request.method)),
    };
    let kind = match fields {
        Fields::Parameters(request) => request.required("type")?.to_owned(),
        Fields::Body(_) => {
            let kind = fields.filled("type", "type")?;
            kind.ok_or_else(|| Error::bad_request("Missing 'type' parameter"))?
        }
    };
    let prefix = fields.text("q", "q")?.unwrap_or_default();
    let max = fields.filled("max", "max")?.map(|max| max.parse::<i32>());
    let max = max
        .transpose()
        .map_err(|_| Error::bad_request("Unable to parse 'max' as a number"))?;
    let max = max
        .and_then(|max| usize::try_from(max).ok())
        .filter(|max| *max > 0);
    let mut kinds = UidKind::ALL.into_iter();
    let Some(kind) = kinds.find(|known| known.table_name() == kind) else {
        return Err(Error::bad_request(format!(
            "Invalid 'type' parameter:{kind}"
        )));
    };
    let space = tsd.uids.read(kind);
    let is_within =
        |name: &str| !prefix.is_empty() || name.starts_with(|first| (FIRST..LAST).contains(&first));
    let names = space.names_from(&prefix).filter(|name| is_within(name));
    let mut out = String::new();
    let names = names.take(max.unwrap_or(MAX_DEFAULT));
    push_array(&mut out, names, |out, name| push_text(out, name));
    Ok(Response::json(out))
}
