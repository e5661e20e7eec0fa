//! Requests: one envelope, or an array of them.

use std::borrow::Cow;

use icecore_wire::json::{JsonReader, SyntaxError, TOO_DEEP};

use super::fields::read_fields;
use super::scan::{Faults, Result as Scanned, skip};
use super::{Envelope, limit, limits};
use crate::Problem;

/// One item of a batch.
#[derive(Clone, Debug)]
pub struct BatchItem<'a> {
    /// As it was sent, also if it is no identity.
    pub event_id: Option<Cow<'a, str>>,
    pub envelope: Result<Envelope<'a>, Problem>,
}

/// Reads a request that is one envelope.
pub fn parse_envelope(body: &[u8]) -> Result<Envelope<'_>, Problem> {
    let mut json = reader(body)?;
    let item = read_item(&mut json).and_then(|item| at_end(&mut json, item));
    item.map_err(|error| invalid_json(&error))?.envelope
}

/// Reads a request that is an array of envelopes. Items are judged one by one; what is no JSON is
/// refused as a whole.
pub fn parse_batch(body: &[u8]) -> Result<Vec<BatchItem<'_>>, Problem> {
    let mut json = reader(body)?;
    let mut items = Vec::new();
    let mut count = 0;
    let read = match json.peek() {
        Ok(b'[') => json.array(|json| {
            count += 1;
            if count > limits::MAX_BATCH_ITEMS {
                // The memory of the others is not needed any more.
                items.clear();
                return skip(json, &mut Faults::default());
            }
            items.push(read_item(json)?);
            Ok(())
        }),
        Ok(_) => {
            skip(&mut json, &mut Faults::default())
                .and_then(|()| at_end(&mut json, ()))
                .map_err(|error| invalid_json(&error))?;
            return Err(invalid_body("a batch must be an array of envelopes"));
        }
        Err(error) => Err(error),
    };
    read.and_then(|()| at_end(&mut json, ()))
        .map_err(|error| invalid_json(&error))?;
    if count > limits::MAX_BATCH_ITEMS {
        let detail = format!(
            "{count} envelopes are more than {}",
            limits::MAX_BATCH_ITEMS
        );
        return Err(Problem {
            status: 413,
            ..limit(detail)
        });
    }
    Ok(items)
}

fn read_item<'a>(json: &mut JsonReader<'a>) -> Scanned<BatchItem<'a>> {
    let mut faults = Faults::default();
    if json.peek()? != b'{' {
        skip(json, &mut faults)?;
        return Ok(BatchItem {
            event_id: None,
            envelope: Err(invalid_body("an envelope must be an object")),
        });
    }
    let mut nested_left = limits::MAX_NESTED_EVENTS;
    let mut fields = read_fields(json, &mut nested_left, &mut faults)?;
    let event_id = fields.id_text.take();
    let envelope = fields.into_envelope(&mut faults);
    Ok(BatchItem {
        event_id,
        envelope: faults.take().map_or(Ok(envelope), Err),
    })
}

fn reader(body: &[u8]) -> Result<JsonReader<'_>, Problem> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let detail = format!("the body is not UTF-8 at byte {}", error.valid_up_to());
        Problem::new(400, "ingest.invalid-json", detail)
    })?;
    Ok(JsonReader::new(text, limits::MAX_JSON_DEPTH))
}

fn at_end<T>(json: &mut JsonReader<'_>, read: T) -> Scanned<T> {
    if json.is_at_end() {
        Ok(read)
    } else {
        Err(json.error("expected the end"))
    }
}

pub(super) fn invalid_json(error: &SyntaxError) -> Problem {
    let SyntaxError { offset, reason } = error;
    if *reason == TOO_DEEP {
        return limit(format!("nested too deep at byte {offset}"));
    }
    let detail = format!("the body is not JSON: {reason} at byte {offset}");
    Problem::new(400, "ingest.invalid-json", detail)
}

fn invalid_body(detail: &str) -> Problem {
    Problem::new(400, "ingest.invalid-body", detail)
}
