//! What each action does; the cases are those that Prometheus tests, and the edges between them.

use proptest::prelude::*;

use super::*;
use crate::config::testing::{job_of, rules};

fn set(text: &str) -> LabelSet {
    text.split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .collect()
}

fn show(labels: &LabelSet) -> String {
    let pairs: Vec<_> = labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
    pairs.join(" ")
}

/// `expected` is what is left, or `DROPPED`.
#[track_caller]
fn check(labels: &str, yaml: &str, expected: &str) {
    let mut labels = set(labels);
    let kept = apply(&rules(yaml), &mut labels);
    let found = if kept {
        show(&labels)
    } else {
        "DROPPED".into()
    };
    assert_eq!(found, expected, "{yaml}");
}

#[test]
fn replace_puts_groups_into_a_label() {
    let boo = "{source_labels: [a], regex: 'f(.*)', target_label: d, replacement: 'ch${1}-ch${1}'}";
    check(
        "a=foo b=bar",
        &format!("[{boo}]"),
        "a=foo b=bar d=choo-choo",
    );
    check(
        "a=foo b=bar c=baz",
        "[{source_labels: [a, b], regex: 'f(.*);(.*)r', target_label: a, replacement: 'b${1}${2}m'},
          {source_labels: [c, a], regex: '(b).*b(.*)ba(.*)', target_label: d, replacement: '$1$2$2$3'}]",
        "a=boobam b=bar c=baz d=boooom",
    );
    check(
        "a=abc",
        "[{source_labels: [a], regex: '.*(b).*', target_label: d}]",
        "a=abc d=b",
    );
    // No match, no replacement.
    check(
        "a=boo",
        "[{source_labels: [a], regex: f, target_label: b, replacement: bar}]",
        "a=boo",
    );
    // Defaults: everything is copied, with the separator between.
    check(
        "a=1 b=2",
        "[{source_labels: [a, b], target_label: c}]",
        "a=1 b=2 c=1;2",
    );
    check(
        "a=1 b=2",
        "[{source_labels: [a, none, b], separator: '-', target_label: c}]",
        "a=1 b=2 c=1--2",
    );
    // No source at all: a constant.
    check("a=1", "[{target_label: b, replacement: x}]", "a=1 b=x");
}

#[test]
fn an_empty_replacement_removes() {
    check("a=1 b=2", "[{target_label: b, replacement: ''}]", "a=1");
    check(
        "a=1 b=2",
        "[{source_labels: [none], target_label: b}]",
        "a=1",
    );
    check(
        "a=some-name-value",
        "[{source_labels: [a], regex: 'some-([^-]+)-([^,]+)', target_label: '${1}', replacement: '${3}'}]",
        "a=some-name-value",
    );
}

#[test]
fn the_target_of_replace_may_be_a_template() {
    check(
        "a=some-name-value",
        "[{source_labels: [a], regex: 'some-([^-]+)-([^,]+)', target_label: '${1}', replacement: '${2}'}]",
        "a=some-name-value name=value",
    );
    // An empty name is none.
    check(
        "a=some-name-0",
        "[{source_labels: [a], regex: 'some-([^-]+)-([^,]+)', target_label: '${3}', replacement: '${1}'}]",
        "a=some-name-0",
    );
    // What a name may be depends on the job.
    let rule = "[{source_labels: [a], regex: '(.*)', target_label: '${1}', replacement: x}]";
    check("a=0-b", rule, "0-b=x a=0-b");
    let legacy = format!("metric_name_validation_scheme: legacy\nrelabel_configs: {rule}");
    let mut labels = set("a=0-b");
    assert!(apply(&job_of(&legacy).relabel, &mut labels));
    assert_eq!(show(&labels), "a=0-b");
}

#[test]
fn keep_and_drop_match_the_whole_text() {
    for (regex, kept) in [
        ("f.*", true),
        ("f|o", false),
        ("foo|x", true),
        ("no-match", false),
        ("(?i)FOO", true),
        ("", false),
    ] {
        let rule =
            |action: &str| format!("[{{source_labels: [a], regex: '{regex}', action: {action}}}]");
        let (yes, no) = if kept {
            ("a=foo", "DROPPED")
        } else {
            ("DROPPED", "a=foo")
        };
        check("a=foo", &rule("keep"), yes);
        check("a=foo", &rule("drop"), no);
        check("a=foo", &rule("DROP"), no);
    }
    // Rules after the one that drops do not matter.
    check(
        "a=foo",
        "[{source_labels: [a], regex: '.*o.*', action: drop}, {target_label: b, replacement: x}]",
        "DROPPED",
    );
    // An absent label is empty.
    check(
        "a=1",
        "[{source_labels: [b], regex: '', action: drop}]",
        "DROPPED",
    );
    check(
        "a=1",
        "[{source_labels: [b], regex: '.+', action: keep}]",
        "DROPPED",
    );
    // `regex:` with nothing behind it is the empty pattern, not the default one.
    check(
        "a=1",
        "[{source_labels: [b], regex: , action: keep}]",
        "a=1",
    );
    check(
        "a=1",
        "[{source_labels: [a], regex: , action: keep}]",
        "DROPPED",
    );
}

#[test]
fn the_dot_matches_a_newline() {
    let mut labels = LabelSet::from_iter([("a", "x\ny")]);
    let yaml = "[{source_labels: [a], regex: 'x(.)y', target_label: b, replacement: 'is${1}'}]";
    assert!(apply(&rules(yaml), &mut labels));
    assert_eq!(labels.get("b"), "is\n");
}

#[test]
fn keepequal_and_dropequal_compare_labels() {
    let rule = |action: &str, target: &str| {
        format!("[{{source_labels: [p], action: {action}, target_label: {target}}}]")
    };
    let labels = "p=1234 q=1234 r=5678";
    check(labels, &rule("keepequal", "q"), labels);
    check(labels, &rule("keepequal", "r"), "DROPPED");
    check(labels, &rule("dropequal", "q"), "DROPPED");
    check(labels, &rule("dropequal", "r"), labels);
    check("q=1", &rule("keepequal", "none"), "q=1");
}

#[test]
fn hashmod_is_that_of_prometheus() {
    check(
        "c=baz",
        "[{source_labels: [c], target_label: d, action: hashmod, modulus: 1000}]",
        "c=baz d=976",
    );
    let mut labels = LabelSet::from_iter([("a", "foo\nbar")]);
    let yaml = "[{source_labels: [a], target_label: b, action: hashmod, modulus: 1000}]";
    assert!(apply(&rules(yaml), &mut labels));
    assert_eq!(labels.get("b"), "734");
}

#[test]
fn labelmap_renames_by_pattern() {
    check(
        "a=foo b1=bar b2=baz",
        "[{regex: '(b.*)', replacement: 'bar_${1}', action: labelmap}]",
        "a=foo b1=bar b2=baz bar_b1=bar bar_b2=baz",
    );
    check(
        "__meta_my_bar=aaa __meta_other=ccc",
        "[{regex: '__meta_(my.*)', action: labelmap}]",
        "__meta_my_bar=aaa __meta_other=ccc my_bar=aaa",
    );
    // What was mapped is not mapped again.
    check(
        "a=1",
        "[{regex: '(.*)', replacement: 'a${1}', action: labelmap}]",
        "a=1 aa=1",
    );
    // A new name may be one that is there.
    check(
        "a=1 b=2",
        "[{regex: a, replacement: b, action: labelmap}]",
        "a=1 b=1",
    );
}

#[test]
fn labeldrop_and_labelkeep_look_at_names() {
    check(
        "a=foo b1=bar b2=baz",
        "[{regex: '(b.*)', action: labelkeep}]",
        "b1=bar b2=baz",
    );
    check(
        "a=foo b1=bar b2=baz",
        "[{regex: '(b.*)', action: labeldrop}]",
        "a=foo",
    );
    check("a=1 ab=2", "[{regex: '^a$', action: labeldrop}]", "ab=2");
}

#[test]
fn cases_are_mapped_letter_by_letter() {
    let rule =
        |action: &str| format!("[{{source_labels: [a], action: {action}, target_label: b}}]");
    check("a=bAr1", &rule("uppercase"), "a=bAr1 b=BAR1");
    check("a=bAr1", &rule("lowercase"), "a=bAr1 b=bar1");
    check("a=Éß", &rule("uppercase"), "a=Éß b=Éß");
    check("a=ΟΔΟΣ", &rule("lowercase"), "a=ΟΔΟΣ b=οδοσ");
    check("a=İ", &rule("lowercase"), "a=İ b=i");
    check("b=1", &rule("lowercase"), "");
}

#[test]
fn a_chain_as_people_write_it() {
    check(
        "__meta_sd_tags=path:/secret,job:some-job,label:foo=bar",
        "[{source_labels: [__meta_sd_tags], regex: '(?:.+,|^)path:(/[^,]+).*', target_label: __metrics_path__},
          {source_labels: [__meta_sd_tags], regex: '(?:.+,|^)job:([^,]+).*', target_label: job},
          {source_labels: [__meta_sd_tags], regex: '(?:.+,|^)label:([^=]+)=([^,]+).*', target_label: '${1}', replacement: '${2}'},
          {regex: '__meta_.*', action: labeldrop}]",
        "__metrics_path__=/secret foo=bar job=some-job",
    );
    check(
        "name=foo port=9091",
        "[{regex: '^name$', action: labeldrop},
          {source_labels: [port], regex: '(.+)', replacement: metrics, target_label: name},
          {source_labels: [name], regex: '^metrics$', action: keep}]",
        "name=metrics port=9091",
    );
}

#[test]
fn a_label_set_is_sorted_and_has_no_empty_values() {
    let mut labels = LabelSet::from_iter([("b", "1"), ("a", "2"), ("c", ""), ("b", "3")]);
    assert_eq!(show(&labels), "a=2 b=3");
    assert_eq!((labels.len(), labels.is_empty()), (2, false));
    labels.set("a", "");
    labels.set("none", "");
    assert_eq!(show(&labels), "b=3");
    labels.set("b", "");
    assert!(labels.is_empty());
}

proptest! {
    /// Whatever the rules do, the set stays sorted, unique and without empty values.
    #[test]
    fn the_set_stays_in_order(
        pairs in prop::collection::vec(("[a-d]{1,2}", "[a-c]{0,2}"), 0..6),
        chosen in prop::collection::vec(0..7usize, 0..6),
    ) {
        let all = rules(
            "[{source_labels: [a, b], regex: '(.*);(.*)', target_label: '${2}', replacement: '$1'},
              {regex: '(.)(.*)', replacement: '${2}${1}', action: labelmap},
              {regex: 'a.*', action: labeldrop},
              {source_labels: [a], target_label: b},
              {source_labels: [b], target_label: c, action: uppercase},
              {source_labels: [c], target_label: d, action: hashmod, modulus: 7},
              {source_labels: [b], regex: 'ab.*', action: drop}]",
        );
        let chosen: Vec<_> = chosen.into_iter().map(|index| all[index].clone()).collect();
        let mut labels = LabelSet::from_iter(pairs);
        let _ = apply(&chosen, &mut labels);
        prop_assert!(labels.iter().zip(labels.iter().skip(1)).all(|(x, y)| x.0 < y.0));
        prop_assert!(labels.iter().all(|(name, value)| !name.is_empty() && !value.is_empty()));
    }

    /// `keep` and `drop` of one pattern are opposites, and shards of hashmod are a partition.
    #[test]
    fn every_set_is_kept_or_dropped(value in "[a-c]{0,4}", modulus in 1..9_u64) {
        let labels = LabelSet::from_iter([("a", value)]);
        let both = rules(
            "[{source_labels: [a], regex: 'a.*b?', action: keep},
              {source_labels: [a], regex: 'a.*b?', action: drop}]",
        );
        let kept = apply(&both[..1], &mut labels.clone());
        prop_assert_ne!(kept, apply(&both[1..], &mut labels.clone()));
        let yaml = format!("[{{source_labels: [a], target_label: s, action: hashmod, modulus: {modulus}}}]");
        let mut hashed = labels.clone();
        prop_assert!(apply(&rules(&yaml), &mut hashed));
        prop_assert!(hashed.get("s").parse::<u64>().unwrap() < modulus);
    }
}
