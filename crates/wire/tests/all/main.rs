//! The public surface of `wire`, from outside.

mod captured;
mod encode;
mod exposition_captured;
mod exposition_import;
mod exposition_oracle;
mod generate;
mod otlp;
mod remote_write_hostile;
mod remote_write_v1;
mod remote_write_v2;
mod request;
mod sink;
