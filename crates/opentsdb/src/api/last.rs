//! `/api/query/last`: the last point of series.
//!
//! Without meta data of series (`tsd.core.meta.enable_tsuid_tracking`) the original looks back
//! hour by hour, as far as the request says. With it, it knows the hour in which a series was last
//! written, and finds nothing when that point was older; here the last point is found whatever its
//! age.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;

use super::body::{required_json, unparsable};
use super::fields::Fields;
use super::series_meta::parse_tsuid;
use crate::allowance::Allowance;
use crate::error::Error;
use crate::json::Json;
use crate::json_object::{ObjectWriter, push_array, push_map};
use crate::request::Request;
use crate::response::Response;
use crate::series::{self, LastPoint, SeriesFilter, SeriesName, parse_filter};
use crate::tsd::Tsd;
use crate::uid::Tsuid;

/// The original keeps points in rows of an hour.
const ROW_MS: i64 = 3_600_000;

/// How far back the last point of a series is looked for: most have one in the last hour.
const LOOK_BACK_MS: [i64; 4] = [ROW_MS, 24 * ROW_MS, 30 * 24 * ROW_MS, i64::MAX];

/// What is asked for.
struct LastQuery {
    filters: Vec<SeriesFilter>,
    tsuids: Vec<String>,
    resolves_names: bool,
    /// Hours before the current one.
    back_scan: i64,
}

pub(super) async fn handle(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let query = match request.method {
        Method::GET => parse_parameters(request)?,
        Method::POST => parse_body(request)?,
        _ => return Err(Error::method_not_allowed(&request.method)),
    };
    if query.filters.is_empty() && query.tsuids.is_empty() {
        return Err(Error::bad_request("Missing sub queries"));
    }
    let mut points = BTreeMap::new();
    for filter in &query.filters {
        points.extend(of_filter(tsd, &request.allowance, filter, query.back_scan).await?);
    }
    for tsuid in &query.tsuids {
        let tsuid = parse_tsuid(tsd, tsuid)?;
        points.extend(of_tsuid(tsd, &request.allowance, &tsuid, query.back_scan).await?);
    }
    let mut out = String::new();
    push_array(&mut out, &points, |out, (series, point)| {
        let mut object = ObjectWriter::new(out);
        if query.resolves_names {
            object.text("metric", &series.metric);
        }
        object.plain("timestamp", point.timestamp_ms);
        object.text("value", &point.value);
        if query.resolves_names {
            push_map(object.member("tags"), &series.tags);
        }
        // Names that only others have written have no UID.
        if let Some(tsuid) = series.durable_tsuid(&tsd.uids) {
            object.text("tsuid", &tsuid.to_hex(tsd.config.uid_widths));
        }
    });
    Ok(Response::json(out))
}

fn parse_parameters(request: &Request) -> Result<LastQuery, Error> {
    let filters = request
        .all("timeseries")
        .map(|text| parse_filter(text, false));
    let tsuids = request.all("tsuids").flat_map(|tsuids| tsuids.split(','));
    let back_scan = request.param("back_scan").filter(|text| !text.is_empty());
    let back_scan = back_scan.map_or(Ok(0), str::parse::<i32>);
    let back_scan =
        back_scan.map_err(|_| Error::bad_request("Unable to parse back_scan parameter"))?;
    Ok(LastQuery {
        filters: filters.collect::<Result<_, _>>()?,
        tsuids: tsuids.map(String::from).collect(),
        resolves_names: request.flag("resolve"),
        back_scan: back_scan.into(),
    })
}

fn parse_body(request: &Request) -> Result<LastQuery, Error> {
    let fields = Fields::of_json(required_json(request)?)?;
    let Fields::Body(body) = &fields else {
        return Err(unparsable("an object is expected"));
    };
    let (mut filters, mut tsuids) = (Vec::new(), Vec::new());
    let queries = body.get("queries").filter(|queries| !queries.is_null());
    let queries = queries.map_or(Some(&[][..]), Json::as_array);
    let queries = queries.ok_or_else(|| unparsable("queries is no list"))?;
    for query in queries {
        let query = Fields::of_json(query.clone())?;
        if let Some(list) = query.list("tsuids", "tsuids")? {
            tsuids.extend(list);
            continue;
        }
        let tags = query.map("tags")?.unwrap_or_default().into_iter();
        filters.push(SeriesFilter {
            metric: Some(query.text("metric", "metric")?.unwrap_or_default()),
            tags: tags.map(|(key, value)| (Some(key), Some(value))).collect(),
        });
    }
    Ok(LastQuery {
        filters,
        tsuids,
        resolves_names: fields.boolean("resolveNames", "resolve")?.unwrap_or(false),
        back_scan: fields
            .number::<i32>("backScan", "back_scan")?
            .unwrap_or(0)
            .into(),
    })
}

type Points = BTreeMap<SeriesName, LastPoint>;

async fn of_filter(
    tsd: &Tsd,
    allowance: &Allowance,
    filter: &SeriesFilter,
    back_scan: i64,
) -> Result<Points, Error> {
    if filter.metric.as_ref().is_none_or(String::is_empty) {
        return Err(refused("Metric cannot be null or empty"));
    }
    if back_scan > 0 && filter.tags.is_empty() {
        return Err(refused("Tags cannot be null or empty when getting a TSUID"));
    }
    let found = series::find(tsd, allowance, filter).await?;
    series::check_names(filter, &tsd.uids, &found)?;
    if back_scan > 0 {
        let mut points =
            series::last_points(tsd, allowance, filter, window(tsd, back_scan)).await?;
        points.retain(|series, _| series.tags.len() == filter.tags.len());
        return Ok(points);
    }
    if tsd.config.tsuid_tracking {
        return latest(tsd, allowance, filter, found.into_iter().collect()).await;
    }
    Ok(Points::new())
}

async fn of_tsuid(
    tsd: &Tsd,
    allowance: &Allowance,
    tsuid: &Tsuid,
    back_scan: i64,
) -> Result<Points, Error> {
    let is_tracked = back_scan <= 0 && tsd.config.tsuid_tracking;
    let Ok(series) = SeriesName::of_tsuid(tsuid, &tsd.uids) else {
        if is_tracked {
            return Err(refused("No such time series"));
        }
        return Ok(Points::new());
    };
    let filter = series.filter();
    let mut points = if is_tracked {
        latest(tsd, allowance, &filter, BTreeSet::from([series.clone()])).await?
    } else {
        series::last_points(tsd, allowance, &filter, window(tsd, back_scan)).await?
    };
    points.retain(|found, _| *found == series);
    Ok(points)
}

fn refused(message: &str) -> Error {
    Error::bad_request(message).with_details(message)
}

/// The current hour, and some before it.
fn window(tsd: &Tsd, back_scan: i64) -> (i64, i64) {
    let row_ms = tsd.clock.now_ms().div_euclid(ROW_MS) * ROW_MS;
    (row_ms - back_scan.max(0) * ROW_MS, row_ms + ROW_MS - 1)
}

/// The last points of these series, however old they are.
async fn latest(
    tsd: &Tsd,
    allowance: &Allowance,
    filter: &SeriesFilter,
    mut missing: BTreeSet<SeriesName>,
) -> Result<Points, Error> {
    let mut points = Points::new();
    let mut end_ms = i64::MAX;
    for look_back_ms in LOOK_BACK_MS {
        if missing.is_empty() {
            break;
        }
        let start_ms = tsd.clock.now_ms().saturating_sub(look_back_ms);
        let found = series::last_points(tsd, allowance, filter, (start_ms, end_ms)).await?;
        for (series, point) in found {
            if missing.remove(&series) {
                points.insert(series, point);
            }
        }
        end_ms = start_ms.saturating_sub(1);
    }
    Ok(points)
}
