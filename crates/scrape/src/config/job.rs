//! `global` and one of `scrape_configs`, as they are written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::{
    HttpClientConfig, NameEscaping, NameValidation, Scheme, ScrapeConfig, ScrapeProtocol, client,
    rules, targets,
};
use icecore_settings::parse_binary_size;
use icecore_settings::yaml::Value;
use icecore_settings::{Fields, texts_of};

pub(super) const PROTOCOLS: [(&str, ScrapeProtocol); 5] = [
    ("PrometheusProto", ScrapeProtocol::PrometheusProto),
    ("OpenMetricsText0.0.1", ScrapeProtocol::OpenMetricsText0_0_1),
    ("OpenMetricsText1.0.0", ScrapeProtocol::OpenMetricsText1_0_0),
    ("PrometheusText0.0.4", ScrapeProtocol::PrometheusText0_0_4),
    ("PrometheusText1.0.0", ScrapeProtocol::PrometheusText1_0_0),
];

const TEXT_PROTOCOLS: [ScrapeProtocol; 4] = [
    ScrapeProtocol::OpenMetricsText1_0_0,
    ScrapeProtocol::OpenMetricsText0_0_1,
    ScrapeProtocol::PrometheusText1_0_0,
    ScrapeProtocol::PrometheusText0_0_4,
];

pub(super) const ESCAPINGS: [(&str, NameEscaping); 4] = [
    ("allow-utf-8", NameEscaping::AllowUtf8),
    ("underscores", NameEscaping::Underscores),
    ("dots", NameEscaping::Dots),
    ("values", NameEscaping::Values),
];

const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// What `global` says, defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Global {
    pub(super) scrape_interval: Duration,
    pub(super) scrape_timeout: Duration,
    pub(super) evaluation_interval: Duration,
    pub(super) rule_query_offset: Duration,
    /// Without any, it depends on a job whether protobuf comes first.
    pub(super) protocols: Option<Vec<ScrapeProtocol>>,
    pub(super) query_log_file: Option<PathBuf>,
    pub(super) scrape_failure_log_file: Option<PathBuf>,
    pub(super) external_labels: Vec<(String, String)>,
    pub(super) limits: Limits,
    pub(super) names: NameValidation,
    pub(super) escaping: Option<NameEscaping>,
    pub(super) histograms: Histograms,
    pub(super) extra_scrape_metrics: bool,
    /// Not of the file: a setting of the process.
    start_timestamps: bool,
}

/// 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) body_size: u64,
    pub(super) samples: u64,
    pub(super) targets: u64,
    pub(super) labels: u64,
    pub(super) label_name_length: u64,
    pub(super) label_value_length: u64,
    pub(super) dropped_targets: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Histograms {
    pub(super) native: bool,
    pub(super) classic_too: bool,
    pub(super) classic_to_nhcb: bool,
}

impl Default for Global {
    fn default() -> Self {
        Self {
            scrape_interval: DEFAULT_INTERVAL,
            scrape_timeout: DEFAULT_TIMEOUT,
            evaluation_interval: DEFAULT_INTERVAL,
            rule_query_offset: Duration::ZERO,
            protocols: None,
            query_log_file: None,
            scrape_failure_log_file: None,
            external_labels: Vec::new(),
            limits: Limits::default(),
            names: NameValidation::Utf8,
            escaping: None,
            histograms: Histograms::default(),
            extra_scrape_metrics: false,
            start_timestamps: false,
        }
    }
}

impl Global {
    /// `variable` gives the environment, which external labels may refer to.
    pub(super) fn read(mut fields: Fields<'_>, variable: &dyn Fn(&str) -> String) -> Self {
        let defaults = Self::default();
        let (interval, timeout) = interval_and_timeout(&mut fields, &defaults);
        let names = validation(&mut fields).unwrap_or(defaults.names);
        let global = Self {
            scrape_interval: interval,
            scrape_timeout: timeout,
            evaluation_interval: fields
                .duration_or_unset("evaluation_interval")
                .unwrap_or(defaults.evaluation_interval),
            rule_query_offset: fields.duration("rule_query_offset").unwrap_or_default(),
            protocols: protocols(&mut fields),
            query_log_file: path(&mut fields, "query_log_file"),
            scrape_failure_log_file: path(&mut fields, "scrape_failure_log_file"),
            external_labels: external_labels(&mut fields, names, variable),
            limits: limits(&mut fields, defaults.limits),
            names,
            escaping: escaping(&mut fields),
            histograms: histograms(&mut fields, defaults.histograms),
            extra_scrape_metrics: fields.boolean("extra_scrape_metrics").unwrap_or(false),
            start_timestamps: defaults.start_timestamps,
        };
        fields.finish();
        global
    }

    /// A job that says nothing but its name.
    pub(super) fn job(&self, job_name: &str) -> ScrapeConfig {
        ScrapeConfig {
            job_name: job_name.into(),
            scrape_interval: self.scrape_interval,
            scrape_timeout: self.scrape_timeout,
            protocols: self.protocols_of(self.histograms.native),
            protocols_by_default: self.protocols.is_none(),
            fallback_protocol: None,
            metrics_path: "/metrics".into(),
            scheme: Scheme::Http,
            params: BTreeMap::new(),
            honor_labels: false,
            honor_timestamps: true,
            track_timestamps_staleness: false,
            enable_compression: true,
            start_timestamps: self.start_timestamps,
            scrape_native_histograms: self.histograms.native,
            always_scrape_classic_histograms: self.histograms.classic_too,
            convert_classic_histograms_to_nhcb: self.histograms.classic_to_nhcb,
            native_histogram_bucket_limit: 0,
            native_histogram_min_bucket_factor: 0.0,
            metric_name_validation: self.names,
            metric_name_escaping: self.escaping.unwrap_or(default_escaping(self.names)),
            extra_scrape_metrics: self.extra_scrape_metrics,
            body_size_limit: self.limits.body_size,
            sample_limit: self.limits.samples,
            target_limit: self.limits.targets,
            label_limit: self.limits.labels,
            label_name_length_limit: self.limits.label_name_length,
            label_value_length_limit: self.limits.label_value_length,
            keep_dropped_targets: self.limits.dropped_targets,
            http: HttpClientConfig::default(),
            discovery: Vec::new(),
            relabel: Vec::new(),
            metric_relabel: Vec::new(),
        }
    }

    /// Gives back what is asked for where a job does not say it.
    pub(super) fn take_start_timestamps(&mut self) -> Vec<ScrapeProtocol> {
        self.start_timestamps = true;
        let first = self.protocols_of(true);
        self.protocols = Some(first.clone());
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

/// One job. Its name may be empty, which is then complained about.
pub(super) fn read(mut fields: Fields<'_>, global: &Global) -> ScrapeConfig {
    let name = fields.text("job_name").unwrap_or_default();
    if name.is_empty() {
        fields.complain("job_name", "every job needs a name");
    }
    let defaults = global.job(&name);
    let (scrape_interval, scrape_timeout) = interval_and_timeout(&mut fields, global);
    let (names, metric_name_escaping) = naming(&mut fields, global);
    let histograms = histograms(&mut fields, global.histograms);
    let limits = limits(&mut fields, global.limits);
    let protocols = protocols(&mut fields);
    let relabel = rules::read_all(&mut fields, "relabel_configs", names);
    let is_relabelled = !fields.list("relabel_configs").is_empty();
    let job = ScrapeConfig {
        scrape_interval,
        scrape_timeout,
        protocols_by_default: protocols.is_none() && defaults.protocols_by_default,
        protocols: protocols.unwrap_or_else(|| global.protocols_of(histograms.native)),
        fallback_protocol: fields.parsed("fallback_scrape_protocol", protocol),
        metrics_path: fields.text("metrics_path").unwrap_or(defaults.metrics_path),
        scheme: fields.parsed("scheme", scheme).unwrap_or(defaults.scheme),
        params: params(&mut fields),
        honor_labels: fields.boolean("honor_labels").unwrap_or(false),
        honor_timestamps: fields.boolean("honor_timestamps").unwrap_or(true),
        track_timestamps_staleness: fields
            .boolean("track_timestamps_staleness")
            .unwrap_or(false),
        enable_compression: fields.boolean("enable_compression").unwrap_or(true),
        start_timestamps: defaults.start_timestamps,
        scrape_native_histograms: histograms.native,
        always_scrape_classic_histograms: histograms.classic_too,
        convert_classic_histograms_to_nhcb: histograms.classic_to_nhcb,
        native_histogram_bucket_limit: fields.number("native_histogram_bucket_limit").unwrap_or(0),
        native_histogram_min_bucket_factor: fields
            .factor("native_histogram_min_bucket_factor")
            .unwrap_or(0.0),
        metric_name_validation: names,
        metric_name_escaping,
        extra_scrape_metrics: fields
            .boolean("extra_scrape_metrics")
            .unwrap_or(global.extra_scrape_metrics),
        body_size_limit: limits.body_size,
        sample_limit: limits.samples,
        target_limit: limits.targets,
        label_limit: limits.labels,
        label_name_length_limit: limits.label_name_length,
        label_value_length_limit: limits.label_value_length,
        keep_dropped_targets: limits.dropped_targets,
        http: client::read(&mut fields),
        discovery: targets::read(&mut fields, names, is_relabelled),
        relabel,
        metric_relabel: rules::read_all(&mut fields, "metric_relabel_configs", names),
        job_name: name,
    };
    // Failures are logged by the process itself; who loads the file warns about this key.
    let _ = path(&mut fields, "scrape_failure_log_file");
    fields.finish_with(targets::explain_unknown);
    job
}

/// The timeout is never longer than the interval, whichever of the two is a default.
fn interval_and_timeout(fields: &mut Fields<'_>, defaults: &Global) -> (Duration, Duration) {
    let interval = fields.duration_or_unset("scrape_interval");
    let interval = interval.unwrap_or(defaults.scrape_interval);
    let timeout = fields.duration_or_unset("scrape_timeout");
    if timeout.is_some_and(|timeout| timeout > interval) {
        let interval = icecore_settings::duration::show(&interval);
        let reason = format!("must not be above the scrape interval, which is {interval}");
        fields.complain("scrape_timeout", reason);
    }
    let timeout = timeout.unwrap_or(defaults.scrape_timeout.min(interval));
    (interval, timeout)
}

fn path(fields: &mut Fields<'_>, key: &'static str) -> Option<PathBuf> {
    let path = fields.text(key).filter(|path| !path.is_empty())?;
    Some(fields.source.path(&path))
}

fn protocol(text: &str) -> Result<ScrapeProtocol, String> {
    let known = PROTOCOLS.iter().find(|(name, _)| *name == text);
    let names = || PROTOCOLS.map(|(name, _)| name).join(", ");
    known
        .map(|(_, protocol)| *protocol)
        .ok_or_else(|| format!("one of {}", names()))
}

fn protocols(fields: &mut Fields<'_>) -> Option<Vec<ScrapeProtocol>> {
    const KEY: &str = "scrape_protocols";
    fields.node(KEY)?;
    let words = fields.texts(KEY);
    let mut protocols = Vec::with_capacity(words.len());
    for word in &words {
        match protocol(word) {
            Ok(protocol) if protocols.contains(&protocol) => {
                fields.complain(KEY, format!("{word} is given twice"));
            }
            Ok(protocol) => protocols.push(protocol),
            Err(expected) => fields.complain(KEY, format!("expected {expected}, found {word:?}")),
        }
    }
    if words.is_empty() {
        fields.complain(KEY, "must not be empty");
    }
    Some(protocols)
}

fn limits(fields: &mut Fields<'_>, defaults: Limits) -> Limits {
    let body_size = fields.parsed("body_size_limit", parse_binary_size);
    let body_size = body_size.filter(|bytes| *bytes > 0);
    Limits {
        body_size: body_size.unwrap_or(defaults.body_size),
        samples: fields.limit("sample_limit").unwrap_or(defaults.samples),
        targets: fields.limit("target_limit").unwrap_or(defaults.targets),
        labels: fields.limit("label_limit").unwrap_or(defaults.labels),
        label_name_length: fields
            .limit("label_name_length_limit")
            .unwrap_or(defaults.label_name_length),
        label_value_length: fields
            .limit("label_value_length_limit")
            .unwrap_or(defaults.label_value_length),
        dropped_targets: fields
            .limit("keep_dropped_targets")
            .unwrap_or(defaults.dropped_targets),
    }
}

fn histograms(fields: &mut Fields<'_>, defaults: Histograms) -> Histograms {
    Histograms {
        native: fields
            .boolean("scrape_native_histograms")
            .unwrap_or(defaults.native),
        classic_too: fields
            .boolean("always_scrape_classic_histograms")
            .unwrap_or(defaults.classic_too),
        classic_to_nhcb: fields
            .boolean("convert_classic_histograms_to_nhcb")
            .unwrap_or(defaults.classic_to_nhcb),
    }
}

fn validation(fields: &mut Fields<'_>) -> Option<NameValidation> {
    let given = fields.parsed("metric_name_validation_scheme", |text| match text {
        "" => Ok(None),
        "utf8" => Ok(Some(NameValidation::Utf8)),
        "legacy" => Ok(Some(NameValidation::Legacy)),
        _ => Err("utf8 or legacy".into()),
    });
    given.flatten()
}

fn escaping(fields: &mut Fields<'_>) -> Option<NameEscaping> {
    let given = fields.parsed("metric_name_escaping_scheme", |text| {
        if text.is_empty() {
            return Ok(None);
        }
        let known = ESCAPINGS.iter().find(|(name, _)| *name == text);
        let names = || ESCAPINGS.map(|(name, _)| name).join(", ");
        known
            .map(|(_, escaping)| Some(*escaping))
            .ok_or_else(|| format!("one of {}", names()))
    });
    given.flatten()
}

fn default_escaping(names: NameValidation) -> NameEscaping {
    match names {
        NameValidation::Utf8 => NameEscaping::AllowUtf8,
        NameValidation::Legacy => NameEscaping::Underscores,
    }
}

/// A job that says which names are valid and not how they are escaped does not inherit the latter.
fn naming(fields: &mut Fields<'_>, global: &Global) -> (NameValidation, NameEscaping) {
    let own_names = validation(fields);
    let names = own_names.unwrap_or(global.names);
    let inherited = global.escaping.filter(|_| own_names.is_none());
    let escaping = escaping(fields).or(inherited);
    let escaping = escaping.unwrap_or(default_escaping(names));
    if escaping == NameEscaping::AllowUtf8 && names == NameValidation::Legacy {
        let reason = "allow-utf-8 contradicts metric_name_validation_scheme: legacy";
        fields.complain("metric_name_escaping_scheme", reason);
    }
    (names, escaping)
}

fn scheme(text: &str) -> Result<Scheme, String> {
    match text {
        "http" => Ok(Scheme::Http),
        "https" => Ok(Scheme::Https),
        _ => Err("http or https".into()),
    }
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
                fields.source.complain(entry.node.at, &path, reason);
                continue;
            }
        };
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
            fields.complain("external_labels", format!("{name:?} is no label name"));
        }
        *value = expand_variables(value, variable);
    }
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
