//! What follows from status and attributes: the outcome, the error, the duration.

use std::borrow::Cow;

use crate::envelope::{limit, limits};
use crate::{Attributes, Problem, Scalar, Value};

const SUCCESS: &str = "SUCCESS";
const FAILURE: &str = "FAILURE";
const UNKNOWN: &str = "UNKNOWN";

/// The outcome by the first rule that applies: status, lifecycle, outcome of the envelope, outcome
/// of the attributes, error.
pub(crate) fn outcome<'a>(
    status_code: Option<&str>,
    outcome: Option<&str>,
    attributes: &Attributes<'_>,
) -> Result<Cow<'a, str>, Problem> {
    let status = status_code.map(str::trim).unwrap_or_default();
    if is(status, "OK") {
        return Ok(Cow::Borrowed(SUCCESS));
    }
    if is(status, "ERROR") {
        return Ok(Cow::Borrowed(FAILURE));
    }
    if !status.is_empty() && !is(status, "UNSET") {
        return own_text(status);
    }
    if is_lifecycle(attributes, "COMPLETED") {
        return Ok(Cow::Borrowed(SUCCESS));
    }
    if is_lifecycle(attributes, "FAILED") {
        return Ok(Cow::Borrowed(FAILURE));
    }
    let of_attributes = attributes.scalar("outcome").map(Scalar::to_text);
    let texts = [outcome, of_attributes.as_deref()];
    if let Some(text) = texts
        .into_iter()
        .flatten()
        .map(str::trim)
        .find(|text| !text.is_empty())
    {
        return own_text(text);
    }
    Ok(Cow::Borrowed(if attributes.has("error") {
        FAILURE
    } else {
        UNKNOWN
    }))
}

fn is(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}

fn own_text<'a>(text: &str) -> Result<Cow<'a, str>, Problem> {
    let bytes_max = limits::MAX_OUTCOME_BYTES;
    if text.len() > bytes_max {
        return Err(limit(format!("outcome is longer than {bytes_max} bytes")));
    }
    let upper = text.to_uppercase();
    Ok(match &*upper {
        SUCCESS => Cow::Borrowed(SUCCESS),
        FAILURE => Cow::Borrowed(FAILURE),
        _ => Cow::Owned(upper),
    })
}

/// Whether the attribute `lifecycle` is such a word.
pub(crate) fn is_lifecycle(attributes: &Attributes<'_>, word: &str) -> bool {
    let lifecycle = attributes.text("lifecycle");
    lifecycle.is_some_and(|lifecycle| is(lifecycle.trim(), word))
}

/// Code and message of what failed; nothing of what did not.
pub(crate) fn error<'a>(
    outcome: &str,
    status_message: Option<Cow<'a, str>>,
    attributes: &Attributes<'a>,
) -> (Option<Cow<'a, str>>, Option<Cow<'a, str>>) {
    if outcome != FAILURE {
        return (None, None);
    }
    let status_message = status_message.filter(|message| !message.is_empty());
    let message = status_message.or_else(|| text_of(attributes, "error.message"));
    (text_of(attributes, "error.code"), message)
}

/// The text of an attribute, without its type.
pub(crate) fn text_of<'a>(attributes: &Attributes<'a>, path: &str) -> Option<Cow<'a, str>> {
    match attributes.get(path)? {
        // The clone of what is borrowed is borrowed.
        Value::Scalar(Scalar::Text(text)) => Some(text.clone()),
        Value::Scalar(other) => Some(Cow::Owned(other.to_text().into_owned())),
        _ => None,
    }
}

/// Nanoseconds that an event says it took, or that lie between its start and end.
pub(crate) fn duration(
    attributes: &Attributes<'_>,
    started_ns: i64,
    ended_ns: Option<i64>,
) -> Option<i64> {
    match attributes.scalar("duration.nanos") {
        Some(Scalar::Integer(duration_ns)) => Some(*duration_ns),
        _ => ended_ns.and_then(|ended_ns| ended_ns.checked_sub(started_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::parse_attributes;

    #[test]
    fn the_first_rule_that_applies_counts() {
        for (status, own, attributes, expected) in [
            (
                Some("OK"),
                Some("x"),
                r#"{"lifecycle":"FAILED","error":1}"#,
                "SUCCESS",
            ),
            (
                Some("ERROR"),
                Some("x"),
                r#"{"lifecycle":"COMPLETED"}"#,
                "FAILURE",
            ),
            (
                Some("timeout"),
                None,
                r#"{"lifecycle":"COMPLETED"}"#,
                "TIMEOUT",
            ),
            (
                Some("UNSET"),
                Some("x"),
                r#"{"lifecycle":"COMPLETED"}"#,
                "SUCCESS",
            ),
            (None, Some("x"), r#"{"lifecycle":"FAILED"}"#, "FAILURE"),
            (
                Some(" "),
                Some("partial"),
                r#"{"outcome":"other","error":1}"#,
                "PARTIAL",
            ),
            (None, Some("success"), "{}", "SUCCESS"),
            (None, Some(" "), r#"{"outcome":"déjà","error":1}"#, "DÉJÀ"),
            (None, None, r#"{"outcome":7,"lifecycle":"odd"}"#, "7"),
            (None, None, r#"{"outcome":"","error":"boom"}"#, "FAILURE"),
            (None, None, r#"{"error":{"code":1}}"#, "FAILURE"),
            (None, None, r#"{"error":null}"#, "UNKNOWN"),
            (None, None, "{}", "UNKNOWN"),
        ] {
            let parsed = parse_attributes(attributes).unwrap();
            assert_eq!(
                outcome(status, own, &parsed).unwrap(),
                expected,
                "{attributes}"
            );
        }
        let long = "x".repeat(limits::MAX_OUTCOME_BYTES + 1);
        let problem = outcome(None, Some(&long), &Attributes::default()).unwrap_err();
        assert_eq!(problem.code, "ingest.limit-exceeded");
    }

    #[test]
    fn only_what_failed_has_an_error() {
        let attributes = parse_attributes(r#"{"error":{"code":404.0,"message":"gone"}}"#).unwrap();
        assert_eq!(
            error("SUCCESS", Some("m".into()), &attributes),
            (None, None)
        );
        let code: Option<Cow<'_, str>> = Some("404".into());
        assert_eq!(
            error("FAILURE", Some("m".into()), &attributes),
            (code.clone(), Some("m".into()))
        );
        assert_eq!(
            error("FAILURE", None, &attributes),
            (code, Some("gone".into()))
        );
    }

    #[test]
    fn durations() {
        let said = parse_attributes(r#"{"duration.nanos":7}"#).unwrap();
        assert_eq!(duration(&said, 10, Some(30)), Some(7));
        let text = parse_attributes(r#"{"duration":{"nanos":"7"}}"#).unwrap();
        assert_eq!(duration(&text, 10, Some(30)), Some(20));
        assert_eq!(duration(&text, 10, None), None);
        assert_eq!(duration(&text, i64::MIN, Some(i64::MAX)), None);
    }
}
