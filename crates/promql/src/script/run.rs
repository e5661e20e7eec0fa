//! Running a script: loads go to the backend, queries to the engine.
//!
//! An instant query is also run as a range query around its time, and (both ways) at other times
//! pinned to its own time: the answers must be the same.

use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use icecore_model::{MINUTE_MS, SeriesSource};

use super::at_modifier::{PinnedQuery, pin};
use super::command::{Command, CommandKind, Eval, Script};
use super::compare::{check_annotations, check_sorted, check_value};
use super::expect::{Expectation, TimeRange};
use super::load::{Backend, Load};
use super::report::{Failure, Report};
use super::reset_hint::ResetHints;
use crate::engine::Engine;
use crate::error::Error;
use crate::value::{Answer, QueryTime, QueryValue, Request, SampleValue, VectorSample};

/// Runs a script. A failure does not end it.
pub fn run(script: &Script, engine: &Engine, backend: &mut dyn Backend) -> Report {
    let mut report = Report::default();
    let mut hints = ResetHints::default();
    for Command { line, kind } in &script.commands {
        let (query, outcome) = match kind {
            CommandKind::Clear => {
                hints.clear();
                ("", backend.clear())
            }
            CommandKind::Load(load) => ("", run_load(load, &mut hints, backend)),
            CommandKind::Eval(eval) => {
                let runner = Runner {
                    eval,
                    engine,
                    source: backend.source(),
                };
                let outcome = runner.run();
                report.evals += 1;
                report.passed += usize::from(outcome.is_ok());
                (eval.query.as_str(), outcome)
            }
        };
        if let Err(difference) = outcome {
            report.failures.push(Failure {
                line: *line,
                query: query.to_owned(),
                difference,
            });
        }
    }
    report
}

fn run_load(load: &Load, hints: &mut ResetHints, backend: &mut dyn Backend) -> Result<(), String> {
    let mut batch = load.batch()?;
    hints.apply(&mut batch);
    backend.load(&batch)
}

/// One evaluation.
struct Runner<'a> {
    eval: &'a Eval,
    engine: &'a Engine,
    source: &'a dyn SeriesSource,
}

impl Runner<'_> {
    fn run(&self) -> Result<(), String> {
        match self.eval.time {
            QueryTime::Range {
                start_ms,
                end_ms,
                step_ms,
            } => {
                let range = TimeRange {
                    start_ms,
                    end_ms,
                    step_ms,
                };
                self.check(&self.eval.query, self.eval.time, Some(range), None)?;
                Ok(())
            }
            QueryTime::Instant { time_ms } => {
                self.run_instant(&self.eval.query, time_ms, None)?;
                let Some(pinned) = self.pinned(time_ms) else {
                    return Ok(());
                };
                for other in other_times(time_ms) {
                    self.run_instant(&pinned.text, other, Some(&pinned))
                        .map_err(|difference| {
                            format!("as {:?} at {other} ms: {difference}", pinned.text)
                        })?;
                }
                Ok(())
            }
        }
    }

    /// The query pinned to its time, if possible. A query that does not parse has failed already.
    fn pinned(&self, time_ms: i64) -> Option<PinnedQuery> {
        let expr = crate::parse::parse(&self.eval.query).ok()?;
        pin(&self.eval.query, &expr, time_ms)
    }

    fn run_instant(
        &self,
        query: &str,
        time_ms: i64,
        pinned: Option<&PinnedQuery>,
    ) -> Result<(), String> {
        let expected = &self.eval.expected;
        let time = QueryTime::Instant { time_ms };
        let Some(answer) = self.check(query, time, expected.range, pinned)? else {
            return Ok(());
        };
        let has_steps = matches!(
            answer.value,
            QueryValue::Scalar { .. } | QueryValue::Vector(_)
        );
        if !has_steps || depends_on_range(query) {
            return Ok(());
        }
        self.run_as_range(query, time_ms, &answer.value)
            .map_err(|difference| format!("as a range query: {difference}"))
    }

    /// Runs a range query around the time; its step at the time must be as expected.
    fn run_as_range(&self, query: &str, time_ms: i64, instant: &QueryValue) -> Result<(), String> {
        let time = QueryTime::Range {
            start_ms: time_ms.saturating_sub(MINUTE_MS),
            end_ms: time_ms.saturating_add(MINUTE_MS),
            step_ms: MINUTE_MS,
        };
        let answer = self
            .execute(query, time)
            .map_err(|error| error.to_string())?;
        let QueryValue::Matrix(matrix) = answer.value else {
            return Err("the answer is not a matrix".to_owned());
        };
        check_sorted(&matrix)?;
        let mut samples = Vec::with_capacity(matrix.len());
        for series in &matrix {
            let float = series.floats().find(|(time, _)| *time == time_ms);
            let histogram = series.histograms().find(|(time, _)| *time == time_ms);
            let values = [
                float.map(|(_, value)| SampleValue::Float(value)),
                histogram.map(|(_, value)| SampleValue::Histogram(value.clone())),
            ];
            samples.extend(values.into_iter().flatten().map(|value| VectorSample {
                labels: series.labels.clone(),
                time_ms,
                value,
            }));
        }
        let value = match (instant, samples.as_slice()) {
            (
                QueryValue::Scalar { .. },
                [
                    VectorSample {
                        value: SampleValue::Float(value),
                        ..
                    },
                ],
            ) => QueryValue::Scalar {
                time_ms,
                value: *value,
            },
            (QueryValue::Scalar { .. }, _) => return Err("the scalar has no value".to_owned()),
            _ => QueryValue::Vector(samples),
        };
        // The series of a range query are sorted by labels, so the order is not checked.
        let unordered = Expectation {
            ordered: false,
            ..self.eval.expected.clone()
        };
        check_value(&unordered, None, &value)
    }

    /// Runs a query and compares value and annotations; `None` if it failed as expected.
    fn check(
        &self,
        query: &str,
        time: QueryTime,
        range: Option<TimeRange>,
        pinned: Option<&PinnedQuery>,
    ) -> Result<Option<Answer>, String> {
        let expected = &self.eval.expected;
        let answer = match (self.execute(query, time), &expected.failure) {
            (Ok(_), Some(_)) => return Err("expected a failure, but got an answer".to_owned()),
            (Ok(answer), None) => answer,
            (Err(error), None) => return Err(format!("failed: {error}")),
            (Err(error), Some(pattern)) => {
                // Expected messages have no position in the query.
                let bare = match &error {
                    Error::Parse(error) => error.message.clone(),
                    error => error.to_string(),
                };
                return if pattern.matches(&bare) || pattern.matches(&error.to_string()) {
                    Ok(None)
                } else {
                    Err(format!(
                        "expected a failure with {}, but got {bare:?}",
                        pattern.describe()
                    ))
                };
            }
        };
        let as_written = |annotations: &[String]| match pinned {
            Some(pinned) => annotations
                .iter()
                .map(|annotation| pinned.original_annotation(annotation))
                .collect(),
            None => annotations.to_vec(),
        };
        check_annotations(&expected.warnings, "warning", &as_written(&answer.warnings))?;
        check_annotations(&expected.infos, "info", &as_written(&answer.infos))?;
        check_value(expected, range, &answer.value)?;
        Ok(Some(answer))
    }

    fn execute(&self, query: &str, time: QueryTime) -> Result<Answer, Error> {
        let request = Request {
            query: query.to_owned(),
            time,
            lookback_ms: None,
            limit: None,
            timeout: None,
            counts_touched: false,
            max_source_resolution: None,
            rollup_strict: false,
        };
        let never = AtomicBool::new(false);
        block_on(self.engine.execute(self.source, &request, &never))
    }
}

/// Times at which a pinned query is run again: before all data, early, now and late.
fn other_times(time_ms: i64) -> Vec<i64> {
    match time_ms {
        0 => vec![-1000, 0, 1000],
        _ => vec![
            time_ms.saturating_mul(-10),
            0,
            time_ms / 5,
            time_ms,
            time_ms.saturating_mul(10),
        ],
    }
}

/// Whether a query refers to the range or step of the request, so that it differs as a range query.
fn depends_on_range(query: &str) -> bool {
    ["start()", "end()", "range()", "step()"]
        .iter()
        .any(|call| query.contains(call))
}
