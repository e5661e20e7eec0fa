//! `/api/v1/status/metric_names` and `/api/v1/status/query_usage`: metrics by name, page by page.
//!
//! ```text
//! head: names and series ─┐
//! store: names ───────────┼─► those that match ─► type, order ─► one page ─► metadata, usage
//! events: names ──────────┘
//! ```
//!
//! Holds always: names are looked at, never series, and what a page does not have is not sorted.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use icecore_events::series::view_metadata;
use icecore_model::{Metadata, MetricType};
use icecore_storage::Database;
use serde_json::{Value, json};

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::success;
use crate::middleware::page::Page;
use crate::middleware::params::Params;
use crate::usage::{QueryUsage, Usage};

/// What a list of metrics is sorted by. Of those that are alike, the name decides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SortKey {
    Name,
    Series,
    Queries,
    LastQueried,
}

/// One metric of the list.
struct Metric {
    name: String,
    /// In memory; `None` for series that are made of events.
    series: Option<u64>,
    usage: Usage,
}

/// Bytes of what is searched for. Each word of it is looked for in every name.
const SEARCH_BYTES_MAX: usize = 256;

pub(crate) async fn metric_names(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let database = app.database()?.clone();
    let sort = sort_key(&params)?;
    let page = Page::of(&params, sort != SortKey::Name)?;
    let metric_type = metric_type(&params)?;
    let never_queried = never_queried(&params)?;
    let search = params.first("search").unwrap_or_default();
    if search.len() > SEARCH_BYTES_MAX {
        let problem = format!("it has more than {SEARCH_BYTES_MAX} bytes");
        return Err(ApiError::of_parameter("search", problem));
    }
    let search = Search::new(search);
    let slot = app.limits.read_slot().await?;
    let wanted = search.clone();
    let head = database
        .head_metrics(move |name| wanted.matches(name))
        .await?;
    let stored = app.stored_names.get(&database, app.queries.memory()).await;
    let mut warnings = Vec::new();
    let stored = stored.unwrap_or_else(|cause| {
        warnings.push(format!(
            "metrics that are only in the store are missing: {cause}"
        ));
        Arc::from([])
    });
    let events = view_metadata(&app.events()?.registry(), None);
    let events: HashMap<String, Metadata> = events.into_iter().collect();
    let usage = Arc::clone(&app.usage);
    success(slot, warnings, move |out| {
        let mut metrics: Vec<Metric> = head
            .into_iter()
            .map(|count| Metric::new(count.name, Some(count.value)))
            .collect();
        add_names(
            &mut metrics,
            stored.iter().filter(|it| search.matches(it)),
            Some(0),
        );
        add_names(
            &mut metrics,
            events.keys().filter(|it| search.matches(it)),
            None,
        );
        if let Some(wanted) = metric_type {
            let type_of = |said: Option<&Metadata>| said.map(|it| it.metric_type);
            let types = describe(&database, &events, &metrics, type_of).into_iter();
            let mut types = types.map(Option::unwrap_or_default);
            metrics.retain(|_| types.next() == Some(wanted));
        }
        if never_queried || matches!(sort, SortKey::Queries | SortKey::LastQueried) {
            count_usage(&usage, &mut metrics);
        }
        if never_queried {
            metrics.retain(|metric| metric.usage.queries == 0);
        }
        let total = metrics.len();
        let mut metrics = page.cut(metrics, |a, b| compare(sort, page.is_descending, a, b));
        count_usage(&usage, &mut metrics);
        let described = describe(&database, &events, &metrics, |said| said.cloned());
        let items: Vec<Value> = metrics.iter().zip(&described).map(metric_json).collect();
        let data = json!({"total": total, "items": items});
        out.extend_from_slice(data.to_string().as_bytes());
    })
    .await
}

/// Which metrics were asked for, most often first.
pub(crate) async fn query_usage(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    app.database()?;
    let page = Page::of(&params, true)?;
    let slot = app.limits.read_slot().await?;
    let usage = Arc::clone(&app.usage);
    success(slot, Vec::new(), move |out| {
        let (total, items) = usage.read(|all| {
            let total = all.len();
            let items = page.cut(all, |(a, used), (b, other)| {
                let by_count = (used.queries, used.last_ms).cmp(&(other.queries, other.last_ms));
                directed(by_count, page.is_descending).then_with(|| a.cmp(b))
            });
            let items = items.into_iter().map(|(name, usage)| {
                json!({"name": name, "queries": usage.queries, "lastQueried": seconds(usage.last_ms)})
            });
            (total, items.collect::<Vec<_>>())
        });
        let data = json!({
            "since": usage.since_ms() / 1000,
            "total": total,
            "items": items,
        });
        out.extend_from_slice(data.to_string().as_bytes());
    })
    .await
}

fn sort_key(params: &Params) -> Result<SortKey, ApiError> {
    Ok(match params.first("sort") {
        None | Some("name") => SortKey::Name,
        Some("series") => SortKey::Series,
        Some("queries") => SortKey::Queries,
        Some("last_queried") => SortKey::LastQueried,
        Some(_) => {
            let problem = "name, series, queries or last_queried";
            return Err(ApiError::of_parameter("sort", problem));
        }
    })
}

/// Whether only metrics that no query has asked for are listed.
fn never_queried(params: &Params) -> Result<bool, ApiError> {
    match params.first("queried") {
        None => Ok(false),
        Some("never") => Ok(true),
        Some(_) => Err(ApiError::of_parameter("queried", "never, or nothing")),
    }
}

fn metric_type(params: &Params) -> Result<Option<MetricType>, ApiError> {
    let Some(word) = params.first("type") else {
        return Ok(None);
    };
    let found = MetricType::ALL.into_iter().find(|it| it.name() == word);
    let words = MetricType::ALL.map(MetricType::name).join(", ");
    let found = found.ok_or_else(|| ApiError::of_parameter("type", format!("one of {words}")))?;
    Ok(Some(found))
}

/// Words that a name must have, in any order and case.
#[derive(Clone)]
struct Search(Vec<String>);

impl Search {
    fn new(text: &str) -> Self {
        Self(text.split_whitespace().map(str::to_lowercase).collect())
    }

    fn matches(&self, name: &str) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let name = name.to_lowercase();
        self.0.iter().all(|word| name.contains(word.as_str()))
    }
}

impl Metric {
    fn new(name: String, series: Option<u64>) -> Self {
        Self {
            name,
            series,
            usage: Usage::default(),
        }
    }
}

/// Adds names that are not among the metrics yet.
fn add_names<'n>(
    metrics: &mut Vec<Metric>,
    names: impl Iterator<Item = &'n String>,
    series: Option<u64>,
) {
    let known: HashSet<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    let more: Vec<Metric> = names
        .filter(|name| !known.contains(name.as_str()))
        .map(|name| Metric::new(name.clone(), series))
        .collect();
    metrics.extend(more);
}

fn count_usage(usage: &QueryUsage, metrics: &mut [Metric]) {
    let counted = usage.of(metrics.iter().map(|metric| metric.name.as_str()));
    for (metric, usage) in metrics.iter_mut().zip(counted) {
        metric.usage = usage;
    }
}

fn compare(sort: SortKey, is_descending: bool, a: &Metric, b: &Metric) -> Ordering {
    let by_name = || a.name.cmp(&b.name);
    let by_key = match sort {
        SortKey::Name => return directed(by_name(), is_descending),
        SortKey::Series => a.series.cmp(&b.series),
        SortKey::Queries => a.usage.queries.cmp(&b.usage.queries),
        SortKey::LastQueried => a.usage.last_ms.cmp(&b.usage.last_ms),
    };
    directed(by_key, is_descending).then_with(by_name)
}

fn directed(ordering: Ordering, is_descending: bool) -> Ordering {
    if is_descending {
        ordering.reverse()
    } else {
        ordering
    }
}

/// What `read` makes of what is said of each metric; what was sent counts more than what is known
/// of events.
fn describe<R>(
    database: &Database,
    events: &HashMap<String, Metadata>,
    metrics: &[Metric],
    read: impl Fn(Option<&Metadata>) -> R,
) -> Vec<R> {
    let names = metrics.iter().map(|metric| metric.name.as_str());
    database.metric_metadata(names, |name, sent| read(sent.or_else(|| events.get(name))))
}

fn metric_json((metric, metadata): (&Metric, &Option<Metadata>)) -> Value {
    json!({
        "name": metric.name,
        "type": metadata.as_ref().map(|it| it.metric_type.name()),
        "unit": metadata.as_ref().map(|it| &it.unit),
        "help": metadata.as_ref().map(|it| &it.help),
        "series": metric.series,
        "queries": metric.usage.queries,
        "lastQueried": seconds(metric.usage.last_ms),
    })
}

fn seconds(ms: Option<i64>) -> Option<i64> {
    ms.map(|ms| ms / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_must_be_in_the_name() {
        for (text, name, matches) in [
            ("", "up", true),
            ("HTTP total", "http_requests_total", true),
            ("total http", "http_requests_total", true),
            ("http", "Http_Requests", true),
            ("http errors", "http_requests_total", false),
            ("ÄRZTE", "ärzte_total", true),
        ] {
            assert_eq!(Search::new(text).matches(name), matches, "{text} in {name}");
        }
    }

    #[test]
    fn a_name_is_listed_once() {
        let mut metrics = vec![Metric::new("a".into(), Some(3))];
        let names = ["a".to_owned(), "b".to_owned()];
        add_names(&mut metrics, names.iter(), Some(0));
        let listed: Vec<_> = metrics.iter().map(|it| (&*it.name, it.series)).collect();
        assert_eq!(listed, [("a", Some(3)), ("b", Some(0))]);
    }
}
