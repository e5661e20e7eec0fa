//! Lists of events that could not be stored: pages of them, newest first.

use icecore_events::time_text::time_text;
use icecore_events::{DeadLetter, ListPage, Problem, QuarantineEntry, event_id_text};
use serde_json::{Value, json};

use crate::middleware::params::Params;

/// Entries of one answer.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1_000;

/// Which part of a list.
pub(super) struct Page {
    /// Entries with smaller numbers, which are older ones.
    pub(super) below: Option<u64>,
    pub(super) limit: usize,
}

impl Page {
    pub(super) fn of(params: &Params) -> Result<Self, Problem> {
        let number = |name: &str| {
            let parsed = params.first(name).map(str::parse::<u64>).transpose();
            parsed.map_err(|_| {
                let detail = format!("{name} must be a whole number");
                Problem::new(400, "request.invalid", detail)
            })
        };
        let limit = number("limit")?.map_or(LIMIT, |limit| {
            usize::try_from(limit)
                .unwrap_or(LIMIT_MAX)
                .clamp(1, LIMIT_MAX)
        });
        Ok(Self {
            below: number("cursor")?,
            limit,
        })
    }
}

/// The answer with a page of a list.
pub(super) fn answer<T>(
    page: &ListPage<T>,
    number: impl Fn(&T) -> u64,
    shown: impl Fn(&T) -> Value,
) -> Value {
    let last = page.items.last().filter(|_| page.has_more);
    let next = last.map(|entry| number(entry).to_string());
    let items: Vec<Value> = page.items.iter().map(shown).collect();
    json!({"items": items, "nextCursor": next})
}

pub(super) fn quarantine_json(entry: &QuarantineEntry) -> Value {
    json!({
        "service": entry.service,
        "eventType": entry.event_type,
        "eventId": event_id_text(entry.event_id),
        "startedAt": time_text(entry.started_ns),
        "receivedAt": time_text(entry.received_ns),
        "reason": entry.reason,
        "bytes": entry.bytes,
        "payload": entry.payload,
    })
}

pub(super) fn letter_json(letter: &DeadLetter) -> Value {
    json!({
        "source": letter.source,
        "reason": letter.reason,
        "detail": letter.detail,
        "receivedAt": time_text(letter.received_ns),
        "bytes": letter.bytes,
        "payload": letter.payload,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let list = |items: &[u64], has_more: bool| {
            let items = items.to_vec();
            let page = ListPage { items, has_more };
            answer(&page, |number| *number, |number| json!(number))
        };
        let first = json!({"items": [9, 7], "nextCursor": "7"});
        assert_eq!(list(&[9, 7], true), first);
        let last = json!({"items": [5, 3], "nextCursor": null});
        assert_eq!(list(&[5, 3], false), last);
        let none = json!({"items": [], "nextCursor": null});
        assert_eq!(list(&[], false), none);
    }
}
