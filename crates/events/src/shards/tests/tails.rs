//! Events of another instance on their way from its journal into its files.

use super::*;
use crate::testing::{Fault, Operation};

#[tokio::test]
async fn flushed_events_are_found_once_before_and_after_they_are_in_files() {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let own = Instance::open(&clock, &[DOCUMENTS]).await;
    let other = Instance::open(&clock, &[DOCUMENTS]).await;
    let all = reading(&own, &[&other.shard("other")]);
    // Both have a block of the same number.
    own.publish(&order(1, 1, "web", 4.0, ("o-1", "NEW"))).await;
    other
        .publish(&order(2, 2, "web", 4.0, ("o-2", "NEW")))
        .await;
    assert_eq!(found_ids(&all).await, [event_id(1)], "not flushed yet");
    other.events.flush().await.unwrap();
    let both = [event_id(2), event_id(1)];
    assert_eq!(found_ids(&all).await, both);
    other
        .publish(&order(3, 3, "web", 4.0, ("o-3", "NEW")))
        .await;
    assert_eq!(found_ids(&all).await, both, "more in the journal");
    other.events.seal_flushed().await.unwrap();
    assert_eq!(found_ids(&all).await, both, "in a file");
    other.events.flush().await.unwrap();
    let three = [event_id(3), event_id(2), event_id(1)];
    assert_eq!(found_ids(&all).await, three, "a file and the journal");
    own.events.seal().await.unwrap();
    other.events.seal().await.unwrap();
    other.events.merge_files().await.unwrap();
    assert_eq!(found_ids(&all).await, three, "all in files");
    assert_eq!(all.shards[0].kept_blocks().await, 0);
}

/// Who was told that it failed sends again: the event is there once.
#[tokio::test]
async fn a_block_that_is_void_is_not_found() {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let own = Instance::open(&clock, &[DOCUMENTS]).await;
    let other = Instance::open(&clock, &[DOCUMENTS]).await;
    let all = reading(&own, &[&other.shard("other")]);
    let event = order(1, 1, "web", 4.0, ("o-1", "NEW"));
    other.store.fail(Operation::Commit, Fault::AppliedWithError);
    let refused = other.events.publish(Bytes::from(event.to_string())).await;
    assert!(refused.is_err());
    other.publish(&event).await;
    other.events.flush().await.unwrap();
    assert_eq!(found_ids(&all).await, [event_id(1)]);
}

#[tokio::test]
async fn a_tail_that_is_too_large_is_an_error() {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let options = EventOptions {
        memory_limit: 2_000,
        ..EventOptions::default()
    };
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let own = Events::open(store, Arc::new(JsonLines), clock.clone(), options);
    let other = Instance::open(&clock, &[DOCUMENTS]).await;
    let shard = Arc::new(other.shard("other"));
    let all = AllEvents::new(own.await.unwrap(), vec![shard], false).unwrap();
    for number in 0..32 {
        let event = order(number, 1, "web", 4.0, ("o-1", "NEW"));
        other.publish(&event).await;
    }
    other.events.flush().await.unwrap();
    let refused = all.view().await.err().unwrap();
    assert_eq!(
        (refused.status, refused.code),
        (503, "query.shard-unavailable")
    );
    assert!(all.cells().await.is_ok(), "cells need no tail");
    other.events.seal().await.unwrap();
    assert_eq!(found_ids(&all).await.len(), 32);
}
