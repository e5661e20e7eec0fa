//! The running process: configuration, listeners, lifecycle.
//!
//! ```text
//! Config ─► Process ─┬─► Database (opened while /-/healthy is already answered)
//!                    └─► listener ─► routes ─► handlers: write, read, query, admin, status
//!                                                 └─► wire, Database
//! ```
//!
//! Holds always: this is the only place where protocols and storage meet.

mod admin;
mod app;
mod clock;
mod config;
mod events;
mod listener;
mod maintenance;
mod metrics;
mod middleware;
mod notifications;
mod openapi;
mod opentsdb;
mod process;
mod queries;
mod query;
mod read;
mod reload;
mod retention;
mod routes;
mod search;
mod service_manager;
mod status;
mod stored_names;
mod telemetry;
mod ui;
mod usage;
mod write;

pub use clock::{CLOCK_VARIABLE, process_clock};
pub use config::{
    Config, ConfigError, EventSettings, FILE_VARIABLE, FileOptions, Inputs, Kind, ListenAddress,
    LogFormat, LogLevel, LogOptions, OpenTsdbOptions, OriginPattern, OtlpLogs, Position, Problem,
    QueryOptions, SECTIONS, SETTINGS, ScrapeOptions, ServerOptions, Setting, Source, TsdbOptions,
    read_policy_file,
};
pub use icecore_access::Role;
pub use icecore_settings::{Unsupported, without_secrets};
pub use listener::{ConnectionHandler, LineConnection, LineProtocol};
pub use maintenance::{write_maintenance_report, write_maintenance_status};
pub use middleware::route::Route;
pub use process::{Process, ServeError, run};
pub use routes::ROUTES;
pub use status::retention::retention_status;
