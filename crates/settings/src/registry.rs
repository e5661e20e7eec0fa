//! Settings that can be given in a file, by a flag and by a variable, under names that follow from
//! one key.

use std::fmt::Write as _;

use crate::fields::Fields;
use crate::format::Kind;
use crate::problem::{Problem, nearest};
use crate::render::{Map, yaml_text};
use crate::secret::without_secrets;
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
            let settings = std::iter::zip(self.settings, &sources.values);
            let settings = settings.filter(|(setting, _)| setting.section() == *section);
            let is_one_setting = self.index_of(section).is_some();
            if !is_one_setting {
                let _ = writeln!(text, "  {section}:");
            }
            let indent = if is_one_setting { 2 } else { 4 };
            for (setting, source) in settings {
                render_setting(
                    &mut text,
                    setting,
                    config,
                    indent,
                    &sources.describe(source),
                );
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

fn render_setting<C>(
    text: &mut String,
    setting: &Setting<C>,
    config: &C,
    indent: usize,
    source: &str,
) {
    let map = setting.map.as_ref().and_then(|form| (form.render)(config));
    let value = match setting.kind {
        _ if map.is_some() => String::new(),
        // Text may need quotes, and so do addresses that contain brackets.
        Kind::Text
        | Kind::Location
        | Kind::Secret
        | Kind::Names
        | Kind::Address
        | Kind::OptionalAddress => yaml_text(&setting.masked(config)),
        _ => (setting.read)(config),
    };
    let line = format!("{:indent$}{}: {value}", "", setting.name());
    let _ = writeln!(text, "{line:<55} # {source}");
    if let Some(map) = map {
        text.push_str(&map.into_indented_text(indent + 2));
    }
}

/// How a setting that is a map in the file is read and rendered there.
pub struct MapForm<C: 'static> {
    /// Reports what is wrong with the map, and changes nothing then.
    pub read: fn(&mut C, Fields<'_>),
    /// `None` where the value is one of the words that may stand in place of the map.
    pub render: fn(&C) -> Option<Map>,
}

/// One setting: its name, what it holds, and why one would change it.
pub struct Setting<C: 'static> {
    /// `section.name`, as nested maps in the file: `icecore: {section: {name: …}}`. A setting that
    /// is a section of its own has no dot.
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
    /// For what is a map in the file.
    pub map: Option<MapForm<C>>,
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

    /// The part before the first dot; all of a key without one.
    pub fn section(&self) -> &'static str {
        let section = self.key.split_once('.').map(|(section, _)| section);
        section.unwrap_or(self.key)
    }

    /// The part after the first dot; all of a key without one.
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
            Kind::Text | Kind::Location => without_secrets(&value),
            Kind::Names => {
                let names = value.split(',').map(without_secrets);
                names.collect::<Vec<_>>().join(",")
            }
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
            map: None,
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
