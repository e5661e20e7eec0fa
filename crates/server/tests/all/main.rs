//! The process as its clients meet it: a real socket, real requests, the public surface only.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::print_stdout,
    reason = "which scripts ran, and which were skipped, should be seen"
)]

mod access;
mod admin;
mod bad_input;
mod client;
mod compression;
mod conformance;
mod connections;
mod cross_site;
mod documents;
mod events;
mod exposition;
mod expressions;
mod federate;
mod importing;
mod lifecycle;
mod maintenance;
mod metric_names;
mod opentsdb;
mod opentsdb_numbers;
mod opentsdb_rolled;
mod otlp;
mod payload;
mod prometheus;
mod prometheus_api;
mod query;
mod query_columns;
mod query_limits;
mod reading;
mod reads;
mod refusals;
mod reloading;
mod remote_read;
mod rolled_time;
mod scrape;
mod scrape_client;
mod scrape_commits;
mod scrape_options;
mod scrape_status;
mod scrape_target;
mod scraper;
mod served;
mod status;
mod tls_client;
mod tsdb_retention;
mod ui;
mod writing;
