//! What an answer says about the levels that it was made of.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use icecore_model::rollup::{Resolution, Segment};
use icecore_model::{Levels, format_duration_ms};

use super::points::RolledPoints;
use crate::query::group::ResultSeries;
use crate::query::window::Scan;

/// The rolled-up time of a sub query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RolledReport {
    /// Start, end and level of each part that windows answered.
    parts: BTreeSet<(i64, i64, Resolution)>,
    /// The intervals that windows of a level were downsampled by, where they were rounded up.
    rounded: BTreeSet<(Resolution, i64)>,
    /// The function cannot be told from windows, or intervals end inside of them.
    pub(crate) is_estimate: bool,
    /// There is no downsampler: of each window the samples that are left are shown.
    pub(crate) is_thinned: bool,
}

impl RolledReport {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds what was read of a series. The result is the levels that it has windows of.
    pub(crate) fn add<'r>(
        &mut self,
        rolled: &'r RolledPoints,
    ) -> impl Iterator<Item = Resolution> + use<'r> {
        for part in &rolled.used {
            self.add_part(part);
        }
        rolled.used.iter().map(|part| part.resolution)
    }

    fn add_part(&mut self, part: &Segment) {
        self.parts
            .insert((part.start_ms, part.end_ms, part.resolution));
    }

    pub(crate) fn add_rounded(&mut self, level: Resolution, interval_ms: i64) {
        self.rounded.insert((level, interval_ms));
    }

    /// Adds all levels of a scan.
    pub(crate) fn add_levels(&mut self, levels: &Levels, scan: Scan) {
        for segment in levels.segments.iter().filter(|s| !s.resolution.is_raw()) {
            let part = Segment {
                start_ms: segment.start_ms.max(scan.start_ms),
                end_ms: segment.end_ms.min(scan.end_ms),
                ..*segment
            };
            if part.start_ms < part.end_ms {
                self.add_part(&part);
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.parts.extend(&other.parts);
        self.rounded.extend(&other.rounded);
        self.is_estimate |= other.is_estimate;
        self.is_thinned |= other.is_thinned;
    }

    /// The report of series that become one; `None` where no level answered.
    pub(crate) fn of_all<'a>(
        series: impl IntoIterator<Item = &'a ResultSeries>,
    ) -> Option<Arc<Self>> {
        let mut all = Self::default();
        let levels = series.into_iter().filter_map(|of| of.levels.as_ref());
        levels.for_each(|levels| all.merge(levels));
        (!all.is_empty()).then(|| Arc::new(all))
    }

    /// Appends `"rollup":[…]`, if there is anything to say.
    pub(crate) fn push_json(&self, out: &mut String, ms_resolution: bool) {
        if self.is_empty() {
            return;
        }
        out.push_str(",\"rollup\":[");
        for (i, (start_ms, end_ms, level)) in self.parts.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { "," });
            let unit = if ms_resolution { 1 } else { 1000 };
            let (start, end) = (start_ms / unit, end_ms / unit);
            let _ = write!(
                out,
                "{{\"resolution\":\"{level}\",\"start\":{start},\"end\":{end}"
            );
            if let Some((_, interval_ms)) = self.rounded.iter().find(|(of, _)| of == level) {
                let interval = format_duration_ms(*interval_ms);
                let _ = write!(out, ",\"interval\":\"{interval}\"");
            }
            if self.is_estimate {
                out.push_str(",\"estimated\":true");
            }
            out.push('}');
        }
        out.push(']');
    }

    /// What is not as it was asked for, as the value of the header `Warning`.
    pub(crate) fn warning(&self) -> Option<String> {
        let mut notes = Vec::new();
        for (level, interval_ms) in &self.rounded {
            let interval = format_duration_ms(*interval_ms);
            notes.push(format!(
                "downsampled by {interval} where only {level} windows are kept"
            ));
        }
        if self.is_estimate {
            notes.push("estimated where only windows are kept".to_owned());
        }
        if self.is_thinned {
            notes.push(
                "of older time only the first and last points of windows are kept".to_owned(),
            );
        }
        (!notes.is_empty()).then(|| format!("299 icecore \"{}\"", notes.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_listed() {
        let mut report = RolledReport::default();
        let text = |report: &RolledReport| {
            let mut text = String::new();
            report.push_json(&mut text, false);
            text
        };
        assert_eq!(text(&report), "");
        assert_eq!(report.warning(), None);
        report.add_part(&Segment {
            start_ms: 3_600_000,
            end_ms: 7_200_000,
            resolution: Resolution::HOUR,
        });
        let part = r#","rollup":[{"resolution":"1h","start":3600,"end":7200"#;
        assert_eq!(text(&report), format!("{part}}}]"));
        assert_eq!(report.warning(), None);
        report.add_rounded(Resolution::HOUR, 7_200_000);
        report.is_estimate = true;
        let more = r#","interval":"2h","estimated":true}]"#;
        assert_eq!(text(&report), format!("{part}{more}"));
        let warning = "299 icecore \"downsampled by 2h where only 1h windows are kept; \
                       estimated where only windows are kept\"";
        assert_eq!(report.warning().as_deref(), Some(warning));
    }
}
