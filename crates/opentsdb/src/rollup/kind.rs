//! What a rolled-up or pre-aggregated series holds, and how it is called.

use std::fmt;

use icecore_model::{GROUP_BY, Labels, ROLLUP_LABEL};

/// Which of the original's tables a point belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RollupKind {
    /// The interval as the configuration writes it and the function in lower case, unless it is a
    /// pre-aggregate of points.
    pub(crate) interval: Option<(String, String)>,
    /// Aggregated over tags; the tag `_aggregate` says how.
    pub(crate) is_group_by: bool,
}

impl RollupKind {
    /// Reads the value of [`ROLLUP_LABEL`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == GROUP_BY {
            return Some(Self {
                interval: None,
                is_group_by: true,
            });
        }
        let behind = text.strip_suffix(GROUP_BY);
        let temporal = behind.and_then(|behind| behind.strip_suffix('-'));
        let (interval, function) = temporal.unwrap_or(text).split_once('-')?;
        Some(Self {
            interval: Some((interval.to_owned(), function.to_owned())),
            is_group_by: temporal.is_some(),
        })
    }

    /// The metric under which points of a metric are kept.
    pub(crate) fn metric(&self, metric: &str) -> String {
        format!("{metric}:{self}")
    }
}

/// The metric whose points a series has, as they are or rolled up.
pub(crate) fn base_metric(labels: &Labels) -> &str {
    base_of(labels.metric_name(), labels.get(ROLLUP_LABEL))
}

/// Returns the metric by its name and the label [`ROLLUP_LABEL`].
pub(crate) fn base_of<'l>(metric: &'l str, kind: Option<&str>) -> &'l str {
    let base = kind.and_then(|kind| metric.strip_suffix(kind)?.strip_suffix(':'));
    base.unwrap_or(metric)
}

/// The value of [`ROLLUP_LABEL`].
impl fmt::Display for RollupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.interval, self.is_group_by) {
            (Some((interval, function)), false) => write!(f, "{interval}-{function}"),
            (Some((interval, function)), true) => write!(f, "{interval}-{function}-{GROUP_BY}"),
            (None, _) => f.write_str(GROUP_BY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_a_name() {
        let interval = Some(("1h".to_owned(), "sum".to_owned()));
        for (interval, is_group_by, name) in [
            (interval.clone(), false, "m:1h-sum"),
            (interval, true, "m:1h-sum-groupby"),
            (None, true, "m:groupby"),
        ] {
            let kind = RollupKind {
                interval,
                is_group_by,
            };
            assert_eq!(kind.metric("m"), name);
            assert_eq!(RollupKind::parse(&kind.to_string()), Some(kind.clone()));
            let kind = kind.to_string();
            let labels = [("__name__", name), (ROLLUP_LABEL, &kind)];
            assert_eq!(base_metric(&Labels::from_pairs(labels)), "m");
        }
    }
}
