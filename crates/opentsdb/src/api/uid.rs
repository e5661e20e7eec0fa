//! `/api/uid`: names get identifiers, and other names.

use std::collections::BTreeMap;

use http::{Method, StatusCode};

use super::body::{required_json, unparsable};
use crate::error::Error;
use crate::json_object::{ObjectWriter, push_map};
use crate::meta;
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;
use crate::uid::UidKind;

/// What follows `/api/uid`.
pub(super) async fn route(tsd: &Tsd, request: &Request, parts: &[&str]) -> Result<Response, Error> {
    match parts {
        ["assign", ..] => assign(tsd, request).await,
        ["rename", ..] => rename(tsd, request).await,
        ["uidmeta", ..] => super::uid_meta::handle(tsd, request).await,
        ["tsmeta", ..] => super::series_meta::handle(tsd, request).await,
        _ => Err(Error::new(
            StatusCode::NOT_IMPLEMENTED,
            "Other UID endpoints have not been implemented yet",
        )),
    }
}

async fn assign(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let source = match request.method {
        Method::GET => assigned_by_parameters(request),
        Method::POST => assigned_by_body(request)?,
        _ => return Err(Error::method_not_allowed(&request.method)),
    };
    if source.is_empty() {
        return Err(Error::bad_request("Missing values to assign UIDs"));
    }
    let mut has_failed = false;
    let mut out = String::new();
    let mut answer = ObjectWriter::new(&mut out);
    for (kind, names) in &source {
        let outcome = meta::assign(tsd, kind, names).await?;
        push_map(answer.member(kind), &outcome.assigned);
        if !outcome.errors.is_empty() {
            has_failed = true;
            push_map(answer.member(&format!("{kind}_errors")), &outcome.errors);
        }
    }
    drop(answer);
    let response = Response::json(out);
    if has_failed {
        return Ok(response.with_status(StatusCode::BAD_REQUEST));
    }
    Ok(response)
}

fn assigned_by_parameters(request: &Request) -> BTreeMap<String, Vec<String>> {
    let mut source = BTreeMap::new();
    for kind in UidKind::ALL {
        let kind = kind.field_name();
        let names = request.param(kind).unwrap_or_default();
        // Java drops empty pieces at the end.
        let names = names.trim_end_matches(',');
        if !names.is_empty() {
            let names = names.split(',').map(String::from).collect();
            source.insert(kind.to_owned(), names);
        }
    }
    source
}

fn assigned_by_body(request: &Request) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let body = required_json(request)?;
    let kinds = body.as_object();
    let kinds = kinds.ok_or_else(|| unparsable("an object of lists is expected"))?;
    let mut source = BTreeMap::new();
    for (kind, names) in kinds {
        let names = names.as_array();
        let names = names.and_then(|names| {
            let names = names.iter().map(|name| name.text().map(String::from));
            names.collect::<Option<Vec<_>>>()
        });
        let names = names.ok_or_else(|| unparsable(format!("{kind} is no list of names")))?;
        source.insert(kind.clone().into_owned(), names);
    }
    Ok(source)
}

async fn rename(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let source = match request.method {
        Method::GET => request.params.iter().cloned().collect(),
        Method::POST => renamed_by_body(request)?,
        _ => {
            let mut error = Error::method_not_allowed(&request.method);
            error.details = error.details.replace("method [", "method[");
            return Err(error);
        }
    };
    // Of several kinds the last one counts.
    let mut kinds = UidKind::ALL.into_iter().rev();
    let old = kinds.find_map(|kind| {
        let old = source.get(kind.field_name()).filter(|old| !old.is_empty());
        old.map(|old| (kind, old))
    });
    let Some(((kind, old), new)) = old.zip(source.get("name")) else {
        return Err(Error::bad_request("Missing necessary values to rename UID"));
    };
    let mut out = String::new();
    let mut answer = ObjectWriter::new(&mut out);
    match meta::rename(tsd, kind, old, new).await? {
        Ok(()) => {
            answer.text("result", "true");
            drop(answer);
            Ok(Response::json(out))
        }
        Err(refused) => {
            answer.text("result", "false").text("error", &refused);
            drop(answer);
            Ok(Response::json(out).with_status(StatusCode::BAD_REQUEST))
        }
    }
}

fn renamed_by_body(request: &Request) -> Result<BTreeMap<String, String>, Error> {
    let body = required_json(request)?;
    let members = body.as_object();
    let members = members.ok_or_else(|| unparsable("an object of names is expected"))?;
    let mut source = BTreeMap::new();
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        let value = value.text();
        let value = value.ok_or_else(|| unparsable(format!("{name} is no text")))?;
        source.insert(name.clone().into_owned(), value.to_owned());
    }
    Ok(source)
}
