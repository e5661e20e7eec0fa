//! Random operations on the database and on a map of (labels, timestamp) → value: both must agree
//! after each of them.
//!
//! `PROPTEST_CASES=2000 cargo test -p icecore-storage --test all model` is the long form.

mod oracle;
mod run;
mod steps;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use run::Run;
use steps::{settings, steps};

/// About 20 s on two busy cores.
const CASES: u32 = 60;

fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok();
    Config {
        cases: cases.and_then(|n| n.parse().ok()).unwrap_or(CASES),
        max_shrink_time: 120_000,
        // The failing steps are printed in full; a file of seeds would only be noise.
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_database_agrees_with_a_map(settings in settings(), steps in steps()) {
        let mut run = Run::new(&settings);
        for (number, step) in steps.iter().enumerate() {
            run.take(number, step);
        }
        run.finish();
    }
}
