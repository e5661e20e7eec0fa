//! What happens when a name or series is new.

use crate::config::Config;
use crate::error::Error;
use crate::tsd::Tsd;
use crate::uid::{Tsuid, Uid, UidKind};

/// Whether [`series_written`] does anything: otherwise nobody has to find out what is new.
pub(crate) fn wants_series(config: &Config) -> bool {
    config.realtime_uid || config.realtime_ts
}

/// To be called after points of these series were appended, once for a series in the life of this
/// process: known series cost nothing. What is missing when the process ends is made up for when
/// the series is written again.
pub(crate) async fn series_written(tsd: &Tsd, series: &[Tsuid]) -> Result<(), Error> {
    let _ = (tsd, series);
    Ok(())
}

/// To be called after identifiers were assigned.
pub(crate) async fn names_written(tsd: &Tsd, names: &[(UidKind, Uid)]) -> Result<(), Error> {
    let _ = (tsd, names);
    Ok(())
}
