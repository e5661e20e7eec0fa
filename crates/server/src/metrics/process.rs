//! What the operating system says about the process, under the names that every Prometheus client
//! uses. Read from `/proc`; where that is not to be had, the metric is left out.

use std::fs;

use icecore_model::MetricType;
use icecore_wire::prometheus::TextWriter;

/// Ticks per second in `/proc`: part of Linux' contract with programs on all architectures we run
/// on.
const TICKS_PER_SECOND: f64 = 100.0;

const KIB: f64 = 1024.0;

pub(crate) fn write(text: &mut TextWriter) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let system = fs::read_to_string("/proc/stat").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let mut write = |name: &str, help: &str, metric_type, value: Option<f64>| {
        if let Some(value) = value {
            text.family(name, help, metric_type);
            text.sample(name, &[], value);
        }
    };
    write(
        "process_cpu_seconds_total",
        "User and system CPU time.",
        MetricType::Counter,
        cpu_seconds(&stat),
    );
    write(
        "process_resident_memory_bytes",
        "Resident memory.",
        MetricType::Gauge,
        bytes_of(&status, "VmRSS:"),
    );
    write(
        "process_virtual_memory_bytes",
        "Virtual memory.",
        MetricType::Gauge,
        bytes_of(&status, "VmSize:"),
    );
    write(
        "process_threads",
        "Threads.",
        MetricType::Gauge,
        number_of(&status, "Threads:"),
    );
    write(
        "process_start_time_seconds",
        "When the process started, in seconds since the UNIX epoch.",
        MetricType::Gauge,
        start_seconds(&stat, &system),
    );
    write(
        "process_open_fds",
        "Open file descriptors.",
        MetricType::Gauge,
        fs::read_dir("/proc/self/fd")
            .ok()
            .map(|fds| fds.count() as f64),
    );
    write(
        "process_max_fds",
        "File descriptors that may be open.",
        MetricType::Gauge,
        fds_max(&limits),
    );
}

/// How many files this process may have open; `None` where there is no limit or none is known.
pub(crate) fn open_files_max() -> Option<usize> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    Some(fds_max(&limits)? as usize)
}

/// A field of `/proc/self/stat`, counted from 1 as in proc(5). The second one, the program's name,
/// may contain spaces and parentheses, so counting begins behind its last parenthesis.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name
        .split_whitespace()
        .nth(number.checked_sub(3)?)?
        .parse()
        .ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((stat_field(stat, 14)? + stat_field(stat, 15)?) / TICKS_PER_SECOND)
}

fn start_seconds(stat: &str, system: &str) -> Option<f64> {
    let boot = number_of(system, "btime")?;
    Some(boot + stat_field(stat, 22)? / TICKS_PER_SECOND)
}

fn bytes_of(status: &str, key: &str) -> Option<f64> {
    Some(number_of(status, key)? * KIB)
}

fn fds_max(limits: &str) -> Option<f64> {
    number_of(limits, "Max open files")
}

/// The number behind a key at the beginning of a line.
fn number_of(text: &str, key: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_do_not_shift_fields() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 4000 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(start_seconds(stat, "cpu 1\nbtime 1000\n"), Some(1040.0));
    }

    #[test]
    fn lines_are_found_by_their_key() {
        let status = "Name:\tx\nVmSize:\t 99 kB\nVmRSS:\t 42 kB\n";
        assert_eq!(bytes_of(status, "VmRSS:"), Some(42.0 * KIB));
        let limits = "Limit  Soft Limit\nMax open files            1024   4096   files\n";
        assert_eq!(fds_max(limits), Some(1024.0));
        assert_eq!(fds_max("Max open files            unlimited"), None);
    }

    #[test]
    fn broken_files_are_left_out() {
        for text in ["", ")", "1 (x)", "a) b c"] {
            assert_eq!(cpu_seconds(text), None);
        }
    }
}
