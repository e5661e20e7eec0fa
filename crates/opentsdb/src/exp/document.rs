//! The document of a request, and whether it makes sense.

use std::collections::HashSet;

use jiff::tz::TimeZone;

use super::expression::Expression;
use super::join::{Join, SetOperator};
use super::reader::read;
use crate::error::Error;
use crate::json::Json;
use crate::query::{Aggregator, Downsampler, TagFilter};

/// Metrics of a request, and expressions of a request.
const ENTRIES_MAX: usize = 256;

/// What is wrong with a document.
pub(super) type Result<T> = std::result::Result<T, String>;

/// A request.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpQuery {
    pub(crate) name: Option<String>,
    pub(crate) time: Option<Time>,
    pub(crate) filters: Option<Vec<Filter>>,
    pub(crate) metrics: Option<Vec<Metric>>,
    pub(crate) expressions: Option<Vec<ExpressionEntry>>,
    pub(crate) outputs: Option<Vec<Output>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Time {
    pub(crate) start: Option<String>,
    pub(crate) end: Option<String>,
    pub(crate) timezone: Option<String>,
    pub(crate) downsampler: Option<DownsamplerEntry>,
    pub(crate) aggregator: Option<String>,
    pub(crate) rate: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DownsamplerEntry {
    pub(crate) interval: Option<String>,
    pub(crate) aggregator: Option<String>,
    /// Echoed, and without effect.
    pub(crate) fill: Option<Fill>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) id: String,
    pub(crate) tags: Option<Vec<TagFilter>>,
    pub(crate) explicit_tags: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Metric {
    pub(crate) id: String,
    pub(crate) metric: Option<String>,
    pub(crate) filter: Option<String>,
    pub(crate) aggregator: Option<String>,
    /// Echoed, and without effect.
    pub(crate) time_offset: Option<String>,
    pub(crate) fill: Option<Fill>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ExpressionEntry {
    pub(crate) id: String,
    pub(crate) text: String,
    /// `None` where the document has a join that names no operator.
    pub(crate) join: Option<Join>,
    pub(crate) fill: Option<Fill>,
    /// `None` where the text is none.
    pub(crate) expression: Option<Expression>,
    /// What is wrong with the text.
    pub(super) problem: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    pub(crate) id: String,
    pub(crate) alias: Option<String>,
}

/// What counts where there is no value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fill {
    pub(crate) policy: &'static str,
    pub(crate) value: f64,
}

impl ExpQuery {
    /// Reads a document and checks that it makes sense.
    pub(crate) fn parse(document: &Json<'_>) -> std::result::Result<Self, Error> {
        let query = read(document).map_err(Error::bad_request)?;
        query.check().map_err(Error::bad_request)?;
        Ok(query)
    }

    pub(crate) fn metrics(&self) -> &[Metric] {
        self.metrics.as_deref().unwrap_or_default()
    }

    pub(crate) fn expressions(&self) -> &[ExpressionEntry] {
        self.expressions.as_deref().unwrap_or_default()
    }

    pub(crate) fn filter(&self, id: &str) -> Option<&Filter> {
        self.filters.iter().flatten().find(|filter| filter.id == id)
    }

    fn check(&self) -> Result<()> {
        let time = self.time.as_ref().ok_or("missing time")?;
        if !time.is_valid() {
            return Err("Invalid time".into());
        }
        if self.metrics().is_empty() {
            return Err("missing or empty metrics".into());
        }
        if self.metrics().len().max(self.expressions().len()) > ENTRIES_MAX {
            return Err(format!(
                "There must not be more than {ENTRIES_MAX} metrics or expressions"
            ));
        }
        let mut ids = HashSet::new();
        for (i, metric) in self.metrics().iter().enumerate() {
            if !metric.is_valid() {
                return Err(format!("Invalid metric at index {i}"));
            }
            if !ids.insert(&metric.id) {
                return Err(format!("Duplicated metric id: {}", metric.id));
            }
        }
        for (i, filter) in self.filters.iter().flatten().enumerate() {
            if !is_id(&filter.id) {
                return Err(format!("Invalid filter at index {i}"));
            }
        }
        for (i, entry) in self.expressions().iter().enumerate() {
            if !is_id(&entry.id) || entry.text.is_empty() {
                return Err(format!("Invalid expression at index {i}"));
            }
            if let Some(problem) = &entry.problem {
                return Err(problem.clone());
            }
            if entry.join.is_none() {
                return Err("The set operator cannot be null".into());
            }
            if !ids.insert(&entry.id) {
                let id = &entry.id;
                return Err(format!("Duplicated variable or expression id: {id}"));
            }
        }
        for metric in self.metrics() {
            let filter = metric.filter.as_deref().filter(|id| !id.is_empty());
            if let Some(id) = filter.filter(|id| self.filter(id).is_none()) {
                return Err(format!(
                    "unrecognized filter id {id} in metric {}",
                    metric.id
                ));
            }
        }
        for entry in self.expressions() {
            let variables = entry.expression.iter().flat_map(|e| e.variables());
            if let Some(missing) = variables.clone().find(|name| !ids.contains(name)) {
                let text = &entry.text;
                return Err(format!("Expression [{text}] was missing input {missing}"));
            }
            if variables.clone().next().is_none() {
                let text = &entry.text;
                return Err(format!(
                    "No results for any variables in the expression: {text}"
                ));
            }
        }
        for (i, output) in self.outputs.iter().flatten().enumerate() {
            if output.id.is_empty() {
                return Err(format!("Invalid output at index {i}"));
            }
        }
        Ok(())
    }
}

impl Time {
    fn is_valid(&self) -> bool {
        let is_set = |text: &Option<String>| text.as_ref().is_some_and(|t| !t.is_empty());
        let aggregator = self.aggregator.as_deref().unwrap_or_default();
        let is_downsampler = |entry: &DownsamplerEntry| {
            let text = entry.text();
            is_set(&entry.interval) && Downsampler::parse(&text, false, &TimeZone::UTC).is_ok()
        };
        is_set(&self.start)
            && Aggregator::find(aggregator).is_some()
            && self.downsampler.as_ref().is_none_or(is_downsampler)
    }
}

impl DownsamplerEntry {
    /// As queries have it.
    pub(crate) fn text(&self) -> String {
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        format!("{}-{}", part(&self.interval), part(&self.aggregator))
    }
}

impl Metric {
    fn is_valid(&self) -> bool {
        let aggregator = self.aggregator.as_deref().filter(|name| !name.is_empty());
        is_id(&self.id)
            && self.metric.as_ref().is_some_and(|name| !name.is_empty())
            && aggregator.is_none_or(|name| Aggregator::find(name).is_some())
    }
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.chars().all(char::is_alphanumeric)
}

impl SetOperator {
    pub(super) fn find(name: &str) -> Option<Self> {
        let all = [Self::Union, Self::Intersection];
        all.into_iter()
            .find(|operator| operator.name().eq_ignore_ascii_case(name))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Union => "union",
            Self::Intersection => "intersection",
        }
    }
}

impl Fill {
    pub(super) fn new(policy: Option<&str>, value: f64) -> Result<Self> {
        let of = |policy, value| Ok(Self { policy, value });
        // Without a policy the value tells it.
        let Some(policy) = policy else {
            return match value {
                0.0 => of("zero", 0.0),
                _ if value.is_nan() => of("nan", value),
                _ => of("scalar", value),
            };
        };
        let is_missing = value == 0.0 || value.is_nan();
        match policy.to_ascii_lowercase().as_str() {
            "none" if is_missing => of("none", f64::NAN),
            "nan" if is_missing => of("nan", f64::NAN),
            "none" | "nan" => Err("The value for NONE and NAN must be NaN".into()),
            "null" if is_missing => of("null", f64::NAN),
            "null" => Err("The value for NULL must be 0".into()),
            "zero" if value == 0.0 => of("zero", 0.0),
            "zero" => Err("The value for ZERO must be 0".into()),
            "scalar" => of("scalar", value),
            _ => Err(format!("Unrecognized fill policy: {policy}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(change: impl Fn(&str) -> String) -> String {
        let document = r#"{"time":{"start":"1h-ago","aggregator":"sum"},
            "filters":[{"id":"f","tags":[]}],
            "metrics":[{"id":"a","metric":"m","filter":"f"},{"id":"b","metric":"n"}],
            "expressions":[{"id":"e","expr":"a + b","join":{"operator":"union"}}]}"#;
        let document = change(document);
        match ExpQuery::parse(&Json::parse(&document).unwrap()) {
            Ok(_) => String::new(),
            Err(error) => error.message,
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(problem(str::to_owned), "");
        for (from, to, message) in [
            (r#""time":"#, r#""times":"#, "missing time"),
            (r#""1h-ago""#, "null", "Invalid time"),
            (r#""sum""#, r#""foo""#, "Invalid time"),
            (r#""metrics":"#, r#""x":"#, "missing or empty metrics"),
            (r#""id":"b""#, r#""id":"b-1""#, "Invalid metric at index 1"),
            (r#""id":"b""#, r#""id":"a""#, "Duplicated metric id: a"),
            (
                r#""id":"e""#,
                r#""id":"a""#,
                "Duplicated variable or expression id: a",
            ),
            (r#""id":"e""#, r#""x":1"#, "Invalid expression at index 0"),
            (
                r#""filter":"f""#,
                r#""filter":"g""#,
                "unrecognized filter id g in metric a",
            ),
            ("a + b", "a + c", "Expression [a + c] was missing input c"),
            (
                "a + b",
                "1 + 2",
                "No results for any variables in the expression: 1 + 2",
            ),
            (
                r#""operator":"union""#,
                r#""x":1"#,
                "The set operator cannot be null",
            ),
            ("union", "foo", "Unrecognized set operator: foo"),
        ] {
            assert_eq!(problem(|d| d.replace(from, to)), message, "{to}");
        }
    }

    #[test]
    fn fills_have_values_that_fit() {
        assert_eq!(Fill::new(Some("zero"), 0.0).unwrap().value, 0.0);
        assert!(Fill::new(Some("NaN"), 0.0).unwrap().value.is_nan());
        assert_eq!(Fill::new(Some("scalar"), 7.0).unwrap().value, 7.0);
        assert_eq!(Fill::new(None, 7.0).unwrap().policy, "scalar");
        assert_eq!(
            Fill::new(Some("zero"), 3.0).unwrap_err(),
            "The value for ZERO must be 0"
        );
        assert_eq!(
            Fill::new(Some("foo"), 0.0).unwrap_err(),
            "Unrecognized fill policy: foo"
        );
    }
}
