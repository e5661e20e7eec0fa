//! Start and end of an event, of which there are several spellings.

use icecore_wire::json::JsonReader;

use super::scan::{Faults, Result, number_text, skip};
use crate::Problem;
use crate::time_text::parse_time;

/// How far a time as text and the same time in nanoseconds may lie apart: text is often cut to
/// milliseconds.
const MAX_DIFFERENCE_NS: u64 = 1_000_000;

/// A time with the spellings it was sent in. Of several the one of the least rank counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    text: Option<(u8, i64)>,
    unix: Option<(u8, i64)>,
}

impl Moment {
    /// Reads RFC 3339.
    pub(super) fn read_text(
        &mut self,
        json: &mut JsonReader<'_>,
        field: &str,
        rank: u8,
        faults: &mut Faults,
    ) -> Result<()> {
        let ns = if json.peek()? == b'"' {
            parse_time(&json.string()?)
        } else if json.null()? {
            return Ok(());
        } else {
            skip(json, faults)?;
            None
        };
        offer(&mut self.text, ns, rank, || {
            faults.note(|| invalid(format!("{field} is no time as of RFC 3339")));
        });
        Ok(())
    }

    /// Reads nanoseconds: an integer, also as text, because JavaScript has no such integers. Never
    /// through a double.
    pub(super) fn read_unix(
        &mut self,
        json: &mut JsonReader<'_>,
        field: &str,
        rank: u8,
        faults: &mut Faults,
    ) -> Result<()> {
        let ns = match json.peek()? {
            b'"' => json.string()?.parse().ok(),
            b'-' | b'0'..=b'9' => number_text(json)?.parse().ok(),
            _ if json.null()? => return Ok(()),
            _ => {
                skip(json, faults)?;
                None
            }
        };
        offer(&mut self.unix, ns, rank, || {
            faults.note(|| invalid(format!("{field} is no integer of nanoseconds")));
        });
        Ok(())
    }

    /// The time, if there is one. Text wins over nanoseconds that are about the same.
    pub(super) fn resolve(self, field: &str, faults: &mut Faults) -> Option<i64> {
        let (text, unix) = (self.text.map(|at| at.1), self.unix.map(|at| at.1));
        if let (Some(text), Some(unix)) = (text, unix)
            && text.abs_diff(unix) >= MAX_DIFFERENCE_NS
        {
            faults.note(|| {
                invalid(format!(
                    "{field} as text and in nanoseconds are not the same"
                ))
            });
        }
        text.or(unix)
    }
}

fn offer(known: &mut Option<(u8, i64)>, ns: Option<i64>, rank: u8, fault: impl FnOnce()) {
    match ns {
        None => fault(),
        Some(ns) if known.is_none_or(|(known, _)| rank <= known) => *known = Some((rank, ns)),
        Some(_) => {}
    }
}

fn invalid(detail: String) -> Problem {
    Problem::new(400, "ingest.invalid-timestamp", detail)
}
