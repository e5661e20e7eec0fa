//! Runs one target for so many inputs or so long and reports the first thing that must not happen.

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

/// The end of a run.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// After this many damaged inputs: with the same seed every machine does the same.
    Inputs(u64),
    /// After this time.
    Time(Duration),
}

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

/// Feeds the target its seeds as they are, then damaged ones until the end of the run.
pub fn fuzz(target: &Target, seed: u64, extent: Extent) -> Result<Report, Box<Finding>> {
    let began = Instant::now();
    let is_over = |damaged: u64| match extent {
        Extent::Inputs(inputs) => damaged >= inputs,
        Extent::Time(time) => damaged.is_multiple_of(BATCH) && began.elapsed() >= time,
    };
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
    let mut damaged = 0;
    while !is_over(damaged) {
        damaged += 1;
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
    use std::cell::RefCell;

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
        let finding = fuzz(&fragile, 1, Extent::Inputs(10_000)).unwrap_err();
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
        let finding = fuzz(&greedy, 1, Extent::Inputs(10_000)).unwrap_err();
        assert!(finding.what.contains("bytes for an input"), "{finding}");
    }

    thread_local! {
        /// Everything that the target of a test was fed.
        static FED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    fn a_number_of_inputs_and_a_seed_decide_the_run() {
        let recording = target(|input| FED.with_borrow_mut(|fed| fed.push(input.to_vec())));
        let fed = |seed: u64, inputs: u64| {
            let report = fuzz(&recording, seed, Extent::Inputs(inputs)).unwrap();
            let fed = FED.take();
            assert_eq!(report.iterations, fed.len() as u64);
            fed
        };
        let first = fed(7, 500);
        assert_eq!((first.len(), first[0].as_slice()), (501, &b"seed"[..]));
        assert_eq!(fed(7, 500), first);
        assert_eq!(fed(7, 100), first[..101]);
        assert_ne!(fed(8, 500), first);
    }

    #[test]
    fn a_run_by_time_has_an_end() {
        let idle = target(|_| ());
        let time = Duration::from_millis(5);
        let began = Instant::now();
        let report = fuzz(&idle, 1, Extent::Time(time)).unwrap();
        assert!(began.elapsed() >= time);
        // One seed, and whole batches.
        assert_eq!(report.iterations % BATCH, 1);
    }

    #[test]
    fn a_seed_decides_the_damage() {
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
