//! The running process: configuration, HTTP doors, lifecycle.

mod config;

pub use config::{
    Config, ConfigError, FILE_VARIABLE, Inputs, Kind, ListenAddress, LogFormat, LogLevel,
    LogOptions, Position, Problem, SECTIONS, SETTINGS, ServerOptions, Setting, Source,
};
