//! How the original lays out its tables in HBase, for what comes from there and goes there.

pub(crate) mod value;
