//! Where a page ends, and the next one goes on: a place in the order of events, so that new events
//! change nothing for those who read on.

use icecore_model::event::EventId;

use super::fields;
use crate::{Problem, StoredEvent, event_id_text, parse_event_id};

/// What events are ordered by; of equal times the one with the lesser id comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) by: OrderBy,
    pub(super) newest_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderBy {
    Started,
    Received,
}

/// A place in an order; the lesser comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The time, or its opposite.
    rank: i64,
    id: EventId,
}

impl Order {
    pub(super) fn place(self, event: &StoredEvent<'_>) -> Place {
        let at_ns = match self.by {
            OrderBy::Started => event.started_ns,
            OrderBy::Received => event.received_ns,
        };
        Place {
            rank: self.rank(at_ns),
            id: event.id,
        }
    }

    /// The place before all events of a moment.
    pub(super) fn first_place(self, at_ns: i64) -> Place {
        Place {
            rank: self.rank(at_ns),
            id: EventId::default(),
        }
    }

    fn rank(self, at_ns: i64) -> i64 {
        // The bits turned around, because the least number has no opposite.
        if self.newest_first { !at_ns } else { at_ns }
    }

    fn letter(self) -> char {
        match (self.by, self.newest_first) {
            (OrderBy::Started, true) => 's',
            (OrderBy::Started, false) => 'S',
            (OrderBy::Received, true) => 'r',
            (OrderBy::Received, false) => 'R',
        }
    }

    /// A place as text that says which order it is of.
    pub(super) fn cursor(self, place: Place) -> String {
        format!(
            "{}{}.{}",
            self.letter(),
            place.rank,
            event_id_text(place.id)
        )
    }

    pub(super) fn parse_cursor(self, cursor: &str) -> Result<Place, Problem> {
        let place = || {
            let (rank, id) = cursor.strip_prefix(self.letter())?.split_once('.')?;
            Some(Place {
                rank: rank.parse().ok()?,
                id: parse_event_id(id)?,
            })
        };
        place().ok_or_else(|| fields::invalid("cursor", "is not one of this order of events"))
    }
}
