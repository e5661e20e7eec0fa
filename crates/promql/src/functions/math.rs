//! Functions of floats: rounding, logarithms, angles, clamping.
//!
//! Holds always: histograms and the metric name are dropped, absent floats stay absent.

use super::{CallContext, MapFunction};
use crate::exec::{ABSENT, Row, is_absent};
use crate::go_math;

pub(super) fn function(name: &str) -> Option<MapFunction> {
    let function: MapFunction = match name {
        "abs" => |_, row| each_float(row, f64::abs),
        "acos" => |_, row| each_float(row, f64::acos),
        "acosh" => |_, row| each_float(row, f64::acosh),
        "asin" => |_, row| each_float(row, f64::asin),
        "asinh" => |_, row| each_float(row, f64::asinh),
        "atan" => |_, row| each_float(row, f64::atan),
        "atanh" => |_, row| each_float(row, f64::atanh),
        "ceil" => |_, row| each_float(row, f64::ceil),
        "clamp" => clamp,
        "clamp_max" => clamp_max,
        "clamp_min" => clamp_min,
        "cos" => |_, row| each_float(row, f64::cos),
        "cosh" => |_, row| each_float(row, cosh),
        "deg" => |_, row| each_float(row, |v| v * 180.0 / std::f64::consts::PI),
        "exp" => |_, row| each_float(row, go_math::exp),
        "floor" => |_, row| each_float(row, f64::floor),
        "ln" => |_, row| each_float(row, go_math::ln),
        "log10" => |_, row| each_float(row, go_math::log10),
        "log2" => |_, row| each_float(row, go_math::log2),
        "rad" => |_, row| each_float(row, |v| v * std::f64::consts::PI / 180.0),
        "round" => round,
        "sgn" => |_, row| each_float(row, sign),
        "sin" => |_, row| each_float(row, f64::sin),
        "sinh" => |_, row| each_float(row, sinh),
        "sqrt" => |_, row| each_float(row, f64::sqrt),
        "tan" => |_, row| each_float(row, f64::tan),
        "tanh" => |_, row| each_float(row, f64::tanh),
        _ => return None,
    };
    Some(function)
}

/// Applies `f` to every float of a row.
pub(super) fn each_float(row: Row, f: impl Fn(f64) -> f64) -> Row {
    each_float_with_step(row, |_, value| f(value))
}

/// Applies `f` to every float of a row and its step; `f` returns [`ABSENT`] to drop it.
fn each_float_with_step(mut row: Row, f: impl Fn(usize, f64) -> f64) -> Row {
    row.drop_name = true;
    row.values.histograms = Vec::new();
    for (step, value) in row.values.floats.iter_mut().enumerate() {
        // Computing first and selecting after leaves a loop without branches for simple functions.
        let computed = f(step, *value);
        *value = if is_absent(*value) { *value } else { computed };
    }
    row
}

/// −1, 1, or the value itself if it has no sign (0, −0, NaN).
fn sign(value: f64) -> f64 {
    if value < 0.0 {
        -1.0
    } else if value > 0.0 {
        1.0
    } else {
        value
    }
}

/// Beyond this Go halves the exponential, which overflows a little before the true value does.
const HALF_EXPONENTIAL: f64 = 21.0;

fn cosh(value: f64) -> f64 {
    if value.abs() > HALF_EXPONENTIAL {
        go_math::exp(value.abs()) * 0.5
    } else {
        value.cosh()
    }
}

fn sinh(value: f64) -> f64 {
    if value.abs() > HALF_EXPONENTIAL {
        (go_math::exp(value.abs()) * 0.5).copysign(value)
    } else {
        value.sinh()
    }
}

/// `round(v, to_nearest = 1)`: ties go up.
fn round(ctx: &CallContext<'_>, row: Row) -> Row {
    // Dividing by the inverse rounds less: 0.1 has no exact float, 10 has.
    let round_to = |value: f64, inverse: f64| (value * inverse + 0.5).floor() / inverse;
    if ctx.args.len() < 2 {
        return each_float(row, |value| round_to(value, 1.0));
    }
    each_float_with_step(row, |step, value| {
        round_to(value, 1.0 / ctx.scalar(1, step))
    })
}

fn clamp(ctx: &CallContext<'_>, row: Row) -> Row {
    each_float_with_step(row, |step, value| {
        between(value, ctx.scalar(1, step), ctx.scalar(2, step))
    })
}

fn clamp_min(ctx: &CallContext<'_>, row: Row) -> Row {
    each_float_with_step(row, |step, value| {
        between(value, ctx.scalar(1, step), f64::INFINITY)
    })
}

fn clamp_max(ctx: &CallContext<'_>, row: Row) -> Row {
    each_float_with_step(row, |step, value| {
        between(value, f64::NEG_INFINITY, ctx.scalar(1, step))
    })
}

/// The value clamped to its limits; absent if the limits exclude each other.
fn between(value: f64, min: f64, max: f64) -> f64 {
    if max < min {
        return ABSENT;
    }
    go_math::max(min, go_math::min(max, value))
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::super::testing::{Setup, check_floats, same};
    use super::*;
    use crate::exec::ScalarColumn;

    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;

    fn apply(name: &str, scalars: &[f64], values: &[f64]) -> Vec<f64> {
        let setup = Setup::new(values.len()).series().scalars(scalars);
        let row = setup.map(name, Setup::row("m{a=\"1\"}", values));
        assert!(row.drop_name);
        row.values.floats
    }

    #[test]
    fn values_of_the_scripts() {
        let exp = [INF, 1.0f64.exp(), (-1.0f64).exp(), 0.0];
        check_floats(&apply("exp", &[], &[INF, 1.0, -1.0, -INF]), &exp);
        let ln = [INF, NAN, NAN, -INF, 10.0f64.ln()];
        check_floats(&apply("ln", &[], &[INF, -INF, -1.0, 0.0, 10.0]), &ln);
        check_floats(&apply("log2", &[], &[8.0, 0.0, NAN]), &[3.0, -INF, NAN]);
        check_floats(&apply("log10", &[], &[1000.0, INF]), &[3.0, INF]);
        check_floats(
            &apply("sgn", &[], &[-5.0, -0.0, 0.0, 5.0, NAN]),
            &[-1.0, -0.0, 0.0, 1.0, NAN],
        );
        check_floats(&apply("deg", &[], &[PI, 2.0 * PI]), &[180.0, 360.0]);
        check_floats(&apply("rad", &[], &[180.0]), &[PI]);
        check_floats(&apply("sqrt", &[], &[9.0, -1.0]), &[3.0, NAN]);
        check_floats(
            &apply("ceil", &[], &[0.004, -0.004, 5.6]),
            &[1.0, -0.0, 6.0],
        );
        check_floats(
            &apply("floor", &[], &[0.004, -0.004, 5.6]),
            &[0.0, -1.0, 5.0],
        );
        check_floats(&apply("abs", &[], &[-2.5, -INF]), &[2.5, INF]);
        // The true value is just below the largest float; Prometheus says infinity.
        check_floats(&apply("cosh", &[], &[710.0, -710.0, NAN]), &[INF, INF, NAN]);
        check_floats(
            &apply("sinh", &[], &[710.0, -710.0, NAN]),
            &[INF, -INF, NAN],
        );
    }

    #[test]
    fn round_to_the_nearest_multiple() {
        let values = [0.004, -0.004, 0.5, -0.5, 5.2, -5.2, 6.5, -6.5];
        let whole = [0.0, 0.0, 1.0, 0.0, 5.0, -5.0, 7.0, -6.0];
        check_floats(&apply("round", &[], &values), &whole);
        check_floats(&apply("round", &[1.0], &values), &whole);
        let fives = [0.0, 0.0, 0.5, -0.5, 5.2, -5.2, 6.5, -6.5];
        check_floats(&apply("round", &[0.1], &values), &fives);
        check_floats(
            &apply("round", &[5.0], &[5.2, -5.2, 7.5]),
            &[5.0, -5.0, 10.0],
        );
        check_floats(&apply("round", &[INF], &[5.2]), &[NAN]);
    }

    #[test]
    fn limits() {
        let values = [-50.0, 0.0, 100.0, NAN, INF];
        check_floats(
            &apply("clamp", &[-25.0, 75.0], &values),
            &[-25.0, 0.0, 75.0, NAN, 75.0],
        );
        check_floats(
            &apply("clamp_min", &[-25.0], &values),
            &[-25.0, 0.0, 100.0, NAN, INF],
        );
        check_floats(
            &apply("clamp_max", &[75.0], &values),
            &[-50.0, 0.0, 75.0, NAN, 75.0],
        );
        check_floats(&apply("clamp", &[5.0, -5.0], &values), &[ABSENT; 5]);
        check_floats(&apply("clamp", &[-0.0, 0.0], &[-0.0, 0.0]), &[-0.0, 0.0]);
        check_floats(&apply("clamp_min", &[NAN], &[1.0]), &[NAN]);
        check_floats(&apply("clamp", &[0.0, NAN], &[1.0]), &[NAN]);
    }

    #[test]
    fn limits_of_each_step() {
        let setup = Setup::new(3)
            .series()
            .scalar(ScalarColumn::PerStep(vec![1.0, 5.0, 9.0]))
            .scalar(ScalarColumn::Constant(7.0));
        let row = setup.map("clamp", Setup::row("m", &[3.0, 3.0, 3.0]));
        check_floats(&row.values.floats, &[3.0, 5.0, ABSENT]);
    }

    #[test]
    fn nothing_stays_nothing_and_histograms_go() {
        for name in ["abs", "exp", "round", "sgn", "cosh"] {
            let setup = Setup::new(3).series();
            let mut row = Setup::row("m", &[1.0, ABSENT, ABSENT]);
            row.values.set_histogram(2, Default::default());
            let row = setup.map(name, row);
            assert!(!row.values.has_histograms(), "{name}");
            assert!(!is_absent(row.values.floats[0]), "{name}");
            check_floats(&row.values.floats[1..], &[ABSENT, ABSENT]);
        }
    }

    #[test]
    fn angles_and_their_inverses() {
        for name in ["sin", "cos", "tan", "sinh", "cosh", "tanh"] {
            let there = apply(name, &[], &[0.5]);
            let back = apply(&format!("a{name}"), &[], &there);
            assert!((back[0] - 0.5).abs() < 1e-12, "{name}");
        }
        assert!(same(apply("asin", &[], &[2.0])[0], NAN));
    }
}
