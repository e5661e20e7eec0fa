//! `/api/uid/uidmeta`

use http::Method;

use super::fields::Fields;
use crate::catalog::check_texts;
use crate::error::Error;
use crate::meta::{UidMeta, UidMetaEdit};
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;
use crate::uid::{Uid, UidKind, no_such_id};

pub(super) async fn handle(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    match request.verb()? {
        Method::GET => {
            let fields = Fields::Parameters(request);
            let (kind, uid) = parse_uid(tsd, &fields)?;
            let name = name_of(tsd, kind, uid)?;
            let meta = UidMeta::get(&tsd.records, kind, uid).await?;
            Ok(shown(tsd, kind, uid, &name, &meta.unwrap_or_default()))
        }
        Method::POST => edit(tsd, request, false).await,
        Method::PUT => edit(tsd, request, true).await,
        Method::DELETE => delete(tsd, request).await,
        _ => Err(Error::method_not_allowed(&request.method)),
    }
}

async fn edit(tsd: &Tsd, request: &Request, replaces: bool) -> Result<Response, Error> {
    let fields = Fields::of(request)?;
    let (kind, uid) = parse_uid(tsd, &fields)?;
    let edit = UidMetaEdit {
        display_name: fields.filled("displayName", "display_name")?,
        description: fields.filled("description", "description")?,
        notes: fields.filled("notes", "notes")?,
        created: fields
            .number("created", "created")?
            .filter(|created| *created != 0),
        custom: fields.map("custom")?,
    };
    if edit.is_empty() {
        return Ok(Response::unchanged());
    }
    check_texts(edit.texts())?;
    let name = name_of(tsd, kind, uid)?;
    let records = tsd.records.lock().await;
    let meta = UidMeta::get(&tsd.records, kind, uid).await?;
    let mut meta = meta.unwrap_or_default();
    meta.edit(edit, replaces);
    let mut changes = vec![meta.stored(kind, uid)];
    tsd.uids.push_unsettled(kind, uid, &mut changes);
    records.write(changes.clone()).await?;
    tsd.uids.committed(&changes);
    Ok(shown(tsd, kind, uid, &name, &meta))
}

async fn delete(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let fields = Fields::of(request)?;
    let (kind, uid) = parse_uid(tsd, &fields).map_err(|error| {
        if matches!(fields, Fields::Parameters(_)) {
            return error;
        }
        Error::bad_request("Unable to delete UIDMeta information").with_details(error.message)
    })?;
    let records = tsd.records.lock().await;
    records.write(vec![UidMeta::removed(kind, uid)]).await?;
    Ok(Response::done())
}

/// The UID that a request is about.
fn parse_uid(tsd: &Tsd, fields: &Fields<'_>) -> Result<(UidKind, Uid), Error> {
    let (uid, kind) = match fields {
        Fields::Parameters(request) => {
            let uid = request.required("uid")?.to_owned();
            (uid, request.required("type")?.to_owned())
        }
        Fields::Body(_) => {
            let uid = fields.filled("uid", "uid")?;
            let uid = uid.ok_or_else(|| Error::bad_request("Missing UID"))?;
            let kind = fields.filled("type", "type")?;
            (uid, kind.ok_or_else(|| Error::bad_request("Missing type"))?)
        }
    };
    let invalid = || {
        let message = format!("Invalid type requested: {kind}");
        match fields {
            Fields::Parameters(_) => Error::bad_request(message),
            Fields::Body(_) => super::body::unparsable(message),
        }
    };
    let kind = UidKind::parse(&kind).ok_or_else(invalid)?;
    let bytes = hex::decode(&uid);
    let bytes = bytes.map_err(|_| Error::bad_request(not_hexadecimal(&uid)))?;
    let (width, table) = (tsd.config.uid_widths[kind as usize], kind.table_name());
    if bytes.len() != width {
        return Err(Error::bad_request(format!(
            "Wrong id.length = {} which is != {width} required for '{table}'",
            bytes.len()
        )));
    }
    Ok((kind, Uid::from_bytes(&bytes)))
}

/// What is said of text that should be hexadecimal.
pub(super) fn not_hexadecimal(text: &str) -> String {
    format!("contains illegal character for hexBinary: {text}")
}

fn name_of(tsd: &Tsd, kind: UidKind, uid: Uid) -> Result<String, Error> {
    let name = tsd.uids.read(kind).name(uid).map(ToString::to_string);
    name.ok_or_else(|| {
        let details = no_such_id(kind, uid, tsd.config.uid_widths[kind as usize]);
        Error::not_found("Could not find the requested UID").with_details(details)
    })
}

fn shown(tsd: &Tsd, kind: UidKind, uid: Uid, name: &str, meta: &UidMeta) -> Response {
    let mut out = String::new();
    let uid = uid.to_hex(tsd.config.uid_widths[kind as usize]);
    meta.write(&mut out, kind, &uid, name);
    Response::json(out)
}
