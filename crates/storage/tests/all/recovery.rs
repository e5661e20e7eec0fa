//! What a start finds after an end that was not planned: damaged journals, flushes cut in half,
//! drained epochs, another writer.

mod damaged_journal;
mod interrupted_flush;
mod numbering;
mod passed_over;
mod takeover;
