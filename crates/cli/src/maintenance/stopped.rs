//! A database that no server runs on, opened by this process as its writer.
//!
//! Holds always: a location without a database is an error, never a new database.

use anyhow::Context as _;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use icecore_server::{Config, SETTINGS, process_clock};
use icecore_server::{write_maintenance_report, write_maintenance_status};
use icecore_storage::inspect::Inspector;
use icecore_storage::{Database, Environment};
use serde_json::Value;

use crate::settings::{CONFIG, SettingsArgs};

/// The setting whose flag chooses a stopped database.
const LOCATION: &str = "storage.location";

const LOCATION_HELP: &str = "Work on the stopped database there instead of asking a server: a directory, or a URL. \
     It is opened as the writer: a directory that a server has open is refused, on an object store the server stops";

/// The settings of a stopped database; they make no sense without its location.
pub(super) struct StoppedArgs(SettingsArgs);

impl StoppedArgs {
    /// The settings, if a stopped database was named.
    pub(super) fn settings(self) -> Option<SettingsArgs> {
        self.0.gives(LOCATION).then_some(self.0)
    }
}

impl FromArgMatches for StoppedArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        SettingsArgs::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Args for StoppedArgs {
    fn augment_args(command: Command) -> Command {
        let command = SettingsArgs::augment_args(command).mut_arg(LOCATION, |flag| {
            flag.help(LOCATION_HELP)
                .conflicts_with_all(["server", "headers"])
        });
        let others = SETTINGS.iter().map(|setting| setting.key);
        let others = others.filter(|key| *key != LOCATION).chain([CONFIG]);
        others.fold(command, |command, key| {
            command.mut_arg(key, |flag| flag.requires(LOCATION).hide_short_help(true))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

pub(super) struct StoppedDatabase(Database);

impl StoppedDatabase {
    pub(super) async fn open(config: &Config) -> anyhow::Result<Self> {
        let mut options = config.storage_options();
        // A writer would make a new database where there is none; a reader says so.
        Inspector::open(&options.store).await?.close().await?;
        // Only the requested run, no automatic ones.
        options.maintenance.enabled = false;
        let location = options.store.location.clone();
        let environment = Environment {
            clock: Some(process_clock()),
            ..Environment::default()
        };
        let opened = Database::open(options, environment).await;
        let database = opened.with_context(|| format!("cannot open the database at {location}"))?;
        database.set_retention(config.retention.clone());
        Ok(Self(database))
    }

    pub(super) fn status(&self) -> anyhow::Result<Value> {
        let mut json = Vec::new();
        write_maintenance_status(&mut json, &self.0.maintenance_status());
        Ok(serde_json::from_slice(&json)?)
    }

    pub(super) async fn run(&self) -> anyhow::Result<Value> {
        let report = self.0.run_maintenance().await?;
        let mut json = Vec::new();
        write_maintenance_report(&mut json, &report);
        Ok(serde_json::from_slice(&json)?)
    }

    pub(super) async fn close(&self) -> anyhow::Result<()> {
        Ok(self.0.close().await?)
    }
}
