//! The same small files are given to `promtool check config`, and both must accept or refuse the
//! same ones.
//!
//! Only keys that Prometheus 2.42 (Debian 12) knows are here, and no names that only UTF-8 allows.

use std::collections::BTreeSet;
use std::process::Command;

use super::ScrapeSettings;

/// Keys of a job: right ones and wrong ones.
const FRAGMENTS: [&str; 92] = [
    "honor_labels: true",
    "honor_labels: yes",
    "honor_labels: 'true'",
    "honor_labels: 5",
    "honor_labels:",
    "honor_timestamps: false",
    "scrape_interval: 5s",
    "scrape_interval: 1m30s",
    "scrape_interval: 0s",
    "scrape_interval: 5",
    "scrape_interval: ''",
    "scrape_interval: 1s5m",
    "scrape_interval: [1s]",
    "scrape_timeout: 2s",
    "scrape_timeout: 5m",
    "metrics_path: /x",
    "metrics_path: [x]",
    "params: {a: [b, c]}",
    "params: {a: b}",
    "params: {a: []}",
    "body_size_limit: 10MB",
    "body_size_limit: 1.5GiB",
    "body_size_limit: 5",
    "body_size_limit: 0",
    "sample_limit: 5",
    "sample_limit: -5",
    "sample_limit: x",
    "sample_limit: '5'",
    "label_limit: 1",
    "target_limit: 1",
    "label_name_length_limit: 1",
    "label_value_length_limit: 1",
    "unknown_key: 1",
    "basic_auth: {username: a, password: b}",
    "basic_auth: {username: a, password: b, password_file: c}",
    "basic_auth: {nonsense: a}",
    "authorization: {credentials: a}",
    "authorization: {type: Basic, credentials: a}",
    "authorization: {credentials: a, credentials_file: b}",
    "bearer_token: a",
    "bearer_token_file: a",
    "follow_redirects: false",
    "enable_http2: false",
    "proxy_url: http://a:1",
    "tls_config: {insecure_skip_verify: true, server_name: a}",
    "tls_config: {min_version: TLS12}",
    "tls_config: {min_version: TLS14}",
    "tls_config: {nonsense: 1}",
    "static_configs: [{targets: ['a:1', 'b:2'], labels: {x: y}}]",
    "static_configs: [{targets: ['http://a:1']}]",
    "static_configs: [{targets: a}]",
    "static_configs: [{target: [a]}]",
    "static_configs: [{labels: {a: 5}}]",
    "static_configs: []",
    "static_configs:",
    "file_sd_configs: [{files: ['a.yml', 'b*.json']}]",
    "file_sd_configs: [{files: ['a.txt']}]",
    "file_sd_configs: [{files: ['*/a.yml']}]",
    "file_sd_configs: [{}]",
    "http_sd_configs: [{url: 'http://a/b', refresh_interval: 5s}]",
    "http_sd_configs: [{url: 'ftp://a/b'}]",
    "http_sd_configs: [{}]",
    "dns_sd_configs: [{names: [a.b]}]",
    "dns_sd_configs: [{names: [a.b], type: a, port: 1}]",
    "dns_sd_configs: [{names: [a.b], type: A}]",
    "dns_sd_configs: [{names: [a.b], type: TXT}]",
    "dns_sd_configs: [{names: []}]",
    "relabel_configs: [{source_labels: [a], target_label: b}]",
    "relabel_configs: [{source_labels: [a], regex: '(', target_label: b}]",
    "relabel_configs: [{source_labels: [a], regex: '(?P<n>a)|b{2}', target_label: b}]",
    "relabel_configs: [{source_labels: [a], regex: '(?!a)', target_label: b}]",
    "relabel_configs: [{source_labels: [a], regex: , target_label: b}]",
    "relabel_configs: [{regex: 5, action: DROP}]",
    "relabel_configs: [{action: keep}]",
    "relabel_configs: [{action: nonsense}]",
    "relabel_configs: [{}]",
    "relabel_configs: []",
    "relabel_configs: [~]",
    "relabel_configs: [{action: lowercase, target_label: a}]",
    "relabel_configs: [{action: uppercase}]",
    "relabel_configs: [{action: uppercase, target_label: a, replacement: x}]",
    "relabel_configs: [{action: hashmod, target_label: a, modulus: 5}]",
    "relabel_configs: [{action: hashmod, target_label: a}]",
    "relabel_configs: [{action: labelmap, regex: 'a(.*)'}]",
    "relabel_configs: [{action: labelmap, replacement: ''}]",
    "relabel_configs: [{action: labeldrop, regex: a}]",
    "relabel_configs: [{action: labeldrop, regex: a, source_labels: [b]}]",
    "relabel_configs: [{action: keepequal, source_labels: [a], target_label: b}]",
    "relabel_configs: [{action: dropequal, source_labels: [a], target_label: b, separator: x}]",
    "relabel_configs: [{target_label: '${1}'}]",
    "metric_relabel_configs: [{action: labelkeep, regex: a, modulus: 1}]",
    "metric_relabel_configs: [{action: drop, nonsense: 1}]",
];

/// Whole files.
const FILES: [&str; 18] = [
    "",
    "global:",
    "global: {}",
    "global: {scrape_interval: 5s, scrape_timeout: 6s}",
    "global: {scrape_interval: 5s}",
    "global: {scrape_timeout: 2m}",
    "global: {external_labels: {a: b, c: 5}}",
    "global: {external_labels: {'': b}}",
    "global: {evaluation_interval: 1m, query_log_file: a}",
    "global: {nonsense: 1}",
    "global: []",
    "scrape_configs:",
    "scrape_configs: {}",
    "scrape_configs: [~]",
    "scrape_configs: [{job_name: ''}]",
    "scrape_configs: [{metrics_path: /x}]",
    "scrape_configs: [{job_name: a}, {job_name: a}]",
    "scrape_configs: [{job_name: a}, {job_name: b}]",
];

/// Each fragment alone, and pairs of fragments.
fn generated() -> Vec<String> {
    let mut files: Vec<String> = FILES.map(Into::into).into();
    let job = |keys: &str| format!("scrape_configs:\n- job_name: a\n  {keys}\n");
    files.extend(FRAGMENTS.map(job));
    for (index, one) in FRAGMENTS.iter().enumerate() {
        for step in [7, 31] {
            let other = FRAGMENTS[(index * step + step) % FRAGMENTS.len()];
            let key = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
            if key(one) != key(other) {
                files.push(job(&format!("{one}\n  {other}")));
            }
        }
    }
    files
}

#[test]
fn promtool_accepts_and_refuses_the_same() {
    if Command::new("promtool").arg("--version").output().is_err() {
        skipped_tests::skip(
            "configurations compared with promtool",
            "apt install prometheus",
        );
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let files = generated();
    let paths: Vec<_> = (0..files.len())
        .map(|index| directory.path().join(format!("{index}.yml")))
        .collect();
    for (path, text) in paths.iter().zip(&files) {
        std::fs::write(path, text).unwrap();
    }
    let output = Command::new("promtool")
        .args(["check", "config", "--syntax-only"])
        .args(&paths)
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let refused: BTreeSet<_> = complaints
        .lines()
        .filter(|line| line.contains("FAILED"))
        .collect();
    let mut differences = Vec::new();
    for (path, text) in paths.iter().zip(&files) {
        let name = path.display().to_string();
        let theirs = refused.iter().find(|line| line.contains(&name));
        let ours = ScrapeSettings::load(path).err();
        if theirs.is_some() != ours.is_some() {
            let ours = ours.map(|error| error.to_string());
            differences.push(format!(
                "{text}\n  promtool: {theirs:?}\n  icecore: {ours:?}\n"
            ));
        }
    }
    assert!(
        !refused.is_empty(),
        "promtool refused nothing:\n{complaints}"
    );
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
