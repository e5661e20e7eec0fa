//! Data of the original in and out: lines, cells, and that what is exported is imported alike.

use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use http::{HeaderMap, Method};
use icecore_model::{Labels, METRIC_NAME, ManualClock, Matcher, SelectHints};
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::hbase::Salt;
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::transfer::{
    ExportFormat, Import, ImportOptions, PartLimits, PointExport, Report, TableExport, TableLayout,
    TableNames,
};
use icecore_opentsdb::{Config, Error, Tsd};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::query_examples::append;

const NOW_MS: i64 = 1_700_000_000_000;

/// 2013-01-01, the start of an hour.
const START: i64 = 1_356_998_400;

const ROLLUPS: &str = r#"{"aggregationIds":{"sum":0,"count":1},
    "intervals":[
        {"table":"tsdb","preAggregationTable":"tsdb-preagg","interval":"1m","rowSpan":"1h",
         "defaultInterval":true},
        {"table":"tsdb-1h","preAggregationTable":"tsdb-1h-agg","interval":"1h","rowSpan":"1d"}]}"#;

fn open() -> Arc<Tsd> {
    let codec = "net.opentsdb.core.SimpleHistogramDecoder".to_owned();
    let config = Config {
        realtime_uid: true,
        realtime_ts: true,
        tsuid_tracking: true,
        tree_processing: true,
        rollups_enabled: true,
        rollups_document: Some(ROLLUPS.into()),
        histogram_codecs: Some([(codec, 42)].into()),
        ..Config::default()
    };
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let tsd = block_on(Tsd::open(config, MemoryStore::stores(), clock));
    Arc::new(tsd.unwrap())
}

fn layout(salt: Salt) -> TableLayout {
    TableLayout {
        names: TableNames::default(),
        widths: [3; 3],
        salt,
    }
}

fn options(skips_errors: bool) -> ImportOptions {
    ImportOptions {
        skips_errors,
        creates_metrics: true,
        limits: PartLimits {
            hours_max: 5,
            points_max: 7,
        },
    }
}

fn store(tsd: &Tsd, mut import: Import) -> Result<Report, Error> {
    while block_on(import.store_next(tsd))? {}
    Ok(import.report().clone())
}

fn import_lines(tsd: &Tsd, text: &str, skips_errors: bool) -> Result<Report, Error> {
    let text = Bytes::from(text.to_owned());
    store(tsd, Import::of_lines(&text, options(skips_errors)))
}

fn import_cells(tsd: &Tsd, text: &str, skips_errors: bool) -> Result<Report, Error> {
    import_salted(tsd, text, Salt::default(), skips_errors)
}

fn import_salted(tsd: &Tsd, text: &str, salt: Salt, skip: bool) -> Result<Report, Error> {
    let text = Bytes::from(text.to_owned());
    store(tsd, Import::of_cells(&text, layout(salt), options(skip))?)
}

fn point_export(tsd: &Arc<Tsd>, format: ExportFormat, salt: Salt) -> PointExport {
    let everything = vec![vec![Matcher::equal("no_such_label", "")]];
    PointExport::new(
        Arc::clone(tsd),
        format,
        layout(salt),
        everything,
        (0, i64::MAX),
        SelectHints::default(),
    )
}

/// All that a server has, and what is said about it.
fn export(tsd: &Arc<Tsd>, format: ExportFormat, salt: Salt) -> (String, Report) {
    let mut text = Vec::new();
    let mut points = point_export(tsd, format, salt);
    while let Some(chunk) = block_on(points.next_chunk()).unwrap() {
        text.extend(chunk);
    }
    if format == ExportFormat::Cells {
        let mut tables = TableExport::new(Arc::clone(tsd), layout(salt), (0, i64::MAX));
        while let Some(chunk) = block_on(tables.next_chunk()).unwrap() {
            text.extend(chunk);
        }
    }
    (String::from_utf8(text).unwrap(), points.report().clone())
}

fn ask(tsd: &Tsd, method: Method, target: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = Request::new(method, target, HeaderMap::new(), body.into());
    let response = block_on(handle(tsd, &request));
    let body = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
    (response.status.as_u16(), body)
}

fn get(tsd: &Tsd, target: &str) -> Value {
    let (status, body) = ask(tsd, Method::GET, target, Value::Null);
    assert!(status < 300, "{target}: {status} {body}");
    body
}

fn post(tsd: &Tsd, target: &str, body: Value) {
    let (status, answer) = ask(tsd, Method::POST, target, body);
    assert!(status < 300, "{target}: {status} {answer}");
}

fn cell(table: &str, row: &str, family: &str, qualifier: &str, value: &str) -> String {
    let line = json!({
        "table": table, "row": row, "family": family, "qualifier": qualifier, "value": value,
    });
    format!("{line}\n")
}

/// `sys.cpu`, `host` and `web01` are 1, `sys.cpu.idle` is 7.
fn names() -> String {
    let mut text = String::new();
    for (kind, id, name) in [
        ("metrics", "000001", "sys.cpu"),
        ("tagk", "000001", "host"),
        ("tagv", "000001", "web01"),
        ("metrics", "000007", "sys.cpu.idle"),
    ] {
        let (kind, name) = (hex::encode(kind), hex::encode(name));
        text += &cell("tsdb-uid", id, "name", &kind, &name);
        text += &cell("tsdb-uid", &name, "id", &kind, id);
    }
    let counter = "0000000000000007";
    text + &cell("tsdb-uid", "00", "id", &hex::encode("metrics"), counter)
}

const ROW: &str = "00000150E22700000001000001";

#[test]
fn names_get_uids_behind_the_greatest_one_of_the_source() {
    let tsd = open();
    // Of what was 8 and 9 there the names are gone.
    let counter = "0000000000000009";
    let greatest = cell("tsdb-uid", "00", "id", &hex::encode("metrics"), counter);
    let report = import_cells(&tsd, &(names() + &greatest), false).unwrap();
    assert_eq!((report.names, report.skipped.len()), (4, 0));
    let assigned = get(&tsd, "/api/uid/assign?metric=new");
    assert_eq!(assigned["metric"]["new"], "00000A");
}

#[test]
fn lines_are_points_and_bad_ones_are_named() {
    let tsd = open();
    let text = format!(
        "sys.cpu {START} 42 host=web01\n\
         sys.cpu {}250 42.5 host=web01 cpu=0\r\n\n\
         sys.cpu {} 1.0E10 host=web01\n",
        START + 1,
        START + 7200,
    );
    let report = import_lines(&tsd, &text, false).unwrap();
    assert_eq!((report.lines, report.samples), (4, 3));
    let answer = get(
        &tsd,
        "/api/query?start=1356998400&end=1357009200&ms=true&m=none:sys.cpu",
    );
    let points = |index: usize| answer[index]["dps"].to_string();
    assert_eq!(
        points(0),
        r#"{"1356998400000":42.0,"1357005600000":10000000000.0}"#
    );
    assert_eq!(points(1), r#"{"1356998401250":42.5}"#);
    let bad = format!(
        "ok {START} 1 host=a\nx {START} NaN host=a\nx yesterday 1 host=a\nx {START}\n\
         x {START} 1 host\nx 0 1 host=a\n"
    );
    let error = import_lines(&tsd, &bad, false).unwrap_err();
    assert!(
        error.message.starts_with("line 3: not a number: "),
        "{}",
        error.message
    );
    let report = import_lines(&tsd, &bad, true).unwrap();
    let skipped: Vec<_> = report
        .skipped
        .iter()
        .map(|skipped| (skipped.reason.as_str(), skipped.count, skipped.line))
        .collect();
    assert_eq!(report.samples, 1);
    assert_eq!(
        skipped,
        [("not a number", 2, Some(3)), ("illegal line", 3, Some(6)),]
    );
}

#[test]
fn metrics_are_created_only_on_request() {
    let tsd = open();
    let text = Bytes::from(format!("sys.cpu {START} 42 host=web01\n"));
    let strict = ImportOptions {
        creates_metrics: false,
        ..options(false)
    };
    let error = store(&tsd, Import::of_lines(&text, strict)).unwrap_err();
    assert!(error.message.contains("--auto-metric"), "{}", error.message);
}

#[test]
fn cells_of_every_kind_are_read() {
    let tsd = open();
    let note = hex::encode(
        r#"{"startTime":1356998523,"endTime":0,"description":"d","notes":"","custom":null}"#,
    );
    let mut text = cell("tsdb", ROW, "t", "01E0", "2A");
    text += &cell("tsdb", ROW, "t", "02D1", "012C");
    text += &cell("tsdb", ROW, "74", "F0007D00", "01");
    // Compacted, appended, with a float of four bytes.
    text += &cell(
        "tsdb",
        "00000150E23510000001000001",
        "t",
        "00000010",
        "040500",
    );
    text += &cell(
        "tsdb",
        "00000150E24320000001000001",
        "t",
        "050000",
        "03C1012C01E02A",
    );
    text += &cell(
        "tsdb",
        "00000150E25130000001000001",
        "t",
        "E0FB",
        "3FC00000",
    );
    text += &cell("tsdb", ROW, "t", "01007B", &note);
    text += &cell("tsdb", "00000050E22700", "t", "01007B", &note);
    // A name comes behind its points.
    text += &names();
    text += &cell("tsdb-1h", ROW, "t", "000050", "07");
    text += &cell("tsdb-1h", ROW, "t", "73756D3A0060", "08");
    text += &cell("tsdb-preagg", ROW, "t", "01E0", "09");
    text += &cell("elsewhere", ROW, "t", "01E0", "09");
    let report = import_cells(&tsd, &text, false).unwrap();
    assert_eq!((report.samples, report.names, report.records), (11, 4, 2));
    let skipped: Vec<_> = report.skipped.iter().map(|s| s.reason.as_str()).collect();
    assert_eq!(skipped, ["a table that is none of OpenTSDB's here"]);
    let query = "/api/query?start=1356998400&end=1357012799&ms=true&show_tsuids=true\
                 &global_annotations=true&m=sum:sys.cpu";
    let answer = get(&tsd, query);
    // An integer before a float is shown as one, as the original does.
    let expected = json!({
        "1356998400500": 1, "1356998430000": 42, "1356998445000": 300,
        "1357002000000": 4, "1357002001000": 5,
        "1357005630000": 42, "1357005660000": 300.0, "1357012799000": 1.5,
    });
    assert_eq!(answer[0]["dps"], expected);
    assert_eq!(answer[0]["tsuids"], json!(["000001000001000001"]));
    assert_eq!(answer[0]["annotations"][0]["description"], "d");
    assert_eq!(
        answer[0]["globalAnnotations"][0]["startTime"],
        1_356_998_523
    );
    let rolled = get(
        &tsd,
        "/api/query?start=1356998400&end=1357084799&m=sum:1h-sum:sys.cpu",
    );
    assert_eq!(
        rolled[0]["dps"],
        json!({"1357016400": 7.0, "1357020000": 8.0})
    );
    // The same again changes nothing.
    import_cells(&tsd, &text, false).unwrap();
    assert_eq!(get(&tsd, query), answer);
}

#[test]
fn cells_that_cannot_be_read_are_named() {
    let tsd = open();
    let mut text = names();
    let lines = text.lines().count() as u64;
    text += &cell("tsdb", ROW, "t", "01E0", "2A2A");
    text += "{}\n";
    text += &cell("tsdb", "00000950E22700000001000001", "t", "01E0", "2A");
    text += &cell("tsdb", ROW, "t", "06007B", "2A00");
    text += &cell("tsdb-uid", "00", "name", hex::encode("tags").as_str(), "00");
    text += &cell("tsdb", ROW, "t", "01E0", "2A");
    let error = import_cells(&tsd, &text, false).unwrap_err();
    let first = format!("line {}: no cell: table is missing", lines + 2);
    assert!(error.message.starts_with(&first), "{}", error.message);
    let report = import_cells(&tsd, &text, true).unwrap();
    let reasons: Vec<_> = report
        .skipped
        .iter()
        .map(|s| (s.reason.as_str(), s.line.unwrap() - lines))
        .filter(|(_, line)| *line > 0)
        .collect();
    assert_eq!(
        reasons,
        [
            ("no cell", 2),
            ("no cell of the UID table", 5),
            ("no value of its qualifier", 1),
            ("a UID that has no name", 3),
            ("a histogram that cannot be kept", 4),
        ]
    );
    assert_eq!(report.samples, 1);
}

#[test]
fn a_uid_never_names_two_things() {
    let tsd = open();
    import_lines(&tsd, &format!("other {START} 1 host=web01\n"), false).unwrap();
    for skips_errors in [false, true] {
        let error = import_cells(&tsd, &names(), skips_errors).unwrap_err();
        assert_eq!(error.status.as_u16(), 409);
        let expected = r#"line 1: metrics: UID 000001 is "sys.cpu" there and "other" here; "#;
        assert!(error.message.starts_with(expected), "{}", error.message);
    }
    let tsd = open();
    import_lines(&tsd, &format!("sys.cpu.idle {START} 1 host=web01\n"), false).unwrap();
    let error = import_cells(&tsd, &names(), true).unwrap_err();
    assert_eq!(error.status.as_u16(), 409);
}

#[test]
fn uids_that_writers_left_behind_are_passed_over() {
    let tagv = hex::encode("tagv");
    let name = |id: &str| cell("tsdb-uid", id, "name", &tagv, &hex::encode("t2"));
    let id = |id: &str| cell("tsdb-uid", &hex::encode("t2"), "id", &tagv, id);
    // The orphan has the greater UID, or the smaller one; cells come in any order.
    for (owner, orphan) in [("000017", "000018"), ("000018", "000017")] {
        let cells = [name(owner), name(orphan), id(owner)];
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]] {
            let tsd = open();
            let text = order.map(|i| cells[i].as_str()).concat();
            let line = order.iter().position(|i| *i == 1).unwrap() as u64 + 1;
            // With a point of the series `sys.cpu host=t2`.
            let row = format!("00000150E22700000001{owner}");
            let point = cell("tsdb", &row, "t", "01E0", "2A");
            let report = import_cells(&tsd, &(names() + &text + &point), false).unwrap();
            assert_eq!((report.names, report.samples), (5, 1));
            let [skipped] = &report.skipped[..] else {
                panic!("{:?}", report.skipped)
            };
            let expected = format!("tagv: UID {orphan} of \"t2\", which has UID {owner}");
            assert_eq!((skipped.example.as_str(), skipped.count), (&*expected, 1));
            assert_eq!(skipped.line, Some(names().lines().count() as u64 + line));
            let query = "/api/query?start=1356998400&end=1357002000&show_tsuids&m=sum:sys.cpu";
            let found = get(&tsd, query);
            assert_eq!(found[0]["tags"], json!({"host": "t2"}));
            assert_eq!(found[0]["tsuids"], json!([format!("000001000001{owner}")]));
        }
    }
    // What the server has given the name counts as before.
    let tsd = open();
    import_lines(&tsd, &format!("sys.cpu {START} 1 host=t2\n"), false).unwrap();
    let both = [name("000017"), name("000018"), id("000017")].concat();
    let error = import_cells(&tsd, &both, true).unwrap_err();
    assert_eq!(error.status.as_u16(), 409, "{}", error.message);
}

/// One of everything.
fn furnish(tsd: &Tsd) {
    let mut text = String::new();
    for i in 0..200 {
        let value = match i % 4 {
            0 => "5".into(),
            1 => format!("{i}.5"),
            2 => "5.0".into(),
            _ => i64::MAX.to_string(),
        };
        let (time, host) = (START + 997 * i, i % 3);
        text += &format!(
            "sys.cpu {time}{} {value} host=web0{host} cpu={}\n",
            if i % 5 == 0 { "250" } else { "" },
            i % 2
        );
    }
    import_lines(tsd, &text, false).unwrap();
    post(
        tsd,
        "/api/histogram",
        json!({"metric": "sys.cpu", "timestamp": START + 60, "tags": {"host": "h"},
               "buckets": {"0,1.75": 12, "1.75,3.5": 16}, "underflow": 0, "overflow": 1}),
    );
    post(
        tsd,
        "/api/rollup?details",
        json!([
            {"metric": "sys.cpu", "timestamp": START + 3600, "value": 7, "tags": {"host": "a"},
             "interval": "1h", "aggregator": "SUM"},
            {"metric": "sys.cpu", "timestamp": START + 3600, "value": 8.5, "tags": {"host": "a"},
             "interval": "1h", "aggregator": "SUM", "groupByAggregator": "SUM"},
            {"metric": "sys.cpu", "timestamp": START + 90, "value": 9, "tags": {"host": "a"},
             "groupByAggregator": "SUM"}]),
    );
    for tsuid in [Value::Null, json!("000001000001000001000002000002")] {
        let mut note =
            json!({"startTime": START + 5, "description": "deploy", "custom": {"a": "b"}});
        if !tsuid.is_null() {
            note["tsuid"] = tsuid;
        }
        post(tsd, "/api/annotation", note);
    }
    post(
        tsd,
        "/api/uid/uidmeta",
        json!({"uid": "000001", "type": "metric", "displayName": "CPU", "custom": {"x": "y"}}),
    );
    post(
        tsd,
        "/api/uid/tsmeta",
        json!({"tsuid": "000001000001000001000002000002", "units": "%", "max": 100}),
    );
    post(
        tsd,
        "/api/tree",
        json!({"name": "all", "enabled": true, "storeFailures": true}),
    );
    post(
        tsd,
        "/api/tree/rule",
        json!({"treeId": 1, "level": 0, "order": 0, "type": "METRIC", "separator": "\\."}),
    );
    post(
        tsd,
        "/api/tree/rule",
        json!({"treeId": 1, "level": 1, "order": 0, "type": "TAGK", "field": "host"}),
    );
    import_lines(
        tsd,
        &format!("net.bytes.sent {START} 1 host=web09\n"),
        false,
    )
    .unwrap();
}

/// What is asked of both sides.
const QUESTIONS: [&str; 12] = [
    "/api/query?start=1356998000&end=1357300000&ms=true&show_tsuids=true&global_annotations=true&m=none:sys.cpu",
    "/api/query?start=1356998000&end=1357300000&m=sum:10m-avg:sys.cpu%7Bhost=*%7D",
    "/api/query?start=1356998000&end=1357300000&m=sum:1h-sum:sys.cpu",
    "/api/query?start=1356998000&end=1357300000&m=sum:percentiles%5B50.0%5D:sys.cpu",
    "/api/search/lookup?m=sys.cpu&limit=100",
    "/api/suggest?type=tagv&max=100",
    "/api/annotation?start_time=1356998405",
    "/api/uid/uidmeta?uid=000001&type=metric",
    "/api/uid/tsmeta?tsuid=000001000001000001000002000002",
    "/api/tree?treeid=1",
    "/api/tree/branch?treeid=1",
    "/api/tree/branch?branch=00010001A9F2",
];

fn answers(tsd: &Tsd) -> Vec<(u16, Value)> {
    let ask = |target: &&str| ask(tsd, Method::GET, target, Value::Null);
    QUESTIONS.iter().map(ask).collect()
}

#[test]
fn what_is_exported_as_cells_is_imported_alike() {
    let source = open();
    furnish(&source);
    let expected = answers(&source);
    for (status, answer) in &expected[..8] {
        assert_eq!(*status, 200, "{answer}");
    }
    for salt in [Salt::default(), Salt::new(1, 20).unwrap()] {
        let (text, report) = export(&source, ExportFormat::Cells, salt);
        assert_eq!(report.skipped, []);
        let target = open();
        let imported = import_salted(&target, &text, salt, false).unwrap();
        assert_eq!(imported.samples, report.samples);
        assert_eq!(imported.histograms, 1);
        for (i, (found, expected)) in answers(&target).iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "{}", QUESTIONS[i]);
        }
        assert_eq!(export(&target, ExportFormat::Cells, salt).0, text);
    }
}

#[test]
fn what_is_exported_as_text_is_imported_alike() {
    let source = open();
    furnish(&source);
    let (text, report) = export(&source, ExportFormat::Text, Salt::default());
    let skipped: Vec<_> = report
        .skipped
        .iter()
        .map(|s| (s.reason.as_str(), s.count))
        .collect();
    assert_eq!(
        skipped,
        [
            ("histograms have no line: export cells", 1),
            ("rollups and pre-aggregates have no line: export cells", 3),
        ]
    );
    assert_eq!(text.lines().count() as u64, report.samples);
    let target = open();
    import_lines(&target, &text, false).unwrap();
    let lines = |tsd| {
        let text = export(tsd, ExportFormat::Text, Salt::default()).0;
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&target), lines(&source));
}

#[test]
fn series_that_the_original_cannot_have_are_left_out() {
    let tsd = open();
    import_lines(&tsd, &format!("m {START} 1 host=a\n"), false).unwrap();
    let request = json!([{"metric": "m", "timestamp": START, "value": 1, "tags": {"host": "b"}}]);
    post(&tsd, "/api/put", request);
    let (text, report) = export(&tsd, ExportFormat::Text, Salt::default());
    assert_eq!(text, format!("m {START} 1 host=a\nm {START} 1 host=b\n"));
    assert_eq!(report.samples, 2);
}

#[test]
fn names_of_other_clients_get_uids_on_request_alone() {
    let stores = MemoryStore::stores();
    let open = || {
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let tsd = Tsd::open(Config::default(), stores.clone(), clock);
        Arc::new(block_on(tsd).unwrap())
    };
    let labels = Labels::from_pairs([(METRIC_NAME, "up"), ("instance", "a")]);
    append(&stores, &labels, &[(0, 1.0), (10, 2.0)]);
    let records = || block_on(stores.catalog.range(vec![0]..vec![0xFF], 1000)).unwrap();
    let tsd = open();
    let (text, report) = export(&tsd, ExportFormat::Cells, Salt::default());
    assert!(!text.contains("\"tsdb\""), "{text}");
    let [skipped] = &report.skipped[..] else {
        panic!("{report:?}");
    };
    assert_eq!(skipped.count, 2);
    assert!(skipped.reason.contains("assign_uids"), "{skipped:?}");
    assert_eq!(records(), []);
    let mut assigning = point_export(&tsd, ExportFormat::Cells, Salt::default()).assigning_uids();
    while block_on(assigning.next_chunk()).unwrap().is_some() {}
    assert_eq!(assigning.report().skipped, []);
    assert_ne!(records(), []);
    // That they have UIDs does not change their numbers, now and after a start.
    let query = format!(
        "/api/query?start={START}&end={}&m=sum:up&show_tsuids",
        START + 60
    );
    for tsd in [&tsd, &open()] {
        let found = get(tsd, &query);
        assert_eq!(found[0]["tsuids"], json!(["000001000001000001"]), "{found}");
        let dps = found[0]["dps"].to_string();
        assert_eq!(dps, format!(r#"{{"{START}":1.0,"{}":2.0}}"#, START + 10));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn points_survive_both_formats(
        points in prop::collection::vec(
            (0usize..3, 0i64..200_000_000, prop_oneof![
                any::<i64>().prop_map(|n| n.to_string()),
                (-9i64..9).prop_map(|n| n.to_string()),
                (-9i64..9).prop_map(|n| format!("{n}.0")),
                (-1e9..1e9).prop_map(|f: f64| format!("{f:e}")),
            ]),
            1..40,
        ),
    ) {
        let source = open();
        let mut text = String::new();
        for (series, offset, value) in points {
            let time = START * 1000 + offset;
            text += &format!("m.{series} {time} {value} host=web0{series}\n");
        }
        import_lines(&source, &text, false).unwrap();
        let ask = |tsd: &Tsd| -> Vec<Value> {
            let query = |series| format!(
                "/api/query?start=1356998000&end=1357300000&ms=true&m=sum:m.{series}"
            );
            (0..3).map(|series| ask(tsd, Method::GET, &query(series), Value::Null).1).collect()
        };
        let expected: Vec<Value> = ask(&source);
        let (lines, _) = export(&source, ExportFormat::Text, Salt::default());
        let (cells, _) = export(&source, ExportFormat::Cells, Salt::default());
        let (by_lines, by_cells) = (open(), open());
        import_lines(&by_lines, &lines, false).unwrap();
        import_cells(&by_cells, &cells, false).unwrap();
        let dps = |answers: &[Value]| answers.iter().map(|a| a[0]["dps"].clone()).collect::<Vec<_>>();
        prop_assert_eq!(dps(&ask(&by_lines)), dps(&expected));
        prop_assert_eq!(dps(&ask(&by_cells)), dps(&expected));
    }

    #[test]
    fn no_bytes_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let tsd = open();
        let text = Bytes::from(text);
        let _ = store(&tsd, Import::of_lines(&text, options(true)));
        if let Ok(import) = Import::of_cells(&text, layout(Salt::default()), options(true)) {
            let _ = store(&tsd, import);
        }
    }

    #[test]
    fn no_cell_panics(
        table in prop_oneof![
            Just("tsdb"), Just("tsdb-uid"), Just("tsdb-meta"), Just("tsdb-tree"), Just("tsdb-1h"),
            Just("tsdb-preagg"),
        ],
        family in prop_oneof![Just("t"), Just("id"), Just("name")],
        row in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20),
            Just(vec![0, 0, 1, 0x50, 0xE2, 0x27, 0, 0, 0, 1, 0, 0, 1]),
            Just(vec![0, 0, 1, 0, 0, 1, 0, 0, 1]),
            Just(vec![0, 1]),
        ],
        qualifier in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..8),
            Just(b"metrics".to_vec()), Just(b"tagk_meta".to_vec()), Just(b"ts_meta".to_vec()),
            Just(b"tree".to_vec()), Just(b"branch".to_vec()), Just(b"tree_rule:1:2".to_vec()),
            Just(b"leaf:1234".to_vec()),
        ],
        value in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20),
            Just(b"{}".to_vec()), Just(br#"{"path":{"0":"ROOT","x":1},"type":"METRIC"}"#.to_vec()),
        ],
    ) {
        let tsd = open();
        let hex = |bytes: &[u8]| hex::encode(bytes);
        let line = cell(table, &hex(&row), family, &hex(&qualifier), &hex(&value));
        import_cells(&tsd, &names(), false).unwrap();
        let _ = import_cells(&tsd, &line, true);
        let _ = export(&tsd, ExportFormat::Cells, Salt::default());
    }
}
