//! Where targets come from, as it is written: the `*_sd_configs` of a job and files of target
//! groups.

use std::path::Path;
use std::time::Duration;

use super::shown::{NO_PLACEHOLDER, refuse_placeholder};
use super::{Discovery, DnsRecord, NameValidation, TargetGroup, client, shown_address};
use icecore_settings::{Choice as _, Fields, SECRET_PLACEHOLDER, SourceFile, Value};

const FILE_REFRESH: Duration = Duration::from_secs(300);
const HTTP_REFRESH: Duration = Duration::from_secs(60);
const DNS_REFRESH: Duration = Duration::from_secs(30);

/// Discoveries of Prometheus that are not built, with what to use instead.
const UNSUPPORTED: [(&str, &str); 33] = [
    ("aws_sd_configs", OTHER_SOURCES),
    ("azure_sd_configs", OTHER_SOURCES),
    ("consul_sd_configs", CONSUL),
    ("digitalocean_sd_configs", OTHER_SOURCES),
    ("docker_sd_configs", CONTAINERS),
    ("dockerswarm_sd_configs", CONTAINERS),
    ("ec2_sd_configs", OTHER_SOURCES),
    ("ecs_sd_configs", OTHER_SOURCES),
    ("elasticache_sd_configs", OTHER_SOURCES),
    ("eureka_sd_configs", OTHER_SOURCES),
    ("gce_sd_configs", OTHER_SOURCES),
    ("hetzner_sd_configs", OTHER_SOURCES),
    ("ionos_sd_configs", OTHER_SOURCES),
    ("kubernetes_sd_configs", KUBERNETES),
    ("kuma_sd_configs", OTHER_SOURCES),
    ("lightsail_sd_configs", OTHER_SOURCES),
    ("linode_sd_configs", OTHER_SOURCES),
    ("marathon_sd_configs", OTHER_SOURCES),
    ("msk_sd_configs", OTHER_SOURCES),
    ("nerve_sd_configs", OTHER_SOURCES),
    ("nomad_sd_configs", OTHER_SOURCES),
    ("oci_sd_configs", OTHER_SOURCES),
    ("openstack_sd_configs", OTHER_SOURCES),
    ("outscale_sd_configs", OTHER_SOURCES),
    ("ovhcloud_sd_configs", OTHER_SOURCES),
    ("puppetdb_sd_configs", OTHER_SOURCES),
    ("rds_sd_configs", OTHER_SOURCES),
    ("scaleway_sd_configs", OTHER_SOURCES),
    ("serverset_sd_configs", OTHER_SOURCES),
    ("stackit_sd_configs", OTHER_SOURCES),
    ("triton_sd_configs", OTHER_SOURCES),
    ("uyuni_sd_configs", OTHER_SOURCES),
    ("vultr_sd_configs", OTHER_SOURCES),
];

const OTHER_SOURCES: &str =
    "use http_sd_configs, file_sd_configs, dns_sd_configs or static_configs";
const KUBERNETES: &str = "use http_sd_configs with the target allocator of OpenTelemetry, \
                          dns_sd_configs of headless services, or file_sd_configs";
const CONSUL: &str = "use dns_sd_configs with Consul's DNS (NAME.service.consul), http_sd_configs or file_sd_configs";
const CONTAINERS: &str =
    "use dns_sd_configs with Docker's DNS (tasks.SERVICE), http_sd_configs or file_sd_configs";

/// The targets of a job as they are written.
#[derive(Default)]
pub(super) struct JobTargets {
    pub(super) discoveries: Vec<Discovery>,
    /// Set where a discovery is left out because it is not supported.
    pub(super) left_out: bool,
}

/// Reads all discoveries of a job. `relabelled` is set where rules can still make an address of a
/// target. Unsupported ones are recorded; the effect of that is up to the caller.
pub(super) fn read(fields: &mut Fields<'_>, names: NameValidation, relabelled: bool) -> JobTargets {
    let mut found = JobTargets::default();
    let groups: Vec<_> = fields
        .maps("static_configs")
        .into_iter()
        .enumerate()
        .map(|(index, fields)| group(fields, index.to_string(), names, !relabelled))
        .collect();
    if !groups.is_empty() {
        found.discoveries.push(Discovery::Static(groups));
    }
    let files = fields.maps("file_sd_configs").into_iter().map(file);
    found.discoveries.extend(files);
    for one in fields.maps("http_sd_configs") {
        let source = one.source;
        let before = source.unsupported_count();
        let discovery = http(one);
        if source.unsupported_count() == before {
            found.discoveries.push(discovery);
        } else {
            found.left_out = true;
        }
    }
    let dns = fields.maps("dns_sd_configs").into_iter().map(dns);
    found.discoveries.extend(dns);
    for (key, instead) in UNSUPPORTED {
        let entries = fields.maps(key);
        found.left_out |= !entries.is_empty();
        if !entries.is_empty() {
            let at = fields.key_position(key);
            fields.unsupported_at(at, &fields.path_of(key), "", instead);
        }
        entries.into_iter().for_each(check_unsupported);
    }
    found
}

/// Checks the keys that discoveries have in common, as far as one that is not built has them. Its
/// other keys are unknown here.
fn check_unsupported(mut fields: Fields<'_>) {
    let source = fields.source;
    let before = source.unsupported_count();
    client::read(&mut fields);
    fields.duration("refresh_interval");
    fields.number("port");
    // It is left out as a whole.
    source.take_unsupported(before);
}

fn group(
    mut fields: Fields<'_>,
    source: String,
    names: NameValidation,
    check_addresses: bool,
) -> TargetGroup {
    let targets = fields.texts("targets");
    refuse_placeholder(&fields, "targets", &targets);
    if check_addresses && let Some(url) = targets.iter().find(|target| target.contains('/')) {
        let url = shown_address(url);
        let reason =
            format!("{url:?} is not HOST:PORT; scheme and metrics_path are keys of the job");
        fields.report("targets", reason);
    }
    let labels = fields.text_map("labels");
    for (name, _) in &labels {
        if !names.is_label_name(name) {
            fields.report("labels", format!("{name:?} is no label name"));
        }
    }
    refuse_placeholder(&fields, "labels", labels.iter().map(|(_, value)| value));
    fields.finish();
    TargetGroup {
        targets,
        labels,
        source,
    }
}

fn file(mut fields: Fields<'_>) -> Discovery {
    let files = fields.texts("files");
    if files.is_empty() {
        fields.report("files", "expected at least one path or pattern");
    }
    for file in &files {
        if !is_target_file(file) {
            let reason = format!(
                "{file:?} must end in .json, .yml or .yaml and may have * in its last part only"
            );
            fields.report("files", reason);
        }
    }
    let refresh = refresh(&mut fields, FILE_REFRESH);
    let files = files.iter().map(|file| fields.source.path(file)).collect();
    fields.finish();
    Discovery::File {
        files,
        refresh_interval: refresh,
    }
}

fn is_target_file(file: &str) -> bool {
    let endings = [".json", ".yml", ".yaml", ".JSON", ".YML", ".YAML"];
    let star_is_last = match file.find('*') {
        Some(at) => file.get(at..).is_some_and(|rest| !rest.contains('/')),
        None => true,
    };
    star_is_last && endings.iter().any(|ending| file.ends_with(ending))
}

fn http(mut fields: Fields<'_>) -> Discovery {
    let url = fields.text("url").unwrap_or_default();
    if url.is_empty() {
        fields.report("url", "expected the URL that lists the targets");
    } else if !client::is_url(&url, &["http", "https"]) {
        fields.report("url", "expected a URL that begins with http:// or https://");
    } else if url.contains(SECRET_PLACEHOLDER) {
        fields.report("url", NO_PLACEHOLDER);
    }
    let discovery = Discovery::Http {
        url,
        refresh_interval: refresh(&mut fields, HTTP_REFRESH),
        client: Box::new(client::read(&mut fields)),
    };
    fields.finish();
    discovery
}

fn dns(mut fields: Fields<'_>) -> Discovery {
    let names = fields.texts("names");
    if names.is_empty() {
        fields.report("names", "expected at least one name");
    }
    let record = fields.parsed("type", |text| {
        if text.is_empty() {
            return Ok(DnsRecord::Srv);
        }
        DnsRecord::parse_word(&text.to_ascii_uppercase())
    });
    let record_is_known = record.is_some() || !fields.has("type");
    let record = record.unwrap_or(DnsRecord::Srv);
    let port = fields.number("port").filter(|port| *port > 0);
    let small = port.and_then(|port| u16::try_from(port).ok());
    if port.is_some() && small.is_none() {
        fields.report("port", "expected at most 65535");
    }
    if record_is_known && record != DnsRecord::Srv && port.is_none() {
        fields.report("port", "needed for every type of record but SRV");
    }
    let discovery = Discovery::Dns {
        names,
        record,
        port: small,
        refresh_interval: refresh(&mut fields, DNS_REFRESH),
    };
    fields.finish();
    discovery
}

fn refresh(fields: &mut Fields<'_>, default: Duration) -> Duration {
    let given = fields.duration("refresh_interval");
    if given.is_some_and(|interval| interval.is_zero()) {
        fields.report("refresh_interval", "must not be 0");
    }
    given.unwrap_or(default)
}

/// The target groups of a YAML file (JSON is YAML, too), for discovery by files.
pub(crate) fn read_groups(text: &str, path: &Path) -> Result<Vec<TargetGroup>, String> {
    let source = SourceFile::new(path);
    let root = source.parse(text);
    let nodes = match root.as_ref().map(|root| &root.value) {
        Some(Value::List(nodes)) => nodes.as_slice(),
        Some(Value::Null) | None => &[],
        Some(_) => return Err("expected a list of target groups".into()),
    };
    let mut groups = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let fields = Fields::of(node, format!("[{index}]"), &source);
        let name = format!("{}:{index}", path.display());
        groups.push(group(fields, name, NameValidation::Utf8, false));
    }
    match source.into_problems().first() {
        Some(problem) => Err(problem.to_string()),
        None => Ok(groups),
    }
}
