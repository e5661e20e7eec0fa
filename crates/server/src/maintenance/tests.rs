use super::*;

#[test]
fn json_has_every_field() {
    let skipped = SkippedJob {
        kind: "fold",
        start_ms: 21,
        end_ms: 22,
        cause: "a \"damaged\" record".into(),
        failures: 23,
        next_try_ms: 24,
    };
    let status = MaintenanceStatus {
        enabled: true,
        paused: Some("ingest \"first\"".into()),
        running: Some(JobStatus {
            kind: "coarsen",
            start_ms: 1,
            end_ms: 2,
            sources: 3,
            phase: "samples",
            series_done: 4,
            series_total: 5,
            bytes_read: 13,
            bytes_written: 14,
            started_ms: 6,
            remaining_seconds: Some(61.26),
        }),
        run: Some(RunProgress {
            done: 35,
            waiting: 36,
        }),
        waiting: 7,
        waiting_seconds: Some(300.0),
        lag_seconds: 8.5,
        buckets: vec![
            SizeCount { hours: 1, count: 9 },
            SizeCount {
                hours: 16,
                count: 10,
            },
        ],
        retired: 11,
        dirty: 12,
        tombstones: 13,
        quarantined: vec![QuarantinedHour {
            start_ms: 15,
            cause: "bucket \"x\"".into(),
            since_ms: 16,
            attempts: 17,
            next_try_ms: 18,
        }],
        overlapping: 15,
        skipped: vec![skipped.clone()],
        levels: vec![
            LevelStatus {
                resolution: "raw",
                buckets: 25,
                remnants: 34,
                culled_before_ms: Some(26),
                ..LevelStatus::default()
            },
            LevelStatus {
                resolution: "5m",
                buckets: 27,
                remnants: 0,
                out_of_date: 28,
                out_of_date_hours: 37,
                culled_before_ms: None,
                waiting: 29,
                lag_seconds: 30.5,
            },
        ],
        kept_back: vec![KeptBackBucket {
            resolution: "raw",
            start_ms: 31,
            end_ms: 32,
            reason: "it is not rolled up yet",
        }],
        kept_back_count: 33,
        last_error: Some("none".into()),
    };
    let mut out = Vec::new();
    write_maintenance_status(&mut out, &status);
    let expected = r#"{"enabled":true,"paused":"ingest \"first\"","running":{"kind":"coarsen","startMs":1,"endMs":2,"sources":3,"phase":"samples","seriesDone":4,"seriesTotal":5,"bytesRead":13,"bytesWritten":14,"startedMs":6,"remainingSeconds":61.3},"run":{"done":35,"waiting":36},"waiting":7,"waitingSeconds":300,"lagSeconds":8.5,"buckets":[{"hours":1,"count":9},{"hours":16,"count":10}],"retired":11,"dirty":12,"tombstones":13,"quarantined":[{"startMs":15,"sinceMs":16,"attempts":17,"nextTryMs":18,"cause":"bucket \"x\""}],"overlapping":15,"skipped":[{"kind":"fold","startMs":21,"endMs":22,"failures":23,"nextTryMs":24,"cause":"a \"damaged\" record"}],"levels":[{"resolution":"raw","buckets":25,"remnants":34,"outOfDate":0,"outOfDateHours":0,"culledBeforeMs":26,"waiting":0,"lagSeconds":0},{"resolution":"5m","buckets":27,"remnants":0,"outOfDate":28,"outOfDateHours":37,"culledBeforeMs":null,"waiting":29,"lagSeconds":30.5}],"keptBackCount":33,"keptBack":[{"resolution":"raw","startMs":31,"endMs":32,"reason":"it is not rolled up yet"}],"lastError":"none"}"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);

    let mut out = Vec::new();
    let idle = MaintenanceStatus {
        lag_seconds: f64::NAN,
        ..MaintenanceStatus::default()
    };
    write_maintenance_status(&mut out, &idle);
    let expected = r#"{"enabled":false,"paused":null,"running":null,"run":null,"waiting":0,"waitingSeconds":null,"lagSeconds":0,"buckets":[],"retired":0,"dirty":0,"tombstones":0,"quarantined":[],"overlapping":0,"skipped":[],"levels":[],"keptBackCount":0,"keptBack":[],"lastError":null}"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);

    let mut out = Vec::new();
    let report = MaintenanceReport {
        coarsened: 1,
        retired: 2,
        folded: 3,
        quarantined: Vec::new(),
        repaired: 6,
        rolled_up: 7,
        merged: 9,
        remnants: 10,
        culled: 8,
        metadata_culled: 9,
        skipped: vec![skipped],
        bytes_read: 4,
        bytes_written: 5,
        seconds: 0.25,
    };
    write_maintenance_report(&mut out, &report);
    let expected = r#"{"coarsened":1,"retired":2,"folded":3,"repaired":6,"rolledUp":7,"merged":9,"remnants":10,"culled":8,"metadataCulled":9,"bytesRead":4,"bytesWritten":5,"seconds":0.25,"quarantined":[],"skipped":[{"kind":"fold","startMs":21,"endMs":22,"failures":23,"nextTryMs":24,"cause":"a \"damaged\" record"}]}"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
