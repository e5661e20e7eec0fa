//! The key of a graph: which curve is which series.

use plotters::backend::DrawingBackend;
use plotters::style::RGBColor;

use super::canvas::{Anchor, Canvas, TEXT_PX};
use super::chart::Rect;
use crate::error::Error;

/// From one line of text to the next.
const LINE_PX: i32 = 16;

/// The piece of a curve beside its name, with some space.
const SAMPLE_PX: i32 = 34;

/// Between the key and what is around it.
const MARGIN_PX: i32 = 6;

/// Where a key lies, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyOptions {
    is_outside: bool,
    horizontal: Side,
    vertical: Side,
    is_boxed: bool,
    /// Whether names stand beside each other.
    is_horizontal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The left or the top.
    Start,
    Center,
    /// The right or the bottom.
    End,
}

impl Side {
    /// Where something of a length begins between two ends.
    fn place(self, start: i32, end: i32, length: i32) -> i32 {
        match self {
            Self::Start => start,
            Self::Center => start + (end - start - length) / 2,
            Self::End => end - length,
        }
    }
}

impl KeyOptions {
    /// Words as gnuplot knows them, as in `out bottom center horiz box`.
    pub(super) fn parse(words: &str) -> Result<Self, String> {
        let (mut horizontal, mut vertical) = (None, None);
        let mut is_centered = false;
        let mut found = Self {
            is_outside: false,
            horizontal: Side::End,
            vertical: Side::Start,
            // As in the original, where nothing is said.
            is_boxed: words.trim().is_empty(),
            is_horizontal: false,
        };
        for word in words.split_whitespace() {
            match word {
                "out" | "outside" => found.is_outside = true,
                "in" | "ins" | "inside" => found.is_outside = false,
                "left" => horizontal = Some(Side::Start),
                "right" => horizontal = Some(Side::End),
                "top" => vertical = Some(Side::Start),
                "bottom" => vertical = Some(Side::End),
                "center" => is_centered = true,
                "box" => found.is_boxed = true,
                "nobox" => found.is_boxed = false,
                "horiz" | "horizontal" => found.is_horizontal = true,
                "vert" | "vertical" => found.is_horizontal = false,
                _ => {
                    let known =
                        "in, out, left, right, center, top, bottom, horiz, vert, box, nobox";
                    return Err(format!("it must be words out of {known}"));
                }
            }
        }
        let unsaid = |default| if is_centered { Side::Center } else { default };
        found.horizontal = horizontal.unwrap_or(unsaid(Side::End));
        found.vertical = vertical.unwrap_or(unsaid(Side::Start));
        Ok(found)
    }

    /// Whether a key outside lies above or below the curves, and not beside them.
    fn is_band(&self) -> bool {
        let is_centered = self.horizontal == Side::Center && self.vertical != Side::Center;
        self.is_horizontal || is_centered
    }
}

/// A key, laid out.
pub(super) struct Key {
    options: KeyOptions,
    entries: Vec<(String, Option<RGBColor>)>,
    per_row: usize,
    entry_px: i32,
}

impl Key {
    /// Names with the colors of their curves, as many as fit into a part of a graph.
    pub(super) fn new<'a, B: DrawingBackend>(
        options: KeyOptions,
        canvas: &Canvas<B>,
        names: impl ExactSizeIterator<Item = (&'a str, RGBColor)>,
        room: Rect,
    ) -> Self {
        let character_px = canvas.width("m", TEXT_PX).max(1);
        let name_px = (room.width() * 3 / 5 - SAMPLE_PX).max(character_px);
        let fits = (name_px / character_px).max(1) as usize;
        let count = names.len();
        let mut entries: Vec<(String, Option<RGBColor>)> = names
            .map(|(name, color)| (shortened(name, fits), Some(color)))
            .collect();
        let widths = entries.iter().map(|entry| canvas.width(&entry.0, TEXT_PX));
        let entry_px = widths.max().unwrap_or(0) + SAMPLE_PX + MARGIN_PX;
        let per_row = if options.is_horizontal {
            ((room.width() - 2 * MARGIN_PX) / entry_px).max(1) as usize
        } else {
            1
        };
        let height_px = if options.is_outside && options.is_band() {
            room.height() / 3
        } else {
            room.height() - 2 * MARGIN_PX
        };
        let fits = (height_px / LINE_PX).max(1) as usize * per_row;
        if count > fits {
            entries.truncate(fits.saturating_sub(1));
            let rest = format!("and {} more", count - entries.len());
            entries.push((rest, None));
        }
        Self {
            options,
            entries,
            per_row,
            entry_px,
        }
    }

    fn size(&self) -> (i32, i32) {
        let rows = self.entries.len().div_ceil(self.per_row) as i32;
        let columns = self.entries.len().min(self.per_row) as i32;
        (columns * self.entry_px + 4, rows * LINE_PX + 4)
    }

    /// What is left of a part of a graph if the key lies outside of the curves.
    pub(super) fn room_beside(&self, mut room: Rect) -> Rect {
        let (width, height) = self.size();
        let (width, height) = (width + MARGIN_PX, height + MARGIN_PX);
        let KeyOptions {
            horizontal,
            vertical,
            ..
        } = self.options;
        if !self.options.is_outside {
            return room;
        }
        if self.options.is_band() {
            match vertical {
                Side::End => room.bottom -= height,
                Side::Start | Side::Center => room.top += height,
            }
        } else {
            match horizontal {
                Side::Start => room.left += width,
                Side::End | Side::Center => room.right -= width,
            }
        }
        room
    }

    /// Draws the key within the curves, or within the room around them.
    pub(super) fn draw<B: DrawingBackend>(
        &self,
        canvas: &mut Canvas<B>,
        curves: Rect,
        room: Rect,
        background: Option<RGBColor>,
    ) -> Result<(), Error> {
        let (width, height) = self.size();
        let KeyOptions {
            horizontal,
            vertical,
            is_outside,
            is_boxed,
            ..
        } = self.options;
        let within = match (is_outside, self.options.is_band()) {
            (false, _) => curves.shrunk(MARGIN_PX),
            (true, true) => room,
            (true, false) => Rect {
                left: room.left,
                right: room.right,
                ..curves
            },
        };
        let left = horizontal.place(within.left, within.right, width);
        let top = vertical.place(within.top, within.bottom, height);
        let (from, to) = ((left, top), (left + width, top + height));
        if is_boxed {
            if let Some(color) = background.filter(|_| !is_outside) {
                canvas.fill(from, to, color)?;
            }
            canvas.frame(from, to)?;
        }
        for (index, (name, color)) in self.entries.iter().enumerate() {
            let (row, column) = (index / self.per_row, index % self.per_row);
            let right = left + (column as i32 + 1) * self.entry_px;
            let y = top + 2 + row as i32 * LINE_PX + LINE_PX / 2;
            canvas.text(name, (right - SAMPLE_PX, y), Anchor::End, TEXT_PX)?;
            if let Some(color) = color {
                canvas.path(&[(right - SAMPLE_PX + 6, y), (right - 2, y)], *color)?;
            }
        }
        Ok(())
    }
}

/// The beginning of a name that is too long.
fn shortened(name: &str, chars: usize) -> String {
    if name.chars().count() <= chars {
        return name.to_owned();
    }
    let kept: String = name.chars().take(chars.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_key_lies() {
        let parse = |words| KeyOptions::parse(words).unwrap();
        let default = parse("");
        assert!(default.is_boxed && !default.is_outside);
        assert_eq!(
            (default.horizontal, default.vertical),
            (Side::End, Side::Start)
        );
        let found = parse("out bottom center horiz box");
        assert!(found.is_boxed && found.is_outside && found.is_horizontal && found.is_band());
        assert_eq!(
            (found.horizontal, found.vertical),
            (Side::Center, Side::End)
        );
        let found = parse("center left");
        assert!(!found.is_boxed);
        assert_eq!(
            (found.horizontal, found.vertical),
            (Side::Start, Side::Center)
        );
        assert!(!parse("out right").is_band());
        assert!(KeyOptions::parse("out `touch x`").is_err());
    }

    #[test]
    fn long_names_are_shortened() {
        assert_eq!(shortened("äbc", 3), "äbc");
        assert_eq!(shortened("äbcd", 3), "äb…");
    }
}
