use std::path::PathBuf;

use icecore_model::retention::{DEFAULT_ROLLUP_DELAY_MS, Retention};
use icecore_model::rollup::Resolution;
use icecore_model::{HOUR_MS, MatchOp, Matcher};
use proptest::prelude::*;

use super::super::{Position, Problem, Source};
use super::*;

/// The policy that the specification of this file format shows.
const EXAMPLE: &str = r#"levels:
  - {resolution: raw, retain: 21d}
  - {resolution: 5m,  retain: 90d,  columns: lean}     # optional level
  - {resolution: 1h,  retain: 365d}
rollup_delay: 2h
late_data: reject
overrides:
  - {match: '{__name__=~"debug_.*"}', raw: 3d, 5m: 0, 1h: 0}
  - {match: '{team="billing"}',       raw: 90d, 1h: 1825d}
"#;

struct File {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn file(text: &str) -> File {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.yml");
    std::fs::write(&path, text).unwrap();
    let _directory = directory;
    File { _directory, path }
}

fn read_text_as_file(text: &str) -> Result<Option<RetentionPolicy>, ConfigError> {
    read_policy_file(&file(text).path)
}

/// The same policy within a configuration file.
fn in_configuration(policy: &str) -> String {
    let indented: String = policy.lines().map(|line| format!("    {line}\n")).collect();
    format!("global: {{}}\nicecore:\n  retention:\n{indented}")
}

fn problems(text: &str) -> Vec<Problem> {
    match read_text_as_file(text) {
        Err(ConfigError::Invalid(problems)) => problems,
        other => panic!("{text}: {other:?}"),
    }
}

/// One problem, as `line:column subject: reason`.
#[track_caller]
fn check_problem(text: &str, expected: &str) {
    let found: Vec<String> = problems(text).iter().map(located).collect();
    assert!(
        found.len() == 1 && found[0].starts_with(expected),
        "{text}\nexpected {expected}\nfound {found:#?}"
    );
}

fn located(problem: &Problem) -> String {
    let (_, Position { line, column }) = problem.location.as_ref().unwrap();
    let hint = problem.hint.as_ref().map(|hint| format!("; {hint}"));
    let hint = hint.unwrap_or_default();
    let Problem {
        subject, reason, ..
    } = problem;
    format!("{line}:{column} {subject}: {reason}{hint}")
}

fn with_levels(levels: &str) -> String {
    format!("levels: [{levels}]")
}

#[test]
fn a_policy_is_read_from_a_file_of_its_own_and_from_a_configuration() {
    let policy = read_text_as_file(EXAMPLE).unwrap().unwrap();
    assert_eq!(policy.levels(), RetentionPolicy::default_levels().levels());
    assert_eq!(policy.rollup_delay_ms(), 2 * HOUR_MS);
    assert_eq!(policy.late_data(), LateData::Reject);
    let shown: Vec<String> = policy.overrides().iter().map(ToString::to_string).collect();
    assert_eq!(shown, [r#"{__name__=~"debug_.*"}"#, r#"{team="billing"}"#]);
    let hour = Resolution::HOUR;
    assert_eq!(policy.overrides()[0].retain.len(), 3);
    assert_eq!(
        policy.overrides()[1].retain.last(),
        Some(&(hour, Retention::For(1825 * 24 * HOUR_MS)))
    );
    let within = read_text_as_file(&in_configuration(EXAMPLE)).unwrap();
    assert_eq!(within, Some(policy));

    for (configuration, expected) in [
        ("", None),
        ("global: {}\n", None),
        ("icecore: {retention: none}", None),
        (
            "icecore: {retention: default}",
            Some(RetentionPolicy::default_levels()),
        ),
        (
            "icecore: {retention: 90d}",
            RetentionPolicy::raw_for(90 * 24 * HOUR_MS).ok(),
        ),
    ] {
        let read = read_text_as_file(configuration).unwrap();
        assert_eq!(read, expected, "{configuration}");
    }
}

#[test]
fn what_is_left_out_has_a_default() {
    let levels = "{resolution: raw, retain: 10d}, {resolution: 15m, retain: 10d}, {resolution: 2h, retain: inf}";
    let policy = read_text_as_file(&with_levels(levels)).unwrap().unwrap();
    let columns: Vec<ColumnSet> = policy.levels().iter().map(|level| level.columns).collect();
    assert_eq!(columns, [ColumnSet::Full, ColumnSet::Lean, ColumnSet::Full]);
    assert_eq!(policy.rollup_delay_ms(), DEFAULT_ROLLUP_DELAY_MS);
    assert_eq!(policy.late_data(), LateData::Reject);
    assert!(policy.overrides().is_empty());
    let merge = format!(
        "{}\nlate_data: merge\nrollup_delay: 30m\noverrides:\n",
        with_levels(levels)
    );
    let policy = read_text_as_file(&merge).unwrap().unwrap();
    assert_eq!(policy.late_data(), LateData::Merge);
    assert_eq!(policy.rollup_delay_ms(), HOUR_MS / 2);
}

#[test]
fn problems_have_a_place() {
    let raw = "{resolution: raw, retain: 21d}";
    for (levels, expected) in [
        ("", "1:9 levels: expected levels, the first of them raw"),
        (
            "raw",
            "1:10 levels[0]: expected a map of keys and values, found text",
        ),
        (
            "~",
            "1:10 levels[0]: expected a map of keys and values, found nothing",
        ),
        ("{retain: 21d}", "1:10 levels[0].resolution: is missing"),
        ("{resolution: raw}", "1:10 levels[0].retain: is missing"),
        (
            "{resolution: 7m, retain: 21d}",
            "1:23 levels[0].resolution: expected one of raw, 10s, 1m, 5m, 15m, 30m, 1h, 2h, 4h, 8h, 16h, found \"7m\"",
        ),
        (
            "{resolution: raw, retain: long}",
            "1:36 levels[0].retain: expected a time such as 36h or 90d, 0 or inf, found \"long\"",
        ),
        (
            "{resolution: raw, retain: 90m}",
            "1:36 levels[0].retain: expected a whole number of hours, or inf",
        ),
        (
            "{resolution: raw, retain: 0}",
            "1:36 levels[0].retain: must not be 0",
        ),
        (
            "{resolution: raw, retain: 1d, columns: lean}",
            "1:49 levels[0].columns: only windows have columns",
        ),
        (
            "{resolution: raw, retain: 1d, keep: 1d}",
            "1:40 levels[0].keep: unknown key",
        ),
        (
            "{resolution: raw, retain: 1d, column: 1d}",
            "1:40 levels[0].column: unknown key; did you mean columns?",
        ),
        (
            "{resolution: 5m, retain: 21d}",
            "1:23 levels[0].resolution: the first level must be raw",
        ),
    ] {
        check_problem(&with_levels(levels), expected);
    }
    for (level, expected) in [
        (
            "{resolution: 5m, retain: 90d, columns: some}",
            "1:81 levels[1].columns: expected full or lean, found \"some\"",
        ),
        (
            "{resolution: 5m, retain: 20d}",
            "1:67 levels[1].retain: must not be shorter than raw is kept, which is 21d",
        ),
        (
            "{resolution: raw, retain: 90d}",
            "1:55 levels[1].resolution: must be coarser than raw",
        ),
    ] {
        check_problem(&with_levels(&format!("{raw}, {level}")), expected);
    }
    let short = "{resolution: raw, retain: 1d}, {resolution: 5m, retain: 90d}";
    check_problem(
        &with_levels(short),
        "1:36 levels[0].retain: must be at least 1d10h",
    );
}

#[test]
fn problems_of_the_other_keys_have_a_place() {
    let with = |rest: &str| format!("levels: [{{resolution: raw, retain: 21d}}]\n{rest}\n");
    for (rest, expected) in [
        (
            "rollup_delay: soon",
            "2:15 rollup_delay: expected a duration such as",
        ),
        (
            "late_data: keep",
            "2:12 late_data: expected reject or merge, found \"keep\"",
        ),
        (
            "rollup_dely: 2h",
            "2:1 rollup_dely: unknown key; did you mean rollup_delay?",
        ),
        (
            "overrides: 5",
            "2:12 overrides: expected a list, found text",
        ),
        (
            "overrides:\n  - {raw: 3d}",
            "3:5 overrides[0].match: is missing",
        ),
        (
            "overrides:\n  - {match: '{a=\"b\"}'}",
            "3:13 overrides[0].match: expected how long a level is kept",
        ),
        (
            "overrides:\n  - {match: '{a=}', raw: 3d}",
            "3:13 overrides[0].match: expected a selector such as {team=\"a\"}, found \"{a=}\": ",
        ),
        (
            "overrides:\n  - {match: '{a=~\"(\"}', raw: 3d}",
            "3:13 overrides[0].match: expected a selector",
        ),
        (
            "overrides:\n  - {match: '{a=~\".*\"}', raw: 3d}",
            "3:13 overrides[0].match: must match some series and not all",
        ),
        (
            "overrides:\n  - {match: up, raw: soon}",
            "3:22 overrides[0].raw: expected a time such as",
        ),
        (
            "overrides:\n  - {match: up, raw: 3d, 5m: 3d}",
            "3:30 overrides[0].5m: 5m is no level of this policy",
        ),
        (
            "overrides:\n  - {match: up, raw: 3d, 7m: 3d}",
            "3:26 overrides[0].7m: unknown key",
        ),
        (
            "overrides:\n  - {match: up, raw: 3d, raw: 3d}",
            "3:26 : the key \"raw\" is given twice",
        ),
    ] {
        check_problem(&with(rest), expected);
    }
    // Where the file is a configuration, the path says so.
    let bad = EXAMPLE.replace("retain: 365d", "retain: 9d");
    check_problem(
        &in_configuration(&bad),
        "7:35 icecore.retention.levels[2].retain: must not be shorter than 5m is kept",
    );
    check_problem(
        "icecore: {retention: {late_data: merge}}",
        "1:22 icecore.retention.levels: expected levels",
    );
    check_problem(
        "icecore: {retention: forever}",
        "1:22 icecore.retention: expected none, default, a time such as 90d, or a policy, found \"forever\"",
    );
    check_problem(
        "icecore: {retention: [raw]}",
        "1:22 icecore.retention: expected none or default or duration or map, found a list",
    );
    // A policy in place of a configuration.
    let policy_file = file("late_data: merge\n");
    let inputs = Inputs {
        file: Some(policy_file.path.clone()),
        ..Inputs::default()
    };
    let error = Config::load(&inputs).unwrap_err().to_string();
    assert!(
        error.contains("did you mean icecore.retention.late_data?"),
        "{error}"
    );
}

#[test]
fn all_problems_are_found_at_once() {
    let text = "\
levels:
  - {resolution: raw, retain: 90m}
  - {resolution: 5m, retain: 1h, size: 5}
overrides:
  - {match: up, 1h: 3d}
";
    let found: Vec<String> = problems(text).iter().map(located).collect();
    for part in [
        "2:31 levels[0].retain",
        "3:30 levels[1].retain",
        "3:34 levels[1].size",
        "5:21 overrides[0].1h",
    ] {
        assert!(
            found.iter().any(|found| found.starts_with(part)),
            "{part} is not in {found:#?}"
        );
    }
    let text = "levels:\n  - {resolution: ra, retain: 1}\nlate_data: x\noverrides: [{match: up, raw: y}]\n";
    let places = ["2:18", "2:30", "3:12", "4:30"];
    let found: Vec<String> = problems(text).iter().map(located).collect();
    assert_eq!(found.len(), places.len(), "{found:#?}");
    for (found, place) in std::iter::zip(&found, places) {
        assert!(found.starts_with(place), "{found}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = read_policy_file(Path::new("not/here.yml")).unwrap_err();
    assert!(error.to_string().contains("not/here.yml"), "{error}");
}

#[test]
fn flags_and_variables_have_short_forms() {
    let raw = |hours| RetentionPolicy::raw_for(hours * HOUR_MS).ok();
    for (text, policy, shown) in [
        ("none", None, "none"),
        (
            "default",
            Some(RetentionPolicy::default_levels()),
            "default",
        ),
        ("90d", raw(90 * 24), "90d"),
        ("1h", raw(1), "1h"),
        (
            "{levels: [{resolution: raw, retain: 36h}]}",
            raw(36),
            "1d12h",
        ),
    ] {
        assert_eq!(PolicyText::parse(text), Ok(policy.clone()), "{text}");
        assert_eq!(PolicyText::show(&policy), shown);
    }
    for (text, expected) in [
        ("", "none, default, a time such as 90d, or a policy"),
        ("inf", "none, default, a time"),
        ("30m", "a whole number of hours"),
        ("0s", "a whole number of hours"),
        (
            "{levels: []}",
            "a valid policy (levels: expected levels, the first of them raw)",
        ),
        ("{levels: [", "a valid policy ("),
        (
            "{levels: [{resolution: raw, retain: 1h}], x: y}",
            "a valid policy (x: unknown key)",
        ),
    ] {
        let bad = PolicyText::parse(text).unwrap_err();
        assert!(bad.expected.contains(expected), "{text}: {bad:?}");
    }
}

#[test]
fn the_strongest_source_counts_as_a_whole() {
    let file = file(&in_configuration(EXAMPLE));
    let mut inputs = Inputs {
        file: Some(file.path.clone()),
        ..Inputs::default()
    };
    let loaded = |inputs: &Inputs| {
        let config = Config::load(inputs).unwrap();
        let source = config.source("retention").cloned().unwrap();
        (config.retention.map(|policy| policy.to_string()), source)
    };
    let (policy, source) = loaded(&inputs);
    let example = "raw 21d, 5m 90d, 1h 365d, 2 overrides";
    assert_eq!(policy.as_deref(), Some(example));
    assert_eq!(source, Source::File(Position { line: 4, column: 5 }));
    let variable = ("ICECORE_RETENTION".into(), "default".into());
    inputs.environment.push(variable);
    let (policy, source) = loaded(&inputs);
    assert_eq!(policy.as_deref(), Some("raw 21d, 5m 90d, 1h 365d"));
    assert_eq!(source, Source::Environment("ICECORE_RETENTION".into()));
    inputs.flags.push(("retention".into(), "none".into()));
    let flag = Source::Flag("--retention".into());
    assert_eq!(loaded(&inputs), (None, flag));
    inputs.flags = vec![("retention".into(), "soon".into())];
    let error = Config::load(&inputs).unwrap_err().to_string();
    assert!(
        error.starts_with("--retention: expected none, default"),
        "{error}"
    );
}

#[test]
fn a_reload_takes_a_new_policy_over_and_keeps_the_old_one_when_it_is_wrong() {
    let file = file(&in_configuration(EXAMPLE));
    let inputs = Inputs {
        file: Some(file.path.clone()),
        ..Inputs::default()
    };
    let config = Config::load(&inputs).unwrap();
    let shorter = EXAMPLE.replace("retain: 365d", "retain: 90d");
    std::fs::write(&file.path, in_configuration(&shorter)).unwrap();
    let (reloaded, changes) = config.reloaded(&config.reread().unwrap());
    assert_eq!(changes.applied, ["retention"]);
    assert_eq!(reloaded.retention, read_text_as_file(&shorter).unwrap());
    assert_ne!(reloaded.retention, config.retention);

    let wrong = EXAMPLE.replace("retain: 365d", "retain: 9d");
    std::fs::write(&file.path, in_configuration(&wrong)).unwrap();
    let error = reloaded.reread().unwrap_err().to_string();
    assert!(error.contains("retention.levels[2].retain"), "{error}");

    std::fs::write(&file.path, "").unwrap();
    let (none, changes) = reloaded.reloaded(&reloaded.reread().unwrap());
    assert_eq!((changes.applied, none.retention), (vec!["retention"], None));
}

#[test]
fn the_rendering_has_the_whole_policy() {
    let config = Config::load(&Inputs {
        flags: vec![("retention".into(), "default".into())],
        ..Inputs::default()
    });
    let rendered = config.unwrap().render();
    let (_, retention) = rendered.split_once("\n  retention:").unwrap();
    let lines: Vec<&str> = retention.lines().map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "# --retention",
            "levels:",
            "- resolution: raw",
            "retain: 21d",
            "- resolution: 5m",
            "retain: 90d",
            "columns: lean",
            "- resolution: 1h",
            "retain: 365d",
            "columns: full",
            "rollup_delay: 2h",
            "late_data: reject",
        ]
    );
}

fn any_matcher() -> impl Strategy<Value = Matcher> {
    let op = prop_oneof![
        Just(MatchOp::Equal),
        Just(MatchOp::NotEqual),
        Just(MatchOp::Regex),
        Just(MatchOp::NotRegex)
    ];
    // Letters alone are a regular expression too.
    (op, "[a-z]{1,3}|\\PC{1,5}", "[a-z]{1,3}|\\PC{0,5}").prop_map(|(op, name, value)| {
        let made = Matcher::new(op, name.clone(), value);
        made.unwrap_or_else(|_| Matcher::equal(name, "x"))
    })
}

fn any_policy() -> impl Strategy<Value = Option<RetentionPolicy>> {
    // Long enough for buckets of any size.
    let retain = prop_oneof![
        1 => Just(Retention::Forever),
        4 => (5000..9000i64).prop_map(|hours| Retention::For(hours * HOUR_MS)),
    ];
    let codes = proptest::collection::btree_set(1..11u8, 0..4);
    let retained = proptest::collection::vec(retain, 5);
    let matchers = proptest::collection::vec(any_matcher(), 1..3);
    let overrides = proptest::collection::vec((matchers, 0..5usize), 0..3);
    let rest = (0..100 * HOUR_MS, any::<bool>(), any::<bool>());
    (codes, retained, overrides, rest).prop_map(
        |(codes, mut retained, overrides, (delay_ms, merges, is_lean))| {
            retained.sort();
            let codes = std::iter::once(0).chain(codes);
            let levels: Vec<Level> = std::iter::zip(codes, retained)
                .map(|(code, retain)| Level {
                    resolution: Resolution::from_code(code).unwrap(),
                    retain,
                    columns: match (code, is_lean) {
                        (0, _) | (_, false) => ColumnSet::Full,
                        (_, true) => ColumnSet::Lean,
                    },
                })
                .collect();
            let overrides = overrides.into_iter().map(|(mut matchers, at)| {
                // Something must not match the empty value.
                matchers.push(Matcher::equal("a", "b"));
                let resolution = levels[at % levels.len()].resolution;
                let retain = vec![(resolution, Retention::NOT_KEPT)];
                Override { matchers, retain }
            });
            let overrides = overrides.collect();
            let late_data = match u8::from(merges) {
                0 => LateData::Reject,
                _ => LateData::Merge,
            };
            RetentionPolicy::new(levels, delay_ms, late_data, overrides).ok()
        },
    )
}

proptest! {
    #[test]
    fn what_is_shown_and_rendered_reads_back(policy in any_policy()) {
        prop_assert!(policy.is_some());
        let shown = PolicyText::show(&policy);
        let parsed = PolicyText::parse(&shown);
        prop_assert_eq!(parsed.as_ref(), Ok(&policy), "{}", shown);
        let text = policy.as_ref().map(|policy| render(policy).into_text());
        let text = text.unwrap_or_default();
        prop_assert_eq!(&read_text_as_file(&text).unwrap(), &policy, "{}", text);
    }

    #[test]
    fn no_text_panics(text in "(levels|resolution|retain|overrides|match|raw|5m|0|inf|3d|[:{}\\[\\],#\n &*a-c'\"-]){0,40}") {
        let _ = PolicyText::parse(&format!("{{{text}"));
        let source = SourceFile::new(Path::new("x"));
        let root = source.parse(&text);
        let policy = root.and_then(|root| read(Fields::of(&root, "", &source)));
        prop_assert!(policy.is_some() || !source.into_problems().is_empty());
    }
}
