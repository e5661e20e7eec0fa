//! What becomes of a registry when documents change.

use std::io::Write as _;

use icecore_model::event::EventWindow;

use super::*;

fn metric<'a>(registry: &'a Registry, name: &str) -> &'a Metric {
    registry.service("shop").unwrap().metric(name).unwrap().1
}

#[test]
fn documents_that_change_nothing_leave_the_version() {
    let first = registry(&spec_stream());
    assert_eq!(first.version, 1);
    assert_eq!(with(&first, &spec_stream()), first);
    let shorter = with(&first, &ORDER_PLACED.replace("ttl: 30d", "ttl: 20d"));
    assert_eq!(shorter.version, 2);
    assert_eq!(shorter.next, first.next);
    assert_eq!(metric(&shorter, "orders"), metric(&first, "orders"));
    // The order of documents does not matter.
    let reversed = [STATES, STOCK_LEVEL, ORDER_LATENCY, ORDERS, ORDER_PLACED];
    assert_eq!(with(&first, &stream(&reversed)), first);
    registry(&stream(&reversed));
}

#[test]
fn new_bounds_make_a_new_metric_and_old_ones_come_back() {
    let first = registry(&spec_stream());
    let before = metric(&first, "order_latency_ms").clone();
    let changed = ORDER_LATENCY.replace("1000]", "1000, 5000]");
    let second = with(&first, &changed);
    let after = metric(&second, "order_latency_ms").clone();
    assert_eq!(after.number, first.next.metric);
    assert_eq!(second.next.metric, first.next.metric + 1);
    let event_type = second.event_type("shop", "order.placed").unwrap();
    let retired: Vec<&Metric> = event_type
        .retired("order_latency_ms")
        .map(|m| &**m)
        .collect();
    assert_eq!(retired, [&before]);
    let third = with(&second, ORDER_LATENCY);
    assert_eq!(*metric(&third, "order_latency_ms"), before);
    let event_type = third.event_type("shop", "order.placed").unwrap();
    assert_eq!(event_type.retired.len(), 1);
    assert_eq!(*event_type.retired[0], after);
    assert_eq!(third.next, second.next);
    // What does not touch cells keeps the number.
    let other = ORDER_LATENCY.replace("[0.5, 0.9", "[0.4, 0.9");
    assert_eq!(
        metric(&with(&first, &other), "order_latency_ms").number,
        before.number
    );
    for (document, name, from, to) in [
        (STOCK_LEVEL, "stock_level", "latest  ", "min"),
        (ORDERS, "orders", "[5s, 1m", "[1m"),
        (
            ORDERS,
            "orders",
            "operation: count",
            "operation: sum, value: order.total",
        ),
    ] {
        let changed = with(&first, &document.replace(from, to));
        assert_ne!(
            metric(&changed, name).number,
            metric(&first, name).number,
            "{to}"
        );
    }
}

#[track_caller]
fn check_incompatible(first: &Registry, changed: &str, expected: &str) -> Registry {
    let documents = parse(changed);
    let problem = first.with(&documents, OPTIONS).expect_err(changed);
    assert_eq!((problem.status, problem.code), (400, "config.incompatible"));
    assert!(problem.detail.contains(expected), "{problem}");
    let force = UpdateOptions {
        force: true,
        ..OPTIONS
    };
    first.with(&documents, force).unwrap()
}

#[test]
fn incompatible_changes_need_force() {
    let first = registry(&spec_stream());
    let changed = ORDER_PLACED.replace("total:   { type: number }", "total:   { type: string }");
    let forced = check_incompatible(
        &first,
        &changed,
        "\"order.total\" was number and would be string",
    );
    assert_eq!(forced.version, 2);
    for (from, to, expected) in [
        (
            "[order.channel]  ",
            "[order.channel, order.total]",
            "was optional and would be required",
        ),
        (
            "type: number }",
            "type: array, items: { type: number } }",
            "would be list of number",
        ),
        (
            "type: number }",
            "type: object }",
            "\"order.total\" was number and would be an object",
        ),
    ] {
        check_incompatible(&first, &ORDER_PLACED.replacen(from, to, 1), expected);
    }
    let new = ORDER_PLACED
        .replace("[order.channel]  ", "[order.channel, order.new]")
        .replace("total: ", "new: { type: string }\n          total: ");
    check_incompatible(
        &first,
        &new,
        "\"order.new\" is new and must not be required",
    );
    with(
        &first,
        &new.replace("[order.channel, order.new]", "[order.channel]"),
    );

    let gauge = STOCK_LEVEL.replace("name: stock_level", "name: orders");
    let forced = check_incompatible(
        &first,
        &gauge,
        "kind: \"orders\" is a counter already, at line 1",
    );
    assert_eq!(metric(&forced, "orders").number, first.next.metric);
    let other = ORDER_PLACED.replace("name: order.placed", "name: order.sent");
    let two = with(&first, &other);
    let moved = ORDERS.replace("event: order.placed", "event: order.sent");
    let forced = check_incompatible(
        &two,
        &moved,
        "\"orders\" is a metric of event \"order.placed\"",
    );
    let (event_type, _) = forced.service("shop").unwrap().metric("orders").unwrap();
    assert_eq!(event_type.name, "order.sent");
    let before = forced.event_type("shop", "order.placed").unwrap();
    assert_eq!(before.retired("orders").count(), 1);
}

/// A file that is written while it is read has no rules, or some of them.
#[test]
fn masking_less_needs_force() {
    let first = registry(&spec_stream());
    let email = "    - { path: customer.email, action: drop }\n";
    let id = "    - { path: customer.id,    action: hash }\n";
    for (without, left, expected) in [
        (
            vec![email, id, "  masking:\n"],
            0,
            "\"customer.email\" was dropped",
        ),
        (
            vec![email],
            1,
            "\"customer.email\" was dropped and would be stored",
        ),
        (
            vec![id],
            1,
            "\"customer.id\" was hashed and would be stored",
        ),
    ] {
        let changed = without
            .iter()
            .fold(ORDER_PLACED.to_owned(), |text, gone| text.replace(gone, ""));
        let forced = check_incompatible(&first, &changed, expected);
        let event_type = forced.event_type("shop", "order.placed").unwrap();
        assert_eq!(event_type.masking.len(), left);
        with(&forced, ORDER_PLACED);
    }
    let weaker = ORDER_PLACED.replace("email, action: drop", "email, action: hash");
    let hashed = check_incompatible(&first, &weaker, "would be stored as a hash");
    // Masking more needs none.
    with(&hashed, ORDER_PLACED);
}

#[test]
fn cells_of_states_are_kept_as_long_as_documents_say() {
    let document = |spec: &str| {
        format!(
            "kind: StateExtractors\nmetadata: {{service: shop}}\nspec: {{{spec}stateExtractors: \
             [{{rawType: e, objectType: O, objectIdField: i, stateAttributes: [a]}}]}}\n"
        )
    };
    let kept = |registry: &Registry| {
        let service = registry.service("shop").unwrap();
        let metrics = service.state_metrics.clone().unwrap();
        assert_eq!(metrics.counts.retention, metrics.transitions.retention);
        (metrics.counts.number, metrics.counts.retention)
    };
    let first = registry(&document(""));
    let (number, retention) = kept(&first);
    assert_eq!(retention, WindowRetention::default());
    let all = with(&first, &document("retention: {ttl: 90d}, "));
    assert_eq!(all.version, first.version + 1);
    assert_eq!(kept(&all), (number, WindowRetention::all(days(90))));
    let minutes = "retention: {ttl: 90d}, rollup: {retention: {1m: 400d}}, ";
    let minutes = with(&all, &document(minutes));
    let mut expected = WindowRetention::all(days(90));
    expected.set(EventWindow::Minute, days(400));
    assert_eq!(kept(&minutes), (number, expected));
    // It is stored, and said in both forms.
    let stored = Registry::from_records(minutes.records()).unwrap();
    assert_eq!(stored, minutes);
    let json = minutes.service_json("shop").unwrap().to_string();
    for text in [minutes.to_yaml(), json] {
        assert_eq!(kept(&with(&first, &text)).1, expected, "{text}");
    }
    let faults =
        Documents::parse_yaml("service: shop\nevents: []\nstateRetention: {1m: 1d}\n").unwrap_err();
    assert!(faults[0].reason.contains("only for"), "{faults:?}");
}

#[test]
fn warnings_are_no_faults() {
    let documents = "kind: Event\nmetadata: {service: s, name: e}\n---\n\
        kind: Event\nmetadata: {service: s, name: f}\n---\n\
        kind: MetricCounter\nmetadata: {service: s, event: f, name: m}\n\
        spec: {rollup: {retention: {5s: 60d}}, filters: [{path: x, op: eq, value: 1}], \
               fold: {sourceAttribute: x, foldedAttribute: y, rules: [{output: z}]}}\n---\n\
        service: s\nstateExtractors: [{rawType: g, objectType: O, objectIdField: i, stateAttributes: [a]}]\n";
    assert_eq!(
        registry(documents).warnings(),
        [
            "s/e: has no metrics",
            "s/f: metric \"m\" has no dimensions",
            "s/f: metric \"m\" uses \"x\", which is not declared",
            "s/f: metric \"m\" makes \"y\", which is unused",
            "s/f: metric \"m\" keeps 5s for 60d, longer than 1m with 30d",
            "s: states of \"O\" are unused, because there is no event \"g\"",
        ]
    );
}

/// A header of a tar archive and the content, filled up.
fn entry(name: &str, kind: u8, content: &str) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    block[148..156].fill(b' ');
    block[156] = kind;
    block[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block.extend_from_slice(content.as_bytes());
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

fn archive() -> Vec<u8> {
    let event = "services/shop/events/order.placed";
    let long = format!("{event}/metrics/counters/{}.yaml", "x".repeat(100));
    let record = format!(" path={long}\n");
    let entries = [
        entry("services/", b'5', ""),
        entry(&format!("{event}/event.yaml"), b'0', ORDER_PLACED),
        entry(&format!("{event}/._event.yaml"), b'0', "\u{1}"),
        entry("README.md", b'0', "nothing: ["),
        entry("L", b'L', &format!("{long}\0")),
        entry("short", b'0', ORDERS),
        entry("PaxHeader", b'x', &format!("{}{record}", record.len() + 3)),
        entry("short", b'0', ORDER_LATENCY),
        entry("gauges/stock_level.yml", 0, STOCK_LEVEL),
        entry("services/shop/state-extractors.yaml", b'0', STATES),
        vec![0; 1024],
    ];
    entries.concat()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn archives_of_the_tree_are_read() {
    let expected = registry(&spec_stream());
    for bytes in [archive(), gzipped(&archive())] {
        let documents = Documents::parse_archive(&bytes).unwrap();
        assert_eq!(documents.services(), ["shop"]);
        assert_eq!(
            Registry::default().with(&documents, OPTIONS).unwrap(),
            expected
        );
    }
}

#[test]
fn damaged_archives_are_refused() {
    let check = |bytes: &[u8], expected: &str| {
        let faults = Documents::parse_archive(bytes).unwrap_err();
        assert!(faults[0].reason.contains(expected), "{faults:?}");
    };
    check(b"", "no YAML or JSON file");
    check(&[7; 600], "no tar archive");
    let cut = &entry("a.yaml", b'0', ORDER_PLACED)[..600];
    check(cut, "ends within \"a.yaml\"");
    check(&[0x1f, 0x8b, 0, 0], "no gzip");
    check(&entry("a.yaml", b'0', "kind: Event\n"), "is missing");
    // A bomb: much more unpacked than packed.
    check(
        &gzipped(&vec![0; (64 << 20) + 1]),
        "more than 67108864 bytes",
    );
    let bytes = archive();
    for at in (0..bytes.len()).step_by(37) {
        let _ = Documents::parse_archive(&bytes[..at]);
    }
}
