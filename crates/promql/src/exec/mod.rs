//! The data that operators pass on (the grid of steps, rows of values) and the context of a query.

mod context;
mod grid;
mod made_labels;
mod merge;
mod profile;
mod row;

pub(crate) use context::{Context, Limits, SampleCounts};
pub(crate) use grid::Grid;
pub(crate) use icecore_model::Reservation;
pub(crate) use made_labels::LabelMaker;
pub(crate) use merge::{has_equal_labels, merge_equal_labels, merge_steps};
pub(crate) use profile::{Cost, Part, Profile};
pub(crate) use row::{ABSENT, Row, ScalarColumn, Values, is_absent};
