//! Lists of events that could not be stored: pages of them, newest first.

use icecore_events::time_text::time_text;
use icecore_events::{DeadLetter, Problem, QuarantineEntry, event_id_text};
use serde_json::{Value, json};

use crate::middleware::params::Params;

/// Entries of one answer.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1_000;

/// Which part of a list.
pub(super) struct Page {
    /// Entries with smaller numbers, which are older ones.
    below: Option<u64>,
    limit: usize,
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

    /// The answer with the entries of this page.
    pub(super) fn list<T>(
        &self,
        newest_first: Vec<T>,
        number: impl Fn(&T) -> u64,
        shown: impl Fn(&T) -> Value,
    ) -> Value {
        let is_wanted = |entry: &&T| self.below.is_none_or(|below| number(entry) < below);
        let mut wanted = newest_first.iter().filter(is_wanted);
        let page: Vec<&T> = wanted.by_ref().take(self.limit).collect();
        let last = page.last().map(|entry| number(entry).to_string());
        let next = last.filter(|_| wanted.next().is_some());
        let items: Vec<Value> = page.into_iter().map(shown).collect();
        json!({"items": items, "nextCursor": next})
    }
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
        let list = |below: Option<u64>| {
            let page = Page { below, limit: 2 };
            page.list(vec![9, 7, 5, 3], |number| *number, |number| json!(number))
        };
        assert_eq!(list(None), json!({"items": [9, 7], "nextCursor": "7"}));
        assert_eq!(list(Some(7)), json!({"items": [5, 3], "nextCursor": null}));
        assert_eq!(list(Some(3)), json!({"items": [], "nextCursor": null}));
    }
}
