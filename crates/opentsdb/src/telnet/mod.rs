//! The telnet protocol: commands as lines, without sockets.
//!
//! ```text
//! bytes of a read ─► lines ─┬─ put, …: one append for all of them ─► errors, in line order
//!                     ▲     │    └─ refused: a pause ─┐            │
//!                     └─────┼────────────────────────┘            │
//!                           └─ others: replies                    ─┘
//! ```
//!
//! Holds always:
//! - A point that is accepted has no reply. It is durable when [`Session::finish`] has returned.
//! - A point that can be stored is stored: while the store refuses, the session holds its lines,
//!   in their order, and nothing more is read. Points that are written twice by it count once.
//! - Lines that are too long are skipped; everything that is kept of a session has a limit.
//! - A short command may have a long reply: once some have gathered, they are sent before more
//!   lines are answered.

mod attempts;
mod point_line;

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use icecore_model::{BoxFuture, HOUR_MS, Rejection};
use icecore_wire::opentsdb::telnet::{decode_line, split_command};

use self::attempts::Attempts;
use self::point_line::{parse_timestamp, write_histogram, write_point, write_rollup};
use crate::config::{Config, Mode};
use crate::error::Error;
use crate::put::append::{Durable, append};
use crate::put::{PointWriter, milliseconds};
use crate::refusals::{RefusalReason, RefusalTally};
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

/// Bytes of a line that is too long which the log shows.
const EXAMPLE_BYTES_MAX: usize = 256;

/// The begin of the reply to a line that is no command.
const UNKNOWN_COMMAND: &str = "unknown command: ";

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
    pending: VecDeque<Pending>,
    /// About points of earlier lines; sent with the next reply.
    notices: String,
    attempts: Attempts,
    /// Why lines were not stored, the last time.
    refusal: String,
}

/// Points that may not be durable yet.
struct Pending {
    durable: Durable,
    commands: Commands,
}

/// What is sent back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub text: String,
    /// No more is read after this.
    pub close: bool,
    /// Lines are left: [`Session::resume`] answers them, before more is read.
    pub has_more: bool,
    /// The store took nothing: not before this time, or [`Session::give_up`].
    pub retry_after: Option<Duration>,
}

/// How often each of the commands that write occurs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Commands([u64; WRITING.len()]);

impl Commands {
    fn add(&mut self, command: usize) {
        self.0[command] += 1;
    }

    fn counts(self) -> impl Iterator<Item = (&'static str, u64)> {
        WRITING
            .into_iter()
            .zip(self.0)
            .filter(|(_, count)| *count > 0)
    }

    fn is_empty(self) -> bool {
        self.counts().next().is_none()
    }

    fn has(self, command: usize) -> bool {
        self.0[command] > 0
    }

    fn are_several(self) -> bool {
        self.counts().nth(1).is_some()
    }
}

/// Why lines are to be tried again.
enum TryAgain {
    /// The store takes none of them now.
    Refused(Error),
    /// The store takes none of them together.
    TooMany,
    /// The store has left some of them out, for now.
    RefusedInPart(Duration, String),
    /// The store takes some of them never, and it is not known which command to name.
    Separately,
}

/// Lines that are answered together.
struct Part {
    lines: Bytes,
    count: u64,
    commands: Commands,
    /// Of commands that write nothing, with the numbers of their lines.
    replies: Vec<(usize, String)>,
    refusals: RefusalTally,
    close: bool,
}

/// The outcome of the lines of a part that write points.
#[derive(Default)]
struct Written {
    /// With the numbers of their lines.
    replies: Vec<(usize, String)>,
    refusals: RefusalTally,
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
            notices: String::new(),
            attempts: Attempts::default(),
            refusal: String::new(),
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
    pub fn resume(&mut self) -> BoxFuture<'_, Reply> {
        // Boxed, so that the code of all commands is generated in this crate.
        Box::pin(self.answer_lines())
    }

    async fn answer_lines(&mut self) -> Reply {
        let before = self.lines.clone();
        let mut part = self.next_part();
        let mut written = Ok(Written::default());
        if !part.commands.is_empty() {
            written = self.write(&part).await;
        }
        let notices = std::mem::take(&mut self.notices);
        match written {
            Ok(mut written) => {
                part.replies.append(&mut written.replies);
                part.refusals.append(written.refusals);
            }
            Err(again) => {
                self.lines = before;
                return Reply {
                    text: notices,
                    close: false,
                    has_more: true,
                    retry_after: self.pause_before(again, part.count),
                };
            }
        }
        self.tsd.counters.telnet_lines.add(part.count);
        self.tsd.note_refusals(part.refusals);
        part.replies.sort_by_key(|(number, _)| *number);
        let texts = part.replies.into_iter().map(|(_, text)| text);
        let has_more = !part.close && !self.lines.is_empty();
        self.attempts.succeeded(has_more);
        Reply {
            text: texts.chain([notices]).collect(),
            close: part.close,
            has_more,
            retry_after: None,
        }
    }

    fn pause_before(&mut self, again: TryAgain, lines: u64) -> Option<Duration> {
        match again {
            TryAgain::Refused(error) => {
                self.refusal = error.message;
                Some(self.attempts.refused(lines))
            }
            TryAgain::TooMany => {
                self.attempts.split(lines);
                None
            }
            TryAgain::RefusedInPart(pause, reason) => {
                self.refusal = reason;
                Some(pause)
            }
            TryAgain::Separately => {
                self.attempts.separate();
                None
            }
        }
    }

    /// Drops lines that are left, because nobody can wait any longer; what is said about them.
    pub fn give_up(&mut self) -> String {
        let mode = self.tsd.config.mode;
        let lines = std::mem::take(&mut self.lines);
        let mut commands = Commands::default();
        for line in lines.split_inclusive(is_line_end) {
            let command = command_of(without_end(line));
            if command == b"exit" {
                break;
            }
            if let Some(command) = writing(command, mode) {
                commands.add(command);
            }
        }
        let mut refusals = RefusalTally::default();
        for (_, count) in commands.counts() {
            let reason = RefusalReason::StoreUnavailable;
            refusals.add(reason, count, || self.refusal.clone(), String::new);
        }
        self.tsd.note_refusals(refusals);
        let text = |(command, count): (&str, u64)| self.throttled(command, &self.refusal, count);
        commands.counts().map(text).collect()
    }

    /// Takes lines until there is enough to be sent.
    fn next_part(&mut self) -> Part {
        let mode = self.tsd.config.mode;
        let mut part = Part {
            lines: Bytes::new(),
            count: 0,
            commands: Commands::default(),
            replies: Vec::new(),
            refusals: RefusalTally::default(),
            close: false,
        };
        let (mut end, mut reply_bytes) = (0, 0);
        let mut hours = Hours::default();
        let lines = self.lines.clone();
        for (number, line) in lines.split_inclusive(is_line_end).enumerate() {
            let command = command_of(without_end(line));
            if part.count == self.attempts.lines_max() {
                break;
            }
            if let Some(command) = writing(command, mode) {
                let is_other = !part.commands.is_empty() && !part.commands.has(command);
                if self.attempts.separates() && is_other || !hours.admit(line) {
                    break;
                }
                part.commands.add(command);
            } else if command == b"exit" {
                part.close = true;
            } else {
                let text = self.other_command(&decode_line(command));
                if text.starts_with(UNKNOWN_COMMAND) && !line.trim_ascii().is_empty() {
                    let reason = if WRITING.iter().any(|name| name.as_bytes() == command) {
                        RefusalReason::ReadOnly
                    } else {
                        RefusalReason::UnknownCommand
                    };
                    let example = || decode_line(without_end(line)).into_owned();
                    part.refusals.add(reason, 1, || text.clone(), example);
                }
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
        while let Some(Pending { durable, commands }) = self.pending.pop_front() {
            let outcome = durable.wait().await;
            self.confirm(commands, outcome);
        }
        self.notices
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
            let begin = std::mem::take(&mut self.buffer);
            self.skipping = true;
            let begin = [&begin[..], bytes].concat();
            let example = String::from_utf8_lossy(&begin[..begin.len().min(EXAMPLE_BYTES_MAX)]);
            let cause = format!("a line of more than {LINE_BYTES_MAX} bytes");
            self.tsd
                .refuse(RefusalReason::LineTooLong, &cause, &example);
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Writes the points of all lines.
    async fn write(&mut self, part: &Part) -> Result<Written, TryAgain> {
        let mode = self.tsd.config.mode;
        let lines = part.lines.clone();
        let write = move |writer: &mut PointWriter<'_>| Ok(write_lines(writer, &lines, mode));
        self.confirm_durable();
        let appended = match append(self.tsd, self.patience(), write).await {
            Ok(appended) => appended,
            Err(error) if error.status == StatusCode::SERVICE_UNAVAILABLE => {
                return Err(TryAgain::Refused(error));
            }
            Err(error)
                if error.refusal == Some(RefusalReason::RequestTooLarge) && part.count > 1 =>
            {
                return Err(TryAgain::TooMany);
            }
            Err(error) => {
                let text = storage_error(&self.tsd.config, part.commands, &error);
                let mut refusals = RefusalTally::default();
                tally_error(&mut refusals, part.commands, &error);
                return Ok(Written {
                    replies: vec![(usize::MAX, text)],
                    refusals,
                });
            }
        };
        let mut replies = appended.report;
        let rejected = &appended.outcome.rejected;
        if let Some(rejection) = rejected.iter().find(|rejection| rejection.retryable)
            && let Some(pause) = self.attempts.refused_in_part()
        {
            return Err(TryAgain::RefusedInPart(pause, rejection.reason.clone()));
        }
        if !rejected.is_empty() && part.commands.are_several() {
            return Err(TryAgain::Separately);
        }
        for (command, _) in part.commands.counts() {
            let texts = rejected
                .iter()
                .map(|rejection| self.rejected(command, rejection));
            replies.extend(texts.map(|text| (usize::MAX, text)));
        }
        self.pending.push_back(Pending {
            durable: appended.durable,
            commands: part.commands,
        });
        if self.pending.len() > PENDING_MAX
            && let Some(Pending { durable, commands }) = self.pending.pop_front()
        {
            let outcome = durable.wait().await;
            self.confirm(commands, outcome);
        }
        Ok(Written {
            replies,
            refusals: appended.refusals,
        })
    }

    /// What is said of points that the store did not take with the others.
    fn rejected(&self, command: &str, rejection: &Rejection) -> String {
        let Rejection { reason, count, .. } = rejection;
        if !rejection.retryable {
            return format!("{command}: illegal argument: {reason} (×{count})\n");
        }
        self.throttled(command, reason, *count)
    }

    /// What is said of points that could be stored later.
    fn throttled(&self, command: &str, reason: &str, count: u64) -> String {
        if self.tsd.config.telnet_return_errors {
            format!("{command}: Please throttle writes: {reason} (×{count})\n")
        } else {
            String::new()
        }
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
            _ => format!("{UNKNOWN_COMMAND}{command}.  Try `help'.\n"),
        }
    }

    /// How long the next points may wait for others. Series are not known before they are durable,
    /// and cost more until then.
    fn patience(&self) -> Duration {
        let mut pending = self.pending.iter();
        let learns = pending.any(|pending| pending.durable.has_new_series());
        if learns || self.pending.len() >= PATIENT_MAX {
            Duration::ZERO
        } else {
            PATIENCE
        }
    }

    /// Takes note of what has become durable meanwhile.
    fn confirm_durable(&mut self) {
        while let Some(first) = self.pending.front_mut()
            && let Some(outcome) = first.durable.outcome()
        {
            let commands = first.commands;
            self.pending.pop_front();
            self.confirm(commands, outcome);
        }
    }

    fn confirm(&mut self, commands: Commands, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            let text = storage_error(&self.tsd.config, commands, &error);
            self.notices.push_str(&text);
            let mut refusals = RefusalTally::default();
            tally_error(&mut refusals, commands, &error);
            self.tsd.note_refusals(refusals);
        }
    }
}

/// Counts all points of lines as refused for an error.
fn tally_error(refusals: &mut RefusalTally, commands: Commands, error: &Error) {
    let reason = error.refusal.unwrap_or(RefusalReason::StoreUnavailable);
    for (_, count) in commands.counts() {
        refusals.add(reason, count, || error.message.clone(), String::new);
    }
}

/// Writes the points of lines; what is wrong with some, by the numbers of their lines.
fn write_lines(writer: &mut PointWriter<'_>, lines: &[u8], mode: Mode) -> Vec<(usize, String)> {
    let mut replies = Vec::new();
    for (number, line) in lines.split_inclusive(is_line_end).enumerate() {
        let line = without_end(line);
        let command = command_of(line);
        if command == b"exit" {
            break;
        }
        if writing(command, mode).is_none() {
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
            writer.refuse(&error, || line.to_string());
            replies.push((number, error.line_text(command)));
        }
    }
    replies
}

fn storage_error(config: &Config, commands: Commands, error: &Error) -> String {
    if !config.telnet_return_errors {
        return String::new();
    }
    let message = &error.message;
    let text = |(command, _): (&str, u64)| format!("{command}: HBase error: {message}\n");
    commands.counts().map(text).collect()
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

/// Which of the commands that write points this is, if there are such commands.
fn writing(command: &[u8], mode: Mode) -> Option<usize> {
    let mut names = WRITING.iter();
    let found = names.position(|name| name.as_bytes() == command);
    found.filter(|_| mode != Mode::ReadOnly)
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
mod tests;
