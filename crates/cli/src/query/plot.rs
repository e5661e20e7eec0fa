//! Series drawn in a terminal: braille dots, axes with times and values, a legend.
//!
//! ```text
//!  12 ┤⢀⡠⠤⠒⠉
//!     │⠁
//!   0 ┼─────┬────
//!     22:00 22:30
//! ```
//!
//! Holds always:
//! - Where nothing was measured nothing is drawn: lines connect neighbouring steps only.
//! - Colours tell series apart in a terminal, letters elsewhere; nothing but the text depends on
//!   it.

mod axes;
mod canvas;

use std::io::IsTerminal as _;

use super::answer::Series;
use crate::output::Output;
use axes::{TimeAxis, ValueAxis, short_number};
use canvas::Canvas;

pub(super) const DEFAULT_HEIGHT: usize = 20;

const WIDTH_MIN: usize = 30;
const WIDTH_MAX: usize = 1000;
const HEIGHT_MIN: usize = 4;
const HEIGHT_MAX: usize = 200;

/// Columns where neither the terminal nor the user says how many there are.
const DEFAULT_WIDTH: usize = 80;

/// Series that are drawn; more could not be told apart.
const SERIES_MAX: usize = 26;

/// The colours of a terminal that show on light and dark alike.
const COLOURS: [u8; 12] = [32, 33, 34, 35, 36, 31, 92, 93, 94, 95, 96, 91];

/// What is drawn, and how large.
pub(super) struct Area {
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    pub(super) step_ms: i64,
    pub(super) width: usize,
    pub(super) height: usize,
}

/// How many columns a plot has.
pub(super) fn width(asked: Option<usize>) -> usize {
    let of_terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    let width = asked.or_else(of_terminal).unwrap_or(DEFAULT_WIDTH);
    width.clamp(WIDTH_MIN, WIDTH_MAX)
}

pub(super) fn print(all: &[Series], area: &Area, mut output: Output) -> anyhow::Result<()> {
    let in_colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    for line in draw(all, area, in_colour) {
        if !output.line(&line)? {
            break;
        }
    }
    Ok(output.finish()?)
}

fn draw(all: &[Series], area: &Area, in_colour: bool) -> Vec<String> {
    let shown = &all[..all.len().min(SERIES_MAX)];
    let finite = |series: &Series| {
        let numbers = series.points.iter().filter_map(|point| point.number);
        numbers
            .filter(|number| number.is_finite())
            .collect::<Vec<f64>>()
    };
    let numbers: Vec<f64> = shown.iter().flat_map(finite).collect();
    if numbers.is_empty() {
        return vec!["nothing to draw: the result has no numbers in this range".into()];
    }
    let rows = area.height.clamp(HEIGHT_MIN, HEIGHT_MAX);
    let values = ValueAxis::new(&numbers, rows);
    let gutter = values.label_width();
    let columns = area.width.saturating_sub(gutter + 2).max(WIDTH_MIN / 2);
    let times = TimeAxis::new(area.start_ms, area.end_ms, columns);
    let mut canvas = Canvas::new(columns, rows);
    for (i, series) in shown.iter().enumerate() {
        draw_series(&mut canvas, series, i, area.step_ms, &times, &values);
    }
    let marks = Marks {
        in_colour,
        several: shown.len() > 1,
    };
    let mut lines = Vec::new();
    for row in 0..rows {
        let (label, tick) = match values.label_of_row(row) {
            Some(label) => (label, '┤'),
            None => (String::new(), '│'),
        };
        let cells: String = (0..columns)
            .map(|column| marks.cell(&canvas, column, row))
            .collect();
        lines.push(format!("{label:>gutter$} {tick}{}", cells.trim_end()));
    }
    let (ticks, labels) = times.lines();
    lines.push(format!("{:>gutter$} └{ticks}", ""));
    lines.push(format!("{:>gutter$}  {labels}", ""));
    lines.extend(
        shown
            .iter()
            .enumerate()
            .map(|(i, series)| marks.legend(i, series)),
    );
    if all.len() > shown.len() {
        let left_out = all.len() - shown.len();
        lines.push(format!("… and {left_out} more series that are not drawn"));
    }
    lines
}

fn draw_series(
    canvas: &mut Canvas,
    series: &Series,
    index: usize,
    step_ms: i64,
    times: &TimeAxis,
    values: &ValueAxis,
) {
    let mut previous: Option<(i64, (usize, usize))> = None;
    for point in &series.points {
        let Some(number) = point.number.filter(|number| number.is_finite()) else {
            previous = None;
            continue;
        };
        let at = (times.dot(point.time_ms), values.dot(number));
        let neighbour = previous.filter(|(time, _)| point.time_ms - time <= step_ms);
        let from = neighbour.map_or(at, |(_, dot)| dot);
        canvas.line(from, at, index);
        previous = Some((point.time_ms, at));
    }
}

/// How series are told apart.
struct Marks {
    in_colour: bool,
    several: bool,
}

impl Marks {
    fn cell(&self, canvas: &Canvas, column: usize, row: usize) -> String {
        match canvas.cell(column, row) {
            None => " ".into(),
            Some((_, series)) if self.several && !self.in_colour => letter(series).into(),
            Some((braille, series)) => self.coloured(braille, series),
        }
    }

    fn legend(&self, index: usize, series: &Series) -> String {
        let mark = if self.several && !self.in_colour {
            letter(index).to_string()
        } else {
            self.coloured('⣿', index)
        };
        let finite = series.points.iter().filter_map(|point| point.number);
        let finite: Vec<f64> = finite.filter(|number| number.is_finite()).collect();
        let Some(last) = finite.last() else {
            return format!("{mark} {}  no numbers", series.name());
        };
        let least = finite.iter().copied().fold(f64::INFINITY, f64::min);
        let most = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let [least, most, last] = [least, most, *last].map(short_number);
        format!(
            "{mark} {}  min {least}  max {most}  last {last}",
            series.name()
        )
    }

    fn coloured(&self, symbol: char, series: usize) -> String {
        if self.in_colour {
            let colour = COLOURS[series % COLOURS.len()];
            format!("\x1b[{colour}m{symbol}\x1b[0m")
        } else {
            symbol.to_string()
        }
    }
}

fn letter(series: usize) -> char {
    char::from(b'a' + (series % 26) as u8)
}

#[cfg(test)]
mod tests;
