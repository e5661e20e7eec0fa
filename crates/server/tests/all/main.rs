//! The process as its clients meet it: a real socket, real requests, the public surface only.

mod client;
mod compression;
mod conformance;
mod documents;
mod exposition;
mod expressions;
mod federate;
mod lifecycle;
mod payload;
mod query;
mod query_limits;
mod reading;
mod refusals;
mod remote_read;
mod served;
mod status;
mod writing;
