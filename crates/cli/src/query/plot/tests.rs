use super::*;
use crate::query::answer::Point;

fn series(name: &str, points: &[(i64, f64)]) -> Series {
    let points = points.iter().map(|(time_ms, number)| Point {
        time_ms: *time_ms,
        text: number.to_string(),
        number: Some(*number),
    });
    Series {
        labels: Vec::new(),
        metric: name.into(),
        points: points.collect(),
    }
}

const T0: i64 = 1_700_000_000_000 / 3_600_000 * 3_600_000;

fn area(width: usize, height: usize) -> Area {
    Area {
        start_ms: T0,
        end_ms: T0 + 3_600_000,
        step_ms: 60_000,
        width,
        height,
    }
}

fn rising() -> Vec<(i64, f64)> {
    (0..=60).map(|i| (T0 + i * 60_000, i as f64)).collect()
}

#[test]
fn a_rising_line_between_its_axes() {
    let drawn = draw(&[series("up", &rising())], &area(40, 5), false);
    assert_eq!(
        drawn,
        [
            "60 ┤                             ⣀⣀⡠⠤⠒⠒⠉",
            "   │                      ⣀⡠⠤⠔⠒⠉⠉",
            "   │              ⣀⣀⠤⠤⠔⠒⠉⠉",
            "   │       ⣀⣀⠤⠔⠒⠊⠉",
            " 0 ┤⣀⠤⠤⠒⠊⠉⠉",
            "   └┬────────┬────────┬───────┬────────┬",
            "    22:00    22:15    22:30   22:45",
            "⣿ up  min 0  max 60  last 60",
        ]
    );
}

#[test]
fn several_series_are_told_apart_by_letters_or_colours() {
    let low: Vec<_> = rising().iter().map(|(t, _)| (*t, 0.0)).collect();
    let all = [series("high", &rising()), series("low", &low)];
    let plain = draw(&all, &area(60, 8), false).join("\n");
    assert!(plain.contains("aaa") && plain.contains("bbb"), "{plain}");
    assert!(
        plain.contains("a high  min 0") && plain.contains("b low"),
        "{plain}"
    );
    let coloured = draw(&all, &area(60, 8), true).join("\n");
    assert!(coloured.contains("\x1b[32m⣿\x1b[0m high"), "{coloured}");
    assert!(coloured.contains("\x1b[33m⣿\x1b[0m low"), "{coloured}");
    let many: Vec<Series> = (0..30).map(|_| series("x", &rising())).collect();
    let drawn = draw(&many, &area(60, 8), false);
    assert_eq!(
        drawn.last().unwrap(),
        "… and 4 more series that are not drawn"
    );
}

#[test]
fn gaps_stay_open_and_nothing_is_no_plot() {
    let mut points = rising();
    points.retain(|(t, _)| (*t - T0) / 60_000 < 10 || (*t - T0) / 60_000 > 50);
    points[3].1 = f64::NAN;
    let drawn = draw(&[series("x", &points)], &area(70, 10), false);
    let middle: String = drawn[..10]
        .iter()
        .map(|l| l.chars().skip(30).take(10).collect::<String>())
        .collect();
    assert!(middle.trim().is_empty(), "{drawn:#?}");
    for points in [&[][..], &[(T0, f64::NAN)], &[(T0, f64::INFINITY)]] {
        let drawn = draw(&[series("x", points)], &area(70, 10), false);
        assert!(drawn[0].contains("nothing to draw"), "{drawn:?}");
    }
}

#[test]
fn any_numbers_and_any_size_can_be_drawn() {
    for numbers in [
        [1.0, 1.0],
        [f64::MAX, f64::MIN],
        [5e-324, 0.0],
        [-1e9, 1e-9],
    ] {
        for (width, height) in [(0, 0), (1, 500), (100_000, 3), (80, 20)] {
            let points = [(T0, numbers[0]), (T0 + 60_000, numbers[1])];
            let asked = Area {
                width: self::width(Some(width)),
                ..area(0, height)
            };
            let drawn = draw(&[series("x", &points)], &asked, false);
            assert!(
                drawn
                    .iter()
                    .all(|line| line.chars().count() <= asked.width.max(60)),
                "{drawn:#?}"
            );
        }
    }
    let moment = Area {
        end_ms: T0,
        ..area(80, 20)
    };
    assert!(draw(&[series("x", &[(T0, 1.0)])], &moment, false).len() > 20);
}

#[test]
fn numbers_are_short() {
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (1234.5, "1234"),
        (12_345.0, "12.35k"),
        (0.25, "0.25"),
        (1e9, "1G"),
        (-2.5e6, "-2.5M"),
        (1e15, "1.00e15"),
        (1e-5, "1.00e-5"),
        (0.001, "0.001"),
        (99.99, "99.99"),
    ] {
        assert_eq!(short_number(value), text);
    }
}

#[test]
fn times_are_as_long_as_the_range_needs() {
    let labels = |range_ms: i64| TimeAxis::new(T0, T0 + range_ms, 60).lines().1;
    assert!(labels(60_000).starts_with("22:00:00"), "{}", labels(60_000));
    assert!(
        labels(3_600_000).starts_with("22:00 "),
        "{}",
        labels(3_600_000)
    );
    assert!(
        labels(2 * 86_400_000).contains("11-15 00:00"),
        "{}",
        labels(2 * 86_400_000)
    );
    assert!(
        labels(90 * 86_400_000).contains("2023-11-"),
        "{}",
        labels(90 * 86_400_000)
    );
}
