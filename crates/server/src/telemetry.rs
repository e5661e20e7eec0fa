//! Logging: `tracing` events on standard error.
//!
//! Standard output stays free for what a command was asked to print.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use icecore_settings::Choice as _;
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogLevel, LogOptions};

/// Libraries whose lines at `info` are about their own housekeeping, not about this process.
const QUIET_LIBRARIES: &str = "slatedb=warn,hyper=warn,object_store=warn";

/// Starts logging. Does nothing where a subscriber is already installed.
pub(crate) fn start(options: LogOptions) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(options.level))
        .with_writer(std::io::stderr);
    match options.format {
        LogFormat::Text => {
            let builder = builder
                .with_ansi(std::io::stderr().is_terminal())
                .with_target(false)
                .with_filter_reloading();
            let handle = builder.reload_handle();
            if builder.try_init().is_ok() {
                change_with(move |level| drop(handle.reload(filter(level))));
            }
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            if builder.try_init().is_ok() {
                change_with(move |level| drop(handle.reload(filter(level))));
            }
        }
    }
}

/// How the level of what [`start`] began is changed.
static CHANGE: OnceLock<Box<dyn Fn(LogLevel) + Send + Sync>> = OnceLock::new();

fn change_with(change: impl Fn(LogLevel) + Send + Sync + 'static) {
    // There is one subscriber per process, so there is one way, too.
    let _ = CHANGE.set(Box::new(change));
}

/// Changes the level of the subscriber that [`start`] installed.
pub(crate) fn set_level(level: LogLevel) {
    if let Some(change) = CHANGE.get() {
        change(level);
    }
}

fn filter(level: LogLevel) -> EnvFilter {
    EnvFilter::new(directives(level))
}

/// A level of `debug` or `trace` is meant for everything; otherwise libraries only warn.
fn directives(level: LogLevel) -> String {
    use crate::config::LogLevel::{Debug, Trace};
    match level {
        Debug | Trace => LogLevel::word(level).into(),
        _ => format!("{},{QUIET_LIBRARIES}", LogLevel::word(level)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_understood() {
        for level in [
            LogLevel::Error,
            LogLevel::Warn,
            LogLevel::Info,
            LogLevel::Debug,
            LogLevel::Trace,
        ] {
            let text = directives(level);
            assert!(EnvFilter::try_new(&text).is_ok(), "{text}");
        }
    }
}
