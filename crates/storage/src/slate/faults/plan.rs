//! Decides which operations fail and keeps count.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slatedb::object_store::{self as store, path::Path};
use slatedb_common::retry::NonRetryable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How often a delayed operation looks whether faults are still wanted.
const DELAY_SLICE: Duration = Duration::from_millis(50);

/// How likely each fault is, per operation; 0 is never and 1 is always.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    pub seed: u64,
    /// The operation is done, and then answered with an error that may be retried.
    pub applied_but_error: f64,
    /// The operation is not done and answered with an error that may be retried.
    pub not_applied_and_error: f64,
    /// The operation waits for up to `delay_max` first.
    pub delay: f64,
    pub delay_max: Duration,
    /// A put leaves a staged file and nothing else, and the power is off from then on.
    pub crash_before_rename: f64,
}

impl FaultPlan {
    /// Nothing fails but what is scripted.
    pub fn quiet(seed: u64) -> Self {
        Self {
            seed,
            applied_but_error: 0.0,
            not_applied_and_error: 0.0,
            delay: 0.0,
            delay_max: Duration::ZERO,
            crash_before_rename: 0.0,
        }
    }
}

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Puts, completed uploads, copies and renames.
    Put,
    Get,
    List,
    Delete,
}

/// How it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    AppliedButError,
    NotApplied,
    CrashBeforeRename,
}

/// Faults injected so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    pub applied_but_error: u64,
    pub not_applied: u64,
    pub delays: u64,
    pub crashes: u64,
    /// Operations that came after the power was off.
    pub refused: u64,
}

struct ScriptedFault {
    operation: Operation,
    path_part: String,
    fault: Fault,
    times: usize,
}

pub(super) struct Shared {
    plan: FaultPlan,
    enabled: AtomicBool,
    off: AtomicBool,
    attempts: Mutex<HashMap<(Operation, Path), u64>>,
    scripted: Mutex<Vec<ScriptedFault>>,
    /// Puts until the power goes off; negative: it stays on.
    puts_left: AtomicI64,
    crashed_at: Mutex<Option<Path>>,
    applied_but_error: AtomicU64,
    not_applied: AtomicU64,
    delays: AtomicU64,
    crashes: AtomicU64,
    refused: AtomicU64,
}

impl Shared {
    pub(super) fn new(plan: FaultPlan) -> Self {
        Self {
            plan,
            enabled: AtomicBool::new(true),
            off: AtomicBool::new(false),
            attempts: Mutex::default(),
            scripted: Mutex::default(),
            puts_left: AtomicI64::new(-1),
            crashed_at: Mutex::default(),
            applied_but_error: AtomicU64::new(0),
            not_applied: AtomicU64::new(0),
            delays: AtomicU64::new(0),
            crashes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    pub(super) fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::SeqCst);
    }

    pub(super) fn script(&self, operation: Operation, path_part: &str, fault: Fault, times: usize) {
        self.scripted.lock().push(ScriptedFault {
            operation,
            path_part: path_part.to_owned(),
            fault,
            times,
        });
    }

    pub(super) fn end_script(&self) {
        self.scripted.lock().clear();
    }

    pub(super) fn power_off(&self) {
        self.off.store(true, Ordering::SeqCst);
    }

    pub(super) fn power_off_after(&self, puts: usize) {
        let puts = i64::try_from(puts).unwrap_or(i64::MAX);
        self.puts_left.store(puts, Ordering::SeqCst);
    }

    /// Counts a put that is about to be done; the one too many finds the power off.
    pub(super) fn count_put(&self) {
        let counting = |left: i64| (left >= 0).then(|| left - 1);
        let before = self
            .puts_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, counting);
        if before == Ok(0) {
            self.power_off();
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }

    pub(super) fn check_power(&self) -> store::Result<()> {
        if self.is_off() {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(self.no_power());
        }
        Ok(())
    }

    /// Whether the power went off in a put of this path.
    pub(super) fn crashed_at(&self, path: &Path) -> bool {
        self.crashed_at.lock().as_ref() == Some(path)
    }

    pub(super) async fn delay(&self, operation: Operation, path: &Path) {
        if !self.enabled.load(Ordering::SeqCst) || self.plan.delay <= 0.0 {
            return;
        }
        let attempt = self.attempt(operation, path);
        if unit(self.dice("delay", operation, path, attempt)) >= self.plan.delay {
            return;
        }
        self.delays.fetch_add(1, Ordering::Relaxed);
        let share = unit(self.dice("length of delay", operation, path, attempt));
        let mut left = self.plan.delay_max.mul_f64(share);
        // In slices, so that a test that turns faults off does not wait for what began before.
        while !left.is_zero() && self.enabled.load(Ordering::SeqCst) {
            let slice = left.min(DELAY_SLICE);
            tokio::time::sleep(slice).await;
            left -= slice;
        }
    }

    /// The fault of this operation, if any, counted.
    pub(super) fn draw(&self, operation: Operation, path: &Path) -> Option<Fault> {
        let fault = self
            .scripted_fault(operation, path)
            .or_else(|| self.chance(operation, path))?;
        match fault {
            Fault::AppliedButError => &self.applied_but_error,
            Fault::NotApplied => &self.not_applied,
            Fault::CrashBeforeRename => {
                *self.crashed_at.lock() = Some(path.clone());
                &self.crashes
            }
        }
        .fetch_add(1, Ordering::Relaxed);
        Some(fault)
    }

    fn scripted_fault(&self, operation: Operation, path: &Path) -> Option<Fault> {
        let mut scripted = self.scripted.lock();
        let next = scripted.iter_mut().find(|entry| {
            entry.times > 0
                && entry.operation == operation
                && path.as_ref().contains(&entry.path_part)
        })?;
        next.times -= 1;
        Some(next.fault)
    }

    fn chance(&self, operation: Operation, path: &Path) -> Option<Fault> {
        if !self.enabled.load(Ordering::SeqCst) {
            return None;
        }
        let attempt = self.count_attempt(operation, path);
        let thrown = unit(self.dice("fault", operation, path, attempt));
        let mut limit = self.plan.not_applied_and_error;
        if thrown < limit {
            return Some(Fault::NotApplied);
        }
        // A read or listing that was done and answered with an error is one that failed.
        if !matches!(operation, Operation::Put | Operation::Delete) {
            return None;
        }
        limit += self.plan.applied_but_error;
        if thrown < limit {
            return Some(Fault::AppliedButError);
        }
        limit += self.plan.crash_before_rename;
        (operation == Operation::Put && thrown < limit).then_some(Fault::CrashBeforeRename)
    }

    /// How much of a staged file had reached the disk: all of it, or a torn part.
    pub(super) fn torn_length(&self, path: &Path, whole: usize) -> usize {
        let thrown = self.dice("torn", Operation::Put, path, 0);
        match usize::try_from(thrown % (whole as u64 + 1)) {
            Ok(torn) if thrown >> 63 == 1 => torn,
            _ => whole,
        }
    }

    pub(super) fn failed(&self, how: &str, operation: Operation, path: &Path) -> store::Error {
        store::Error::Generic {
            store: "FaultStore",
            source: format!("injected fault: {operation:?} of {path} {how}").into(),
        }
    }

    /// Not to be retried: there is nobody left who could.
    pub(super) fn no_power(&self) -> store::Error {
        store::Error::Generic {
            store: "FaultStore",
            source: Box::new(NonRetryable("injected fault: the power is off".into())),
        }
    }

    pub(super) fn counts(&self) -> FaultCounts {
        FaultCounts {
            applied_but_error: self.applied_but_error.load(Ordering::Relaxed),
            not_applied: self.not_applied.load(Ordering::Relaxed),
            delays: self.delays.load(Ordering::Relaxed),
            crashes: self.crashes.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    fn attempt(&self, operation: Operation, path: &Path) -> u64 {
        let attempts = self.attempts.lock();
        attempts
            .get(&(operation, path.clone()))
            .copied()
            .unwrap_or(0)
    }

    fn count_attempt(&self, operation: Operation, path: &Path) -> u64 {
        let mut attempts = self.attempts.lock();
        let count = attempts.entry((operation, path.clone())).or_insert(0);
        *count += 1;
        *count
    }

    fn dice(&self, what: &str, operation: Operation, path: &Path, attempt: u64) -> u64 {
        let question = format!("{what} {operation:?} {attempt} {path}");
        xxh3_64_with_seed(question.as_bytes(), self.plan.seed)
    }
}

/// A hash as a number from 0 to below 1.
fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}
