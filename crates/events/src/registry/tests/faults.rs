//! What is refused, and where the fault is said to be.

use super::*;

fn located(fault: &icecore_settings::Problem) -> String {
    let (_, at) = fault.location.as_ref().unwrap();
    let (line, column) = (at.line, at.column);
    format!("{line}:{column} {}: {}", fault.subject, fault.reason)
}

/// The faults of a text that cannot be read, as `line:column path: reason`.
#[track_caller]
fn check_text(text: &str, expected: &[&str]) {
    let faults = Documents::parse_yaml(text).expect_err(text);
    let found: Vec<String> = faults.iter().map(located).collect();
    let is_expected = std::iter::zip(&found, expected).all(|(f, e)| f.starts_with(e));
    assert!(
        is_expected && found.len() == expected.len(),
        "{text}\nexpected {expected:#?}\nfound {found:#?}"
    );
}

#[track_caller]
fn check_spec(kind: &str, spec: &str, expected: &str) {
    let text = format!("kind: {kind}\nmetadata: {{service: s, event: e, name: m}}\nspec: {spec}\n");
    check_text(&text, &[expected]);
}

#[track_caller]
fn check_event(spec: &str, expected: &str) {
    let text = format!("kind: Event\nmetadata: {{service: s, name: e}}\nspec: {spec}\n");
    check_text(&text, &[expected]);
}

/// A stream that can be read and not be put into a registry.
#[track_caller]
fn check_stream(documents: &[&str], code: &str, expected: &str) {
    let text = stream(documents);
    let problem = Registry::default().with(&parse(&text), OPTIONS);
    let problem = problem.expect_err(&text);
    assert_eq!((problem.status, problem.code), (400, code));
    assert_eq!(problem.detail, expected, "{text}");
}

const EVENT: &str = "\
kind: Event
metadata: {service: s, name: e}
spec:
  schema: {properties: {a: {type: string}, n: {type: integer}, l: {type: array, items: {type: string}}, o: {type: object}, h: {type: integer}}}
  masking: [{path: gone, action: drop}, {path: h, action: hash}]
";

#[track_caller]
fn check_metric(kind: &str, spec: &str, expected: &str) {
    let metric =
        format!("kind: {kind}\nmetadata: {{service: s, event: e, name: m}}\nspec: {spec}\n");
    check_stream(&[EVENT, &metric], "config.invalid", expected);
}

#[test]
fn every_fault_of_a_text_is_reported_at_once() {
    check_text(
        "kind: Event\nmetadata: {service: '', nam: e}\nspec:\n  retention: {ttl: 5 weeks}\n  extra: 1\n---\n\
         kind: MetricCounter\nmetadata: {service: s, event: e, name: 'a:b'}\n",
        &[
            "2:11 metadata.name: is missing",
            "2:21 metadata.service: must not be empty",
            "2:25 metadata.nam: unknown key",
            "4:20 spec.retention.ttl: expected a duration",
            "5:3 spec.extra: unknown key",
            "8:40 metadata.name: has a colon",
        ],
    );
    check_text("a: [\n", &["2:1 : "]);
    check_text("kind: Evnt\n", &["1:7 kind: expected one of Event, "]);
    check_text("{}\n", &["1:1 kind: is missing"]);
    check_text(
        "apiVersion: obsinity/v2\nkind: StateExtractors\nmetadata: {service: s}\nspec: {}\n",
        &[
            "1:13 apiVersion: expected obsinity/v1",
            "4:7 spec.stateExtractors: is missing",
        ],
    );
}

#[test]
fn faults_of_schemas() {
    check_event(
        "{retention: {ttl: 0s}}",
        "3:25 spec.retention.ttl: expected at least",
    );
    let schema = |schema: &str| format!("{{schema: {schema}}}");
    for (text, expected) in [
        ("{type: array}", "3:23 spec.schema.type: expected object"),
        (
            "{properties: {a: {type: text}}}",
            "3:40 spec.schema.properties.a.type: expected one of",
        ),
        (
            "{properties: {a: {}}}",
            "3:33 spec.schema.properties.a.type: is missing",
        ),
        (
            "{properties: {a: {type: array}}}",
            "3:33 spec.schema.properties.a.items: is missing",
        ),
        (
            "{properties: {a: {type: array, items: {type: object}}}}",
            "3:61 spec.schema.properties.a.items.type: expected one of",
        ),
        (
            "{properties: {a..b: {type: string}}}",
            "3:30 spec.schema.properties.a..b: \"a..b\" has",
        ),
        (
            "{properties: {a.b: {type: string}, a: {properties: {b: {type: string}}}}}",
            "3:68 spec.schema.properties.a.properties.b: \"a.b\" is declared twice",
        ),
        (
            "{properties: {a: {type: string}, a.b: {type: string}}}",
            "3:30 spec.schema.properties.a: \"a\" is an attribute and an object",
        ),
        (
            "{required: [x]}",
            "3:28 spec.schema.required[0]: \"x\" is not among",
        ),
        (
            "{required: [a], properties: {a: {type: object}}}",
            "3:28 spec.schema.required[0]: \"a\" is an object",
        ),
        (
            "{properties: {a: {type: string, index: 1}}}",
            "3:55 spec.schema.properties.a.index: exp",
        ),
        (
            "{properties: {a: {type: string, idx: true}}}",
            "3:48 spec.schema.properties.a.idx: unk",
        ),
    ] {
        check_event(&schema(text), expected);
    }
    let indexed = "schema: {properties: {a: {type: string, index: true}, b: {type: string}}}";
    for (rest, expected) in [
        (
            "dimensions: [b]",
            "spec.dimensions[0]: \"b\" is not indexed",
        ),
        ("dimensions: [c]", "spec.dimensions[0]: \"c\" is not among"),
        (
            "dimensions: [a, a]",
            "spec.dimensions[1]: \"a\" is given twice",
        ),
        (
            "masking: [{path: a, action: drop}]",
            "spec.masking[0].path: drops \"a\"",
        ),
        (
            "masking: [{path: b, action: burn}]",
            "spec.masking[0].action: expected drop or",
        ),
        ("masking: [{path: b}]", "spec.masking[0].action: is missing"),
        (
            "masking: [{path: b, action: drop}, {path: b, action: hash}]",
            "spec.masking[1].path: \"b\" is masked twice",
        ),
    ] {
        let text = format!(
            "kind: Event\nmetadata: {{service: s, name: e}}\nspec:\n  {indexed}\n  {rest}\n"
        );
        let faults = Documents::parse_yaml(&text).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        let found = located(&faults[0]);
        assert!(
            found.starts_with("5:") && found.contains(expected),
            "{found}"
        );
    }
}

#[test]
fn faults_of_metrics() {
    for (spec, expected) in [
        (
            "{key: {dimensions: [a, a]}}",
            "3:30 spec.key.dimensions[1]: \"a\" is given twice",
        ),
        (
            "{key: {dimensions: [a.b, a_b]}}",
            "3:13 spec.key: \"a.b\" and \"a_b\" both make",
        ),
        (
            "{key: {dimensions: [le]}}",
            "3:13 spec.key: \"le\" makes the label le",
        ),
        (
            "{key: {dynamic: [event.type]}}",
            "3:13 spec.key: \"event.type\" makes the label",
        ),
        (
            "{key: {dimensions: [a]}, attributeMapping: {service: a}}",
            "3:51 spec.attributeMapping.service: \"service\" makes the label",
        ),
        (
            "{attributeMapping: {x: a}}",
            "3:30 spec.attributeMapping.x: \"a\" is no dimension",
        ),
        (
            "{key: {dimensions: [a]}, attributeMapping: {x: a, y: a}}",
            "3:60 spec.attributeMapping.y: \"a\" has another alias",
        ),
        (
            "{onMissing: drop}",
            "3:19 spec.onMissing: expected skip or empty",
        ),
        (
            "{filters: [{path: a, op: like, value: 1}]}",
            "3:32 spec.filters[0].op: expected one",
        ),
        (
            "{filters: [{path: a, op: gt, value: x}]}",
            "3:43 spec.filters[0].value: expected a nu",
        ),
        (
            "{filters: [{path: a, op: eq}]}",
            "3:18 spec.filters[0].value: is missing",
        ),
        (
            "{filters: [{path: a, op: in, value: []}]}",
            "3:43 spec.filters[0].value: expected 1",
        ),
        (
            "{rollup: {operation: avg}}",
            "3:28 spec.rollup.operation: expected count or sum",
        ),
        ("{rollup: {operation: sum}}", "3:7 spec.value: is missing"),
        (
            "{value: x}",
            "3:15 spec.value: is only for `operation: sum`",
        ),
        (
            "{rollup: {windowing: {granularities: [5m]}}}",
            "3:45 spec.rollup.windowing.granularities[0]: expected one of 5s",
        ),
        (
            "{rollup: {windowing: {granularities: [1h]}}}",
            "3:44 spec.rollup.windowing.granularities: the finest must",
        ),
        (
            "{rollup: {retention: {5m: 7d}}}",
            "3:29 spec.rollup.retention.5m: unknown key",
        ),
        ("{buckets: {}}", "3:8 spec.buckets: unknown key"),
        (
            "{fold: {sourceAttribute: a, foldedAttribute: a, rules: [{output: x}]}}",
            "3:52 spec.fold.foldedAttribute: is the attribute",
        ),
        (
            "{fold: {sourceAttribute: a, foldedAttribute: b, rules: [{when: {gte: 5, lt: 5}, output: x}]}}",
            "3:83 spec.fold.rules[0].when.lt: expected more than gte",
        ),
        (
            "{fold: {sourceAttribute: a, foldedAttribute: b}}",
            "3:14 spec.fold.rules: expected 1 to",
        ),
    ] {
        check_spec("MetricCounter", spec, expected);
    }
    for (spec, expected) in [
        (
            "{buckets: {strategy: exp}}",
            "3:28 spec.buckets.strategy: expected fixed",
        ),
        (
            "{buckets: {bounds: [1, 1]}}",
            "3:26 spec.buckets.bounds: bounds must grow",
        ),
        (
            "{buckets: {bounds: []}}",
            "3:26 spec.buckets.bounds: expected at least one",
        ),
        (
            "{buckets: {bounds: [.inf]}}",
            "3:27 spec.buckets.bounds[0]: expected a number",
        ),
        (
            "{buckets: {strategy: custom}}",
            "3:17 spec.buckets.bounds: is missing",
        ),
        (
            "{buckets: {strategy: log, count: 3, min: 0, max: 9}}",
            "3:48 spec.buckets.min: expected more than 0",
        ),
        (
            "{buckets: {strategy: fixed, count: 3, min: 9, max: 9}}",
            "3:58 spec.buckets.max: expected more than min",
        ),
        (
            "{buckets: {strategy: fixed, count: 0, min: 0, max: 9}}",
            "3:42 spec.buckets.count: expected 1 to",
        ),
        (
            "{sketch: {kind: kll}}",
            "3:23 spec.sketch.kind: expected ddsketch",
        ),
        (
            "{sketch: {kind: ddsketch, relativeAccuracy: 1}}",
            "3:51 spec.sketch.relativeAccuracy: expected 0.0001 to 0.5",
        ),
        (
            "{rollup: {percentiles: [2]}}",
            "3:30 spec.rollup.percentiles: expected numbers",
        ),
    ] {
        check_spec("MetricHistogram", spec, expected);
    }
    check_spec(
        "MetricGauge",
        "{reducer: min}",
        "3:7 spec.value: is missing",
    );
    check_spec(
        "MetricGauge",
        "{value: v, reducer: avg}",
        "3:27 spec.reducer: expected latest",
    );
}

#[test]
fn faults_of_states() {
    let extractor = "{rawType: e, objectType: O, objectIdField: i, stateAttributes: [s]}";
    let text = |list: &str| format!("service: s\nstateExtractors: [{list}]\n");
    for (list, expected) in [
        (
            format!("{extractor}, {extractor}"),
            "2:88 stateExtractors[1]: follows an attribute",
        ),
        (
            extractor.replace("[s]", "[]"),
            "2:82 stateExtractors[0].stateAttributes: expected 1",
        ),
        (
            extractor.replace("[s]", "[s, s]"),
            "2:86 stateExtractors[0].stateAttributes[1]: \"s\" is",
        ),
        (
            extractor.replace("[s]", "[s], transitionPolicy: {only: [a], additional: [b]}"),
            "2:112 stateExtractors[0].transitionPolicy.only: additional is given",
        ),
        (
            extractor.replace("[s]", "[s], transitionPolicy: {only: []}"),
            "2:112 stateExtractors[0].transitionPolicy.only: expected at least",
        ),
    ] {
        check_text(&text(&list), &[expected]);
    }
}

#[test]
fn metrics_must_fit_their_event() {
    let at = |column: usize, rest: &str| format!("{rest}, at line 9 column {column}");
    for (spec, column, rest) in [
        (
            "{key: {dimensions: [gone]}}",
            21,
            "spec.key.dimensions[0]: \"gone\" is dropped by masking",
        ),
        (
            "{key: {dimensions: [o]}}",
            21,
            "spec.key.dimensions[0]: \"o\" is an object",
        ),
        (
            "{key: {dimensions: [l]}}",
            21,
            "spec.key.dimensions[0]: \"l\" is a list",
        ),
        (
            "{filters: [{path: gone.x, op: eq, value: 1}]}",
            19,
            "spec.filters[0].path: \"gone.x\" is dropped by masking",
        ),
        (
            "{filters: [{path: a, op: gt, value: 1}]}",
            19,
            "spec.filters[0].path: \"a\" is string, and so no number",
        ),
        (
            "{value: h, rollup: {operation: sum}}",
            9,
            "spec.value: \"h\" is hashed by masking, and so no number",
        ),
        (
            "{value: l, rollup: {operation: sum}}",
            9,
            "spec.value: \"l\" is a list of string, and so no number",
        ),
        (
            "{fold: {sourceAttribute: n, foldedAttribute: a, rules: [{output: x}]}}",
            46,
            "spec.fold.foldedAttribute: \"a\" is among the properties of the event",
        ),
    ] {
        check_metric("MetricCounter", spec, &at(6 + column, rest));
    }
    let rest = "spec.observedAt: \"gone\" is dropped by masking";
    check_metric("MetricGauge", "{value: n, observedAt: gone}", &at(30, rest));
    let states = "service: s\nstateExtractors: [{rawType: e, objectType: O, objectIdField: gone, stateAttributes: [x]}]\n";
    let expected =
        "stateExtractors[0].objectIdField: \"gone\" is dropped by masking, at line 8 column 62";
    check_stream(&[EVENT, states], "config.invalid", expected);
}

#[test]
fn documents_must_fit_each_other() {
    let counter = |event: &str, name: &str| {
        format!("kind: MetricCounter\nmetadata: {{service: s, event: {event}, name: {name}}}\n")
    };
    let gauge = |name: &str| {
        format!(
            "kind: MetricGauge\nmetadata: {{service: s, event: e, name: {name}}}\nspec: {{value: n}}\n"
        )
    };
    check_stream(
        &[&counter("x", "m")],
        "config.invalid",
        "metadata.event: service \"s\" has no event \"x\", at line 2 column 31",
    );
    check_stream(
        &[EVENT, EVENT],
        "config.invalid",
        "metadata.name: event \"e\" of service \"s\" is given twice, at line 8 column 30",
    );
    check_stream(
        &[EVENT, &counter("e", "m"), &gauge("m")],
        "config.invalid",
        "metadata.name: metric \"m\" of service \"s\" is given twice, at line 11 column 40",
    );
    check_stream(
        &[EVENT, &counter("e", "m"), &gauge("m_total")],
        "config.invalid",
        "metadata.name: \"m\" makes the series m_total, as metric \"m_total\" does, at line 8 column 40; \
         metadata.name: \"m_total\" makes the series m_total, as metric \"m\" does, at line 11 column 40",
    );
    check_stream(
        &[EVENT, &counter("e", "events_stored")],
        "config.invalid",
        "metadata.name: \"events_stored\" makes the series events_stored_total, which is built in, \
         at line 8 column 40",
    );
    let problem = Registry::default().with(&parse(EVENT), UpdateOptions::default());
    let detail = problem.unwrap_err().detail;
    let expected = "spec.masking[1].action: needs a key to hash with";
    assert!(detail.starts_with(expected), "{detail}");
    assert!(registry(EVENT).needs_masking_key());
}

#[test]
fn a_change_of_an_event_is_checked_against_its_metrics() {
    let first = registry(&spec_stream());
    let dropping = ORDER_PLACED.replace("path: customer.email", "path: stock");
    let problem = first.with(&parse(&dropping), OPTIONS).unwrap_err();
    assert_eq!(problem.code, "config.invalid");
    let expected = "metric \"stock_level\": \"stock.level\" is dropped by masking";
    assert!(problem.detail.contains(expected), "{problem}");
}

#[test]
fn faults_of_files_name_the_file() {
    let files = [("a/event.yaml", "kind: Event\n"), ("b.yaml", "x: [")];
    let faults = Documents::parse_files(files).unwrap_err();
    let problem = crate::Problem::invalid_documents(&faults);
    let expected = "metadata: is missing, at line 1 column 1 of a/event.yaml; ";
    assert!(problem.detail.starts_with(expected), "{problem}");
    assert!(problem.detail.ends_with(" of b.yaml"), "{problem}");
}
