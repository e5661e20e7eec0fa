//! What the API shows about targets: copies, so that readers do not block scrapes.

use std::sync::Arc;

use icecore_model::Metadata;
use thiserror::Error;

use super::config::{RelabelAction, RelabelRule, ScrapeConfig, job_text, shown_label};
use super::manager::ScrapeManager;
use super::relabel::{self, LabelSet};
use super::target::Target;
use icecore_settings::{Choice as _, duration};

/// Bytes of labels that the steps of relabelling are shown for. Those of a target are a hundredth
/// of it; rules can double a text with every step.
pub const RELABEL_BYTES_MAX: usize = 1 << 20;

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

/// The effect of one rule on the labels of a target.
#[derive(Debug, PartialEq, Eq)]
pub struct RelabelStep {
    pub source_labels: Vec<String>,
    pub separator: String,
    pub regex: String,
    /// 0 for none.
    pub modulus: u64,
    pub target_label: String,
    pub replacement: String,
    pub action: &'static str,
    /// Empty once the target is dropped.
    pub output: Pairs,
    /// Unset once the target is dropped.
    pub keep: bool,
}

/// The error of labels that are, or would become, larger than [`RELABEL_BYTES_MAX`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "labels of more than {} bytes are not relabelled here",
    RELABEL_BYTES_MAX
)]
pub struct LabelsTooLarge;

impl ScrapeManager {
    /// The configuration of a job as YAML, secrets masked; `None` for a job that does not exist.
    pub fn pool_config(&self, name: &str) -> Option<String> {
        Some(job_text(&*self.config_of(name)?))
    }

    /// Relabels the labels of a target of a job, rule by rule; `None` for a job that does not
    /// exist.
    pub fn relabel_steps(
        &self,
        name: &str,
        labels: impl IntoIterator<Item = (String, String)>,
    ) -> Option<Result<Vec<RelabelStep>, LabelsTooLarge>> {
        let config = self.config_of(name)?;
        Some(steps_of(&config.relabel, labels.into_iter().collect()))
    }

    fn config_of(&self, name: &str) -> Option<Arc<ScrapeConfig>> {
        let views = self.views();
        let view = views.iter().find(|view| view.name == name)?;
        Some(view.config())
    }

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

fn steps_of(
    rules: &[RelabelRule],
    mut labels: LabelSet,
) -> Result<Vec<RelabelStep>, LabelsTooLarge> {
    let mut keep = true;
    let mut steps = Vec::with_capacity(rules.len());
    let mut shown_bytes = 0;
    check_size(&labels)?;
    for rule in rules {
        keep = keep && relabel::apply_one(rule, &mut labels);
        let output = if keep { pairs_of(&labels) } else { Vec::new() };
        // All steps are shown together.
        let sizes = output.iter().map(|(name, value)| name.len() + value.len());
        shown_bytes += sizes.sum::<usize>();
        if shown_bytes > RELABEL_BYTES_MAX {
            return Err(LabelsTooLarge);
        }
        steps.push(RelabelStep {
            source_labels: rule.source_labels.clone(),
            separator: rule.separator.clone(),
            regex: rule.regex.pattern().to_owned(),
            modulus: rule.modulus,
            target_label: rule.target_label.clone(),
            replacement: shown_label(&rule.target_label, &rule.replacement).into_owned(),
            action: RelabelAction::word(rule.action),
            output,
            keep,
        });
        check_size(&labels)?;
    }
    Ok(steps)
}

fn check_size(labels: &LabelSet) -> Result<(), LabelsTooLarge> {
    let sizes = labels.iter().map(|(name, value)| name.len() + value.len());
    if sizes.sum::<usize>() > RELABEL_BYTES_MAX {
        return Err(LabelsTooLarge);
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::rules;

    fn labels(pairs: &[(&str, &str)]) -> LabelSet {
        pairs.iter().copied().collect()
    }

    #[test]
    fn steps_show_what_each_rule_does() {
        let rules = rules(
            "[{source_labels: [a], target_label: b}, {action: drop, source_labels: [b], regex: x}, \
             {target_label: c, replacement: d}]",
        );
        let kept = steps_of(&rules, labels(&[("a", "y")])).unwrap();
        let outputs: Vec<_> = kept
            .iter()
            .map(|step| (step.output.len(), step.keep))
            .collect();
        assert_eq!(outputs, [(2, true), (2, true), (3, true)]);
        assert_eq!((kept[0].action, &*kept[0].regex), ("replace", "(.*)"));
        let dropped = steps_of(&rules, labels(&[("a", "x")])).unwrap();
        let outputs = dropped.iter().map(|step| (step.output.len(), step.keep));
        assert_eq!(
            outputs.collect::<Vec<_>>(),
            [(2, true), (0, false), (0, false)]
        );
    }

    #[test]
    fn no_rule_makes_labels_as_large_as_it_likes() {
        let doubling = "{source_labels: [a], target_label: a, replacement: $1$1}";
        let rules = rules(&format!("[{}]", [doubling; 30].join(", ")));
        let steps = steps_of(&rules, labels(&[("a", "0123456789")]));
        assert_eq!(steps, Err(LabelsTooLarge));
        let large = "x".repeat(RELABEL_BYTES_MAX);
        assert_eq!(
            steps_of(&[], labels(&[("a", large.as_str())])),
            Err(LabelsTooLarge)
        );
    }

    #[test]
    fn secrets_of_labels_are_not_shown() {
        let rules = rules("[{target_label: __param_token, replacement: hidden}]");
        let steps = steps_of(&rules, labels(&[])).unwrap();
        let text = format!("{steps:?}");
        assert!(!text.contains("hidden"), "{text}");
    }
}
