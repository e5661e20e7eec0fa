//! Runs every target for `FUZZ_INPUTS` or `FUZZ_SECONDS` on two threads, or replays `FUZZ_INPUT`.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it stands"
)]

use std::env;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use icecore_fuzz::{Extent, Finding, Report, Target, all_targets, fuzz, replay};

const THREADS: usize = 2;

/// Inputs of each target where nothing else is asked for.
const INPUTS: u64 = 2_000;

/// The seed of runs by number.
const SEED: u64 = 1;

#[test]
fn no_decoder_panics_or_takes_memory_without_reason() {
    let wanted = env::var("FUZZ_TARGET").unwrap_or_default();
    let targets: Vec<Target> = all_targets()
        .into_iter()
        .filter(|target| target.name.contains(&wanted))
        .collect();
    assert!(!targets.is_empty(), "no target is called {wanted:?}");
    let work = job();
    let queue = Mutex::new(targets.into_iter());
    let findings = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some(target) = queue.lock().unwrap().next() else {
                        break;
                    };
                    match work(&target) {
                        Ok(report) => println!("{report}"),
                        Err(finding) => findings.lock().unwrap().push(finding.to_string()),
                    }
                }
            });
        }
    });
    let findings = findings.into_inner().unwrap();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_nanos() as u64
}

type Job = Box<dyn Fn(&Target) -> Result<Report, Box<Finding>> + Sync>;

fn job() -> Job {
    if let Ok(hex) = env::var("FUZZ_INPUT") {
        let input: Vec<u8> = hex
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        return Box::new(move |target| replay(target, &input));
    }
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (extent, seed) = match number("FUZZ_SECONDS") {
        Some(seconds) => (Extent::Time(Duration::from_secs(seconds)), fresh_seed()),
        None => (
            Extent::Inputs(number("FUZZ_INPUTS").unwrap_or(INPUTS)),
            SEED,
        ),
    };
    let seed = number("FUZZ_SEED").unwrap_or(seed);
    Box::new(move |target| fuzz(target, seed, extent))
}
