//! The first requests to a store, made before SlateDB is opened on it.
//!
//! SlateDB repeats failed requests many times, so a wrong endpoint would look like a hang. Here a
//! few cheap requests are made within `open_timeout`, and a failure becomes a message that names
//! the place, the cause and what to do.
//!
//! A writer also proves that the store keeps "create only if absent". Fencing rests on it, and
//! there are S3-compatible servers that ignore the condition and overwrite: with those, two writers
//! would silently destroy each other's data.

use std::time::Duration;

use futures::StreamExt;
use slatedb::object_store::path::Path;
use slatedb::object_store::{self as store, PutMode, PutOptions, PutPayload};
use tokio::time::timeout;

use super::location::{RemoteService, StoreLocation};
use super::object_store::OpenedStore;
use crate::error::{Error, Result, with_sources, without_document};
use crate::options::StoreOptions;

/// A request is tried this often: a lone hiccup at start-up is no reason to give up.
const ATTEMPTS: u32 = 5;

const PAUSE: Duration = Duration::from_millis(200);

/// What is written to see whether anything can be.
pub(super) const PROBE: &[u8] = b"icecore checks that files are created only once\n";

/// Where SlateDB keeps what was written. It writes a manifest before the first of these.
const DATA: [&str; 2] = ["wal", "compacted"];

/// Whether there is a database at the place. That there is none yet is not an error; that there is
/// a part of one without its manifest is: a new one would be made over it, and what it holds be
/// lost.
pub(crate) async fn look(opened: &OpenedStore, options: &StoreOptions) -> Result<bool> {
    if first_below(opened, options, "manifest").await?.is_some() {
        return Ok(true);
    }
    for data in DATA {
        let Some(left) = first_below(opened, options, data).await? else {
            continue;
        };
        // Somebody may have made the database meanwhile.
        if first_below(opened, options, "manifest").await?.is_some() {
            return Ok(true);
        }
        return Err(Error::Corrupt(format!(
            "there is a part of a database at {}, {left}, and no manifest in {}/manifest, without which it cannot be read: bring the manifest back, or move away what is left of {} to begin anew",
            place(&opened.location, options),
            opened.path,
            opened.path
        ).into()));
    }
    Ok(false)
}

/// The same for who looks again and again: one request.
pub(crate) async fn is_there(opened: &OpenedStore, options: &StoreOptions) -> Result<bool> {
    let prefix = Path::from(format!("{}/manifest", opened.path));
    let mut listing = opened.store.list(Some(&prefix));
    match timeout(options.open_timeout, listing.next()).await {
        Ok(first) => match first.transpose() {
            Ok(first) => Ok(first.is_some()),
            Err(cause) => Err(refused(&opened.location, options, &cause)),
        },
        Err(_) => Err(silent(&opened.location, options)),
    }
}

/// Some object in a part of the database.
async fn first_below(
    opened: &OpenedStore,
    options: &StoreOptions,
    part: &str,
) -> Result<Option<Path>> {
    let prefix = Path::from(format!("{}/{part}", opened.path));
    let first = within(opened, options, async || {
        let mut listing = opened.store.list(Some(&prefix));
        let first = listing.next().await.transpose()?;
        Ok(first.map(|object| object.location))
    });
    first.await
}

/// Whether the place can be written to, and only once under one name.
///
/// The probe stays where it is, so that all later starts need one request. The raw store is asked:
/// `LocalCreates` would take the probe of an earlier start for its own after a failed attempt.
pub(crate) async fn prove_create(opened: &OpenedStore, options: &StoreOptions) -> Result<()> {
    if opened.location.is_memory() {
        return Ok(());
    }
    let probe = Path::from(format!("{}-create-probe", opened.path));
    let create = async || {
        let payload = PutPayload::from_static(PROBE);
        let options = PutOptions::from(PutMode::Create);
        match opened.raw.put_opts(&probe, payload, options).await {
            Ok(_) => Ok(true),
            Err(store::Error::AlreadyExists { .. }) => Ok(false),
            Err(cause) => Err(cause),
        }
    };
    let created = within(opened, options, create).await?;
    if created && within(opened, options, create).await? {
        return Err(Error::Invalid(format!(
            "the storage at {} overwrites a file that was to be created only if absent, so two writers could not be told apart; use a store that supports conditional writes (If-None-Match)",
            place(&opened.location, options)
        ).into()));
    }
    Ok(())
}

async fn within<T>(
    opened: &OpenedStore,
    options: &StoreOptions,
    request: impl AsyncFn() -> store::Result<T>,
) -> Result<T> {
    let attempts = async {
        let mut attempt = 1;
        loop {
            match request().await {
                Err(store::Error::Generic { .. }) if attempt < ATTEMPTS => {
                    attempt += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                answer => return answer,
            }
        }
    };
    match timeout(options.open_timeout, attempts).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(cause)) => Err(refused(&opened.location, options, &cause)),
        Err(_) => Err(silent(&opened.location, options)),
    }
}

fn refused(location: &StoreLocation, options: &StoreOptions, cause: &store::Error) -> Error {
    let told = with_sources(cause);
    // Listings report every status as a generic error, so the status is looked for in the text.
    let status = |code: &str| told.contains(&format!("status code: {code}"));
    let cure = if location.is_local() {
        "check the directory, its permissions and the space left"
    } else if is_unsupported(cause) || status("501") {
        "it does not know conditional writes (If-None-Match), without which two writers could not be told apart: use a store or a version of it that does"
    } else if matches!(cause, store::Error::NotFound { .. }) || status("404") {
        "the bucket or container does not exist there: check its name, or create it first"
    } else if matches!(cause, store::Error::PermissionDenied { .. }) || status("403") {
        "check the access key and secret, and whether the policy lets them list, read and write here"
    } else if matches!(cause, store::Error::Unauthenticated { .. }) || status("401") {
        "the credentials are missing or wrong: check the access key and secret, or the environment variables"
    } else {
        "check endpoint, region, bucket and credentials"
    };
    Error::Unavailable(
        format!(
            "cannot use the storage at {}: {}; {cure}",
            place(location, options),
            without_document(&told)
        )
        .into(),
    )
}

fn is_unsupported(cause: &store::Error) -> bool {
    matches!(
        cause,
        store::Error::NotImplemented { .. } | store::Error::NotSupported { .. }
    )
}

fn silent(location: &StoreLocation, options: &StoreOptions) -> Error {
    let cure = match location {
        StoreLocation::Local(_) => "check the disk or network mount",
        // Without credentials the client looks for those of a cloud instance, at an address that
        // only answers inside one.
        StoreLocation::Remote {
            service: RemoteService::S3,
            ..
        } if options.access_key_id.is_empty() => {
            "check endpoint and network, and whether credentials are given (outside AWS there is no instance role to fall back to)"
        }
        _ => "check endpoint, network and credentials",
    };
    Error::Unavailable(
        format!(
            "no answer from the storage at {} within {:?}; {cure}",
            place(location, options),
            options.open_timeout
        )
        .into(),
    )
}

fn place(location: &StoreLocation, options: &StoreOptions) -> String {
    match location {
        StoreLocation::Remote {
            service: RemoteService::S3,
            ..
        } if !options.endpoint.is_empty() => format!("{location} (endpoint {})", options.endpoint),
        _ => location.to_string(),
    }
}
