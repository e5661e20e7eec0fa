//! Settings that can be given in a file, by a flag and by a variable, under names that follow from one key.

use crate::format::Kind;
use crate::text::BadValue;

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

    /// The default in text form.
    pub fn default_value(&self) -> String
    where
        C: Default,
    {
        (self.read)(&C::default())
    }
}

fn variable(name: &str) -> String {
    format!("ICECORE_{}", name.replace(['.', '-'], "_").to_uppercase())
}

/// A row of the table of settings: key, format, field, then a short name or bounds, then what it does.
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
