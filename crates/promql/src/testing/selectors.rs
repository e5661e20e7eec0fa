//! Selectors of series and lists of labels.

use super::{MetricKind, QueryGenerator};

impl QueryGenerator {
    /// `name{matchers} offset … @ …`
    pub(super) fn selector(&mut self, kind: Option<MetricKind>) -> String {
        let series = self.series(kind);
        let mut extension = "";
        if self.knows_everything() && kind.is_none() && self.random.one_in(40) {
            extension = " smoothed";
        }
        series + extension + &self.time_modifiers()
    }

    /// `name{matchers}[range] offset … @ …`
    pub(super) fn range_selector(&mut self, kind: Option<MetricKind>) -> String {
        let (series, range) = (self.series(kind), self.range());
        format!("{series}[{range}]{}", self.time_modifiers())
    }

    /// `name{matchers}[range] anchored`, for the few functions that accept it.
    pub(super) fn extended_range_selector(&mut self) -> String {
        let (series, range) = (self.series(Some(MetricKind::Counter)), self.range());
        let extension = self.pick(&["anchored", "smoothed"]);
        format!("{series}[{range}] {extension}{}", self.time_modifiers())
    }

    /// `expr[range:step] offset … @ …`
    pub(super) fn subquery(&mut self, depth: usize) -> String {
        let inner = self.operand(depth);
        let brackets = self.range_and_step();
        format!("{inner}[{brackets}]{}", self.time_modifiers())
    }

    /// `name{matchers}`
    pub(super) fn series(&mut self, kind: Option<MetricKind>) -> String {
        let mut matchers = self.matchers();
        let name = self.metric(kind);
        if self.knows_everything() && self.random.one_in(25) {
            // Several metrics, whose series may differ only in their names.
            let other = self.metric(kind);
            matchers.insert(0, format!("__name__=~\"{name}|{other}\""));
            return format!("{{{}}}", matchers.join(", "));
        }
        match self.random.one_in(20) {
            // The name as a matcher: the same series.
            true => {
                matchers.insert(0, format!("__name__=\"{name}\""));
                format!("{{{}}}", matchers.join(", "))
            }
            false if matchers.is_empty() => name,
            false => format!("{name}{{{}}}", matchers.join(", ")),
        }
    }

    /// The name of a metric of a kind; without a kind, any but buckets and histograms.
    pub(super) fn metric(&mut self, kind: Option<MetricKind>) -> String {
        let fits = |of: MetricKind| match kind {
            Some(kind) => of == kind,
            None => matches!(of, MetricKind::Counter | MetricKind::Gauge),
        };
        let metrics = self.vocabulary.metrics.iter();
        let mut names: Vec<&String> = metrics
            .clone()
            .filter_map(|(name, of)| fits(*of).then_some(name))
            .collect();
        if names.is_empty() || self.options.hostile && self.random.one_in(8) {
            names = metrics.map(|(name, _)| name).collect();
        }
        let place = self.random.below(names.len());
        names.get(place).map_or("up", |name| name).to_string()
    }

    /// Mostly none or one matcher.
    fn matchers(&mut self) -> Vec<String> {
        let count = self.random.pick_weighted(&[(10, 0), (7, 1), (2, 2)]);
        (0..count).map(|_| self.matcher()).collect()
    }

    fn matcher(&mut self) -> String {
        let (name, values) = self.label_and_values();
        let value = |generator: &mut Self| {
            let place = generator.random.below(values.len());
            values.get(place).cloned().unwrap_or_default()
        };
        let first = value(self);
        match self.random.below(10) {
            0..4 => format!("{name}=\"{first}\""),
            4 | 5 => format!("{name}!=\"{first}\""),
            6 => format!("{name}=~\"{first}|{}\"", value(self)),
            7 => format!("{name}!~\"{first}\""),
            8 => format!("{name}=~\".+\""),
            _ => format!("{name}=~\"{}.*\"", first.get(..1).unwrap_or_default()),
        }
    }

    /// A label with its values.
    pub(super) fn label_and_values(&mut self) -> (String, Vec<String>) {
        let place = self.random.below(self.vocabulary.labels.len());
        let known = self.vocabulary.labels.get(place).cloned();
        known.unwrap_or_else(|| ("job".to_string(), vec!["a".to_string()]))
    }

    pub(super) fn label(&mut self) -> String {
        match self.random.below(30) {
            0 => "missing".to_string(),
            1 | 2 if self.knows_everything() => "__name__".to_string(),
            _ => self.label_and_values().0,
        }
    }

    /// Up to two labels, separated by a comma.
    pub(super) fn label_list(&mut self) -> String {
        let count = self.random.pick_weighted(&[(1, 0), (10, 1), (6, 2)]);
        let labels: Vec<String> = (0..count).map(|_| self.label()).collect();
        labels.join(", ")
    }
}
