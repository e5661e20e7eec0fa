//! Function calls, by family.

use super::{MetricKind, QueryGenerator};

/// Functions of a window without other arguments and with the same meaning in every version.
const OVER_TIME: &[&str] = &[
    "avg_over_time",
    "sum_over_time",
    "max_over_time",
    "min_over_time",
    "count_over_time",
    "last_over_time",
    "present_over_time",
    "stddev_over_time",
    "stdvar_over_time",
    "delta",
    "idelta",
    "deriv",
    "changes",
    "resets",
];

const NEWER_OVER_TIME: &[&str] = &[
    "mad_over_time",
    "first_over_time",
    "ts_of_first_over_time",
    "ts_of_last_over_time",
    "ts_of_max_over_time",
    "ts_of_min_over_time",
];

const MATH: &[&str] = &[
    "abs", "ceil", "floor", "exp", "ln", "log2", "log10", "sqrt", "sgn", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "deg", "rad",
];

const CALENDAR: &[&str] = &[
    "minute",
    "hour",
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "days_in_month",
    "month",
    "year",
];

const OF_HISTOGRAMS: &[&str] = &[
    "histogram_avg",
    "histogram_count",
    "histogram_sum",
    "histogram_stddev",
    "histogram_stdvar",
];

const INFO_MATCHERS: &[&str] = &[
    "version=~\".+\"",
    "version=\"2\"",
    "__name__=\"build_info\"",
    "__name__=~\".+_info\"",
    "__name__=~\".+_info\", version=~\".*\"",
    "__name__!=\"target_info\"",
];

impl QueryGenerator {
    /// A function of a range selector or subquery.
    pub(super) fn range_call(&mut self, depth: usize) -> String {
        if self.random.one_in(4) {
            let function = self.pick(&["rate", "rate", "increase", "irate"]);
            let series = self.series(Some(MetricKind::Counter));
            return if self.random.one_in(4) {
                let brackets = self.range_and_step();
                format!("{function}({series}[{brackets}]{})", self.time_modifiers())
            } else {
                format!(
                    "{function}({})",
                    self.range_selector(Some(MetricKind::Counter))
                )
            };
        }
        let windows = if self.random.one_in(3) {
            self.subquery(depth)
        } else {
            self.range_selector(None)
        };
        match self.random.below(12) {
            0 => format!("quantile_over_time({}, {windows})", self.fraction()),
            1 => {
                let seconds = self.pick(&["60", "3600", "-300", "0.5"]);
                format!("predict_linear({windows}, {seconds})")
            }
            2 => {
                let (smoothing, trend) = (self.pick(&["0.1", "0.5"]), self.pick(&["0.3", "0.9"]));
                format!("double_exponential_smoothing({windows}, {smoothing}, {trend})")
            }
            _ => format!("{}({windows})", self.pick(OVER_TIME)),
        }
    }

    pub(super) fn math_call(&mut self, depth: usize) -> String {
        let vector = self.vector(depth);
        match self.random.below(8) {
            0 => format!("clamp({vector}, {}, {})", self.number(), self.number()),
            1 => {
                let function = self.pick(&["clamp_min", "clamp_max"]);
                format!("{function}({vector}, {})", self.number())
            }
            2 => format!("round({vector}, {})", self.pick(&["0.1", "5", "1", "1e-3"])),
            3 => format!("round({vector})"),
            _ => format!("{}({vector})", self.pick(MATH)),
        }
    }

    pub(super) fn label_call(&mut self, depth: usize) -> String {
        let vector = self.vector(depth);
        let (from, other) = (self.label(), self.label());
        let to = if self.random.one_in(2) {
            "made".to_string()
        } else {
            self.label()
        };
        if self.random.one_in(3) {
            let separator = self.pick(&["-", "", "/"]);
            format!("label_join({vector}, \"{to}\", \"{separator}\", \"{from}\", \"{other}\")")
        } else {
            let pattern = self.pick(&["(.*)", "(.)(.*)", "x", "", ".+", "(?P<all>.*)"]);
            let text = self.pick(&["$1", "fixed", "", "$2-$1", "${1}x", "$all"]);
            format!("label_replace({vector}, \"{to}\", \"{text}\", \"{from}\", \"{pattern}\")")
        }
    }

    pub(super) fn time_call(&mut self, depth: usize) -> String {
        let function = self.pick(CALENDAR);
        match self.random.below(4) {
            0 => format!("{function}()"),
            1 => format!("{function}({})", self.vector(depth)),
            2 => format!("timestamp({})", self.vector(depth)),
            _ => format!("timestamp({})", self.selector(None)),
        }
    }

    pub(super) fn absent_call(&mut self, depth: usize) -> String {
        match self.random.below(4) {
            0 => format!("absent({})", self.vector(depth)),
            1 => format!("absent({})", self.selector(None)),
            2 => format!("absent_over_time({})", self.subquery(depth)),
            _ => format!("absent_over_time({})", self.range_selector(None)),
        }
    }

    /// Functions that Prometheus 2.42 does not have.
    pub(super) fn newer_call(&mut self, depth: usize) -> String {
        let native = Some(MetricKind::NativeHistogram);
        match self.random.below(12) {
            0 | 1 => {
                let windows = if self.random.one_in(3) {
                    self.subquery(depth)
                } else {
                    self.range_selector(None)
                };
                format!("{}({windows})", self.pick(NEWER_OVER_TIME))
            }
            2 => {
                let function = self.pick(&["rate", "increase", "delta"]);
                format!("{function}({})", self.extended_range_selector())
            }
            3 => format!("{}({})", self.pick(OF_HISTOGRAMS), self.selector(native)),
            4 => {
                let (function, rate) = (self.pick(OF_HISTOGRAMS), self.pick(OVER_TIME));
                format!("{function}({rate}({}))", self.range_selector(native))
            }
            5 => {
                let kind = self.pick(&[MetricKind::NativeHistogram, MetricKind::Buckets]);
                let (low, high) = (self.number(), self.number());
                format!(
                    "histogram_fraction({low}, {high}, {})",
                    self.selector(Some(kind))
                )
            }
            6 => {
                let (first, second) = (self.fraction(), self.fraction());
                let histograms = self.selector(native);
                format!("histogram_quantiles({histograms}, \"quantile\", {first}, {second})")
            }
            7 => {
                let (op, parameter) = if self.random.one_in(2) {
                    ("limitk", self.count())
                } else {
                    ("limit_ratio", self.fraction())
                };
                self.grouped(op, Some(parameter), depth)
            }
            8 => {
                let function = self.pick(&["sort_by_label", "sort_by_label_desc"]);
                format!("{function}({}, \"{}\")", self.vector(depth), self.label())
            }
            9 => {
                let vector = self.vector(depth);
                match self.random.below(6) {
                    0..2 => format!("info({vector})"),
                    2 => format!("info({vector}, {{{}=~\".+\"}})", self.label()),
                    _ => format!("info({vector}, {{{}}})", self.pick(INFO_MATCHERS)),
                }
            }
            10 => format!("start_timestamp({})", self.selector(None)),
            _ => {
                let aggregate = self.pick(&["sum", "avg", "count", "max"]);
                let (function, labels) = (self.pick(OVER_TIME), self.label_list());
                let range = self.range_selector(native);
                format!("{aggregate} by ({labels}) ({function}({range}))")
            }
        }
    }
}
