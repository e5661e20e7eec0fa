//! The settings as a Prometheus file again, for `/api/v1/status/config`.
//!
//! Holds always: no secret is in it; without secrets, reading it gives the same settings; what is
//! zero, empty or false by default is left out, as Prometheus does it.

use std::path::{Path, PathBuf};

use super::client::{CLIENT_KEYS, PROXY_KEYS, TLS_KEYS};
use super::job::{
    BUCKET_KEYS, DROPPED_KEYS, EVALUATION_KEYS, EXTRA_KEYS, FALLBACK_KEYS, Global, HISTOGRAM_KEYS,
    LIMIT_KEYS, LOG_KEYS, REQUEST_KEYS, TIMESTAMP_KEYS,
};
use super::rules::DEFAULT_PATTERN;
use super::shown::{ADDRESS, shown_label, shown_value};
use super::{
    Credentials, Discovery, DnsRecord, HeaderConfig, HttpClientConfig, NameEscaping,
    NameValidation, ProxyConfig, RelabelAction, RelabelRule, ScrapeConfig, ScrapeProtocol, Secret,
    TargetGroup, TlsClientConfig, TlsVersion,
};
use icecore_settings::keys::{KeyKind as _, Limit, render_keys};
use icecore_settings::{Choice as _, Map, SECRET_PLACEHOLDER, Tree, without_secrets};

/// `jobs` are those of the file itself, without those of `files`.
pub(super) fn file(global: &Global, jobs: &[ScrapeConfig], files: &[PathBuf]) -> String {
    let mut top = Map::default();
    top.put("global", Tree::Map(global_map(global)));
    top.list(
        "scrape_config_files",
        files.iter().map(|path| path_text(path)),
    );
    top.maps("scrape_configs", jobs.iter().map(job_map));
    top.into_text()
}

/// One job as a file of its own, for `/api/v1/scrape_pools/config`.
pub(crate) fn job_text(job: &ScrapeConfig) -> String {
    job_map(job).into_text()
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn pairs(pairs: &[(String, String)]) -> Map {
    let mut map = Map::default();
    for (key, value) in pairs {
        map.text(key, shown_label(key, value));
    }
    map
}

fn protocols(map: &mut Map, protocols: &[ScrapeProtocol]) {
    let words = protocols
        .iter()
        .map(|one| ScrapeProtocol::word(*one).into());
    map.list("scrape_protocols", words);
}

fn global_map(global: &Global) -> Map {
    let mut map = Map::default();
    let job = &global.job;
    map.duration("scrape_interval", &job.scrape_interval);
    map.duration("scrape_timeout", &job.scrape_timeout);
    protocols(&mut map, global.protocols.as_deref().unwrap_or_default());
    render_keys(&EVALUATION_KEYS, global, &mut map);
    if !global.rule_query_offset.is_zero() {
        map.duration("rule_query_offset", &global.rule_query_offset);
    }
    render_keys(&LOG_KEYS, global, &mut map);
    map.map("external_labels", pairs(&global.external_labels));
    render_keys(&LIMIT_KEYS, job, &mut map);
    render_keys(&DROPPED_KEYS, job, &mut map);
    let validation = NameValidation::word(job.metric_name_validation);
    map.text("metric_name_validation_scheme", validation);
    let escaping = global.escaping.map(NameEscaping::word);
    map.text_if("metric_name_escaping_scheme", escaping);
    render_keys(&HISTOGRAM_KEYS, job, &mut map);
    render_keys(&EXTRA_KEYS, job, &mut map);
    map
}

fn job_map(job: &ScrapeConfig) -> Map {
    let mut map = Map::default();
    map.text("job_name", &job.job_name);
    render_keys(&TIMESTAMP_KEYS, job, &mut map);
    let mut params = Map::default();
    for (name, values) in &job.params {
        let shown = values.iter().map(|value| shown_value(name, value));
        let values = shown.map(|value| Tree::Text(value.into())).collect();
        params.put(name, Tree::List(values));
    }
    map.map("params", params);
    map.duration("scrape_interval", &job.scrape_interval);
    map.duration("scrape_timeout", &job.scrape_timeout);
    protocols(&mut map, &job.protocols);
    render_keys(&FALLBACK_KEYS, job, &mut map);
    render_keys(&HISTOGRAM_KEYS, job, &mut map);
    render_keys(&REQUEST_KEYS, job, &mut map);
    render_keys(&LIMIT_KEYS, job, &mut map);
    render_keys(&BUCKET_KEYS, job, &mut map);
    render_keys(&DROPPED_KEYS, job, &mut map);
    let validation = NameValidation::word(job.metric_name_validation);
    map.text("metric_name_validation_scheme", validation);
    let escaping = NameEscaping::word(job.metric_name_escaping);
    map.text("metric_name_escaping_scheme", escaping);
    render_keys(&EXTRA_KEYS, job, &mut map);
    client(&mut map, &job.http);
    map.maps("relabel_configs", job.relabel.iter().map(rule_map));
    map.maps(
        "metric_relabel_configs",
        job.metric_relabel.iter().map(rule_map),
    );
    discoveries(&mut map, &job.discovery);
    map
}

fn client(map: &mut Map, http: &HttpClientConfig) {
    match &http.credentials {
        Some(Credentials::Basic { username, password }) => {
            let mut basic = Map::default();
            // Only the password is a secret.
            match username {
                Secret::Inline(name) => basic.text("username", name),
                Secret::File(path) => basic.text("username_file", path_text(path)),
            }
            secret(&mut basic, "password", "password_file", password);
            map.map("basic_auth", basic);
        }
        Some(Credentials::Header { kind, credentials }) => {
            let mut authorization = Map::default();
            authorization.text("type", kind);
            secret(
                &mut authorization,
                "credentials",
                "credentials_file",
                credentials,
            );
            map.map("authorization", authorization);
        }
        None => {}
    }
    map.map("tls_config", tls_map(&http.tls));
    render_keys(&CLIENT_KEYS, http, map);
    proxy(map, &http.proxy);
    let mut headers = Map::default();
    for header in &http.headers {
        headers.put(&header.name, Tree::Map(header_map(header)));
    }
    map.map("http_headers", headers);
}

fn secret(map: &mut Map, key: &str, file_key: &str, secret: &Secret) {
    match secret {
        Secret::Inline(text) if text.is_empty() => {}
        Secret::Inline(_) => map.text(key, SECRET_PLACEHOLDER),
        Secret::File(path) => map.text(file_key, path_text(path)),
    }
}

fn tls_map(tls: &TlsClientConfig) -> Map {
    let mut map = Map::default();
    let certificates = [("ca", "ca_file", &tls.ca), ("cert", "cert_file", &tls.cert)];
    for (key, file_key, given) in certificates {
        match given {
            // A certificate is public.
            Some(Secret::Inline(text)) => map.text(key, text),
            Some(Secret::File(path)) => map.text(file_key, path_text(path)),
            None => {}
        }
    }
    if let Some(key) = &tls.key {
        secret(&mut map, "key", "key_file", key);
    }
    render_keys(&TLS_KEYS, tls, &mut map);
    map.text_if("min_version", tls.min_version.map(TlsVersion::word));
    map.text_if("max_version", tls.max_version.map(TlsVersion::word));
    map
}

fn proxy(map: &mut Map, proxy: &ProxyConfig) {
    map.text_if("proxy_url", proxy.url.as_deref().map(without_secrets));
    render_keys(&PROXY_KEYS, proxy, map);
    let mut headers = Map::default();
    for (name, values) in &proxy.connect_headers {
        headers.list(name, values.iter().map(|_| SECRET_PLACEHOLDER.into()));
    }
    map.map("proxy_connect_header", headers);
}

fn header_map(header: &HeaderConfig) -> Map {
    let mut map = Map::default();
    let values = header.values.iter();
    map.list(
        "values",
        values.map(|value| shown_value(&header.name, value).into()),
    );
    let (mut given, mut files) = (Vec::new(), Vec::new());
    for secret in &header.secrets {
        match secret {
            Secret::Inline(_) => given.push(SECRET_PLACEHOLDER.into()),
            Secret::File(path) => files.push(path_text(path)),
        }
    }
    map.list("secrets", given.into_iter());
    map.list("files", files.into_iter());
    map
}

fn rule_map(rule: &RelabelRule) -> Map {
    let mut map = Map::default();
    map.list("source_labels", rule.source_labels.iter().cloned());
    map.text("separator", &rule.separator);
    if rule.regex.pattern() != DEFAULT_PATTERN {
        map.text("regex", rule.regex.pattern());
    }
    Limit::render(&mut map, "modulus", &rule.modulus);
    if !rule.target_label.is_empty() {
        map.text("target_label", &rule.target_label);
    }
    map.text(
        "replacement",
        shown_label(&rule.target_label, &rule.replacement),
    );
    map.text("action", RelabelAction::word(rule.action));
    map
}

fn discoveries(map: &mut Map, discoveries: &[Discovery]) {
    let mut statics = Vec::new();
    let mut files = Vec::new();
    let mut https = Vec::new();
    let mut dns = Vec::new();
    for discovery in discoveries {
        let mut one = Map::default();
        match discovery {
            Discovery::Static(groups) => statics.extend(groups.iter().map(group_map)),
            Discovery::File {
                files: patterns,
                refresh_interval,
            } => {
                one.list("files", patterns.iter().map(|path| path_text(path)));
                one.duration("refresh_interval", refresh_interval);
                files.push(one);
            }
            Discovery::Http {
                url,
                refresh_interval,
                client: http,
            } => {
                client(&mut one, http);
                one.duration("refresh_interval", refresh_interval);
                one.text("url", without_secrets(url));
                https.push(one);
            }
            Discovery::Dns {
                names,
                record,
                port,
                refresh_interval,
            } => {
                one.list("names", names.iter().cloned());
                one.duration("refresh_interval", refresh_interval);
                one.text("type", DnsRecord::word(*record));
                one.text_if("port", port.map(|port| port.to_string()));
                dns.push(one);
            }
        }
    }
    map.maps("static_configs", statics.into_iter());
    map.maps("file_sd_configs", files.into_iter());
    map.maps("http_sd_configs", https.into_iter());
    map.maps("dns_sd_configs", dns.into_iter());
}

fn group_map(group: &TargetGroup) -> Map {
    let mut map = Map::default();
    let targets = group.targets.iter();
    let shown = targets.map(|target| Tree::Text(shown_label(ADDRESS, target).into()));
    map.put("targets", Tree::List(shown.collect()));
    map.map("labels", pairs(&group.labels));
    map
}
