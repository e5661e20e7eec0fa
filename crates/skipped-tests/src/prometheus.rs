//! Where the PromQL scripts of the Prometheus project are on this machine.

use std::env;
use std::path::{Path, PathBuf};

use crate::skip;

/// The Go module of Prometheus, and its scripts in it.
const MODULE: &str = "github.com/prometheus/prometheus@v0.315.0";
const SCRIPTS_OF_MODULE: &str = "promql/promqltest/testdata";

/// Number of evaluations in the scripts of [`MODULE`].
const EVALS_OF_MODULE: usize = 2243;

/// Number of evaluations in the selection that lies beside the project.
const EVALS_BESIDE: usize = 1925;

/// A directory of scripts.
pub struct PrometheusScripts {
    pub directory: PathBuf,
    /// Number of evaluations that they ask for, if that is known.
    pub evals: Option<usize>,
}

/// Finds the scripts: those that `ICECORE_PROMQLTEST` names, else those in Go's module cache, else
/// those beside the project. Says that tests are skipped if there are none.
pub fn prometheus_scripts() -> Option<PrometheusScripts> {
    let named = env::var_os("ICECORE_PROMQLTEST").map(|path| (PathBuf::from(path), None));
    let module = module_caches().map(|cache| {
        let directory = cache.join(MODULE).join(SCRIPTS_OF_MODULE);
        (directory, Some(EVALS_OF_MODULE))
    });
    let shared = match env::var_os("ICECORE_SHARED") {
        Some(shared) => PathBuf::from(shared),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let beside = (shared.join("promqltest"), Some(EVALS_BESIDE));
    let mut places = named.into_iter().chain(module).chain([beside]);
    let found = places.find(|(directory, _)| directory.is_dir());
    if found.is_none() {
        skip(
            "Prometheus' own PromQL scripts",
            &format!(
                "go mod download {MODULE} (with GOFLAGS=-mod=mod, outside of a module), or set \
                 ICECORE_PROMQLTEST to the directory of its scripts"
            ),
        );
    }
    found.map(|(directory, evals)| PrometheusScripts { directory, evals })
}

/// The places where Go keeps modules: `GOMODCACHE`, else below each of `GOPATH`, else below the
/// home directory.
fn module_caches() -> impl Iterator<Item = PathBuf> {
    let cache = env::var_os("GOMODCACHE").map(PathBuf::from);
    let paths = env::var_os("GOPATH").unwrap_or_default();
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join("go"));
    let paths: Vec<PathBuf> = env::split_paths(&paths).chain(home).collect();
    let below = paths.into_iter().map(|path| path.join("pkg/mod"));
    cache.into_iter().chain(below)
}
