//! Results as JSON.

use std::fmt::Write as _;

use icecore_wire::opentsdb::number::Number;

use super::annotations::push_list;
use super::downsampler::FillPolicy;
use super::echo::push_query;
use super::group::ResultSeries;
use super::request::{PlannedSubQuery, QueryRequest};
use super::rolled::RolledReport;
use super::table::RAW;
use super::tsuids::tsuids;
use super::window::Window;
use crate::annotation::Annotation;
use crate::error::Error;
use crate::java::push_double;
use crate::json::push_text;
use crate::tsd::Tsd;

/// Writes the answer to one query, series by series.
pub(crate) struct AnswerWriter<'a> {
    tsd: &'a Tsd,
    request: &'a QueryRequest,
    window: Window,
    /// Points are lists of two instead of members of an object.
    arrays: bool,
    globals: Option<Vec<Annotation>>,
    out: String,
    points_written: u64,
    /// What all series were made of.
    levels: RolledReport,
}

impl<'a> AnswerWriter<'a> {
    pub(crate) fn new(
        tsd: &'a Tsd,
        request: &'a QueryRequest,
        window: Window,
        arrays: bool,
        globals: Option<Vec<Annotation>>,
    ) -> Self {
        Self {
            tsd,
            request,
            window,
            arrays,
            globals,
            out: "[".into(),
            points_written: 0,
            levels: RolledReport::default(),
        }
    }

    pub(crate) fn push(
        &mut self,
        series: &ResultSeries,
        planned: &PlannedSubQuery,
        index: usize,
    ) -> Result<(), Error> {
        self.separate();
        let out = &mut self.out;
        out.push_str("{\"metric\":");
        push_text(out, &series.metric);
        out.push_str(",\"tags\":{");
        for (i, (name, value)) in series.tags.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { "," });
            push_text(out, name);
            out.push(':');
            push_text(out, value);
        }
        out.push_str("},\"aggregateTags\":[");
        push_texts(out, &series.aggregate_tags);
        out.push(']');
        if self.request.show_query {
            out.push_str(",\"query\":");
            let table = series.rollup.as_deref().unwrap_or(RAW);
            push_query(out, &planned.asked, index, table, &self.tsd.uids);
        }
        if self.request.show_tsuids {
            let widths = self.tsd.config.uid_widths;
            let tsuids = tsuids(self.tsd, &series.members);
            let texts: Vec<String> = tsuids.iter().map(|t| t.to_hex(widths)).collect();
            out.push_str(",\"tsuids\":[");
            push_texts(out, &texts);
            out.push(']');
        }
        let widths = self.tsd.config.uid_widths;
        if let Some(notes) = &series.annotations {
            out.push_str(",\"annotations\":");
            push_list(out, notes, widths);
        }
        if let Some(notes) = &self.globals {
            out.push_str(",\"globalAnnotations\":");
            push_list(out, notes, widths);
        }
        let written = self.push_points(series, planned)?;
        if self.request.show_stats {
            let stats = format!("{{\"queryIndex\":{index},\"emittedDPs\":{written}");
            let _ = write!(self.out, ",\"stats\":{stats}");
            if let Some(levels) = &series.levels {
                levels.push_json(&mut self.out, self.request.ms_resolution);
            }
            self.out.push('}');
        }
        if let Some(levels) = &series.levels {
            self.levels.merge(levels);
        }
        self.points_written += written;
        self.out.push('}');
        Ok(())
    }

    /// The answer, and what there is to say about it.
    pub(crate) fn finish(mut self, elapsed_ms: i64) -> (String, Option<String>) {
        if self.request.show_summary {
            self.separate();
            let written = self.points_written;
            let _ = write!(
                self.out,
                "{{\"statsSummary\":{{\"emittedDPs\":{written},\"totalTime\":{elapsed_ms}.0"
            );
            let ms_resolution = self.request.ms_resolution;
            self.levels.push_json(&mut self.out, ms_resolution);
            self.out.push_str("}}");
        }
        self.out.push(']');
        (self.out, self.levels.warning())
    }

    fn separate(&mut self) {
        if self.out.len() > 1 {
            self.out.push(',');
        }
    }

    /// The points within the window; the result is how many they are.
    fn push_points(
        &mut self,
        series: &ResultSeries,
        planned: &PlannedSubQuery,
    ) -> Result<u64, Error> {
        let fill = planned.downsampler.as_ref().map(|d| d.fill);
        let missing = if fill == Some(FillPolicy::Null) {
            "null"
        } else {
            "\"NaN\""
        };
        let (open, close) = if self.arrays { ('[', ']') } else { ('{', '}') };
        let out = &mut self.out;
        out.push_str(",\"dps\":");
        out.push(open);
        let mut written = 0;
        let points = series.points.times.iter().zip(&series.points.values);
        for (time, value) in points.filter(|(time, _)| self.window.contains(**time)) {
            out.push_str(if written == 0 { "" } else { "," });
            let time = if self.request.ms_resolution {
                *time
            } else {
                time / 1000
            };
            let _ = if self.arrays {
                write!(out, "[{time},")
            } else {
                write!(out, "\"{time}\":")
            };
            match *value {
                Number::Integer(value) => {
                    let _ = write!(out, "{value}");
                }
                Number::Float(value) if value.is_nan() => out.push_str(missing),
                Number::Float(value) if value.is_infinite() => {
                    let mut message = String::from("Got Infinity: ");
                    push_double(&mut message, value);
                    return Err(Error::bad_request(message.clone()).with_details(message));
                }
                Number::Float(value) => push_double(out, value),
            }
            if self.arrays {
                out.push(']');
            }
            written += 1;
        }
        out.push(close);
        Ok(written)
    }
}

fn push_texts(out: &mut String, texts: &[String]) {
    for (i, text) in texts.iter().enumerate() {
        out.push_str(if i == 0 { "" } else { "," });
        push_text(out, text);
    }
}
