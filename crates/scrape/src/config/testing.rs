//! Configurations for tests, made as users make them: from YAML.

use std::path::Path;

use super::{RelabelRule, ScrapeConfig, ScrapeSettings, read};
use icecore_settings::{ConfigError, Fields, Problem, SourceFile};

impl ScrapeSettings {
    /// Reads a configuration file for what it says about scraping.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.into(),
            source,
        })?;
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        interpret(&text, path, &variable).map_err(ConfigError::Invalid)
    }
}

/// Reads `text` as the file `/etc/prometheus.yml`.
pub(crate) fn settings(text: &str) -> Result<ScrapeSettings, Vec<String>> {
    let variable = |name: &str| format!("<{name}>");
    interpret(text, Path::new("/etc/prometheus.yml"), &variable)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn interpret(
    text: &str,
    path: &Path,
    variable: &dyn Fn(&str) -> String,
) -> Result<ScrapeSettings, Vec<Problem>> {
    let source = SourceFile::new(path);
    let settings = source.parse(text).map(|root| {
        let mut top = Fields::of(&root, "", &source);
        read(&mut top, variable)
    });
    let problems = source.into_problems();
    settings.filter(|_| problems.is_empty()).ok_or(problems)
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
