//! Dots in cells: two columns and four rows of them in each character.

pub(super) struct Canvas {
    columns: usize,
    rows: usize,
    /// The dots of each cell, and the series that drew there last.
    cells: Vec<(u8, usize)>,
}

pub(super) const DOTS_ACROSS: usize = 2;
pub(super) const DOTS_DOWN: usize = 4;

/// The bits of a braille character by column and row of the dot.
const DOT_BITS: [[u8; DOTS_DOWN]; DOTS_ACROSS] =
    [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

impl Canvas {
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        Self {
            columns,
            rows,
            cells: vec![(0, 0); columns * rows],
        }
    }

    /// The character of a cell and its series; `None` when nothing is drawn there.
    pub(super) fn cell(&self, column: usize, row: usize) -> Option<(char, usize)> {
        let (bits, series) = self.cells.get(row * self.columns + column)?;
        let braille = char::from_u32(0x2800 + u32::from(*bits))?;
        (*bits != 0).then_some((braille, *series))
    }

    /// A line between two dots, both included. Dots count from the left and from the top.
    pub(super) fn line(&mut self, from: (usize, usize), to: (usize, usize), series: usize) {
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
        let between = |a: usize, b: usize, step: usize| {
            let part = step as f64 / steps as f64;
            (a as f64 + (b as f64 - a as f64) * part).round() as usize
        };
        for step in 0..=steps {
            self.dot(
                between(from.0, to.0, step),
                between(from.1, to.1, step),
                series,
            );
        }
    }

    fn dot(&mut self, x: usize, y: usize, series: usize) {
        let (column, row) = (x / DOTS_ACROSS, y / DOTS_DOWN);
        if column >= self.columns || row >= self.rows {
            return;
        }
        if let Some(cell) = self.cells.get_mut(row * self.columns + column) {
            cell.0 |= DOT_BITS[x % DOTS_ACROSS][y % DOTS_DOWN];
            cell.1 = series;
        }
    }
}
