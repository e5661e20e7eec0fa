//! Names get identifiers without a point that needs them, and other names.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::name;
use crate::tsd::Tsd;
use crate::uid::{UidKind, signed_bytes};

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
    let records = tsd.records.lock().await;
    let mut changes = Vec::new();
    {
        let mut space = tsd.uids.write(kind);
        let uid = match (space.id(old), space.id(new)) {
            (Some(_), Some(owner)) => {
                let (table, width) = (kind.table_name(), space.width());
                let owner = signed_bytes(owner, width);
                return Ok(Err(format!(
                    "When trying rename(\"{old}\", \"{new}\") on UniqueId(tsdb-uid, {table}, \
                     {width}): new name already assigned ID={owner}"
                )));
            }
            (Some(uid), None) => {
                if let Err(error) = space.check_new(new) {
                    return Ok(Err(error.message));
                }
                space.rename(uid, new);
                uid
            }
            // A request that failed is sent again. The name stays changed in between: others may
            // have stored it already.
            (None, _) => match space.unsettled_renaming(old, new) {
                Some(uid) => uid,
                None => return Ok(Err(format!("Name(\"{old}\") does not exist"))),
            },
        };
        space.push_unsettled(uid, &mut changes);
    }
    records.write(changes.clone()).await?;
    tsd.uids.committed(&changes);
    Ok(Ok(()))
}
