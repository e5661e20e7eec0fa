//! UIDs with the numbers that they have elsewhere.

use icecore_model::CatalogChange;

use super::lines::ends_import;
use super::mappings::UidMappings;
use super::report::{Report, Skipped};
use crate::error::Error;
use crate::hbase::UidCell;
use crate::tsd::Tsd;
use crate::uid::{Uid, UidConflict, UidKind};

/// Takes over names. What a name is called by its id counts more than what id a name has: only
/// that is asked for by those who read points.
pub(super) async fn store(
    tsd: &Tsd,
    mut cells: Vec<(u64, UidCell)>,
    skips_errors: bool,
    report: &mut Report,
) -> Result<(), Error> {
    cells.sort_by_key(|(_, cell)| match cell {
        UidCell::Greatest(..) => 0,
        UidCell::Name(..) => 1,
        UidCell::Id(..) | UidCell::Meta(..) => 2,
    });
    let mut mappings = UidMappings::default();
    cells.iter().for_each(|(_, cell)| mappings.add(cell));
    let records = tsd.records.lock().await;
    let mut changes: Vec<CatalogChange> = Vec::new();
    let mut new = 0;
    // What was taken over before a conflict is stored all the same: it is right by itself.
    let mut failed = None;
    for (line, cell) in &cells {
        let (kind, uid, name) = match cell {
            UidCell::Name(kind, uid, name) | UidCell::Id(kind, name, uid) => (*kind, *uid, name),
            UidCell::Greatest(kind, greatest) => {
                changes.push(tsd.uids.write(*kind).import_greatest(*greatest));
                continue;
            }
            UidCell::Meta(..) => continue,
        };
        if let Some(orphan) = mappings.orphan(*line, cell, tsd.uid_widths()) {
            report.skip(orphan);
            continue;
        }
        let adopted = tsd.uids.write(kind).import(uid, name, &mut changes);
        match (adopted, cell) {
            (Ok(is_new), _) => new += u64::from(is_new),
            (Err(conflict), UidCell::Name(..)) => {
                failed = Some(in_conflict(tsd, *line, kind, (uid, name), &conflict));
            }
            (Err(conflict), _) => {
                let example = describe(tsd, kind, (uid, name), &conflict);
                let skipped = Skipped::one("a name and its UID do not fit", *line, example);
                if skips_errors {
                    report.skip(skipped);
                } else {
                    failed = Some(ends_import(&skipped));
                }
            }
        }
        if failed.is_some() {
            break;
        }
    }
    records.write(changes.clone()).await?;
    tsd.uids.committed(&changes);
    report.names += new;
    failed.map_or(Ok(()), Err)
}

fn in_conflict(
    tsd: &Tsd,
    line: u64,
    kind: UidKind,
    claim: (Uid, &str),
    conflict: &UidConflict,
) -> Error {
    let what = describe(tsd, kind, claim, conflict);
    if matches!(conflict, UidConflict::Refused(_)) {
        return Error::bad_request(format!("line {line}: {what}"));
    }
    Error::new(
        http::StatusCode::CONFLICT,
        format!(
            "line {line}: {what}; cells are imported into a database whose UIDs are the same or \
             new: use another one, or import text (tsdb scan --import), which goes by names"
        ),
    )
}

fn describe(tsd: &Tsd, kind: UidKind, (uid, name): (Uid, &str), conflict: &UidConflict) -> String {
    let width = tsd.config.uid_widths[kind as usize];
    let (id, table) = (uid.to_hex(width), kind.table_name());
    match conflict {
        UidConflict::Refused(error) => format!("{table}: {}", error.message),
        UidConflict::IdTaken(known) => {
            format!("{table}: UID {id} is {name:?} there and {known:?} here")
        }
        UidConflict::NameTaken(known) => {
            let known = known.to_hex(width);
            format!("{table}: {name:?} has UID {id} there and {known} here")
        }
        UidConflict::OutOfRange => format!(
            "{table}: UID {:X} of {name:?} is 0 or has more than {width} bytes, which is the \
             width here (tsd.storage.uid.width)",
            uid.0
        ),
    }
}
