//! Real and written configuration files of Prometheus, with the verdicts of `promtool check config
//! --syntax-only`: a server starts with every file that it accepts, and refuses every other one.
//!
//! Holds always: nothing is sent. A start ends before its scrapes and discoveries have run at all:
//! they are tasks of a runtime that polls nothing but the start itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use icecore_model::{
    AppendError, Clock, Discard, Fill, PendingWrite, SampleStore, StoreError, SystemClock,
};
use icecore_scrape::{ScrapeManager, SelfScrape};
use icecore_storage::Environment;
use serde_json::Value;

use super::{Config, Inputs};
use crate::Process;

/// Files that are refused for an error within a discovery that is not built. Such a discovery is
/// left out here, whatever it says.
const UNBUILT: [&str; 42] = [
    "VictoriaMetrics/sd_configs-0.yml",
    "VictoriaMetrics/sd_configs-21.yml",
    "VictoriaMetrics/sd_configs-3.yml",
    "VictoriaMetrics/sd_configs-6.yml",
    "prometheus-testdata/azure_client_id_missing.bad.yml",
    "prometheus-testdata/azure_client_secret_missing.bad.yml",
    "prometheus-testdata/azure_subscription_id_missing.bad.yml",
    "prometheus-testdata/azure_tenant_id_missing.bad.yml",
    "prometheus-testdata/eureka_invalid_server.bad.yml",
    "prometheus-testdata/eureka_no_server.bad.yml",
    "prometheus-testdata/kubernetes_api_server_with_own_namespace.bad.yml",
    "prometheus-testdata/kubernetes_http_config_without_api_server.bad.yml",
    "prometheus-testdata/kubernetes_kubeconfig_with_apiserver.bad.yml",
    "prometheus-testdata/kubernetes_kubeconfig_with_http_config.bad.yml",
    "prometheus-testdata/kubernetes_selectors_duplicated_role.bad.yml",
    "prometheus-testdata/kubernetes_selectors_incorrect_selector.bad.yml",
    "prometheus-testdata/kubernetes_selectors_ingress.bad.yml",
    "prometheus-testdata/kubernetes_selectors_node.bad.yml",
    "prometheus-testdata/kubernetes_selectors_pod.bad.yml",
    "prometheus-testdata/kubernetes_selectors_service.bad.yml",
    "prometheus-testdata/marathon_authtoken_authorization.bad.yml",
    "prometheus-testdata/marathon_authtoken_basicauth.bad.yml",
    "prometheus-testdata/marathon_no_servers.bad.yml",
    "prometheus-testdata/outscale_no_region.bad.yml",
    "prometheus-testdata/outscale_two_secrets.bad.yml",
    "prometheus-testdata/stackit_endpoint.bad.yml",
    "prometheus-testdata/uyuni_no_server.bad.yml",
    "written/aws_bad_role.yml",
    "written/consul_token_and_auth.yml",
    "written/consul_unknown.yml",
    "written/consul_user_and_basic.yml",
    "written/docker_bad_host.yml",
    "written/docker_filter.yml",
    "written/gce_http.yml",
    "written/gce_no_project.yml",
    "written/gce_no_zone.yml",
    "written/k8s_no_role.yml",
    "written/k8s_role_upper.yml",
    "written/scaleway_bad_key.yml",
    "written/swarm_bad_role.yml",
    "written/swarm_no_role.yml",
    "written/triton_bad.yml",
];

/// Other files with another verdict, with the reason.
const OTHERS: [(&str, &str); 3] = [
    (
        "prometheus-testdata/scrape_config_files_duplicate.bad.yml",
        "refused: a start reads scrape_config_files, as Prometheus' own does; --syntax-only does not",
    ),
    (
        "prometheus-testdata/scrape_config_files_global.bad.yml",
        "refused for the same reason",
    ),
    (
        "promtool-testdata/url_in_scrape_targetgroup_with_relabel_config.bad.yml",
        "started: Prometheus starts with it, too; promtool alone relabels static targets",
    ),
];

/// A store that takes nothing: nothing is scraped.
struct NoStore;

impl SampleStore for NoStore {
    fn append_boxed(
        &self,
        _patience: Duration,
        _fill: Fill,
    ) -> BoxFuture<'_, Result<PendingWrite, AppendError<Discard>>> {
        let refused = StoreError("nothing is scraped".into());
        async { Err(AppendError::Store(refused)) }.boxed()
    }

    fn barrier(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }
}

/// Starts what depends on the file: the settings, the sockets, the scrapes.
fn start(file: &Path) -> Result<(), String> {
    let flags = [
        ("storage.location", "memory://"),
        ("server.listen", "127.0.0.1:0"),
        ("otlp.grpc_listen", "off"),
    ];
    let config = Config::load(&Inputs {
        file: Some(file.into()),
        flags: flags.map(|(key, text)| (key.into(), text.into())).into(),
        ..Inputs::default()
    });
    let config = config.map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let started = runtime.block_on(async {
        let process = Process::start(config.clone(), Environment::default()).await;
        process.map_err(|error| error.to_string())?;
        let store = Arc::new(NoStore);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let own = SelfScrape {
            address: "127.0.0.1:9090".into(),
            page: Arc::new(|| None),
        };
        // Without a pause, so that no task has run when the runtime ends.
        let started = ScrapeManager::start(store, clock, config.scrape(), own, true).now_or_never();
        let started = started.ok_or("the start of scraping waits for something")?;
        if started.load_state().successful {
            Ok(())
        } else {
            Err("scraping did not start".into())
        }
    });
    drop(runtime);
    started
}

fn recorded() -> Option<PathBuf> {
    let shared = match std::env::var_os("ICECORE_SHARED") {
        Some(shared) => PathBuf::from(shared),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let folder = shared.join("discovery-conformance/configs");
    if folder.is_dir() {
        return Some(folder);
    }
    skipped_tests::skip(
        "333 configuration files with promtool's verdicts",
        "set ICECORE_SHARED to the directory that has discovery-conformance/",
    );
    None
}

#[test]
fn files_start_as_promtool_says() {
    let Some(folder) = recorded() else { return };
    let verdicts = std::fs::read_to_string(folder.join("verdicts.json")).unwrap();
    let verdicts: Vec<Value> = serde_json::from_str(&verdicts).unwrap();
    assert_eq!(verdicts.len(), 333);
    let mut different = BTreeMap::new();
    for verdict in &verdicts {
        let file = verdict["file"].as_str().unwrap();
        let checked = match &verdict["syntax_only"] {
            // It says the same as the whole check.
            Value::Null => &verdict["check"],
            checked => checked,
        };
        let accepted = checked["exit"] == 0;
        let started = start(&folder.join(file));
        if accepted != started.is_ok() {
            let theirs = checked["stderr"].as_str().unwrap_or_default().trim();
            let name = file.strip_prefix("files/").unwrap_or(file);
            different.insert(name, format!("promtool: {theirs}; icecore: {started:?}"));
        }
    }
    for listed in UNBUILT {
        let found = different.remove(listed);
        let is_accepted = found
            .as_ref()
            .is_some_and(|found| found.ends_with("Ok(())"));
        assert!(is_accepted, "{listed} is listed for nothing: {found:?}");
    }
    for (listed, _) in OTHERS {
        assert!(
            different.remove(listed).is_some(),
            "{listed} is listed for nothing"
        );
    }
    assert!(different.is_empty(), "{different:#?}");
}
