//! Import: lines of JSON, one series each, as exports write them and VictoriaMetrics does.
//!
//! ```text
//! pieces of text ─► LineReader ─► SampleBatch, up to its limits ─► the caller stores it
//!                      └─ values wait for their timestamps
//! ```
//!
//! What a line holds is described at [`export`](super::export). Keys may come in any order, except
//! that `metric` is the first of those that are known, and `start_timestamps` precede `values`
//! and `timestamps` meet. Unknown keys are skipped; a line with no others beside `metric` is a bad
//! one. `null` among values is NaN.
//!
//! Holds always:
//! - The same text gives the same calls, however it is cut into pieces and batches.
//! - Of a line, only the batch and the values without timestamps ([`PENDING_MAX`]) are in memory; a
//!   value that is read as a whole (labels, a histogram) is at most [`ELEMENT_BYTES_MAX`] long.
//! - A bad line leaves nothing in the batch. The beginning of a line that is longer than a batch
//!   stays in earlier batches.

mod elements;
mod pending;
mod scan;
mod value;

use std::borrow::Cow;

use icecore_model::{RawLabels, Sample, SampleSink};

pub use pending::PENDING_MAX;

use self::elements::{
    json_of, read_exemplar, read_histogram, read_metadata, read_metric, read_pair, read_value,
};
use self::pending::PendingQueue;
use self::scan::value_end;
use self::value::{parse_number, parse_whole};
use crate::json::{SyntaxError, is_number_byte};
use crate::sample_batch::{SampleBatch, Savepoint};

/// Bytes of one value that is read as a whole: a histogram of the largest kind as text.
pub const ELEMENT_BYTES_MAX: usize = 4 << 20;

/// The least that a reader asks for, so that it does not scan a few bytes again and again.
const MORE_BYTES: usize = 4 << 10;

/// Nesting of objects and arrays.
const DEPTH_MAX: usize = 64;

/// What is wrong with a line, to be reported with its number.
type Problem = Cow<'static, str>;

impl From<SyntaxError> for Problem {
    fn from(error: SyntaxError) -> Self {
        error.reason.into()
    }
}

/// When a batch is full.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    pub samples: usize,
    pub bytes: usize,
}

/// The result of one call of [`LineReader::advance`].
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The rest of the input must grow to this many bytes.
    More { at_least: usize },
    /// The batch is full: store it and continue with an empty one.
    Full,
    /// A line that cannot be parsed. The next call skips the rest of it.
    Bad { line: u64, reason: String },
    /// Nothing follows.
    End,
}

/// Reads lines, however their bytes arrive.
pub struct LineReader {
    limits: BatchLimits,
    state: State,
    line: u64,
    lines_read: u64,
    /// Of the line being read: its labels, and whether the batch has them.
    labels: Vec<u8>,
    announced: bool,
    /// Where the line begins in the batch.
    savepoint: Savepoint,
    seen: SeenKeys,
    values: PendingQueue<f64>,
    times: PendingQueue<i64>,
    starts: Vec<(i64, i64)>,
    starts_at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    LineStart,
    /// Before a key, or the end of the object.
    Member {
        first: bool,
    },
    /// Before a value that is read as a whole.
    Value(WholeValue),
    /// In a list whose elements are read one by one.
    List(List, ListPosition),
    LineEnd,
    /// In a line that is skipped.
    BadLine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WholeValue {
    Metric,
    Metadata,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Values,
    Times,
    Histograms,
    Starts,
    Exemplars,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListPosition {
    Open,
    First,
    Later,
}

/// The keys that the line has had.
#[derive(Clone, Copy, Default)]
struct SeenKeys {
    metric: bool,
    values: bool,
    times: bool,
    starts: bool,
    /// Whether a sample went into a batch.
    samples: bool,
    /// Set if there was a key for something to store, even if it is empty.
    content: bool,
}

/// The result of one step.
enum Progress {
    Taken(usize),
    /// More input is needed.
    Incomplete,
    /// The batch is full, after so many bytes.
    Full(usize),
}

impl LineReader {
    pub fn new(limits: BatchLimits) -> Self {
        Self {
            limits,
            state: State::LineStart,
            line: 1,
            lines_read: 0,
            labels: Vec::new(),
            announced: false,
            savepoint: Savepoint::default(),
            seen: SeenKeys::default(),
            values: PendingQueue::default(),
            times: PendingQueue::default(),
            starts: Vec::new(),
            starts_at: 0,
        }
    }

    /// The line that is being read, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Good lines, read to their end.
    pub fn lines_read(&self) -> u64 {
        self.lines_read
    }

    /// Bytes of values and labels kept in memory.
    pub fn pending_bytes(&self) -> usize {
        8 * (self.values.len() + self.times.len()) + 16 * self.starts.len() + self.labels.len()
    }

    /// Reads on. `input` begins where the last call ended; how many bytes were consumed is
    /// returned. `at_end` means that nothing follows. After [`Step::Full`] the batch must be empty.
    pub fn advance(
        &mut self,
        input: &[u8],
        at_end: bool,
        batch: &mut SampleBatch,
    ) -> (usize, Step) {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            if rest.is_empty() && at_end && self.is_between_lines() {
                return (at, Step::End);
            }
            match self.step(rest, at_end, batch) {
                Ok(Progress::Taken(taken)) => {
                    at += taken;
                    if self.state == State::LineStart && taken > 0 && self.is_full(batch) {
                        return (at, self.full());
                    }
                }
                Ok(Progress::Full(taken)) => return (at + taken, self.full()),
                Ok(Progress::Incomplete) if at_end => {
                    let bad = self.bad("the text ends within a line".into(), batch);
                    return (input.len(), bad);
                }
                Ok(Progress::Incomplete) if rest.len() >= ELEMENT_BYTES_MAX => {
                    let reason = format!("a value of more than {ELEMENT_BYTES_MAX} bytes");
                    return (at, self.bad(reason.into(), batch));
                }
                Ok(Progress::Incomplete) => {
                    let at_least = (2 * rest.len()).max(MORE_BYTES);
                    return (at, Step::More { at_least });
                }
                Err(problem) => return (at, self.bad(problem, batch)),
            }
        }
    }

    fn is_between_lines(&self) -> bool {
        matches!(self.state, State::LineStart | State::BadLine)
    }

    fn is_full(&self, batch: &SampleBatch) -> bool {
        batch.len() >= self.limits.samples || batch.bytes() >= self.limits.bytes
    }

    fn full(&mut self) -> Step {
        self.announced = false;
        self.savepoint = Savepoint::default();
        Step::Full
    }

    fn bad(&mut self, problem: Problem, batch: &mut SampleBatch) -> Step {
        batch.rollback(self.savepoint);
        self.state = State::BadLine;
        self.forget_line();
        let line = self.line;
        let reason = problem.into_owned();
        Step::Bad { line, reason }
    }

    fn forget_line(&mut self) {
        self.announced = false;
        self.seen = SeenKeys::default();
        self.values.clear();
        self.times.clear();
        self.starts.clear();
        self.starts_at = 0;
    }

    fn step(
        &mut self,
        input: &[u8],
        at_end: bool,
        batch: &mut SampleBatch,
    ) -> Result<Progress, Problem> {
        match self.state {
            State::LineStart => Ok(self.line_start(input, batch)),
            State::BadLine => Ok(self.bad_line(input)),
            State::Member { first } => self.member(input, first),
            State::Value(what) => self.whole_value(input, what, batch),
            State::List(list, position) => self.list(input, list, position, batch),
            State::LineEnd => self.line_end(input, at_end),
        }
    }

    fn line_start(&mut self, input: &[u8], batch: &SampleBatch) -> Progress {
        let mut taken = 0;
        for byte in input {
            match byte {
                b'\n' => self.line += 1,
                b' ' | b'\t' | b'\r' => {}
                _ => {
                    self.savepoint = batch.savepoint();
                    self.state = State::Member { first: true };
                    break;
                }
            }
            taken += 1;
        }
        match self.state {
            State::LineStart if taken == 0 => Progress::Incomplete,
            _ => Progress::Taken(taken),
        }
    }

    fn bad_line(&mut self, input: &[u8]) -> Progress {
        if input.is_empty() {
            return Progress::Incomplete;
        }
        match input.iter().position(|byte| *byte == b'\n') {
            None => Progress::Taken(input.len()),
            Some(end) => {
                self.line += 1;
                self.state = State::LineStart;
                Progress::Taken(end + 1)
            }
        }
    }

    /// A key with its colon, and what comes before it.
    fn member(&mut self, input: &[u8], first: bool) -> Result<Progress, Problem> {
        let mut at = spaces(input, 0);
        let Some(byte) = input.get(at) else {
            return Ok(Progress::Incomplete);
        };
        match byte {
            b'{' if first => {
                at = spaces(input, at + 1);
                // An empty object lacks `metric`, which the end of the line reports.
                if input.get(at) == Some(&b'}') {
                    self.state = State::LineEnd;
                    return Ok(Progress::Taken(at + 1));
                }
            }
            _ if first => return Err("expected an object".into()),
            b'}' => {
                self.state = State::LineEnd;
                return Ok(Progress::Taken(at + 1));
            }
            b',' => at = spaces(input, at + 1),
            b'\n' => return Err("the line ends within the object".into()),
            _ => return Err("expected a comma or the end of the object".into()),
        }
        match input.get(at) {
            None => return Ok(Progress::Incomplete),
            Some(b'"') => {}
            Some(_) => return Err("expected a key".into()),
        }
        let key = input.get(at..).unwrap_or_default();
        let Some(length) = value_end(key)? else {
            return Ok(Progress::Incomplete);
        };
        let key = json_of(key.get(..length).unwrap_or_default())?.string()?;
        at = spaces(input, at + length);
        match input.get(at) {
            None => return Ok(Progress::Incomplete),
            Some(b':') => {}
            Some(_) => return Err("expected a colon after a key".into()),
        }
        self.state = self.enter(&key)?;
        Ok(Progress::Taken(at + 1))
    }

    fn enter(&mut self, key: &str) -> Result<State, Problem> {
        let twice = |seen: &mut bool| {
            if std::mem::replace(seen, true) {
                return Err(Problem::from(format!("duplicate key {key}")));
            }
            Ok(())
        };
        let list = match key {
            "metric" => {
                twice(&mut self.seen.metric)?;
                return Ok(State::Value(WholeValue::Metric));
            }
            "metadata" => {
                self.seen.content = true;
                return Ok(State::Value(WholeValue::Metadata));
            }
            "values" => {
                twice(&mut self.seen.values)?;
                List::Values
            }
            "timestamps" => {
                twice(&mut self.seen.times)?;
                List::Times
            }
            "start_timestamps" => {
                twice(&mut self.seen.starts)?;
                if self.seen.samples {
                    return Err("start_timestamps must stand before values and timestamps".into());
                }
                List::Starts
            }
            "histograms" => List::Histograms,
            "exemplars" => List::Exemplars,
            _ => return Ok(State::Value(WholeValue::Unknown)),
        };
        if !self.seen.metric {
            return Err(format!("{key} before metric").into());
        }
        self.seen.content |= list != List::Starts;
        Ok(State::List(list, ListPosition::Open))
    }

    fn whole_value(
        &mut self,
        input: &[u8],
        what: WholeValue,
        batch: &mut SampleBatch,
    ) -> Result<Progress, Problem> {
        let begin = spaces(input, 0);
        let rest = input.get(begin..).unwrap_or_default();
        let Some(length) = value_end(rest)? else {
            return Ok(Progress::Incomplete);
        };
        let value = rest.get(..length).unwrap_or_default();
        match what {
            WholeValue::Metric => read_metric(value, &mut self.labels)?,
            WholeValue::Metadata => {
                let (family, metadata) = read_metadata(value)?;
                batch.metadata(&family, metadata);
            }
            WholeValue::Unknown => {}
        }
        self.state = State::Member { first: false };
        Ok(Progress::Taken(begin + length))
    }

    fn list(
        &mut self,
        input: &[u8],
        list: List,
        position: ListPosition,
        batch: &mut SampleBatch,
    ) -> Result<Progress, Problem> {
        if position == ListPosition::Open {
            let at = spaces(input, 0);
            return match input.get(at) {
                None => Ok(Progress::Incomplete),
                Some(b'[') => {
                    self.state = State::List(list, ListPosition::First);
                    Ok(Progress::Taken(at + 1))
                }
                Some(_) => Err("expected a list".into()),
            };
        }
        let mut position = position;
        let mut taken = 0;
        // Separators are read here, so that the loop is short.
        loop {
            let mut at = spaces(input, taken);
            match (input.get(at), position) {
                (None, _) => break,
                (Some(b']'), _) => {
                    self.list_ends(list);
                    return Ok(Progress::Taken(at + 1));
                }
                (Some(b','), ListPosition::Later) => at = spaces(input, at + 1),
                (Some(_), ListPosition::First) => {}
                (Some(b'\n'), _) => return Err("the line ends within a list".into()),
                (Some(_), _) => return Err("expected a comma or the end of the list".into()),
            }
            let rest = input.get(at..).unwrap_or_default();
            let Some(length) = self.element(rest, list, batch)? else {
                break;
            };
            taken = at + length;
            position = ListPosition::Later;
            self.state = State::List(list, position);
            if self.is_full(batch) {
                return Ok(Progress::Full(taken));
            }
        }
        Ok(match taken {
            0 => Progress::Incomplete,
            _ => Progress::Taken(taken),
        })
    }

    /// Reads one element at the beginning of the input: its length, or `None` when it is cut.
    #[inline]
    fn element(
        &mut self,
        input: &[u8],
        list: List,
        batch: &mut SampleBatch,
    ) -> Result<Option<usize>, Problem> {
        if matches!(list, List::Values | List::Times) {
            let end = input.iter().position(|byte| !is_number_byte(*byte));
            // A number is complete only when something follows it.
            let Some(end) = end else { return Ok(None) };
            if end > 0 {
                let token = input.get(..end).unwrap_or_default();
                match list {
                    List::Times => {
                        let time = parse_whole(token).ok_or_else(|| not_a_time(token))?;
                        self.time(time, batch)?;
                    }
                    _ => {
                        let value = parse_number(token).ok_or_else(|| not_a_value(token))?;
                        self.value(value, batch)?;
                    }
                }
                return Ok(Some(end));
            }
        }
        let Some(length) = value_end(input)? else {
            return Ok(None);
        };
        let element = input.get(..length).unwrap_or_default();
        match list {
            List::Values => {
                let value = json_of(element).and_then(|mut json| read_value(&mut json));
                self.value(value.map_err(|_| not_a_value(element))?, batch)?;
            }
            List::Times => return Err(not_a_time(element)),
            List::Starts => {
                let pair = read_pair(&mut json_of(element)?)?;
                if self.starts.len() >= PENDING_MAX / 2 {
                    return Err("too many start timestamps: split the line".into());
                }
                self.starts.push(pair);
            }
            List::Histograms => {
                let (time, histogram) = read_histogram(element)?;
                self.announce(batch);
                match histogram.validate() {
                    Ok(()) => batch.histogram(time, self.start_of(time), histogram),
                    Err(error) => batch.reject(error.to_string()),
                }
            }
            List::Exemplars => {
                let exemplar = read_exemplar(element)?;
                self.announce(batch);
                batch.exemplar(exemplar);
            }
        }
        Ok(Some(length))
    }

    fn list_ends(&mut self, list: List) {
        self.state = State::Member { first: false };
        if list == List::Starts && !self.starts.is_sorted_by_key(|(time, _)| *time) {
            self.starts.sort_by_key(|(time, _)| *time);
        }
        if list == List::Starts {
            // Histograms search from the front.
            self.starts_at = 0;
        }
    }

    #[inline]
    fn value(&mut self, value: f64, batch: &mut SampleBatch) -> Result<(), Problem> {
        if !self.seen.times {
            return self.values.push(value);
        }
        let time = self.times.pop().ok_or("more values than timestamps")?;
        self.sample(time, value, batch);
        Ok(())
    }

    #[inline]
    fn time(&mut self, time: i64, batch: &mut SampleBatch) -> Result<(), Problem> {
        if !self.seen.values {
            return self.times.push(time);
        }
        let value = self.values.pop().ok_or("more timestamps than values")?;
        self.sample(time, value, batch);
        Ok(())
    }

    #[inline]
    fn sample(&mut self, timestamp_ms: i64, value: f64, batch: &mut SampleBatch) {
        self.announce(batch);
        let start_timestamp_ms = self.start_of(timestamp_ms);
        batch.sample(Sample {
            timestamp_ms,
            value,
            start_timestamp_ms,
        });
    }

    #[inline]
    fn announce(&mut self, batch: &mut SampleBatch) {
        if !self.announced {
            batch.series(RawLabels(&self.labels));
            self.announced = true;
            self.seen.samples = true;
        }
    }

    /// The start timestamp of a sample; 0 when there is none. Times mostly ascend.
    #[inline]
    fn start_of(&mut self, time: i64) -> i64 {
        if self.starts.is_empty() {
            return 0;
        }
        let at = |index: usize| self.starts.get(index).copied();
        let mut index = self.starts_at;
        if index > 0 && at(index - 1).is_none_or(|(earlier, _)| earlier >= time) {
            index = self.starts.partition_point(|(earlier, _)| *earlier < time);
        }
        while at(index).is_some_and(|(earlier, _)| earlier < time) {
            index += 1;
        }
        let found = at(index).filter(|(there, _)| *there == time);
        self.starts_at = index;
        found.map_or(0, |(_, start)| start)
    }

    fn line_end(&mut self, input: &[u8], at_end: bool) -> Result<Progress, Problem> {
        let at = spaces(input, 0);
        let taken = match input.get(at) {
            Some(b'\n') => at + 1,
            None if at_end => at,
            None => return Ok(Progress::Incomplete),
            Some(_) => return Err("unexpected text after the object".into()),
        };
        if !self.seen.metric {
            return Err("no metric".into());
        }
        if !self.seen.content {
            return Err("no samples: expected values and timestamps, or histograms".into());
        }
        if self.values.len() > 0 {
            return Err(format!("{} more values than timestamps", self.values.len()).into());
        }
        if self.times.len() > 0 {
            return Err(format!("{} more timestamps than values", self.times.len()).into());
        }
        self.forget_line();
        self.line += 1;
        self.lines_read += 1;
        self.state = State::LineStart;
        Ok(Progress::Taken(taken))
    }
}

/// The first position from `at` on that is no space.
#[inline]
fn spaces(input: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r') = input.get(at) {
        at += 1;
    }
    at
}

fn not_a_time(token: &[u8]) -> Problem {
    let text = String::from_utf8_lossy(token);
    not_a("timestamp in whole milliseconds", &text)
}

fn not_a_value(token: &[u8]) -> Problem {
    not_a("value", &String::from_utf8_lossy(token))
}

fn not_a(what: &str, text: &str) -> Problem {
    let shown: String = text.chars().take(40).collect();
    format!("{shown:?} is not a {what}").into()
}

#[cfg(test)]
mod tests;
