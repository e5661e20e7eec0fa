use std::collections::BTreeMap;
use std::sync::Arc;

use futures::executor::block_on;
use http::{HeaderMap, Method};
use icecore_model::ManualClock;

use super::*;
use crate::api;
use crate::testing::MemoryStore;

fn tsd() -> Tsd {
    over(&Arc::default())
}

fn over(store: &Arc<MemoryStore>) -> Tsd {
    let rollups = r#"{"aggregationIds":{"sum":0},"intervals":[{"interval":"1h","rowSpan":"1d"}]}"#;
    let config = Config {
        auto_create_metrics: true,
        realtime_ts: true,
        rollups_enabled: true,
        rollups_document: Some(rollups.into()),
        ..Config::default()
    };
    let clock = Arc::new(ManualClock::at(0));
    block_on(Tsd::open(config, store.clone().all(), clock)).unwrap()
}

/// Feeds bytes as a connection does, and waits as long as it takes; the replies and the pauses.
fn feed(session: &mut Session<'_>, bytes: &[u8]) -> (String, Vec<Duration>) {
    let (mut text, mut pauses) = (String::new(), Vec::new());
    let mut reply = block_on(session.feed(bytes));
    loop {
        text += &reply.text;
        pauses.extend(reply.retry_after);
        assert!(pauses.len() < 1000, "it is never stored");
        if !reply.has_more {
            return (text, pauses);
        }
        reply = block_on(session.resume());
    }
}

/// The points of the metric `a` that has one series, by their seconds.
fn stored(tsd: &Tsd) -> BTreeMap<u64, f64> {
    let target = "/api/query?start=1&end=100000000&m=sum:a";
    let request = api::Request::new(Method::GET, target, HeaderMap::new(), Bytes::new());
    let answer = block_on(api::handle(tsd, &request));
    let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let points = answer[0]["dps"].as_object().unwrap().iter();
    let point = |(second, value): (&String, &serde_json::Value)| {
        (second.parse().unwrap(), value.as_f64().unwrap())
    };
    points.map(point).collect()
}

fn put(second: u64, value: u64) -> String {
    format!("put a {second} {value} h=a\n")
}

#[test]
fn lines_that_are_refused_are_tried_again_and_none_is_lost() {
    for refusals in [1, 2, 7, 30] {
        let store = Arc::new(MemoryStore::default());
        let tsd = over(&store);
        let mut session = Session::new(&tsd);
        // Of two points at one time the last one counts, whatever was tried how often.
        let mut lines: String = (1..=500).map(|second| put(second, 0)).collect();
        lines += "put a\nversion\n";
        lines.extend((1..=500).map(|second| put(second, second)));
        store.refuse_next(refusals);
        let (text, pauses) = feed(&mut session, lines.as_bytes());
        assert_eq!(pauses.len(), refusals);
        assert_eq!(text.matches("not enough arguments").count(), 1, "{text}");
        assert_eq!(text.matches("net.opentsdb").count(), 1, "{text}");
        let expected: BTreeMap<u64, f64> = (1..=500).map(|s| (s, s as f64)).collect();
        assert_eq!(stored(&tsd), expected);
        // Nothing counts twice in statistics.
        assert_eq!(tsd.counters.points_received.get(), 1000);
        assert_eq!(tsd.counters.points_added.get(), 1000);
        assert_eq!(tsd.counters.illegal_arguments.get(), 1);
        assert_eq!(tsd.counters.telnet_lines.get(), 1002);
        assert_eq!(block_on(session.finish()), "");
    }
}

#[test]
fn what_is_too_much_at_once_is_stored_in_parts() {
    let store = Arc::new(MemoryStore::default());
    let tsd = over(&store);
    let mut session = Session::new(&tsd);
    store.limit_samples(3);
    let lines: String = (1..=100).map(|second| put(second, second)).collect();
    let (text, _) = feed(&mut session, lines.as_bytes());
    assert_eq!(text, "");
    assert_eq!(stored(&tsd).len(), 100);
}

#[test]
fn exit_waits_until_the_lines_before_it_are_stored() {
    let store = Arc::new(MemoryStore::default());
    let tsd = over(&store);
    let mut session = Session::new(&tsd);
    store.refuse_next(1);
    let reply = block_on(session.feed(b"put a 1 1 h=a\nexit\nput a 2 2 h=a\n"));
    assert!(!reply.close && reply.has_more, "{reply:?}");
    assert_eq!(reply.retry_after, Some(Duration::from_millis(50)));
    // By now a part is one line.
    assert!(!block_on(session.resume()).close);
    assert!(block_on(session.resume()).close);
    assert_eq!(stored(&tsd), BTreeMap::from([(1, 1.0)]));
}

#[test]
fn who_gives_up_says_which_points_are_not_stored() {
    let store = Arc::new(MemoryStore::default());
    let tsd = over(&store);
    let mut session = Session::new(&tsd);
    store.refuse_appends(true);
    let lines = "put a 1 1 h=a\nput b 1 1 h=a\nrollup 1h-SUM a 1 1 h=a\nexit\nput c 1 1 h=a\n";
    let reply = block_on(session.feed(lines.as_bytes()));
    assert!(reply.retry_after.is_some());
    let reason = "Please throttle writes: Storage exception: appends are refused";
    let expected = format!("put: {reason} (×2)\nrollup: {reason} (×1)\n");
    assert_eq!(session.give_up(), expected);
    assert_eq!(block_on(session.finish()), "");
}

#[test]
fn lines_may_arrive_in_pieces() {
    let tsd = tsd();
    let mut session = Session::new(&tsd);
    let mut text = String::new();
    for piece in ["fo", "o\r\nput a 1", " 1 h=a\nput x\n", "", "bar\n"] {
        text += &block_on(session.feed(piece.as_bytes())).text;
    }
    let expected = "unknown command: foo.  Try `help'.\n\
                    put: illegal argument: not enough arguments (need least 4, got 1)\n\
                    unknown command: bar.  Try `help'.\n";
    assert_eq!(text, expected);
    assert_eq!(block_on(session.finish()), "");
    assert_eq!(tsd.series_cache.len(), 1);
}

#[test]
fn a_line_that_is_too_long_is_skipped() {
    let tsd = tsd();
    let mut session = Session::new(&tsd);
    for _ in 0..LINE_BYTES_MAX {
        assert_eq!(block_on(session.feed(b"xx")), Reply::default());
    }
    assert!(session.buffer.len() <= LINE_BYTES_MAX);
    let reply = block_on(session.feed(b"x\nfoo\n"));
    assert_eq!(reply.text, "unknown command: foo.  Try `help'.\n");
}

#[test]
fn sessions_that_bring_new_series_or_much_do_not_wait() {
    let tsd = tsd();
    let mut session = Session::new(&tsd);
    assert_eq!(session.patience(), PATIENCE);
    block_on(session.feed(b"put a 1 1 h=a\n"));
    assert_eq!(session.patience(), Duration::ZERO);
    // The store in memory is durable at once.
    session.confirm_durable();
    assert_eq!(session.notices, "");
    assert!(session.pending.is_empty());
    for second in 2..20 {
        assert_eq!(session.patience(), PATIENCE);
        block_on(session.feed(format!("put a {second} 1 h=a\n").as_bytes()));
        assert_eq!(session.pending.len(), 1);
    }
    assert_eq!(tsd.series_cache.len(), 1);
}

#[test]
fn long_replies_are_sent_before_more_lines_are_answered() {
    let tsd = tsd();
    let mut session = Session::new(&tsd);
    let once = block_on(session.feed(b"stats\n")).text;
    let mut reply = block_on(session.feed("stats\n".repeat(10_000).as_bytes()));
    let mut bytes = 0;
    while reply.has_more {
        assert!(reply.text.len() < REPLY_BYTES_MAX + once.len() + 1000);
        bytes += reply.text.len();
        reply = block_on(session.resume());
    }
    bytes += reply.text.len();
    assert!(bytes >= 10_000 * once.len(), "{bytes}");
    // What is in between is answered in its order.
    let lines = format!("{}put\nput a 1 1 h=a\nexit\nfoo\n", "stats\n".repeat(100));
    let mut reply = block_on(session.feed(lines.as_bytes()));
    while reply.has_more {
        assert!(reply.text.starts_with("tsd.rpc.received"));
        reply = block_on(session.resume());
    }
    let end = "put: illegal argument: not enough arguments (need least 4, got 0)\n";
    assert!(reply.close && reply.text.ends_with(end), "{reply:?}");
    assert_eq!(block_on(session.finish()), "");
    assert_eq!(tsd.series_cache.len(), 1);
}

#[test]
fn points_of_many_hours_are_several_appends() {
    let tsd = tsd();
    let mut session = Session::new(&tsd);
    let line = |hour: usize| format!("put a {} 1 h=a\n", hour * 3600);
    let lines: String = (1..=2 * HOURS_MAX + 1).map(line).collect();
    let mut reply = block_on(session.feed(lines.as_bytes()));
    for appended in [HOURS_MAX, 2 * HOURS_MAX] {
        assert!(reply.has_more);
        assert_eq!(tsd.counters.points_added.get(), appended as u64);
        reply = block_on(session.resume());
    }
    assert_eq!(reply, Reply::default());
    assert_eq!(tsd.counters.points_added.get(), 2 * HOURS_MAX as u64 + 1);
    // However many points an hour has.
    let lines: String = (1..=2000).map(|s| format!("put a {s} 1 h=a\n")).collect();
    assert!(!block_on(session.feed(lines.as_bytes())).has_more);
}

#[test]
fn hours_of_lines() {
    for (line, hour) in [
        ("put m 3600 1 h=a", Some(1)),
        ("put m 1500000000000 1 h=a", Some(416_666)),
        ("put m 1500000000.000 1 h=a", Some(416_666)),
        ("histogram m 7199 0,1=2 h=a", Some(1)),
        ("rollup 1h-sum m 7200 1 h=a", Some(2)),
        ("put m -9223372036854775808 1 h=a", None),
        ("put m now 1 h=a", None),
        ("put", None),
    ] {
        assert_eq!(hour_of(line.as_bytes()), hour, "{line}");
    }
}

#[test]
fn nothing_is_read_after_exit() {
    let tsd = tsd();
    let mut session = Session::new(&tsd);
    let reply = block_on(session.feed(b"exit\nput a 1 1 h=a\nfoo\n"));
    assert!(reply.close);
    assert_eq!(reply.text, "");
    block_on(session.finish());
    assert_eq!(tsd.series_cache.len(), 0);
}

#[test]
fn rollups_without_an_interval_or_a_function_are_refused() {
    let tsd = tsd();
    for (spec, reply) in [
        (
            "1h-",
            "illegal argument: Aggregator cannot be null or empty.",
        ),
        (
            "1h-:SUM",
            "illegal argument: Aggregator cannot be null or empty.",
        ),
        (
            "-SUM",
            "HBase error: Interval cannot be null for a non-group by point",
        ),
        (
            "-",
            "HBase error: Interval cannot be null for a non-group by point",
        ),
        (
            "1h-SUM::MAX",
            "illegal argument: Cannot write a group by data point without specifying the \
             aggregation function. Metric=a tags={h=a}",
        ),
        (
            "-avg:SUM",
            "illegal argument: Derived rollup aggregations are not allowed AVG with metric a \
             {_aggregate=SUM, h=a}",
        ),
    ] {
        let mut session = Session::new(&tsd);
        let line = format!("rollup {spec} a 3600 1 h=a\n");
        let (text, _) = feed(&mut session, line.as_bytes());
        assert_eq!(text, format!("rollup: {reply}\n"), "{spec}");
        assert_eq!(block_on(session.finish()), "");
    }
    let mut session = Session::new(&tsd);
    let lines =
        "rollup 1h-SUM a 3600 5 h=a\nrollup :SUM a 3600 6 h=a\nrollup -MAX:SUM a 3601 7 h=a\n";
    assert_eq!(feed(&mut session, lines.as_bytes()).0, "");
    assert_eq!(block_on(session.finish()), "");
    let ask = |m: &str| {
        let target = format!("/api/query?start=3600&end=3700&m={m}");
        let request = api::Request::new(Method::GET, &target, HeaderMap::new(), Bytes::new());
        let answer = block_on(api::handle(&tsd, &request));
        let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        answer[0]["dps"].clone()
    };
    // What was refused changes no sum.
    let sums = ask("sum:1h-sum:a");
    assert_eq!(sums, serde_json::json!({"3600": 5.0}));
    let aggregates = ask("sum:pre-agg:a");
    assert_eq!(aggregates, serde_json::json!({"3600": 6, "3601": 7}));
}
