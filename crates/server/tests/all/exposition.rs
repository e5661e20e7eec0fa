//! `/metrics`: it parses, it does not contradict itself, and its documentation is complete.

use std::collections::{BTreeMap, BTreeSet};

use crate::documents::document;
use crate::payload::{Payload, T0, series};
use crate::served::TestServer;

/// Metric families by name, with their type and samples.
#[derive(Default, Debug)]
struct Family {
    kind: String,
    /// Name with suffix, labels as they stand, value.
    samples: Vec<(String, String, f64)>,
}

/// Reads the text format, strictly: no sample without its family, no family twice.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut helped = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(!help.is_empty(), "{line}");
            helped = name.into();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, helped);
            current = name.into();
            let family = Family {
                kind: kind.into(),
                ..Family::default()
            };
            assert!(
                families.insert(name.into(), family).is_none(),
                "{name} twice"
            );
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let value = value.replace("Inf", "inf").parse().expect("a number");
            let (name, labels) = match series.split_once('{') {
                Some((name, labels)) => (name, labels.strip_suffix('}').expect("closed")),
                None => (series, ""),
            };
            let suffix = name.strip_prefix(current.as_str()).expect("its family");
            let family = families.get_mut(&current).expect("begun");
            let suffixes: &[&str] = match family.kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(suffixes.contains(&suffix), "{line}");
            family.samples.push((name.into(), labels.into(), value));
        }
    }
    families
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_happened() {
    let served = TestServer::start(&[]).await;
    let payload = Payload::v1(&[
        series("up", &[("job", "a")], &[(T0, 1.0), (T0 + 1000, 2.0)]),
        series("", &[], &[(T0, 1.0)]),
    ]);
    assert_eq!(served.write(&payload).await.status, 400);
    served.request("POST", "/-/flush", &[], b"").await;
    served.export_all().await;
    let answer = served.get("/metrics", &[]).await;
    let expected = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(expected));
    let families = parse(answer.text());
    let value = |family: &str, labels: &str| {
        let samples = &families[family].samples;
        let found = samples.iter().find(|(_, l, _)| l == labels);
        found
            .unwrap_or_else(|| panic!("{family}{{{labels}}} in {samples:?}"))
            .2
    };
    assert_eq!(
        value("icecore_ingested_samples_total", "type=\"float\""),
        2.0
    );
    assert_eq!(value("icecore_rejected_samples_total", ""), 1.0);
    assert_eq!(value("icecore_active_series", ""), 1.0);
    assert_eq!(value("icecore_journal_lag_requests", ""), 0.0);
    assert_eq!(value("icecore_buckets", ""), 1.0);
    assert_eq!(value("icecore_flush_hours_total", ""), 1.0);
    assert!(value("icecore_flush_bytes_total", "") > 0.0);
    // Once as GET, once as POST.
    assert_eq!(value("icecore_read_samples_total", ""), 4.0);
    let writes = "route=\"/api/v1/write\",code=\"400\"";
    assert_eq!(value("icecore_http_requests_total", writes), 1.0);
    assert!(value("process_resident_memory_bytes", "") > 1e6);
    assert!(value("process_cpu_seconds_total", "") > 0.0);
    assert!(value("process_open_fds", "") > 3.0);
    let started = value("process_start_time_seconds", "");
    assert!((1.7e9..5e9).contains(&started), "{started}");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn histograms_are_cumulative_and_complete() {
    let served = TestServer::start(&[]).await;
    let payload = Payload::v1(&[series("up", &[], &[(T0, 1.0)])]);
    assert_eq!(served.write(&payload).await.status, 204);
    let answer = served.get("/metrics", &[]).await;
    let families = parse(answer.text());
    let histograms = families.iter().filter(|(_, f)| f.kind == "histogram");
    for (name, family) in histograms {
        let mut last_bucket = 0.0;
        for (sample, labels, value) in &family.samples {
            if sample.ends_with("_bucket") {
                assert!(*value >= last_bucket, "{name}{{{labels}}}");
                let last = labels.ends_with("le=\"+Inf\"");
                last_bucket = *value;
                assert!(last || labels.contains("le=\""), "{name}{{{labels}}}");
            } else if sample.ends_with("_count") {
                assert_eq!(*value, last_bucket, "{name}{{{labels}}}");
                last_bucket = 0.0;
            }
        }
    }
    let commits = &families["icecore_journal_commit_duration_seconds"].samples;
    assert!(
        commits
            .iter()
            .any(|(n, _, v)| n.ends_with("_count") && *v > 0.0)
    );
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_is_documented_and_no_other() {
    let served = TestServer::start(&[]).await;
    let payload = Payload::v1(&[series("up", &[], &[(T0, 1.0)])]);
    assert_eq!(served.write(&payload).await.status, 204);
    served.request("POST", "/-/flush", &[], b"").await;
    served.export_all().await;
    let answer = served.get("/metrics", &[]).await;
    let families = parse(answer.text());
    let exposed: BTreeSet<String> = families
        .iter()
        .map(|(name, family)| format!("| `{name}` | {} |", family.kind))
        .collect();
    let documented: BTreeSet<String> = document("operating.md")
        .lines()
        .filter(|line| line.starts_with("| `") && !line.starts_with("| `--"))
        .filter_map(|line| {
            let mut cells = line.split(" | ");
            Some(format!("{} | {} |", cells.next()?, cells.next()?))
        })
        .filter(|row| {
            ["icecore_", "slatedb_", "process_"]
                .iter()
                .any(|p| row[3..].starts_with(p))
        })
        .collect();
    let missing: Vec<_> = exposed.difference(&documented).collect();
    assert!(missing.is_empty(), "not in docs/operating.md: {missing:#?}");
    let gone: Vec<_> = documented.difference(&exposed).collect();
    assert!(gone.is_empty(), "only in docs/operating.md: {gone:#?}");
    served.stop().await.unwrap();
}
