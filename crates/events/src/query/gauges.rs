//! Questions about gauges.

use icecore_model::event::{Cell, GaugeCell};

use super::CellSource;
use super::answer::{AnswerValues, Column, write_answer};
use super::cells::{Table, each_cell};
use super::groups::Groups;
use super::json::{push_optional, push_string};
use super::request::{Asked, MAX_LIMIT, MetricRequest, invalid_field};
use crate::Problem;
use crate::time_text::time_text as text_of_ns;

/// The most values of an answer.
const VALUES_MAX: usize = 500_000;

/// How many intervals before a page are looked into for a value to carry over.
const CARRIED_INTERVALS: i64 = MAX_LIMIT as i64;

const HREF: &str = "/api/query/gauges";

/// Answers `POST /api/query/gauges`.
pub async fn query_gauges(source: &dyn CellSource, body: &[u8]) -> Result<String, Problem> {
    let request = MetricRequest::read(source, Asked::Gauge, body).await?;
    let fills = match request.body.text("fill")? {
        None | Some("none") => false,
        Some("previous") => true,
        Some(_) => return Err(invalid_field("fill", "must be previous or none")),
    };
    let mut table = Table::read(source, request.scan(), VALUES_MAX, merge).await?;
    if fills {
        let earlier = earlier_values(source, &request, &mut table.groups).await?;
        table.resize(request.intervals.count);
        carry_over(&mut table, earlier);
    }
    Ok(write_answer(request, &GaugeValues { table }, HREF))
}

type Observation = Option<GaugeCell>;

fn merge(known: &mut Observation, cell: Cell) -> Result<(), Problem> {
    let Cell::Gauge(cell) = cell else {
        return Ok(());
    };
    match known {
        Some(known) => known.merge(&cell).map_err(Problem::corrupt),
        None => {
            *known = Some(cell);
            Ok(())
        }
    }
}

/// For each group the value of its last interval before the page.
async fn earlier_values(
    source: &dyn CellSource,
    request: &MetricRequest,
    groups: &mut Groups,
) -> Result<Vec<Observation>, Problem> {
    let intervals = &request.intervals;
    let until_s = intervals.page_start_s();
    let reach_s = CARRIED_INTERVALS.saturating_mul(intervals.interval.seconds());
    let from_s = until_s.saturating_sub(reach_s).max(intervals.start_s);
    // The interval that each value is of: a later one replaces it, whatever the reducer.
    let mut latest: Vec<(i64, Observation)> = Vec::new();
    let mut each = |group: usize, start_s: i64, cell: Cell| {
        if latest.len() <= group {
            latest.resize(group + 1, (i64::MIN, None));
        }
        let (of_s, value) = &mut latest[group];
        let interval_s = intervals.interval.start_of(start_s);
        if interval_s > *of_s {
            (*of_s, *value) = (interval_s, None);
        }
        if interval_s < *of_s {
            return Ok(());
        }
        merge(value, cell)
    };
    for (metric, window) in request.scan().metrics {
        let cells = (metric.number, window);
        each_cell(source, cells, from_s..until_s, groups, &mut each).await?;
    }
    Ok(latest.into_iter().map(|(_, value)| value).collect())
}

fn carry_over(table: &mut Table<Observation>, earlier: Vec<Observation>) {
    for group in 0..table.groups.keys().len() {
        let mut last = earlier.get(group).copied().flatten();
        for value in table.group_mut(group) {
            match value {
                Some(value) => last = Some(*value),
                None => *value = last,
            }
        }
    }
}

struct GaugeValues {
    table: Table<Observation>,
}

const COLUMNS: [Column; 2] = [
    Column {
        name: "value",
        kind: "number",
    },
    Column {
        name: "observedAt",
        kind: "datetime",
    },
];

impl AnswerValues for GaugeValues {
    fn list_name(&self) -> &'static str {
        "values"
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn groups(&self) -> &Groups {
        &self.table.groups
    }

    fn is_empty(&self, group: usize, place: usize) -> bool {
        self.table.value(group, place).is_none()
    }

    fn write(&self, out: &mut String, group: usize, place: usize, column: usize) {
        let value = self.table.value(group, place);
        match (column, value) {
            (0, value) => push_optional(out, value.map(|cell| cell.value)),
            (_, Some(cell)) => push_string(out, &text_of_ns(cell.observed_ns)),
            (_, None) => out.push_str("null"),
        }
    }
}
