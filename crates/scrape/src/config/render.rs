//! The settings as a Prometheus file again, for `/api/v1/status/config`.
//!
//! Holds always: no secret is in it; without secrets, reading it gives the same settings; what is zero, empty
//! or false by default is left out, as Prometheus does it.

use std::path::{Path, PathBuf};

use super::job::{ESCAPINGS, Global, PROTOCOLS};
use super::rules::{DEFAULT_PATTERN, word_of};
use super::{
    Credentials, Discovery, DnsRecord, HeaderConfig, HttpClientConfig, NameEscaping,
    NameValidation, ProxyConfig, RelabelRule, Scheme, ScrapeConfig, ScrapeProtocol, Secret,
    TargetGroup, TlsClientConfig, TlsVersion,
};
use icecore_settings::{Map, SECRET_SHOWN, Tree, show_binary_size, without_password};

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

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn pairs(pairs: &[(String, String)]) -> Map {
    let mut map = Map::default();
    for (key, value) in pairs {
        map.text(key, value);
    }
    map
}

fn protocol_word(protocol: ScrapeProtocol) -> String {
    let known = PROTOCOLS.iter().find(|(_, other)| *other == protocol);
    known.map_or("", |(word, _)| word).into()
}

fn validation_word(names: NameValidation) -> &'static str {
    match names {
        NameValidation::Utf8 => "utf8",
        NameValidation::Legacy => "legacy",
    }
}

fn escaping_word(escaping: NameEscaping) -> &'static str {
    let known = ESCAPINGS.iter().find(|(_, other)| *other == escaping);
    known.map_or("", |(word, _)| word)
}

fn global_map(global: &Global) -> Map {
    let mut map = Map::default();
    map.duration("scrape_interval", &global.scrape_interval);
    map.duration("scrape_timeout", &global.scrape_timeout);
    let protocols = global.protocols.iter().flatten();
    map.list("scrape_protocols", protocols.map(|one| protocol_word(*one)));
    map.duration("evaluation_interval", &global.evaluation_interval);
    if !global.rule_query_offset.is_zero() {
        map.duration("rule_query_offset", &global.rule_query_offset);
    }
    let (query_log, failure_log) = (&global.query_log_file, &global.scrape_failure_log_file);
    map.text_if("query_log_file", query_log.as_deref().map(path_text));
    map.text_if(
        "scrape_failure_log_file",
        failure_log.as_deref().map(path_text),
    );
    map.map("external_labels", pairs(&global.external_labels));
    if global.limits.body_size > 0 {
        map.text("body_size_limit", show_binary_size(global.limits.body_size));
    }
    map.limit("sample_limit", global.limits.samples);
    map.limit("target_limit", global.limits.targets);
    map.limit("label_limit", global.limits.labels);
    map.limit("label_name_length_limit", global.limits.label_name_length);
    map.limit("label_value_length_limit", global.limits.label_value_length);
    map.limit("keep_dropped_targets", global.limits.dropped_targets);
    map.text(
        "metric_name_validation_scheme",
        validation_word(global.names),
    );
    map.text_if(
        "metric_name_escaping_scheme",
        global.escaping.map(escaping_word),
    );
    let histograms = global.histograms;
    map.boolean("scrape_native_histograms", histograms.native);
    map.boolean("always_scrape_classic_histograms", histograms.classic_too);
    map.boolean(
        "convert_classic_histograms_to_nhcb",
        histograms.classic_to_nhcb,
    );
    map.boolean("extra_scrape_metrics", global.extra_scrape_metrics);
    map
}

fn job_map(job: &ScrapeConfig) -> Map {
    let mut map = Map::default();
    map.text("job_name", &job.job_name);
    map.if_true("honor_labels", job.honor_labels);
    map.boolean("honor_timestamps", job.honor_timestamps);
    map.boolean("track_timestamps_staleness", job.track_timestamps_staleness);
    let mut params = Map::default();
    for (name, values) in &job.params {
        let values = values.iter().cloned().map(Tree::Text).collect();
        params.put(name, Tree::List(values));
    }
    map.map("params", params);
    map.duration("scrape_interval", &job.scrape_interval);
    map.duration("scrape_timeout", &job.scrape_timeout);
    let protocols = job.protocols.iter();
    map.list("scrape_protocols", protocols.map(|one| protocol_word(*one)));
    map.text_if(
        "fallback_scrape_protocol",
        job.fallback_protocol.map(protocol_word),
    );
    map.boolean("scrape_native_histograms", job.scrape_native_histograms);
    let classic_too = job.always_scrape_classic_histograms;
    map.boolean("always_scrape_classic_histograms", classic_too);
    let to_nhcb = job.convert_classic_histograms_to_nhcb;
    map.boolean("convert_classic_histograms_to_nhcb", to_nhcb);
    map.text("metrics_path", &job.metrics_path);
    map.text("scheme", scheme_word(job.scheme));
    map.boolean("enable_compression", job.enable_compression);
    if job.body_size_limit > 0 {
        map.text("body_size_limit", show_binary_size(job.body_size_limit));
    }
    map.limit("sample_limit", job.sample_limit);
    map.limit("target_limit", job.target_limit);
    map.limit("label_limit", job.label_limit);
    map.limit("label_name_length_limit", job.label_name_length_limit);
    map.limit("label_value_length_limit", job.label_value_length_limit);
    let bucket_limit = job.native_histogram_bucket_limit;
    map.limit("native_histogram_bucket_limit", bucket_limit);
    let factor = job.native_histogram_min_bucket_factor;
    map.text_if(
        "native_histogram_min_bucket_factor",
        (factor != 0.0).then(|| factor.to_string()),
    );
    map.limit("keep_dropped_targets", job.keep_dropped_targets);
    let names = validation_word(job.metric_name_validation);
    map.text("metric_name_validation_scheme", names);
    let escaping = escaping_word(job.metric_name_escaping);
    map.text("metric_name_escaping_scheme", escaping);
    map.boolean("extra_scrape_metrics", job.extra_scrape_metrics);
    client(&mut map, &job.http);
    map.maps("relabel_configs", job.relabel.iter().map(rule_map));
    map.maps(
        "metric_relabel_configs",
        job.metric_relabel.iter().map(rule_map),
    );
    discoveries(&mut map, &job.discovery);
    map
}

fn scheme_word(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    }
}

fn client(map: &mut Map, http: &HttpClientConfig) {
    match &http.credentials {
        Some(Credentials::Basic { username, password }) => {
            let mut basic = Map::default();
            // Only the password is a secret.
            match username {
                Secret::Given(name) => basic.text("username", name),
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
    map.boolean("follow_redirects", http.follow_redirects);
    map.boolean("enable_http2", http.enable_http2);
    proxy(map, &http.proxy);
    let mut headers = Map::default();
    for header in &http.headers {
        headers.put(&header.name, Tree::Map(header_map(header)));
    }
    map.map("http_headers", headers);
}

fn secret(map: &mut Map, key: &str, file_key: &str, secret: &Secret) {
    match secret {
        Secret::Given(text) if text.is_empty() => {}
        Secret::Given(_) => map.text(key, SECRET_SHOWN),
        Secret::File(path) => map.text(file_key, path_text(path)),
    }
}

fn tls_map(tls: &TlsClientConfig) -> Map {
    let mut map = Map::default();
    let certificates = [("ca", "ca_file", &tls.ca), ("cert", "cert_file", &tls.cert)];
    for (key, file_key, given) in certificates {
        match given {
            // A certificate is public.
            Some(Secret::Given(text)) => map.text(key, text),
            Some(Secret::File(path)) => map.text(file_key, path_text(path)),
            None => {}
        }
    }
    if let Some(key) = &tls.key {
        secret(&mut map, "key", "key_file", key);
    }
    map.text_if("server_name", tls.server_name.as_deref());
    map.if_true("insecure_skip_verify", tls.insecure_skip_verify);
    map.text_if("min_version", tls.min_version.map(version_word));
    map.text_if("max_version", tls.max_version.map(version_word));
    map
}

fn version_word(version: TlsVersion) -> &'static str {
    match version {
        TlsVersion::Tls12 => "TLS12",
        TlsVersion::Tls13 => "TLS13",
    }
}

fn proxy(map: &mut Map, proxy: &ProxyConfig) {
    map.text_if("proxy_url", proxy.url.as_deref().map(without_password));
    map.text_if("no_proxy", proxy.no_proxy.as_deref());
    map.if_true("proxy_from_environment", proxy.from_environment);
    let mut headers = Map::default();
    for (name, values) in &proxy.connect_headers {
        headers.list(name, values.iter().map(|_| SECRET_SHOWN.into()));
    }
    map.map("proxy_connect_header", headers);
}

fn header_map(header: &HeaderConfig) -> Map {
    let mut map = Map::default();
    map.list("values", header.values.iter().cloned());
    let (mut given, mut files) = (Vec::new(), Vec::new());
    for secret in &header.secrets {
        match secret {
            Secret::Given(_) => given.push(SECRET_SHOWN.into()),
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
    map.limit("modulus", rule.modulus);
    if !rule.target_label.is_empty() {
        map.text("target_label", &rule.target_label);
    }
    map.text("replacement", &rule.replacement);
    map.text("action", word_of(rule.action));
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
                one.text("url", without_password(url));
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
                one.text("type", record_word(*record));
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
    let targets = group.targets.iter().cloned().map(Tree::Text).collect();
    map.put("targets", Tree::List(targets));
    map.map("labels", pairs(&group.labels));
    map
}

fn record_word(record: DnsRecord) -> &'static str {
    match record {
        DnsRecord::A => "A",
        DnsRecord::Aaaa => "AAAA",
        DnsRecord::Srv => "SRV",
        DnsRecord::Mx => "MX",
        DnsRecord::Ns => "NS",
    }
}
