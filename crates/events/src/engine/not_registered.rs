//! Types that events came of and that are not registered: what is answered and logged about them.
//!
//! Holds always: a type is logged once for as long as the process runs.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use super::register_types::TypeName;

/// The number of types that are named in one answer.
const ANSWERED_MAX: usize = 10;

/// The number of types that are logged. Beyond it the list of the quarantine has them.
const LOGGED_MAX: usize = 1_000;

/// A type that is not registered, and what became of the events of it in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRegistered {
    pub service: String,
    pub event_type: String,
    /// Set if the quarantine has the content of all these events.
    pub is_content_kept: bool,
}

impl NotRegistered {
    pub fn detail(&self) -> String {
        let Self {
            service,
            event_type,
            is_content_kept,
        } = self;
        let content = if *is_content_kept {
            "its events are in quarantine with their content"
        } else {
            "the content of its events was not kept"
        };
        format!("type {event_type:?} of service {service:?} is not registered: {content}")
    }

    /// The cure.
    pub fn hint(&self) -> &'static str {
        if self.is_content_kept {
            "register the type with `icecore events apply`, and the events are stored, masked as \
             its document says"
        } else {
            "register the type with `icecore events apply` and send the events again; with \
             events.keep_payload the content of such events is kept until then"
        }
    }
}

/// Types of one request that are not registered, each with whether all content was kept.
#[derive(Debug, Default)]
pub(super) struct UnknownTypes(BTreeMap<TypeName, bool>);

impl UnknownTypes {
    pub(super) fn add(&mut self, name: TypeName, is_content_kept: bool) {
        *self.0.entry(name).or_insert(true) &= is_content_kept;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn names(&self) -> BTreeSet<TypeName> {
        self.0.keys().cloned().collect()
    }

    /// The first of them, for an answer.
    pub(super) fn answered(&self) -> Vec<NotRegistered> {
        self.all().take(ANSWERED_MAX).collect()
    }

    fn all(&self) -> impl Iterator<Item = NotRegistered> {
        let types = self.0.iter();
        types.map(|((service, event_type), is_content_kept)| NotRegistered {
            service: service.clone(),
            event_type: event_type.clone(),
            is_content_kept: *is_content_kept,
        })
    }
}

/// The types that were logged.
#[derive(Default)]
pub(super) struct LoggedTypes(Mutex<BTreeSet<TypeName>>);

impl LoggedTypes {
    /// Logs those types that were not logged before.
    pub(super) fn log(&self, types: &UnknownTypes) {
        for unknown in types.all() {
            if self.is_new(&unknown) {
                tracing::warn!(
                    service = unknown.service,
                    event_type = unknown.event_type,
                    hint = unknown.hint(),
                    "{}",
                    unknown.detail()
                );
            }
        }
    }

    fn is_new(&self, unknown: &NotRegistered) -> bool {
        let mut logged = self.0.lock();
        let name = (unknown.service.clone(), unknown.event_type.clone());
        logged.len() < LOGGED_MAX && logged.insert(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(event_type: &str) -> TypeName {
        ("shop".into(), event_type.into())
    }

    #[test]
    fn content_is_kept_if_that_of_all_events_is() {
        let mut types = UnknownTypes::default();
        types.add(name("a"), true);
        types.add(name("b"), true);
        types.add(name("b"), false);
        types.add(name("b"), true);
        let kept: Vec<bool> = types.all().map(|known| known.is_content_kept).collect();
        assert_eq!(kept, [true, false]);
        let hints: Vec<_> = types.all().map(|known| known.hint()).collect();
        assert!(!hints[0].contains("keep_payload"), "{hints:?}");
        assert!(hints[1].contains("events.keep_payload"), "{hints:?}");
        for number in 0..100 {
            types.add(name(&format!("c{number}")), true);
        }
        assert_eq!(types.answered().len(), ANSWERED_MAX);
        assert_eq!(types.names().len(), 102);
    }

    #[test]
    fn a_type_is_logged_once() {
        let logged = LoggedTypes::default();
        let mut types = UnknownTypes::default();
        types.add(name("a"), false);
        let unknown = types.answered().remove(0);
        assert!(logged.is_new(&unknown));
        assert!(!logged.is_new(&unknown));
        for number in 0..2 * LOGGED_MAX {
            let event_type = format!("c{number}");
            let is_new = logged.is_new(&NotRegistered {
                event_type,
                ..unknown.clone()
            });
            assert_eq!(is_new, number + 1 < LOGGED_MAX);
        }
    }
}
