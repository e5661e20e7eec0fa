//! Questions about counters.

use icecore_model::event::Cell;

use super::CellSource;
use super::answer::{AnswerValues, Column, write_answer};
use super::cells::Table;
use super::groups::Groups;
use super::json::{push_integer, push_number};
use super::request::{Asked, MetricRequest};
use crate::{MetricKind, Problem};

/// The most values of an answer: a year of hours for more than a hundred keys.
const VALUES_MAX: usize = 1_000_000;

const HREF: &str = "/api/query/counters";

/// Answers `POST /api/query/counters`.
pub async fn query_counters(source: &dyn CellSource, body: &[u8]) -> Result<String, Problem> {
    let request = MetricRequest::read(source, Asked::Counter, body).await?;
    let is_sum = matches!(
        &request.metric.kind,
        MetricKind::Counter { sum_of: Some(_) }
    );
    let add = |total: &mut Total, cell: Cell| {
        if let Cell::Counter(cell) = cell {
            total.count = total.count.saturating_add(cell.count);
            total.sum += cell.sum;
        }
        Ok(())
    };
    let table = Table::read(source, request.scan(), VALUES_MAX, add).await?;
    let values = CounterValues { table, is_sum };
    Ok(write_answer(request, &values, HREF))
}

#[derive(Clone, Copy, Default)]
struct Total {
    count: i64,
    sum: f64,
}

struct CounterValues {
    table: Table<Total>,
    /// What is counted is the sum of an attribute.
    is_sum: bool,
}

const COUNTS: [Column; 1] = [Column {
    name: "count",
    kind: "integer",
}];

const SUMS: [Column; 2] = [
    Column {
        name: "count",
        kind: "number",
    },
    Column {
        name: "events",
        kind: "integer",
    },
];

impl AnswerValues for CounterValues {
    fn list_name(&self) -> &'static str {
        "counts"
    }

    fn columns(&self) -> &[Column] {
        if self.is_sum { &SUMS } else { &COUNTS }
    }

    fn groups(&self) -> &Groups {
        &self.table.groups
    }

    fn is_empty(&self, group: usize, place: usize) -> bool {
        self.table.value(group, place).count == 0
    }

    fn write(&self, out: &mut String, group: usize, place: usize, column: usize) {
        let total = self.table.value(group, place);
        if self.is_sum && column == 0 {
            push_number(out, total.sum);
        } else {
            push_integer(out, total.count);
        }
    }
}
