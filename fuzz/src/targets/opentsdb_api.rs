//! Targets for what `opentsdb` itself reads: cells of HBase's tables, and the languages of queries.
//!
//! Queries are sent to a small server in memory: what can be parsed is planned and computed, too.
//! The first byte of an input says what it is about.

use std::sync::{Arc, LazyLock};

use futures::executor::block_on;
use http::{HeaderMap, Method};
use icecore_model::{ManualClock, MemoryBudget};
use icecore_opentsdb::api::{self, Request};
use icecore_opentsdb::hbase::{
    Cell, Column, KeyLayout, RollupCell, Salt, SeriesMetaCell, TreeCell, UidCell,
};
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::{Config, Tsd};

use crate::{MEMORY_BASE, Target};

/// The hour that has points.
const START_S: i64 = 1_356_998_400;

/// What a query may hold by its own account.
const QUERY_BYTES: usize = 1 << 20;

/// What it may hold by the allocator's account: the table of an empty answer with 4 million
/// intervals, which a mutated time makes of a fill policy.
const QUERY_MEMORY: usize = 1 << 29;

const WIDTHS: [usize; 3] = [3; 3];

/// Queries by `m`, by `exp` of `gexp`, and the bodies of `/api/query` and `/api/query/exp`.
const SEEDS: [&str; 12] = [
    "msum:rate{counter,100,5}:10s-avg-zero:sys.cpu{host=*}{dc=not_literal_or(lga|sjc)}",
    "mp99:0all-sum:sys.cpu{host=iwildcard(*b0*),dc=regexp(l.*)}",
    "mnone:1dc-max-nan:explicit_tags:sys.cpu{host=web01|web02}",
    "mavg:rollup_raw:percentiles[50,99.9]:sys.cpu",
    "gscale(sum:1m-avg:sys.cpu{host=*},-1.5)",
    "gdiffSeries(movingAverage(sum:sys.cpu,'5m'),highestMax(max:sys.cpu{host=*},2),timeShift(sum:sys.cpu,'1h'))",
    "galias(divideSeries(sum:sys.cpu,absolute(avg:sys.cpu)),@host.cpu)",
    r#"q{"start":1356998400,"end":"1356998460","timezone":"Europe/Berlin","useCalendar":true,"queries":[{"aggregator":"sum","metric":"sys.cpu","downsample":"1dc-avg","rate":true,"rateOptions":{"counter":true,"counterMax":100,"resetValue":1},"filters":[{"type":"wildcard","tagk":"host","filter":"*","groupBy":true}],"explicitTags":false}]}"#,
    r#"q{"start":"1h-ago","msResolution":true,"showQuery":true,"showStats":true,"queries":[{"aggregator":"none","tsuids":["000001000001000001"],"percentiles":[99]},{"aggregator":"dev","metric":"sys.cpu","tags":{"host":"web*"}}]}"#,
    r#"x{"time":{"start":"1356998400","end":"1356998460","aggregator":"sum","downsampler":{"interval":"10s","aggregator":"avg","fillPolicy":{"policy":"scalar","value":1.5}}},"filters":[{"id":"f","tags":[{"type":"wildcard","tagk":"host","filter":"*","groupBy":true}]}],"metrics":[{"id":"a","metric":"sys.cpu","filter":"f"},{"id":"b","metric":"sys.cpu"}],"expressions":[{"id":"e","expr":"a + b * (2 - 1) / a % 3","join":{"operator":"intersection","useQueryTags":false,"includeAggTags":true}},{"id":"g","expr":"e > 1 && !(b <= 2) || a == 3 ? -a : b"}],"outputs":[{"id":"e","alias":"x"}]}"#,
    r#"x{"time":{"start":"1356998400","aggregator":"max"},"metrics":[{"id":"a","metric":"sys.cpu"}],"expressions":[{"id":"e","expr":"a ne 2 and a ge 1.5e3","join":{"operator":"union"},"fillPolicy":{"policy":"zero"}}]}"#,
    "t2013/01/01-00:00:00",
];

pub fn targets() -> Vec<Target> {
    vec![
        Target {
            name: "opentsdb_hbase",
            seeds: cells,
            run: read_cell,
            memory_base: MEMORY_BASE,
        },
        Target {
            name: "opentsdb_query",
            seeds: || {
                LazyLock::force(&SERVER);
                SEEDS.iter().map(|seed| seed.as_bytes().to_vec()).collect()
            },
            run: ask,
            memory_base: QUERY_MEMORY,
        },
    ]
}

/// Lengths of row, family and qualifier, and then those and the value.
fn cells() -> Vec<Vec<u8>> {
    let points = b"\x00\x00\x01\x50\xe2\x27\x00\x00\x00\x01\x00\x00\x01";
    let tsuid = b"\x00\x00\x01\x00\x00\x01\x00\x00\x01";
    let cells: [[&[u8]; 4]; 10] = [
        [points, b"t", b"\x01\xe0", b"\x2a"],
        [points, b"t", b"\xf0\x00\x0f\x4b", b"\x42\x2a\x00\x00"],
        [points, b"t", b"\x00\x00\x01\xe0", b"\x01\x02\x00"],
        [points, b"t", b"\x05\x00\x00", b"\x00\x00\x01\x01\xe0\x02"],
        [points, b"t", b"\x01\x00\x0a", br#"{"startTime":1}"#],
        [points, b"t", b"sum:\x00\x10", b"\x2a"],
        [b"sys.cpu", b"id", b"metrics", b"\x00\x00\x01"],
        [b"\x00\x00\x01", b"name", b"metrics", b"sys.cpu"],
        [
            tsuid,
            b"name",
            b"ts_meta",
            br#"{"tsuid":"000001000001000001"}"#,
        ],
        [b"\x00\x01\x00\x00\xbe\xcd", b"t", b"tree_rule:0:1", b"{}"],
    ];
    let cell = |parts: [&[u8]; 4]| {
        let lengths = parts[..3].iter().map(|part| part.len() as u8);
        let mut input: Vec<u8> = lengths.collect();
        parts.iter().for_each(|part| input.extend_from_slice(part));
        input
    };
    cells.map(cell).to_vec()
}

fn read_cell(input: &[u8]) {
    let Some((lengths, mut rest)) = input.split_first_chunk::<3>() else {
        return;
    };
    let [row, family, qualifier] = lengths.map(|length| {
        let (part, behind) = rest.split_at(usize::from(length).min(rest.len()));
        rest = behind;
        part
    });
    let cell = Cell {
        row,
        family,
        qualifier,
        value: rest,
    };
    for salt in [(0, 0), (1, 20)] {
        let layout = KeyLayout {
            widths: WIDTHS,
            salt: Salt::new(salt.0, salt.1).expect("it is one"),
        };
        if let Ok(key) = layout.decode(row) {
            let again = layout.decode(&layout.encode(&key));
            assert_eq!(again, Ok(key), "what is written is read");
        }
    }
    if let Ok(column) = Column::decode(qualifier, rest) {
        for point in column.points() {
            let _ = point.offset.milliseconds();
        }
        let _ = column.encode();
    }
    let _ = RollupCell::decode(qualifier, rest).map(|cell| cell.encode());
    let _ = UidCell::decode(cell).map(|cell| cell.encode(WIDTHS));
    let _ = SeriesMetaCell::decode(cell, WIDTHS).map(|cell| cell.encode(WIDTHS));
    let _ = TreeCell::decode(cell).map(|(tree, cell)| cell.encode(tree));
}

static SERVER: LazyLock<Tsd> = LazyLock::new(|| {
    let config = Config {
        auto_create_metrics: true,
        ..Config::default()
    };
    let clock = Arc::new(ManualClock::at((START_S + 3600) * 1000));
    let opened = Tsd::open(config, MemoryStore::stores(), clock);
    let tsd = block_on(opened).expect("an empty store is read");
    for (host, dc) in [("web01", "lga"), ("web02", "sjc"), ("db01", "lga")] {
        for second in (0..60).step_by(10) {
            let time = START_S + second;
            let body = format!(
                r#"{{"metric":"sys.cpu","timestamp":{time},"value":{second}.5,"tags":{{"host":"{host}","dc":"{dc}"}}}}"#
            );
            let target = "/api/put";
            let request = Request::new(Method::POST, target, HeaderMap::new(), body.into());
            let stored = block_on(api::handle(&tsd, &request));
            assert!(stored.status.is_success(), "a point is stored");
        }
    }
    tsd
});

fn ask(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text).into_owned();
    let get = |path: &str, start: &str, name: &str, text: String| {
        let mut request = Request::new(Method::GET, path, HeaderMap::new(), "".into());
        let end = (START_S + 60).to_string();
        let params = [("start", start.to_owned()), ("end", end), (name, text)];
        let params = params.map(|(name, value)| (name.to_owned(), value));
        request.params = params.to_vec();
        request
    };
    let start = START_S.to_string();
    let post =
        |path: &str, text: String| Request::new(Method::POST, path, HeaderMap::new(), text.into());
    let mut request = match kind {
        b'g' => get("/api/query/gexp", &start, "exp", text),
        b'q' => post("/api/query", text),
        b'x' => post("/api/query/exp", text),
        b't' => get("/api/query", &text, "m", "sum:sys.cpu".into()),
        _ => get("/api/query", &start, "m", text),
    };
    request.allowance.memory = MemoryBudget::new(QUERY_BYTES);
    let answer = block_on(api::handle(&SERVER, &request));
    // 500 is for the store, which does not fail here.
    assert_ne!(answer.status.as_u16(), 500);
}
