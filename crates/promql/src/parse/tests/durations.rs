//! Durations resolve as in Prometheus.

use super::super::{Duration, DurationError, Expr, parse};

fn range(duration: &str) -> Duration {
    match parse(&format!("foo[{duration}]")) {
        Ok(Expr::Matrix(matrix)) => matrix.range,
        other => panic!("{duration}: {other:?}"),
    }
}

fn offset(duration: &str) -> Duration {
    match parse(&format!("foo offset {duration}")) {
        Ok(Expr::Vector(vector)) => vector.time.offset,
        other => panic!("{duration}: {other:?}"),
    }
}

const STEP: i64 = 15_000;
const RANGE: i64 = 600_000;

#[test]
fn of_ranges() {
    let cases = [
        ("5m", 300_000),
        ("1800", 1_800_000),
        ("2m*(10+5)", 1_800_000),
        ("24m+((1.5*2m)+2m)", 1_740_000),
        ("-5m+35m", 1_800_000),
        ("1h/2", 1_800_000),
        ("1h30m % 1h", 1_800_000),
        ("30m1s-30m1s % 1m", 1_800_000),
        ("((((8 - 2) / 3) * 7s) % 4) + 8000ms", 10_000),
        ("step()", STEP),
        ("step()+1ms", STEP + 1),
        ("range()*2", RANGE * 2),
        ("5m+range()", RANGE + 300_000),
        ("min_of(step(), 1s)", 1_000),
        ("max_of(step(), 1s)", STEP),
        ("2^3^2", 512_000),
        ("-(-5m)", 300_000),
        ("0.5", 500),
    ];
    for (text, expected) in cases {
        assert_eq!(
            range(text).resolve_positive(STEP, RANGE),
            Ok(expected),
            "{text}"
        );
    }
}

#[test]
fn of_offsets() {
    let cases = [
        ("5m", 300_000),
        ("-5m", -300_000),
        ("+5m", 300_000),
        ("step()", STEP),
        ("-range()", -RANGE),
        ("-(20*(1+2))", -60_000),
        ("(-2 ^ 2)", -4_000),
        ("-min_of(step(), 1s)", -1_000),
        ("(STEP()/10)", 1_500),
    ];
    for (text, expected) in cases {
        assert_eq!(offset(text).resolve(STEP, RANGE), Ok(expected), "{text}");
    }
}

#[test]
fn that_have_no_value() {
    let message = |result: Result<i64, DurationError>| result.unwrap_err().to_string();
    assert_eq!(
        message(range("1m-2m").resolve_positive(STEP, RANGE)),
        "4:9: duration must be greater than 0"
    );
    assert_eq!(
        message(range("step()").resolve_positive(0, 0)),
        "4:10: duration must be greater than 0"
    );
    assert_eq!(
        message(range("1m/step()").resolve_positive(0, 0)),
        "4:13: division by zero"
    );
    assert_eq!(
        message(range("1m%step()").resolve_positive(0, 0)),
        "4:13: modulo by zero"
    );
    assert_eq!(
        message(offset("(10^100)").resolve(0, 0)),
        "12:18: duration is out of range"
    );
    assert_eq!(
        message(range("(-1)^0.5").resolve_positive(0, 0)),
        "5:12: duration is out of range"
    );
}
