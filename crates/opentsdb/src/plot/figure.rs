//! A graph: its curves, thinned as they come.

use http::StatusCode;
use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::style::RGBColor;

use super::canvas::{Canvas, cannot_draw};
use super::chart::draw;
use super::options::{CurveOptions, PlotOptions};
use super::png::encode;
use super::smooth::Smooth;
use super::thin::{Columns, Point};
use crate::error::Error;

/// Most curves of a graph: more cannot be told apart, and each has a line in the key.
const CURVES_MAX: usize = 512;

/// Most points of all curves; beyond, columns become wider. An SVG has some 90 bytes for each.
const POINTS_MAX: usize = 200_000;

/// The fewest columns that points are thinned to.
const COLUMNS_MIN: usize = 16;

/// The color that stands for a transparent background.
const TRANSPARENT: RGBColor = RGBColor(254, 255, 254);

/// Texts of a PNG are lowered by so many pixels.
const PIXEL_TEXT_DROP: i32 = 3;

pub(crate) struct Figure {
    pub(super) options: PlotOptions,
    pub(super) columns: Columns,
    pub(super) curves: Vec<Curve>,
}

pub(super) struct Curve {
    pub(super) name: String,
    pub(super) options: CurveOptions,
    pub(super) points: Vec<Point>,
}

impl Figure {
    /// A graph from a time to another, in milliseconds, both included.
    pub(crate) fn new(options: PlotOptions, start_ms: i64, end_ms: i64) -> Self {
        let columns = Columns {
            start_ms,
            end_ms,
            count: options.size.0 as usize,
        };
        Self {
            options,
            columns,
            curves: Vec::new(),
        }
    }

    /// Adds a curve. Its points are in time order.
    pub(crate) fn add(
        &mut self,
        name: String,
        points: impl Iterator<Item = Point> + Clone,
        options: CurveOptions,
    ) -> Result<(), Error> {
        if self.curves.len() == CURVES_MAX {
            let message = format!(
                "Sorry, a graph has at most {CURVES_MAX} series. Please try filtering using more \
                 tags, or aggregate them."
            );
            return Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let smooth = options.smooth.unwrap_or(Smooth::Unique);
        let points = self.columns.thin(smooth.prepare(points));
        self.curves.push(Curve {
            name,
            options,
            points,
        });
        while self.points() > POINTS_MAX && self.columns.count > COLUMNS_MIN {
            self.columns.count /= 2;
            for curve in &mut self.curves {
                curve.points = self.columns.thin(curve.points.iter().copied());
            }
        }
        Ok(())
    }

    fn points(&self) -> usize {
        self.curves.iter().map(|curve| curve.points.len()).sum()
    }

    /// Bytes that drawing as PNG takes.
    pub(crate) fn png_bytes(&self) -> usize {
        let (width, height) = self.options.size;
        3 * width as usize * height as usize
    }

    pub(crate) fn png(&self) -> Result<Vec<u8>, Error> {
        let mut pixels = vec![0; self.png_bytes()];
        let size = self.options.size;
        let backend = BitMapBackend::with_buffer(&mut pixels, size);
        let background = self.options.background.unwrap_or(TRANSPARENT);
        self.draw(backend, Some(background), PIXEL_TEXT_DROP)?;
        let is_transparent = self.options.background.is_none();
        encode(&pixels, size, is_transparent.then_some(TRANSPARENT)).map_err(cannot_draw)
    }

    pub(crate) fn svg(&self) -> Result<String, Error> {
        let mut text = String::new();
        let backend = SVGBackend::with_string(&mut text, self.options.size);
        self.draw(backend, self.options.background, 0)?;
        Ok(text)
    }

    fn draw<B: plotters::backend::DrawingBackend>(
        &self,
        backend: B,
        background: Option<RGBColor>,
        text_drop_px: i32,
    ) -> Result<(), Error> {
        let mut canvas = Canvas::new(backend, self.options.foreground, text_drop_px)?;
        draw(self, &mut canvas, background)?;
        canvas.finish()
    }
}
