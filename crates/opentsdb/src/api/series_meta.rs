//! `/api/uid/tsmeta`

use http::Method;

use super::fields::Fields;
use super::uid_meta::not_hexadecimal;
use crate::allowance::Allowance;
use crate::catalog::check_texts;
use crate::error::Error;
use crate::json_object::push_array;
use crate::meta::{SeriesMeta, SeriesMetaEdit};
use crate::request::Request;
use crate::response::Response;
use crate::series::{self, SeriesName, SeriesPoints, parse_filter};
use crate::tsd::Tsd;
use crate::uid::{Tsuid, UidKind};

pub(super) async fn handle(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    match request.verb()? {
        Method::GET => match request.param("tsuid") {
            Some(tsuid) => get_one(tsd, &request.allowance, tsuid).await,
            None => get_many(tsd, &request.allowance, request.required("m")?).await,
        },
        Method::POST => edit(tsd, request, false).await,
        Method::PUT => edit(tsd, request, true).await,
        Method::DELETE => delete(tsd, request).await,
        _ => Err(Error::method_not_allowed(&request.method)),
    }
}

async fn get_one(tsd: &Tsd, allowance: &Allowance, tsuid: &str) -> Result<Response, Error> {
    let tsuid = parse_tsuid(tsd, tsuid)?;
    let meta = SeriesMeta::get(&tsd.records, &tsuid, tsd.config.uid_widths).await?;
    let missing = || Error::not_found("Could not find Timeseries meta data");
    let meta = meta.ok_or_else(missing)?;
    let mut out = String::new();
    push_meta(tsd, allowance, &meta, &mut out).await?;
    Ok(Response::json(out))
}

/// The meta data of all series of a metric that have these tags, and maybe others.
async fn get_many(tsd: &Tsd, allowance: &Allowance, text: &str) -> Result<Response, Error> {
    let filter = parse_filter(text, false)?;
    let metric = filter.metric.as_deref().unwrap_or_default();
    let metric = tsd.uids.resolve(UidKind::Metric, metric).map_err(|error| {
        Error::not_found("Unable to find one of the UIDs").with_details(error.message)
    })?;
    let mut tags = Vec::new();
    for (key, value) in &filter.tags {
        let resolve = |kind, name: &Option<String>| {
            let name = name.as_deref().unwrap_or_default();
            tsd.uids.resolve(kind, name)
        };
        tags.push((resolve(UidKind::Tagk, key)?, resolve(UidKind::Tagv, value)?));
    }
    let widths = tsd.config.uid_widths;
    let metas = SeriesMeta::of_metric(&tsd.records, allowance, metric, widths).await?;
    let has_tags = |meta: &&SeriesMeta| tags.iter().all(|tag| meta.tsuid.tags.contains(tag));
    let points = series::count_points(tsd, allowance, &filter).await?;
    let mut shown = Vec::new();
    for meta in metas.iter().filter(has_tags) {
        let series = SeriesName::of_tsuid(&meta.tsuid, &tsd.uids).ok();
        let points = series.and_then(|series| points.get(&series).copied());
        let mut out = String::new();
        meta.write(tsd, points.unwrap_or_default(), &mut out)
            .await?;
        shown.push(out);
    }
    let mut out = String::new();
    push_array(&mut out, shown, |out, meta| out.push_str(&meta));
    Ok(Response::json(out))
}

async fn edit(tsd: &Tsd, request: &Request, replaces: bool) -> Result<Response, Error> {
    let fields = Fields::of(request)?;
    let edit = parse_edit(&fields)?;
    let widths = tsd.config.uid_widths;
    let tsuid = fields.filled("tsuid", "tsuid")?;
    let (tsuid, is_created) = match tsuid {
        Some(tsuid) => (parse_tsuid(tsd, &tsuid)?, false),
        None => {
            let series = request.required("m")?;
            (
                tsuid_of(tsd, series)?,
                request.param("create") == Some("true"),
            )
        }
    };
    if edit.is_empty() {
        return Ok(Response::unchanged());
    }
    check_texts(edit.texts())?;
    let by_name = fields.filled("tsuid", "tsuid")?.is_none();
    let records = tsd.records.lock().await;
    let meta = SeriesMeta::get(&tsd.records, &tsuid, widths).await?;
    let mut meta = match meta {
        Some(meta) => meta,
        None if is_created => SeriesMeta::new(tsuid, 0),
        None if by_name => {
            return Err(Error::bad_request(
                "Could not find TSMeta, specify \"create=true\" to create a new one.",
            ));
        }
        None => {
            let message = "Requested TSMeta did not exist";
            return Err(Error::bad_request(message).with_details(message));
        }
    };
    meta.edit(edit, replaces);
    let mut changes = vec![meta.stored(widths)];
    tsd.uids.push_unsettled_of(&meta.tsuid, &mut changes);
    records.write(changes.clone()).await?;
    tsd.uids.committed(&changes);
    let mut out = String::new();
    push_meta(tsd, &request.allowance, &meta, &mut out).await?;
    Ok(Response::json(out))
}

fn parse_edit(fields: &Fields<'_>) -> Result<SeriesMetaEdit, Error> {
    let limit = |name: &str| {
        let limit: Option<f64> = fields.number(name, name)?;
        Ok(limit.filter(|limit| !limit.is_infinite()))
    };
    Ok(SeriesMetaEdit {
        display_name: fields.filled("displayName", "display_name")?,
        description: fields.filled("description", "description")?,
        notes: fields.filled("notes", "notes")?,
        created: fields
            .number("created", "created")?
            .filter(|created| *created != 0),
        custom: fields.map("custom")?,
        units: fields.filled("units", "units")?,
        data_type: fields.filled("dataType", "data_type")?,
        retention: fields
            .number("retention", "retention")?
            .filter(|retention| *retention != 0),
        max: limit("max")?,
        min: limit("min")?,
    })
}

async fn delete(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let fields = Fields::of(request)?;
    let Some(tsuid) = fields.filled("tsuid", "tsuid")? else {
        let error = Error::bad_request("Unable to delete TSMeta information");
        return Err(error.with_details("Missing UID"));
    };
    let tsuid = parse_tsuid(tsd, &tsuid)?;
    let records = tsd.records.lock().await;
    let removed = SeriesMeta::removed(&tsuid, tsd.config.uid_widths);
    records.write(vec![removed]).await?;
    Ok(Response::done())
}

/// A TSUID of a request.
pub(super) fn parse_tsuid(tsd: &Tsd, text: &str) -> Result<Tsuid, Error> {
    let bytes = hex::decode(text).map_err(|_| {
        let message = not_hexadecimal(text);
        Error::bad_request(message.clone()).with_details(message)
    })?;
    let tsuid = Tsuid::from_bytes(&bytes, tsd.config.uid_widths);
    let tsuid = tsuid.filter(|tsuid| !tsuid.tags.is_empty());
    tsuid.ok_or_else(|| Error::bad_request(format!("Invalid TSUID: {text}")))
}

/// The TSUID of `metric{key=value,…}`, all of it.
fn tsuid_of(tsd: &Tsd, text: &str) -> Result<Tsuid, Error> {
    let filter = parse_filter(text, false)?;
    let metric = filter.metric.unwrap_or_default();
    let metric = tsd.uids.resolve(UidKind::Metric, &metric)?;
    let mut tags = Vec::new();
    for (key, value) in filter.tags {
        let key = tsd.uids.resolve(UidKind::Tagk, &key.unwrap_or_default())?;
        tags.push((
            key,
            tsd.uids
                .resolve(UidKind::Tagv, &value.unwrap_or_default())?,
        ));
    }
    if tags.is_empty() {
        return Err(Error::bad_request(
            "Tags cannot be null or empty when getting a TSUID",
        ));
    }
    Ok(Tsuid::new(metric, tags))
}

/// Appends the meta data of a series with what its points say.
pub(super) async fn push_meta(
    tsd: &Tsd,
    allowance: &Allowance,
    meta: &SeriesMeta,
    out: &mut String,
) -> Result<(), Error> {
    let mut points = SeriesPoints::default();
    if let Ok(series) = SeriesName::of_tsuid(&meta.tsuid, &tsd.uids) {
        let counted = series::count_points(tsd, allowance, &series.filter()).await?;
        points = counted.get(&series).copied().unwrap_or_default();
    }
    meta.write(tsd, points, out).await
}
