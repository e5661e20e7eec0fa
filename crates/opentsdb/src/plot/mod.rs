//! Graphs of `/q`, as PNG and SVG.
//!
//! ```text
//! query string ─► PlotOptions ─┐
//! points ─► thinned to columns ┴► Figure ─► layout, axes, curves, key ─► pixels ─► PNG
//!                                                                    └► elements ─► SVG
//! ```
//!
//! Holds always:
//! - What a graph takes in memory depends on its size in pixels and not on its points.
//! - Texts are drawn as they are; none of them is read as markup or as a command.
//! - Nothing is read from the system: the font is in the binary.

mod axis;
mod canvas;
mod chart;
mod figure;
mod key;
mod number_format;
mod options;
mod png;
mod smooth;
mod thin;
mod time_axis;

pub(crate) use figure::Figure;
pub(crate) use options::PlotOptions;
