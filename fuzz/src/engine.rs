//! Runs one target for a while and reports the first thing that must not happen.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::Target;
use crate::memory::{announce, peak_of};
use crate::mutate::{Random, mutate};

/// A decoder may hold this much for any input, and this much more per byte of input.
pub const MEMORY_BASE: usize = 1 << 20;
const MEMORY_PER_BYTE: usize = 1000;

/// Damaged inputs that are kept to be damaged further.
const POOL_LIMIT: usize = 256;

/// The clock is asked once per this many inputs.
const BATCH: u64 = 64;

/// A run without findings.
#[derive(Debug)]
pub struct Report {
    pub target: &'static str,
    pub seed: u64,
    pub iterations: u64,
    /// The most memory that one input took.
    pub peak_bytes: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            target,
            seed,
            iterations,
            peak_bytes,
        } = self;
        write!(
            f,
            "{target}: {iterations} inputs, seed {seed}, at most {peak_bytes} bytes held"
        )
    }
}

/// An input that a decoder did not survive.
#[derive(Debug)]
pub struct Finding {
    pub target: &'static str,
    pub seed: u64,
    pub iteration: u64,
    pub what: String,
    pub input: Vec<u8>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            target,
            seed,
            iteration,
            what,
            ..
        } = self;
        write!(
            f,
            "{target}: {what}\n  seed {seed}, input {iteration}; to repeat it:\n"
        )?;
        write!(f, "  FUZZ_TARGET='{target}' FUZZ_INPUT=")?;
        self.input
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Feeds the target its seeds as they are, then damaged, until the time is over.
pub fn fuzz(target: &Target, seed: u64, duration: Duration) -> Result<Report, Box<Finding>> {
    let deadline = Instant::now() + duration;
    let mut random = Random::new(seed);
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has no seeds", target.name);
    let mut report = Report {
        target: target.name,
        seed,
        iterations: 0,
        peak_bytes: 0,
    };
    for input in &seeds {
        step(target, &mut report, input)?;
    }
    let mut pool: Vec<Vec<u8>> = Vec::new();
    while !report.iterations.is_multiple_of(BATCH) || Instant::now() < deadline {
        // Mostly the seeds: damage on damage soon goes no further than the first check.
        let pick = |random: &mut Random| match pool.get(random.below(4 * POOL_LIMIT)) {
            Some(damaged) => damaged,
            None => &seeds[random.below(seeds.len())],
        };
        let other = pick(&mut random);
        let mut input = pick(&mut random).clone();
        mutate(&mut random, &mut input, other);
        step(target, &mut report, &input)?;
        if random.below(32) == 0 {
            if pool.len() == POOL_LIMIT {
                pool.swap_remove(random.below(POOL_LIMIT));
            }
            pool.push(input);
        }
    }
    Ok(report)
}

/// Feeds the target one input.
pub fn replay(target: &Target, input: &[u8]) -> Result<Report, Box<Finding>> {
    let mut report = Report {
        target: target.name,
        seed: 0,
        iterations: 0,
        peak_bytes: 0,
    };
    step(target, &mut report, input)?;
    Ok(report)
}

fn step(target: &Target, report: &mut Report, input: &[u8]) -> Result<(), Box<Finding>> {
    let finding = |what: String| {
        Box::new(Finding {
            target: target.name,
            seed: report.seed,
            iteration: report.iterations,
            what,
            input: input.to_vec(),
        })
    };
    announce(target.name, report.seed, report.iterations);
    let mut outcome = Ok(());
    let peak = peak_of(|| outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input))));
    if let Err(panic) = outcome {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        return Err(finding(format!(
            "panicked: {}",
            message.unwrap_or("without a message")
        )));
    }
    if peak > target.memory_base + MEMORY_PER_BYTE * input.len() {
        return Err(finding(format!(
            "held {peak} bytes for an input of {}",
            input.len()
        )));
    }
    report.iterations += 1;
    report.peak_bytes = report.peak_bytes.max(peak);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(run: fn(&[u8])) -> Target {
        Target {
            name: "test",
            seeds: || vec![b"seed".to_vec()],
            run,
            memory_base: MEMORY_BASE,
        }
    }

    #[test]
    fn a_panic_is_found_and_can_be_repeated() {
        let fragile = target(|input| assert!(input.len() < 6, "too long for me"));
        let finding = fuzz(&fragile, 1, Duration::from_secs(10)).unwrap_err();
        assert!(finding.what.contains("too long for me"), "{finding}");
        let again = replay(&fragile, &finding.input).unwrap_err();
        assert_eq!(again.what, finding.what);
    }

    #[test]
    fn memory_without_reason_is_found() {
        let greedy = target(|input| {
            if input.first() == Some(&0xff) {
                std::hint::black_box(vec![0u8; 5 << 20]);
            }
        });
        let finding = fuzz(&greedy, 1, Duration::from_secs(10)).unwrap_err();
        assert!(finding.what.contains("bytes for an input"), "{finding}");
    }

    #[test]
    fn a_seed_decides_the_run() {
        let inputs = |seed: u64| {
            let mut random = Random::new(seed);
            let mut input = b"some valid input".to_vec();
            mutate(&mut random, &mut input, b"other");
            input
        };
        assert_eq!(inputs(7), inputs(7));
        assert_ne!(inputs(7), inputs(8));
    }
}
