//! Instances that do not know the same, or cannot be read.

use super::*;
use crate::query::{CellSource, query_counters, query_histograms};
use crate::search::event_types;

fn asked(name: &str) -> Vec<u8> {
    let body = json!({
        "serviceKey": "shop", "eventType": "order.placed", "counterName": name,
        "histogramName": name, "interval": "1h", "includeBuckets": true,
        "start": "2026-11-09T10:00:00Z", "end": "2026-11-09T11:00:00Z",
    });
    body.to_string().into_bytes()
}

/// While the guarded clock of one catches up after a pause, the other has dropped more.
#[tokio::test]
async fn what_one_instance_takes_for_too_old_is_too_old_for_both() {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let behind = Instance::open(&clock, &[DOCUMENTS]).await;
    let month_ms = 30 * 86_400_000;
    clock.jump(month_ms);
    let right = Instance::open(&clock, &[DOCUMENTS]).await;
    for (own, other) in [(&behind, &right), (&right, &behind)] {
        let all = reading(own, &[&other.shard("other")]);
        let cells = all.cells().await.unwrap();
        assert_eq!(CellSource::guarded_ms(&*cells), NOW_MS + month_ms);
    }
}

#[tokio::test]
async fn what_only_another_instance_knows_is_known() {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let own = Instance::open(&clock, &[ANOTHER]).await;
    let other = Instance::open(&clock, &[DOCUMENTS]).await;
    other
        .publish(&order(1, 1, "web", 4.0, ("o-1", "NEW")))
        .await;
    other.events.flush().await.unwrap();
    let all = reading(&own, &[&other.shard("other")]);
    let registry = all.registry().await.unwrap();
    let types = event_types(&registry, None);
    for name in ["order.placed", "paid"] {
        assert!(types.contains(name), "{types}");
    }
    // Numbers are given once.
    let mut numbers: Vec<u32> = registry.metrics().map(|metric| metric.number).collect();
    let all_numbers = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), all_numbers);
    let cells = all.cells().await.unwrap();
    let answer = query_counters(&*cells, &asked("orders")).await.unwrap();
    assert!(answer.contains(r#""count":1"#), "{answer}");
    assert_eq!(found_ids(&all).await, [event_id(1)]);
    // A change over there is seen.
    other
        .apply(
            "
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.placed, name: more_orders }
spec: {}
",
        )
        .await;
    assert!(
        query_counters(&*cells, &asked("more_orders"))
            .await
            .is_err()
    );
    let cells = all.cells().await.unwrap();
    assert!(query_counters(&*cells, &asked("more_orders")).await.is_ok());
}

#[tokio::test]
async fn histograms_of_different_bounds_are_not_mixed() {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let own = Instance::open(&clock, &[DOCUMENTS]).await;
    let bounds = DOCUMENTS.replace("[10, 20, 50]", "[5, 25]");
    let other = Instance::open(&clock, &[&bounds]).await;
    let all = reading(&own, &[&other.shard("other")]);
    other
        .publish(&order(1, 1, "web", 4.0, ("o-1", "NEW")))
        .await;
    other.events.flush().await.unwrap();
    let cells = all.cells().await.unwrap();
    let answer = query_histograms(&*cells, &asked("latency")).await.unwrap();
    assert!(answer.contains(r#"{"le":5,"count":1}"#), "{answer}");
    own.publish(&order(2, 1, "web", 4.0, ("o-2", "NEW"))).await;
    let cells = all.cells().await.unwrap();
    let refused = query_histograms(&*cells, &asked("latency"))
        .await
        .unwrap_err();
    assert_eq!((refused.status, refused.code), (400, "query.mixed-buckets"));
    // What is alike is summed all the same.
    let answer = query_counters(&*cells, &asked("orders")).await.unwrap();
    assert!(answer.contains(r#""count":2"#), "{answer}");
}

#[tokio::test]
async fn a_shard_that_cannot_be_read_fails_the_question_with_its_name() {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let own = Instance::open(&clock, &[DOCUMENTS]).await;
    let other = Instance::open(&clock, &[DOCUMENTS]).await;
    own.publish(&order(1, 1, "web", 4.0, ("o-1", "NEW"))).await;
    let (near, far) = (other.shard("s3://near/a"), other.shard("s3://far/b"));
    far.set_gone(true);
    let all = reading(&own, &[&near, &far]);
    for refused in [all.view().await, all.cells().await] {
        let refused = refused.err().unwrap();
        assert_eq!(
            (refused.status, refused.code),
            (503, "query.shard-unavailable")
        );
        assert!(refused.detail.contains("s3://far/b"), "{refused}");
    }
    let partly = reading_partly(&own, &[&near, &far], true);
    assert_eq!(found_ids(&partly).await, [event_id(1)]);
    far.set_gone(false);
    assert!(all.view().await.is_ok());
    let many = vec![Arc::new(far) as Arc<dyn icecore_model::event::EventShard>; 65];
    assert!(AllEvents::new(own.events.clone(), many, false).is_err());
}

/// Without other shards the view itself is read.
#[tokio::test]
async fn an_instance_alone_reads_its_own_registry() {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let own = Instance::open(&clock, &[DOCUMENTS]).await;
    let all = reading(&own, &[]);
    let cells = all.cells().await.unwrap();
    assert!(Arc::ptr_eq(
        CellSource::registry(&*cells),
        &own.events.registry()
    ));
    assert!(Arc::ptr_eq(
        &all.registry().await.unwrap(),
        &own.events.registry()
    ));
}
