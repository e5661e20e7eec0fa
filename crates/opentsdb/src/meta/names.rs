//! Names get identifiers without a point that needs them, and other names.

use std::collections::BTreeMap;

use http::StatusCode;

use crate::error::Error;
use crate::name;
use crate::tsd::Tsd;
use crate::uid::{Uid, UidKind, UidSpace, signed_bytes};

/// Attempts at a renaming. The first makes a name durable that is not, the second renames it.
/// Further ones are for metrics of other protocols that are written for the first time meanwhile.
const RENAME_ATTEMPTS_MAX: usize = 8;

/// What became of the names of one kind.
#[derive(Debug, Default)]
pub(crate) struct Assigned {
    /// Name to hexadecimal id.
    pub(crate) assigned: BTreeMap<String, String>,
    /// Name to what is wrong with it.
    pub(crate) errors: BTreeMap<String, String>,
}

/// Assigns identifiers to names that have none; `kind` as the client calls it.
pub(crate) async fn assign(tsd: &Tsd, kind: &str, names: &[String]) -> Result<Assigned, Error> {
    let records = tsd.records.lock().await;
    let mut outcome = Assigned::default();
    let mut changes = Vec::new();
    let mut uids = Vec::new();
    for name in names {
        match assign_one(tsd, kind, name, &mut changes) {
            Ok((kind, uid)) => {
                let width = tsd.config.uid_widths[kind as usize];
                outcome.assigned.insert(name.clone(), uid.to_hex(width));
                uids.push((kind, uid));
            }
            Err(reason) => {
                outcome.errors.insert(name.clone(), reason);
            }
        }
    }
    records.write(changes.clone()).await?;
    tsd.uids.committed(&changes);
    super::hook::names_written(tsd, &uids).await?;
    Ok(outcome)
}

fn assign_one(
    tsd: &Tsd,
    kind: &str,
    name: &str,
    changes: &mut Vec<icecore_model::CatalogChange>,
) -> Result<(UidKind, crate::uid::Uid), String> {
    let mut kinds = UidKind::ALL.into_iter();
    let known = kinds.find(|known| kind.eq_ignore_ascii_case(known.field_name()));
    if let Some(kind) = known {
        // First, so that no other message repeats a long name.
        let short = tsd.uids.limits().check_length(kind, name);
        short.map_err(|error| error.message)?;
    }
    let valid = name::validate(kind, name, &tsd.config.allow_special_chars);
    valid.map_err(|error| error.message)?;
    let kind = known.ok_or("Unknown type name")?;
    let known = tsd.uids.read(kind).id(name);
    if let Some(uid) = known {
        tsd.uids.push_unsettled(kind, uid, changes);
        let width = tsd.config.uid_widths[kind as usize];
        let uid = uid.to_hex(width);
        return Err(format!("Name already exists with UID: {uid}"));
    }
    let uid = tsd.uids.get_or_assign(kind, name, changes);
    uid.map(|uid| (kind, uid)).map_err(|error| error.message)
}

/// Gives the identifier of a name another name. The inner error says why that cannot be.
///
/// Points on their way may carry a name that is not known to be durable. One that is stored behind
/// the new name would take its place at the next start. So the name is made durable, and points on
/// their way are waited for, before the identifier gets the new one.
pub(crate) async fn rename(
    tsd: &Tsd,
    kind: UidKind,
    old: &str,
    new: &str,
) -> Result<Result<(), String>, Error> {
    let special = &tsd.config.allow_special_chars;
    if let Err(error) = name::validate(kind.field_name(), new, special) {
        return Ok(Err(error.message));
    }
    for _ in 0..RENAME_ATTEMPTS_MAX {
        let attempt = rename_if_settled(tsd, kind, old, new).await?;
        if let Some(outcome) = attempt {
            return Ok(outcome);
        }
    }
    let message = format!("Points write \"{old}\" anew all the time: try again");
    Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, message))
}

/// One attempt at a renaming. Returns `None` if the name was not durable, which it is afterwards.
async fn rename_if_settled(
    tsd: &Tsd,
    kind: UidKind,
    old: &str,
    new: &str,
) -> Result<Option<Result<(), String>>, Error> {
    let records = tsd.records.lock().await;
    let mut changes = Vec::new();
    let uid = match renamed_uid(&tsd.uids.read(kind), kind, old, new) {
        Ok(uid) => uid,
        Err(refused) => return Ok(Some(Err(refused))),
    };
    tsd.uids.push_unsettled(kind, uid, &mut changes);
    let is_repeated = tsd.uids.read(kind).id(new) == Some(uid);
    if changes.is_empty() {
        // It is settled: from here on no request carries it.
        records.barrier().await?;
        let mut space = tsd.uids.write(kind);
        match renamed_uid(&space, kind, old, new) {
            Ok(found) if found == uid && space.is_settled(uid) => space.rename(uid, new),
            Ok(_) => return Ok(None),
            Err(refused) => return Ok(Some(Err(refused))),
        }
        space.push_unsettled(uid, &mut changes);
    } else if !is_repeated {
        records.write(changes.clone()).await?;
        tsd.uids.committed(&changes);
        return Ok(None);
    }
    records.write(changes.clone()).await?;
    tsd.uids.committed(&changes);
    Ok(Some(Ok(())))
}

/// Returns the identifier that is to be renamed. It has the new name already if a request that
/// failed is sent again: the name stays changed, because others may have stored it already.
fn renamed_uid(space: &UidSpace, kind: UidKind, old: &str, new: &str) -> Result<Uid, String> {
    match (space.id(old), space.id(new)) {
        (Some(_), Some(owner)) => {
            let (table, width) = (kind.table_name(), space.width());
            let owner = signed_bytes(owner, width);
            Err(format!(
                "When trying rename(\"{old}\", \"{new}\") on UniqueId(tsdb-uid, {table}, {width}): \
                 new name already assigned ID={owner}"
            ))
        }
        (Some(uid), None) => {
            let is_allowed = space.check_new(new).map_err(|error| error.message);
            is_allowed.map(|()| uid)
        }
        (None, _) => {
            let uid = space.unsettled_renaming(old, new);
            uid.ok_or_else(|| format!("Name(\"{old}\") does not exist"))
        }
    }
}
