//! Questions about the states of objects: how many are in each, and how they changed.

use std::sync::Arc;

use icecore_model::event::{Cell, EventWindow, GaugeCell};

use super::CellSource;
use super::cells::{PageScan, Table, each_cell};
use super::groups::{Grouping, Groups};
use super::interval::Intervals;
use super::json::{push, push_list, push_number, push_string, time_text};
use super::links::Links;
use super::request::{AnswerFormat, Body, DEFAULT_LIMIT, MAX_LIMIT, links_of, unknown};
use super::window_choice::{WindowChoice, cover, kept_since_s};
use crate::{Metric, Problem, Service, StateMetrics};

/// States of a page, unless the request says otherwise.
const STATES_LIMIT: usize = 50;
const STATES_LIMIT_MAX: usize = 1_000;

/// The most values of an answer.
const VALUES_MAX: usize = 500_000;

/// As the first state of an object has no state before it.
const NO_STATE: &str = "(none)";

/// The dimensions of counts and transitions.
const OBJECT_TYPE: &str = "object_type";
const ATTRIBUTE: &str = "attribute";
const STATE: &str = "state";
const FROM: &str = "from";
const TO: &str = "to";

/// Answers `POST /api/query/state-counts`.
pub async fn query_state_counts(source: &dyn CellSource, body: &[u8]) -> Result<String, Problem> {
    let body = Body::parse(body)?;
    let objects = Objects::parse(source, &body)?;
    let (offset, limit) = body.page(STATES_LIMIT, STATES_LIMIT_MAX)?;
    let (service, object_type, attribute) = (
        objects.service.number,
        &objects.object_type,
        &objects.attribute,
    );
    let counts = source.state_counts(service, object_type, attribute);
    let mut counts = counts.await?;
    if let Some(states) = wanted_states(&body, "states")? {
        let count = |state: String| {
            let found = counts.iter().find(|(known, _)| *known == state);
            let count = found.map_or(0, |(_, count)| *count);
            (state, count)
        };
        counts = states.into_iter().map(count).collect();
    }
    let total = counts.len();
    let page: Vec<_> = counts.into_iter().skip(offset).take(limit).collect();
    let format = body.format()?;
    let mut out = String::new();
    push(
        &mut out,
        format_args!(
            "{{\"count\":{},\"total\":{total},\"limit\":{limit},\"offset\":{offset},\
             \"format\":\"{}\",\"data\":{{\"states\":",
            page.len(),
            format.name(),
        ),
    );
    match format {
        AnswerFormat::Row => {
            push_states(&mut out, page.iter().map(|(s, n)| (s.as_str(), *n as f64)))
        }
        AnswerFormat::Columnar => push_state_columns(&mut out, &page),
    }
    out.push_str("},");
    let links = Links {
        href: "/api/query/state-counts",
        body: body.into_fields(),
        offset,
        limit,
        total,
    };
    links.write(&mut out);
    out.push('}');
    Ok(out)
}

fn push_states<'a>(out: &mut String, states: impl Iterator<Item = (&'a str, f64)>) {
    out.push('[');
    push_list(out, states, |out, (state, count)| {
        out.push_str("{\"state\":");
        push_string(out, state);
        out.push_str(",\"count\":");
        push_number(out, count);
        out.push('}');
    });
    out.push(']');
}

fn push_state_columns(out: &mut String, states: &[(String, i64)]) {
    out.push_str(
        "{\"schema\":{\"fields\":[{\"name\":\"state\",\"type\":\"string\"},\
         {\"name\":\"count\",\"type\":\"integer\"}]},\"data\":{\"state\":[",
    );
    push_list(out, states, |out, (state, _)| push_string(out, state));
    out.push_str("],\"count\":[");
    push_list(out, states, |out, (_, count)| {
        push(out, format_args!("{count}"))
    });
    out.push_str("]}}");
}

/// Answers `POST /api/query/state-transitions`.
pub async fn query_state_transitions(
    source: &dyn CellSource,
    body: &[u8],
) -> Result<String, Problem> {
    let body = Body::parse(body)?;
    let objects = Objects::parse(source, &body)?;
    let mut dimensions = objects.dimensions();
    dimensions.push((FROM, wanted_states(&body, "fromStates")?));
    dimensions.push((TO, wanted_states(&body, "toStates")?));
    let page = StatePage::parse(source, &objects.metrics.transitions, &body, dimensions)?;
    let add = |count: &mut i64, cell: Cell| {
        if let Cell::Counter(cell) = cell {
            *count = count.saturating_add(cell.count);
        }
        Ok(())
    };
    let table = Table::read(source, page.scan(), VALUES_MAX, add).await?;
    let order = table.groups.in_order();
    let write = |out: &mut String, place: usize| {
        let count = |group: &usize| *table.value(*group, place);
        let groups = order.iter().filter(|group| count(group) != 0);
        out.push_str(",\"transitions\":[");
        push_list(out, groups, |out, group| {
            let key = &table.groups.keys()[*group];
            for (name, at) in [("{\"fromState\":", 2), (",\"toState\":", 3)] {
                out.push_str(name);
                push_string(out, key[at].as_deref().unwrap_or_default());
            }
            push(out, format_args!(",\"count\":{}}}", count(group)));
        });
        out.push(']');
    };
    Ok(page.write(
        body,
        ("start", "end"),
        "/api/query/state-transitions",
        write,
    ))
}

/// Answers `POST /api/query/state-count-timeseries`.
pub async fn query_state_count_timeseries(
    source: &dyn CellSource,
    body: &[u8],
) -> Result<String, Problem> {
    let body = Body::parse(body)?;
    let objects = Objects::parse(source, &body)?;
    let mut dimensions = objects.dimensions();
    dimensions.push((STATE, wanted_states(&body, "states")?));
    let page = StatePage::parse(source, &objects.metrics.counts, &body, dimensions)?;
    let mut table = Table::read(source, page.scan(), VALUES_MAX, later).await?;
    let earlier = earlier_counts(source, &page, &mut table.groups).await?;
    table.resize(page.intervals.count);
    for group in 0..table.groups.keys().len() {
        let mut last = earlier.get(group).copied().flatten();
        for value in table.group_mut(group) {
            last = value.or(last);
            *value = last;
        }
    }
    let order = table.groups.in_order();
    let write = |out: &mut String, place: usize| {
        let state = |group: &usize| {
            let count = table.value(*group, place).as_ref()?;
            Some((table.groups.keys()[*group][2].as_deref()?, count.value))
        };
        out.push_str(",\"states\":");
        push_states(out, order.iter().filter_map(state));
    };
    Ok(page.write(
        body,
        ("from", "to"),
        "/api/query/state-count-timeseries",
        write,
    ))
}

/// Of counts the last one is taken, and never a sum.
fn later(known: &mut Option<GaugeCell>, cell: Cell) -> Result<(), Problem> {
    if let Cell::Gauge(cell) = cell {
        let is_later = known.is_none_or(|known| known.observed_ns <= cell.observed_ns);
        if is_later {
            *known = Some(cell);
        }
    }
    Ok(())
}

/// For each group the last count before the page.
async fn earlier_counts(
    source: &dyn CellSource,
    page: &StatePage,
    groups: &mut Groups,
) -> Result<Vec<Option<GaugeCell>>, Problem> {
    let windows: Vec<_> = page.metric.windows().collect();
    let until_s = page.intervals.page_start_s();
    let mut counts: Vec<Option<GaugeCell>> = Vec::new();
    // However long ago it was: of what is before this week there is one cell for each week.
    let since_s = kept_since_s(&page.metric, EventWindow::Week, source.guarded_ms());
    for part in cover(&windows, since_s, until_s) {
        let scan = (page.metric.number, part.window);
        let each = |group: usize, _, cell| {
            if counts.len() <= group {
                counts.resize(group + 1, None);
            }
            later(&mut counts[group], cell)
        };
        each_cell(source, scan, part.start_s..part.end_s, groups, each).await?;
    }
    Ok(counts)
}

/// The objects that a question is about.
struct Objects {
    service: Arc<Service>,
    metrics: StateMetrics,
    object_type: String,
    attribute: String,
}

impl Objects {
    fn parse(source: &dyn CellSource, body: &Body) -> Result<Self, Problem> {
        let service = body.service(source.registry())?;
        let object_type = body.required("objectType")?;
        let attribute = body.required("attribute")?;
        let of_type = |extractor: &&crate::StateExtractor| extractor.object_type == object_type;
        let followed = || service.states.iter().filter(of_type);
        if followed().next().is_none() {
            return Err(unknown(
                "query.unknown-object-type",
                "object type",
                object_type,
            ));
        }
        let is_followed = followed().any(|e| e.attributes.iter().any(|a| a == attribute));
        let metrics = service.state_metrics.clone().filter(|_| is_followed);
        let metrics = metrics
            .ok_or_else(|| unknown("query.unknown-attribute", "state attribute", attribute))?;
        Ok(Self {
            service: Arc::clone(service),
            metrics,
            object_type: object_type.to_owned(),
            attribute: attribute.to_owned(),
        })
    }

    /// The dimensions of metrics of states that tell these objects from others.
    fn dimensions(&self) -> Vec<(&'static str, Option<Vec<String>>)> {
        vec![
            (OBJECT_TYPE, Some(vec![self.object_type.clone()])),
            (ATTRIBUTE, Some(vec![self.attribute.clone()])),
        ]
    }
}

/// The states that a field names; `None` for all: if it is absent, empty, or has a `*`.
fn wanted_states(body: &Body, field: &str) -> Result<Option<Vec<String>>, Problem> {
    let states = body.texts(field)?.unwrap_or_default();
    if states.is_empty() || states.iter().any(|state| state == "*") {
        return Ok(None);
    }
    let canonical = |state: String| {
        if state.eq_ignore_ascii_case(NO_STATE) {
            NO_STATE.to_owned()
        } else {
            state
        }
    };
    Ok(Some(states.into_iter().map(canonical).collect()))
}

/// A page of intervals of a metric of states.
struct StatePage {
    metric: Arc<Metric>,
    intervals: Intervals,
    choice: WindowChoice,
    grouping: Grouping,
    limit: usize,
}

impl StatePage {
    fn parse(
        source: &dyn CellSource,
        metric: &Arc<Metric>,
        body: &Body,
        dimensions: Vec<(&str, Option<Vec<String>>)>,
    ) -> Result<Self, Problem> {
        let interval = body.interval()?;
        let range_ns = body.range_ns(source.now_ms())?;
        let page = body.page(DEFAULT_LIMIT, MAX_LIMIT)?;
        let intervals = Intervals::over(interval, range_ns, page);
        let choice = WindowChoice::of(metric, interval, intervals.start_s, source.guarded_ms())?;
        Ok(Self {
            metric: Arc::clone(metric),
            intervals,
            choice,
            grouping: Grouping::of(dimensions),
            limit: page.1,
        })
    }

    fn scan(&self) -> PageScan<'_> {
        PageScan {
            metrics: vec![(&self.metric, self.choice.window)],
            intervals: &self.intervals,
            grouping: &self.grouping,
        }
    }

    fn write(
        &self,
        body: Body,
        (from, to): (&str, &str),
        href: &'static str,
        write: impl Fn(&mut String, usize),
    ) -> String {
        let intervals = &self.intervals;
        let mut out = String::new();
        push(
            &mut out,
            format_args!(
                "{{\"count\":{},\"total\":{},\"limit\":{},\"offset\":{},\
                 \"format\":\"row\",\"window\":\"{}\",",
                intervals.count,
                intervals.total,
                self.limit,
                intervals.offset,
                self.choice.window.code(),
            ),
        );
        if self.choice.is_partial {
            out.push_str("\"partial\":true,");
        }
        out.push_str("\"data\":{\"intervals\":[");
        push_list(&mut out, 0..intervals.count, |out, place| {
            let start_s = intervals.start_of(intervals.offset + place);
            let end_s = start_s + intervals.interval.seconds();
            let (start, end) = (time_text(start_s), time_text(end_s));
            push(
                out,
                format_args!("{{\"{from}\":\"{start}\",\"{to}\":\"{end}\""),
            );
            write(out, place);
            out.push('}');
        });
        out.push_str("]},");
        links_of(body, intervals, self.limit, href).write(&mut out);
        out.push('}');
        out
    }
}
