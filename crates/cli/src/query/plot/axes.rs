//! Axes: where a value or a time lies, and what is written beside it.

use super::canvas::{DOTS_ACROSS, DOTS_DOWN};
use crate::utc;

/// Rows between two labels of the value axis.
const ROWS_PER_LABEL: usize = 4;

pub(super) struct ValueAxis {
    least: f64,
    most: f64,
    rows: usize,
}

impl ValueAxis {
    /// Covers all numbers, of which there is at least one.
    pub(super) fn new(numbers: &[f64], rows: usize) -> Self {
        let mut least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let mut most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // A constant runs through the middle.
        if least == most {
            let margin = if least == 0.0 { 1.0 } else { least.abs() * 0.1 };
            least -= margin;
            most += margin;
        }
        Self { least, most, rows }
    }

    /// Counted from the top.
    pub(super) fn dot(&self, value: f64) -> usize {
        let dots = self.rows * DOTS_DOWN - 1;
        // Halved first, because the difference of two large numbers may be infinite.
        let part = (self.most / 2.0 - value / 2.0) / (self.most / 2.0 - self.least / 2.0);
        (part.clamp(0.0, 1.0) * dots as f64).round() as usize
    }

    pub(super) fn label_of_row(&self, row: usize) -> Option<String> {
        let from_bottom = self.rows - 1 - row.min(self.rows - 1);
        let is_labelled = row == 0 || from_bottom.is_multiple_of(ROWS_PER_LABEL) && row >= 2;
        is_labelled.then(|| {
            let part = from_bottom as f64 / (self.rows - 1).max(1) as f64;
            let value = self.least * (1.0 - part) + self.most * part;
            short_number(value)
        })
    }

    pub(super) fn label_width(&self) -> usize {
        let labels = (0..self.rows).filter_map(|row| self.label_of_row(row));
        labels.map(|label| label.chars().count()).max().unwrap_or(0)
    }
}

/// Four digits, with a prefix for large and small ones.
pub(super) fn short_number(value: f64) -> String {
    const LARGE: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let magnitude = value.abs();
    if magnitude >= 1e15 || magnitude > 0.0 && magnitude < 1e-4 {
        return format!("{value:.2e}");
    }
    if magnitude >= 1e4
        && let Some((unit, prefix)) = LARGE.iter().find(|(unit, _)| magnitude >= *unit)
    {
        return format!("{}{prefix}", four_digits(value / unit));
    }
    four_digits(value)
}

fn four_digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        v if v >= 0.01 || v == 0.0 => 3,
        _ => 6,
    };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    match text {
        "-0" => "0".into(),
        text => text.to_owned(),
    }
}

pub(super) struct TimeAxis {
    start_ms: i64,
    end_ms: i64,
    columns: usize,
}

impl TimeAxis {
    pub(super) fn new(start_ms: i64, end_ms: i64, columns: usize) -> Self {
        // A range of one moment stands at the left.
        let end_ms = end_ms.max(start_ms.saturating_add(1));
        Self {
            start_ms,
            end_ms,
            columns,
        }
    }

    /// Counted from the left.
    pub(super) fn dot(&self, time_ms: i64) -> usize {
        let dots = self.columns * DOTS_ACROSS - 1;
        let part = (time_ms - self.start_ms) as f64 / (self.end_ms - self.start_ms) as f64;
        (part.clamp(0.0, 1.0) * dots as f64).round() as usize
    }

    /// The axis with its ticks, and the times below them. Ticks stand at round times.
    pub(super) fn lines(&self) -> (String, String) {
        let range = self.end_ms - self.start_ms;
        let width = self.label(self.start_ms).chars().count();
        let labels_max = (self.columns / (width + 2)).max(1) as i64;
        let every = tick_distance_ms(range / labels_max);
        let mut ticks = vec!['─'; self.columns];
        let mut labels = String::new();
        let first = self.start_ms.div_euclid(every) * every;
        let count = range / every + 2;
        for time in (0..count).map(|i| first + i * every) {
            if time < self.start_ms || time > self.end_ms {
                continue;
            }
            let column = self.dot(time) / DOTS_ACROSS;
            let written = labels.chars().count();
            let label = self.label(time);
            let fits = column + label.chars().count() <= self.columns;
            if let Some(tick) = ticks.get_mut(column) {
                *tick = '┬';
            }
            if fits && (written == 0 || column > written) {
                labels.push_str(&" ".repeat(column - written));
                labels.push_str(&label);
            }
        }
        (ticks.into_iter().collect(), labels)
    }

    /// As much of a time as the range needs to be told apart.
    fn label(&self, time_ms: i64) -> String {
        const DAY_MS: i64 = 24 * 3_600_000;
        let full = utc::format_ms(time_ms);
        let part = |from: usize, to: usize| full.get(from..to).unwrap_or(&full).to_owned();
        match self.end_ms - self.start_ms {
            range if range > 7 * DAY_MS => part(0, 10),
            range if range > DAY_MS => part(5, 16).replace('T', " "),
            range if range > 5 * 60_000 => part(11, 16),
            _ => part(11, 19),
        }
    }
}

/// The least round distance that is not below `least_ms`.
fn tick_distance_ms(least_ms: i64) -> i64 {
    const SECONDS: [i64; 19] = [
        1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
        172_800, 604_800,
    ];
    let found = SECONDS.iter().map(|s| s * 1000).find(|ms| *ms >= least_ms);
    // Beyond weeks whole numbers of them.
    found.unwrap_or_else(|| (least_ms / 604_800_000 + 1) * 604_800_000)
}
