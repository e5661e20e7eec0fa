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
//! - A short command may have a long reply: once some have gathered, they are sent before more
//!   lines are answered.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use icecore_model::HOUR_MS;
use icecore_wire::opentsdb::number::parse_integer;
use icecore_wire::opentsdb::telnet::{PutLine, decode_line, split_command};

use crate::config::{Config, Mode};
use crate::error::Error;
use crate::put::append::{Durable, append};
use crate::put::histogram::NOT_ENABLED;
use crate::put::rollup::RollupSpec;
use crate::put::{PointWriter, PutError, SeriesText, milliseconds};
use crate::tsd::Tsd;
use crate::{stats, version};

/// The original takes 1,024 bytes for sure, and more where they arrive together.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Replies of commands that are gathered before they are sent: one more may follow.
const REPLY_BYTES_MAX: usize = 64 << 10;

/// Hours that one append touches: stores refuse those that touch very many.
const HOURS_MAX: usize = 500;

/// Nobody waits for a reply: points of several reads can become durable together.
const PATIENCE: Duration = Duration::from_secs(1);

/// Appends that may wait for others. A session that has more sends much, and would wait for them.
const PATIENT_MAX: usize = 8;

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
    /// Whole lines that are not answered yet.
    lines: Bytes,
    /// What `stats` says, once for all lines that arrive together.
    stats: Option<String>,
    pending: VecDeque<Durable>,
}

/// What is sent back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub text: String,
    /// No more is read after this.
    pub close: bool,
    /// Lines are left: [`Session::resume`] answers them, before more is read.
    pub has_more: bool,
}

/// Lines that are answered together.
struct Part {
    lines: Bytes,
    count: u64,
    has_points: bool,
    /// Of commands that write nothing, with the numbers of their lines.
    replies: Vec<(usize, String)>,
    close: bool,
}

impl<'a> Session<'a> {
    pub fn new(tsd: &'a Tsd) -> Self {
        Self {
            tsd,
            buffer: Vec::new(),
            skipping: false,
            lines: Bytes::new(),
            stats: None,
            pending: VecDeque::new(),
        }
    }

    /// Answers the lines that are complete with these bytes, or the first of them.
    pub async fn feed(&mut self, bytes: &[u8]) -> Reply {
        if let Some(lines) = self.complete_lines(bytes) {
            self.lines = if self.lines.is_empty() {
                lines.into()
            } else {
                [&self.lines[..], &lines].concat().into()
            };
            self.stats = None;
        }
        self.resume().await
    }

    /// Answers lines that are left.
    pub async fn resume(&mut self) -> Reply {
        let mut part = self.next_part();
        self.tsd.counters.telnet_lines.add(part.count);
        if part.has_points {
            let mut replies = self.write(part.lines).await;
            part.replies.append(&mut replies);
        }
        part.replies.sort_by_key(|(number, _)| *number);
        Reply {
            text: part.replies.into_iter().map(|(_, text)| text).collect(),
            close: part.close,
            has_more: !part.close && !self.lines.is_empty(),
        }
    }

    /// Takes lines until there is enough to be sent.
    fn next_part(&mut self) -> Part {
        let mode = self.tsd.config.mode;
        let mut part = Part {
            lines: Bytes::new(),
            count: 0,
            has_points: false,
            replies: Vec::new(),
            close: false,
        };
        let (mut end, mut reply_bytes) = (0, 0);
        let mut hours = Hours::default();
        let lines = self.lines.clone();
        for (number, line) in lines.split_inclusive(is_line_end).enumerate() {
            let command = command_of(without_end(line));
            if writes(command, mode) {
                if !hours.admit(line) {
                    break;
                }
                part.has_points = true;
            } else if command == b"exit" {
                part.close = true;
            } else {
                let text = self.other_command(&decode_line(command));
                reply_bytes += text.len();
                part.replies.push((number, text));
            }
            end += line.len();
            part.count += 1;
            if part.close || reply_bytes >= REPLY_BYTES_MAX {
                break;
            }
        }
        part.lines = self.lines.split_to(end);
        part
    }

    /// Waits until everything is durable. What could not be stored is said.
    pub async fn finish(mut self) -> String {
        let mut text = String::new();
        while let Some(durable) = self.pending.pop_front() {
            let outcome = durable.wait().await;
            text.push_str(&self.confirmation(outcome));
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
    async fn write(&mut self, lines: Bytes) -> Vec<(usize, String)> {
        let mode = self.tsd.config.mode;
        let write = move |writer: &mut PointWriter<'_>| {
            let mut replies = Vec::new();
            for (number, line) in lines.split_inclusive(is_line_end).enumerate() {
                let line = without_end(line);
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
        let confirmed = self.confirm_durable();
        let appended = match append(self.tsd, self.patience(), write).await {
            Ok(appended) => appended,
            Err(error) => {
                let text = confirmed + &storage_error(&self.tsd.config, &error);
                return vec![(usize::MAX, text)];
            }
        };
        let mut replies = appended.report;
        if !confirmed.is_empty() {
            replies.push((usize::MAX, confirmed));
        }
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
            let outcome = oldest.wait().await;
            replies.push((usize::MAX, self.confirmation(outcome)));
        }
        replies
    }

    fn other_command(&mut self, command: &str) -> String {
        let tsd = self.tsd;
        match command {
            "help" => help(&tsd.config),
            "stats" => {
                let text = || stats::to_text(&stats::collect(tsd), tsd.clock.now_ms() / 1000);
                self.stats.get_or_insert_with(text).clone()
            }
            "version" => version::text(),
            "dropcaches" => {
                tsd.series_cache.clear();
                "Caches dropped.\n".into()
            }
            // Nothing that a client sends ends this process: as where `tsd.no_diediedie` is set.
            _ => format!("unknown command: {command}.  Try `help'.\n"),
        }
    }

    /// How long the next points may wait for others. Series are not known before they are durable,
    /// and cost more until then.
    fn patience(&self) -> Duration {
        let learns = self.pending.iter().any(Durable::has_new_series);
        if learns || self.pending.len() >= PATIENT_MAX {
            Duration::ZERO
        } else {
            PATIENCE
        }
    }

    /// Takes note of what has become durable meanwhile.
    fn confirm_durable(&mut self) -> String {
        let mut text = String::new();
        while let Some(outcome) = self.pending.front_mut().and_then(Durable::outcome) {
            self.pending.pop_front();
            text.push_str(&self.confirmation(outcome));
        }
        text
    }

    fn confirmation(&self, outcome: Result<(), Error>) -> String {
        match outcome {
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

/// The hours that an append touches.
#[derive(Default)]
struct Hours {
    all: HashSet<i64>,
    last: Option<i64>,
}

impl Hours {
    /// Whether the point of a line may go along, too.
    fn admit(&mut self, line: &[u8]) -> bool {
        let hour = hour_of(line);
        // Most points lie in the hour of the one before.
        if hour == self.last {
            return true;
        }
        self.last = hour;
        if let Some(hour) = hour {
            self.all.insert(hour);
        }
        self.all.len() <= HOURS_MAX
    }
}

/// The hour of a point, if it has a time.
fn hour_of(line: &[u8]) -> Option<i64> {
    let mut words = line.split(|byte| *byte == b' ');
    let before = if words.next()? == b"rollup" { 2 } else { 1 };
    let timestamp = std::str::from_utf8(words.nth(before)?).ok()?;
    let timestamp = parse_timestamp(timestamp).ok()?;
    Some(milliseconds(timestamp).div_euclid(HOUR_MS))
}

fn is_line_end(byte: &u8) -> bool {
    *byte == b'\n'
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
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
    fn sessions_that_bring_new_series_or_much_do_not_wait() {
        let tsd = tsd();
        let mut session = Session::new(&tsd);
        assert_eq!(session.patience(), PATIENCE);
        block_on(session.feed(b"put a 1 1 h=a\n"));
        assert_eq!(session.patience(), Duration::ZERO);
        // The store in memory is durable at once.
        assert_eq!(session.confirm_durable(), "");
        assert!(session.pending.is_empty());
        for second in 2..20 {
            assert_eq!(session.patience(), PATIENCE);
            block_on(session.feed(format!("put a {second} 1 h=a\n").as_bytes()));
            assert_eq!(session.pending.len(), 1);
        }
        assert_eq!(tsd.series_cache.len(), 1);
    }

    #[test]
    fn long_replies_are_sent_before_more_lines_are_answered() {
        let tsd = tsd();
        let mut session = Session::new(&tsd);
        let once = block_on(session.feed(b"stats\n")).text;
        let mut reply = block_on(session.feed("stats\n".repeat(10_000).as_bytes()));
        let mut bytes = 0;
        while reply.has_more {
            assert!(reply.text.len() < REPLY_BYTES_MAX + once.len() + 1000);
            bytes += reply.text.len();
            reply = block_on(session.resume());
        }
        bytes += reply.text.len();
        assert!(bytes >= 10_000 * once.len(), "{bytes}");
        // What is in between is answered in its order.
        let lines = format!("{}put\nput a 1 1 h=a\nexit\nfoo\n", "stats\n".repeat(100));
        let mut reply = block_on(session.feed(lines.as_bytes()));
        while reply.has_more {
            assert!(reply.text.starts_with("tsd.rpc.received"));
            reply = block_on(session.resume());
        }
        let end = "put: illegal argument: not enough arguments (need least 4, got 0)\n";
        assert!(reply.close && reply.text.ends_with(end), "{reply:?}");
        assert_eq!(block_on(session.finish()), "");
        assert_eq!(tsd.series_cache.len(), 1);
    }

    #[test]
    fn points_of_many_hours_are_several_appends() {
        let tsd = tsd();
        let mut session = Session::new(&tsd);
        let line = |hour: usize| format!("put a {} 1 h=a\n", hour * 3600);
        let lines: String = (1..=2 * HOURS_MAX + 1).map(line).collect();
        let mut reply = block_on(session.feed(lines.as_bytes()));
        for appended in [HOURS_MAX, 2 * HOURS_MAX] {
            assert!(reply.has_more);
            assert_eq!(tsd.counters.points_added.get(), appended as u64);
            reply = block_on(session.resume());
        }
        assert_eq!(reply, Reply::default());
        assert_eq!(tsd.counters.points_added.get(), 2 * HOURS_MAX as u64 + 1);
        // However many points an hour has.
        let lines: String = (1..=2000).map(|s| format!("put a {s} 1 h=a\n")).collect();
        assert!(!block_on(session.feed(lines.as_bytes())).has_more);
    }

    #[test]
    fn hours_of_lines() {
        for (line, hour) in [
            ("put m 3600 1 h=a", Some(1)),
            ("put m 1500000000000 1 h=a", Some(416_666)),
            ("put m 1500000000.000 1 h=a", Some(416_666)),
            ("histogram m 7199 0,1=2 h=a", Some(1)),
            ("rollup 1h-sum m 7200 1 h=a", Some(2)),
            ("put m -9223372036854775808 1 h=a", None),
            ("put m now 1 h=a", None),
            ("put", None),
        ] {
            assert_eq!(hour_of(line.as_bytes()), hour, "{line}");
        }
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
