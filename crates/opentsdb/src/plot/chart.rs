//! Lays a graph out and draws it: axes around curves, labels around axes, the key.

use plotters::backend::DrawingBackend;
use plotters::style::RGBColor;

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Pixel, TEXT_PX, TITLE_PX};
use super::figure::{Curve, Figure};
use super::key::Key;
use super::options::{AxisOptions, CurveStyle};
use super::smooth::Smooth;
use super::thin::Point;
use super::time_axis;
use crate::error::Error;

/// Colors of curves, told apart on white and on black.
const COLORS: [RGBColor; 10] = [
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(31, 119, 180),
    RGBColor(227, 119, 194),
    RGBColor(23, 160, 180),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(127, 127, 127),
    RGBColor(170, 170, 34),
];

/// Between the border of a graph and what is in it.
const MARGIN_PX: i32 = 8;

/// From one tick to the next, at least.
const TICK_PX: i32 = 40;

/// Between two labels of times.
const LABEL_GAP_PX: i32 = 20;

/// Marks are drawn on lines if they are this far apart, on average.
const MARK_GAP_PX: usize = 5;

/// What is farther away is drawn as if it were there: floats could not be subtracted otherwise.
const FAR_PX: f64 = 1e7;

/// Pixels from the left and the top, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) right: i32,
    pub(super) bottom: i32,
}

impl Rect {
    pub(super) fn width(&self) -> i32 {
        self.right - self.left
    }

    pub(super) fn height(&self) -> i32 {
        self.bottom - self.top
    }

    pub(super) fn shrunk(&self, by: i32) -> Self {
        Self {
            left: self.left + by,
            top: self.top + by,
            right: self.right - by,
            bottom: self.bottom - by,
        }
    }

    /// The part of a line that lies inside.
    fn clip(&self, from: (f64, f64), to: (f64, f64)) -> Option<(Pixel, Pixel)> {
        let near = |(x, y): (f64, f64)| (x.clamp(-FAR_PX, FAR_PX), y.clamp(-FAR_PX, FAR_PX));
        let (from, to) = (near(from), near(to));
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let mut entry: f64 = 0.0;
        let mut exit: f64 = 1.0;
        for (step, room) in [
            (-dx, from.0 - f64::from(self.left)),
            (dx, f64::from(self.right) - from.0),
            (-dy, from.1 - f64::from(self.top)),
            (dy, f64::from(self.bottom) - from.1),
        ] {
            if step == 0.0 {
                if room < 0.0 {
                    return None;
                }
            } else if step < 0.0 {
                entry = entry.max(room / step);
            } else {
                exit = exit.min(room / step);
            }
        }
        let at = |share: f64| pixel((from.0 + share * dx, from.1 + share * dy));
        (entry <= exit).then(|| (at(entry), at(exit)))
    }

    fn contains(&self, (x, y): (f64, f64)) -> bool {
        let (left, right) = (f64::from(self.left), f64::from(self.right));
        let (top, bottom) = (f64::from(self.top), f64::from(self.bottom));
        (left..=right).contains(&x) && (top..=bottom).contains(&y)
    }
}

fn pixel((x, y): (f64, f64)) -> Pixel {
    (x.round() as i32, y.round() as i32)
}

/// Where curves lie, and their axes.
struct Chart<'a> {
    figure: &'a Figure,
    curves: Rect,
    left: Axis,
    /// Only where a curve belongs to it.
    right: Option<Axis>,
    times: Vec<(i64, String)>,
}

pub(super) fn draw<B: DrawingBackend>(
    figure: &Figure,
    canvas: &mut Canvas<B>,
    background: Option<RGBColor>,
) -> Result<(), Error> {
    let (width, height) = (figure.options.size.0 as i32, figure.options.size.1 as i32);
    if let Some(color) = background {
        canvas.fill((0, 0), (width, height), color)?;
    }
    let mut room = Rect {
        left: MARGIN_PX,
        top: MARGIN_PX,
        right: width - 1 - MARGIN_PX,
        bottom: height - 1 - MARGIN_PX,
    };
    let title = &figure.options.title;
    if !title.is_empty() {
        let middle = (width / 2, room.top + TITLE_PX as i32 / 2);
        canvas.text(title, middle, Anchor::Middle, TITLE_PX)?;
        room.top += TITLE_PX as i32 + MARGIN_PX;
    }
    let names = figure.curves.iter().enumerate();
    let names = names.map(|(i, curve)| (curve.name.as_str(), COLORS[i % COLORS.len()]));
    let key = figure.options.key.filter(|_| !figure.curves.is_empty());
    let key = key.map(|options| Key::new(options, canvas, names, room));
    let beside = key.as_ref().map_or(room, |key| key.room_beside(room));
    let chart = Chart::new(figure, canvas, beside);
    chart.draw_axes(canvas, beside, background)?;
    for (i, curve) in figure.curves.iter().enumerate() {
        chart.draw_curve(canvas, curve, COLORS[i % COLORS.len()])?;
    }
    if figure.curves.iter().all(|curve| curve.points.is_empty()) {
        let Rect {
            left, right, top, ..
        } = chart.curves;
        let at = ((left + right) / 2, top + chart.curves.height() / 10);
        canvas.text("No data", at, Anchor::Middle, TEXT_PX)?;
    }
    match &key {
        Some(key) => key.draw(canvas, chart.curves, room, background),
        None => Ok(()),
    }
}

impl<'a> Chart<'a> {
    fn new<B: DrawingBackend>(figure: &'a Figure, canvas: &Canvas<B>, room: Rect) -> Self {
        let mut curves = room;
        curves.bottom -= TEXT_PX as i32 + MARGIN_PX;
        let ticks = (curves.height() / TICK_PX).max(2) as usize;
        let axis = |is_right: bool, options: &AxisOptions| {
            Axis::new(options, figure.values(is_right), ticks)
        };
        let left = axis(false, &figure.options.left);
        let has_right = figure.curves.iter().any(|curve| curve.options.is_right);
        let right = has_right.then(|| axis(true, &figure.options.right));
        curves.left += taken(canvas, &left, &figure.options.left);
        match &right {
            // The last label of the times may stand out by a half.
            None => curves.right -= 2 * MARGIN_PX,
            Some(axis) => curves.right -= taken(canvas, axis, &figure.options.right),
        }
        // Whatever labels take, some pixels are left.
        curves.right = curves.right.max(curves.left + 8);
        curves.bottom = curves.bottom.max(curves.top + 8);
        let fitting = |label: &str| {
            let label_px = canvas.width(label, TEXT_PX) + LABEL_GAP_PX;
            (curves.width() / label_px.max(1)).max(1) as usize
        };
        let window = (figure.columns.start_ms, figure.columns.end_ms);
        let options = &figure.options;
        let times = time_axis::ticks(window, &options.zone, &options.time_format, fitting);
        Self {
            figure,
            curves,
            left,
            right,
            times,
        }
    }

    fn x(&self, time: i64) -> f64 {
        let columns = &self.figure.columns;
        let share = (time - columns.start_ms) as f64 / (columns.end_ms - columns.start_ms) as f64;
        f64::from(self.curves.left) + share * f64::from(self.curves.width())
    }

    fn y(&self, axis: &Axis, value: f64) -> Option<f64> {
        let share = axis.share(value)?;
        Some(f64::from(self.curves.bottom) - share * f64::from(self.curves.height()))
    }

    fn draw_axes<B: DrawingBackend>(
        &self,
        canvas: &mut Canvas<B>,
        room: Rect,
        background: Option<RGBColor>,
    ) -> Result<(), Error> {
        let Rect {
            left,
            top,
            right,
            bottom,
        } = self.curves;
        let grid = faded(canvas.foreground, background);
        let label_y = bottom + MARGIN_PX / 2 + TEXT_PX as i32 / 2;
        for (time, label) in &self.times {
            let x = self.x(*time).round() as i32;
            canvas.path(&[(x, top), (x, bottom)], grid)?;
            canvas.text(label, (x, label_y), Anchor::Middle, TEXT_PX)?;
        }
        for (value, label) in &self.left.ticks {
            let Some(y) = self.y(&self.left, *value).map(|y| y.round() as i32) else {
                continue;
            };
            canvas.path(&[(left, y), (right, y)], grid)?;
            canvas.text(label, (left - MARGIN_PX / 2, y), Anchor::End, TEXT_PX)?;
        }
        if let Some(axis) = &self.right {
            for (value, label) in &axis.ticks {
                let Some(y) = self.y(axis, *value).map(|y| y.round() as i32) else {
                    continue;
                };
                canvas.path(&[(right - 4, y), (right, y)], canvas.foreground)?;
                canvas.text(label, (right + MARGIN_PX / 2, y), Anchor::Start, TEXT_PX)?;
            }
        }
        canvas.frame((left, top), (right, bottom))?;
        let (middle, half) = ((top + bottom) / 2, TEXT_PX as i32 / 2);
        let options = &self.figure.options;
        let labels = [
            (&options.left, room.left + half),
            (&options.right, room.right - half),
        ];
        for (axis, x) in labels {
            if !axis.label.is_empty() {
                canvas.text(&axis.label, (x, middle), Anchor::Upwards, TEXT_PX)?;
            }
        }
        Ok(())
    }

    fn draw_curve<B: DrawingBackend>(
        &self,
        canvas: &mut Canvas<B>,
        curve: &Curve,
        color: RGBColor,
    ) -> Result<(), Error> {
        let axis = match &self.right {
            Some(axis) if curve.options.is_right => axis,
            _ => &self.left,
        };
        let place = |point: &Point| Some((self.x(point.0), self.y(axis, point.1)?));
        let marks: Vec<_> = curve.points.iter().map(place).collect();
        let style = curve.options.style;
        if matches!(style, CurveStyle::Lines | CurveStyle::LinesAndPoints) {
            let smooth = curve.options.smooth.unwrap_or(Smooth::Unique);
            let line = smooth.finish(curve.points.clone(), self.figure.columns);
            let line: Vec<_> = line.iter().map(place).collect();
            self.draw_lines(canvas, &line, color)?;
        }
        let is_sparse = marks.len() * MARK_GAP_PX <= self.curves.width() as usize;
        if style == CurveStyle::Lines || (style == CurveStyle::LinesAndPoints && !is_sparse) {
            return Ok(());
        }
        let inside = marks.into_iter().flatten();
        for place in inside.filter(|place| self.curves.contains(*place)) {
            let (x, y) = pixel(place);
            match style {
                CurveStyle::Dots => canvas.fill((x, y), (x + 1, y + 1), color)?,
                CurveStyle::Circles => canvas.circle((x, y), 4, color, false)?,
                _ => canvas.circle((x, y), 2, color, true)?,
            }
        }
        Ok(())
    }

    /// Lines between places, as far as they lie among the curves. What has no place ends a line.
    fn draw_lines<B: DrawingBackend>(
        &self,
        canvas: &mut Canvas<B>,
        places: &[Option<(f64, f64)>],
        color: RGBColor,
    ) -> Result<(), Error> {
        let mut path: Vec<Pixel> = Vec::new();
        for pair in places.windows(2) {
            let ends = pair[0].zip(pair[1]);
            let clipped = ends.and_then(|(from, to)| self.curves.clip(from, to));
            let Some((from, to)) = clipped else {
                continue;
            };
            if path.last() != Some(&from) {
                canvas.path(&path, color)?;
                path.clear();
                path.push(from);
            }
            if from != to {
                path.push(to);
            }
        }
        canvas.path(&path, color)
    }
}

impl Figure {
    /// Values within the window of all curves of an axis.
    fn values(&self, is_right: bool) -> impl Iterator<Item = f64> {
        let curves = self.curves.iter();
        let of_axis = curves.filter(move |curve| curve.options.is_right == is_right);
        let window = self.columns.start_ms..=self.columns.end_ms;
        let points = of_axis.flat_map(|curve| &curve.points);
        let inside = points.filter(move |(time, _)| window.contains(time));
        inside.map(|(_, value)| *value)
    }
}

/// Pixels beside the curves that an axis takes for its labels.
fn taken<B: DrawingBackend>(canvas: &Canvas<B>, axis: &Axis, options: &AxisOptions) -> i32 {
    let widths = axis.ticks.iter().map(|tick| canvas.width(&tick.1, TEXT_PX));
    let label_px = if options.label.is_empty() {
        0
    } else {
        TEXT_PX as i32 + MARGIN_PX
    };
    widths.max().unwrap_or(0) + MARGIN_PX + label_px
}

/// A color a fifth of the way from the background to the foreground.
fn faded(foreground: RGBColor, background: Option<RGBColor>) -> RGBColor {
    let background = background.unwrap_or(RGBColor(255, 255, 255));
    let mix = |front: u8, back: u8| ((u16::from(front) + 4 * u16::from(back)) / 5) as u8;
    RGBColor(
        mix(foreground.0, background.0),
        mix(foreground.1, background.1),
        mix(foreground.2, background.2),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECT: Rect = Rect {
        left: 10,
        top: 20,
        right: 110,
        bottom: 70,
    };

    #[test]
    fn lines_are_cut_at_the_border() {
        let clip = |from, to| RECT.clip(from, to);
        assert_eq!(clip((20.0, 30.0), (30.0, 40.0)), Some(((20, 30), (30, 40))));
        assert_eq!(clip((0.0, 30.0), (20.0, 40.0)), Some(((10, 35), (20, 40))));
        assert_eq!(
            clip((60.0, -1e300), (60.0, 1e300)),
            Some(((60, 20), (60, 70)))
        );
        assert_eq!(clip((0.0, 0.0), (120.0, 0.0)), None);
        assert_eq!(clip((0.0, 60.0), (20.0, 90.0)), None);
        assert_eq!(clip((50.0, 50.0), (50.0, 50.0)), Some(((50, 50), (50, 50))));
    }
}
