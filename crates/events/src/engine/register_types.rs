//! Types that are registered because events of them came (`unconfigured: accept`).
//!
//! A change of the registry stops accepting for as long as a flush takes, so there is one for all
//! types that requests have asked for meanwhile, and not one for each.
//!
//! Holds always:
//! - While a change is under way, what others ask for is gathered for the next one.
//! - There are no more types than `max_accepted_types`. What comes beyond them stays unknown, and
//!   so does what has a name that no type may have.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::Events;
use crate::{Documents, Problem};

/// Service and type.
type TypeName = (String, String);

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
        let documents: Documents = documents.collect();
        // A change stops accepting for the length of a flush.
        if documents.is_empty() {
            return Ok(());
        }
        match self.apply(documents, false).await {
            Err(problem) if problem.status >= 500 => Err(problem),
            // The registry is full: events of these types are unknown as before.
            Err(problem) => {
                tracing::warn!(%problem, "types of unknown events cannot be registered");
                Ok(())
            }
            Ok(_) => Ok(()),
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
