//! Cells and identities of one week: every key names its week, every value decodes.

use icecore_records::{ParsedKey, event_cell, event_identity};

use super::super::still::StillView;
use super::report::Findings;
use crate::error::Result;

/// Reads all of a segment of events.
pub(super) async fn check(
    view: &StillView,
    segment: &[u8],
    problems_max: usize,
) -> Result<Findings> {
    let mut findings = Findings::new(problems_max);
    let mut records = view.under(segment).await?;
    while let Some(record) = records.next().await? {
        let Some(parsed) = findings.parse(&record.key) else {
            continue;
        };
        let decoded = match parsed {
            ParsedKey::EventCell(_) => {
                findings.counts.event_cells += 1;
                event_cell::decode(&record.value).map(drop)
            }
            ParsedKey::EventIdentity(_) => {
                findings.counts.event_identities += 1;
                event_identity::decode(&record.value).map(drop)
            }
            // The segment has no others.
            _ => Ok(()),
        };
        if let Err(cause) = decoded {
            findings.undecodable(&record.key, &cause);
        }
    }
    Ok(findings)
}
