//! Limits, and what happens at them.

use bytes::Bytes;

use super::{Bench, DOCUMENTS, order};
use crate::engine::{EventOptions, PublishStatus};

#[tokio::test]
async fn too_many_dimension_sets_share_an_overflow_cell() {
    let options = EventOptions {
        max_dimension_sets: 2,
        ..EventOptions::default()
    };
    let mut bench = Bench::with(options, DOCUMENTS).await;
    for number in 0..5 {
        let channel = format!("channel {number}");
        bench.publish(&order(number, 0, &channel, 1, 1.0)).await;
    }
    let expected = [
        ("order.channel=__overflow__", 3),
        ("order.channel=channel 0", 1),
        ("order.channel=channel 1", 1),
    ];
    bench.check_counts("orders", &expected).await;
    // Of orders, revenue, order_total and stock; large_orders has none of them.
    assert_eq!(bench.events.metrics().dimension_overflow.get(), 12);
    bench.events.flush().await.unwrap();
    bench.crash(0).await;
    bench.publish(&order(9, 0, "channel 1", 1, 1.0)).await;
    bench.publish(&order(10, 0, "channel 2", 1, 1.0)).await;
    let expected = [
        ("order.channel=__overflow__", 4),
        ("order.channel=channel 0", 1),
        ("order.channel=channel 1", 2),
    ];
    bench.check_counts("orders", &expected).await;
}

#[tokio::test]
async fn beyond_the_memory_limit_requests_are_refused_until_files_are_written() {
    let options = EventOptions {
        memory_limit: 20_000,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    let mut accepted = 0;
    let refused = loop {
        let body = Bytes::from(order(accepted, 0, "web", 1, 1.0).to_string());
        match bench.events.publish(body).await {
            Ok(_) => accepted += 1,
            Err(problem) => break problem,
        }
        assert!(accepted < 1_000);
    };
    assert_eq!((refused.status, refused.code), (503, "ingest.unavailable"));
    assert_eq!(bench.events.metrics().refused.get(), 1);
    bench.events.seal().await.unwrap();
    let status = bench.publish(&order(accepted, 0, "web", 1, 1.0)).await;
    assert_eq!(status, PublishStatus::Stored);
}

#[tokio::test]
async fn a_full_generation_is_closed_before_its_time() {
    let options = EventOptions {
        // As many as one of these events has.
        max_keys: 7,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    for number in 0..4 {
        let at_s = i64::from(number) * 5;
        bench.publish(&order(number, at_s, "web", 1, 1.0)).await;
    }
    assert_eq!(bench.events.gauges().unflushed_generations, 4);
    let mark = bench.events.flush().await.unwrap();
    assert!(mark.generation >= 4);
    assert_eq!(bench.events.gauges().unflushed_generations, 0);
    bench
        .check_counts("orders", &[("order.channel=web", 4)])
        .await;
}

#[tokio::test]
async fn a_closed_engine_refuses_and_has_flushed() {
    let bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.events.close().await.unwrap();
    assert_eq!(bench.store.identities().len(), 1);
    let body = Bytes::from(order(2, 0, "web", 1, 1.0).to_string());
    assert_eq!(bench.events.publish(body).await.unwrap_err().status, 503);
}
