use super::*;
use crate::config::{RelabelAction, shown_label};
use crate::testing::{job, rule};

fn group(address: &str, labels: &[(&str, &str)]) -> TargetGroup {
    TargetGroup {
        targets: vec![address.into()],
        labels: labels
            .iter()
            .map(|(n, v)| ((*n).into(), (*v).into()))
            .collect(),
        source: "test/0".into(),
    }
}

fn one(config: &ScrapeConfig, group: &TargetGroup) -> Result<RelabelOutcome, String> {
    targets_of(config, group).next().unwrap()
}

fn target(config: &ScrapeConfig, group: &TargetGroup) -> TargetSpec {
    match one(config, group).unwrap() {
        RelabelOutcome::Target(spec) => *spec,
        RelabelOutcome::Dropped(labels) => panic!("dropped: {labels:?}"),
    }
}

/// Checks that labels are shown without a secret.
fn check_shown(labels: &LabelSet) {
    for (name, value) in labels.iter() {
        let shown = shown_label(name, value);
        assert!(!shown.contains("hunter2"), "{name}: {shown}");
    }
}

fn dropped(config: &ScrapeConfig, group: &TargetGroup) -> LabelSet {
    match one(config, group).unwrap() {
        RelabelOutcome::Dropped(labels) => labels,
        RelabelOutcome::Target(spec) => panic!("not dropped: {spec:?}"),
    }
}

fn public(spec: &TargetSpec) -> Vec<(&str, &str)> {
    spec.public_labels().collect()
}

#[test]
fn labels_url_and_times_by_default() {
    let spec = target(
        &job(),
        &group("host:9100", &[("env", "test"), ("__meta_x", "y")]),
    );
    assert_eq!(
        public(&spec),
        [("env", "test"), ("instance", "host:9100"), ("job", "test")]
    );
    assert_eq!(spec.url.text, "http://host:9100/metrics");
    assert_eq!(spec.interval, Duration::from_secs(15));
    assert_eq!(spec.timeout, Duration::from_secs(10));
    assert_eq!(spec.discovered.get("__meta_x"), "y");
    assert_eq!(spec.discovered.get("__scrape_interval__"), "15s");
    // No port is added, and one that is given stays.
    assert_eq!(
        target(&job(), &group("host", &[])).url.text,
        "http://host/metrics"
    );
    let given = target(&job(), &group("host:80", &[]));
    assert_eq!(given.url.text, "http://host:80/metrics");
}

#[test]
fn a_socket_is_connected_to_instead_of_the_address() {
    let spec = target(
        &job(),
        &group("app:80", &[("__unix_socket__", "/run/app.sock")]),
    );
    assert_eq!(
        spec.unix_socket.as_deref(),
        Some(Path::new("/run/app.sock"))
    );
    assert_eq!(spec.url.text, "http://app:80/metrics");
    assert_eq!(public(&spec), [("instance", "app:80"), ("job", "test")]);
    let without = target(&job(), &group("app:80", &[]));
    assert_eq!(without.unix_socket, None);
    assert_ne!(spec.hash(), without.hash());
}

#[test]
fn histograms_are_read_as_labels_say() {
    const LABELS: [&str; 3] = [CONVERT_CLASSIC, ALWAYS_CLASSIC, SCRAPE_NATIVE];
    let mut config = job();
    config.scrape_native_histograms = true;
    let plain = target(&config, &group("a", &[]));
    let discovered = LABELS.map(|name| plain.discovered.get(name));
    assert_eq!(discovered, ["false", "false", "true"]);
    assert_eq!(plain.histograms, HistogramOverrides::default());
    let given = group("a", &[(CONVERT_CLASSIC, "T"), (SCRAPE_NATIVE, "0")]);
    let spec = target(&config, &given);
    let expected = HistogramOverrides {
        convert_classic: Some(true),
        always_classic: None,
        scrape_native: Some(false),
    };
    assert_eq!(spec.histograms, expected);
    assert_eq!(public(&spec), public(&plain));
    assert_ne!(spec.hash(), plain.hash());
    // Saying what the job says changes nothing, not even the schedule.
    let same = target(&config, &group("a", &[(SCRAPE_NATIVE, "true")]));
    assert_eq!(same.hash(), plain.hash());
    // As in relabelling, a label may be taken away.
    config.relabel = vec![rule(
        RelabelAction::LabelDrop,
        "",
        "__scrape_native_histograms__",
        "",
        "",
    )];
    assert_eq!(target(&config, &given).histograms.scrape_native, None);
    config.relabel.clear();
    let error = one(&config, &group("a", &[(ALWAYS_CLASSIC, "yes")])).unwrap_err();
    assert!(
        error.ends_with(
            r#"error parsing always scrape classic histograms: strconv.ParseBool: parsing "yes": invalid syntax"#
        ),
        "{error}"
    );
}

#[test]
fn labels_of_the_group_decide() {
    let given = group(
        "host",
        &[
            ("job", "other"),
            ("instance", "named"),
            ("__scheme__", "https"),
            ("__metrics_path__", "/a b?c"),
            ("__scrape_interval__", "1m"),
            ("__scrape_timeout__", "1s"),
            ("__param_module", "http 2xx"),
        ],
    );
    let mut config = job();
    config
        .params
        .insert("module".into(), vec!["first".into(), "second".into()]);
    config.params.insert("x".into(), vec!["1".into()]);
    let spec = target(&config, &given);
    assert_eq!(public(&spec), [("instance", "named"), ("job", "other")]);
    assert_eq!(
        spec.url.text,
        "https://host/a%20b%3Fc?module=http+2xx&module=second&x=1"
    );
    assert_eq!(spec.interval, Duration::from_secs(60));
    assert_eq!(spec.timeout, Duration::from_secs(1));
}

#[test]
fn the_url_is_asked_with_its_secrets_and_shown_without() {
    let mut config = job();
    let secret = vec!["hunter2".to_owned()];
    config.params.insert("apikey".into(), secret);
    config.params.insert("module".into(), vec!["open".into()]);
    let spec = target(&config, &group("host", &[("__param_token", "hunter2")]));
    let query = "apikey=hunter2&module=open&token=hunter2";
    assert_eq!(spec.url.parsed.query(), Some(query));
    assert_eq!(
        spec.url.shown,
        "http://host/metrics?apikey=<secret>&module=open&token=<secret>"
    );
    assert!(!format!("{:?}", spec.url).contains("hunter2"));
    // Another secret is another target.
    let other = target(&config, &group("host", &[("__param_token", "hunter3")]));
    assert_ne!(spec.hash(), other.hash());
    assert_ne!(spec.url, other.url);
    for (address, labels) in [
        ("u:hunter2@host/metrics", &[][..]),
        ("http://u:hunter2@host", &[]),
        ("ho st", &[("__param_token", "hunter2")]),
    ] {
        let error = one(&config, &group(address, labels)).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn credentials_of_an_address_are_used_and_not_shown() {
    let given = group("u:hunter2@host:9100", &[]);
    let spec = target(&job(), &given);
    assert_eq!(spec.url.parsed.password(), Some("hunter2"));
    assert_eq!(spec.url.shown, "http://<secret>@host:9100/metrics");
    assert_eq!(public(&spec), [("instance", "host:9100"), ("job", "test")]);
    let mut config = job();
    config.relabel = vec![rule(RelabelAction::Drop, "__address__", ".*", "", "")];
    for labels in [spec.discovered, dropped(&config, &given)] {
        let address = shown_label(ADDRESS, labels.get(ADDRESS));
        assert_eq!(address, "<secret>@host:9100");
        check_shown(&labels);
    }
}

/// As an exporter that probes others is asked.
#[test]
fn a_target_that_is_a_parameter_is_shown_without_its_secrets() {
    let mut config = job();
    config.relabel = vec![
        rule(
            RelabelAction::Replace,
            "__address__",
            "(.*)",
            "__param_target",
            "$1",
        ),
        rule(
            RelabelAction::Replace,
            "",
            "(.*)",
            "__address__",
            "prober:9115",
        ),
    ];
    let given = group("https://u:hunter2@shop/x?apikey=hunter2&env=open", &[]);
    let spec = target(&config, &given);
    let asked = "https://u:hunter2@shop/x?apikey=hunter2&env=open";
    let asked: String = form_urlencoded::byte_serialize(asked.as_bytes()).collect();
    assert_eq!(spec.url.parsed.query(), Some(&*format!("target={asked}")));
    assert_eq!(
        spec.url.shown,
        "http://prober:9115/metrics?target=https%3A%2F%2F<secret>%40shop%2Fx%3Fapikey%3D<secret>\
         %26env%3Dopen"
    );
    let address = shown_label(ADDRESS, spec.discovered.get(ADDRESS));
    assert_eq!(address, "https://<secret>@shop/x?apikey=<secret>&env=open");
    check_shown(&spec.discovered);
    check_shown(&spec.labels);
    // One without a scheme is probed as well.
    let spec = target(&config, &group("u:hunter2@shop", &[]));
    let shown = "http://prober:9115/metrics?target=<secret>%40shop";
    assert_eq!(spec.url.shown, shown);
}

#[test]
fn relabelling_moves_and_drops() {
    let mut config = job();
    config.relabel = vec![
        rule(
            RelabelAction::Replace,
            "__address__",
            "(.*)",
            "__param_target",
            "$1",
        ),
        rule(RelabelAction::Replace, "__meta_name", "(.+)", "name", "$1"),
        rule(RelabelAction::Drop, "__meta_name", "bad", "", ""),
    ];
    let spec = target(&config, &group("host:1", &[("__meta_name", "good")]));
    assert_eq!(spec.url.text, "http://host:1/metrics?target=host%3A1");
    assert!(public(&spec).contains(&("name", "good")));
    let dropped = one(&config, &group("host:1", &[("__meta_name", "bad")])).unwrap();
    match dropped {
        RelabelOutcome::Dropped(labels) => assert_eq!(labels.get("__meta_name"), "bad"),
        RelabelOutcome::Target(spec) => panic!("{spec:?}"),
    }
}

#[test]
fn what_cannot_be_scraped_is_said() {
    for (address, labels, said) in [
        ("", &[][..], "no address"),
        ("http://host", &[], "is not a valid hostname"),
        (
            "host",
            &[("__scrape_interval__", "soon")],
            "error parsing scrape interval",
        ),
        (
            "host",
            &[("__scrape_timeout__", "0s")],
            "scrape timeout cannot be 0",
        ),
        (
            "host",
            &[("__scrape_timeout__", "1h")],
            "cannot be greater than",
        ),
        (
            "host",
            &[("__scheme__", "ftp")],
            "unsupported protocol scheme",
        ),
        ("ho st", &[], "is not a URL"),
    ] {
        let error = one(&job(), &group(address, labels)).unwrap_err();
        assert!(error.contains(said), "{error}");
        assert!(error.starts_with("instance 0 in group test/0: "), "{error}");
    }
}

#[test]
fn the_hash_is_that_of_labels_and_url() {
    let hash =
        |address: &str, labels: &[(&str, &str)]| target(&job(), &group(address, labels)).hash();
    assert_eq!(hash("a", &[]), hash("a", &[("__meta_x", "1")]));
    assert_ne!(hash("a", &[]), hash("b", &[]));
    assert_ne!(hash("a", &[]), hash("a", &[("x", "1")]));
    assert_ne!(hash("a", &[]), hash("a", &[("__param_x", "1")]));
    // Restarts and upgrades keep the schedule.
    assert_eq!(hash("a", &[]), HASH_OF_A);
}

const HASH_OF_A: u64 = 0x89db_b665_9833_e690;
