//! OpenTSDB's text formats, as they are sent: points of `/api/put` and of telnet lines, and cells
//! of its tables.
//!
//! ```text
//! JSON text   ──► put_json::read_points ──► PutPoint (metric, time, value, tags as sent)
//! telnet line ──► telnet::PutLine
//! value text  ──► number::parse_number  ──► integer or float
//! cells       ──► cell_line::CellLine, gateway::read_cells
//! ```
//!
//! Holds always:
//! - Points borrow from their text. Tags are checked, and taken apart only when somebody asks:
//!   the text of a known series is not looked at again.
//! - Messages are those of the original, because clients match them.

/// Tags of a point among which duplicates are looked for. Nobody takes points with more.
pub const DISTINCT_TAGS_MAX: usize = 256;

pub mod cell_line;
pub mod gateway;
pub mod number;
pub mod put_json;
pub mod telnet;
