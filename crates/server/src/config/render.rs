//! The effective configuration as text, for `icecore config` and whoever asks the running process.
//!
//! Holds always: given back as a file, it sets every value again, except secrets, which are not in it.

use std::fmt::Write as _;

use icecore_settings::{Kind, without_password, yaml_text};

use super::registry::{SECTIONS, SETTINGS, Setting};
use super::{Config, Source, file};

/// The effective configuration as YAML; see [`Config::render`].
pub(super) fn effective(config: &Config) -> String {
    let mut text = format!("{}:\n", file::SECTION);
    for (section, _) in SECTIONS {
        let _ = writeln!(text, "  {section}:");
        for (setting, source) in std::iter::zip(SETTINGS, &config.sources) {
            if setting.section() == *section {
                let value = shown(setting, config);
                let line = format!("    {}: {value}", setting.name());
                let _ = writeln!(text, "{line:<55} # {}", origin(source, config));
            }
        }
    }
    text
}

/// Flag and value of every setting; secrets are shown as `<secret>`.
pub(super) fn flags(config: &Config) -> Vec<(String, String)> {
    let value = |setting: &Setting| match setting.kind {
        Kind::Text | Kind::Location => without_password(&(setting.read)(config)),
        _ => (setting.read)(config),
    };
    SETTINGS
        .iter()
        .map(|setting| (setting.flag(), value(setting)))
        .collect()
}

fn shown(setting: &Setting, config: &Config) -> String {
    let value = (setting.read)(config);
    match setting.kind {
        Kind::Text | Kind::Location => yaml_text(&without_password(&value)),
        Kind::Secret | Kind::Names => yaml_text(&value),
        // Numbers and words, and addresses, which are quoted because some contain brackets.
        Kind::Address | Kind::OptionalAddress => yaml_text(&value),
        _ => value,
    }
}

fn origin(source: &Source, config: &Config) -> String {
    match source {
        Source::Default => "default".into(),
        Source::File(at) => {
            let file = config.file.as_deref().unwrap_or("".as_ref());
            format!("{} {at}", file.display())
        }
        Source::Environment(name) => name.clone(),
        Source::Flag(flag) => flag.clone(),
    }
}
