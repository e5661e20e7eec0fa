//! What the configuration promises as a whole; how single values are read is tested beside each.

use std::path::PathBuf;

use icecore_storage::Options;
use proptest::prelude::*;

use super::*;

/// A valid value that is not the default.
fn other_value(setting: &Setting) -> String {
    let default = setting.default_value();
    let candidates: &[&str] = match setting.kind {
        Kind::Duration | Kind::AutoDuration => &["7m", "8m"],
        // One that keeps the settings that depend on each other consistent.
        Kind::Size | Kind::AutoSize => match setting.key {
            "storage.block_bytes" => &["32KiB"],
            "storage.l0_sst_bytes" => &["15MiB"],
            "storage.unflushed_bytes_max" => &["65MiB"],
            "head.flush_bytes" => &["511MiB"],
            "head.bytes_max" => &["1025MiB"],
            "server.write_body_bytes_max" => &["31MiB"],
            "events.seal_bytes" => &["63MiB"],
            "server.write_decompressed_bytes_max" => &["129MiB"],
            key if key.starts_with("limits.") => &["17B"],
            _ => &["77MiB"],
        },
        Kind::Integer => &["77", "78"],
        Kind::Bool => &["true", "false"],
        Kind::Text | Kind::Location => &["s3://elsewhere/x y"],
        Kind::Names => &["host.name,service.name"],
        Kind::Secret => &["hunter2"],
        Kind::Address => &["[::1]:8080"],
        Kind::OptionalAddress => &["[::1]:8080", "off"],
        Kind::Choice(words) => words,
        Kind::Map(_) => &["90d"],
    };
    let other = candidates.iter().find(|candidate| **candidate != default);
    (*other.unwrap()).into()
}

/// What a value is when it is read back; secrets in the clear, as only a test may see them.
fn value_of(config: &Config, setting: &Setting) -> String {
    match setting.kind {
        Kind::Secret => super::reload::secret(setting, config).into(),
        _ => (setting.read)(config),
    }
}

struct File {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn file(text: &str) -> File {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("prometheus.yml");
    std::fs::write(&path, text).unwrap();
    File {
        _directory: directory,
        path,
    }
}

fn load_file(text: &str) -> Result<Config, ConfigError> {
    let file = file(text);
    Config::load(&Inputs {
        file: Some(file.path.clone()),
        ..Inputs::default()
    })
}

fn flags(flags: &[(&str, &str)]) -> Inputs {
    Inputs {
        flags: flags
            .iter()
            .map(|(key, text)| ((*key).into(), (*text).into()))
            .collect(),
        ..Inputs::default()
    }
}

fn environment(variables: &[(&str, &str)]) -> Inputs {
    Inputs {
        environment: variables
            .iter()
            .map(|(name, text)| ((*name).into(), (*text).into()))
            .collect(),
        ..Inputs::default()
    }
}

#[track_caller]
fn problems(result: Result<Config, ConfigError>) -> Vec<String> {
    match result {
        Ok(config) => panic!("was accepted:\n{}", config.render()),
        Err(ConfigError::Invalid(problems)) => problems
            .into_iter()
            .map(|mut problem| {
                // The directory is random, the rest is what the user sees.
                if let Some((path, _)) = &mut problem.location {
                    *path = path.file_name().unwrap().into();
                }
                problem.to_string()
            })
            .collect(),
        Err(other) => panic!("{other}"),
    }
}

#[track_caller]
fn check_file_problem(text: &str, expected: &str) {
    assert_eq!(problems(load_file(text)), [expected], "{text}");
}

#[test]
fn defaults_are_those_of_the_options() {
    let config = Config::load(&Inputs::default()).unwrap();
    assert_eq!(
        format!("{:?}", config.storage_options()),
        format!("{:?}", Options::default())
    );
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:9090");
    assert!(!config.grpc_listen_is_explicit());
    assert!(config.warnings().is_empty());
}

#[test]
fn the_section_of_prometheus_for_otlp_is_ours() {
    let config = load_file(
        "otlp:\n  translation_strategy: NoTranslation\n  promote_resource_attributes:\n  - host.name\n  - 'k8s.pod'\n",
    )
    .unwrap();
    assert_eq!(
        config.otlp.strategy,
        icecore_wire::otlp::Strategy::NoTranslation
    );
    assert_eq!(
        config.otlp.promote_resource_attributes,
        ["host.name", "k8s.pod"]
    );
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    let problems = |text: &str| load_file(text).unwrap_err().to_string();
    assert!(problems("otlp:\n  translation: x\n").contains("otlp.translation: unknown key"));
    assert!(
        problems("otlp:\n  promote_resource_attributes: [[a]]\n")
            .contains("a list of something else")
    );
    let both = "otlp: {promote_all_resource_attributes: true, promote_resource_attributes: [a]}";
    assert!(problems(both).contains("must be empty"));
    let alone = problems("otlp: {ignore_resource_attributes: [a]}");
    assert!(alone.contains("must be empty unless"), "{alone}");
    let twice = problems("otlp: {promote_resource_attributes: [a, ' a ']}");
    assert!(twice.contains("has a name twice"), "{twice}");
    let names = "global: {metric_name_validation_scheme: legacy}\n\
                 otlp: {translation_strategy: NoTranslation}";
    let names = problems(names);
    assert!(names.contains("must escape names"), "{names}");
}

#[test]
fn every_setting_can_be_given_in_each_way() {
    let alone = SETTINGS.iter();
    for setting in alone.filter(|setting| setting.key != IGNORED_ATTRIBUTES) {
        let value = other_value(setting);
        let yaml = match setting.kind {
            Kind::Bool | Kind::Integer => value.clone(),
            _ => format!("{value:?}"),
        };
        let from_file = load_file(&match setting.key.split_once('.') {
            Some((section, name)) => format!("icecore:\n  {section}:\n    {name}: {yaml}\n"),
            None => format!("icecore:\n  {}: {yaml}\n", setting.key),
        });
        let from_environment = Config::load(&environment(&[(&setting.variable(), &value)]));
        let from_flag = Config::load(&flags(&[(setting.key, &value)]));
        for (way, loaded) in [
            ("file", from_file),
            ("environment", from_environment),
            ("flag", from_flag),
        ] {
            let config = loaded.unwrap_or_else(|error| panic!("{way}: {error}"));
            assert_eq!(
                value_of(&config, setting),
                value,
                "{} by {way}",
                setting.key
            );
            assert_ne!(config.source(setting.key), Some(&Source::Default));
            let explicit = config
                .sources
                .values
                .iter()
                .filter(|source| **source != Source::Default);
            assert_eq!(explicit.count(), 1, "{} by {way}", setting.key);
        }
    }
}

/// Whether it can be changed together with all others: attributes are promoted by name, or all of
/// them but some.
fn goes_with_others(setting: &Setting) -> bool {
    setting.key != "otlp.promote_all_resource_attributes" && setting.key != IGNORED_ATTRIBUTES
}

/// A setting that is refused alone: it says what is left out of all attributes.
const IGNORED_ATTRIBUTES: &str = "otlp.ignore_resource_attributes";

#[test]
fn no_storage_option_is_out_of_reach() {
    let everything: Vec<_> = SETTINGS
        .iter()
        .filter(|setting| goes_with_others(setting))
        .map(|setting| (setting.key.to_owned(), other_value(setting)))
        .collect();
    let inputs = Inputs {
        flags: everything,
        ..Inputs::default()
    };
    let config = Config::load(&inputs).unwrap();
    let before = format!("{:#?}", Options::default());
    let after = format!("{:#?}", config.storage_options());
    for line in before.lines().filter(|line| {
        // Leaves only, and no secret, which the options may keep out of their debug output.
        line.ends_with(',') && !line.trim().starts_with(['}', ')']) && !line.contains("secret")
    }) {
        let unchanged = after.lines().any(|other| other == line);
        assert!(!unchanged, "no setting changes{line}");
    }
}

#[test]
fn sections_and_short_names_are_as_documented() {
    for setting in SETTINGS {
        assert!(
            SECTIONS.iter().any(|(name, _)| *name == setting.section()),
            "{} is in no documented section",
            setting.key
        );
        assert!(
            !setting.what.contains('|') && !setting.what.contains('\n'),
            "{}",
            setting.key
        );
        let default = setting.default_value();
        let mut config = Config::default();
        assert!(
            (setting.write)(&mut config, &default).is_ok(),
            "{}",
            setting.key
        );
        for bound in [setting.bounds.0, setting.bounds.1] {
            let accepted = bound.is_empty() || (setting.write)(&mut config, bound).is_ok();
            assert!(accepted, "{}: bound {bound}", setting.key);
        }
    }
    let by_short_variable = Config::load(&environment(&[
        ("ICECORE_STORAGE", "memory://"),
        ("ICECORE_LISTEN", "localhost:1"),
    ]))
    .unwrap();
    assert_eq!(
        by_short_variable.storage_options().store.location,
        "memory://"
    );
    assert_eq!(by_short_variable.server.listen.to_string(), "localhost:1");
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let file = file("icecore: {server: {listen: '127.0.0.1:1'}}");
    let mut inputs = Inputs::default();
    let listen = |inputs: &Inputs| {
        let config = Config::load(inputs).unwrap();
        let source = config.source("server.listen").cloned().unwrap();
        (config.server.listen.port, source)
    };
    assert_eq!(listen(&inputs), (9090, Source::Default));
    inputs.file = Some(file.path.clone());
    let place = Position {
        line: 1,
        column: 28,
    };
    assert_eq!(listen(&inputs), (1, Source::File(place)));
    inputs
        .environment
        .push(("ICECORE_SERVER_LISTEN".into(), "127.0.0.1:2".into()));
    let variable = Source::Environment("ICECORE_SERVER_LISTEN".into());
    assert_eq!(listen(&inputs), (2, variable));
    inputs
        .flags
        .push(("server.listen".into(), "127.0.0.1:3".into()));
    assert_eq!(listen(&inputs), (3, Source::Flag("--listen".into())));
}

#[test]
fn the_file_can_be_named_by_a_variable() {
    let named = file("icecore: {log: {level: debug}}");
    let other = file("icecore: {log: {level: warn}}");
    let mut inputs = environment(&[("ICECORE_CONFIG", named.path.to_str().unwrap())]);
    let config = Config::load(&inputs).unwrap();
    assert_eq!(config.log.level, LogLevel::Debug);
    assert_eq!(config.file(), Some(named.path.as_path()));
    inputs.file = Some(other.path.clone());
    assert_eq!(Config::load(&inputs).unwrap().log.level, LogLevel::Warn);
}

#[test]
fn the_log_level_of_a_prometheus_file_counts() {
    let level = |text: &str| {
        let given = file(text);
        let inputs = Inputs {
            file: Some(given.path.clone()),
            ..Inputs::default()
        };
        Config::load(&inputs).map(|config| (config.log.level, config.warnings().to_vec()))
    };
    let (found, warnings) = level("runtime: {log_level: WARN}").unwrap();
    assert_eq!((found, warnings.len()), (LogLevel::Warn, 0));
    let (found, warnings) = level("runtime: {log_level: debug, gogc: 50}").unwrap();
    assert_eq!(found, LogLevel::Debug);
    assert!(warnings[0].contains("runtime.gogc"), "{warnings:?}");
    let both = "runtime: {log_level: debug}\nicecore: {log: {level: error}}";
    assert_eq!(level(both).unwrap().0, LogLevel::Error);
    let wrong = level("runtime: {log_level: loud}").unwrap_err().to_string();
    assert!(
        wrong.contains("runtime.log_level: expected one of error, warn, info, debug, trace"),
        "{wrong}"
    );
    let unknown = level("runtime: {loglevel: info}").unwrap_err().to_string();
    assert!(unknown.contains("runtime.loglevel"), "{unknown}");
}

#[test]
fn an_unreadable_file_is_named() {
    let inputs = Inputs {
        file: Some("does/not/exist.yml".into()),
        ..Inputs::default()
    };
    let error = Config::load(&inputs).unwrap_err();
    assert!(matches!(error, ConfigError::Read { .. }));
    assert!(error.to_string().contains("does/not/exist.yml"), "{error}");
}

#[test]
fn unknown_keys_have_a_place_and_a_suggestion() {
    check_file_problem(
        "icecore:\n  storage:\n    fsink: true\n",
        "icecore.storage.fsink: unknown key, at line 3 column 5 of prometheus.yml; did you mean icecore.storage.fsync?",
    );
    check_file_problem(
        "icecore:\n  fsync: true\n",
        "icecore.fsync: unknown key, at line 2 column 3 of prometheus.yml; did you mean icecore.storage.fsync?",
    );
    check_file_problem(
        "icecore: {storag: {fsync: true}}",
        "icecore.storag: unknown key, at line 1 column 11 of prometheus.yml; did you mean icecore.storage?",
    );
    check_file_problem(
        "global: {}\nscrape_config: []\n",
        "scrape_config: unknown key, at line 2 column 1 of prometheus.yml; did you mean scrape_configs?",
    );
    check_file_problem(
        "journal: {strict_recovery: true}",
        "journal: unknown key, at line 1 column 1 of prometheus.yml; did you mean icecore.journal?",
    );
    check_file_problem(
        "storage: {tsdb: {}, location: /data}",
        "storage.location: unknown key, at line 1 column 21 of prometheus.yml; did you mean icecore.storage.location?",
    );
    check_file_problem(
        "icecore: {somethingquitedifferent: 5}",
        "icecore.somethingquitedifferent: unknown key, at line 1 column 11 of prometheus.yml",
    );
}

#[test]
fn bad_values_say_what_was_expected_and_found() {
    check_file_problem(
        "global: {}\nicecore:\n  storage:\n    fsync: maybe\n",
        "icecore.storage.fsync: expected true or false, found \"maybe\", at line 4 column 12 of prometheus.yml",
    );
    for (value, complaint) in [
        (
            "fsync: 'true'",
            "expected true or false, found the string \"true\", at line 1 column 28",
        ),
        ("fsync:", "expected true or false, found nothing"),
        ("location: ''", "expected a path or a URL, found \"\""),
        (
            "fsync: [true]",
            "expected true or false, found a list, at line 1 column 28",
        ),
        ("fsync: {a: b}", "expected true or false, found a map"),
        ("retries_max: -1", "expected a whole number, found \"-1\""),
        ("retries_max: 1.5", "expected a whole number, found \"1.5\""),
        ("block_bytes: 12KB", "must be a power of two"),
        (
            "block_bytes: 128KiB",
            "expected at most 64KiB, found \"128KiB\"",
        ),
        ("block_bytes: 16 KiB", "expected a size such as"),
        ("open_timeout: 10", "expected a duration such as"),
        ("open_timeout: 0", "expected at least 1ms, found \"0\""),
        (
            "compression: gzip",
            "expected one of none, lz4, zstd, found \"gzip\"",
        ),
        ("unflushed_bytes_max: 1MiB", "must be at least four times"),
    ] {
        let found = problems(load_file(&format!("icecore: {{storage: {{{value}}}}}")));
        assert!(
            found.len() == 1 && found[0].contains(complaint),
            "{value}: {found:?}"
        );
    }
    check_file_problem(
        "icecore: [1]",
        "icecore: expected a map of keys and values, found a list, at line 1 column 10 of prometheus.yml",
    );
    check_file_problem(
        "just words",
        "expected a map of keys and values, found text, at line 1 column 1 of prometheus.yml",
    );
    check_file_problem(
        "icecore:\n  log:\n    level: info\n    level: warn\n",
        "the key \"level\" is given twice, first at line 3 column 5, at line 4 column 5 of prometheus.yml",
    );
}

#[test]
fn a_web_configuration_file_without_a_name_is_an_error() {
    for (inputs, name) in [
        (flags(&[("server.web_config", "")]), "--web.config.file"),
        (
            environment(&[("ICECORE_WEB_CONFIG_FILE", "")]),
            "ICECORE_WEB_CONFIG_FILE",
        ),
        (
            environment(&[("ICECORE_SERVER_WEB_CONFIG", "")]),
            "ICECORE_SERVER_WEB_CONFIG",
        ),
    ] {
        let error = Config::load(&inputs).unwrap_err().to_string();
        let expected = format!("{name}: is empty: requests would need no credential");
        assert!(error.contains(&expected), "{error}");
        assert!(error.contains("leave this out"), "{error}");
    }
    // One that names a file counts.
    let mut inputs = environment(&[("ICECORE_WEB_CONFIG_FILE", "")]);
    inputs.flags = vec![("server.web_config".into(), "web.yml".into())];
    assert_eq!(Config::load(&inputs).unwrap().server.web_config, "web.yml");
    // What `icecore config` prints can be given back.
    let config = load_file("icecore: {server: {web_config: ''}}").unwrap();
    assert_eq!(config.server.web_config, "");
}

#[test]
fn all_problems_are_reported_at_once() {
    let file = file("icecore: {log: {level: loud, colour: red}}");
    let inputs = Inputs {
        file: Some(file.path.clone()),
        environment: vec![("ICECORE_STORAGE_FSYNC".into(), "maybe".into())],
        flags: vec![("server.listen".into(), "9090".into())],
    };
    let error = Config::load(&inputs).unwrap_err().to_string();
    for part in [
        "4 problems in the configuration:",
        "icecore.log.level: expected one of error, warn, info, debug, trace, found \"loud\"",
        "icecore.log.colour: unknown key",
        "ICECORE_STORAGE_FSYNC: expected true or false, found \"maybe\"",
        "--listen: expected ADDRESS:PORT such as",
    ] {
        assert!(error.contains(part), "{part} is not in:\n{error}");
    }
}

#[test]
fn problems_come_in_the_order_of_the_file() {
    let found = problems(load_file(
        "icecore:\n  log:\n    level: loud\n    colour: red\n",
    ));
    assert!(
        found[0].contains("log.level") && found[1].contains("log.colour"),
        "{found:?}"
    );
}

#[test]
fn contradictions_are_named_where_they_were_given() {
    assert_eq!(
        problems(Config::load(&flags(&[
            ("head.flush_bytes", "2GiB"),
            ("head.bytes_max", "1GiB"),
        ]))),
        [
            "--head.flush-bytes: must not be above head.bytes_max, or writes are refused before anything is flushed"
        ]
    );
    for wrong in [
        "http://metrics.example",
        "metrics.example:9090",
        "*.example",
        "a/b",
    ] {
        let found = problems(Config::load(&flags(&[("server.hosts", wrong)])));
        assert!(
            found[0].contains("--server.hosts: must be names"),
            "{found:?}"
        );
    }
    let found = problems(load_file("icecore: {server: {write_body_bytes_max: 1GiB}}"));
    assert!(found[0].contains("at line 1 column 42"), "{found:?}");
}

#[test]
fn a_prometheus_configuration_is_accepted_and_its_keys_are_named() {
    // Shaped like the example that comes with Prometheus, and a little beyond.
    let config = load_file(
        r#"
# Scrapes itself.
global:
  scrape_interval: 15s
  evaluation_interval: 15s
  external_labels: {monitor: 'demo'}

alerting:
  alertmanagers:
    - static_configs:
        - targets:
          # - alertmanager:9093

rule_files:
  # - "rules.yml"

scrape_configs:
  - job_name: "prometheus"
    static_configs:
      - targets: ["localhost:9090"]
        labels:
          app: "prometheus"
  - job_name: relabelled
    relabel_configs: &relabel
      - {source_labels: [a, b], separator: ';', regex: '(.*);(.*)', replacement: '$1-${2}', target_label: c}
    metric_relabel_configs: *relabel

storage: {tsdb: {out_of_order_time_window: 30m}, exemplars: {max_exemplars: 100000}}
icecore:
  storage:
    # fsync: false
  head: {flush_bytes: 256MiB}
"#,
    )
    .unwrap();
    let parts = config.unsupported().iter();
    let parts: Vec<_> = parts
        .map(|part| (part.subject.as_str(), part.at.line, part.at.column))
        .collect();
    let expected = [
        ("alerting", 8, 1),
        ("storage.tsdb.out_of_order_time_window", 28, 18),
        ("storage.exemplars", 28, 50),
    ];
    assert_eq!(parts, expected);
    assert_eq!(config.warnings().len(), 3, "{:?}", config.warnings());
    assert_eq!(config.storage_options().head.flush_bytes, Some(256 << 20));
    assert_eq!(config.scrape().rendered.matches("job_name:").count(), 2);
}

/// A part of every kind that has no effect.
const UNSUPPORTED: &str = "\
global: {query_log_file: q.log, scrape_failure_log_file: f.log}
rule_files: [rules/*.yml]
alerting: {alertmanagers: [{kubernetes_sd_configs: [{role: pod}], sigv4: {region: r}}]}
remote_write: [{url: 'http://a', queue_config: {capacity: 5}}]
remote_read: [{url: 'http://a'}]
tracing: {endpoint: 'a:1'}
runtime: {gogc: 60, log_level: debug}
storage:
  tsdb: {retention: {size: 5GB, percentage: 5}, chunk_encoding: {floats: xor2}}
  exemplars: {max_exemplars: -1}
scrape_configs: [{job_name: a, consul_sd_configs: [{}], scrape_failure_log_file: g.log}]
---
nothing: here
";

#[test]
fn parts_without_effect_are_named_with_their_place_and_what_to_use() {
    let config = load_file(UNSUPPORTED).unwrap();
    let parts: Vec<String> = config
        .unsupported()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(config.warnings(), parts);
    let subjects: Vec<_> = config
        .unsupported()
        .iter()
        .map(|part| &part.subject)
        .collect();
    assert_eq!(
        subjects,
        [
            "global.query_log_file",
            "global.scrape_failure_log_file",
            "rule_files",
            "alerting",
            "remote_write",
            "remote_read",
            "tracing",
            "runtime.gogc",
            "storage.tsdb.retention.size",
            "storage.tsdb.retention.percentage",
            "storage.tsdb.chunk_encoding",
            "storage.exemplars",
            "scrape_configs[0].consul_sd_configs",
            "scrape_configs[0].scrape_failure_log_file",
            "a second document",
        ]
    );
    let job = &parts[12];
    let file = config.file().unwrap().display().to_string();
    let place = format!(" is not supported, at line 11 column 32 of {file}: ");
    assert!(job.contains(&place), "{job}");
    assert!(
        job.contains("the job \"a\" is left out; use dns_sd_configs"),
        "{job}"
    );
    // The parts of a section that has no effect are checked all the same.
    for (wrong, place) in [
        ("rule_files: ['a/*/b']", "rule_files: "),
        (
            "alerting: {alertmanagers: [{api_version: v1}]}",
            "alertmanagers[0].api_version",
        ),
        ("remote_write: [{}]", "remote_write[0].url: is missing"),
        (
            "remote_write: [{url: a, azuread: {oauth: {client_id: x}}}]",
            "azuread.oauth.client_id: expected a UUID",
        ),
        (
            "remote_read: [{url: a, name: x}, {url: b, name: x}]",
            "remote_read[1].name",
        ),
        ("tracing: {}", "tracing.endpoint: is missing"),
        ("runtime: {gogc: some}", "runtime.gogc: expected a number"),
        (
            "storage: {tsdb: {retention: {percentage: 101}}}",
            "retention.percentage",
        ),
        (
            "storage: {tsdb: {retention: {time: -1h}}}",
            "storage.tsdb.retention.time",
        ),
        (
            "storage: {exemplars: {max_exemplar: 1}}",
            "did you mean max_exemplars?",
        ),
    ] {
        let error = load_file(wrong).unwrap_err().to_string();
        assert!(error.contains(place), "{wrong}: {error}");
    }
}

#[test]
fn our_section_in_a_second_document_is_an_error() {
    let text = "scrape_configs: []\n---\nicecore:\n  server: {web_config: web.yml}\n";
    let error = load_file(text).unwrap_err().to_string();
    assert!(
        error.contains("must stand in the first document"),
        "{error}"
    );
    assert!(load_file("scrape_configs: []\n---\nother: 1\n").is_ok());
}

#[test]
fn a_strict_start_refuses_parts_without_effect() {
    let File { path, _directory } = file(UNSUPPORTED);
    let mut inputs = flags(&[("config.strict", "true")]);
    inputs.file = Some(path);
    let found = problems(Config::load(&inputs));
    assert_eq!(found.len(), 15, "{found:?}");
    assert!(
        found[12].starts_with("scrape_configs[0].consul_sd_configs: is not supported, at line 11"),
        "{found:?}"
    );
    assert!(found[12].contains("; use dns_sd_configs"), "{found:?}");
    assert!(load_file("icecore: {config: {strict: true}}\nrule_files: []\n").is_ok());
}

#[test]
fn an_explicit_origin_that_is_any_is_warned_about() {
    for (pattern, is_warned) in [
        (".*", true),
        (".+", true),
        ("https?://(one|two)\\.example", false),
    ] {
        let config = Config::load(&flags(&[("server.cors_origin", pattern)])).unwrap();
        let warnings = config.warnings().join("\n");
        let found = warnings.contains("server.cors_origin is set and allows every origin");
        assert_eq!(found, is_warned, "{pattern}: {warnings}");
    }
}

#[test]
fn an_empty_file_is_a_configuration() {
    for text in ["", "# nothing\n", "icecore:\n", "icecore:\n  storage:\n"] {
        let config = load_file(text).unwrap();
        assert!(config.warnings().is_empty(), "{text:?}");
    }
}

#[test]
fn the_environment_is_read_with_care() {
    let config = Config::load(&environment(&[
        ("ICECORE_STORAGE", ""),
        ("ICECORE_PORT", "tcp://10.0.0.1:9090"),
        ("ICECORE_STORAGE_FSINC", "true"),
        ("PATH", "/bin"),
    ]))
    .unwrap();
    assert_eq!(config.storage_options().store.location, "./icecore-data");
    assert_eq!(
        config.warnings(),
        [
            "unknown environment variables: ICECORE_PORT, ICECORE_STORAGE_FSINC (did you mean ICECORE_STORAGE_FSYNC?)"
        ]
    );
    let twice = environment(&[("ICECORE_LISTEN", ":1"), ("ICECORE_SERVER_LISTEN", ":2")]);
    assert_eq!(
        problems(Config::load(&twice)),
        ["ICECORE_SERVER_LISTEN: contradicts ICECORE_LISTEN; set one of them"]
    );
}

#[test]
fn addresses_are_read_as_people_write_them() {
    for (text, host, port) in [
        ("127.0.0.1:9090", "127.0.0.1", 9090),
        ("localhost:0", "localhost", 0),
        ("[::1]:80", "::1", 80),
        (":9090", "0.0.0.0", 9090),
    ] {
        let config = Config::load(&flags(&[("server.listen", text)])).unwrap();
        assert_eq!(config.server.listen.host, host, "{text}");
        assert_eq!(config.server.listen.port, port, "{text}");
    }
    for text in [
        "",
        "9090",
        "host",
        "host:",
        "host:65536",
        "host:-1",
        "::1:80",
        "[x]:80",
        "a b:80",
        "http://x:80",
    ] {
        assert!(
            Config::load(&flags(&[("server.listen", text)])).is_err(),
            "{text:?}"
        );
    }
}

#[test]
fn secrets_appear_nowhere() {
    let secret = "hunter2";
    let config = Config::load(&flags(&[
        ("storage.secret_access_key", secret),
        ("events.masking_key", secret),
        ("storage.endpoint", "https://me:hunter2@minio:9000/x"),
    ]))
    .unwrap();
    assert_eq!(config.storage_options().store.secret_access_key, secret);
    for shown in [
        config.render(),
        format!("{config:?}"),
        format!("{config:#?}"),
    ] {
        assert!(!shown.contains(secret), "{shown}");
        assert!(shown.contains("secret_access_key: \"<secret>\""), "{shown}");
        assert!(
            shown.contains("endpoint: \"https://<secret>@minio:9000/x\""),
            "{shown}"
        );
    }
    // A wrong type in the file must not print what was there either.
    for yaml in ["[hunter2]", "{hunter2: 1}"] {
        let text = format!("icecore: {{storage: {{secret_access_key: {yaml}}}}}");
        let found = problems(load_file(&text)).join("\n");
        assert!(!found.contains(secret), "{found}");
    }
    let placeholder = Config::load(&flags(&[("storage.secret_access_key", "<secret>")]));
    assert_eq!(
        problems(placeholder),
        [
            "--storage.secret-access-key: expected the secret itself, not the placeholder that is printed for it"
        ]
    );
}

#[test]
fn the_rendering_says_where_values_came_from() {
    let file = file("icecore:\n  log:\n    level: debug\n");
    let config = Config::load(&Inputs {
        file: Some(file.path.clone()),
        environment: vec![("ICECORE_LOG_FORMAT".into(), "json".into())],
        flags: vec![("storage.location".into(), "/data".into())],
    })
    .unwrap();
    let rendered = config.render();
    let line = |start: &str| {
        let found = rendered.lines().find(|line| line.trim().starts_with(start));
        let line = found.unwrap_or_else(|| panic!("{start} is not in:\n{rendered}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let place = format!("level: debug # {} line 3 column 12", file.path.display());
    assert_eq!(line("level:"), place);
    assert_eq!(line("format:"), "format: json # ICECORE_LOG_FORMAT");
    assert_eq!(line("location:"), "location: /data # --storage");
    assert_eq!(line("fsync:"), "fsync: true # default");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_rendering_reads_back(region in "\\PC{0,12}|[ -~]{0,12}|[\0-\u{20}:#]{1,4}|null|~|---|\\.\\.\\.") {
        let everything: Vec<_> = SETTINGS
            .iter()
            .filter(|setting| !setting.is_secret() && goes_with_others(setting))
            .map(|setting| match setting.key {
                "storage.region" => (setting.key.to_owned(), region.clone()),
                key => (key.to_owned(), other_value(setting)),
            })
            .collect();
        let config = Config::load(&Inputs { flags: everything, ..Inputs::default() }).unwrap();
        let again = load_file(&config.render()).unwrap();
        for setting in SETTINGS {
            prop_assert_eq!(value_of(&again, setting), value_of(&config, setting), "{}", setting.key);
        }
    }

    #[test]
    fn no_file_panics(text in "(icecore|storage|fsync|global|[:{}\\[\\],#\n &*a-c'\"-]){0,40}") {
        let mut loader = Loader::<Config>::new(&REGISTRY, &Inputs::default());
        file::interpret(&text, Path::new("x"), &mut loader);
    }
}
