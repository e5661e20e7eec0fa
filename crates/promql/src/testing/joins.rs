//! Operators between vectors, mostly with matching rows.

use super::{MetricKind, QueryGenerator};

impl QueryGenerator {
    /// Arithmetic or a comparison between two vectors.
    pub(super) fn join(&mut self, depth: usize) -> String {
        let operator = match self.random.below(4) {
            0 => {
                let bool = self.pick(&["", " bool"]);
                format!("{}{bool}", self.comparison())
            }
            1 if self.knows_everything() && self.random.one_in(8) => {
                self.pick(&["</", ">/"]).to_string()
            }
            _ => self.arithmetic().to_string(),
        };
        match self.random.below(10) {
            0..3 => self.join_of_groups(&operator, depth),
            3..5 => self.many_to_one(&operator, depth),
            5..8 => self.same_series(&operator),
            8 => self.bare_chain(depth),
            _ => {
                let matching = self.matching();
                let fill = self.fill();
                let (left, right) = (self.operand(depth), self.operand(depth));
                format!("{left} {operator}{matching}{fill} {right}")
            }
        }
    }

    /// `and`, `or`, `unless`
    pub(super) fn set_operation(&mut self, depth: usize) -> String {
        let operator = self.pick(&["and", "or", "unless"]);
        let matching = if self.random.one_in(2) {
            self.matching()
        } else {
            String::new()
        };
        let (left, right) = (self.operand(depth), self.operand(depth));
        format!("{left} {operator}{matching} {right}")
    }

    /// `sum by (a) (…) / on (a) sum by (a) (…)`
    fn join_of_groups(&mut self, operator: &str, depth: usize) -> String {
        let labels = self.label_list();
        let matching = if self.random.one_in(2) {
            format!(" on ({labels})")
        } else {
            String::new()
        };
        let fill = self.fill();
        let mut side = || {
            let aggregate = self.plain_aggregate();
            format!("{aggregate} by ({labels}) ({})", self.vector(depth))
        };
        let (left, right) = (side(), side());
        format!("{left} {operator}{matching}{fill} {right}")
    }

    /// `… * on (a) group_left (b) max by (a, b) (…)`, or the other way around.
    fn many_to_one(&mut self, operator: &str, depth: usize) -> String {
        let labels = self.label_list();
        let extra = self.label();
        let extra = if labels.split(", ").any(|label| label == extra) || self.random.one_in(2) {
            String::new()
        } else {
            extra
        };
        let many = self.operand(depth);
        let aggregate = self.plain_aggregate();
        let grouping = if extra.is_empty() || labels.is_empty() {
            format!("{labels}{extra}")
        } else {
            format!("{labels}, {extra}")
        };
        let one = format!("{aggregate} by ({grouping}) ({})", self.vector(depth));
        let fill = self.fill();
        if self.random.one_in(2) {
            format!("{many} {operator} on ({labels}) group_left ({extra}){fill} {one}")
        } else {
            format!("{one} {operator} on ({labels}) group_right ({extra}){fill} {many}")
        }
    }

    /// Two metrics, or one at two times, which have their labels in common.
    fn same_series(&mut self, operator: &str) -> String {
        let (left, right) = (self.metric(None), self.metric(None));
        let modifiers = self.time_modifiers();
        match self.random.below(3) {
            0 => format!("{left} {operator} {left}{modifiers}"),
            1 => {
                let left = self.metric(Some(MetricKind::Counter));
                format!("rate({left}[5m]) {operator} rate({left}[5m]{modifiers})")
            }
            _ => {
                let label = self.label();
                format!("{left} {operator} ignoring ({label}) {right}{modifiers}")
            }
        }
    }

    /// Arithmetic without parentheses, to test precedence.
    fn bare_chain(&mut self, depth: usize) -> String {
        let mut chain = self.metric(None);
        for _ in 0..2 + self.random.below(2) {
            let operator = self.arithmetic();
            let next = match self.random.below(4) {
                0 | 1 => self.number(),
                2 => format!("-{}", self.number().trim_start_matches('-')),
                _ => self.operand(depth),
            };
            chain = format!("{chain} {operator} {next}");
        }
        chain
    }

    fn matching(&mut self) -> String {
        let labels = self.label_list();
        match self.random.below(3) {
            0 => format!(" on ({labels})"),
            1 => format!(" ignoring ({labels})"),
            _ => String::new(),
        }
    }

    fn fill(&mut self) -> String {
        if !self.knows_everything() || !self.random.one_in(10) {
            return String::new();
        }
        let value = self.pick(&["0", "1", "-3", "NaN", "Inf"]);
        let word = self.pick(&["fill", "fill_left", "fill_right"]);
        format!(" {word} ({value})")
    }
}
