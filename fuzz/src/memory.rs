//! An allocator that counts per thread, so that a decoder that believes a false length is caught.
//!
//! Memory that C code takes (zstd's own working space) is not seen; it does not depend on lengths
//! in the input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::ptr;

/// A single allocation beyond this is refused, which ends the process: nothing that a decoder does
/// needs it, and the machine would suffer first.
const REFUSED_BYTES: usize = 1 << 30;

struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

thread_local! {
    /// Bytes held now, beyond those held when counting began; frees of older memory may make it
    /// negative.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    /// Target, seed and number of the input that is running.
    static RUNNING: Cell<(&'static str, u64, u64)> = const { Cell::new(("", 0, 0)) };
}

/// Notes what runs next, for the report of an abort.
pub(crate) fn announce(target: &'static str, seed: u64, iteration: u64) {
    RUNNING.set((target, seed, iteration));
}

/// Runs `work` and returns the most bytes it held at once.
pub(crate) fn peak_of(work: impl FnOnce()) -> usize {
    HELD.set(0);
    PEAK.set(0);
    work();
    PEAK.get().max(0) as usize
}

/// Whether an allocation is beyond reason; then says which input asked for it. The allocator must
/// not unwind, so this is all that it can do before the process ends.
fn is_refused(size: usize) -> bool {
    if size > REFUSED_BYTES {
        let (target, seed, iteration) = RUNNING.try_with(Cell::get).unwrap_or_default();
        let _ = writeln!(
            std::io::stderr(),
            "{target}: input {iteration} asks for {size} bytes; to repeat it: \
             FUZZ_TARGET='{target}' FUZZ_SEED={seed}"
        );
    }
    size > REFUSED_BYTES
}

fn count(change: isize) {
    // A thread that is ending has no counters any more, and nothing to report.
    let _ = HELD.try_with(|held| {
        let now = held.get().wrapping_add(change);
        held.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
    });
}

#[allow(
    unsafe_code,
    reason = "a global allocator cannot be written without it; it only counts"
)]
// SAFETY: every call goes to the system allocator unchanged, or is refused with null as allowed.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size()) {
            return ptr::null_mut();
        }
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size()) {
            return ptr::null_mut();
        }
        count(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if is_refused(new_size) {
            return ptr::null_mut();
        }
        count(new_size as isize - layout.size() as isize);
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}
