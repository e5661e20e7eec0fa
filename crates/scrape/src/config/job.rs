//! `global` and one of `scrape_configs`, as they are written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::shown::{NO_PLACEHOLDER, refuse_placeholder};
use super::{
    HttpClientConfig, NameEscaping, NameValidation, Scheme, ScrapeConfig, ScrapeProtocol, client,
    rules, targets,
};
use icecore_settings::keys::{
    ByteLimit, Factor, Flag, FlagIfTrue, Interval, Key, KeyKind, Limit, OptionalPath, OptionalWord,
    Text, Word, read_keys,
};
use icecore_settings::yaml::Value;
use icecore_settings::{Choice as _, Fields, Map, SECRET_PLACEHOLDER, key, texts_of};

const TEXT_PROTOCOLS: [ScrapeProtocol; 4] = [
    ScrapeProtocol::OpenMetricsText1_0_0,
    ScrapeProtocol::OpenMetricsText0_0_1,
    ScrapeProtocol::PrometheusText1_0_0,
    ScrapeProtocol::PrometheusText0_0_4,
];

const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

const NO_QUERY_LOG: &str = "no such file is written";
const QUERY_METRICS: &str = "use the metrics of queries in /metrics";

const FAILURE_LOG: &str = "scrape_failure_log_file";
const NO_FAILURE_LOG: &str = "no such file is written";
const PROCESS_LOG: &str = "failures are in the log of the process and on the page Targets";

/// Keys of a job, and those of them that `global` has too. They are in groups because both are
/// rendered in Prometheus' order.
pub(super) const TIMESTAMP_KEYS: [Key<ScrapeConfig>; 3] = [
    key!("honor_labels", FlagIfTrue, honor_labels),
    key!("honor_timestamps", Flag, honor_timestamps),
    key!(
        "track_timestamps_staleness",
        Flag,
        track_timestamps_staleness
    ),
];

pub(super) const FALLBACK_KEYS: [Key<ScrapeConfig>; 1] = [key!(
    "fallback_scrape_protocol",
    OptionalWord<ScrapeProtocol>,
    fallback_protocol
)];

pub(super) const HISTOGRAM_KEYS: [Key<ScrapeConfig>; 3] = [
    key!("scrape_native_histograms", Flag, scrape_native_histograms),
    key!(
        "always_scrape_classic_histograms",
        Flag,
        always_scrape_classic_histograms
    ),
    key!(
        "convert_classic_histograms_to_nhcb",
        Flag,
        convert_classic_histograms_to_nhcb
    ),
];

pub(super) const REQUEST_KEYS: [Key<ScrapeConfig>; 3] = [
    key!("metrics_path", Text, metrics_path),
    key!("scheme", SchemeWord, scheme),
    key!("enable_compression", Flag, enable_compression),
];

pub(super) const LIMIT_KEYS: [Key<ScrapeConfig>; 6] = [
    key!("body_size_limit", ByteLimit, body_size_limit),
    key!("sample_limit", Limit, sample_limit),
    key!("target_limit", Limit, target_limit),
    key!("label_limit", Limit, label_limit),
    key!("label_name_length_limit", Limit, label_name_length_limit),
    key!("label_value_length_limit", Limit, label_value_length_limit),
];

pub(super) const BUCKET_KEYS: [Key<ScrapeConfig>; 2] = [
    key!(
        "native_histogram_bucket_limit",
        Limit,
        native_histogram_bucket_limit
    ),
    key!(
        "native_histogram_min_bucket_factor",
        Factor,
        native_histogram_min_bucket_factor
    ),
];

pub(super) const DROPPED_KEYS: [Key<ScrapeConfig>; 1] =
    [key!("keep_dropped_targets", Limit, keep_dropped_targets)];

pub(super) const EXTRA_KEYS: [Key<ScrapeConfig>; 1] =
    [key!("extra_scrape_metrics", Flag, extra_scrape_metrics)];

/// Keys of `global` that are about no job.
pub(super) const EVALUATION_KEYS: [Key<Global>; 1] =
    [key!("evaluation_interval", Interval, evaluation_interval)];

pub(super) const LOG_KEYS: [Key<Global>; 2] = [
    key!("query_log_file", OptionalPath, query_log_file),
    key!(
        "scrape_failure_log_file",
        OptionalPath,
        scrape_failure_log_file
    ),
];

/// The scheme of targets. Prometheus accepts any text and fails to scrape with others.
pub(super) struct SchemeWord;

impl KeyKind for SchemeWord {
    type Native = Scheme;

    fn read(fields: &mut Fields<'_>, key: &'static str) -> Option<Scheme> {
        let scheme = Scheme::parse_word(&fields.text(key)?).ok();
        if scheme.is_none() {
            fields.unsupported(key, "", "use http or https");
        }
        scheme
    }

    fn render(map: &mut Map, key: &str, value: &Scheme) {
        Word::<Scheme>::render(map, key, value);
    }
}

/// What `global` says, defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Global {
    /// A job that says nothing but its name, which is empty here.
    pub(super) job: ScrapeConfig,
    pub(super) evaluation_interval: Duration,
    pub(super) rule_query_offset: Duration,
    /// Without any, it depends on a job whether protobuf comes first.
    pub(super) protocols: Option<Vec<ScrapeProtocol>>,
    pub(super) query_log_file: Option<PathBuf>,
    pub(super) scrape_failure_log_file: Option<PathBuf>,
    pub(super) external_labels: Vec<(String, String)>,
    pub(super) escaping: Option<NameEscaping>,
}

impl Default for Global {
    fn default() -> Self {
        Self {
            job: ScrapeConfig {
                job_name: String::new(),
                scrape_interval: DEFAULT_INTERVAL,
                scrape_timeout: DEFAULT_TIMEOUT,
                protocols: TEXT_PROTOCOLS.into(),
                protocols_by_default: true,
                fallback_protocol: None,
                metrics_path: "/metrics".into(),
                scheme: Scheme::Http,
                params: BTreeMap::new(),
                honor_labels: false,
                honor_timestamps: true,
                track_timestamps_staleness: false,
                enable_compression: true,
                start_timestamps: false,
                scrape_native_histograms: false,
                always_scrape_classic_histograms: false,
                convert_classic_histograms_to_nhcb: false,
                native_histogram_bucket_limit: 0,
                native_histogram_min_bucket_factor: 0.0,
                metric_name_validation: NameValidation::Utf8,
                metric_name_escaping: NameEscaping::AllowUtf8,
                extra_scrape_metrics: false,
                body_size_limit: 0,
                sample_limit: 0,
                target_limit: 0,
                label_limit: 0,
                label_name_length_limit: 0,
                label_value_length_limit: 0,
                keep_dropped_targets: 0,
                http: HttpClientConfig::default(),
                discovery: Vec::new(),
                relabel: Vec::new(),
                metric_relabel: Vec::new(),
            },
            evaluation_interval: DEFAULT_INTERVAL,
            rule_query_offset: Duration::ZERO,
            protocols: None,
            query_log_file: None,
            scrape_failure_log_file: None,
            external_labels: Vec::new(),
            escaping: None,
        }
    }
}

impl Global {
    /// `variable` gives the environment, which external labels may refer to.
    pub(super) fn read(mut fields: Fields<'_>, variable: &dyn Fn(&str) -> String) -> Self {
        let mut global = Self::default();
        read_inherited(&mut fields, &mut global.job);
        let names = validation(&mut fields).unwrap_or(NameValidation::Utf8);
        global.escaping = escaping(&mut fields);
        global.job.metric_name_validation = names;
        global.job.metric_name_escaping = global.escaping.unwrap_or(default_escaping(names));
        read_keys(&EVALUATION_KEYS, &mut fields, &mut global);
        read_keys(&LOG_KEYS, &mut fields, &mut global);
        fields.unsupported("query_log_file", NO_QUERY_LOG, QUERY_METRICS);
        fields.unsupported(FAILURE_LOG, NO_FAILURE_LOG, PROCESS_LOG);
        global.rule_query_offset = fields.duration("rule_query_offset").unwrap_or_default();
        global.external_labels = external_labels(&mut fields, names, variable);
        global.protocols = protocols(&mut fields);
        global.job.protocols_by_default = global.protocols.is_none();
        global.job.protocols = global.protocols_of(global.job.scrape_native_histograms);
        fields.finish();
        global
    }

    /// A job that says nothing but its name.
    pub(super) fn job(&self, job_name: &str) -> ScrapeConfig {
        ScrapeConfig {
            job_name: job_name.into(),
            ..self.job.clone()
        }
    }

    /// Gives back what is asked for where a job does not say it.
    pub(super) fn take_start_timestamps(&mut self) -> Vec<ScrapeProtocol> {
        let first = self.protocols_of(true);
        self.protocols = Some(first.clone());
        self.job.start_timestamps = true;
        self.job.protocols.clone_from(&first);
        self.job.protocols_by_default = false;
        first
    }

    fn protocols_of(&self, native_histograms: bool) -> Vec<ScrapeProtocol> {
        match &self.protocols {
            Some(protocols) => protocols.clone(),
            None => {
                let first = native_histograms.then_some(ScrapeProtocol::PrometheusProto);
                first.into_iter().chain(TEXT_PROTOCOLS).collect()
            }
        }
    }
}

/// What `global` and a job read alike.
fn read_inherited(fields: &mut Fields<'_>, job: &mut ScrapeConfig) {
    interval_and_timeout(fields, job);
    read_keys(&HISTOGRAM_KEYS, fields, job);
    read_keys(&LIMIT_KEYS, fields, job);
    read_keys(&DROPPED_KEYS, fields, job);
    read_keys(&EXTRA_KEYS, fields, job);
}

/// A job as it is written.
pub(super) struct WrittenJob {
    pub(super) config: ScrapeConfig,
    /// Set where nothing of the job can be scraped, because of a part that is not supported.
    pub(super) is_left_out: bool,
    /// Its parts that are not supported, as messages.
    pub(super) unsupported: Vec<String>,
}

/// Reads one job. Its name may be empty, which is reported.
pub(super) fn read(mut fields: Fields<'_>, global: &Global) -> WrittenJob {
    let source = fields.source;
    let before = source.unsupported_count();
    let name = fields.text("job_name").unwrap_or_default();
    if name.is_empty() {
        fields.report("job_name", "every job needs a name");
    }
    let mut job = global.job(&name);
    read_inherited(&mut fields, &mut job);
    read_keys(&TIMESTAMP_KEYS, &mut fields, &mut job);
    read_keys(&FALLBACK_KEYS, &mut fields, &mut job);
    read_keys(&REQUEST_KEYS, &mut fields, &mut job);
    read_keys(&BUCKET_KEYS, &mut fields, &mut job);
    let own_protocols = protocols(&mut fields);
    job.protocols_by_default &= own_protocols.is_none();
    job.protocols =
        own_protocols.unwrap_or_else(|| global.protocols_of(job.scrape_native_histograms));
    naming(&mut fields, global, &mut job);
    let names = job.metric_name_validation;
    job.params = params(&mut fields);
    job.http = client::read(&mut fields);
    let is_reachable = source.unsupported_count() == before;
    job.relabel = rules::read_all(&mut fields, "relabel_configs", names);
    job.metric_relabel = rules::read_all(&mut fields, "metric_relabel_configs", names);
    let is_relabelled = !fields.list("relabel_configs").is_empty();
    let targets = targets::read(&mut fields, names, is_relabelled);
    job.discovery = targets.discoveries;
    let is_left_out = !is_reachable || (targets.left_out && job.discovery.is_empty());
    let effect = if is_left_out {
        format!("the job {name:?} is left out")
    } else {
        format!("the job {name:?} has only its other targets")
    };
    let mut unsupported = Vec::new();
    for mut part in source.take_unsupported(before) {
        part.effect.clone_from(&effect);
        unsupported.push(part.to_string());
        source.report_unsupported(part);
    }
    fields.text(FAILURE_LOG);
    fields.unsupported(FAILURE_LOG, NO_FAILURE_LOG, PROCESS_LOG);
    fields.finish();
    WrittenJob {
        config: job,
        is_left_out,
        unsupported,
    }
}

/// The timeout is never longer than the interval, whichever of the two is a default.
fn interval_and_timeout(fields: &mut Fields<'_>, job: &mut ScrapeConfig) {
    if let Some(interval) = fields.duration_or_unset("scrape_interval") {
        job.scrape_interval = interval;
    }
    let timeout = fields.duration_or_unset("scrape_timeout");
    if timeout.is_some_and(|timeout| timeout > job.scrape_interval) {
        let interval = icecore_settings::duration::show(&job.scrape_interval);
        let reason = format!("must not be above the scrape interval, which is {interval}");
        fields.report("scrape_timeout", reason);
    }
    job.scrape_timeout = timeout.unwrap_or(job.scrape_timeout.min(job.scrape_interval));
}

fn protocols(fields: &mut Fields<'_>) -> Option<Vec<ScrapeProtocol>> {
    const KEY: &str = "scrape_protocols";
    fields.node(KEY)?;
    let words = fields.texts(KEY);
    let mut protocols = Vec::with_capacity(words.len());
    for word in &words {
        match ScrapeProtocol::parse_word(word) {
            Ok(protocol) if protocols.contains(&protocol) => {
                fields.report(KEY, format!("{word} is given twice"));
            }
            Ok(protocol) => protocols.push(protocol),
            Err(expected) => fields.report(KEY, format!("expected {expected}, found {word:?}")),
        }
    }
    if words.is_empty() {
        fields.report(KEY, "must not be empty");
    }
    Some(protocols)
}

fn validation(fields: &mut Fields<'_>) -> Option<NameValidation> {
    OptionalWord::<NameValidation>::read(fields, "metric_name_validation_scheme").flatten()
}

fn escaping(fields: &mut Fields<'_>) -> Option<NameEscaping> {
    OptionalWord::<NameEscaping>::read(fields, "metric_name_escaping_scheme").flatten()
}

fn default_escaping(names: NameValidation) -> NameEscaping {
    match names {
        NameValidation::Utf8 => NameEscaping::AllowUtf8,
        NameValidation::Legacy => NameEscaping::Underscores,
    }
}

/// A job that says which names are valid and not how they are escaped does not inherit the latter.
fn naming(fields: &mut Fields<'_>, global: &Global, job: &mut ScrapeConfig) {
    let own_names = validation(fields);
    let names = own_names.unwrap_or(job.metric_name_validation);
    let inherited = global.escaping.filter(|_| own_names.is_none());
    let escaping = escaping(fields).or(inherited);
    let escaping = escaping.unwrap_or(default_escaping(names));
    if escaping == NameEscaping::AllowUtf8 && names == NameValidation::Legacy {
        let reason = "allow-utf-8 contradicts metric_name_validation_scheme: legacy";
        fields.report("metric_name_escaping_scheme", reason);
    }
    job.metric_name_validation = names;
    job.metric_name_escaping = escaping;
}

fn params(fields: &mut Fields<'_>) -> BTreeMap<String, Vec<String>> {
    const KEY: &str = "params";
    let mut params = BTreeMap::new();
    for entry in fields.free_map(KEY) {
        let path = format!("{}.{}", fields.path_of(KEY), entry.key);
        let values = match &entry.node.value {
            Value::List(nodes) => texts_of(nodes, &path, fields.source),
            Value::Null => Vec::new(),
            _ => {
                let reason = "expected a list of values";
                fields.source.report(entry.node.at, &path, reason);
                continue;
            }
        };
        if values
            .iter()
            .any(|value| value.contains(SECRET_PLACEHOLDER))
        {
            fields.source.report(entry.node.at, &path, NO_PLACEHOLDER);
        }
        params.insert(entry.key.clone(), values);
    }
    params
}

fn external_labels(
    fields: &mut Fields<'_>,
    names: NameValidation,
    variable: &dyn Fn(&str) -> String,
) -> Vec<(String, String)> {
    let mut labels = fields.text_map("external_labels");
    for (name, value) in &mut labels {
        if !names.is_label_name(name) {
            fields.report("external_labels", format!("{name:?} is no label name"));
        }
        *value = expand_variables(value, variable);
    }
    let values = labels.iter().map(|(_, value)| value);
    refuse_placeholder(fields, "external_labels", values);
    labels.sort();
    labels
}

/// `$NAME` and `${NAME}` become what the environment says, `$$` a dollar sign.
fn expand_variables(text: &str, variable: &dyn Fn(&str) -> String) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('{').and_then(|r| r.split_once('}')) {
            out.push_str(&variable(name));
            rest = after;
        } else {
            let after = rest.trim_start_matches(is_word);
            let name = rest.strip_suffix(after).unwrap_or_default();
            if name.is_empty() {
                out.push('$');
            } else {
                out.push_str(&variable(name));
            }
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_labels_may_name_the_environment() {
        let variable = |name: &str| match name {
            "HOST" => "a1".to_owned(),
            _ => String::new(),
        };
        for (text, expected) in [
            ("x", "x"),
            ("$HOST", "a1"),
            ("${HOST}-$HOST.", "a1-a1."),
            ("$$HOST", "$HOST"),
            ("$NONE|", "|"),
            ("5$", "5$"),
            ("$-", "$-"),
        ] {
            assert_eq!(expand_variables(text, &variable), expected, "{text}");
        }
    }
}
