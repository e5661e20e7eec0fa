//! Settings that can be given in a file, by a flag and by a variable, under names that follow from
//! one key.

use std::fmt::Write as _;

use crate::format::Kind;
use crate::problem::{Problem, nearest};
use crate::render::{without_password, yaml_text};
use crate::sources::{Source, Sources};
use crate::text::BadValue;

/// Our section of the configuration file.
pub const SECTION: &str = "icecore";

pub(crate) const VARIABLE_PREFIX: &str = "ICECORE_";

/// All settings of a program whose values are kept in a `C`.
pub struct Registry<C: 'static> {
    /// The sections in the order in which they are documented, with a heading for each.
    pub sections: &'static [(&'static str, &'static str)],
    /// Every setting, in the order in which they are documented.
    pub settings: &'static [Setting<C>],
}

impl<C> Registry<C> {
    pub fn index_of(&self, key: &str) -> Option<usize> {
        self.settings.iter().position(|setting| setting.key == key)
    }

    pub(crate) fn is_section(&self, name: &str) -> bool {
        self.settings
            .iter()
            .filter_map(|setting| setting.key.strip_prefix(name))
            .any(|rest| rest.starts_with('.'))
    }

    pub fn default_sources(&self) -> Sources {
        Sources {
            file: None,
            values: vec![Source::Default; self.settings.len()],
        }
    }

    /// Where the value of a setting came from; `None` for a key that does not exist.
    pub fn source<'s>(&self, key: &str, sources: &'s Sources) -> Option<&'s Source> {
        sources.values.get(self.index_of(key)?)
    }

    /// A problem with the value of a setting, under the name and at the place where it was given.
    pub fn problem(&self, key: &str, reason: &str, sources: &Sources) -> Problem {
        let in_file = format!("{SECTION}.{key}");
        match (self.source(key, sources), &sources.file) {
            (Some(Source::Flag(name) | Source::Environment(name)), _) => Problem::new(name, reason),
            (Some(Source::File(at)), Some(path)) => Problem::new(in_file, reason).at(path, *at),
            _ => Problem::new(in_file, reason),
        }
    }

    /// The key or section that a misspelt key most likely means: spelt nearly the same, or of the
    /// same name in another section.
    pub(crate) fn suggest(&self, key: &str) -> Option<&'static str> {
        let last = key.rsplit('.').next().unwrap_or(key);
        let keys = self.settings.iter().map(|setting| setting.key);
        let sections = self.sections.iter().map(|(name, _)| *name);
        let names = || self.settings.iter().map(Setting::name);
        let of_name = |name| self.settings.iter().find(|setting| setting.name() == name);
        nearest(key, keys.chain(sections)).or_else(|| {
            let setting = of_name(last).or_else(|| of_name(nearest(last, names())?));
            setting.map(|setting| setting.key)
        })
    }

    /// All values as YAML that can be given back as a file, each line with where its value came
    /// from. Secrets are masked.
    pub fn render(&self, config: &C, sources: &Sources) -> String {
        let mut text = format!("{SECTION}:\n");
        for (section, _) in self.sections {
            let _ = writeln!(text, "  {section}:");
            for (setting, source) in std::iter::zip(self.settings, &sources.values) {
                if setting.section() == *section {
                    let value = match setting.kind {
                        // Text may need quotes, and so do addresses that contain brackets.
                        Kind::Text
                        | Kind::Location
                        | Kind::Secret
                        | Kind::Names
                        | Kind::Address
                        | Kind::OptionalAddress => yaml_text(&setting.masked(config)),
                        _ => (setting.read)(config),
                    };
                    let line = format!("    {}: {value}", setting.name());
                    let _ = writeln!(text, "{line:<55} # {}", sources.describe(source));
                }
            }
        }
        text
    }

    /// Flag and value of every setting, in the order in which they are documented. Secrets are
    /// masked.
    pub fn flags(&self, config: &C) -> Vec<(String, String)> {
        let settings = self.settings.iter();
        let pairs = settings.map(|setting| (setting.flag(), setting.masked(config)));
        pairs.collect()
    }
}

/// One setting: its name, what it holds, and why one would change it.
pub struct Setting<C: 'static> {
    /// `section.name`, as nested maps in the file: `icecore: {section: {name: …}}`.
    pub key: &'static str,
    pub kind: Kind,
    /// One line: what it does, what happens at the limit, why the default is what it is.
    pub what: &'static str,
    /// Least and most, in the setting's own text form; empty where there is none.
    pub bounds: (&'static str, &'static str),
    /// A shorter flag name (without dashes) for what is given at nearly every start.
    pub short_name: Option<&'static str>,
    /// Its value in `C`.
    pub read: fn(&C) -> String,
    /// Sets it in `C`, or says what was expected.
    pub write: fn(&mut C, &str) -> Result<(), BadValue>,
}

impl<C> Setting<C> {
    /// `--storage.block-cache-bytes`, without the dashes; the short name where there is one.
    pub fn flag(&self) -> String {
        self.short_name.map_or_else(|| self.long_flag(), Into::into)
    }

    /// The flag name by the rule, which also works where there is a short one.
    pub fn long_flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// `ICECORE_STORAGE_BLOCK_CACHE_BYTES`.
    pub fn variable(&self) -> String {
        variable(self.key)
    }

    /// `ICECORE_LISTEN` beside `ICECORE_SERVER_LISTEN`, where the setting has a short name.
    pub fn short_variable(&self) -> Option<String> {
        self.short_name.map(variable)
    }

    /// The part before the first dot.
    pub fn section(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// The part after the first dot.
    pub fn name(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(_, name)| name)
    }

    /// Whether its value must not be shown to anybody.
    pub fn is_secret(&self) -> bool {
        self.kind == Kind::Secret
    }

    /// Its value without credentials.
    fn masked(&self, config: &C) -> String {
        let value = (self.read)(config);
        match self.kind {
            Kind::Text | Kind::Location => without_password(&value),
            _ => value,
        }
    }

    /// The default in text form.
    pub fn default_value(&self) -> String
    where
        C: Default,
    {
        (self.read)(&C::default())
    }
}

fn variable(name: &str) -> String {
    format!(
        "{VARIABLE_PREFIX}{}",
        name.replace(['.', '-'], "_").to_uppercase()
    )
}

/// A row of the table of settings: key, format, field, then a short name or bounds, then what it
/// does.
#[macro_export]
macro_rules! setting {
    ($key:literal, $format:ty, $($field:ident).+, $what:literal) => {
        $crate::Setting {
            key: $key,
            kind: <$format as $crate::Format>::KIND,
            what: $what,
            bounds: ("", ""),
            short_name: None,
            read: |config| <$format as $crate::Format>::show(&config.$($field).+),
            write: |config, text| {
                config.$($field).+ = <$format as $crate::Format>::parse(text)?;
                Ok(())
            },
        }
    };
    ($key:literal, $format:ty, $($field:ident).+, short $short:literal, $what:literal) => {
        $crate::Setting {
            short_name: Some($short),
            ..$crate::setting!($key, $format, $($field).+, $what)
        }
    };
    ($key:literal, $format:ty, $($field:ident).+, $least:literal to $most:literal, $what:literal) => {
        $crate::Setting {
            bounds: ($least, $most),
            write: |config, text| {
                config.$($field).+ = $crate::parse_within::<$format>(text, ($least, $most))?;
                Ok(())
            },
            ..$crate::setting!($key, $format, $($field).+, $what)
        }
    };
}
