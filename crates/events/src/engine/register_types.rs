//! Types that are registered because events of them came (`unconfigured: accept`).
//!
//! A change of the registry stops accepting for as long as a flush takes, so there is one for all
//! types that requests have asked for meanwhile, and not one for each.
//!
//! Holds always:
//! - While a change is under way, what others ask for is gathered for the next one.
//! - There are no more types than `max_accepted_types`. What comes beyond them stays unknown, and
//!   so does what has a name that no type may have.
//! - A type that the registry does not take keeps no other one out, and stops nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::Events;
use crate::{Documents, Problem, Registry, UpdateOptions};

/// Service and type.
pub(super) type TypeName = (String, String);

#[derive(Default)]
pub(super) struct UnregisteredTypes {
    /// What the next change is about.
    wanted: Mutex<BTreeSet<TypeName>>,
    /// One change at a time.
    changing: AsyncMutex<()>,
}

impl Events {
    /// Registers types without attributes, so that their events can be stored.
    pub(super) async fn register_types(&self, unknown: BTreeSet<TypeName>) -> Result<(), Problem> {
        let types = &self.engine.unregistered;
        types.wanted.lock().extend(unknown.iter().cloned());
        let _changing = types.changing.lock().await;
        let mut wanted = std::mem::take(&mut *types.wanted.lock());
        // Whoever held the lock before may have done it, or tried to.
        wanted.extend(unknown);
        let registry = self.registry();
        wanted.retain(|(service, name)| registry.event_type(service, name).is_none());
        let registered = registry.event_types().count();
        let room = self.engine.options.max_accepted_types;
        let documents = wanted.iter().filter_map(document);
        let documents = documents.take(room.saturating_sub(registered));
        let options = UpdateOptions {
            force: false,
            has_masking_key: self.engine.options.masking_key.is_some(),
        };
        let (_, taken) = acceptable(registry, documents.collect(), options);
        let documents: Documents = taken.into_iter().collect();
        // A change stops accepting for the length of a flush.
        if documents.is_empty() {
            return Ok(());
        }
        match self.apply(documents, false).await {
            Err(problem) if problem.status >= 500 => Err(problem),
            // Another change has come before: events of these types are unknown as before.
            Err(problem) => {
                tracing::warn!(%problem, "types of unknown events cannot be registered");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

#[cfg(test)]
impl UnregisteredTypes {
    /// Keeps changes from beginning for as long as the guard lives.
    pub(super) async fn hold(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// The number of types that the next change is about.
    pub(super) fn wanted(&self) -> usize {
        self.wanted.lock().len()
    }
}

/// Those of some documents that a registry takes, one after the other, and the registry with them.
fn acceptable(
    registry: Arc<Registry>,
    mut documents: Vec<Documents>,
    options: UpdateOptions,
) -> (Arc<Registry>, Vec<Documents>) {
    let all: Documents = documents.iter().cloned().collect();
    match registry.with(&all, options) {
        Ok(changed) => (Arc::new(changed), documents),
        Err(problem) if documents.len() <= 1 => {
            tracing::warn!(%problem, "the type of unknown events cannot be registered");
            (registry, Vec::new())
        }
        Err(_) => {
            let others = documents.split_off(documents.len() / 2);
            let (registry, mut taken) = acceptable(registry, documents, options);
            let (registry, more) = acceptable(registry, others, options);
            taken.extend(more);
            (registry, taken)
        }
    }
}

/// The document of a type, if it can have this name.
fn document((service, name): &TypeName) -> Option<Documents> {
    let document = serde_json::json!({
        "apiVersion": "obsinity/v1",
        "kind": "Event",
        "metadata": { "service": service, "name": name },
        "spec": {},
    });
    Documents::parse_yaml(&document.to_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(service: &str, name: &str) -> Documents {
        document(&(service.to_owned(), name.to_owned())).unwrap()
    }

    #[test]
    fn a_type_that_is_refused_keeps_no_other_one_out() {
        let options = UpdateOptions::default();
        let services = (0..10_000).map(|n| type_of(&format!("s{n}"), "a"));
        let full = Registry::default().with(&services.collect(), options);
        let full = Arc::new(full.unwrap());
        assert!(full.with(&type_of("one too many", "a"), options).is_err());
        let wanted = vec![
            type_of("s1", "b"),
            type_of("one too many", "a"),
            type_of("s2", "b"),
            type_of("s3", "b"),
            type_of("two too many", "a"),
        ];
        let (registry, taken) = acceptable(Arc::clone(&full), wanted, options);
        assert_eq!(taken.len(), 3);
        for service in ["s1", "s2", "s3"] {
            assert!(registry.event_type(service, "b").is_some());
        }
        assert_eq!(registry.services.len(), full.services.len());
        let (_, none) = acceptable(full, vec![type_of("three too many", "a")], options);
        assert!(none.is_empty());
    }
}
