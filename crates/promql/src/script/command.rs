//! Parsing of scripts into commands, line by line.
//!
//! The lines of a command end with an empty line; a comment counts as an empty line.

use super::ScriptError;
use super::expect::{Expectation, ExpectedValue, TextPattern, TimeRange, first_word};
use super::load::{Load, SeriesLine};
use super::series::parse_series;
use super::start_time::{is_start_line, parse_start_line};
use crate::parse::{parse_duration_ms, parse_signed_number};
use crate::value::QueryTime;

/// A parsed script.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) commands: Vec<Command>,
}

#[derive(Clone, Debug)]
pub(crate) struct Command {
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) kind: CommandKind,
}

#[derive(Clone, Debug)]
pub(crate) enum CommandKind {
    Load(Load),
    Clear,
    Eval(Eval),
}

/// A query and its expected answer.
#[derive(Clone, Debug)]
pub(crate) struct Eval {
    pub(crate) query: String,
    pub(crate) time: QueryTime,
    pub(crate) expected: Expectation,
}

impl Script {
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut lines = Lines::new(text);
        let mut commands = Vec::new();
        while let Some((line, text)) = lines.next_command() {
            let kind = parse_command(text, &mut lines).map_err(|message| ScriptError {
                line: lines.line.max(line),
                message,
            })?;
            commands.push(Command { line, kind });
        }
        Ok(Self { commands })
    }

    /// Number of evaluations in the script.
    pub fn eval_count(&self) -> usize {
        let evals = self.commands.iter();
        evals
            .filter(|c| matches!(c.kind, CommandKind::Eval(_)))
            .count()
    }
}

/// The lines of a script, trimmed, comments emptied.
struct Lines<'a> {
    rest: std::str::Lines<'a>,
    /// The number of the last line, counted from 1.
    line: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text.lines(),
            line: 0,
        }
    }

    fn next(&mut self) -> Option<&'a str> {
        let text = self.rest.next()?.trim();
        self.line += 1;
        Some(if text.starts_with('#') { "" } else { text })
    }

    fn next_command(&mut self) -> Option<(usize, &'a str)> {
        loop {
            let text = self.next()?;
            if !text.is_empty() {
                return Some((self.line, text));
            }
        }
    }

    /// The next line of the same command.
    fn next_of_block(&mut self) -> Option<&'a str> {
        self.next().filter(|text| !text.is_empty())
    }
}

fn parse_command(text: &str, lines: &mut Lines<'_>) -> Result<CommandKind, String> {
    let (word, rest) = first_word(text);
    match word {
        "clear" => Ok(CommandKind::Clear),
        "load" => Ok(CommandKind::Load(parse_load(rest, false, lines)?)),
        "load_with_nhcb" => Ok(CommandKind::Load(parse_load(rest, true, lines)?)),
        _ => match word.strip_prefix("eval") {
            Some(modifier) => Ok(CommandKind::Eval(parse_eval(modifier, rest, lines)?)),
            None => Err(format!("invalid command {text:?}")),
        },
    }
}

fn parse_load(interval: &str, with_nhcb: bool, lines: &mut Lines<'_>) -> Result<Load, String> {
    let interval_ms =
        parse_duration_ms(interval).ok_or_else(|| format!("{interval:?} is not a duration"))?;
    let mut series = Vec::new();
    let mut default_starts = Vec::new();
    let mut pending = None;
    while let Some(line) = lines.next_of_block() {
        if is_start_line(line) {
            match (parse_start_line(line)?, &pending) {
                (_, Some(_)) => return Err("@st line has no following sample line".to_owned()),
                ((None, starts), None) => default_starts = starts,
                ((Some(labels), starts), None) => pending = Some((labels, starts)),
            }
            continue;
        }
        let (labels, points) = parse_series(line)?;
        let starts = match pending.take() {
            None => default_starts.clone(),
            Some((named, _)) if named != labels => {
                return Err("@st metric does not match the following sample line metric".to_owned());
            }
            Some((_, starts)) if starts.len() != points.len() => {
                return Err(format!(
                    "@st line has {} values but sample line has {}",
                    starts.len(),
                    points.len()
                ));
            }
            Some((_, starts)) => starts,
        };
        series.push(SeriesLine {
            labels,
            points,
            starts,
        });
    }
    if pending.is_some() {
        return Err("@st line has no following sample line".to_owned());
    }
    Ok(Load {
        interval_ms,
        with_nhcb,
        series,
    })
}

fn parse_eval(modifier: &str, rest: &str, lines: &mut Lines<'_>) -> Result<Eval, String> {
    let (kind, rest) = first_word(rest);
    let (mut time, query) = match kind {
        "instant" => {
            let (at, rest) = first_word(rest);
            let (moment, query) = first_word(rest);
            if at != "at" {
                return Err("expected \"eval instant at <time> <query>\"".to_owned());
            }
            let time_ms =
                parse_duration_ms(moment).ok_or_else(|| format!("{moment:?} is not a duration"))?;
            (QueryTime::Instant { time_ms }, query)
        }
        "range" => {
            let (range, query) = TimeRange::parse(rest)?;
            let time = QueryTime::Range {
                start_ms: range.start_ms,
                end_ms: range.end_ms,
                step_ms: range.step_ms,
            };
            (time, query)
        }
        _ => return Err("expected \"eval instant …\" or \"eval range …\"".to_owned()),
    };
    if query.is_empty() {
        return Err("expected a query".to_owned());
    }
    let mut expected = Expectation::default();
    match modifier {
        "" => {}
        "_fail" => expected.failure = Some(TextPattern::Any),
        "_warn" => expected.warnings.patterns.push(TextPattern::Any),
        "_info" => expected.infos.patterns.push(TextPattern::Any),
        "_ordered" => expected.ordered = true,
        _ => return Err(format!("unknown command \"eval{modifier}\"")),
    }
    let is_instant = matches!(time, QueryTime::Instant { .. });
    parse_expectations(&mut expected, is_instant, lines)?;
    if let (true, Some(range)) = (is_instant, expected.range) {
        // As in Prometheus, whose runner evaluates at the end of the expected range.
        time = QueryTime::Instant {
            time_ms: range.end_ms,
        };
    }
    Ok(Eval {
        query: query.to_owned(),
        time,
        expected,
    })
}

fn parse_expectations(
    expected: &mut Expectation,
    is_instant: bool,
    lines: &mut Lines<'_>,
) -> Result<(), String> {
    while let Some(line) = lines.next_of_block() {
        let (word, rest) = first_word(line);
        match word {
            "expect" => {
                expected.add_expect_line(line)?;
                continue;
            }
            // These two older lines end the command.
            "expected_fail_message" if expected.failure.is_some() => {
                expected.failure = Some(TextPattern::Exactly(rest.to_owned()));
                return Ok(());
            }
            "expected_fail_regexp" if expected.failure.is_some() => {
                expected.failure = Some(TextPattern::regex(rest)?);
                return Ok(());
            }
            _ => {}
        }
        if let Some(number) = parse_signed_number(line) {
            expected.value = ExpectedValue::Scalar(number);
            return Ok(());
        }
        let (labels, points) = parse_series(line)?;
        if is_instant && expected.range.is_none() && points.len() != 1 {
            return Err(
                "an instant evaluation has one value per series (or \"expect range vector …\")"
                    .to_owned(),
            );
        }
        expected.add_series(labels, points);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_script() {
        let script = Script::parse(
            "# data\n\
             load 5m\n\
             \tm{a=\"b\"}@st -1mx1\n\
             \tm{a=\"b\"} 1 2\n\
             \n\
             eval instant at 1m30s sum(m)  # all\n\
             \x20 expect no_warn\n\
             \x20 {} 3\n\
             \n\
             eval range from 0 to 10m step 5m m\n\
             \x20 m{a=\"b\"} 1 2 _\n\
             clear\n",
        );
        // The line `clear` belongs to the block before it, so it is read as a series without
        // values.
        assert_eq!(script.unwrap().commands.len(), 3);
        let script =
            Script::parse("load_with_nhcb 1m\n\nclear\n eval instant at 0 1\n  1\nclear").unwrap();
        assert_eq!(script.commands.len(), 4);
        assert_eq!(script.eval_count(), 1);
        let CommandKind::Eval(eval) = &script.commands[2].kind else {
            panic!("an eval was expected");
        };
        assert_eq!(script.commands[2].line, 4);
        assert_eq!(eval.query, "1");
        assert!(matches!(eval.expected.value, ExpectedValue::Scalar(1.0)));
    }

    #[test]
    fn older_commands() {
        let script = Script::parse(
            "eval_fail instant at 0 x\n expected_fail_message a b\neval_warn instant at 0 x\n\n\
             eval_ordered instant at 0 x\n\neval_fail range from 0 to 1m step 1m x\n expected_fail_regexp a.\n",
        )
        .unwrap();
        let evals: Vec<&Eval> = script
            .commands
            .iter()
            .filter_map(|command| match &command.kind {
                CommandKind::Eval(eval) => Some(eval),
                _ => None,
            })
            .collect();
        let fails = |eval: &Eval, message| {
            eval.expected
                .failure
                .as_ref()
                .is_some_and(|f| f.matches(message))
        };
        assert!(fails(evals[0], "a b") && !fails(evals[0], "a"));
        assert_eq!(evals[1].expected.warnings.patterns.len(), 1);
        assert!(evals[2].expected.ordered);
        assert!(fails(evals[3], "xab"));
    }

    #[test]
    fn errors_name_the_line() {
        let cases = [
            ("dance", 1),
            ("\nload x", 2),
            ("load 1m\n m 1\n m{ 2", 3),
            ("load 1m\n m@st 1s\n n 1", 3),
            ("load 1m\n m@st 1s 1s\n m 1", 3),
            ("load 1m\n m@st 1s", 2),
            ("load 1m\n m@st 1s\n m@st 1s", 3),
            ("eval instant at x 1", 1),
            ("eval instant at 1m", 1),
            ("eval range from 1m to 0 step 1m x", 1),
            ("eval range from 1m step 1m x", 1),
            ("eval_odd instant at 1m x", 1),
            ("eval instant at 1m x\n m 1 2", 2),
            ("eval instant at 1m x\n expect joy", 2),
        ];
        for (text, line) in cases {
            assert_eq!(Script::parse(text).unwrap_err().line, line, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_script_or_an_error(
            text in "(load 1m\n|eval instant at 0 x\n|clear\n| m 1x3\n|[ -~é\n]{0,10}){0,8}"
        ) {
            let _ = Script::parse(&text);
        }
    }
}
