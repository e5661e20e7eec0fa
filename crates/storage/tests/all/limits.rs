//! Every limit has a defined answer, and no input panics.

mod invalid;
mod process_limits;
mod read_memory;
mod request_limits;
mod series_limits;

use icecore_storage::{Options, Rejection, WriteError, WriteOutcome};

use crate::process::{Process, World};
use crate::requests::{Entry, request};
use crate::support::{Content, everything, read};

/// A process with some limit changed.
fn with(change: impl FnOnce(&mut Options)) -> (World, Process) {
    let mut world = World::new();
    change(&mut world.options);
    let process = world.start();
    (world, process)
}

fn send(process: &Process, entries: Vec<Entry>) -> Result<WriteOutcome, WriteError<()>> {
    process.run(request(&process.db, entries))
}

fn content(process: &Process) -> Content {
    process.run(read(&process.db, everything()))
}

/// The one rejection of an outcome, whose reason contains `word`.
#[track_caller]
fn rejection<'o>(outcome: &'o WriteOutcome, word: &str) -> &'o Rejection {
    let [rejected] = &outcome.rejected[..] else {
        panic!("one reason for a rejection: {outcome:?}");
    };
    assert!(rejected.reason.contains(word), "{rejected:?}");
    rejected
}
