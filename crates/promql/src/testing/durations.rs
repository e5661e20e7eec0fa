//! Durations, offsets and `@`.
//!
//! Holds always, except in hostile queries: ranges of selectors and offsets are whole seconds,
//! ranges of subqueries end in 250 ms. So no sample is at the edge of a window if samples and query
//! times avoid these fractions of a second.

use super::QueryGenerator;

impl QueryGenerator {
    /// The text in the brackets of a range selector.
    pub(super) fn range(&mut self) -> String {
        if let Some(hostile) = self.hostile_duration() {
            return hostile;
        }
        if self.knows_everything() && self.random.one_in(10) {
            return self.duration_expression(2);
        }
        self.pick(&[
            "1m", "2m", "5m", "5m", "5m", "90s", "10m", "40s", "15m", "1h",
        ])
        .to_string()
    }

    /// The text in the brackets of a subquery.
    pub(super) fn range_and_step(&mut self) -> String {
        if let Some(hostile) = self.hostile_duration() {
            // An attack: a short step over a long range.
            let step = self.pick(&["", "1ms", "1s", "1m", "290y"]);
            return format!("{hostile}:{step}");
        }
        let range = self.pick(&["5m250ms", "10m250ms", "2m250ms", "15m250ms"]);
        let step = self.pick(&["", "", "30s", "1m", "15s", "2m", "45s"]);
        format!("{range}:{step}")
    }

    /// Mostly nothing; else `offset`, `@` or both, in either order.
    pub(super) fn time_modifiers(&mut self) -> String {
        let offset = if self.random.one_in(6) {
            format!(" offset {}", self.offset())
        } else {
            String::new()
        };
        let at = if self.random.one_in(10) {
            format!(" @ {}", self.at())
        } else {
            String::new()
        };
        if self.random.one_in(2) {
            offset + &at
        } else {
            at + &offset
        }
    }

    fn offset(&mut self) -> String {
        if let Some(hostile) = self.hostile_duration() {
            let sign = self.pick(&["", "-"]);
            return format!("{sign}{hostile}");
        }
        if self.knows_everything() && self.random.one_in(5) {
            return format!("-({})", self.duration_expression(2));
        }
        self.pick(&["1m", "5m", "30s", "-1m", "-30s", "10m", "7s"])
            .to_string()
    }

    fn at(&mut self) -> String {
        if self.options.hostile && self.random.one_in(3) {
            let edges = ["9223372036854775", "-9223372036854775", "1e18", "0", "-1"];
            return self.pick(&edges).to_string();
        }
        let place = self.random.below(self.vocabulary.times.len() + 2);
        match self.vocabulary.times.get(place) {
            Some(time) => time.clone(),
            None => self.pick(&["start()", "end()"]).to_string(),
        }
    }

    fn hostile_duration(&mut self) -> Option<String> {
        let edges = [
            "290y",
            "1ms",
            "9223372036s",
            "100y",
            "1s",
            "52w",
            "3ms",
            "1d",
        ];
        (self.options.hostile && self.random.one_in(4)).then(|| self.pick(&edges).to_string())
    }

    fn duration_expression(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.one_in(3) {
            let terms = ["5m", "30s", "step()", "range()", "120", "1m", "0.5"];
            return self.pick(&terms).to_string();
        }
        let left = self.duration_expression(depth - 1);
        let right = self.duration_expression(depth - 1);
        match self.random.below(6) {
            0 => format!("min_of({left}, {right})"),
            1 => format!("max_of({left}, {right})"),
            2 => format!("({left} + {right})"),
            3 => format!("({left}) * 2"),
            4 => format!("({left} / {right}) + 1m"),
            _ => format!("{left} + {right}"),
        }
    }
}
