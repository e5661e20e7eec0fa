//! Whether an event satisfies a condition.
//!
//! Holds always:
//! - What is compared with a value is read as that value's type: `"3"` equals the integer 3.
//! - An event without the subject satisfies no clause, not even an unequal one.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::kept_values::kept_values;
use super::{Clause, Condition, Operand, Operator, Subject};
use crate::time_text::parse_time;
use crate::{Scalar, StoredEvent, Value, event_id_text};

impl Condition {
    pub fn holds(&self, event: &StoredEvent<'_>) -> bool {
        match self {
            Self::All(conditions) => conditions.iter().all(|c| c.holds(event)),
            Self::Any(conditions) => conditions.iter().any(|c| c.holds(event)),
            Self::Clause(clause) => clause.holds(event),
        }
    }
}

impl Clause {
    pub fn holds(&self, event: &StoredEvent<'_>) -> bool {
        match &self.subject {
            Subject::Attribute(path) => match event.attributes.get(path) {
                None | Some(Value::Null | Value::Json(_)) => false,
                Some(Value::Scalar(value)) => self.is_satisfied_by(value),
                Some(Value::List(values)) => values.iter().any(|v| self.is_satisfied_by(v)),
            },
            Subject::Column(name) => match column(event, name) {
                None => false,
                Some(ColumnValue::Scalar(value)) => self.is_satisfied_by(&value),
                Some(ColumnValue::Time(at_ns)) => self.is_satisfied_by_time(at_ns),
            },
            Subject::Kept(path) => {
                let mut values = kept_values(&event.rest, path);
                // A service without another name is called by its id.
                if values.is_empty() && path == "resource.service.name" {
                    values.push(Scalar::Text(Cow::Owned(event.service.to_string())));
                }
                values.iter().any(|value| self.is_satisfied_by(value))
            }
        }
    }

    fn is_satisfied_by(&self, value: &Scalar<'_>) -> bool {
        match (self.operator, &self.operand) {
            (Operator::Exists, _) => true,
            (_, Operand::None) => false,
            (operator, Operand::One(operand)) => satisfies(value, operator, operand),
            (Operator::In, Operand::Several(operands)) => {
                let equals = |operand| satisfies(value, Operator::Equal, operand);
                operands.iter().any(equals)
            }
            // None of them, or any of them.
            (operator @ Operator::NotEqual, Operand::Several(operands)) => operands
                .iter()
                .all(|operand| satisfies(value, operator, operand)),
            (operator, Operand::Several(operands)) => operands
                .iter()
                .any(|operand| satisfies(value, operator, operand)),
        }
    }

    /// Times may be compared with texts of times.
    fn is_satisfied_by_time(&self, at_ns: i64) -> bool {
        let read = |operand: &Scalar<'static>| match operand {
            Scalar::Text(text) => match parse_time(text) {
                Some(at_ns) => Scalar::Integer(at_ns),
                None => operand.clone(),
            },
            other => other.clone(),
        };
        let operand = match &self.operand {
            Operand::None => Operand::None,
            Operand::One(operand) => Operand::One(read(operand)),
            Operand::Several(operands) => Operand::Several(operands.iter().map(read).collect()),
        };
        let clause = Clause {
            subject: self.subject.clone(),
            operator: self.operator,
            operand,
        };
        clause.is_satisfied_by(&Scalar::Integer(at_ns))
    }
}

fn satisfies(value: &Scalar<'_>, operator: Operator, operand: &Scalar<'_>) -> bool {
    let order = || compare(value, operand);
    match operator {
        Operator::Equal | Operator::In => order() == Some(Ordering::Equal),
        Operator::NotEqual => order() != Some(Ordering::Equal),
        Operator::Greater => order() == Some(Ordering::Greater),
        Operator::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
        Operator::Less => order() == Some(Ordering::Less),
        Operator::LessOrEqual => order().is_some_and(Ordering::is_le),
        Operator::Like => is_like(&value.to_text(), &operand.to_text()),
        Operator::LikeAnyCase => {
            let folded = |scalar: &Scalar<'_>| scalar.to_text().to_lowercase();
            is_like(&folded(value), &folded(operand))
        }
        Operator::Exists => true,
    }
}

/// Compares in the type of the value; `None` if the operand has no such type.
fn compare(value: &Scalar<'_>, operand: &Scalar<'_>) -> Option<Ordering> {
    match value {
        Scalar::Text(text) => Some((**text).cmp(&*operand.to_text())),
        Scalar::Boolean(value) => {
            let operand = match operand {
                Scalar::Boolean(operand) => *operand,
                Scalar::Text(text) => text.parse().ok()?,
                _ => return None,
            };
            Some(value.cmp(&operand))
        }
        Scalar::Integer(value) => match number_of(operand)? {
            Scalar::Integer(operand) => Some(value.cmp(&operand)),
            Scalar::Number(operand) => compare_to_float(*value, operand),
            _ => None,
        },
        Scalar::Number(value) => match number_of(operand)? {
            Scalar::Integer(operand) => compare_to_float(operand, *value).map(Ordering::reverse),
            Scalar::Number(operand) => value.partial_cmp(&operand),
            _ => None,
        },
    }
}

/// An operand as an integer or a float.
fn number_of(operand: &Scalar<'_>) -> Option<Scalar<'static>> {
    match operand {
        Scalar::Integer(integer) => Some(Scalar::Integer(*integer)),
        Scalar::Number(number) => Some(Scalar::Number(*number)),
        Scalar::Text(text) => {
            let integer = text.parse().map(Scalar::Integer);
            integer.or_else(|_| text.parse().map(Scalar::Number)).ok()
        }
        Scalar::Boolean(_) => None,
    }
}

/// Compares exactly, where a float has fewer digits than the integer.
fn compare_to_float(integer: i64, float: f64) -> Option<Ordering> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if float.is_nan() {
        return None;
    }
    if float >= BEYOND {
        return Some(Ordering::Less);
    }
    if float < -BEYOND {
        return Some(Ordering::Greater);
    }
    let whole = float.floor();
    let by_whole = integer.cmp(&(whole as i64));
    let fraction = if float > whole {
        Ordering::Less
    } else {
        Ordering::Equal
    };
    Some(by_whole.then(fraction))
}

/// `%` stands for any text, `_` for one character, `\` takes the meaning of the next character.
pub fn is_like(text: &str, pattern: &str) -> bool {
    if pattern.contains(['_', '\\']) {
        is_like_by_characters(text, pattern)
    } else {
        has_parts(text, pattern)
    }
}

/// Matches a pattern of texts and `%`, in time linear in the text.
fn has_parts(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('%') else {
        return text == pattern;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('%').unwrap_or(("", rest));
    for part in middle.split('%') {
        let Some(at) = text.find(part) else {
            return false;
        };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

/// Matches any pattern, in time that grows with the product of the lengths.
fn is_like_by_characters(text: &str, pattern: &str) -> bool {
    let mut text = text.chars();
    let mut pattern = pattern.chars();
    // Where to go on with one more character for the last `%`.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let before = text.clone();
        let fits = match pattern.next() {
            Some('%') => {
                retry = Some((before, pattern.clone()));
                continue;
            }
            Some('_') => text.next().is_some(),
            Some('\\') => match pattern.next() {
                Some(literal) => text.next() == Some(literal),
                None => text.next() == Some('\\'),
            },
            Some(literal) => text.next() == Some(literal),
            None if text.as_str().is_empty() => return true,
            None => false,
        };
        if fits {
            continue;
        }
        let Some((mut skipped, rest)) = retry.take() else {
            return false;
        };
        if skipped.next().is_none() {
            return false;
        }
        text = skipped.clone();
        pattern = rest.clone();
        retry = Some((skipped, rest));
    }
}

enum ColumnValue<'a> {
    Scalar(Scalar<'a>),
    Time(i64),
}

/// What a column of an event has; `None` if nothing, or if there is no such column.
fn column<'a>(event: &'a StoredEvent<'_>, name: &str) -> Option<ColumnValue<'a>> {
    let text = |text: &'a str| ColumnValue::Scalar(Scalar::Text(Cow::Borrowed(text)));
    let owned = |text: String| ColumnValue::Scalar(Scalar::Text(Cow::Owned(text)));
    Some(match name {
        "service_id" => text(&event.service),
        "event_type" => text(&event.event_type),
        "name" => text(&event.name),
        "outcome" => text(&event.outcome),
        "kind" => text(event.kind?.name()),
        "error_code" => text(event.error_code.as_deref()?),
        "error_message" => text(event.error_message.as_deref()?),
        "correlation_id" => text(event.correlation_id.as_deref()?),
        "event_id" => owned(event_id_text(event.id)),
        "parent_event_id" => owned(event_id_text(event.parent?)),
        "trace_id" => owned(hex(&event.trace_id?)),
        "span_id" => owned(hex(&event.span_id?)),
        "parent_span_id" => owned(hex(&event.parent_span_id?)),
        "dim_hash" => owned(hex(&event.dimensions.0)),
        "synthetic" => ColumnValue::Scalar(Scalar::Boolean(event.synthetic)),
        "duration_nanos" => ColumnValue::Scalar(Scalar::Integer(event.duration_ns?)),
        "started_at" => ColumnValue::Time(event.started_ns),
        "ended_at" => ColumnValue::Time(event.ended_ns?),
        "received_at" => ColumnValue::Time(event.received_ns),
        _ => return None,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use icecore_model::event::{DimensionHash, EventId};
    use proptest::prelude::*;

    use super::*;
    use crate::{Attributes, EventKind};

    fn event() -> StoredEvent<'static> {
        let text = |text: &'static str| Scalar::Text(Cow::Borrowed(text));
        let leaves: Vec<(&str, Value<'static>)> = vec![
            ("channel", Value::Scalar(text("web"))),
            ("items", Value::Scalar(Scalar::Integer(3))),
            (
                "large",
                Value::Scalar(Scalar::Integer(9_007_199_254_740_993)),
            ),
            ("nothing", Value::Null),
            ("paid", Value::Scalar(Scalar::Boolean(true))),
            ("tags", Value::List(vec![text("a"), text("b")])),
            ("total", Value::Scalar(Scalar::Number(41.5))),
        ];
        let leaves = leaves.into_iter().map(|(path, value)| (path.into(), value));
        StoredEvent {
            service: "shop".into(),
            event_type: "order.placed".into(),
            name: "order.placed".into(),
            id: EventId([1; 16]),
            parent: None,
            started_ns: 1_794_218_401_250_000_000,
            ended_ns: None,
            received_ns: 0,
            duration_ns: Some(60_000_000),
            kind: Some(EventKind::Server),
            outcome: "SUCCESS".into(),
            error_code: None,
            error_message: None,
            trace_id: Some([0xab; 16]),
            span_id: None,
            parent_span_id: None,
            correlation_id: None,
            dimensions: DimensionHash::default(),
            synthetic: false,
            attributes: Attributes::from_leaves(leaves.collect()).unwrap(),
            rest: "".into(),
        }
    }

    fn clause(subject: Subject, operator: Operator, operand: Operand) -> Condition {
        Condition::Clause(Clause {
            subject,
            operator,
            operand,
        })
    }

    fn text(text: &str) -> Operand {
        Operand::One(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn attribute(path: &str, operator: Operator, operand: Operand) -> bool {
        clause(Subject::Attribute(path.into()), operator, operand).holds(&event())
    }

    fn of_column(name: &str, operator: Operator, operand: Operand) -> bool {
        clause(Subject::Column(name.into()), operator, operand).holds(&event())
    }

    #[test]
    fn values_are_compared_in_their_own_type() {
        use Operator::*;
        let integer = |value| Operand::One(Scalar::Integer(value));
        let number = |value| Operand::One(Scalar::Number(value));
        assert!(attribute("channel", Equal, text("web")));
        assert!(!attribute("channel", Equal, text("WEB")));
        assert!(attribute("channel", Greater, text("app")));
        assert!(attribute("items", Equal, integer(3)) && attribute("items", Equal, text("3")));
        assert!(attribute("items", Equal, number(3.0)) && attribute("items", Less, number(3.5)));
        assert!(attribute("items", GreaterOrEqual, integer(3)));
        assert!(!attribute("items", Greater, integer(3)) && attribute("items", Less, text("10")));
        // Both are the same as floats.
        assert!(!attribute("large", Equal, number(9_007_199_254_740_992.0)));
        assert!(attribute("large", Greater, number(9_007_199_254_740_992.0)));
        assert!(attribute("large", Less, number(f64::INFINITY)));
        assert!(
            attribute("total", Greater, integer(41))
                && attribute("total", LessOrEqual, text("41.5"))
        );
        assert!(attribute(
            "paid",
            Equal,
            Operand::One(Scalar::Boolean(true))
        ));
        assert!(attribute("paid", Equal, text("true")) && !attribute("paid", Equal, integer(1)));
        assert!(
            !attribute("items", Less, text("many")) && attribute("items", NotEqual, text("many"))
        );
        assert!(!attribute("items", Equal, Operand::None));
    }

    #[test]
    fn what_is_absent_satisfies_nothing() {
        for path in ["absent", "nothing"] {
            for operator in [Operator::NotEqual, Operator::Exists, Operator::Like] {
                assert!(!attribute(path, operator, text("x")), "{path}");
            }
        }
        assert!(attribute("items", Operator::Exists, Operand::None));
        assert!(!of_column("error_code", Operator::NotEqual, text("x")));
        assert!(!of_column("no_column", Operator::Exists, Operand::None));
    }

    #[test]
    fn any_element_of_a_list_will_do() {
        let several = |values: &[&str]| {
            let values = values
                .iter()
                .map(|v| Scalar::Text(Cow::Owned((*v).to_owned())));
            Operand::Several(values.collect())
        };
        assert!(attribute("tags", Operator::Equal, text("b")));
        assert!(!attribute("tags", Operator::Equal, text("c")));
        assert!(attribute("tags", Operator::In, several(&["c", "a"])));
        assert!(attribute("channel", Operator::In, several(&["app", "web"])));
        assert!(!attribute("channel", Operator::In, several(&[])));
        assert!(attribute("items", Operator::In, several(&["3"])));
    }

    #[test]
    fn patterns() {
        for (value, pattern, expected) in [
            ("c-19", "c-1%", true),
            ("c-19", "c-1_", true),
            ("c-19", "C-1%", false),
            ("c-19", "%9", true),
            ("c-19", "c", false),
            ("", "%", true),
            ("", "_", false),
            ("aab", "%a%b", true),
            ("aXbXc", "a%b%c", true),
            ("aXbX", "a%b%c", false),
            ("50%", "50\\%", true),
            ("500", "50\\%", false),
            ("größe", "gr__e", true),
            ("größe", "%ö%e", true),
            ("ab", "ab%b", false),
            ("abb", "ab%b", true),
            ("abcabc", "%bc%", true),
            ("abcabc", "%bc", true),
            ("abcabd", "%bc", false),
            ("", "", true),
            ("a", "", false),
            ("a", "%%", true),
            ("aaaaaaaaaaaaaaaaaaaaaaaa", "%a%a%a%a%a%a%a%a%b", false),
        ] {
            assert_eq!(is_like(value, pattern), expected, "{value} like {pattern}");
            let by_characters = is_like_by_characters(value, pattern);
            assert_eq!(by_characters, expected, "{value} like {pattern}");
        }
        assert!(attribute("channel", Operator::LikeAnyCase, text("W%")));
        assert!(attribute("items", Operator::Like, text("_")));
    }

    proptest! {
        #[test]
        fn parts_and_characters_match_alike(text in "[abé]{0,8}", pattern in "[abé%]{0,6}") {
            prop_assert_eq!(is_like(&text, &pattern), is_like_by_characters(&text, &pattern));
        }
    }

    #[test]
    fn columns_by_name() {
        assert!(of_column("service_id", Operator::Equal, text("shop")));
        assert!(of_column("kind", Operator::Equal, text("SERVER")));
        assert!(of_column(
            "trace_id",
            Operator::Equal,
            text(&"ab".repeat(16))
        ));
        assert!(of_column("event_id", Operator::Like, text("01010101-%")));
        assert!(of_column(
            "duration_nanos",
            Operator::Greater,
            Operand::One(Scalar::Integer(1))
        ));
        assert!(of_column(
            "started_at",
            Operator::GreaterOrEqual,
            text("2026-11-09T10:00:01.25Z")
        ));
        assert!(!of_column(
            "started_at",
            Operator::Less,
            text("2026-11-09T11:00:01.25+01:00")
        ));
        assert!(of_column("synthetic", Operator::Equal, text("false")));
        let web = clause(
            Subject::Attribute("channel".into()),
            Operator::Equal,
            text("web"),
        );
        let app = clause(
            Subject::Attribute("channel".into()),
            Operator::Equal,
            text("app"),
        );
        let both = || vec![web.clone(), app.clone()];
        assert!(!Condition::All(both()).holds(&event()) && Condition::Any(both()).holds(&event()));
        assert!(Condition::All(Vec::new()).holds(&event()));
    }
}
