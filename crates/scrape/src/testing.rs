//! Jobs and rules for tests.

use icecore_model::AnchoredRegex;

use super::config::{NameValidation, RelabelAction, RelabelRule, ScrapeConfig, ScrapeSettings};

/// A job with Prometheus' defaults and no targets.
pub(super) fn job() -> ScrapeConfig {
    let mut job = ScrapeSettings::default().plain_job("test");
    job.scrape_interval = std::time::Duration::from_secs(15);
    job.scrape_timeout = std::time::Duration::from_secs(10);
    job
}

/// A rule with one source label (none if it is empty).
pub(super) fn rule(
    action: RelabelAction,
    source: &str,
    regex: &str,
    target_label: &str,
    replacement: &str,
) -> RelabelRule {
    let sources = [source].into_iter().filter(|source| !source.is_empty());
    RelabelRule {
        action,
        source_labels: sources.map(Into::into).collect(),
        separator: ";".into(),
        regex: AnchoredRegex::new(regex).expect("the pattern of a test is valid"),
        modulus: 0,
        target_label: target_label.into(),
        replacement: replacement.into(),
        name_validation: NameValidation::Utf8,
    }
}
