//! What the process says about itself: `tracing` events on standard error.
//!
//! Standard output stays free for what a command was asked to print.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogOptions};

/// Libraries whose lines at `info` are about their own housekeeping, not about this process.
const QUIET_LIBRARIES: &str = "slatedb=warn,foyer=warn,hyper=warn,object_store=warn";

/// Begins to log. A second call changes nothing: whoever embeds this may have its own subscriber.
pub(crate) fn start(options: LogOptions) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(directives(options)))
        .with_writer(std::io::stderr);
    let _ = match options.format {
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

/// A level of `debug` or `trace` is meant for everything; otherwise libraries only warn.
fn directives(options: LogOptions) -> String {
    use crate::config::LogLevel::{Debug, Trace};
    let level = options.level.as_str();
    match options.level {
        Debug | Trace => level.into(),
        _ => format!("{level},{QUIET_LIBRARIES}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LogLevel;

    #[test]
    fn every_level_is_understood() {
        for level in [
            LogLevel::Error,
            LogLevel::Warn,
            LogLevel::Info,
            LogLevel::Debug,
            LogLevel::Trace,
        ] {
            let options = LogOptions {
                level,
                ..LogOptions::default()
            };
            let text = directives(options);
            assert!(EnvFilter::try_new(&text).is_ok(), "{text}");
        }
    }
}
