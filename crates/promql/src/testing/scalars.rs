//! Numbers and scalar expressions.

use super::QueryGenerator;

impl QueryGenerator {
    pub(super) fn number(&mut self) -> String {
        if self.options.hostile && self.random.one_in(3) {
            let edges = [
                "NaN",
                "Inf",
                "-Inf",
                "1e308",
                "-1e308",
                "5e-324",
                "-0",
                "9223372036854775807",
                "-9223372036854775808",
                "18446744073709551616",
                "0x7fffffffffffffff",
                "1e19",
            ];
            return self.pick(&edges).to_string();
        }
        if self.knows_everything() && self.random.one_in(15) {
            return self.pick(&["5m", "1h30m", "1_000", "0x1F"]).to_string();
        }
        let usual = [
            "0", "1", "2", "3", "0.5", "10", "100", "-1", "1e3", "7", "0.25", "60", "0x10", "-2.5",
        ];
        if self.random.one_in(40) {
            self.pick(&["NaN", "Inf", "-Inf"]).to_string()
        } else {
            self.pick(&usual).to_string()
        }
    }

    /// A small count for `topk` and the like.
    pub(super) fn count(&mut self) -> String {
        if self.options.hostile {
            self.number()
        } else {
            self.pick(&["1", "2", "3", "5", "2.7", "0", "-1", "100"])
                .to_string()
        }
    }

    /// A number between 0 and 1, mostly.
    pub(super) fn fraction(&mut self) -> String {
        if self.options.hostile {
            self.number()
        } else {
            self.pick(&["0.5", "0.9", "0.99", "0.1", "0", "1", "0.25", "1.5", "-0.1"])
                .to_string()
        }
    }

    pub(super) fn scalar(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.number();
        }
        let others = if self.knows_everything() { 11 } else { 9 };
        match self.random.below(others) {
            0 | 1 => self.number(),
            2 => "time()".to_string(),
            3 => self.pick(&["pi()", "time()"]).to_string(),
            4 => format!("scalar({})", self.vector(depth - 1)),
            5 => format!("-{}", self.scalar_operand(depth - 1)),
            6 => {
                let comparison = self.comparison();
                self.scalar_pair(depth, &format!("{comparison} bool"))
            }
            7 | 8 => {
                let operator = self.arithmetic();
                self.scalar_pair(depth, operator)
            }
            9 => {
                let function = self.pick(&["max_of", "min_of"]);
                let (left, right) = (self.scalar(depth - 1), self.scalar(depth - 1));
                format!("{function}({left}, {right})")
            }
            _ => self
                .pick(&["start()", "end()", "range()", "step()"])
                .to_string(),
        }
    }

    fn scalar_pair(&mut self, depth: usize, operator: &str) -> String {
        let (left, right) = (
            self.scalar_operand(depth - 1),
            self.scalar_operand(depth - 1),
        );
        format!("{left} {operator} {right}")
    }

    /// A scalar that is an operand of any operator.
    pub(super) fn scalar_operand(&mut self, depth: usize) -> String {
        let scalar = self.scalar(depth);
        if scalar.contains(' ') || scalar.starts_with('-') {
            format!("({scalar})")
        } else {
            scalar
        }
    }

    pub(super) fn arithmetic(&mut self) -> &'static str {
        // With `atan2` Prometheus 2.42 keeps the metric name, 3.x drops it.
        let atan2 = usize::from(self.knows_everything());
        self.random.pick_weighted(&[
            (4, "+"),
            (4, "-"),
            (4, "*"),
            (5, "/"),
            (1, "%"),
            (1, "^"),
            (atan2, "atan2"),
        ])
    }

    pub(super) fn comparison(&mut self) -> &'static str {
        self.pick(&["==", "!=", ">", "<", ">=", "<="])
    }
}
