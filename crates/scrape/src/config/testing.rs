//! Configurations for tests, made as users make them: from YAML.

use std::path::Path;

use super::{RelabelRule, ScrapeConfig, ScrapeSettings, read};
use icecore_settings::{ConfigError, Problem, yaml};

impl ScrapeSettings {
    /// Reads a configuration file for what it says about scraping.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.into(),
            source,
        })?;
        let invalid = |problem| ConfigError::Invalid(vec![problem]);
        let root = yaml::parse(&text)
            .map_err(|error| invalid(Problem::new("", error.reason).at(path, error.at)))?;
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let (settings, problems) = read(&root, path, &variable, &mut Vec::new());
        if problems.is_empty() {
            Ok(settings)
        } else {
            Err(ConfigError::Invalid(problems))
        }
    }
}

/// Reads `text` as the file `/etc/prometheus.yml`.
pub(crate) fn settings(text: &str) -> Result<ScrapeSettings, Vec<String>> {
    let root = yaml::parse(text).map_err(|error| vec![error.reason])?;
    let variable = |name: &str| format!("<{name}>");
    let path = Path::new("/etc/prometheus.yml");
    let (settings, problems) = read(&root, path, &variable, &mut Vec::new());
    if problems.is_empty() {
        return Ok(settings);
    }
    Err(problems.iter().map(ToString::to_string).collect())
}

/// The one job whose keys are given, without its name.
#[track_caller]
pub(crate) fn job_of(keys: &str) -> ScrapeConfig {
    let keys = keys.replace('\n', "\n    ");
    let text = format!("scrape_configs:\n  - job_name: test\n    {keys}\n");
    let mut jobs = settings(&text).expect(&text).jobs;
    jobs.pop().expect("one job")
}

#[track_caller]
pub(crate) fn rules(yaml: &str) -> Vec<RelabelRule> {
    job_of(&format!("relabel_configs: {yaml}")).relabel
}
