//! Configuration as text: files are read with positions, checked, and rendered again.
//!
//! ```text
//! text ─► yaml ─► Node ─► Fields ─► typed values, problems with line and column
//!                                     │
//! flag, variable ─► Loader ───────────┤   format: one text form per kind of value
//!                                     ▼
//!                          render: YAML that reads back as the same values
//! ```
//!
//! Holds always:
//! - A problem says which key, what was expected, what was found and where; all are reported at
//!   once.
//! - A secret is in no problem, no rendering and no debug output.
//! - What is rendered reads back as the same value.

mod binary_size;
pub mod duration;
mod fields;
mod format;
pub mod keys;
mod loader;
mod problem;
mod read;
mod registry;
mod render;
mod secret;
pub mod size;
mod sources;
mod text;
pub mod yaml;

pub use binary_size::{parse_binary_size, show_binary_size};
pub use fields::{Fields, Findings, SourceFile, Spanned, kind_of, secret_text_of, texts_of};
pub use format::{
    Address, AutoSize, AutoTime, Bool, Choice, Format, Integer, Kind, ListenAddress, Location,
    Names, OneOf, OptionalAddress, SecretText, Size, Text, Time, parse_within,
};
pub use loader::{FILE_VARIABLE, Inputs, Loader};
pub use problem::{ConfigError, Problem, Unsupported, nearest, quoted};
pub use read::{read_bytes, read_text};
pub use registry::{MapForm, Registry, SECTION, Setting};
pub use render::{Map, Tree, yaml_text};
pub use secret::{SECRET_PLACEHOLDER, Secret, is_secret_name, without_secrets};
pub use sources::{Source, Sources};
pub use text::BadValue;
pub use yaml::{Entry, Node, Position, Value, YamlError};
