//! Accepting the events of one request: recognise repeats, append, wait, add.
//!
//! ```text
//! identities ─► in flight? wait ─► unflushed? stored? ─► duplicate
//!     └► reserved ─► appended as one block ─► durable ─► generation and tail ─► answered
//! ```
//!
//! Holds always:
//! - An event is answered as stored or as a duplicate only when it is durable and can be read.
//! - Nothing is added before it is durable, and everything that is durable is added: once a request
//!   has got as far as appending, it goes on when nobody waits for its answer any more.
//! - A request that waits for another one has reserved nothing, so none can wait in a circle.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use icecore_model::StoreError;
use icecore_model::event::IdentityKey;

use super::Engine;
use super::commit_order::Outcome;
use super::memory::FoldedBlock;
use super::states::{ObjectKey, ObjectState};
use crate::{Problem, catalog_key};

/// The events of a request: of each envelope the event itself, then those nested in it.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) identities: Vec<IdentityKey>,
    pub(super) groups: Vec<Range<usize>>,
}

/// Which events are stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// For each event.
    pub(super) is_new: Vec<bool>,
    /// For each envelope: whether it was stored before.
    pub(super) is_duplicate: Vec<bool>,
}

/// Identities that a request is about to store. Nobody else stores them meanwhile.
pub(super) struct Reservation {
    engine: Arc<Engine>,
    identities: Vec<IdentityKey>,
}

impl Groups {
    /// Judges each event by whether it is known. The first of equal ones in a request is the one
    /// that counts, and what is nested in a repeat is a repeat.
    fn judge(&self, is_known: impl Fn(&IdentityKey) -> bool) -> Judgement {
        let mut judgement = Judgement {
            is_new: vec![false; self.identities.len()],
            is_duplicate: Vec::with_capacity(self.groups.len()),
        };
        let mut seen = HashSet::with_capacity(self.identities.len());
        for group in &self.groups {
            let own = self.identities.get(group.start);
            let is_duplicate = own.is_some_and(|own| seen.contains(own) || is_known(own));
            judgement.is_duplicate.push(is_duplicate);
            if is_duplicate {
                continue;
            }
            for at in group.clone() {
                let identity = &self.identities[at];
                judgement.is_new[at] = !is_known(identity) && seen.insert(*identity);
            }
        }
        judgement
    }

    fn new_ones(&self, judgement: &Judgement) -> Vec<IdentityKey> {
        let events = self.identities.iter().zip(&judgement.is_new);
        let new = events.filter(|(_, is_new)| **is_new);
        new.map(|(identity, _)| *identity).collect()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.engine.memory.lock().release(&self.identities);
        self.engine.resolved.notify_waiters();
    }
}

impl Engine {
    /// Judges which events are repeats, and reserves the others.
    pub(super) async fn reserve(
        self: &Arc<Self>,
        events: &Groups,
    ) -> Result<(Judgement, Reservation), Problem> {
        let (mut judgement, reservation) = self.reserve_in_memory(events).await;
        let stored = self.stored_identities(&reservation.identities).await?;
        if !stored.is_empty() {
            let reserved: HashSet<&IdentityKey> = reservation.identities.iter().collect();
            judgement =
                events.judge(|identity| stored.contains(identity) || !reserved.contains(identity));
        }
        Ok((judgement, reservation))
    }

    async fn reserve_in_memory(self: &Arc<Self>, events: &Groups) -> (Judgement, Reservation) {
        loop {
            let resolved = self.resolved.notified();
            tokio::pin!(resolved);
            // From here on no end of a request is missed.
            resolved.as_mut().enable();
            {
                let mut memory = self.memory.lock();
                let mut identities = events.identities.iter();
                if !identities.any(|identity| memory.is_in_flight(identity)) {
                    let judgement = events.judge(|identity| memory.has(identity));
                    let identities = events.new_ones(&judgement);
                    memory.reserve(identities.iter().copied());
                    let reservation = Reservation {
                        engine: self.clone(),
                        identities,
                    };
                    return (judgement, reservation);
                }
            }
            resolved.await;
        }
    }

    /// Those that have a record. What is not in memory was flushed before, so a snapshot of now has
    /// it.
    async fn stored_identities(
        &self,
        identities: &[IdentityKey],
    ) -> Result<HashSet<IdentityKey>, Problem> {
        if identities.is_empty() {
            return Ok(HashSet::new());
        }
        let snapshot = self.store.snapshot().await.map_err(unavailable)?;
        let found = snapshot.identities(identities).await.map_err(unavailable)?;
        let found = identities.iter().zip(found);
        Ok(found
            .filter_map(|(identity, seq)| seq.map(|_| *identity))
            .collect())
    }

    /// Stores a block: returns when its events are durable and can be read.
    pub(super) async fn store_block(&self, block: FoldedBlock) -> Result<(), Problem> {
        let (seq, commit, when_added) = {
            // One after the other, so that the queue has them in the order of their numbers.
            let _appending = self.appending.lock().await;
            let appended = self.store.append(block.block.to_vec()).await;
            let appended = appended.map_err(unavailable)?;
            let when_added = self.order.enter(appended.seq, block);
            (appended.seq, appended.commit, when_added)
        };
        let committed = commit.await;
        self.order.end(seq, committed.is_ok());
        self.add_ready().await;
        // Those before this one may still be waiting to be told of their own commits.
        let added = when_added.await;
        committed.map_err(unavailable)?;
        added.map_err(|_| unavailable(StoreError("the engine of events has stopped".into())))
    }

    /// Adds blocks whose commits have ended, in their order.
    async fn add_ready(&self) {
        let _adding = self.adding.lock().await;
        let ready = self.order.take_ready();
        if ready.is_empty() {
            return;
        }
        let observed = ready.iter().flat_map(|ready| match &ready.outcome {
            Outcome::Durable(block) => block.folded.states.as_slice(),
            Outcome::Failed => &[],
        });
        let objects = observed.map(|observation| observation.object.clone());
        let objects = self.known_objects(objects.collect()).await;
        let added = {
            let mut memory = self.memory.lock();
            let mut added = Vec::with_capacity(ready.len());
            for ready in ready {
                match ready.outcome {
                    Outcome::Durable(block) => {
                        memory.add(ready.seq, *block, &objects, &self.options, &self.metrics);
                    }
                    Outcome::Failed => {
                        memory.add_void(ready.seq);
                        self.metrics.failed_blocks.add(1);
                    }
                }
                added.push(ready.added);
            }
            if memory.has_closed() {
                self.flush_wanted.notify_one();
            }
            added
        };
        for added in added {
            // Nobody may be waiting any more.
            let _ = added.send(());
        }
    }

    /// What is known of the objects that events speak of. Nobody else adds blocks meanwhile, so it
    /// is still so when they are added.
    async fn known_objects(&self, wanted: HashSet<ObjectKey>) -> HashMap<ObjectKey, ObjectState> {
        let mut objects = HashMap::new();
        let mut unknown = Vec::new();
        {
            let memory = self.memory.lock();
            for key in wanted {
                match memory.object(&key).cloned() {
                    Some(object) => {
                        objects.insert(key, object);
                    }
                    None => unknown.push(key),
                }
            }
        }
        if unknown.is_empty() {
            return objects;
        }
        // The events are durable and have to be counted: there is nothing else to do than to try
        // again until the store can be read.
        while let Err(error) = self.read_objects(&unknown, &mut objects).await {
            tracing::warn!(%error, "reading states of objects again");
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        objects
    }

    async fn read_objects(
        &self,
        keys: &[ObjectKey],
        objects: &mut HashMap<ObjectKey, ObjectState>,
    ) -> Result<(), StoreError> {
        let snapshot = self.store.snapshot().await?;
        for key in keys {
            let range = catalog_key::only(key.record_key());
            let records = snapshot.records(range, 1).await?;
            let object = records
                .first()
                .and_then(|(_, value)| ObjectState::decode(value));
            if let Some(object) = object {
                objects.insert(key.clone(), object);
            }
        }
        Ok(())
    }
}

/// What is answered when the store does not do its part.
pub(super) fn unavailable(error: StoreError) -> Problem {
    Problem::new(503, "ingest.unavailable", error.0)
}
