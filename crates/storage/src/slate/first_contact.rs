//! The first request to a store, made before SlateDB is opened on it.
//!
//! SlateDB repeats failed requests many times, so a wrong endpoint would look like a hang. Here one
//! cheap request is made within `open_timeout`, and its failure becomes a message that names the
//! place, the cause and what to do.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use slatedb::object_store::path::Path;
use slatedb::object_store::{self as store, ObjectStore};
use tokio::time::timeout;

use super::location::{RemoteService, StoreLocation};
use super::object_store::OpenedStore;
use crate::error::{Error, Result};
use crate::options::StoreOptions;

/// Asks the store for the manifests of the database.
///
/// Returns whether there are any. A database that does not exist yet is not an error.
pub(crate) async fn first_contact(opened: &OpenedStore, options: &StoreOptions) -> Result<bool> {
    let manifests = Path::from(format!("{}/manifest", opened.path));
    let request = first_entry(Arc::clone(&opened.store), manifests);
    match timeout(options.open_timeout, request).await {
        Ok(Ok(present)) => Ok(present),
        Ok(Err(cause)) => Err(refused(&opened.location, options, &cause)),
        Err(_) => Err(silent(&opened.location, options, options.open_timeout)),
    }
}

async fn first_entry(store: Arc<dyn ObjectStore>, prefix: Path) -> store::Result<bool> {
    Ok(store.list(Some(&prefix)).next().await.transpose()?.is_some())
}

fn refused(location: &StoreLocation, options: &StoreOptions, cause: &store::Error) -> Error {
    let cure = match cause {
        store::Error::NotFound { .. } => {
            "the bucket or container does not exist there: check its name, or create it first"
        }
        store::Error::PermissionDenied { .. } => {
            "the credentials are known but may not list this place: check the policy of the user or role"
        }
        store::Error::Unauthenticated { .. } => {
            "the credentials are missing or wrong: check the access key and secret, or the environment variables"
        }
        _ => match location {
            StoreLocation::Local(_) => "check the directory and its permissions",
            _ => "check endpoint, region, bucket and credentials",
        },
    };
    Error::Unavailable(format!(
        "cannot reach the storage at {}: {}; {cure}",
        place(location, options),
        whole(cause)
    ))
}

fn silent(location: &StoreLocation, options: &StoreOptions, limit: Duration) -> Error {
    // Without credentials the client looks for those of a cloud instance, at an address that only
    // answers inside one.
    let cure = match location {
        StoreLocation::Remote {
            service: RemoteService::S3,
            ..
        } if options.access_key_id.is_empty() => {
            "check endpoint and network, and whether credentials are given (outside AWS there is no instance role to fall back to)"
        }
        StoreLocation::Local(_) => "check the disk or network mount",
        _ => "check endpoint, network and credentials",
    };
    Error::Unavailable(format!(
        "no answer from the storage at {} within {limit:?}; {cure}",
        place(location, options)
    ))
}

fn place(location: &StoreLocation, options: &StoreOptions) -> String {
    if matches!(
        location,
        StoreLocation::Remote {
            service: RemoteService::S3,
            ..
        }
    ) && !options.endpoint.is_empty()
    {
        format!("{location} (endpoint {})", options.endpoint)
    } else {
        location.to_string()
    }
}

/// An error with its sources, because the outermost alone often says only "generic error".
fn whole(cause: &dyn std::error::Error) -> String {
    let mut text = cause.to_string();
    let mut source = cause.source();
    while let Some(inner) = source {
        let shown = inner.to_string();
        if !text.contains(&shown) {
            text.push_str(": ");
            text.push_str(&shown);
        }
        source = inner.source();
    }
    text
}
