//! Annotations in answers.

use icecore_model::{Labels, METRIC_NAME};

use super::series_key::SeriesKey;
use super::window::{Scan, Window};
use crate::allowance::Allowance;
use crate::annotation::{self, Annotation, to_ms};
use crate::error::Error;
use crate::series::SeriesName;
use crate::tsd::Tsd;
use crate::uid::UidKind;

/// A series with annotations. It need not have points.
pub(crate) struct AnnotatedSeries {
    pub(crate) key: SeriesKey,
    pub(crate) labels: Labels,
    pub(crate) notes: Vec<Annotation>,
}

/// All series of a metric that have annotations in the time that is read.
pub(super) async fn annotated_series(
    tsd: &Tsd,
    allowance: &Allowance,
    metric: &str,
    scan: Scan,
) -> Result<Vec<AnnotatedSeries>, Error> {
    let metric = tsd.uids.read(UidKind::Metric).id(metric);
    let Some(metric) = metric else {
        return Ok(Vec::new());
    };
    let times = (scan.start_ms, scan.end_ms.saturating_sub(1));
    let widths = tsd.config.uid_widths;
    let found = annotation::in_window(&tsd.records, allowance, metric, times, widths).await?;
    let named = found.into_iter().filter_map(|(tsuid, notes)| {
        // Annotations can be about ids that have no name; no filter is about those.
        let name = SeriesName::of_tsuid(&tsuid, &tsd.uids).ok()?;
        let metric = std::iter::once((METRIC_NAME, &*name.metric));
        let tags = name.tags.iter().map(|(key, value)| (&**key, &**value));
        Some(AnnotatedSeries {
            key: SeriesKey::from(&tsuid),
            labels: Labels::from_pairs(metric.chain(tags)),
            notes,
        })
    });
    Ok(named.collect())
}

/// The annotations that start within a window, in the order of their start as given.
pub(super) fn in_window(mut notes: Vec<Annotation>, window: Window) -> Vec<Annotation> {
    notes.retain(|note| window.contains(to_ms(note.start_time)));
    notes.sort_by_key(|note| note.start_time);
    notes
}

/// The global annotations of a window; `None` where answers do not mention them.
pub(crate) async fn global_annotations(
    tsd: &Tsd,
    allowance: &Allowance,
    window: Window,
) -> Result<Option<Vec<Annotation>>, Error> {
    let (start_s, end_s) = (window.start_ms / 1000, window.end_ms / 1000);
    annotation::globals_in_window(&tsd.records, allowance, start_s, end_s).await
}

/// Appends annotations as a list.
pub(super) fn push_list(out: &mut String, notes: &[Annotation], widths: [usize; 3]) {
    out.push('[');
    for (i, note) in notes.iter().enumerate() {
        out.push_str(if i == 0 { "" } else { "," });
        note.write(out, widths);
    }
    out.push(']');
}
