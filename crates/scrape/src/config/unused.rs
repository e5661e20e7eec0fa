//! Sections of a Prometheus file that have no effect: rules, alerting, remote storage, tracing.
//!
//! Holds always: a section is checked as Prometheus checks it, so that a mistake is found here as
//! it would be found there; one with content is recorded as not supported, once, whatever it has.

use std::time::Duration;

use icecore_settings::Fields;
use reqwest::Url;

use super::{NameValidation, client, rules, targets};

/// Reads the sections, given the top level of the file.
pub(super) fn read(top: &mut Fields<'_>, names: NameValidation) {
    rule_files(top);
    alerting(top, names);
    remote_write(top, names);
    remote_read(top);
    tracing(top);
}

/// Records a section as not supported, in place of its parts.
fn record(top: &Fields<'_>, key: &str, before: usize, effect: &str, instead: &str) {
    top.source.take_unsupported(before);
    top.unsupported_at(top.key_position(key), key, effect, instead);
}

/// Returns `true` if a pattern for paths has `*` in its last part only.
pub(super) fn star_is_last(pattern: &str) -> bool {
    let rest = pattern.find('*').and_then(|at| pattern.get(at..));
    rest.is_none_or(|rest| !rest.contains('/'))
}

fn rule_files(top: &mut Fields<'_>) {
    const KEY: &str = "rule_files";
    let before = top.source.unsupported_count();
    let patterns = top.texts(KEY);
    for pattern in patterns.iter().filter(|pattern| !star_is_last(pattern)) {
        let reason = format!("{pattern:?} may have * in its last part only");
        top.report(KEY, reason);
    }
    if !patterns.is_empty() {
        let instead = "use a program that evaluates rules: it can query this server as a \
                       Prometheus, and write the results by remote write";
        record(top, KEY, before, "no rules are evaluated", instead);
    }
}

fn alerting(top: &mut Fields<'_>, names: NameValidation) {
    const KEY: &str = "alerting";
    let before = top.source.unsupported_count();
    let Some(mut fields) = top.map(KEY) else {
        return;
    };
    rules::read_all(&mut fields, "alert_relabel_configs", names);
    let managers = fields.maps("alertmanagers");
    let has_content = !managers.is_empty() || fields.has("alert_relabel_configs");
    for manager in managers {
        alertmanager(manager, names);
    }
    fields.finish();
    if has_content {
        let instead = "use a program that evaluates alerting rules by queries to this server";
        record(top, KEY, before, "no alerts are sent", instead);
    }
}

fn alertmanager(mut fields: Fields<'_>, names: NameValidation) {
    const KEY: &str = "sigv4";
    client::read(&mut fields);
    if let Some(signature) = fields.map(KEY) {
        sigv4(signature);
        if has_http_credentials(&fields) {
            let reason = "at most one of basic_auth, authorization, oauth2 and sigv4 may be given";
            fields.report(KEY, reason);
        }
    }
    for key in ["scheme", "path_prefix"] {
        fields.text(key);
    }
    fields.duration("timeout");
    fields.parsed("api_version", |version| match version {
        "v2" => Ok(()),
        _ => Err("v2".into()),
    });
    rules::read_all(&mut fields, "relabel_configs", names);
    rules::read_all(&mut fields, "alert_relabel_configs", names);
    let is_relabelled = !fields.list("relabel_configs").is_empty();
    targets::read(&mut fields, names, is_relabelled);
    fields.finish();
}

fn has_http_credentials(fields: &Fields<'_>) -> bool {
    let keys = [
        "basic_auth",
        "authorization",
        "oauth2",
        "bearer_token",
        "bearer_token_file",
    ];
    keys.into_iter().any(|key| fields.has(key))
}

fn sigv4(mut fields: Fields<'_>) {
    let is_given = |text: Option<String>| text.is_some_and(|text| !text.is_empty());
    for key in ["region", "profile", "service_name"] {
        fields.text(key);
    }
    fields.boolean("use_fips_sts_endpoint");
    let has_key = is_given(fields.text("access_key"));
    let has_secret = is_given(fields.secret_text("secret_key"));
    if has_key != has_secret {
        fields.report("access_key", "access_key and secret_key need each other");
    }
    let has_role = is_given(fields.text("role_arn"));
    let has_external_id = is_given(fields.text("external_id"));
    let session = fields.text("session_name").unwrap_or_default();
    let has_tags = !fields.text_map("tags").is_empty();
    for (key, is_given) in [
        ("external_id", has_external_id),
        ("session_name", !session.is_empty()),
        ("tags", has_tags),
    ] {
        if is_given && !has_role {
            fields.report(key, "needs role_arn");
        }
    }
    let is_session_char = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    if !session.is_empty()
        && (!(2..=64).contains(&session.len()) || !session.chars().all(is_session_char))
    {
        let reason = "expected 2 to 64 letters, digits and + = , . @ -";
        fields.report("session_name", reason);
    }
    fields.finish();
}

fn remote_write(top: &mut Fields<'_>, names: NameValidation) {
    const KEY: &str = "remote_write";
    let before = top.source.unsupported_count();
    let targets = top.maps(KEY);
    if targets.is_empty() {
        return;
    }
    let mut seen = Vec::new();
    for target in targets {
        write_target(target, names, &mut seen);
    }
    let instead = "use a collector that sends to both, or let others read from here by remote read";
    record(top, KEY, before, "nothing is sent elsewhere", instead);
}

fn write_target(mut fields: Fields<'_>, names: NameValidation, seen: &mut Vec<String>) {
    client::read(&mut fields);
    url(&mut fields);
    unique_name(&mut fields, seen);
    fields.duration("remote_timeout");
    headers(&mut fields);
    rules::read_all(&mut fields, "write_relabel_configs", names);
    for key in [
        "send_exemplars",
        "send_native_histograms",
        "round_robin_dns",
        "failed_request_logging",
    ] {
        fields.boolean(key);
    }
    fields.parsed("protobuf_message", |message| match message {
        "prometheus.WriteRequest" | "io.prometheus.write.v2.Request" => Ok(()),
        _ => Err("prometheus.WriteRequest or io.prometheus.write.v2.Request".into()),
    });
    if let Some(queue) = fields.map("queue_config") {
        queue_config(queue);
    }
    if let Some(mut metadata) = fields.map("metadata_config") {
        metadata.boolean("send");
        metadata.duration("send_interval");
        metadata.number("max_samples_per_send");
        metadata.finish();
    }
    let mut ways = usize::from(has_http_credentials(&fields));
    for key in ["sigv4", "azuread", "google_iam"] {
        let Some(mut way) = fields.map(key) else {
            continue;
        };
        ways += 1;
        match key {
            "sigv4" => sigv4(way),
            "azuread" => azuread(way),
            _ => {
                way.text("credentials_file");
                way.finish();
            }
        }
        if ways > 1 {
            let reason = "at most one of basic_auth, authorization, oauth2, sigv4, azuread and \
                          google_iam may be given";
            fields.report(key, reason);
        }
    }
    fields.finish();
}

fn url(fields: &mut Fields<'_>) {
    const KEY: &str = "url";
    match fields.text(KEY) {
        Some(text) if !is_reference(&text) => fields.report(KEY, "expected a URL"),
        Some(_) => {}
        None => fields.report(KEY, "is missing"),
    }
}

/// Returns `true` for URLs and for paths without a scheme: Prometheus accepts both.
fn is_reference(text: &str) -> bool {
    let base = Url::parse("http://base/").ok();
    let is_path = || !text.contains(':') && base.is_some_and(|base| base.join(text).is_ok());
    Url::parse(text).is_ok() || is_path()
}

fn unique_name(fields: &mut Fields<'_>, seen: &mut Vec<String>) {
    const KEY: &str = "name";
    let name = fields.text(KEY).filter(|name| !name.is_empty());
    let Some(name) = name else {
        return;
    };
    if seen.contains(&name) {
        fields.report(KEY, format!("{name:?} is given twice"));
    }
    seen.push(name);
}

/// Headers of requests, which may not be those that have another meaning.
fn headers(fields: &mut Fields<'_>) {
    const KEY: &str = "headers";
    for (name, _) in fields.text_map(KEY) {
        if client::is_reserved(&name) {
            fields.report(KEY, format!("{name:?} must not be set here"));
        }
    }
}

fn queue_config(mut fields: Fields<'_>) {
    let mut positive = |key: &'static str, default: u64| {
        let number = fields.number(key).unwrap_or(default);
        if number == 0 {
            fields.report(key, "must not be 0");
        }
        number
    };
    positive("capacity", 10_000);
    positive("max_samples_per_send", 2000);
    let most = positive("max_shards", 50);
    let least = positive("min_shards", 1);
    if least > most {
        fields.report("min_shards", "must not be above max_shards");
    }
    let first = fields.duration("min_backoff");
    let last = fields.duration("max_backoff");
    if last.unwrap_or(Duration::from_secs(5)) < first.unwrap_or(Duration::from_millis(30)) {
        fields.report("max_backoff", "must not be below min_backoff");
    }
    fields.duration("batch_send_deadline");
    fields.duration("sample_age_limit");
    fields.boolean("retry_on_http_429");
    fields.finish();
}

/// The ways to authenticate at Azure, with the keys that each needs.
const AZURE_WAYS: [(&str, &[&str]); 5] = [
    ("managed_identity", &[]),
    ("workload_identity", &["client_id", "tenant_id"]),
    ("oauth", &["client_id", "client_secret", "tenant_id"]),
    ("sdk", &[]),
    (
        "certificate",
        &["client_id", "tenant_id", "certificate_path"],
    ),
];

fn azuread(mut fields: Fields<'_>) {
    fields.parsed("cloud", |cloud| match cloud {
        "" | "AzureChina" | "AzureGovernment" | "AzurePublic" => Ok(()),
        _ => Err("AzurePublic, AzureGovernment or AzureChina".into()),
    });
    let scope = fields.text("scope").unwrap_or_default();
    let is_scope_char = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_:/.-".contains(c);
    if !scope.chars().all(is_scope_char) {
        fields.report("scope", "has characters that no scope has");
    }
    let mut ways = 0_usize;
    for (key, needed) in AZURE_WAYS {
        if let Some(identity) = fields.map(key) {
            azure_identity(identity, needed);
            ways += 1;
        }
    }
    if ways != 1 {
        let reason = "expected one of managed_identity, workload_identity, oauth, sdk, certificate";
        fields.source.report(fields.at, &fields.path, reason);
    }
    fields.finish();
}

/// One way to authenticate at Azure. Keys of other ways are accepted.
fn azure_identity(mut fields: Fields<'_>, needed: &[&str]) {
    fields.secret_text("client_secret");
    fields.secret_text("certificate_password");
    fields.boolean("send_certificate_chain");
    let client = fields.text("client_id").unwrap_or_default();
    if !client.is_empty() && !is_uuid(&client) {
        fields.report("client_id", "expected a UUID");
    }
    for key in [
        "tenant_id",
        "token_file_path",
        "certificate_path",
        "certificate_key_path",
    ] {
        fields.text(key);
    }
    for key in needed.iter().filter(|key| !fields.has(key)) {
        fields.report(key, "is missing");
    }
    fields.finish();
}

fn is_uuid(text: &str) -> bool {
    let text = text.strip_prefix("urn:uuid:").unwrap_or(text);
    let digits: Vec<char> = text.chars().filter(|c| !"{}-".contains(*c)).collect();
    digits.len() == 32 && digits.iter().all(char::is_ascii_hexdigit)
}

fn remote_read(top: &mut Fields<'_>) {
    const KEY: &str = "remote_read";
    let before = top.source.unsupported_count();
    let sources = top.maps(KEY);
    if sources.is_empty() {
        return;
    }
    let mut seen = Vec::new();
    for mut fields in sources {
        client::read(&mut fields);
        url(&mut fields);
        unique_name(&mut fields, &mut seen);
        fields.duration("remote_timeout");
        fields.number("chunked_read_limit");
        headers(&mut fields);
        fields.boolean("read_recent");
        fields.boolean("filter_external_labels");
        fields.text_map("required_matchers");
        fields.finish();
    }
    let instead = "use icecore import to copy what is stored there";
    record(top, KEY, before, "nothing is read from elsewhere", instead);
}

fn tracing(top: &mut Fields<'_>) {
    const KEY: &str = "tracing";
    let before = top.source.unsupported_count();
    let Some(mut fields) = top.map(KEY) else {
        return;
    };
    fields.parsed("client_type", |kind| match kind {
        "http" | "grpc" => Ok(()),
        _ => Err("http or grpc".into()),
    });
    if fields.text("endpoint").is_none_or(|text| text.is_empty()) {
        fields.report("endpoint", "is missing");
    }
    fields.factor("sampling_fraction");
    fields.boolean("insecure");
    if let Some(config) = fields.map("tls_config") {
        client::tls(config);
    }
    headers(&mut fields);
    fields.parsed("compression", |method| match method {
        "" | "gzip" => Ok(()),
        _ => Err("gzip".into()),
    });
    fields.duration("timeout");
    fields.finish();
    let instead = "use the metrics of requests in /metrics";
    record(top, KEY, before, "no traces are sent", instead);
}
