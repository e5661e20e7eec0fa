//! Routes that store: remote write, OTLP over HTTP and gRPC, imports.

pub(crate) mod grpc;
pub(crate) mod import;
mod otlp;
pub(crate) mod otlp_http;
mod otlp_logs;
pub(crate) mod remote_write;
