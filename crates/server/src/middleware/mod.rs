//! What requests go through on their way to a handler, and answers on their way back.
//!
//! Holds always: an error becomes a status in `error` and nowhere else; nothing here knows a
//! handler.

pub(crate) mod body;
pub(crate) mod compress;
pub(crate) mod cross_site;
pub(crate) mod decompress;
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod limits;
pub(crate) mod origins;
pub(crate) mod page;
pub(crate) mod params;
pub(crate) mod redirect;
pub(crate) mod rfc3339;
pub(crate) mod route;
