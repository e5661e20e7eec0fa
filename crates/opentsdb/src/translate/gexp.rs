//! Functions of `/api/query/gexp`.

use icecore_model::format_duration_ms;

use super::condition::{Condition, add};
use super::interval::Bucket;
use super::options::QueryTime;
use super::promql::{Vector, seconds};
use super::refusal::{Refusal, check_length};
use super::sub_query::{Built, Surroundings, build};
use crate::gexp::{AverageWindow, Call, Function, Input, scale_factor, shift_ms, top_n};
use crate::time::TIME_MS_MAX;

/// The expression of a call, and the name that it gives to series.
pub(super) fn build_call(
    text: &str,
    around: &Surroundings<'_>,
) -> Result<(Built, Option<String>), Refusal> {
    let call = Call::parse(text)?;
    let legend = match call.function {
        Function::Alias => Some(call.params.join(",")),
        _ => None,
    };
    let built = applied(&call, around)?;
    let legend = legend.map(|template| legend_of(&template, built.keys.as_deref()));
    Ok((built, legend))
}

fn applied(call: &Call, around: &Surroundings<'_>) -> Result<Built, Refusal> {
    let mut around = around.clone();
    if call.function == Function::TimeShift {
        around.shift_ms = around.shift_ms.saturating_add(shift_ms(&call.params)?);
        if around.shift_ms > TIME_MS_MAX {
            return Err(Refusal::new(
                "points are shifted by more time than there is",
            ));
        }
    }
    let inputs = call.inputs.iter().map(|input| match input {
        Input::Query(query) => build(query, &around),
        Input::Call(call) => applied(call, &around),
    });
    let inputs: Vec<Built> = inputs.collect::<Result<_, _>>()?;
    let param = call.params.first().map(String::as_str);
    let one = |inputs: Vec<Built>| match <[Built; 1]>::try_from(inputs) {
        Ok([input]) => Ok(input),
        Err(_) => Err(Refusal::new("a function of one set of series has several")),
    };
    match call.function {
        Function::Sum => combined(inputs, '+'),
        Function::Difference => combined(inputs, '-'),
        Function::Multiply => combined(inputs, '*'),
        Function::Divide => combined(inputs, '/'),
        Function::TimeShift => one(inputs),
        Function::Scale => {
            let factor = scale_factor(param)?;
            let scale = |v: &Vector| Vector::binary(format!("{} * {factor}", v.operand()));
            Ok(mapped(one(inputs)?, scale))
        }
        // OpenTSDB makes values positive where it gives them a name.
        Function::Absolute | Function::Alias => Ok(mapped(one(inputs)?, |v| v.call("abs"))),
        Function::MovingAverage => averaged(one(inputs)?, AverageWindow::parse(param)?),
        Function::HighestCurrent => highest(one(inputs)?, "last", top_n(param)?, around.time),
        Function::HighestMax => highest(one(inputs)?, "max", top_n(param)?, around.time),
    }
}

fn mapped(mut built: Built, function: impl Fn(&Vector) -> Vector) -> Built {
    built.vector = function(&built.vector);
    built
}

/// Series that have equal tags, from the left to the right; one that is missing is 0.
fn combined(inputs: Vec<Built>, operator: char) -> Result<Built, Refusal> {
    if !(2..=26).contains(&inputs.len()) {
        let count = inputs.len();
        let reason = format!("OpenTSDB refuses it: Must have 2 to 26 series, got {count} instead");
        return Err(Refusal(reason));
    }
    let mut inputs = inputs.into_iter();
    let first = inputs.next();
    let first = first.ok_or_else(|| Refusal::new("there are no series"))?;
    let mut found = inputs.try_fold(first, |left, right| joined(left, &right, operator))?;
    if found.keys.is_some() {
        add(&mut found.conditions, [Condition::SameTags]);
    }
    // A value that is not a number counts as 0.
    if found.has_nan {
        add(&mut found.conditions, [Condition::ValuesAtAllTimes]);
    }
    Ok(found)
}

fn joined(mut left: Built, right: &Built, operator: char) -> Result<Built, Refusal> {
    check_alike(&left, right)?;
    let (a, b) = (left.vector.operand(), right.vector.operand());
    check_length(2 * (a.len() + b.len()))?;
    left.vector = Vector::binary(match operator {
        '+' => format!("{a} + {b} or {a} or {b}"),
        '-' => format!("{a} - {b} or {a} or -{b}"),
        '*' => format!("{a} * {b} or 0 * {a} or 0 * {b}"),
        // What cannot be divided is 0.
        _ => format!("{a} / ({b} != 0) or 0 * {a} or 0 * {b}"),
    });
    merge(&mut left, right);
    Ok(left)
}

/// Expressions of which one is to be made need series with the same labels at the same times.
pub(super) fn check_alike(left: &Built, right: &Built) -> Result<(), Refusal> {
    let sorted = |built: &Built| {
        let mut keys = built.keys.clone();
        keys.iter_mut().for_each(|keys| keys.sort_unstable());
        keys
    };
    if sorted(left) != sorted(right) {
        return Err(Refusal::new("its series are not grouped by the same tags"));
    }
    if left.bucket != right.bucket {
        return Err(Refusal::new("its series do not have the same interval"));
    }
    Ok(())
}

/// What is known of one expression holds for both.
pub(super) fn merge(left: &mut Built, right: &Built) {
    add(&mut left.conditions, right.conditions.iter().cloned());
    for note in &right.notes {
        if !left.notes.contains(note) {
            left.notes.push(note.clone());
        }
    }
    left.has_nan |= right.has_nan;
    if let (Some(left), Some(right)) = (&mut left.steps.range_ms, right.steps.range_ms) {
        *left = (left.0.max(right.0), left.1.min(right.1));
    }
}

fn averaged(mut built: Built, window: AverageWindow) -> Result<Built, Refusal> {
    let interval_ms = fixed_interval(&built, "a moving average")?;
    let length_ms = match window {
        AverageWindow::Points(count) => {
            add(&mut built.conditions, [Condition::ValuesAtAllTimes]);
            i64::try_from(count)
                .ok()
                .and_then(|count| count.checked_mul(interval_ms))
        }
        AverageWindow::Time(length_ms) => Some(length_ms),
    };
    let length_ms = length_ms.ok_or_else(|| Refusal::new("the average is over too long a time"))?;
    let points = match window {
        AverageWindow::Points(count) => count as u64,
        AverageWindow::Time(_) => (length_ms / interval_ms).unsigned_abs() + 2,
    };
    if points > 1 {
        add(&mut built.conditions, [Condition::FromPoint(points)]);
    }
    let range = format!(
        "[{}:{}]",
        format_duration_ms(length_ms),
        format_duration_ms(interval_ms)
    );
    let vector = built.vector.operand();
    built.vector = Vector::atom(format!("avg_over_time({vector}{range})"));
    Ok(built)
}

/// The series that are highest over the whole time, as OpenTSDB picks them.
fn highest(
    mut built: Built,
    function: &str,
    count: usize,
    time: QueryTime,
) -> Result<Built, Refusal> {
    let interval_ms = fixed_interval(&built, "the choice of the highest series")?;
    let Some((start_ms, end_ms)) = built.steps.first_and_last_ms() else {
        return Err(Refusal::new(
            "OpenTSDB picks the highest series over the whole time, topk at each step: give \
             --start and --end",
        ));
    };
    let length = format_duration_ms((end_ms - start_ms).saturating_add(interval_ms));
    let at = match time {
        QueryTime::Absolute(_) => seconds(end_ms),
        _ => "end()".to_owned(),
    };
    let vector = built.vector.operand();
    check_length(2 * vector.len())?;
    let range = format!("[{length}:{}] @ {at}", format_duration_ms(interval_ms));
    built.vector = Vector::binary(format!(
        "{vector} and topk({count}, {function}_over_time({vector}{range}))"
    ));
    add(&mut built.conditions, [Condition::NoTies]);
    Ok(built)
}

fn fixed_interval(built: &Built, what: &str) -> Result<i64, Refusal> {
    match built.bucket {
        Some(Bucket::Fixed(ms)) => Ok(ms),
        _ => Err(Refusal::new(format!(
            "{what} needs a downsampler with an interval"
        ))),
    }
}

/// A name in which `@key` is the value of a tag.
fn legend_of(template: &str, keys: Option<&[String]>) -> String {
    let mut legend = template.to_owned();
    match keys {
        Some(keys) => {
            let mut keys: Vec<&String> = keys.iter().collect();
            // Longer keys first, because they may begin with shorter ones.
            keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
            for key in keys {
                legend = legend.replace(&format!("@{key}"), &format!("{{{{{key}}}}}"));
            }
        }
        None => {
            let mut parts = template.split('@');
            legend = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = part.find(|c| !is_key(c)).unwrap_or(part.len());
                let (key, rest) = part.split_at(end);
                legend.push_str(&format!("{{{{{key}}}}}{rest}"));
            }
        }
    }
    legend
}
