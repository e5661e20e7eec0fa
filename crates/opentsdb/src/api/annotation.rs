//! `/api/annotation`, `/api/annotations` and `/api/annotation/bulk`

use std::collections::BTreeMap;

use http::Method;
use icecore_model::CatalogChange;
use jiff::tz::TimeZone;

use super::body::{required_json, unparsable};
use super::fields::Fields;
use super::series_meta::parse_tsuid;
use crate::annotation::{self, Annotation, AnnotationEdit};
use crate::catalog;
use crate::error::Error;
use crate::json_object::{ObjectWriter, push_array};
use crate::request::Request;
use crate::response::Response;
use crate::time::{find_zone, parse_time};
use crate::tsd::Tsd;
use crate::uid::Tsuid;

/// The error of an annotation without a start.
const NO_START: &str = "The start timestamp has not been set";

/// `/api/annotation`
pub(super) async fn one(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    match request.verb()? {
        Method::GET => get(tsd, request).await,
        Method::POST => edit(tsd, request, false).await,
        Method::PUT => edit(tsd, request, true).await,
        Method::DELETE => delete(tsd, request).await,
        _ => Err(Error::method_not_allowed(&request.method)),
    }
}

async fn get(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let fields = Fields::Parameters(request);
    let (tsuid, start_time) = parse_key(tsd, &fields)?;
    let widths = tsd.config.uid_widths;
    let note = annotation::get(&tsd.records, tsuid.as_ref(), start_time, widths).await?;
    match note {
        Some(note) => Ok(shown(tsd, &note)),
        None => Err(Error::not_found("Unable to locate annotation in storage")),
    }
}

async fn edit(tsd: &Tsd, request: &Request, replaces: bool) -> Result<Response, Error> {
    let fields = Fields::of(request)?;
    let records = tsd.records.lock().await;
    let mut edited = Edited::new();
    let Some(key) = edit_one(tsd, &fields, replaces, &mut edited).await? else {
        return Ok(Response::unchanged());
    };
    records.write(changes(tsd, &edited)).await?;
    Ok(shown(tsd, &edited[&key]))
}

async fn delete(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let fields = Fields::of(request)?;
    let (tsuid, start_time) = parse_key(tsd, &fields)?;
    if start_time < 1 {
        let error = Error::bad_request("Unable to delete Annotation information");
        return Err(error.with_details(NO_START));
    }
    let widths = tsd.config.uid_widths;
    let removed = annotation::removed(tsuid.as_ref(), start_time, widths);
    let records = tsd.records.lock().await;
    records.write(vec![removed]).await?;
    Ok(Response::done())
}

/// Annotations that a request changes, by their series and time.
type Edited = BTreeMap<EditKey, Annotation>;
type EditKey = (Option<Tsuid>, i64);

/// What has to be stored for annotations.
fn changes(tsd: &Tsd, edited: &Edited) -> Vec<CatalogChange> {
    let widths = tsd.config.uid_widths;
    let notes = edited.values();
    let mut changes: Vec<_> = notes.map(|note| annotation::stored(note, widths)).collect();
    let tsuids = edited.values().filter_map(|note| note.tsuid.as_ref());
    tsuids.for_each(|tsuid| tsd.uids.push_unsettled_of(tsuid, &mut changes));
    changes
}

/// Creates or changes an annotation; `None` if there is nothing to change.
async fn edit_one(
    tsd: &Tsd,
    fields: &Fields<'_>,
    replaces: bool,
    edited: &mut Edited,
) -> Result<Option<EditKey>, Error> {
    let (tsuid, start_time) = parse_key(tsd, fields)?;
    if start_time < 1 {
        return Err(Error::bad_request(NO_START).with_details(NO_START));
    }
    let end_time = match fields {
        Fields::Body(_) => fields.number("endTime", "end_time")?,
        Fields::Parameters(request) => {
            let end = request.param("end_time").filter(|end| !end.is_empty());
            end.map(|end| seconds(tsd, end)).transpose()?
        }
    };
    let edit = AnnotationEdit {
        end_time: end_time.filter(|end| *end != 0),
        description: fields.filled("description", "description")?,
        notes: fields.filled("notes", "notes")?,
        custom: fields.map("custom")?,
    };
    if edit.is_empty() {
        return Ok(None);
    }
    catalog::check_texts(edit.texts())?;
    let key = (tsuid.clone(), annotation::to_ms(start_time));
    let before = match edited.remove(&key) {
        Some(note) => Some(note),
        None => {
            let widths = tsd.config.uid_widths;
            annotation::get(&tsd.records, tsuid.as_ref(), start_time, widths).await?
        }
    };
    let mut note = before.unwrap_or_else(|| Annotation::new(tsuid, start_time));
    note.start_time = start_time;
    note.edit(edit, replaces);
    edited.insert(key.clone(), note);
    Ok(Some(key))
}

/// Which annotation a request is about.
fn parse_key(tsd: &Tsd, fields: &Fields<'_>) -> Result<(Option<Tsuid>, i64), Error> {
    let start_time = match fields {
        Fields::Body(_) => fields.number("startTime", "start_time")?.unwrap_or(0),
        Fields::Parameters(request) => {
            let start = request
                .param("start_time")
                .filter(|start| !start.is_empty());
            let start = start.map_or(Ok(0), |start| seconds(tsd, start))?;
            if start < 1 {
                return Err(Error::bad_request("Missing start time"));
            }
            start
        }
    };
    let tsuid = fields.filled("tsuid", "tsuid")?;
    let tsuid = tsuid.map(|tsuid| parse_tsuid(tsd, &tsuid)).transpose()?;
    Ok((tsuid, start_time))
}

/// A time of an address or of a bulk request, in milliseconds.
fn milliseconds(tsd: &Tsd, text: &str) -> Result<i64, Error> {
    let zone = tsd.config.timezone.as_deref().and_then(find_zone);
    let zone = zone.unwrap_or(TimeZone::UTC);
    parse_time(text, &zone, tsd.clock.now_ms())
}

fn seconds(tsd: &Tsd, text: &str) -> Result<i64, Error> {
    milliseconds(tsd, text).map(|time_ms| time_ms.div_euclid(1000))
}

/// `/api/annotations`: global ones.
pub(super) async fn many(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    if request.verb()? != Method::GET {
        return Err(Error::method_not_allowed(&request.method));
    }
    let start = request
        .param("start_time")
        .filter(|start| !start.is_empty());
    let start_s = start.map_or(Ok(0), |start| seconds(tsd, start))?;
    if start_s < 1 {
        return Err(Error::bad_request("Missing start time"));
    }
    let end = request.param("end_time").filter(|end| !end.is_empty());
    let end_s = seconds(tsd, end.unwrap_or("now"))?;
    if end_s < start_s {
        let message = "The end timestamp cannot be less than the start timestamp";
        return Err(Error::bad_request(message));
    }
    let notes = annotation::globals(&tsd.records, &request.allowance, start_s, end_s).await?;
    Ok(all_shown(tsd, &notes))
}

/// `/api/annotation/bulk`
pub(super) async fn bulk(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let verb = request.verb()?;
    let replaces = match verb {
        Method::POST => false,
        Method::PUT => true,
        Method::DELETE => return bulk_delete(tsd, request).await,
        _ => return Err(Error::method_not_allowed(&request.method)),
    };
    let body = required_json(request)?;
    let items = body.as_array();
    let items = items.ok_or_else(|| unparsable("a list of annotations is expected"))?;
    let records = tsd.records.lock().await;
    let mut edited = Edited::new();
    let mut keys = Vec::new();
    let mut failed = None;
    for item in items {
        let fields = Fields::of_json(item.clone())?;
        match edit_one(tsd, &fields, replaces, &mut edited).await {
            Ok(key) => keys.extend(key),
            Err(error) => {
                let text = |name| Ok::<_, Error>(fields.text(name, name)?.unwrap_or_default());
                let start: i64 = fields.number("startTime", "")?.unwrap_or(0);
                let details = format!(
                    "Annotation error: TSUID: {} Start: {start}  Description: {}",
                    text("tsuid")?,
                    text("description")?,
                );
                failed.get_or_insert(error.with_details(details));
            }
        }
    }
    // What is right is stored, whatever is wrong with others.
    records.write(changes(tsd, &edited)).await?;
    match failed {
        Some(error) => Err(error),
        None => Ok(all_shown(tsd, keys.iter().map(|key| &edited[key]))),
    }
}

async fn bulk_delete(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let fields = Fields::of(request)?;
    let start = match fields {
        Fields::Parameters(request) => request.required("start_time")?.to_owned(),
        Fields::Body(_) => {
            let start = fields.filled("startTime", "start_time")?;
            start.ok_or_else(|| Error::bad_request("Missing the start time value"))?
        }
    };
    let tsuids = fields.list("tsuids", "tsuids")?;
    let is_global = match fields {
        Fields::Parameters(request) => request.flag("global"),
        Fields::Body(_) => fields.boolean("global", "global")?.unwrap_or(false),
    };
    if !is_global && tsuids.as_ref().is_none_or(Vec::is_empty) {
        let message = "Missing the TSUIDs or global annotations flag";
        return Err(Error::bad_request(message));
    }
    let end = fields.filled("endTime", "end_time")?;
    let start_ms = milliseconds(tsd, &start)?;
    let end_ms = milliseconds(tsd, end.as_deref().unwrap_or("now"))?;
    let mut series = Vec::new();
    for tsuid in tsuids.iter().flatten() {
        series.push(Some(parse_tsuid(tsd, tsuid)?));
    }
    if is_global {
        series.push(None);
    }
    let (records, allowance) = (tsd.records.lock().await, &request.allowance);
    let (window, widths) = ((start_ms, end_ms), tsd.config.uid_widths);
    let mut changes = Vec::new();
    for tsuid in &series {
        let tsuid = tsuid.as_ref();
        let found = annotation::removed_range(&tsd.records, allowance, tsuid, window, widths);
        changes.extend(found.await?);
    }
    let deleted = changes.len();
    records.write(changes).await?;
    let mut out = String::new();
    let mut answer = ObjectWriter::new(&mut out);
    match &tsuids {
        None => drop(answer.plain("tsuids", "null")),
        Some(tsuids) => push_array(answer.member("tsuids"), tsuids, |out, tsuid| {
            crate::json::push_text(out, tsuid);
        }),
    }
    answer.plain("global", is_global);
    answer.plain("startTime", start_ms);
    answer.plain("endTime", end_ms);
    answer.plain("totalDeleted", deleted);
    drop(answer);
    Ok(Response::json(out))
}

fn shown(tsd: &Tsd, note: &Annotation) -> Response {
    let mut out = String::new();
    note.write(&mut out, tsd.config.uid_widths);
    Response::json(out)
}

fn all_shown<'a>(tsd: &Tsd, notes: impl IntoIterator<Item = &'a Annotation>) -> Response {
    let mut out = String::new();
    let widths = tsd.config.uid_widths;
    push_array(&mut out, notes, |out, note| note.write(out, widths));
    Response::json(out)
}
