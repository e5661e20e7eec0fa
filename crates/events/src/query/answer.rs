//! Answers as JSON text: intervals with their groups and rows, or columns.

use super::groups::{GroupKey, Groups};
use super::json::{push, push_list, push_string, time_text};
use super::request::{AnswerFormat, MetricRequest};

/// One of the values that an answer has for each group and interval.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// As columnar answers name types.
    pub(crate) kind: &'static str,
}

/// What there is for each group and interval.
pub(crate) trait AnswerValues {
    /// The name of the list of groups in an interval.
    fn list_name(&self) -> &'static str;

    fn columns(&self) -> &[Column];

    fn groups(&self) -> &Groups;

    /// Whether a row can be left out.
    fn is_empty(&self, group: usize, place: usize) -> bool;

    /// Writes the value of a column.
    fn write(&self, out: &mut String, group: usize, place: usize, column: usize);
}

/// The whole answer.
pub(crate) fn write_answer(
    request: MetricRequest,
    values: &dyn AnswerValues,
    href: &'static str,
) -> String {
    let page = Page::new(&request, values);
    let intervals = &request.intervals;
    let mut out = String::with_capacity(page.expected_bytes(request.format));
    push(
        &mut out,
        format_args!(
            "{{\"count\":{},\"total\":{},\"limit\":{},\"offset\":{},\
             \"format\":\"{}\",\"window\":\"{}\",",
            intervals.count,
            intervals.total,
            request.limit,
            intervals.offset,
            request.format.name(),
            request.choice.window.code(),
        ),
    );
    if request.choice.is_partial {
        out.push_str("\"partial\":true,");
    }
    out.push_str("\"data\":{\"intervals\":");
    match request.format {
        AnswerFormat::Row => {
            page.write_intervals(&mut out);
            out.push_str("},\"rows\":");
            page.write_rows(&mut out);
        }
        AnswerFormat::Columnar => {
            page.write_columns(&mut out);
            out.push('}');
        }
    }
    out.push(',');
    request.links(href).write(&mut out);
    out.push('}');
    out
}

struct Page<'a> {
    values: &'a dyn AnswerValues,
    /// Starts and ends of intervals, as text.
    times: Vec<String>,
    order: Vec<usize>,
    /// For each group in order its key as an object, and as fields of a row.
    keys: Vec<(String, String)>,
}

impl<'a> Page<'a> {
    fn new(request: &MetricRequest, values: &'a dyn AnswerValues) -> Self {
        let intervals = &request.intervals;
        let start_s = intervals.page_start_s();
        let seconds = intervals.interval.seconds();
        let time = |place: usize| time_text(start_s + place as i64 * seconds);
        let groups = values.groups();
        let order = groups.in_order();
        let key = |group: &usize| key_texts(groups.paths(), &groups.keys()[*group]);
        Self {
            values,
            times: (0..=intervals.count).map(time).collect(),
            keys: order.iter().map(key).collect(),
            order,
        }
    }

    fn places(&self) -> std::ops::Range<usize> {
        0..self.times.len().saturating_sub(1)
    }

    fn expected_bytes(&self, format: AnswerFormat) -> usize {
        let texts: usize = self
            .keys
            .iter()
            .map(|(key, row)| key.len() + row.len())
            .sum();
        let of_interval = match format {
            AnswerFormat::Row => 80 + texts + 100 * self.keys.len(),
            AnswerFormat::Columnar => texts + 80 * self.keys.len(),
        };
        1024 + of_interval * self.times.len()
    }

    fn write_intervals(&self, out: &mut String) {
        let name = self.values.list_name();
        out.push('[');
        push_list(out, self.places(), |out, place| {
            out.push('{');
            self.push_times(out, place);
            push(out, format_args!(",\"{name}\":["));
            push_list(
                out,
                self.order.iter().zip(&self.keys),
                |out, (group, key)| {
                    out.push_str("{\"key\":");
                    out.push_str(&key.0);
                    self.push_values(out, *group, place);
                    out.push('}');
                },
            );
            out.push_str("]}");
        });
        out.push(']');
    }

    fn write_rows(&self, out: &mut String) {
        let groups = || self.order.iter().zip(&self.keys);
        let all = self
            .places()
            .flat_map(|place| groups().map(move |(group, key)| (place, *group, key)));
        let rows = all.filter(|(place, group, _)| !self.values.is_empty(*group, *place));
        out.push('[');
        push_list(out, rows, |out, (place, group, key)| {
            out.push('{');
            self.push_times(out, place);
            out.push_str(&key.1);
            self.push_values(out, group, place);
            out.push('}');
        });
        out.push(']');
    }

    fn write_columns(&self, out: &mut String) {
        let groups = self.values.groups();
        let paths = groups.paths();
        let columns = self.values.columns();
        let of_times = ["from", "to"].map(|name| (name, "datetime"));
        let of_key = paths.iter().map(|path| (path.as_str(), "string"));
        let of_values = columns.iter().map(|column| (column.name, column.kind));
        let fields = of_times.into_iter().chain(of_key).chain(of_values);
        out.push_str("{\"schema\":{\"fields\":[");
        push_list(out, fields, |out, (name, kind)| {
            out.push_str("{\"name\":");
            push_string(out, name);
            push(out, format_args!(",\"type\":\"{kind}\"}}"));
        });
        out.push_str("]},\"data\":{\"from\":[");
        self.push_column(out, |out, _, place| push_string(out, &self.times[place]));
        out.push_str("],\"to\":[");
        self.push_column(out, |out, _, place| {
            push_string(out, &self.times[place + 1])
        });
        for (at, path) in paths.iter().enumerate() {
            out.push_str("],");
            push_string(out, path);
            out.push_str(":[");
            self.push_column(out, |out, group, _| match &groups.keys()[group][at] {
                Some(value) => push_string(out, value),
                None => out.push_str("null"),
            });
        }
        for (at, column) in columns.iter().enumerate() {
            push(out, format_args!("],\"{}\":[", column.name));
            self.push_column(out, |out, group, place| {
                self.values.write(out, group, place, at);
            });
        }
        out.push_str("]}}");
    }

    fn push_column(&self, out: &mut String, each: impl Fn(&mut String, usize, usize)) {
        let groups = |place| self.order.iter().map(move |group| (place, *group));
        let all = self.places().flat_map(groups);
        push_list(out, all, |out, (place, group)| each(out, group, place));
    }

    fn push_times(&self, out: &mut String, place: usize) {
        let (from, to) = (&self.times[place], &self.times[place + 1]);
        out.push_str("\"from\":\"");
        out.push_str(from);
        out.push_str("\",\"to\":\"");
        out.push_str(to);
        out.push('"');
    }

    fn push_values(&self, out: &mut String, group: usize, place: usize) {
        for (at, column) in self.values.columns().iter().enumerate() {
            out.push_str(",\"");
            out.push_str(column.name);
            out.push_str("\":");
            self.values.write(out, group, place, at);
        }
    }
}

/// A key as an object, and as fields that follow others.
fn key_texts(paths: &[String], key: &GroupKey) -> (String, String) {
    let mut row = String::new();
    for (path, value) in paths.iter().zip(key) {
        if let Some(value) = value {
            row.push(',');
            push_string(&mut row, path);
            row.push(':');
            push_string(&mut row, value);
        }
    }
    let fields = row.strip_prefix(',').unwrap_or_default();
    (format!("{{{fields}}}"), row)
}
