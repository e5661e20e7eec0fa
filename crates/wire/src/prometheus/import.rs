//! Import: lines of JSON, one series each, as exports write them and VictoriaMetrics does.
//!
//! ```text
//! pieces of text ─► LineReader ─► Gathered, up to the limits of a batch ─► the caller stores it
//!                      └─ values wait for their timestamps
//! ```
//!
//! What a line holds is described at [`export`](super::export). Keys may come in any order, except
//! that `metric` is the first of those that are known, and `start_timestamps` stand before `values`
//! and `timestamps` meet. Unknown keys are passed over; `null` among values is NaN.
//!
//! Holds always:
//! - A text gives the same calls, however it is cut into pieces and batches.
//! - A line is in memory only as far as its values wait ([`HELD_MAX`]) and a batch is filled; a value
//!   that is read as a whole (labels, a histogram) is at most [`ELEMENT_BYTES_MAX`] long.
//! - Of a line that turns out to be bad nothing is left in the batch. What went into earlier batches
//!   stays: that is the beginning of a line that is longer than a batch.

mod elements;
mod held;
mod scan;
mod value;

use std::borrow::Cow;

use icecore_model::{RawLabels, Sample, SampleSink};

pub use held::HELD_MAX;

use self::elements::{
    json_of, read_exemplar, read_histogram, read_metadata, read_metric, read_pair, read_value,
};
use self::held::Held;
use self::scan::value_end;
use self::value::{parse_number, parse_whole};
use crate::gather::{Gathered, Mark};
use crate::json::{SyntaxError, is_number_byte};

/// Bytes of one value that is read as a whole: a histogram of the largest kind as text.
pub const ELEMENT_BYTES_MAX: usize = 4 << 20;

/// What a reader asks for at least, so that a few bytes are not looked at again and again.
const MORE_BYTES: usize = 4 << 10;

/// How deep values may nest that nobody asked for.
const DEPTH_MAX: usize = 64;

/// What is wrong with a line. The texts are short; they are put behind the number of the line.
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

/// What reading came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// What is left of the input must grow to this many bytes.
    More { at_least: usize },
    /// The batch is full: store it and go on with an empty one.
    Full,
    /// A line that cannot be read. Going on passes over the rest of it.
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
    mark: Mark,
    seen: Seen,
    values: Held<f64>,
    times: Held<i64>,
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
    Value(Whole),
    /// In a list whose elements are read one by one.
    List(List, Place),
    LineEnd,
    /// In a line that is passed over.
    BadLine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
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
enum Place {
    Open,
    First,
    Later,
}

/// Which keys the line has had.
#[derive(Clone, Copy, Default)]
struct Seen {
    metric: bool,
    values: bool,
    times: bool,
    starts: bool,
    /// Whether a sample went into a batch.
    samples: bool,
}

/// What became of a part.
enum Part {
    Taken(usize),
    /// Not all of it is there.
    Cut,
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
            mark: Mark::default(),
            seen: Seen::default(),
            values: Held::default(),
            times: Held::default(),
            starts: Vec::new(),
            starts_at: 0,
        }
    }

    /// The line that is being read, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Lines that were read to their end and are good.
    pub fn lines_read(&self) -> u64 {
        self.lines_read
    }

    /// What waits in memory.
    pub fn held_bytes(&self) -> usize {
        8 * (self.values.len() + self.times.len()) + 16 * self.starts.len() + self.labels.len()
    }

    /// Reads on. `input` begins where the last call ended, which is the first of what is returned:
    /// how many bytes are done with. `at_end` says that nothing follows. After [`Step::Full`] the
    /// batch must be an empty one.
    pub fn advance(&mut self, input: &[u8], at_end: bool, batch: &mut Gathered) -> (usize, Step) {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            if rest.is_empty() && at_end && self.is_between_lines() {
                return (at, Step::End);
            }
            match self.part(rest, at_end, batch) {
                Ok(Part::Taken(taken)) => {
                    at += taken;
                    if self.state == State::LineStart && taken > 0 && self.is_full(batch) {
                        return (at, self.full());
                    }
                }
                Ok(Part::Full(taken)) => return (at + taken, self.full()),
                Ok(Part::Cut) if at_end => {
                    let bad = self.bad("the text ends within a line".into(), batch);
                    return (input.len(), bad);
                }
                Ok(Part::Cut) if rest.len() >= ELEMENT_BYTES_MAX => {
                    let reason = format!("a value of more than {ELEMENT_BYTES_MAX} bytes");
                    return (at, self.bad(reason.into(), batch));
                }
                Ok(Part::Cut) => {
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

    fn is_full(&self, batch: &Gathered) -> bool {
        batch.len() >= self.limits.samples || batch.bytes() >= self.limits.bytes
    }

    fn full(&mut self) -> Step {
        self.announced = false;
        self.mark = Mark::default();
        Step::Full
    }

    fn bad(&mut self, problem: Problem, batch: &mut Gathered) -> Step {
        batch.rollback(self.mark);
        self.state = State::BadLine;
        self.forget_line();
        let line = self.line;
        let reason = problem.into_owned();
        Step::Bad { line, reason }
    }

    fn forget_line(&mut self) {
        self.announced = false;
        self.seen = Seen::default();
        self.values.clear();
        self.times.clear();
        self.starts.clear();
        self.starts_at = 0;
    }

    fn part(&mut self, input: &[u8], at_end: bool, batch: &mut Gathered) -> Result<Part, Problem> {
        match self.state {
            State::LineStart => Ok(self.line_start(input, batch)),
            State::BadLine => Ok(self.bad_line(input)),
            State::Member { first } => self.member(input, first),
            State::Value(what) => self.whole_value(input, what, batch),
            State::List(list, place) => self.list(input, list, place, batch),
            State::LineEnd => self.line_end(input, at_end),
        }
    }

    fn line_start(&mut self, input: &[u8], batch: &Gathered) -> Part {
        let mut taken = 0;
        for byte in input {
            match byte {
                b'\n' => self.line += 1,
                b' ' | b'\t' | b'\r' => {}
                _ => {
                    self.mark = batch.mark();
                    self.state = State::Member { first: true };
                    break;
                }
            }
            taken += 1;
        }
        match self.state {
            State::LineStart if taken == 0 => Part::Cut,
            _ => Part::Taken(taken),
        }
    }

    fn bad_line(&mut self, input: &[u8]) -> Part {
        if input.is_empty() {
            return Part::Cut;
        }
        match input.iter().position(|byte| *byte == b'\n') {
            None => Part::Taken(input.len()),
            Some(end) => {
                self.line += 1;
                self.state = State::LineStart;
                Part::Taken(end + 1)
            }
        }
    }

    /// A key with its colon, and what comes before it.
    fn member(&mut self, input: &[u8], first: bool) -> Result<Part, Problem> {
        let mut at = spaces(input, 0);
        let Some(byte) = input.get(at) else {
            return Ok(Part::Cut);
        };
        match byte {
            b'{' if first => {
                at = spaces(input, at + 1);
                // An empty object is a line without a series, which its end says.
                if input.get(at) == Some(&b'}') {
                    self.state = State::LineEnd;
                    return Ok(Part::Taken(at + 1));
                }
            }
            _ if first => return Err("expected an object".into()),
            b'}' => {
                self.state = State::LineEnd;
                return Ok(Part::Taken(at + 1));
            }
            b',' => at = spaces(input, at + 1),
            b'\n' => return Err("the line ends within the object".into()),
            _ => return Err("expected a comma or the end of the object".into()),
        }
        match input.get(at) {
            None => return Ok(Part::Cut),
            Some(b'"') => {}
            Some(_) => return Err("expected a key".into()),
        }
        let key = input.get(at..).unwrap_or_default();
        let Some(length) = value_end(key)? else {
            return Ok(Part::Cut);
        };
        let key = json_of(key.get(..length).unwrap_or_default())?.string()?;
        at = spaces(input, at + length);
        match input.get(at) {
            None => return Ok(Part::Cut),
            Some(b':') => {}
            Some(_) => return Err("expected a colon behind a key".into()),
        }
        self.state = self.enter(&key)?;
        Ok(Part::Taken(at + 1))
    }

    fn enter(&mut self, key: &str) -> Result<State, Problem> {
        let twice = |seen: &mut bool| {
            if std::mem::replace(seen, true) {
                return Err(Problem::from(format!("{key} twice")));
            }
            Ok(())
        };
        let list = match key {
            "metric" => {
                twice(&mut self.seen.metric)?;
                return Ok(State::Value(Whole::Metric));
            }
            "metadata" => return Ok(State::Value(Whole::Metadata)),
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
            _ => return Ok(State::Value(Whole::Unknown)),
        };
        if !self.seen.metric {
            return Err(format!("{key} before metric").into());
        }
        Ok(State::List(list, Place::Open))
    }

    fn whole_value(
        &mut self,
        input: &[u8],
        what: Whole,
        batch: &mut Gathered,
    ) -> Result<Part, Problem> {
        let begin = spaces(input, 0);
        let rest = input.get(begin..).unwrap_or_default();
        let Some(length) = value_end(rest)? else {
            return Ok(Part::Cut);
        };
        let value = rest.get(..length).unwrap_or_default();
        match what {
            Whole::Metric => read_metric(value, &mut self.labels)?,
            Whole::Metadata => {
                let (family, metadata) = read_metadata(value)?;
                batch.metadata(&family, metadata);
            }
            Whole::Unknown => {}
        }
        self.state = State::Member { first: false };
        Ok(Part::Taken(begin + length))
    }

    fn list(
        &mut self,
        input: &[u8],
        list: List,
        place: Place,
        batch: &mut Gathered,
    ) -> Result<Part, Problem> {
        if place == Place::Open {
            let at = spaces(input, 0);
            return match input.get(at) {
                None => Ok(Part::Cut),
                Some(b'[') => {
                    self.state = State::List(list, Place::First);
                    Ok(Part::Taken(at + 1))
                }
                Some(_) => Err("expected a list".into()),
            };
        }
        let mut place = place;
        let mut taken = 0;
        // What is between elements is looked at here, so that the loop is short.
        loop {
            let mut at = spaces(input, taken);
            match (input.get(at), place) {
                (None, _) => break,
                (Some(b']'), _) => {
                    self.list_ends(list);
                    return Ok(Part::Taken(at + 1));
                }
                (Some(b','), Place::Later) => at = spaces(input, at + 1),
                (Some(_), Place::First) => {}
                (Some(b'\n'), _) => return Err("the line ends within a list".into()),
                (Some(_), _) => return Err("expected a comma or the end of the list".into()),
            }
            let rest = input.get(at..).unwrap_or_default();
            let Some(length) = self.element(rest, list, batch)? else {
                break;
            };
            taken = at + length;
            place = Place::Later;
            self.state = State::List(list, place);
            if self.is_full(batch) {
                return Ok(Part::Full(taken));
            }
        }
        Ok(match taken {
            0 => Part::Cut,
            _ => Part::Taken(taken),
        })
    }

    /// Reads one element at the beginning of the input: its length, or `None` when it is cut.
    #[inline]
    fn element(
        &mut self,
        input: &[u8],
        list: List,
        batch: &mut Gathered,
    ) -> Result<Option<usize>, Problem> {
        if matches!(list, List::Values | List::Times) {
            let end = input.iter().position(|byte| !is_number_byte(*byte));
            // Whether a number goes on is known when something follows it.
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
                if self.starts.len() >= HELD_MAX / 2 {
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
            // Histograms begin to look from the front.
            self.starts_at = 0;
        }
    }

    #[inline]
    fn value(&mut self, value: f64, batch: &mut Gathered) -> Result<(), Problem> {
        if !self.seen.times {
            return self.values.push(value);
        }
        let time = self.times.pop().ok_or("more values than timestamps")?;
        self.sample(time, value, batch);
        Ok(())
    }

    #[inline]
    fn time(&mut self, time: i64, batch: &mut Gathered) -> Result<(), Problem> {
        if !self.seen.values {
            return self.times.push(time);
        }
        let value = self.values.pop().ok_or("more timestamps than values")?;
        self.sample(time, value, batch);
        Ok(())
    }

    #[inline]
    fn sample(&mut self, timestamp_ms: i64, value: f64, batch: &mut Gathered) {
        self.announce(batch);
        let start_timestamp_ms = self.start_of(timestamp_ms);
        batch.sample(Sample {
            timestamp_ms,
            value,
            start_timestamp_ms,
        });
    }

    #[inline]
    fn announce(&mut self, batch: &mut Gathered) {
        if !self.announced {
            batch.series(RawLabels(&self.labels));
            self.announced = true;
            self.seen.samples = true;
        }
    }

    /// The start that goes with a time; 0 when there is none. Times mostly ascend.
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

    fn line_end(&mut self, input: &[u8], at_end: bool) -> Result<Part, Problem> {
        let at = spaces(input, 0);
        let taken = match input.get(at) {
            Some(b'\n') => at + 1,
            None if at_end => at,
            None => return Ok(Part::Cut),
            Some(_) => return Err("something follows the object".into()),
        };
        if !self.seen.metric {
            return Err("no metric".into());
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
        Ok(Part::Taken(taken))
    }
}

/// The first place from `at` on that is no space.
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
