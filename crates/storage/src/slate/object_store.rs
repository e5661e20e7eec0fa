//! Builds the object store that a location names.
//!
//! Holds always:
//! - A local store calls fsync on files and directories when the options say so. `object_store`
//!   0.14 syncs the staged file, links or renames it into place, and then syncs the directory that
//!   holds the new entry (and each directory it had to create); only the root directory is ours.
//! - Remote stores need `If-None-Match: *` for fencing; S3 is asked for it explicitly.
//! - One request ends: the client retries few times and for a bounded time. SlateDB retries on top,
//!   and knows after an ambiguous failure whether its object is there.

use std::fs::File;
use std::path::Path as DirectoryPath;
use std::sync::Arc;
use std::time::Duration;

use slatedb::object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use slatedb::object_store::azure::MicrosoftAzureBuilder;
use slatedb::object_store::gcp::GoogleCloudStorageBuilder;
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    self as store, BackoffConfig, ClientOptions, ObjectStore, RetryConfig,
};

use super::kept_directory::{KeptDirectories, KeptStore};
use super::local_creates::LocalCreates;
use super::location::{RemoteService, StoreLocation};
use crate::error::{Error, Reason, Result};
use crate::options::StoreOptions;

/// An object store and where in it the database lies.
#[derive(Clone)]
pub(crate) struct OpenedStore {
    /// What SlateDB is opened on.
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The same without anything of ours in between.
    pub(crate) raw: Arc<dyn ObjectStore>,
    pub(crate) path: Path,
    pub(crate) location: StoreLocation,
    /// The directories of a local store that is opened for writing.
    pub(crate) directories: Option<Arc<KeptDirectories>>,
}

/// Builds the store of `options.location`, or takes `store_override` in its place.
///
/// The override stands for the raw store, so that tests put faults below everything that is ours.
/// `create` makes a missing local directory; a reader must not.
pub(crate) fn open_store(
    options: &StoreOptions,
    store_override: Option<Arc<dyn ObjectStore>>,
    create: bool,
) -> Result<OpenedStore> {
    let location = StoreLocation::parse(&options.location)?;
    let raw = match store_override {
        Some(raw) => raw,
        None => build(&location, options, create)?,
    };
    let path = Path::from(location.database_path());
    let directories = match location.directory() {
        Some(directory) if create => Some(Arc::new(kept(directory, &path)?)),
        _ => None,
    };
    let mut store = Arc::clone(&raw);
    if let Some(directories) = &directories {
        store = Arc::new(KeptStore::new(store, Arc::clone(directories)));
    }
    if location.is_local() {
        store = Arc::new(LocalCreates::new(store));
    }
    Ok(OpenedStore {
        store,
        raw,
        path,
        location,
        directories,
    })
}

fn kept(directory: &DirectoryPath, path: &Path) -> Result<KeptDirectories> {
    KeptDirectories::new(directory, path).map_err(|cause| {
        Error::Invalid(
            format!(
                "cannot open the storage directory {}: {cause}",
                directory.display()
            )
            .into(),
        )
    })
}

fn build(
    location: &StoreLocation,
    options: &StoreOptions,
    create: bool,
) -> Result<Arc<dyn ObjectStore>> {
    let built = match location {
        StoreLocation::Memory => return Ok(Arc::new(InMemory::new())),
        StoreLocation::Local(directory) => return local(directory, options, create),
        StoreLocation::Remote {
            service: RemoteService::S3,
            bucket,
            ..
        } => s3(bucket, options),
        StoreLocation::Remote {
            service: RemoteService::Gcs,
            bucket,
            ..
        } => GoogleCloudStorageBuilder::from_env()
            .with_bucket_name(bucket)
            .with_retry(client_retries())
            .with_client_options(client_options())
            .build()
            .map(|gcs| Arc::new(gcs) as Arc<dyn ObjectStore>),
        StoreLocation::Remote {
            service: RemoteService::Azure,
            bucket,
            ..
        } => MicrosoftAzureBuilder::from_env()
            .with_container_name(bucket)
            .with_retry(client_retries())
            .with_client_options(client_options())
            .build()
            .map(|azure| Arc::new(azure) as Arc<dyn ObjectStore>),
    };
    built.map_err(|cause| {
        let what = format!("cannot use {location}");
        Error::Invalid(Reason::caused(what, cause))
    })
}

fn local(
    directory: &DirectoryPath,
    options: &StoreOptions,
    create: bool,
) -> Result<Arc<dyn ObjectStore>> {
    let refused = |what: &str, cause: &dyn std::fmt::Display| {
        Error::Invalid(
            format!(
                "cannot {what} the storage directory {}: {cause}",
                directory.display()
            )
            .into(),
        )
    };
    if create {
        create_directory(directory, options.fsync).map_err(|cause| refused("create", &cause))?;
    }
    LocalFileSystem::new_with_prefix(directory)
        .map(|local| Arc::new(local.with_fsync(options.fsync)) as Arc<dyn ObjectStore>)
        .map_err(|cause| refused("open", &cause))
}

/// Creates the directory and, with `fsync`, makes each new directory entry durable: a database
/// whose root disappears on power loss has lost everything below it.
fn create_directory(directory: &DirectoryPath, fsync: bool) -> std::io::Result<()> {
    let absolute = std::path::absolute(directory)?;
    let first_missing = absolute
        .ancestors()
        .take_while(|ancestor| !ancestor.exists())
        .last()
        .map(DirectoryPath::to_path_buf);
    std::fs::create_dir_all(&absolute)?;
    let Some(first_missing) = first_missing.filter(|_| fsync) else {
        return Ok(());
    };
    for created in absolute.ancestors() {
        if let Some(parent) = created.parent() {
            File::open(parent)?.sync_all()?;
        }
        if created == first_missing {
            break;
        }
    }
    Ok(())
}

fn s3(bucket: &str, options: &StoreOptions) -> store::Result<Arc<dyn ObjectStore>> {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(client_retries());
    if !options.endpoint.is_empty() {
        builder = builder.with_endpoint(&options.endpoint);
    }
    if !options.region.is_empty() {
        builder = builder.with_region(&options.region);
    }
    if !options.access_key_id.is_empty() {
        builder = builder.with_access_key_id(&options.access_key_id);
    }
    if !options.secret_access_key.is_empty() {
        builder = builder.with_secret_access_key(&options.secret_access_key);
    }
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    // AWS itself is addressed by host name, as it recommends, unless a dot in the bucket's name
    // would not match its certificate. The setting is for other servers.
    let path_style = match endpoint {
        Some(_) => options.path_style,
        None => bucket.contains('.'),
    };
    let plain_http = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    builder
        .with_virtual_hosted_style_request(!path_style)
        .with_client_options(client_options().with_allow_http(plain_http))
        .build()
        .map(|s3| Arc::new(s3) as Arc<dyn ObjectStore>)
}

/// Retries inside one request of SlateDB: enough for a dropped connection, so few that a wrong
/// endpoint is reported within seconds. SlateDB repeats the request `retries_max` times.
fn client_retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: 3,
        retry_timeout: Duration::from_secs(60),
    }
}

fn client_options() -> ClientOptions {
    ClientOptions::new()
        // A host that does not answer is not going to: the handshake takes milliseconds.
        .with_connect_timeout(Duration::from_secs(5))
        // Room for one part of an SST over a slow line.
        .with_timeout(Duration::from_secs(60))
}
