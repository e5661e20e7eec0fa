//! How much memory there is, and how the head shares it: samples and series each have a budget.
//!
//! Flushes give the memory of samples back, but not that of series (labels, index, tables), which
//! stays as long as they are written to. One budget for both would let a machine with many series
//! flush its open hour over and over without gaining anything.
//!
//! Holds always:
//! - What a setting says counts; the rest follows from the memory of the machine, or of the
//!   container if that is less.
//! - `flush_bytes` is not above `samples_max`.

use std::path::{Path, PathBuf};

use tracing::info;

use crate::options::HeadOptions;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What is assumed where the machine does not say.
const ASSUMED_BYTES: u64 = 8 * GIB;

/// Parts of the memory: early flushes begin at a sixteenth, an eighth is the most that samples
/// take, and a quarter is for series, of which ten million take about 2 GiB. As much again is
/// needed beside what is counted, by the allocator, by flushes and for queries.
const FLUSH_PART: u64 = 16;
const SAMPLES_PART: u64 = 8;
const SERIES_PART: u64 = 4;

/// Less would flush and refuse all the time, whatever the machine has.
const FLUSH_MIN: u64 = 32 * MIB;
const SAMPLES_MIN: u64 = 64 * MIB;
const SERIES_MIN: u64 = 64 * MIB;

/// Values from here on mean that a container has no limit.
const UNLIMITED: u64 = 1 << 60;

/// What the head may hold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadBudget {
    /// Samples above which hours are flushed early.
    pub(crate) flush_bytes: usize,
    /// Samples above which writes are refused.
    pub(crate) samples_max: usize,
    /// Series (labels, index, tables) above which new ones are refused.
    pub(crate) series_max: usize,
}

impl HeadBudget {
    /// The budget of this machine; says in the log what it is and why.
    pub(crate) fn choose(options: &HeadOptions) -> Self {
        let memory = memory_of_machine(&|path| std::fs::read_to_string(path).ok());
        let budget = Self::of(options, memory.bytes);
        info!(
            memory = memory.bytes,
            source = memory.source,
            "head.flush_bytes" = budget.flush_bytes,
            "head.bytes_max" = budget.samples_max,
            "head.series_bytes_max" = budget.series_max,
            "memory budget of the head"
        );
        budget
    }

    fn of(options: &HeadOptions, memory: u64) -> Self {
        let part =
            |part: u64, min: u64| usize::try_from((memory / part).max(min)).unwrap_or(usize::MAX);
        let (samples_max, flush_bytes) = match (options.bytes_max, options.flush_bytes) {
            (Some(max), Some(flush)) => (max, flush.min(max)),
            (Some(max), None) => (max, part(FLUSH_PART, FLUSH_MIN).min(max / 2)),
            (None, Some(flush)) => (
                part(SAMPLES_PART, SAMPLES_MIN).max(flush.saturating_mul(2)),
                flush,
            ),
            (None, None) => (part(SAMPLES_PART, SAMPLES_MIN), part(FLUSH_PART, FLUSH_MIN)),
        };
        Self {
            flush_bytes,
            samples_max,
            series_max: options
                .series_bytes_max
                .unwrap_or_else(|| part(SERIES_PART, SERIES_MIN)),
        }
    }

    /// Samples above which requests of long ago are refused: the last part is for what is written
    /// live.
    pub(crate) fn backfill_max(self) -> usize {
        self.flush_bytes + (self.samples_max - self.flush_bytes) / 2
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    bytes: u64,
    source: &'static str,
}

/// The memory that this process may use. `read` gives the content of a file, if there is one.
fn memory_of_machine(read: &dyn Fn(&Path) -> Option<String>) -> Memory {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total_of(&text));
    let container = limit_of_container(read);
    match (machine, container) {
        (Some(machine), Some(limit)) if limit < machine => Memory {
            bytes: limit,
            source: "container",
        },
        (None, Some(limit)) => Memory {
            bytes: limit,
            source: "container",
        },
        (Some(machine), _) => Memory {
            bytes: machine,
            source: "machine",
        },
        (None, None) => Memory {
            bytes: ASSUMED_BYTES,
            source: "assumed",
        },
    }
}

/// `MemTotal` of `/proc/meminfo`.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The least limit of the control groups that this process is in, version 1 and 2. Inside of a
/// container its own group is mounted as the root, so the path that the kernel tells may not exist
/// there.
fn limit_of_container(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mut files: Vec<PathBuf> = vec![
        "/sys/fs/cgroup/memory.max".into(),
        "/sys/fs/cgroup/memory/memory.limit_in_bytes".into(),
    ];
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // A group is limited by those that it is in, too.
        let group = Path::new(group.trim_start_matches('/'));
        let inside = group.ancestors().map(|group| Path::new(root).join(group));
        files.extend(inside.map(|group| group.join(file)));
    }
    let limits = files.iter().filter_map(|file| {
        let limit: u64 = read(file)?.trim().parse().ok()?;
        (limit < UNLIMITED).then_some(limit)
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(files: &[(&str, &str)]) -> Memory {
        memory_of_machine(&|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    const MEMINFO: (&str, &str) = (
        "/proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree:         1024 kB\n",
    );

    #[test]
    fn the_machine_or_its_container_says_how_much_there_is() {
        let check = |files: &[(&str, &str)], bytes: u64, source: &str| {
            let found = memory(files);
            assert_eq!((found.bytes, found.source), (bytes, source), "{files:?}");
        };
        check(&[], 8 * GIB, "assumed");
        check(&[MEMINFO], 16 * GIB, "machine");
        // Version 2, as a container sees it.
        let own = ("/proc/self/cgroup", "0::/\n");
        let limit = ("/sys/fs/cgroup/memory.max", "2147483648\n");
        check(&[MEMINFO, own, limit], 2 * GIB, "container");
        let none = ("/sys/fs/cgroup/memory.max", "max\n");
        check(&[MEMINFO, own, none], 16 * GIB, "machine");
        let more = ("/sys/fs/cgroup/memory.max", "99999999999\n");
        check(&[MEMINFO, own, more], 16 * GIB, "machine");
        check(&[own, limit], 2 * GIB, "container");
        // Version 2, a unit of systemd: the slice that it is in may be narrower.
        let unit = ("/proc/self/cgroup", "0::/system.slice/icecore.service\n");
        let service = (
            "/sys/fs/cgroup/system.slice/icecore.service/memory.max",
            "4294967296\n",
        );
        let slice = ("/sys/fs/cgroup/system.slice/memory.max", "3221225472\n");
        check(&[MEMINFO, unit, service], 4 * GIB, "container");
        check(&[MEMINFO, unit, service, slice], 3 * GIB, "container");
        // Version 1, with its way to say that there is no limit.
        let first = (
            "/proc/self/cgroup",
            "11:cpu,cpuacct:/x\n4:memory:/docker/abc\n",
        );
        let docker = (
            "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes",
            "1073741824\n",
        );
        check(&[MEMINFO, first, docker], GIB, "container");
        let inside = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
        check(&[MEMINFO, first, inside], GIB / 2, "container");
        let unlimited = (inside.0, "9223372036854771712\n");
        check(&[MEMINFO, first, unlimited], 16 * GIB, "machine");
        check(&[("/proc/meminfo", "nonsense")], 8 * GIB, "assumed");
    }

    #[test]
    fn settings_count_and_the_rest_follows_from_the_memory() {
        let check = |memory: u64, set: [Option<usize>; 3], expected: [u64; 3]| {
            let [flush_bytes, bytes_max, series_bytes_max] = set;
            let options = HeadOptions {
                flush_bytes,
                bytes_max,
                series_bytes_max,
                ..HeadOptions::default()
            };
            let budget = HeadBudget::of(&options, memory);
            let found = [budget.flush_bytes, budget.samples_max, budget.series_max];
            assert_eq!(
                found.map(|bytes| bytes as u64),
                expected,
                "{memory} {set:?}"
            );
            assert!(budget.flush_bytes <= budget.backfill_max());
            assert!(budget.backfill_max() <= budget.samples_max);
        };
        let none = [None; 3];
        check(8 * GIB, none, [512 * MIB, GIB, 2 * GIB]);
        check(64 * GIB, none, [4 * GIB, 8 * GIB, 16 * GIB]);
        check(256 * MIB, none, [32 * MIB, 64 * MIB, 64 * MIB]);
        check(8 * GIB, [Some(7), Some(50), Some(9)], [7, 50, 9]);
        check(8 * GIB, [None, Some(100), None], [50, 100, 2 * GIB]);
        check(8 * GIB, [Some(7), None, None], [7, GIB, 2 * GIB]);
        let flush = 3 * GIB as usize;
        check(
            8 * GIB,
            [Some(flush), None, None],
            [3 * GIB, 6 * GIB, 2 * GIB],
        );
        // An embedder's mistake: nothing would ever be flushed before writes are refused.
        check(8 * GIB, [Some(50), Some(7), None], [7, 7, 2 * GIB]);
    }
}
