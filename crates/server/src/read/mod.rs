//! Routes that read what is stored as it is: labels, exports, federation, remote read.

pub(crate) mod exemplars;
pub(crate) mod export;
mod external_labels;
pub(crate) mod federate;
pub(crate) mod labels;
pub(crate) mod remote_read;
pub(crate) mod resolution;
