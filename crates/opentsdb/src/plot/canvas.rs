//! What a graph is drawn on: lines, marks and texts in pixels.

use std::sync::OnceLock;

use epaint_default_fonts::HACK_REGULAR;
use http::StatusCode;
use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color as _, FontStyle, FontTransform, IntoFont as _, RGBColor, ShapeStyle, TextStyle,
    register_font,
};

use crate::error::Error;

/// Pixels to the right, and down.
pub(super) type Pixel = (i32, i32);

/// The name that browsers know a font of equal widths by, and under which ours is registered.
const FONT: &str = "monospace";

/// The height of most texts, in pixels.
pub(super) const TEXT_PX: u32 = 14;

/// The height of titles, in pixels.
pub(super) const TITLE_PX: u32 = 18;

/// Most characters of a text: none that is longer fits.
const TEXT_CHARS_MAX: usize = 1024;

pub(super) struct Canvas<B> {
    pub(super) backend: B,
    /// The color of texts and axes.
    pub(super) foreground: RGBColor,
    /// By how much texts are lowered: the font as pixels has its middle above the one that
    /// browsers see.
    text_drop_px: i32,
}

/// How a text lies at its pixel.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    /// It begins there.
    Start,
    Middle,
    /// It ends there.
    End,
    /// It is turned, reads upwards, and has its middle there.
    Upwards,
}

impl<B: DrawingBackend> Canvas<B> {
    pub(super) fn new(backend: B, foreground: RGBColor, text_drop_px: i32) -> Result<Self, Error> {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        let register = || register_font(FONT, FontStyle::Normal, HACK_REGULAR).is_ok();
        if !REGISTERED.get_or_init(register) {
            return Err(cannot_draw("the font cannot be read"));
        }
        Ok(Self {
            backend,
            foreground,
            text_drop_px,
        })
    }

    /// A filled rectangle.
    pub(super) fn fill(&mut self, from: Pixel, to: Pixel, color: RGBColor) -> Result<(), Error> {
        let drawn = self.backend.draw_rect(from, to, &color, true);
        drawn.map_err(cannot_draw)
    }

    /// The border of a rectangle.
    pub(super) fn frame(&mut self, from: Pixel, to: Pixel) -> Result<(), Error> {
        let drawn = self.backend.draw_rect(from, to, &self.foreground, false);
        drawn.map_err(cannot_draw)
    }

    /// Lines from each pixel to the next.
    pub(super) fn path(&mut self, pixels: &[Pixel], color: RGBColor) -> Result<(), Error> {
        let style: ShapeStyle = color.stroke_width(1);
        let drawn = match pixels {
            [] | [_] => return Ok(()),
            [from, to] => self.backend.draw_line(*from, *to, &style),
            _ => self.backend.draw_path(pixels.iter().copied(), &style),
        };
        drawn.map_err(cannot_draw)
    }

    pub(super) fn circle(
        &mut self,
        center: Pixel,
        radius: u32,
        color: RGBColor,
        fill: bool,
    ) -> Result<(), Error> {
        let drawn = self.backend.draw_circle(center, radius, &color, fill);
        drawn.map_err(cannot_draw)
    }

    /// A text, vertically in the middle of its pixel.
    pub(super) fn text(
        &mut self,
        text: &str,
        (x, y): Pixel,
        anchor: Anchor,
        height_px: u32,
    ) -> Result<(), Error> {
        let (horizontal, turn) = match anchor {
            Anchor::Start => (HPos::Left, FontTransform::None),
            Anchor::Middle => (HPos::Center, FontTransform::None),
            Anchor::End => (HPos::Right, FontTransform::None),
            Anchor::Upwards => (HPos::Center, FontTransform::Rotate270),
        };
        let at = match anchor {
            Anchor::Upwards => (x + self.text_drop_px, y),
            _ => (x, y + self.text_drop_px),
        };
        let font = (FONT, height_px).into_font().transform(turn);
        let style = TextStyle::from(font).color(&self.foreground);
        let style = style.pos(Pos::new(horizontal, VPos::Center));
        let drawn = self.backend.draw_text(&shown(text), &style, at);
        drawn.map_err(cannot_draw)
    }

    /// How wide a text is, in pixels.
    pub(super) fn width(&self, text: &str, height_px: u32) -> i32 {
        let style = TextStyle::from((FONT, height_px).into_font());
        let size = self.backend.estimate_text_size(&shown(text), &style);
        size.map_or(0, |(width, _)| width as i32)
    }

    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.backend.present().map_err(cannot_draw)
    }
}

/// A text without what can neither be drawn nor be a part of XML.
fn shown(text: &str) -> String {
    let visible = |c: char| {
        let is_hidden = c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}');
        if is_hidden { ' ' } else { c }
    };
    text.chars().take(TEXT_CHARS_MAX).map(visible).collect()
}

pub(super) fn cannot_draw(reason: impl std::fmt::Display) -> Error {
    let message = format!("The graph cannot be drawn: {reason}");
    Error::new(StatusCode::INTERNAL_SERVER_ERROR, message)
}
