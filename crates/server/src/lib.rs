//! The running process: configuration, HTTP doors, lifecycle.
//!
//! ```text
//! Config ─► Process ─┬─► Database (opened while the door already answers /-/healthy)
//!                    └─► http: connections ─► router ─► handlers ─► wire, Database
//! ```
//!
//! Holds always: this is the only place where protocols and storage meet.

mod config;
mod http;
mod maintenance;
mod metrics;
mod otlp;
mod process;
mod queries;
mod reload;
mod telemetry;

pub use config::{
    Config, ConfigError, FILE_VARIABLE, Inputs, Kind, ListenAddress, LogFormat, LogLevel,
    LogOptions, OriginPattern, Position, Problem, QueryOptions, SECTIONS, SETTINGS, ScrapeOptions,
    ServerOptions, Setting, Source,
};
pub use http::{ROUTES, Role, Route};
pub use maintenance::{write_maintenance_report, write_maintenance_status};
pub use process::{Process, ServeError, run};
