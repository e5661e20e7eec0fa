//! Metadata of metrics that are gone goes, too.

use icecore_storage::MaintenanceReport;

use super::*;
use crate::requests::{Entry, pairs, request};

fn families(process: &Process) -> Vec<String> {
    let known = process.db.metadata(None).into_iter();
    known.map(|(family, _)| family).collect()
}

fn said(family: &str) -> Entry {
    Entry::metadata(family, "said once")
}

fn sample(metric: &str, time: i64) -> Entry {
    Entry::float("s", time, 1.0).labelled(pairs(&[("__name__", metric), ("job", "j")]))
}

async fn send(process: &Process, entries: Vec<Entry>) {
    request(&process.db, entries).await.unwrap();
}

/// Runs maintenance and does something else when it has looked for metrics.
fn maintain_beside(process: &Process, beside: impl AsyncFnOnce(&Process)) -> MaintenanceReport {
    process.run(async {
        let pause = process.db.pause_at("cull_metadata.found");
        let run = tokio::spawn({
            let db = process.db.clone();
            async move { db.run_maintenance().await }
        });
        pause.reached().await;
        beside(process).await;
        drop(pause);
        run.await.unwrap().unwrap()
    })
}

#[test]
fn metadata_of_metrics_that_are_gone_goes() {
    let world = world(START);
    let process = world.start();
    process.run(async {
        let old = ["gone", "never_there", "said_again", "came_back", "kept"];
        send(&process, old.map(said).into()).await;
        let hour = START + HOUR;
        let entries = vec![sample("gone_total", START), sample("kept_bucket", hour)];
        send(&process, entries).await;
        process.db.flush().await.unwrap();
    });
    set_clock(&world, START + 400 * DAY);
    assert_eq!(maintain(&process).metadata_culled, 0, "without a policy");
    assert_eq!(families(&process).len(), 5);
    let now = START + 400 * DAY;
    process.run(async {
        send(&process, vec![said("young"), sample("kept_bucket", now)]).await;
        process.db.flush_buckets().await.unwrap();
    });
    process.close();

    // Nothing is in the head: what is kept is found in its bucket.
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    let report = maintain_beside(&process, async |process| {
        send(process, vec![said("said_again")]).await;
        send(process, vec![sample("came_back_count", now)]).await;
        process.db.flush_buckets().await.unwrap();
    });
    assert_eq!(report.metadata_culled, 2, "{report:?}");
    let left = ["came_back", "kept", "said_again", "young"];
    assert_eq!(families(&process), left);
    assert_eq!(maintain(&process).metadata_culled, 0);
    process.close();
    let process = world.start();
    assert_eq!(families(&process), left, "as it is stored");

    // A later one that is said while the deletion is about to be made.
    process.db.set_retention(Some(policy([21, 90, 365])));
    set_clock(&world, now + 400 * DAY);
    let report = maintain_beside(&process, async |process| {
        send(process, vec![Entry::metadata("kept", "something else")]).await;
    });
    assert_eq!(report.metadata_culled, 3, "{report:?}");
    process.crash();
    let process = world.start();
    let known = process.db.metadata(None);
    assert_eq!(known.len(), 1);
    assert_eq!(
        (known[0].0.as_str(), &*known[0].1.help),
        ("kept", "something else")
    );
    process.run(send(&process, vec![said("gone")]));
    process.run(process.db.flush()).unwrap();
    process.close();
    assert_eq!(
        families(&world.start()),
        ["gone", "kept"],
        "it may come back"
    );
    world.check();
}

/// What an older version has written has no time: it counts from when it is first seen.
#[test]
fn metadata_without_a_time_waits() {
    let world = world(START);
    let process = world.start();
    let old = icecore_model::Metadata::default();
    let key = key::metric_metadata("old");
    let value = icecore_records::metadata::encode(&old);
    let records = vec![(key, Some(value.into()))];
    process.run(process.db.replace_records(records)).unwrap();
    process.close();
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    set_clock(&world, START + 300 * DAY);
    assert_eq!(maintain(&process).metadata_culled, 0);
    assert_eq!(families(&process), ["old"]);
    set_clock(&world, START + 366 * DAY);
    assert_eq!(maintain(&process).metadata_culled, 1);
    assert!(families(&process).is_empty());
}
