//! `match` and `filter` as conditions.
//!
//! A clause is `{"attribute": …, "op": …, "value": …}`; lists, and lists named `and`, need all of
//! their clauses to hold, lists named `or` one of them.

use serde_json::Value;

use super::fields::{self, Fields};
use crate::query::{Clause, Condition, Operand, Operator, Subject};
use crate::{EventType, FieldType, Problem, Scalar};

/// Lists within lists.
const DEPTH_MAX: usize = 16;

/// Clauses of a condition, and values of a list.
const CLAUSES_MAX: usize = 256;
const VALUES_MAX: usize = 1_000;

/// Most characters of a pattern. The time that one takes grows with its length times the text's.
const PATTERN_CHARACTERS_MAX: usize = 1_024;

/// What clauses may be about.
pub(super) enum Subjects<'r> {
    /// Attributes that one of these types has an index for.
    Indexed(&'r [&'r EventType]),
    /// Every path of an envelope, and columns.
    All,
}

pub(super) struct Reader<'r> {
    subjects: Subjects<'r>,
    clauses_left: usize,
}

impl<'r> Reader<'r> {
    pub(super) fn new(subjects: Subjects<'r>) -> Self {
        Self {
            subjects,
            clauses_left: CLAUSES_MAX,
        }
    }

    pub(super) fn read(&mut self, value: &Value) -> Result<Condition, Problem> {
        self.condition(value, DEPTH_MAX)
    }

    fn condition(&mut self, value: &Value, depth: usize) -> Result<Condition, Problem> {
        if depth == 0 {
            return Err(too_much(format!("conditions nest deeper than {DEPTH_MAX}")));
        }
        let fields = match value {
            Value::Array(parts) => return Ok(Condition::All(self.parts(parts, depth)?)),
            Value::Object(fields) => fields,
            _ => return Err(wrong("a condition must be an object or a list")),
        };
        let list = |name: &str| match fields::get(fields, name) {
            None => Ok(None),
            Some(Value::Array(parts)) => Ok(Some(parts)),
            Some(_) => Err(wrong(&format!("{name} must be a list of conditions"))),
        };
        match (list("and")?, list("or")?) {
            (None, None) => self.clause(fields).map(Condition::Clause),
            (Some(and), None) => Ok(Condition::All(self.parts(and, depth)?)),
            (None, Some(or)) if or.is_empty() => Err(wrong("or needs at least one condition")),
            (None, Some(or)) => Ok(Condition::Any(self.parts(or, depth)?)),
            (Some(_), Some(_)) => Err(wrong("a condition has and, or, or a clause")),
        }
    }

    fn parts(&mut self, parts: &[Value], depth: usize) -> Result<Vec<Condition>, Problem> {
        let parts = parts.iter();
        parts.map(|part| self.condition(part, depth - 1)).collect()
    }

    fn clause(&mut self, fields: &Fields) -> Result<Clause, Problem> {
        self.clauses_left = self
            .clauses_left
            .checked_sub(1)
            .ok_or_else(|| too_much(format!("more than {CLAUSES_MAX} clauses")))?;
        let mut name = None;
        for spelling in ["attribute", "path", "field"] {
            name = name.or(fields::text(fields, spelling)?);
        }
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| wrong("a clause needs an attribute or a path"))?;
        let op = fields::text(fields, "op")?.unwrap_or("=");
        let operator = operator(op)?;
        let value = fields::get(fields, "value").or(fields::get(fields, "values"));
        let operand = operand(name, operator, value)?;
        let subject = match &self.subjects {
            Subjects::Indexed(types) => indexed(types, name, &operand)?,
            Subjects::All => subject(name)?,
        };
        Ok(Clause {
            subject,
            operator,
            operand,
        })
    }
}

fn operator(op: &str) -> Result<Operator, Problem> {
    Ok(match op.to_ascii_lowercase().as_str() {
        "=" | "==" | "eq" => Operator::Equal,
        "!=" | "<>" | "ne" => Operator::NotEqual,
        "like" => Operator::Like,
        "ilike" => Operator::LikeAnyCase,
        ">" | "gt" => Operator::Greater,
        ">=" | "gte" => Operator::GreaterOrEqual,
        "<" | "lt" => Operator::Less,
        "<=" | "lte" => Operator::LessOrEqual,
        "in" => Operator::In,
        "exists" => Operator::Exists,
        _ => {
            let detail = format!("there is no operator {op:?}");
            let hint = "= != like ilike > >= < <= in exists";
            return Err(Problem::new(400, "query.invalid-operator", detail).with_hint(hint));
        }
    })
}

fn operand(name: &str, operator: Operator, value: Option<&Value>) -> Result<Operand, Problem> {
    match (operator, value) {
        (Operator::Exists, _) => Ok(Operand::None),
        (Operator::In, Some(Value::Array(values))) => {
            if values.len() > VALUES_MAX {
                return Err(too_much(format!(
                    "{name} has more than {VALUES_MAX} values"
                )));
            }
            let scalars = values.iter().map(|value| scalar(name, value));
            scalars.collect::<Result<_, _>>().map(Operand::Several)
        }
        (Operator::In, _) => Err(wrong(&format!("{name} in needs a list of values"))),
        (Operator::Like | Operator::LikeAnyCase, Some(Value::String(text))) => {
            if text.chars().count() > PATTERN_CHARACTERS_MAX {
                return Err(too_much(format!(
                    "the pattern for {name} has more than {PATTERN_CHARACTERS_MAX} characters"
                )));
            }
            Ok(Operand::One(Scalar::Text(text.clone().into())))
        }
        (Operator::Like | Operator::LikeAnyCase, _) => {
            Err(wrong(&format!("{name} like needs a text")))
        }
        (_, Some(value)) => scalar(name, value).map(Operand::One),
        (_, None) => Err(wrong(&format!("the clause on {name} needs a value"))),
    }
}

fn scalar(name: &str, value: &Value) -> Result<Scalar<'static>, Problem> {
    let scalar = match value {
        Value::String(text) => Some(Scalar::Text(text.clone().into())),
        Value::Bool(flag) => Some(Scalar::Boolean(*flag)),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Some(Scalar::Integer(integer)),
            None => number.as_f64().map(Scalar::Number),
        },
        _ => None,
    };
    scalar.ok_or_else(|| {
        wrong(&format!(
            "{name} is compared with a text, number or boolean"
        ))
    })
}

/// An attribute that has an index, with a value of its type.
fn indexed(types: &[&EventType], name: &str, operand: &Operand) -> Result<Subject, Problem> {
    let path = attribute_path(name).unwrap_or(name);
    let declared = types
        .iter()
        .flat_map(|event_type| event_type.indexed_fields());
    let mut kinds = declared
        .filter(|field| field.path == path)
        .map(|field| field.kind);
    let Some(first) = kinds.next() else {
        let detail = format!("attribute {path} is not indexed");
        let hint =
            "filter looks at any attribute; index: true in the event's schema makes an index";
        return Err(Problem::new(400, "query.attribute-not-indexed", detail).with_hint(hint));
    };
    let values = match operand {
        Operand::None => &[][..],
        Operand::One(one) => std::slice::from_ref(one),
        Operand::Several(several) => several,
    };
    // Types of one service may declare a path differently; each event is compared as its own type.
    let same = kinds.all(|kind| kind == first);
    if let Some(value) = values.iter().find(|value| same && !is_of(value, first)) {
        let detail = format!("{path} is never {:?}", value.to_text());
        return Err(Problem::new(400, "query.invalid-value", detail));
    }
    Ok(Subject::Attribute(path.to_owned()))
}

/// Whether a value can be compared with those of a declared type.
fn is_of(value: &Scalar<'_>, kind: FieldType) -> bool {
    use FieldType::{ArrayOfBoolean, ArrayOfInteger, ArrayOfNumber, Boolean, Integer, Number};
    match (kind, value) {
        (Integer | Number | ArrayOfInteger | ArrayOfNumber, Scalar::Text(text)) => {
            text.parse::<f64>().is_ok()
        }
        (Integer | Number | ArrayOfInteger | ArrayOfNumber, Scalar::Boolean(_)) => false,
        (Boolean | ArrayOfBoolean, Scalar::Boolean(_)) => true,
        (Boolean | ArrayOfBoolean, Scalar::Text(text)) => matches!(&**text, "true" | "false"),
        (Boolean | ArrayOfBoolean, _) => false,
        _ => true,
    }
}

fn attribute_path(name: &str) -> Option<&str> {
    name.strip_prefix("attributes.")
        .or(name.strip_prefix("attr."))
}

/// Columns by their names in answers.
const COLUMNS: [&str; 19] = [
    "service_id",
    "event_type",
    "name",
    "event_id",
    "parent_event_id",
    "started_at",
    "ended_at",
    "received_at",
    "duration_nanos",
    "kind",
    "outcome",
    "error_code",
    "error_message",
    "trace_id",
    "span_id",
    "parent_span_id",
    "correlation_id",
    "dim_hash",
    "synthetic",
];

/// The same by their places in an envelope.
const ENVELOPE: [(&str, &str); 21] = [
    ("eventId", "event_id"),
    ("event.id", "event_id"),
    ("event.name", "event_type"),
    ("event.type", "event_type"),
    ("event.kind", "kind"),
    ("trace.traceId", "trace_id"),
    ("trace.spanId", "span_id"),
    ("trace.parentSpanId", "parent_span_id"),
    ("trace.correlationId", "correlation_id"),
    ("time.startedAt", "started_at"),
    ("time.endedAt", "ended_at"),
    ("receivedAt", "received_at"),
    ("resource.service.id", "service_id"),
    ("time.startUnixNano", "started_at"),
    ("time.endUnixNano", "ended_at"),
    ("startedAt", "started_at"),
    ("startUnixNano", "started_at"),
    ("occurredAt", "started_at"),
    ("timestamp", "started_at"),
    ("endedAt", "ended_at"),
    ("endUnixNano", "ended_at"),
];

/// An attribute, a column, or a place in an envelope.
fn subject(name: &str) -> Result<Subject, Problem> {
    if let Some(path) = attribute_path(name) {
        return Ok(Subject::Attribute(path.to_owned()));
    }
    let in_envelope = ENVELOPE.iter().find(|(place, _)| *place == name);
    let column = in_envelope.map_or(name, |(_, column)| column);
    if COLUMNS.contains(&column) {
        return Ok(Subject::Column(column.to_owned()));
    }
    if let Some(path) = kept_path(name) {
        return Ok(Subject::Kept(path.to_owned()));
    }
    let detail = format!("{name} is no path that events can be filtered by");
    let hint = "attributes.<path>, resource.<path>, trace.*, event.*, time.*, status.*, outcome, \
                or a column of the answer";
    Err(Problem::new(400, "query.unknown-path", detail).with_hint(hint))
}

/// Where an envelope's path is in what is kept as JSON. Links are kept, too, and never compared.
fn kept_path(name: &str) -> Option<&str> {
    match name {
        "trace.state" => Some("traceState"),
        "status.code" | "status.message" => Some(name),
        _ => name.starts_with("resource.").then_some(name),
    }
}

fn wrong(detail: &str) -> Problem {
    Problem::new(400, "query.invalid-condition", detail)
}

fn too_much(detail: String) -> Problem {
    Problem::new(400, "query.limit-exceeded", detail)
}
