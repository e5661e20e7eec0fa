//! What the API shows about targets: copies, so that readers do not block scrapes.

use icecore_model::Metadata;

use super::config::shown_label;
use super::manager::ScrapeManager;
use super::relabel::LabelSet;
use super::target::Target;
use icecore_settings::duration;

type Pairs = Vec<(String, String)>;

/// One pool.
pub struct PoolInfo {
    pub name: String,
    pub active: Vec<TargetInfo>,
    /// Labels before relabelling, of some of the targets that it dropped.
    pub dropped: Vec<Pairs>,
    pub dropped_count: usize,
}

/// One target that is scraped.
pub struct TargetInfo {
    pub discovered: Pairs,
    pub labels: Pairs,
    pub url: String,
    pub interval: String,
    pub timeout: String,
    /// `up`, `down` or `unknown`.
    pub health: &'static str,
    pub error: Option<String>,
    pub scraped_ms: Option<i64>,
    pub seconds: f64,
}

/// What one target says about one family.
pub struct TargetMetadata {
    pub labels: Pairs,
    /// `None` where one family was asked for.
    pub family: Option<String>,
    pub metadata: Metadata,
}

impl ScrapeManager {
    pub fn pool_names(&self) -> Vec<String> {
        self.views().iter().map(|view| view.name.clone()).collect()
    }

    pub fn pools(&self) -> Vec<PoolInfo> {
        let info = |view: &std::sync::Arc<super::pool::PoolView>| {
            let state = view.state();
            PoolInfo {
                name: view.name.clone(),
                active: state.active.iter().map(|target| info_of(target)).collect(),
                dropped: state.dropped.iter().map(pairs_of).collect(),
                dropped_count: state.dropped_count,
            }
        };
        self.views().iter().map(info).collect()
    }

    /// Metadata of the targets whose labels match: of one family, or of all in the order of their
    /// names.
    pub fn target_metadata(
        &self,
        matches: impl Fn(&[(String, String)]) -> bool,
        family: Option<&str>,
        limit: usize,
    ) -> Vec<TargetMetadata> {
        let mut found = Vec::new();
        for target in self.views().iter().flat_map(|view| view.state().active) {
            if found.len() >= limit {
                break;
            }
            let labels = public_of(&target);
            if matches(&labels) {
                add_metadata(&mut found, &target, &labels, family);
            }
        }
        found.truncate(limit);
        found
    }
}

fn add_metadata(
    found: &mut Vec<TargetMetadata>,
    target: &Target,
    labels: &Pairs,
    family: Option<&str>,
) {
    let series = target.series.lock();
    if let Some(family) = family {
        let of_family = series.families.get(family);
        found.extend(of_family.map(|metadata| TargetMetadata {
            labels: labels.clone(),
            family: None,
            metadata: metadata.clone(),
        }));
        return;
    }
    let mut families: Vec<_> = series.families.iter().collect();
    families.sort_unstable_by_key(|(name, _)| *name);
    found.extend(families.into_iter().map(|(name, metadata)| TargetMetadata {
        labels: labels.clone(),
        family: Some(name.to_owned()),
        metadata: metadata.clone(),
    }));
}

fn info_of(target: &Target) -> TargetInfo {
    let health = target.health.lock().clone();
    TargetInfo {
        discovered: pairs_of(&target.discovered.lock()),
        labels: public_of(target),
        url: target.spec.url.shown.clone(),
        interval: duration::show(&target.spec.interval),
        timeout: duration::show(&target.spec.timeout),
        health: health.name(),
        error: health.error,
        scraped_ms: health.scraped_ms,
        seconds: health.seconds,
    }
}

fn public_of(target: &Target) -> Pairs {
    owned(target.spec.public_labels())
}

/// Labels before relabelling, among them parameters of the URL.
fn pairs_of(labels: &LabelSet) -> Pairs {
    let shown = labels
        .iter()
        .map(|(name, value)| (name.to_owned(), shown_label(name, value).into_owned()));
    shown.collect()
}

fn owned<'l>(pairs: impl Iterator<Item = (&'l str, &'l str)>) -> Pairs {
    pairs.map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
}
