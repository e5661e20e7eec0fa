//! What a Prometheus file may say, what it means, and what is said when it is wrong.

use std::path::Path;
use std::time::Duration;

use super::testing::{job_of, settings};
use super::*;

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

#[track_caller]
fn check_problem(text: &str, expected: &str) {
    let found = settings(text).expect_err(text);
    let found: Vec<_> = found
        .iter()
        .map(|problem| problem.replace(" of /etc/prometheus.yml", ""))
        .collect();
    assert_eq!(found, [expected], "{text}");
}

#[track_caller]
fn check_job_problem(keys: &str, expected: &str) {
    check_problem(
        &format!("scrape_configs: [{{job_name: x, {keys}}}]"),
        expected,
    );
}

#[test]
fn defaults_are_those_of_prometheus() {
    let job = job_of("");
    assert_eq!(job.scrape_interval, SECONDS(60));
    assert_eq!(job.scrape_timeout, SECONDS(10));
    assert_eq!(job.metrics_path, "/metrics");
    assert_eq!(job.scheme, Scheme::Http);
    assert_eq!(job.protocols.len(), 4);
    assert_eq!(job.protocols[0], ScrapeProtocol::OpenMetricsText1_0_0);
    assert!(!job.honor_labels && job.honor_timestamps && job.enable_compression);
    assert!(!job.track_timestamps_staleness);
    assert_eq!(job.metric_name_validation, NameValidation::Utf8);
    assert_eq!(job.metric_name_escaping, NameEscaping::AllowUtf8);
    assert_eq!(job.http, HttpClientConfig::default());
    assert!(job.http.follow_redirects && job.http.enable_http2);
    assert_eq!(job, ScrapeSettings::default().plain_job("test"));
}

#[test]
fn jobs_take_what_global_says() {
    let text = r#"
global:
  scrape_interval: 30s
  scrape_timeout: 20s
  evaluation_interval: 1m
  rule_query_offset: 1s
  query_log_file: q.log
  scrape_failure_log_file: f.log
  external_labels: {zone: $ZONE, a: x}
  body_size_limit: 10MB
  sample_limit: 1
  target_limit: 2
  label_limit: 3
  label_name_length_limit: 4
  label_value_length_limit: 5
  keep_dropped_targets: 6
  metric_name_validation_scheme: legacy
  scrape_native_histograms: true
  convert_classic_histograms_to_nhcb: true
  always_scrape_classic_histograms: yes
  extra_scrape_metrics: true
scrape_configs:
  - job_name: inherits
  - job_name: differs
    scrape_interval: 5s
    body_size_limit: 1KiB
    sample_limit: 10
    target_limit: 0
    metric_name_validation_scheme: utf8
    scrape_native_histograms: false
    convert_classic_histograms_to_nhcb: false
    always_scrape_classic_histograms: off
    extra_scrape_metrics: false
"#;
    let settings = settings(text).unwrap();
    let [job, other] = settings.jobs.as_slice() else {
        panic!("{settings:?}");
    };
    assert_eq!(job.scrape_interval, SECONDS(30));
    assert_eq!(job.scrape_timeout, SECONDS(20));
    assert_eq!(job.protocols[0], ScrapeProtocol::PrometheusProto);
    let limits = [
        job.body_size_limit,
        job.sample_limit,
        job.target_limit,
        job.label_limit,
        job.label_name_length_limit,
        job.label_value_length_limit,
        job.keep_dropped_targets,
    ];
    assert_eq!(limits, [10 << 20, 1, 2, 3, 4, 5, 6]);
    assert_eq!(job.metric_name_validation, NameValidation::Legacy);
    assert_eq!(job.metric_name_escaping, NameEscaping::Underscores);
    assert!(job.scrape_native_histograms && job.extra_scrape_metrics);
    assert!(job.convert_classic_histograms_to_nhcb && job.always_scrape_classic_histograms);
    assert_eq!(
        settings.external_labels,
        [("a".into(), "x".into()), ("zone".into(), "<ZONE>".into())]
    );
    // A default timeout never exceeds the interval; zero means not given.
    assert_eq!(other.scrape_timeout, SECONDS(5));
    assert_eq!((other.body_size_limit, other.sample_limit), (1024, 10));
    assert_eq!(other.target_limit, 2);
    assert_eq!(other.metric_name_validation, NameValidation::Utf8);
    assert_eq!(other.metric_name_escaping, NameEscaping::AllowUtf8);
    assert_eq!(other.protocols[0], ScrapeProtocol::OpenMetricsText1_0_0);
    assert!(!other.scrape_native_histograms && !other.extra_scrape_metrics);
}

#[test]
fn every_key_of_a_job_is_read() {
    let job = job_of(
        r#"honor_labels: true
honor_timestamps: false
track_timestamps_staleness: true
params: {module: [http_2xx, b], empty: []}
scrape_interval: 1m30s
scrape_timeout: 500ms
scrape_protocols: [PrometheusText0.0.4, PrometheusProto]
fallback_scrape_protocol: PrometheusText1.0.0
metrics_path: /probe
scheme: https
enable_compression: false
native_histogram_bucket_limit: 100
native_histogram_min_bucket_factor: 1.1
metric_name_escaping_scheme: values
static_configs:
- targets: [a:1, 'b:2']
  labels: {x: 5, y: }
- targets:
file_sd_configs:
- files: ['sd/*.yml', /abs/t.json]
  refresh_interval: 10s
http_sd_configs:
- url: http://sd/targets
  basic_auth: {username: u}
dns_sd_configs:
- {names: [_x._tcp.example.org]}
- {names: [a.example.org], type: aaaa, port: 9100, refresh_interval: 1m}
"#,
    );
    assert!(job.honor_labels && !job.honor_timestamps && job.track_timestamps_staleness);
    assert_eq!(job.params["module"], ["http_2xx", "b"]);
    assert_eq!(job.scrape_interval, SECONDS(90));
    assert_eq!(job.scrape_timeout, Duration::from_millis(500));
    assert_eq!(
        job.protocols,
        [
            ScrapeProtocol::PrometheusText0_0_4,
            ScrapeProtocol::PrometheusProto
        ]
    );
    assert_eq!(
        job.fallback_protocol,
        Some(ScrapeProtocol::PrometheusText1_0_0)
    );
    assert_eq!(
        (job.metrics_path.as_str(), job.scheme),
        ("/probe", Scheme::Https)
    );
    assert!(!job.enable_compression);
    assert_eq!(job.native_histogram_bucket_limit, 100);
    assert_eq!(job.native_histogram_min_bucket_factor, 1.1);
    assert_eq!(job.metric_name_escaping, NameEscaping::Values);
    let group = |targets: &[&str], labels: &[(&str, &str)], source: &str| TargetGroup {
        targets: targets.iter().map(ToString::to_string).collect(),
        labels: labels
            .iter()
            .map(|(n, v)| (n.to_string(), v.to_string()))
            .collect(),
        source: source.into(),
    };
    let expected = [
        Discovery::Static(vec![
            group(&["a:1", "b:2"], &[("x", "5"), ("y", "")], "0"),
            group(&[], &[], "1"),
        ]),
        Discovery::File {
            files: vec!["/etc/sd/*.yml".into(), "/abs/t.json".into()],
            refresh_interval: SECONDS(10),
        },
        Discovery::Http {
            url: "http://sd/targets".into(),
            refresh_interval: SECONDS(60),
            client: Box::new(HttpClientConfig {
                credentials: Some(Credentials::Basic {
                    username: Secret::Inline("u".into()),
                    password: Secret::Inline("".into()),
                }),
                ..HttpClientConfig::default()
            }),
        },
        Discovery::Dns {
            names: vec!["_x._tcp.example.org".into()],
            record: DnsRecord::Srv,
            port: None,
            refresh_interval: SECONDS(30),
        },
        Discovery::Dns {
            names: vec!["a.example.org".into()],
            record: DnsRecord::Aaaa,
            port: Some(9100),
            refresh_interval: SECONDS(60),
        },
    ];
    assert_eq!(job.discovery, expected);
}

#[test]
fn every_key_of_a_client_is_read() {
    let http = job_of(
        r#"authorization: {type: Token, credentials_file: secrets/token}
follow_redirects: false
enable_http2: false
proxy_url: http://user:word@proxy:3128
no_proxy: 10.0.0.0/8,.local
proxy_connect_header: {X-Proxy: [s3cret]}
http_headers:
  X-One: {values: [a, b], secrets: [s3cret], files: [h]}
tls_config:
  ca_file: ca.pem
  cert: CERT
  key: s3cret
  server_name: other
  insecure_skip_verify: true
  min_version: TLS12
  max_version: TLS13
"#,
    )
    .http;
    let given = |text: &str| Secret::Inline(text.into());
    let expected = HttpClientConfig {
        credentials: Some(Credentials::Header {
            kind: "Token".into(),
            credentials: Secret::File("/etc/secrets/token".into()),
        }),
        tls: TlsClientConfig {
            ca: Some(Secret::File("/etc/ca.pem".into())),
            cert: Some(given("CERT")),
            key: Some(given("s3cret")),
            server_name: Some("other".into()),
            insecure_skip_verify: true,
            min_version: Some(TlsVersion::Tls12),
            max_version: Some(TlsVersion::Tls13),
        },
        follow_redirects: false,
        enable_http2: false,
        proxy: ProxyConfig {
            url: Some("http://user:word@proxy:3128".into()),
            no_proxy: Some("10.0.0.0/8,.local".into()),
            from_environment: false,
            connect_headers: vec![("X-Proxy".into(), vec![given("s3cret")])],
        },
        headers: vec![HeaderConfig {
            name: "X-One".into(),
            values: vec!["a".into(), "b".into()],
            secrets: vec![given("s3cret"), Secret::File("/etc/h".into())],
        }],
    };
    assert_eq!(http, expected);
    let bearer = |keys: &str| job_of(keys).http.credentials;
    let header = |credentials| {
        Some(Credentials::Header {
            kind: "Bearer".into(),
            credentials,
        })
    };
    assert_eq!(bearer("bearer_token: x"), header(given("x")));
    assert_eq!(
        bearer("bearer_token_file: /t"),
        header(Secret::File("/t".into()))
    );
    assert_eq!(
        bearer("authorization: {credentials: x}"),
        header(given("x"))
    );
    assert_eq!(bearer("authorization:"), None);
    assert!(
        job_of("proxy_from_environment: true")
            .http
            .proxy
            .from_environment
    );
}

#[test]
fn problems_say_where_and_what_would_be_right() {
    check_problem(
        "global:\n  scrape_intervall: 5s\n",
        "global.scrape_intervall: unknown key, at line 2 column 3; did you mean scrape_interval?",
    );
    check_problem(
        "global: {scrape_interval: 5}",
        "global.scrape_interval: expected a duration such as 100ms, 15s, 5m, 1h30m or 2d, found \"5\", at line 1 column 27",
    );
    check_problem(
        "global: {scrape_interval: 5s, scrape_timeout: 6s}",
        "global.scrape_timeout: must not be above the scrape interval, which is 5s, at line 1 column 47",
    );
    check_problem(
        "global: {external_labels: {'': x}}",
        "global.external_labels: \"\" is no label name, at line 1 column 27",
    );
    check_problem(
        "global: {metric_name_validation_scheme: legacy, external_labels: {a-b: x}}",
        "global.external_labels: \"a-b\" is no label name, at line 1 column 66",
    );
    check_problem(
        "global: 5",
        "global: expected a map of keys and values, found text, at line 1 column 9",
    );
    check_problem(
        "scrape_configs: {}",
        "scrape_configs: expected a list, found a map, at line 1 column 17",
    );
    check_problem(
        "scrape_configs: [{job_name: a}, ~]",
        "scrape_configs[1]: expected a map of keys and values, found nothing, at line 1 column 33",
    );
    check_problem(
        "scrape_configs: [{metrics_path: /x}]",
        "scrape_configs[0].job_name: every job needs a name, at line 1 column 18",
    );
    check_problem(
        "scrape_configs:\n- job_name: a\n- job_name: a\n",
        "scrape_configs[1].job_name: the job \"a\" is given twice, first at line 2 column 13, at line 3 column 13",
    );
    check_job_problem(
        "kubernetes_sd_configs: {role: node}",
        "scrape_configs[0].kubernetes_sd_configs: expected a list, found a map, at line 1 column 55",
    );
    check_job_problem(
        "docker_sd_configs: [{port: '80'}]",
        "scrape_configs[0].docker_sd_configs[0].port: expected a number, found the string \"80\", at line 1 column 59",
    );
    check_job_problem(
        "fil_sd_configs: []",
        "scrape_configs[0].fil_sd_configs: unknown key, at line 1 column 32; did you mean file_sd_configs?",
    );
    check_job_problem(
        "oauth2: {client_id: x}",
        "scrape_configs[0].oauth2.token_url: is missing, at line 1 column 40",
    );
    check_job_problem(
        "relabel_configs: [{regex: '(', target_label: a}]",
        "scrape_configs[0].relabel_configs[0].regex: error parsing regexp: missing closing ): `(`, at line 1 column 58",
    );
    check_job_problem(
        "static_configs: [{targets: ['http://a:1/metrics']}]",
        "scrape_configs[0].static_configs[0].targets: \"http://a:1/metrics\" is not HOST:PORT; scheme and metrics_path are keys of the job, at line 1 column 59",
    );
}

#[test]
fn what_prometheus_refuses_is_refused() {
    for keys in [
        "scrape_timeout: 2m",
        "scrape_interval: ''",
        "scrape_interval: [5s]",
        "honor_labels: 'true'",
        "honor_labels: maybe",
        "sample_limit: -1",
        "sample_limit: '5'",
        "sample_limit: many",
        "body_size_limit: 5",
        "native_histogram_min_bucket_factor: x",
        "scrape_protocols: []",
        "scrape_protocols: [PrometheusText0.0.4, PrometheusText0.0.4]",
        "scrape_protocols: [prometheusproto]",
        "fallback_scrape_protocol: text",
        "metric_name_validation_scheme: utf16",
        "metric_name_escaping_scheme: none",
        "{metric_name_validation_scheme: legacy, metric_name_escaping_scheme: allow-utf-8}",
        "params: {a: b}",
        "params: [a]",
        "basic_auth: {username: a, username_file: b}",
        "basic_auth: {password: a, password_file: b}",
        "basic_auth: {user: a}",
        "{basic_auth: {username: a}, authorization: {credentials: b}}",
        "{basic_auth: {username: a}, bearer_token: b}",
        "{bearer_token: a, bearer_token_file: b}",
        "{authorization: {credentials: a}, bearer_token: b}",
        "authorization: {type: Basic, credentials: a}",
        "authorization: {type: 'a b', credentials: a}",
        "authorization: {credentials: a, credentials_file: b}",
        "tls_config: {cert: a}",
        "tls_config: {key_file: a}",
        "tls_config: {ca: a, ca_file: b}",
        "tls_config: {min_version: TLS14}",
        "tls_config: {min_version: TLS13, max_version: TLS12}",
        "{tls_config: {min_version: TLS12, max_version: TLS11}}",
        "oauth2: {client_id: a}",
        "consul_sd_configs: [~]",
        "consul_sd_configs: {server: a}",
        "consul_sd_configs: [{refresh_interval: -5s}]",
        "ec2_sd_configs: [{bearer_token: a, bearer_token_file: b}]",
        "cloudfoundry_sd_configs: [{}]",
        "tls_config: {insecure: true}",
        "proxy_url: ':'",
        "{proxy_from_environment: true, proxy_url: 'http://a'}",
        "{proxy_from_environment: true, no_proxy: a}",
        "no_proxy: a",
        "proxy_connect_header: {A: [b]}",
        "{proxy_url: 'http://a', proxy_connect_header: {A: b}}",
        "http_headers: {Authorization: {values: [a]}}",
        "http_headers: {'a b': {values: [a]}}",
        "http_headers: {A: {value: [a]}}",
        "http_headers: {A: {secrets: [[a]]}}",
        "static_configs: [{target: [a]}]",
        "static_configs: [{targets: a}]",
        "static_configs: [{targets: [[a]]}]",
        "static_configs: [{labels: {a: [b]}}]",
        "static_configs: [~]",
        "file_sd_configs: [{}]",
        "file_sd_configs: [{files: [a.txt]}]",
        "file_sd_configs: [{files: ['*/a.yml']}]",
        "file_sd_configs: [{files: [a.yml], refresh_interval: 0s}]",
        "http_sd_configs: [{}]",
        "http_sd_configs: [{url: 'ftp://x'}]",
        "http_sd_configs: [{url: 'http://x', oauth2: {client_id: a}}]",
        "dns_sd_configs: [{}]",
        "dns_sd_configs: [{names: [a], type: A}]",
        "dns_sd_configs: [{names: [a], type: TXT}]",
        "dns_sd_configs: [{names: [a], type: A, port: 70000}]",
        "relabel_configs: [~]",
        "relabel_configs: [{action: keepp}]",
        "relabel_configs: [{action: , target_label: a}]",
        "relabel_configs: [{}]",
        "relabel_configs: [{source_label: [a], target_label: b}]",
        "relabel_configs: [{action: lowercase}]",
        "relabel_configs: [{action: lowercase, target_label: a, replacement: b}]",
        "relabel_configs: [{action: hashmod, target_label: a}]",
        "relabel_configs: [{action: hashmod, modulus: 5}]",
        "relabel_configs: [{action: hashmod, target_label: a, modulus: -5}]",
        "relabel_configs: [{action: labelmap, replacement: ''}]",
        "relabel_configs: [{action: labeldrop, source_labels: [a]}]",
        "relabel_configs: [{action: labelkeep, target_label: a}]",
        "relabel_configs: [{action: keepequal, source_labels: [a], target_label: b, regex: c}]",
        "relabel_configs: [{action: dropequal, source_labels: [a], target_label: b, separator: c}]",
        "{metric_name_validation_scheme: legacy, relabel_configs: [{target_label: '0${3}'}]}",
        "{metric_name_validation_scheme: legacy, relabel_configs: [{source_labels: [a-b], target_label: a}]}",
    ] {
        let keys = keys.trim_start_matches('{');
        let keys = if keys.matches('}').count() > keys.matches('{').count() {
            keys.strip_suffix('}').unwrap()
        } else {
            keys
        };
        let text = format!("scrape_configs: [{{job_name: x, {keys}}}]");
        let found = settings(&text).expect_err(&text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
    }
}

#[test]
fn all_problems_are_found_at_once() {
    let text = "
global: {scrape_interval: x, nonsense: 1}
scrape_configs:
- job_name: a
  scrape_interval: y
  relabel_configs: [{regex: '[', target_label: a}, {action: nope}]
- {}
";
    assert_eq!(settings(text).unwrap_err().len(), 6);
}

#[test]
fn secrets_are_in_no_message_and_no_rendering() {
    let text = r#"
scrape_configs:
- job_name: a
  basic_auth: {username: shown, password: hunter2}
  tls_config: {cert: CERT, key: hunter2}
  proxy_url: http://u:hunter2@proxy
  proxy_connect_header: {A: [hunter2]}
  http_headers: {B: {values: [open], secrets: [hunter2]}, X-Api-Key: {values: [hunter2]}}
  http_sd_configs:
  - {url: 'http://u:hunter2@sd', authorization: {credentials: hunter2}}
  - {url: 'http://sd/targets?env=open&apikey=hunter2'}
  params: {module: [open], api_key: [hunter2, hunter2], token: [''], target: ['h://u:hunter2@g']}
  static_configs:
  - targets: [a, 'u:hunter2@b:9100', 'https://u:hunter2@c/x?apikey=hunter2']
    labels: {__param_access_token: hunter2, __param_target: 'u:hunter2@d', team: open}
  - {targets: [], labels: {link: 'https://u:hunter2@e/x?token=hunter2'}}
  relabel_configs:
  - {target_label: __param_sig, replacement: hunter2}
  - {target_label: __param_target, replacement: 'https://u:hunter2@f/$1'}
  - {target_label: open, replacement: open}
- job_name: b
  bearer_token: hunter2
"#;
    let found = settings(text).unwrap();
    assert!(!found.rendered.contains("hunter2"), "{}", found.rendered);
    assert!(
        found.rendered.contains("username: shown"),
        "{}",
        found.rendered
    );
    for shown in [
        "url: \"http://sd/targets?env=open&apikey=<secret>\"",
        "api_key:\n    - \"<secret>\"\n    - \"<secret>\"",
        "\"__param_access_token\": \"<secret>\"",
        "<secret>@b:9100",
        "https://<secret>@c/x?apikey=<secret>",
        "<secret>@d",
        "https://<secret>@e/x?token=<secret>",
        "https://<secret>@f/$1",
        "h://<secret>@g",
        "replacement: open",
        "team: open",
        "- open",
    ] {
        assert!(
            found.rendered.contains(shown),
            "{shown}: {}",
            found.rendered
        );
    }
    // Nothing is scraped with a placeholder for its credential.
    let pasted = settings(&found.rendered).unwrap_err();
    for place in [
        "params.api_key",
        "params.target",
        "http_sd_configs[1].url",
        "http_headers.X-Api-Key.values",
        "static_configs[0].targets",
        "static_configs[0].labels",
        "static_configs[1].labels",
        "relabel_configs[0].replacement",
        "relabel_configs[1].replacement",
    ] {
        let problem = pasted.iter().find(|problem| problem.contains(place));
        let problem = problem.unwrap_or_else(|| panic!("{place}: {pasted:#?}"));
        assert!(problem.contains("the secret itself"), "{problem}");
    }
    assert!(!format!("{:?}", found.jobs[1]).contains("hunter2"));
    for wrong in [
        "basic_auth: {password: [hunter2]}",
        "authorization: {credentials: {x: hunter2}}",
        "bearer_token: [hunter2]",
        "tls_config: {key: [hunter2]}",
        "http_headers: {B: {secrets: [[hunter2]]}}",
        "http_headers: {B: {secrets: hunter2}}",
        "http_sd_configs: [{url: 'x://u:hunter2@sd'}]",
        "http_sd_configs: [{url: 'x://sd?apikey=hunter2'}]",
        "static_configs: [{targets: ['http://u:hunter2@a/b']}]",
        "params: {apikey: hunter2}",
        "params: {apikey: [[hunter2]]}",
        "basic_auth: hunter2",
        "authorization: hunter2",
        "http_headers: {B: hunter2}",
        "{proxy_url: 'http://p', proxy_connect_header: {A: hunter2}}",
    ] {
        let wrong = wrong
            .strip_prefix('{')
            .map_or(wrong, |w| w.strip_suffix('}').unwrap());
        let text = format!("scrape_configs: [{{job_name: x, {wrong}}}]");
        let found = settings(&text).expect_err(&text).join("\n");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

#[test]
fn unsupported_parts_leave_out_what_they_concern_and_nothing_else() {
    let text = "
scrape_configs:
- job_name: pods
  kubernetes_sd_configs: [{role: pod}]
- job_name: both
  static_configs: [{targets: [a]}]
  consul_sd_configs: [{server: c}]
- job_name: token
  static_configs: [{targets: [a]}]
  oauth2: {client_id: a, client_secret: b, token_url: 'http://t'}
- job_name: list
  static_configs: [{targets: [a]}]
  http_sd_configs:
  - {url: 'http://a', basic_auth: {username: a, password_ref: hunter2}}
  - {url: 'http://b'}
- {job_name: scheme, scheme: gopher}
- {job_name: tls, tls_config: {max_version: TLS11}}
- {job_name: proxy, proxy_url: 'nothing://u:hunter2@p'}
- {job_name: none, kubernetes_sd_configs: [], nomad_sd_configs: }
- {job_name: plain, static_configs: [{targets: [a]}]}
";
    let settings = settings(text).unwrap();
    let names: Vec<_> = settings
        .jobs
        .iter()
        .map(|job| job.job_name.as_str())
        .collect();
    assert_eq!(names, ["both", "list", "none", "plain"]);
    assert_eq!(settings.left_out_jobs, 5);
    assert_eq!(settings.jobs[0].discovery.len(), 1);
    let [Discovery::Static(_), Discovery::Http { url, .. }] = settings.jobs[1].discovery.as_slice()
    else {
        panic!("{:?}", settings.jobs[1].discovery);
    };
    assert_eq!(url, "http://b");
    let of_file = " of /etc/prometheus.yml: ";
    let found: Vec<_> = settings
        .unsupported
        .iter()
        .map(|part| part.split_once(of_file).expect(part))
        .collect();
    let left_out = |name: &str| format!("the job {name:?} is left out; ");
    let kept = |name: &str| format!("the job {name:?} has only its other targets; ");
    let expected = [
        ("[0].kubernetes_sd_configs", "4 column 3", left_out("pods")),
        ("[1].consul_sd_configs", "7 column 3", kept("both")),
        ("[2].oauth2", "10 column 3", left_out("token")),
        (
            "[3].http_sd_configs[0].basic_auth.password_ref",
            "14 column 49",
            kept("list"),
        ),
        ("[4].scheme", "16 column 22", left_out("scheme")),
        (
            "[5].tls_config.max_version",
            "17 column 32",
            left_out("tls"),
        ),
        ("[6].proxy_url", "18 column 21", left_out("proxy")),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((place, effect), (key, at, expected)) in std::iter::zip(found, expected) {
        let subject = format!("scrape_configs{key} is not supported, at line {at}");
        assert_eq!(place, subject);
        assert!(effect.starts_with(&expected), "{effect}");
        assert!(!effect.contains("hunter2"), "{effect}");
    }
    // A name is given twice although one of the jobs is left out.
    let twice = "scrape_configs: [{job_name: a, ec2_sd_configs: [{}]}, {job_name: a}]";
    assert_eq!(super::testing::settings(twice).unwrap_err().len(), 1);
}

#[test]
fn messages_about_unsupported_jobs_are_bounded() {
    let jobs = (0..1002).map(|i| format!("- {{job_name: j{i}, ec2_sd_configs: [{{}}]}}\n"));
    let settings = settings(&format!("scrape_configs:\n{}", jobs.collect::<String>())).unwrap();
    assert_eq!(settings.left_out_jobs, 1002);
    assert_eq!(settings.unsupported.len(), 1001);
    let last = settings.unsupported.last().unwrap();
    assert_eq!(last, "2 further parts: icecore config check lists them");
}

#[test]
fn a_key_of_a_rule_with_nothing_behind_it_is_empty() {
    let rules = super::testing::rules("[{target_label: a, separator: , replacement: , regex: }]");
    assert_eq!(rules[0].separator, "");
    assert_eq!(rules[0].replacement, "");
    assert_eq!(rules[0].regex.pattern(), "");
}

#[test]
fn what_is_rendered_reads_back_as_the_same() {
    let text = r#"
global: {scrape_interval: 7s, external_labels: {a: 'x: y', b: "true"}, body_size_limit: 3KB, sample_limit: 5}
scrape_configs:
- job_name: 'name with: colon # and hash'
  honor_labels: true
  params: {a: [b, 'c d'], e: []}
  scrape_protocols: [PrometheusProto]
  fallback_scrape_protocol: PrometheusText0.0.4
  native_histogram_bucket_limit: 7
  native_histogram_min_bucket_factor: 1.25
  metric_name_validation_scheme: legacy
  authorization: {type: T, credentials_file: t}
  tls_config: {ca_file: c, cert_file: d, key_file: e, server_name: f, insecure_skip_verify: true, min_version: TLS12, max_version: TLS13}
  follow_redirects: false
  proxy_url: http://p:1
  no_proxy: x
  http_headers: {A: {values: [v], files: [w]}}
  static_configs: [{targets: [a:1], labels: {l: m}}, {targets: []}]
  file_sd_configs: [{files: ['a/*.yml']}]
  http_sd_configs: [{url: 'http://a/b'}]
  dns_sd_configs: [{names: [x], type: MX, port: 5}]
  relabel_configs:
  - {source_labels: [a, b], separator: '', regex: "x\ny", target_label: '${1}', replacement: ''}
  - {regex: '', action: labeldrop}
  metric_relabel_configs: [{action: hashmod, source_labels: [a], target_label: b, modulus: 3}]
- job_name: plain
  metric_name_escaping_scheme: dots
  always_scrape_classic_histograms: true
"#;
    let mut first = settings(text).unwrap();
    let again = settings(&first.rendered).expect(&first.rendered);
    // What is shown is what is said from then on.
    for job in &mut first.jobs {
        job.protocols_by_default = false;
    }
    assert_eq!(first.jobs, again.jobs, "{}", first.rendered);
    assert_eq!(first.external_labels, again.external_labels);
    assert_eq!(first.rendered, again.rendered);
    let start = "global:\n  scrape_interval: 7s\n  scrape_timeout: 7s\n  evaluation_interval: 1m\n  external_labels:\n    a: \"x: y\"\n    b: true\n  body_size_limit: 3KiB\n  sample_limit: 5\n";
    assert!(first.rendered.starts_with(start), "{}", first.rendered);
    assert!(settings(&ScrapeSettings::default().rendered).is_ok());
}

#[test]
fn anchors_merge_keys_and_long_strings_as_people_use_them() {
    let text = r#"
scrape_configs:
- &node
  job_name: node
  scrape_interval: 5s
  tls_config: &tls {insecure_skip_verify: true}
  relabel_configs: &rules
  - source_labels: [__address__]
    regex: >-
      (.+):
      [0-9]+
    target_label: host
- <<: *node
  job_name: other
  tls_config:
    <<: *tls
    server_name: x
  metric_relabel_configs: *rules
  static_configs:
"#;
    let settings = settings(text).unwrap();
    let [node, other] = settings.jobs.as_slice() else {
        panic!("{settings:?}");
    };
    assert_eq!(node.job_name, "node");
    assert_eq!(other.job_name, "other");
    assert_eq!(other.scrape_interval, SECONDS(5));
    assert!(other.http.tls.insecure_skip_verify);
    assert_eq!(other.http.tls.server_name.as_deref(), Some("x"));
    assert_eq!(node.relabel, other.metric_relabel);
    assert_eq!(node.relabel[0].regex.pattern(), "(.+): [0-9]+");
    assert!(other.discovery.is_empty());
}

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> std::path::PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn names(settings: &ScrapeSettings) -> Vec<&str> {
    settings
        .jobs
        .iter()
        .map(|job| job.job_name.as_str())
        .collect()
}

#[test]
fn files_of_jobs_are_read_and_loading_again_sees_changes() {
    let directory = Directory::new();
    let main = directory.write(
        "main.yml",
        "global: {scrape_interval: 9s}
scrape_config_files: [jobs/*.yml, none/*.yml]
scrape_configs: [{job_name: own}]
",
    );
    directory.write(
        "jobs/b.yml",
        "scrape_configs: [{job_name: b, file_sd_configs: [{files: [t.json]}]}]",
    );
    directory.write("jobs/a.yml", "scrape_configs: [{job_name: a}]");
    directory.write("jobs/ignored.txt", "nonsense");
    let settings = ScrapeSettings::load(&main).unwrap();
    assert_eq!(names(&settings), ["own", "a", "b"]);
    assert_eq!(settings.jobs[1].scrape_interval, SECONDS(9));
    // Paths are meant from the file that names them.
    let files = vec![directory.0.path().join("jobs/t.json")];
    let refresh_interval = SECONDS(300);
    let expected = [Discovery::File {
        files,
        refresh_interval,
    }];
    assert_eq!(settings.jobs[2].discovery, expected);
    assert!(
        settings.rendered.contains("jobs/*.yml"),
        "{}",
        settings.rendered
    );
    assert!(
        !settings.rendered.contains("job_name: a"),
        "{}",
        settings.rendered
    );

    directory.write("jobs/a.yml", "scrape_configs: [{job_name: a2}]");
    assert_eq!(
        names(&ScrapeSettings::load(&main).unwrap()),
        ["own", "a2", "b"]
    );

    directory.write(
        "jobs/a.yml",
        "scrape_configs: [{job_name: own}]\nglobal: {}\n",
    );
    let error = ScrapeSettings::load(&main).unwrap_err().to_string();
    assert!(error.contains("a.yml"), "{error}");
    assert!(
        error.contains("the job \"own\" is given twice, first at line 3 column 29 of "),
        "{error}"
    );
    assert!(
        error.contains("global: unknown key, at line 2 column 1"),
        "{error}"
    );
    directory.write("jobs/a.yml", "a: [");
    assert!(ScrapeSettings::load(&main).is_err());
    assert!(ScrapeSettings::load(Path::new("/nonexistent")).is_err());
}

#[test]
fn target_groups_of_a_file() {
    let path = Path::new("/x/t.yml");
    let groups = read_groups("- targets: [a:1]\n  labels: {x: y}\n- targets: [b]\n", path).unwrap();
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[0].source, "/x/t.yml:0");
    assert_eq!(groups[0].labels, [("x".into(), "y".into())]);
    assert_eq!(
        read_groups("[{\"targets\": [\"a\"], \"labels\": {}}]", path)
            .unwrap()
            .len(),
        1
    );
    assert_eq!(read_groups("", path).unwrap(), []);
    assert_eq!(read_groups("[]", path).unwrap(), []);
    for text in [
        "a: b",
        "- target: [a]",
        "- targets: a",
        "- 5",
        "[",
        "- {labels: {'': x}}",
    ] {
        assert!(read_groups(text, path).is_err(), "{text}");
    }
}
