//! `/api/v1/search/…`: names and values that match a few letters, for people who type.
//!
//! ```text
//! names, or values of a label ─► score ─► order ─► limit ─► lines of JSON: batches, then the end
//! ```
//!
//! Holds always:
//! - Parameters, scores, order and lines are those of Prometheus 3.15.
//! - What is looked through counts against `query.max_memory`, comparisons have a limit
//!   ([`STEPS_MAX`]), and so have results ([`LIMIT_MAX`]) and terms ([`TERMS_MAX`]).

mod score;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use icecore_events::series::view_metadata;
use icecore_model::{MAX_TIMESTAMP_MS, Metadata};
use icecore_storage::{Database, LabelQuery};
use icecore_wire::prometheus::api_json::write_string;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::app::App;
use crate::events::series as event_series;
use crate::middleware::error::ApiError;
use crate::middleware::params::Params;
use crate::query::answer::{AnswerSender, ClientGone};
use score::{Algorithm, STEPS_MAX, Scorer};

/// Results of a search that gives no limit, and of one line.
const LIMIT_DEFAULT: usize = 100;

/// Most results of a search: the default of Prometheus' `--web.search.max-limit`.
pub(crate) const LIMIT_MAX: usize = 10_000;

/// Most terms of a search, as in Prometheus.
pub(crate) const TERMS_MAX: usize = 32;

/// The time before now that a search without `start` looks at.
const RANGE_DEFAULT_MS: i64 = 3_600_000;

/// Texts between two looks at whether the client is still there.
const TEXTS_AT_ONCE: usize = 4096;

const LINES_TYPE: &str = "application/x-ndjson; charset=utf-8";

/// The name of the label whose values are metrics.
const METRIC_NAME: &str = "__name__";

/// The subject of a search.
enum Subject {
    Metrics { with_metadata: bool },
    LabelNames,
    LabelValues(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
    Score,
}

/// Everything that the three searches have in common.
struct SearchParams {
    query: LabelQuery,
    scorer: Option<Scorer>,
    order: Order,
    with_score: bool,
    limit: usize,
    batch_size: usize,
}

/// Metrics whose names match.
pub(crate) async fn metric_names(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let slot = app.limits.read_slot().await?;
    let search = SearchParams::read(&app, &params, "metric_names")?;
    let with_metadata = boolean(&params, "include_metadata", false)?;
    find(&app, slot, search, Subject::Metrics { with_metadata }).await
}

/// Names of labels that match.
pub(crate) async fn label_names(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let slot = app.limits.read_slot().await?;
    let search = SearchParams::read(&app, &params, "label_names")?;
    find(&app, slot, search, Subject::LabelNames).await
}

/// Values of a label that match.
pub(crate) async fn label_values(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let slot = app.limits.read_slot().await?;
    let search = SearchParams::read(&app, &params, "label_values")?;
    let label = params
        .first("label")
        .ok_or_else(|| ApiError::bad_data("missing required parameter \"label\""))?;
    find(&app, slot, search, Subject::LabelValues(label.to_owned())).await
}

impl SearchParams {
    /// Reads the parameters in the order in which Prometheus looks at them: of several that are
    /// wrong the answer names the same one.
    fn read(app: &App, params: &Params, endpoint: &str) -> Result<Self, ApiError> {
        app.database()?;
        let now_ms = app.clock().now_ms();
        let start_ms = time(params, "start")?.unwrap_or(now_ms - RANGE_DEFAULT_MS);
        let end_ms = time(params, "end")?.unwrap_or(now_ms);
        if end_ms < start_ms {
            return Err(ApiError::bad_data(
                "end timestamp must not be before start timestamp",
            ));
        }
        let selectors = params.list_selectors()?;
        let terms: Vec<&str> = params.all("search[]").collect();
        if terms.len() > TERMS_MAX {
            return Err(ApiError::bad_data(format!(
                "too many search[] terms: got {}, maximum is {TERMS_MAX}",
                terms.len()
            )));
        }
        let threshold = threshold(params)?;
        let algorithm = algorithm(params)?;
        let is_case_sensitive = boolean(params, "case_sensitive", true)?;
        let with_score = boolean(params, "include_score", false)?;
        let sort_by = params.first("sort_by");
        check_order(params, !terms.is_empty())?;
        let limit = positive(params, "limit")?.unwrap_or(LIMIT_DEFAULT);
        if limit > LIMIT_MAX {
            return Err(ApiError::bad_data(format!(
                "limit {limit} exceeds the configured maximum ({LIMIT_MAX}, see --web.search.max-limit)"
            )));
        }
        let batch_size = positive(params, "batch_size")?.unwrap_or(LIMIT_DEFAULT);
        let order = match (sort_by, params.first("sort_dir")) {
            (None, _) => Order::Ascending,
            (Some("alpha"), Some("dsc")) => Order::Descending,
            (Some("alpha"), _) => Order::Ascending,
            (Some("score"), _) => Order::Score,
            (Some(other), _) => {
                return Err(ApiError::bad_data(format!(
                    "invalid sort_by {other:?} for {endpoint}: must be \"alpha\" or \"score\""
                )));
            }
        };
        Ok(Self {
            query: LabelQuery {
                selectors,
                start_ms: start_ms.max(0),
                end_ms: end_ms.min(MAX_TIMESTAMP_MS),
                limit: None,
                memory: Some(app.queries.memory()),
            },
            scorer: Scorer::new(terms.into_iter(), algorithm, threshold, is_case_sensitive),
            order,
            with_score,
            limit,
            batch_size,
        })
    }
}

fn time(params: &Params, name: &str) -> Result<Option<i64>, ApiError> {
    let problem = |error| ApiError::bad_data(format!("invalid time value for '{name}': {error}"));
    params.parsed_time(name).map_err(problem)
}

fn threshold(params: &Params) -> Result<u8, ApiError> {
    let Some(text) = params.first("fuzz_threshold") else {
        return Ok(0);
    };
    let percent = text.parse::<i64>().ok();
    let percent = percent.filter(|percent| (0..=100).contains(percent));
    percent
        .and_then(|percent| u8::try_from(percent).ok())
        .ok_or_else(|| {
            ApiError::bad_data(format!("invalid fuzz_threshold {text:?}: must be 0-100"))
        })
}

fn algorithm(params: &Params) -> Result<Algorithm, ApiError> {
    let Some(name) = params.first("fuzz_alg") else {
        return Ok(Algorithm::Subsequence);
    };
    Algorithm::by_name(name).ok_or_else(|| {
        let names = Algorithm::ALL.map(|(name, _)| name).join(" ");
        ApiError::bad_data(format!(
            "unsupported fuzz_alg {name:?}: must be one of [{names}]"
        ))
    })
}

/// Checks that `sort_by` and `sort_dir` fit together.
fn check_order(params: &Params, has_terms: bool) -> Result<(), ApiError> {
    let (by, direction) = (params.first("sort_by"), params.first("sort_dir"));
    let problem = match (by, direction) {
        (None, Some(_)) => "sort_dir is only valid when sort_by is set".to_owned(),
        (Some("score"), Some(_)) => "sort_dir is not supported for sort_by=score".to_owned(),
        (_, Some(other)) if other != "asc" && other != "dsc" => {
            format!("invalid sort_dir {other:?}: must be \"asc\" or \"dsc\"")
        }
        (Some("score"), None) if !has_terms => {
            "sort_by=score requires search[] to be set".to_owned()
        }
        _ => return Ok(()),
    };
    Err(ApiError::bad_data(problem))
}

fn positive(params: &Params, name: &str) -> Result<Option<usize>, ApiError> {
    let Some(text) = params.first(name) else {
        return Ok(None);
    };
    match text.parse::<i64>() {
        Ok(number) if number > 0 => Ok(Some(usize::try_from(number).unwrap_or(usize::MAX))),
        _ => Err(ApiError::bad_data(format!(
            "invalid {name} {text:?}: must be a positive integer"
        ))),
    }
}

/// Reads a boolean in any spelling that Go's `strconv.ParseBool` takes.
fn boolean(params: &Params, name: &str, default: bool) -> Result<bool, ApiError> {
    match params.first(name) {
        None => Ok(default),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
        Some(text) => Err(ApiError::bad_data(format!(
            "invalid {name} {text:?}: must be boolean"
        ))),
    }
}

/// Reads what is looked through and answers. The slot of the read is held until then: patterns of
/// selectors take memory, too.
async fn find(
    app: &App,
    slot: OwnedSemaphorePermit,
    search: SearchParams,
    subject: Subject,
) -> Result<Response, ApiError> {
    let database = app.database()?.clone();
    let query = &search.query;
    let texts = match &subject {
        Subject::LabelNames => {
            let mut names = database.label_names(query).await?;
            event_series::add_label_names(app, query, &mut names).await?;
            names
        }
        Subject::Metrics { .. } => values(app, &database, METRIC_NAME, query).await?,
        Subject::LabelValues(label) => values(app, &database, label, query).await?,
    };
    let metadata = match subject {
        Subject::Metrics {
            with_metadata: true,
        } => {
            let events = view_metadata(&app.events()?.registry(), None);
            Some(Described {
                database,
                events: events.into_iter().collect(),
            })
        }
        _ => None,
    };
    let key = match subject {
        Subject::LabelValues(_) => "value",
        Subject::Metrics { .. } | Subject::LabelNames => "name",
    };
    let searching = Searching {
        texts,
        search,
        key,
        metadata,
    };
    let (head, answered) = oneshot::channel();
    tokio::task::spawn_blocking(move || searching.run(head, slot));
    answered.await.map_err(|_| {
        ApiError::internal("the search ended without an answer; the log has the cause")
    })
}

async fn values(
    app: &App,
    database: &Database,
    label: &str,
    query: &LabelQuery,
) -> Result<Vec<String>, ApiError> {
    let mut values = database.label_values(label, query).await?;
    event_series::add_label_values(app, label, query, &mut values).await?;
    Ok(values)
}

/// Type, unit and help of metrics.
struct Described {
    database: Database,
    /// Of metrics that are made of events.
    events: HashMap<String, Metadata>,
}

/// A search whose texts are read.
struct Searching {
    /// In order, each once.
    texts: Vec<String>,
    search: SearchParams,
    /// The key of a result.
    key: &'static str,
    metadata: Option<Described>,
}

/// A text that matches: its place, and how well.
#[derive(Clone, Copy)]
struct Hit {
    place: usize,
    score: f64,
}

impl Searching {
    /// Answers, unless the client has gone away.
    fn run(mut self, head: oneshot::Sender<Response>, slot: OwnedSemaphorePermit) {
        match self.hits(&head) {
            Ok(Some((hits, has_more))) => {
                let outgoing = AnswerSender::of_type(LINES_TYPE, head);
                // A client that has gone away needs no more.
                let _ = self.send(outgoing, &hits, has_more);
            }
            Ok(None) => {}
            Err(error) => {
                let _ = head.send(error.into_response());
            }
        }
        drop(slot);
    }

    /// The results in their order, and whether there are more; `None` without a client.
    fn hits(
        &mut self,
        head: &oneshot::Sender<Response>,
    ) -> Result<Option<(Vec<Hit>, bool)>, ApiError> {
        let (texts, search) = (&self.texts, &mut self.search);
        // One more than the limit tells whether there are more.
        let wanted = search.limit.saturating_add(1);
        let takes_all = search.order == Order::Score;
        let mut hits = Vec::new();
        for step in 0..texts.len() {
            if step % TEXTS_AT_ONCE == 0 && head.is_closed() {
                return Ok(None);
            }
            if !takes_all && hits.len() == wanted {
                break;
            }
            let place = match search.order {
                Order::Descending => texts.len() - 1 - step,
                Order::Ascending | Order::Score => step,
            };
            let Some(text) = texts.get(place) else { break };
            let score = match &mut search.scorer {
                None => Some(1.0),
                Some(scorer) => scorer.score(text).map_err(|_| {
                    ApiError::execution(format!(
                        "the search takes more than {STEPS_MAX} comparisons: narrow it with \
                         match[], or give fewer or shorter terms"
                    ))
                })?,
            };
            hits.extend(score.map(|score| Hit { place, score }));
        }
        if takes_all {
            hits.sort_unstable_by(by_score);
        }
        let has_more = hits.len() > search.limit;
        hits.truncate(search.limit);
        Ok(Some((hits, has_more)))
    }

    /// Writes results as fast as the client takes them.
    fn send(
        self,
        mut outgoing: AnswerSender,
        hits: &[Hit],
        has_more: bool,
    ) -> Result<(), ClientGone> {
        let mut out = Vec::new();
        // Without any result there is a line, too, so that a client always sees one.
        let batches = hits.chunks(self.search.batch_size);
        let none: &[Hit] = &[];
        let batches = batches.chain(hits.is_empty().then_some(none));
        for batch in batches {
            out.extend_from_slice(b"{\"results\":[");
            let metadata = self.metadata_of(batch);
            let mut metadata = metadata.iter();
            for (i, hit) in batch.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                self.write_hit(&mut out, hit, metadata.next().and_then(Option::as_ref));
                outgoing.flow(&mut out)?;
            }
            out.extend_from_slice(b"]}\n");
        }
        let end = format!("{{\"status\":\"success\",\"has_more\":{has_more}}}\n");
        out.extend_from_slice(end.as_bytes());
        outgoing.finish(out)
    }

    fn text_of(&self, hit: &Hit) -> &str {
        self.texts.get(hit.place).map_or("", String::as_str)
    }

    /// Metadata of the metrics of a batch; empty where it is not wanted.
    fn metadata_of(&self, batch: &[Hit]) -> Vec<Option<Metadata>> {
        let Some(Described { database, events }) = &self.metadata else {
            return Vec::new();
        };
        let names = batch.iter().map(|hit| self.text_of(hit));
        database.metric_metadata(names, |name, sent| {
            sent.or_else(|| events.get(name)).cloned()
        })
    }

    fn write_hit(&self, out: &mut Vec<u8>, hit: &Hit, metadata: Option<&Metadata>) {
        out.extend_from_slice(b"{\"");
        out.extend_from_slice(self.key.as_bytes());
        out.extend_from_slice(b"\":");
        write_string(out, self.text_of(hit));
        if self.search.with_score {
            // Scores are finite.
            out.extend_from_slice(format!(",\"score\":{}", hit.score).as_bytes());
        }
        if let Some(metadata) = metadata {
            for (key, text) in [
                ("type", metadata.metric_type.name()),
                ("help", &metadata.help),
                ("unit", &metadata.unit),
            ] {
                if !text.is_empty() {
                    out.extend_from_slice(format!(",\"{key}\":").as_bytes());
                    write_string(out, text);
                }
            }
        }
        out.push(b'}');
    }
}

/// The best first; of those that are alike, by their texts, which are in order.
fn by_score(a: &Hit, b: &Hit) -> Ordering {
    b.score
        .total_cmp(&a.score)
        .then_with(|| a.place.cmp(&b.place))
}
