//! Named places where a crash test ends the process.
//!
//! `ICECORE_FAILPOINT=flush.index:3` aborts the process when it passes `flush.index` for the third
//! time: no destructor runs and nothing is written any more, as with SIGKILL. Unset, a fail point
//! is one load of a flag.
//!
//! Only builds with the feature `fail-points` have them, which the tests of the binary switch on.
//! In all others [`pass`] does nothing, and the names are not in the program.

#[cfg(feature = "fail-points")]
pub use armed::{FAIL_POINT_VARIABLE, FAIL_POINTS};

/// Environment variables that this crate reads in tests. They are no settings.
#[cfg(feature = "fail-points")]
pub const TEST_VARIABLES: &[&str] = &[FAIL_POINT_VARIABLE];
#[cfg(not(feature = "fail-points"))]
pub const TEST_VARIABLES: &[&str] = &[];

/// Ends the process here if the environment says so.
#[inline]
pub(crate) fn pass(name: &'static str) {
    #[cfg(feature = "fail-points")]
    armed::pass(name);
    #[cfg(not(feature = "fail-points"))]
    let _ = name;
}

#[cfg(feature = "fail-points")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use tracing::error;

    /// The environment variable that arms a fail point.
    pub const FAIL_POINT_VARIABLE: &str = "ICECORE_FAILPOINT";

    /// All fail points, in the order in which a flush passes them, and then those of maintenance.
    pub const FAIL_POINTS: &[&str] = &[
        "flush.frozen",
        "flush.series",
        "flush.index",
        "flush.samples",
        "flush.before_commit",
        "flush.committed",
        "flush.dropped",
        "totals.written",
        "totals.before_commit",
        "totals.committed",
        "summary.before",
        "summary.written",
        "drain.before_memtable",
        "drain.before",
        "drain.submitted",
        "drain.done",
        "drain.cursors",
        "journal.written",
        "journal.durable",
        "events.batch.written",
        "events.batch.durable",
        "coarsen.write",
        "coarsen.written",
        "coarsen.committed",
        "fold.write",
        "cull.before",
        "cull.closed",
        "cull.committed",
        "remnant.commit",
        "merge.write",
        "merge.written",
        "merge.committed",
        "retire.before",
        "retire.drained",
        "retire.done",
        "delete.before",
        "delete.written",
        "clean.samples",
        "clean.index",
        "clean.series",
        "clean.done",
    ];

    struct Armed {
        name: String,
        passes_left: AtomicU32,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    pub(super) fn pass(name: &'static str) {
        debug_assert!(FAIL_POINTS.contains(&name), "{name} is not listed");
        let Some(armed) = ARMED.get_or_init(from_environment) else {
            return;
        };
        if armed.name == name && armed.passes_left.fetch_sub(1, Relaxed) == 1 {
            error!(name, "fail point reached: exiting");
            std::process::abort();
        }
    }

    fn from_environment() -> Option<Armed> {
        let setting = std::env::var(FAIL_POINT_VARIABLE).ok()?;
        let (name, passes) = setting.split_once(':').unwrap_or((&setting, "1"));
        let passes_left = AtomicU32::new(passes.parse().unwrap_or(1));
        Some(Armed {
            name: name.into(),
            passes_left,
        })
    }
}
