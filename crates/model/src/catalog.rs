//! The catalog: small records beside samples, for example names, identifiers and descriptions.
//!
//! They are written with the samples of a request ([`crate::SampleSink::catalog`]), so that a
//! record is durable before the samples that need it are acknowledged. A change is seen by reads
//! from its append on.

use std::ops::Range;

use crate::{BoxFuture, StoreError};

/// A record that is written, or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogChange {
    /// Begins with what tells the users of the catalog apart.
    pub key: Vec<u8>,
    /// `None` removes the record.
    pub value: Option<Vec<u8>>,
}

/// A record of the catalog.
pub type CatalogRecord = (Vec<u8>, Vec<u8>);

/// Reads the catalog.
pub trait Catalog: Send + Sync {
    /// Records in key order, at most `limit`.
    fn range(
        &self,
        keys: Range<Vec<u8>>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<CatalogRecord>, StoreError>>;
}
