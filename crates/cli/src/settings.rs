//! The flags of all settings, made from the server's registry: there is no second list of them.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use icecore_server::{
    Config, ConfigError, FILE_VARIABLE, Inputs, Kind, SECTIONS, SETTINGS, Setting,
};

/// The name of the flag that names the file.
pub(crate) const CONFIG: &str = "config";

/// Short for `--scrape.self=false`.
pub(crate) const NO_SELF_SCRAPE: &str = "no-self-scrape";
const SELF_SCRAPE: &str = "scrape.self";

/// What the command line says about settings. Flatten it into a subcommand that needs a [`Config`].
pub(crate) struct SettingsArgs {
    file: Option<PathBuf>,
    flags: Vec<(String, String)>,
}

impl SettingsArgs {
    /// Whether the command line has the flag of this setting.
    pub(crate) fn gives(&self, key: &str) -> bool {
        self.flags.iter().any(|(given, _)| given == key)
    }

    /// Puts flags, environment and file together.
    pub(crate) fn load(self) -> Result<Config, ConfigError> {
        Config::load(&Inputs {
            file: self.file,
            environment: std::env::vars_os().collect(),
            flags: self.flags,
        })
    }
}

impl FromArgMatches for SettingsArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: &Setting| {
            let text = matches.get_one::<String>(setting.key)?;
            Some((setting.key.to_owned(), text.clone()))
        };
        let mut flags: Vec<_> = SETTINGS.iter().filter_map(given).collect();
        if matches.get_flag(NO_SELF_SCRAPE) {
            flags.push((SELF_SCRAPE.to_owned(), "false".to_owned()));
        }
        Ok(Self {
            file: matches.get_one::<PathBuf>(CONFIG).cloned(),
            flags,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for SettingsArgs {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(format!(
                "Prometheus configuration file; our settings are in section icecore: [env: {FILE_VARIABLE}]"
            ));
        let no_self_scrape = Arg::new(NO_SELF_SCRAPE)
            .long(NO_SELF_SCRAPE)
            .action(ArgAction::SetTrue)
            .conflicts_with(SELF_SCRAPE)
            .help("Do not scrape this process itself: --scrape.self=false");
        // The few that most people need come first and in the short help too.
        let (common, rest): (Vec<_>, Vec<_>) = SETTINGS
            .iter()
            .partition(|setting| setting.short_name.is_some() || setting.key == setting.section());
        command
            .arg(file)
            .arg(no_self_scrape)
            .args(common.into_iter().rev().map(|setting| {
                // A switch is for one start, not for each.
                flag(setting).hide_short_help(setting.kind == Kind::Bool)
            }))
            .args(rest.into_iter().map(|setting| {
                flag(setting)
                    .help_heading(heading(setting))
                    .hide_short_help(setting.section() != "log")
            }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag(setting: &'static Setting) -> Arg {
    let flag = Arg::new(setting.key)
        .long(setting.flag())
        .value_name(placeholder(setting.kind))
        .action(ArgAction::Set)
        .help(help(setting));
    let flag = match setting.short_name {
        Some(_) => flag.alias(setting.long_flag()),
        None => flag,
    };
    match setting.kind {
        // `--storage.compaction` alone reads as what it says.
        Kind::Bool => flag.num_args(0..=1).default_missing_value("true"),
        _ => flag,
    }
}

fn help(setting: &Setting) -> String {
    let variable = setting
        .short_variable()
        .unwrap_or_else(|| setting.variable());
    let default = match setting.default_value() {
        empty if empty.is_empty() => String::new(),
        default => format!(" [default: {default}]"),
    };
    format!("{}{default} [env: {variable}]", setting.what)
}

fn heading(setting: &Setting) -> &'static str {
    SECTIONS
        .iter()
        .find_map(|(section, heading)| (*section == setting.section()).then_some(*heading))
        .unwrap_or("Options")
}

fn placeholder(kind: Kind) -> String {
    match kind {
        Kind::Duration | Kind::AutoDuration => "DURATION".into(),
        Kind::Size | Kind::AutoSize => "SIZE".into(),
        Kind::Integer => "NUMBER".into(),
        Kind::Bool => "true|false".into(),
        Kind::Text => "TEXT".into(),
        Kind::Location => "PATH_OR_URL".into(),
        Kind::Address | Kind::OptionalAddress => "ADDRESS:PORT".into(),
        Kind::Names => "NAMES".into(),
        Kind::Choice(words) | Kind::Map(words) => words.join("|"),
        Kind::Secret => "SECRET".into(),
    }
}
