//! Cells that OpenTSDB 2.4.1 wrote to HBase, imported: the answers are those that it gave.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use http::{HeaderMap, Method};
use icecore_model::ManualClock;
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::hbase::Salt;
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::transfer::{Import, ImportOptions, PartLimits, TableLayout, TableNames};
use icecore_opentsdb::{Config, Tsd};
use serde_json::Value;

/// The configuration of rollups of the daemon that was recorded.
const ROLLUPS: &str = r#"{"aggregationIds":{"sum":0,"count":1,"min":2,"max":3},
    "intervals":[
        {"table":"tsdb","preAggregationTable":"tsdb-preagg","interval":"1m","rowSpan":"1h",
         "defaultInterval":true},
        {"table":"tsdb-rollup-10m","preAggregationTable":"tsdb-rollup-agg-10m","interval":"10m",
         "rowSpan":"1d"},
        {"table":"tsdb-rollup-1h","preAggregationTable":"tsdb-rollup-agg-1h","interval":"1h",
         "rowSpan":"1n"}]}"#;

fn sample(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/opentsdb");
    let path: PathBuf = root.join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// With the settings of the daemon that was recorded.
fn open(rollups: Option<&str>, widths: [usize; 3]) -> Tsd {
    let codec = "net.opentsdb.core.SimpleHistogramDecoder".to_owned();
    let config = Config {
        realtime_uid: true,
        realtime_ts: true,
        tsuid_tracking: true,
        tree_processing: true,
        fix_duplicates: true,
        rollups_enabled: rollups.is_some(),
        rollups_document: rollups.map(String::from),
        uid_widths: widths,
        histogram_codecs: Some([(codec, 0)].into()),
        show_stack_trace: false,
        ..Config::default()
    };
    // After the recording, which was in November 2026.
    let clock = Arc::new(ManualClock::at(1_795_000_000_000));
    block_on(Tsd::open(config, MemoryStore::stores(), clock)).unwrap()
}

/// What was skipped.
fn import(tsd: &Tsd, text: &str, layout: TableLayout) -> Vec<String> {
    let options = ImportOptions {
        skips_errors: false,
        creates_metrics: false,
        limits: PartLimits {
            hours_max: 2,
            points_max: 100,
        },
    };
    let text = Bytes::from(text.to_owned());
    let mut import = Import::of_cells(&text, layout, options).unwrap();
    while block_on(import.store_next(tsd)).unwrap() {}
    let skipped = import.report().skipped.iter();
    skipped.map(|skipped| skipped.reason.clone()).collect()
}

fn ask(tsd: &Tsd, target: &str) -> (u16, Value) {
    let request = Request::new(Method::GET, target, HeaderMap::new(), Bytes::new());
    let response = block_on(handle(tsd, &request));
    let body = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
    (response.status.as_u16(), body)
}

/// Without what depends on when it was asked, and what is known to differ: when points came in.
fn comparable(mut answer: Value, is_salted: bool) -> Value {
    // With a salt, `none` lists series in the order of buckets.
    if let Some(series) = answer.as_array_mut().filter(|_| is_salted) {
        series.sort_by_key(|series| series["tags"].to_string());
    }
    if let Some(members) = answer.as_object_mut() {
        for name in ["time", "lastReceived", "totalDatapoints"] {
            members.remove(name);
        }
        // The order of series is not stable in the original.
        if let Some(results) = members.get_mut("results").and_then(Value::as_array_mut) {
            results.sort_by_key(|result| result["tsuid"].to_string());
        }
    }
    answer
}

/// Asks what was asked then.
fn answers_are_those_of(name: &str, tsd: &Tsd) -> usize {
    let is_salted = name.starts_with("salted");
    let text = sample(name);
    for line in text.lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let target = recorded["target"].as_str().unwrap();
        let expected = comparable(recorded["body"].clone(), is_salted);
        let (status, answer) = ask(tsd, target);
        assert_eq!(status, recorded["status"], "{target}: {answer}");
        assert_eq!(comparable(answer, is_salted), expected, "{target}");
    }
    text.lines().count()
}

#[test]
fn cells_of_the_original_give_its_answers() {
    let layout = TableLayout {
        names: TableNames::default(),
        widths: [3; 3],
        salt: Salt::default(),
    };
    let tsd = open(Some(ROLLUPS), layout.widths);
    let cells = sample("cells.json");
    let mut skipped = import(&tsd, &cells, layout.clone());
    skipped.sort();
    let not_needed = ["a counter of points: they are counted"];
    assert_eq!(skipped, not_needed);
    assert!(answers_are_those_of("answers.json", &tsd) >= 30);
    // From behind and twice: the order of rows does not matter, and nothing counts twice.
    let reversed: Vec<&str> = cells.lines().rev().collect();
    let other = open(Some(ROLLUPS), layout.widths);
    for _ in 0..2 {
        import(&other, &reversed.join("\n"), layout.clone());
    }
    answers_are_those_of("answers.json", &other);
}

#[test]
fn salted_cells_with_wider_uids_give_the_same_answers() {
    let layout = TableLayout {
        names: TableNames {
            data: "s".into(),
            uid: "s-uid".into(),
            meta: "s-meta".into(),
            tree: "s-tree".into(),
        },
        widths: [3, 3, 4],
        salt: Salt::new(1, 20).unwrap(),
    };
    let tsd = open(None, layout.widths);
    import(&tsd, &sample("salted-cells.json"), layout);
    assert_eq!(answers_are_those_of("salted-answers.json", &tsd), 5);
}
