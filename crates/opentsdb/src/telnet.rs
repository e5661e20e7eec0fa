//! The telnet protocol: commands as lines, without sockets.
//!
//! ```text
//! bytes of a read ─► lines ─┬─ put, …: one append for all of them ─► errors, in line order
//!                           └─ others: replies                    ─┘
//! ```
//!
//! Holds always:
//! - A point that is accepted has no reply. It is durable when [`Session::finish`] has returned.
//! - Lines that are too long are skipped; everything that is kept of a session has a limit.

use std::collections::VecDeque;
use std::time::Duration;

use icecore_wire::opentsdb::number::parse_integer;
use icecore_wire::opentsdb::telnet::{PutLine, decode_line, split_command};

use crate::config::{Config, Mode};
use crate::error::Error;
use crate::put::append::{Durable, append};
use crate::put::histogram::NOT_ENABLED;
use crate::put::rollup::RollupSpec;
use crate::put::{PointWriter, PutError, SeriesText};
use crate::tsd::Tsd;
use crate::{stats, version};

/// The original takes 1,024 bytes for sure, and more where they arrive together.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Nobody waits for a reply: points of several reads can become durable together.
const PATIENCE: Duration = Duration::from_secs(1);

/// Appends that need not be durable yet before more is read.
const PENDING_MAX: usize = 16;

/// Commands that write points.
const WRITING: [&str; 3] = ["put", "rollup", "histogram"];

/// Whether a connection is HTTP: the port serves both, and the first byte tells.
pub fn is_http(first: u8) -> bool {
    first.is_ascii_uppercase()
}

/// A connection.
pub struct Session<'a> {
    tsd: &'a Tsd,
    /// The begin of a line.
    buffer: Vec<u8>,
    /// The line was too long: its rest is skipped.
    skipping: bool,
    pending: VecDeque<Durable>,
}

/// What is sent back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub text: String,
    /// No more is read after this.
    pub close: bool,
}

impl<'a> Session<'a> {
    pub fn new(tsd: &'a Tsd) -> Self {
        Self {
            tsd,
            buffer: Vec::new(),
            skipping: false,
            pending: VecDeque::new(),
        }
    }

    /// Answers the lines that are complete with these bytes.
    pub async fn feed(&mut self, bytes: &[u8]) -> Reply {
        let mut reply = Reply::default();
        let Some(lines) = self.complete_lines(bytes) else {
            return reply;
        };
        let mode = self.tsd.config.mode;
        let mut replies = Vec::new();
        let (mut count, mut has_points) = (0, false);
        for (number, line) in numbered_lines(&lines) {
            count += 1;
            let command = command_of(line);
            if writes(command, mode) {
                has_points = true;
            } else if command == b"exit" {
                reply.close = true;
                break;
            } else {
                let text = other_command(self.tsd, &decode_line(command));
                replies.push((number, text));
            }
        }
        self.tsd.counters.telnet_lines.add(count);
        if has_points {
            replies.append(&mut self.write(lines).await);
        }
        replies.sort_by_key(|(number, _)| *number);
        reply.text = replies.into_iter().map(|(_, text)| text).collect();
        reply
    }

    /// Waits until everything is durable. What could not be stored is said.
    pub async fn finish(mut self) -> String {
        let mut text = String::new();
        while let Some(durable) = self.pending.pop_front() {
            text.push_str(&self.confirm(durable).await);
        }
        text
    }

    /// All bytes up to the last line end.
    fn complete_lines(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = bytes;
        if self.skipping {
            let end = bytes.iter().position(|byte| *byte == b'\n')?;
            bytes = &bytes[end + 1..];
            self.skipping = false;
        }
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.keep(bytes);
            return None;
        };
        let (whole, rest) = bytes.split_at(end + 1);
        let mut lines = std::mem::take(&mut self.buffer);
        lines.extend_from_slice(whole);
        self.keep(rest);
        Some(lines)
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > LINE_BYTES_MAX {
            self.buffer = Vec::new();
            self.skipping = true;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Writes the points of all lines; replies with the numbers of their lines.
    async fn write(&mut self, lines: Vec<u8>) -> Vec<(usize, String)> {
        let mode = self.tsd.config.mode;
        let write = move |writer: &mut PointWriter<'_>| {
            let mut replies = Vec::new();
            for (number, line) in numbered_lines(&lines) {
                let command = command_of(line);
                if command == b"exit" {
                    break;
                }
                if !writes(command, mode) {
                    continue;
                }
                let line = decode_line(line);
                let (command, arguments) = split_command(&line);
                let written = match command {
                    "rollup" => write_rollup(writer, arguments),
                    "histogram" => write_histogram(writer, arguments),
                    _ => write_point(writer, arguments),
                };
                if let Err(error) = written {
                    writer.refuse(&error);
                    replies.push((number, error.line_text(command)));
                }
            }
            Ok(replies)
        };
        let appended = match append(self.tsd, PATIENCE, write).await {
            Ok(appended) => appended,
            Err(error) => return vec![(usize::MAX, storage_error(&self.tsd.config, &error))],
        };
        let mut replies = appended.report;
        for rejection in &appended.outcome.rejected {
            let kind = if rejection.retryable {
                "Please throttle writes"
            } else {
                "illegal argument"
            };
            let text = format!("put: {kind}: {} (×{})\n", rejection.reason, rejection.count);
            replies.push((usize::MAX, text));
        }
        self.pending.push_back(appended.durable);
        if self.pending.len() > PENDING_MAX
            && let Some(oldest) = self.pending.pop_front()
        {
            replies.push((usize::MAX, self.confirm(oldest).await));
        }
        replies
    }

    async fn confirm(&mut self, durable: Durable) -> String {
        match durable.wait().await {
            Ok(()) => String::new(),
            Err(error) => storage_error(&self.tsd.config, &error),
        }
    }
}

fn storage_error(config: &Config, error: &Error) -> String {
    if config.telnet_return_errors {
        format!("put: HBase error: {}\n", error.message)
    } else {
        String::new()
    }
}

/// Lines without their ends, numbered.
fn numbered_lines(lines: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    let lines = lines.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.enumerate()
}

/// The first word of a line.
fn command_of(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| *byte == b' ');
    &line[..end.unwrap_or(line.len())]
}

/// Whether a command writes points, and there are such commands.
fn writes(command: &[u8], mode: Mode) -> bool {
    mode != Mode::ReadOnly && WRITING.iter().any(|name| name.as_bytes() == command)
}

/// `<metric> <time> <value> <tags>`.
fn write_point(writer: &mut PointWriter<'_>, arguments: Option<&str>) -> Result<(), PutError> {
    let line = PutLine::parse(arguments).map_err(|count| {
        PutError::Argument(format!("not enough arguments (need least 4, got {count})"))
    })?;
    let (series, timestamp) = series_and_time(line)?;
    writer.write(series, timestamp, line.value)
}

fn series_and_time(line: PutLine<'_>) -> Result<(SeriesText<'_>, i64), PutError> {
    if line.metric.is_empty() {
        return Err(PutError::argument("empty metric name"));
    }
    let timestamp = parse_timestamp(line.timestamp)?;
    if line.value.is_empty() {
        return Err(PutError::argument("empty value"));
    }
    let series = SeriesText::Line {
        metric: line.metric,
        tags: line.tags,
    };
    Ok((series, timestamp))
}

/// `<interval and functions> <metric> <time> <value> <tags>`.
fn write_rollup(writer: &mut PointWriter<'_>, arguments: Option<&str>) -> Result<(), PutError> {
    let few = |count: usize| {
        let message = format!("not enough arguments (need least 7, got {count})");
        PutError::Argument(message)
    };
    let (spec, rest) = match arguments.map(|arguments| arguments.split_once(' ')) {
        None => return Err(few(0)),
        Some(None) => return Err(few(1)),
        Some(Some(parts)) => parts,
    };
    let line = PutLine::parse(Some(rest)).map_err(|count| few(count + 1))?;
    if spec.is_empty() {
        return Err(PutError::argument("Missing interval or aggregator"));
    }
    let (series, timestamp) = series_and_time(line)?;
    writer.write_rollup(series, RollupSpec::parse(spec), timestamp, line.value)
}

/// `<metric> <time> <counts, or an id and base 64> <tags>`.
fn write_histogram(writer: &mut PointWriter<'_>, arguments: Option<&str>) -> Result<(), PutError> {
    if writer.naming_config().histogram_codecs.is_none() {
        return Err(PutError::argument(NOT_ENABLED));
    }
    let line = PutLine::parse(arguments).map_err(|count| {
        PutError::Argument(format!("not enough arguments (need least 5, got {count})"))
    })?;
    let (_, timestamp) = series_and_time(line)?;
    let rest = format!("{} {}", line.value, line.tags);
    writer.write_line_histogram(line.metric, timestamp, &rest)
}

/// A point within the time is left out: milliseconds remain.
fn parse_timestamp(text: &str) -> Result<i64, PutError> {
    let timestamp = if text.contains('.') {
        parse_integer(&text.replace('.', ""))?
    } else {
        parse_integer(text)?
    };
    if timestamp <= 0 {
        return Err(PutError::Argument(format!(
            "invalid timestamp: {timestamp}"
        )));
    }
    Ok(timestamp)
}

fn other_command(tsd: &Tsd, command: &str) -> String {
    match command {
        "help" => help(&tsd.config),
        "stats" => stats::to_text(&stats::collect(tsd), tsd.clock.now_ms() / 1000),
        "version" => version::text(),
        "dropcaches" => {
            tsd.series_cache.clear();
            "Caches dropped.\n".into()
        }
        // Nothing that a client sends ends this process: as where `tsd.no_diediedie` is set.
        _ => format!("unknown command: {command}.  Try `help'.\n"),
    }
}

fn help(config: &Config) -> String {
    let mut commands = vec!["stats", "dropcaches", "version", "exit", "help"];
    if config.mode != Mode::ReadOnly {
        commands.extend(WRITING);
    }
    // Listed as in the original; it is refused.
    if !config.no_diediedie {
        commands.push("diediedie");
    }
    format!("available commands: {} \n", commands.join(" "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::executor::block_on;
    use icecore_model::ManualClock;

    use super::*;
    use crate::testing::MemoryStore;

    fn tsd() -> Tsd {
        let config = Config {
            auto_create_metrics: true,
            ..Config::default()
        };
        let clock = Arc::new(ManualClock::at(0));
        block_on(Tsd::open(config, MemoryStore::stores(), clock)).unwrap()
    }

    #[test]
    fn lines_may_arrive_in_pieces() {
        let tsd = tsd();
        let mut session = Session::new(&tsd);
        let mut text = String::new();
        for piece in ["fo", "o\r\nput a 1", " 1 h=a\nput x\n", "", "bar\n"] {
            text += &block_on(session.feed(piece.as_bytes())).text;
        }
        let expected = "unknown command: foo.  Try `help'.\n\
                        put: illegal argument: not enough arguments (need least 4, got 1)\n\
                        unknown command: bar.  Try `help'.\n";
        assert_eq!(text, expected);
        assert_eq!(block_on(session.finish()), "");
        assert_eq!(tsd.series_cache.len(), 1);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        let tsd = tsd();
        let mut session = Session::new(&tsd);
        for _ in 0..LINE_BYTES_MAX {
            assert_eq!(block_on(session.feed(b"xx")), Reply::default());
        }
        assert!(session.buffer.len() <= LINE_BYTES_MAX);
        let reply = block_on(session.feed(b"x\nfoo\n"));
        assert_eq!(reply.text, "unknown command: foo.  Try `help'.\n");
    }

    #[test]
    fn nothing_is_read_after_exit() {
        let tsd = tsd();
        let mut session = Session::new(&tsd);
        let reply = block_on(session.feed(b"exit\nput a 1 1 h=a\nfoo\n"));
        assert!(reply.close);
        assert_eq!(reply.text, "");
        block_on(session.finish());
        assert_eq!(tsd.series_cache.len(), 0);
    }
}
