use serde_json::json;

use super::*;

fn busy() -> Value {
    json!({
        "enabled": true,
        "paused": null,
        "running": {
            "kind": "coarsen", "startMs": 1_700_006_400_000_i64, "endMs": 1_700_020_800_000_i64,
            "sources": 4, "phase": "samples", "seriesDone": 400, "seriesTotal": 1000,
            "bytesRead": 2_097_152, "bytesWritten": 524_288, "startedMs": 0,
            "remainingSeconds": 90.4,
        },
        "waiting": 3, "lagSeconds": 5400.0, "buckets": [{"hours": 1, "count": 12}],
        "retired": 2, "dirty": 0, "lastError": null,
    })
}

#[test]
fn progress_says_what_is_under_way() {
    assert_eq!(
        progress::line(&busy(), true),
        "coarsen 2023-11-15T00:00:00Z 4h from 4 buckets, samples: 400 of 1000 series, 2.0 MiB read, \
         512.0 KiB written, about 90 s left, 3 waiting, 2 retired"
    );
    assert_eq!(
        progress::line(&busy(), false),
        "coarsen 2023-11-15T00:00:00Z 4h from 4 buckets, samples, 3 waiting, 2 retired"
    );
    let mut run = busy();
    run["run"] = json!({"done": 2, "waiting": 4});
    assert_eq!(
        progress::line(&run, false),
        "coarsen 2023-11-15T00:00:00Z 4h from 4 buckets, samples, 2 of 6 jobs done, 2 retired"
    );
    let paused = json!({"running": null, "paused": "ingest", "waiting": 1});
    assert_eq!(
        progress::line(&paused, false),
        "between jobs, 1 waiting, paused: ingest"
    );
    // A server of another version may say less.
    assert_eq!(progress::line(&json!({}), true), "between jobs");
}

#[test]
fn a_bar_has_jobs_and_what_is_done_of_one() {
    assert_eq!(progress::fraction(&busy()), None, "of an older server");
    let of = |done: u64, waiting: u64, phase: &str| {
        let mut status = busy();
        status["run"] = json!({"done": done, "waiting": waiting});
        status["running"]["phase"] = json!(phase);
        progress::fraction(&status)
    };
    assert_eq!(of(0, 0, "samples"), None);
    assert_eq!(of(2, 4, "series"), Some((2000, 6000)));
    // 400 of 1000 series.
    assert_eq!(of(2, 4, "samples"), Some((2399, 6000)));
    assert_eq!(of(6, 0, "samples"), Some((6000, 6000)));
}

#[test]
fn levels_say_what_they_have_and_what_is_missing() {
    let level = json!({
        "resolution": "5m", "buckets": 12, "outOfDate": 1, "waiting": 2,
        "lagSeconds": 7200.0, "culledBeforeMs": 1_700_006_400_000_i64,
    });
    assert_eq!(
        show::level(&level),
        "12 buckets, 2 to build (the oldest closed for 2.0 h), 1 out of date, nothing before \
         2023-11-15T00:00:00Z"
    );
    assert_eq!(show::level(&json!({"buckets": 1})), "1 bucket");
    assert_eq!(
        show::level(&json!({"buckets": 1, "remnants": 2})),
        "1 bucket, 2 of series that are kept for longer"
    );
    let kept = json!({
        "resolution": "raw", "startMs": 1_700_006_400_000_i64, "endMs": 1_700_020_800_000_i64,
        "reason": "it is not rolled up yet",
    });
    let shown = "raw 2023-11-15T00:00:00Z 4h: it is not rolled up yet";
    assert_eq!(show::kept_back(&kept), shown);
}

#[test]
fn reports_name_what_was_done() {
    let report = json!({
        "coarsened": 2, "retired": 8, "folded": 1, "bytesRead": 2048, "bytesWritten": 512, "seconds": 1.25,
    });
    assert_eq!(
        show::report_lines(&report),
        [
            "Coarsened: 2 buckets in place of 8",
            "Late samples folded in: 1 bucket",
            "Read 2.0 KiB, wrote 512 B, 1.2 s",
        ]
    );
    let skipped = json!({
        "repaired": 1,
        "skipped": [{
            "kind": "coarsen", "startMs": 1_700_006_400_000_i64, "endMs": 1_700_020_800_000_i64,
            "failures": 2, "nextTryMs": 0, "cause": "damaged",
        }],
    });
    assert_eq!(
        show::report_lines(&skipped),
        [
            "Joined with the larger one around them: 1 bucket",
            "Skipped: coarsen 2023-11-15T00:00:00Z 4h, failed 2 times: damaged",
            "Read 0 B, wrote 0 B, 0.0 s",
        ]
    );
    assert_eq!(
        show::report_lines(&json!({})),
        ["Nothing was left to do.", "Read 0 B, wrote 0 B, 0.0 s"]
    );
}

/// `docs/cli.md` has every flag of the commands that it describes, and no other. Settings are in
/// `docs/configuration.md`.
#[test]
fn every_flag_is_documented_and_no_other() {
    use std::collections::BTreeSet;

    let is_setting = |id: &str| {
        let mut settings = icecore_server::SETTINGS.iter();
        let is_short_form = id == crate::settings::NO_SELF_SCRAPE;
        is_short_form || id != "storage.location" && settings.any(|setting| setting.key == id)
    };
    let mut flags = BTreeSet::new();
    for command in [
        crate::query::Query::augment_args(clap::Command::new("query")),
        crate::events::Events::augment_args(clap::Command::new("events")),
        crate::health::Health::augment_args(clap::Command::new("health")),
        Maintenance::augment_args(clap::Command::new("maintenance")),
        crate::policy::Policy::augment_args(clap::Command::new("policy")),
        crate::snapshot::Snapshots::augment_args(clap::Command::new("snapshot")),
        crate::restore::RestoreArgs::augment_args(clap::Command::new("restore")),
        crate::transfer::export::Export::augment_args(clap::Command::new("export")),
        crate::transfer::import::Import::augment_args(clap::Command::new("import")),
        crate::opentsdb::OpenTsdb::augment_args(clap::Command::new("opentsdb")),
        crate::test_promql::Test::augment_args(clap::Command::new("test")),
    ] {
        for what in command.get_subcommands().chain([&command]) {
            let arguments = what.get_arguments();
            let arguments = arguments.filter(|argument| !is_setting(argument.get_id().as_str()));
            let longs = arguments.filter_map(|argument| argument.get_long());
            flags.extend(longs.map(|long| format!("--{long}")));
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let text = std::fs::read_to_string(path).unwrap();
    let is_end = |c: char| !c.is_ascii_lowercase() && c != '-' && c != '.';
    let words = text.split(is_end).filter(|word| word.starts_with("--"));
    let words = words.map(|word| word.trim_end_matches('.'));
    let documented: BTreeSet<String> = words
        .filter(|word| word.len() > 3 && *word != "--help" && !word.starts_with("---"))
        .map(str::to_owned)
        .collect();
    assert_eq!(flags, documented);
}
