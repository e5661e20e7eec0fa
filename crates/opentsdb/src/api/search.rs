//! `/api/search`: series by metric and tags.

use std::collections::HashSet;

use http::Method;

use super::fields::Fields;
use crate::allowance::Allowance;
use crate::catalog_key;
use crate::error::Error;
use crate::java::hash_map_order;
use crate::json::Json;
use crate::json_object::{ObjectWriter, push_array};
use crate::request::Request;
use crate::response::Response;
use crate::series::{self, SeriesFilter, SeriesName, parse_filter};
use crate::tsd::Tsd;
use crate::uid::Tsuid;

/// Results without a `limit`.
const LIMIT_DEFAULT: i32 = 25;

/// Stands for everything, as does nothing.
const WILDCARD: &str = "*";

/// Those that need a plugin of the original.
const INDEXED_TYPES: [&str; 5] = [
    "tsmeta",
    "tsmeta_summary",
    "tsuids",
    "uidmeta",
    "annotation",
];

/// What is looked for, as it was asked.
struct Lookup {
    metric: Option<String>,
    /// `None` where the body has none.
    tags: Option<Vec<(Option<String>, Option<String>)>>,
    limit: i32,
    start_index: i32,
    /// Only series that are tracked, or have meta data.
    uses_meta: bool,
}

/// What follows `/api/search`.
pub(super) async fn route(tsd: &Tsd, request: &Request, parts: &[&str]) -> Result<Response, Error> {
    let kind = parts.first().copied().unwrap_or_default();
    let details = if kind.is_empty() {
        "Type provided was null or empty".to_owned()
    } else {
        format!("Unknown type: {kind}")
    };
    let invalid = || Error::bad_request("Invalid search query type supplied").with_details(details);
    let verb = request.verb()?;
    let is_indexed = INDEXED_TYPES.contains(&kind);
    if !is_indexed && kind != "lookup" {
        return Err(invalid());
    }
    if verb != Method::GET && verb != Method::POST {
        return Err(Error::bad_request(format!("Unsupported method: {verb}")));
    }
    if is_indexed {
        if !request.has_content() {
            request.required("query")?;
        }
        let details = "Searching has not been enabled on this TSD";
        return Err(Error::bad_request("Searching is not enabled").with_details(details));
    }
    let started_ms = tsd.clock.elapsed_ms();
    let lookup = if request.has_content() {
        parse_body(request)?
    } else {
        parse_parameters(request)?
    };
    let found = find(tsd, &request.allowance, &lookup).await?;
    let elapsed_ms = tsd.clock.elapsed_ms() - started_ms;
    Ok(shown(tsd, &lookup, &found, elapsed_ms))
}

fn parse_parameters(request: &Request) -> Result<Lookup, Error> {
    let text = request.required("m")?;
    let filter = parse_filter(text, true)
        .map_err(|error| Error::bad_request("Unable to parse query").with_details(error.message))?;
    Ok(Lookup {
        metric: filter.metric.filter(|metric| !metric.is_empty()),
        tags: Some(filter.tags),
        limit: number(request, "limit")?.unwrap_or(LIMIT_DEFAULT),
        start_index: number(request, "start_index")?.unwrap_or(0),
        uses_meta: true,
    })
}

fn number(request: &Request, name: &str) -> Result<Option<i32>, Error> {
    let text = request.param(name).filter(|text| !text.is_empty());
    let number = text.map(str::parse).transpose();
    number.map_err(|_| Error::bad_request(format!("Unable to convert '{name}' to a valid number")))
}

fn parse_body(request: &Request) -> Result<Lookup, Error> {
    let fields = Fields::of(request)?;
    let Fields::Body(body) = &fields else {
        return Err(super::body::unparsable("an object is expected"));
    };
    let mut tags = None;
    if let Some(pairs) = body.get("tags").filter(|pairs| !pairs.is_null()) {
        let wrong = || super::body::unparsable("tags is no list of pairs");
        let mut parsed = Vec::new();
        for pair in pairs.as_array().ok_or_else(wrong)? {
            pair.as_object().ok_or_else(wrong)?;
            let part = |name| pair.get(name).and_then(Json::text).map(String::from);
            parsed.push((part("key"), part("value")));
        }
        tags = Some(parsed);
    }
    let metric = fields.filled("metric", "metric")?;
    Ok(Lookup {
        metric: Some(metric.unwrap_or_else(|| WILDCARD.into())),
        tags,
        limit: fields.number("limit", "limit")?.unwrap_or(LIMIT_DEFAULT),
        start_index: fields.number("startIndex", "start_index")?.unwrap_or(0),
        uses_meta: fields.boolean("useMeta", "use_meta")?.unwrap_or(true),
    })
}

/// A series and its TSUID; names that only others have written have none.
type FoundSeries = (Option<Tsuid>, SeriesName);

/// The series in the order of their TSUIDs, those that have none last.
async fn find(
    tsd: &Tsd,
    allowance: &Allowance,
    lookup: &Lookup,
) -> Result<Vec<FoundSeries>, Error> {
    let specified = |part: &Option<String>| {
        let part = part
            .as_ref()
            .filter(|part| *part != WILDCARD && !part.is_empty());
        part.cloned()
    };
    let mut filter = SeriesFilter {
        metric: specified(&lookup.metric),
        tags: Vec::new(),
    };
    for (key, value) in lookup.tags.iter().flatten() {
        let (key, value) = (specified(key), specified(value));
        if key.is_none() && value.is_none() {
            let details = "A tag needs a key or a value";
            return Err(Error::bad_request("Unexpected exception").with_details(details));
        }
        filter.tags.push((key, value));
    }
    let found = series::find(tsd, allowance, &filter).await?;
    series::check_names(&filter, &tsd.uids, &found).map_err(|error| {
        Error::not_found("Unable to resolve one or more UIDs").with_details(error.message)
    })?;
    let limit = usize::try_from(lookup.limit).unwrap_or(0);
    if lookup.uses_meta && !tsd.config.tsuid_tracking {
        return with_meta(tsd, allowance, &filter, limit).await;
    }
    let with_tsuid = |series: SeriesName| (series.durable_tsuid(&tsd.uids), series);
    let mut found: Vec<FoundSeries> = found.into_iter().map(with_tsuid).collect();
    found.sort_unstable_by(|(one, a), (other, b)| {
        let order = one.is_none().cmp(&other.is_none());
        order.then_with(|| one.cmp(other)).then_with(|| a.cmp(b))
    });
    found.truncate(limit);
    Ok(found)
}

/// The series that have meta data of their own.
async fn with_meta(
    tsd: &Tsd,
    allowance: &Allowance,
    filter: &SeriesFilter,
    limit: usize,
) -> Result<Vec<FoundSeries>, Error> {
    let metric = filter.metric.as_deref();
    let metric = metric.and_then(|name| tsd.uids.read(crate::uid::UidKind::Metric).id(name));
    let keys = match metric {
        Some(metric) => catalog_key::series_metas(metric.0),
        None if filter.metric.is_some() => return Ok(Vec::new()),
        None => catalog_key::all_series_metas(),
    };
    let keys = tsd.records.keys(keys, allowance).await?;
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for key in keys {
        let tsuid = catalog_key::parse_series_meta(&key);
        let tsuid = tsuid.and_then(|bytes| Tsuid::from_bytes(bytes, tsd.config.uid_widths));
        let Some(tsuid) = tsuid else { continue };
        let series = SeriesName::of_tsuid(&tsuid, &tsd.uids).ok();
        if let Some(series) = series.filter(|series| filter.matches(series))
            && seen.insert(tsuid.clone())
        {
            found.push((Some(tsuid), series));
        }
    }
    found.truncate(limit);
    Ok(found)
}

fn shown(tsd: &Tsd, lookup: &Lookup, found: &[FoundSeries], elapsed_ms: i64) -> Response {
    let mut out = String::new();
    let mut answer = ObjectWriter::new(&mut out);
    answer.text("type", "LOOKUP");
    if let Some(metric) = &lookup.metric {
        answer.text("metric", metric);
    }
    if let Some(tags) = &lookup.tags {
        push_array(answer.member("tags"), tags, |out, (key, value)| {
            let mut pair = ObjectWriter::new(out);
            for (name, part) in [("key", key), ("value", value)] {
                match part {
                    Some(part) => pair.text(name, part),
                    None => pair.plain(name, "null"),
                };
            }
        });
    }
    answer.plain("limit", lookup.limit);
    answer.plain("time", format_args!("{elapsed_ms}.0"));
    push_array(answer.member("results"), found, |out, (tsuid, series)| {
        let mut result = ObjectWriter::new(out);
        if let Some(tsuid) = tsuid {
            result.text("tsuid", &tsuid.to_hex(tsd.config.uid_widths));
        }
        result.text("metric", &series.metric);
        let mut tags: Vec<_> = series.tags.iter().collect();
        hash_map_order(&mut tags, |(key, _)| key);
        let mut object = ObjectWriter::new(result.member("tags"));
        for (key, value) in tags {
            object.text(key, value);
        }
    });
    answer.plain("startIndex", lookup.start_index);
    answer.plain("totalResults", found.len());
    drop(answer);
    Response::json(out)
}
