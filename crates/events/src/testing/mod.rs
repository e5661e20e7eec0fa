//! A store in memory with faults that tests choose, a simple format of files, and what benches
//! need.

mod json_lines;
mod memory_files;
mod memory_rows;
mod memory_shard;
mod memory_store;

pub use crate::engine::OpenGeneration;
pub use json_lines::JsonLines;
pub use memory_files::MemoryFiles;
pub use memory_rows::MemoryRows;
pub use memory_shard::MemoryShard;
pub use memory_store::{Fault, MemoryStore, Operation};
