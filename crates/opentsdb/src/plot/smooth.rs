//! Curves that are made of points: `smooth` of gnuplot, as far as it makes sense for series that
//! have one point at a time.

use super::thin::{Columns, Point};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Smooth {
    /// One point for each time: series are like that.
    Unique,
    /// Each value is a part of the sum of all.
    Shares,
    /// Each value is the sum of all up to it.
    Sums,
    /// Sums that end at 1.
    SharesOfSums,
    /// Natural cubic splines through the points.
    Splines,
}

impl Smooth {
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            // Points of one time are averaged or added: there is only one.
            "unique" | "frequency" => Self::Unique,
            "fnormal" => Self::Shares,
            "cumulative" => Self::Sums,
            "cnormal" => Self::SharesOfSums,
            "csplines" => Self::Splines,
            _ => {
                let known = "unique, frequency, fnormal, cumulative, cnormal or csplines";
                return Err(format!("it must be {known}"));
            }
        })
    }

    /// What is done with points before they are thinned.
    pub(super) fn prepare<'a>(
        self,
        points: impl Iterator<Item = Point> + Clone + 'a,
    ) -> Box<dyn Iterator<Item = Point> + 'a> {
        let points = points.filter(|(_, value)| !value.is_nan());
        let total = || points.clone().map(|(_, value)| value).sum::<f64>();
        let scale = match self {
            Self::Unique | Self::Splines => return Box::new(points),
            Self::Sums => 1.0,
            Self::Shares | Self::SharesOfSums => {
                Some(total()).filter(|t| *t != 0.0).map_or(0.0, f64::recip)
            }
        };
        let mut sum = 0.0;
        Box::new(points.map(move |(time, value)| {
            sum += value;
            let of = if self == Self::Shares { value } else { sum };
            (time, of * scale)
        }))
    }

    /// What is done with points after they are thinned.
    pub(super) fn finish(self, points: Vec<Point>, columns: Columns) -> Vec<Point> {
        if self == Self::Splines && points.len() > 2 {
            splines(&points, columns)
        } else {
            points
        }
    }
}

/// One point for each column, on a curve whose second derivative is continuous, and 0 at both ends.
fn splines(points: &[Point], columns: Columns) -> Vec<Point> {
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let curvatures = curvatures(points);
    let step = ((columns.end_ms - columns.start_ms) / columns.count.max(1) as i64).max(1);
    let mut curve = Vec::new();
    let mut segment = 0;
    let start = first.max(columns.start_ms.saturating_sub(step));
    let end = last.min(columns.end_ms.saturating_add(step));
    let mut time = start;
    while time <= end {
        while points[segment + 1].0 < time {
            segment += 1;
        }
        let value = on_segment(points, &curvatures, segment, time);
        // A spline through far values may leave the range of floats.
        if value.is_finite() {
            curve.push((time, value));
        }
        if time == end {
            break;
        }
        time = time.saturating_add(step).min(end);
    }
    curve
}

fn on_segment(points: &[Point], curvatures: &[f64], segment: usize, time: i64) -> f64 {
    let ((t0, y0), (t1, y1)) = (points[segment], points[segment + 1]);
    let h = (t1 - t0) as f64;
    let (a, b) = ((t1 - time) as f64 / h, (time - t0) as f64 / h);
    let bend = (a * a * a - a) * curvatures[segment] + (b * b * b - b) * curvatures[segment + 1];
    a * y0 + b * y1 + bend * h * h / 6.0
}

/// The second derivative at each point.
fn curvatures(points: &[Point]) -> Vec<f64> {
    let n = points.len();
    let (mut upper, mut right) = (vec![0.0; n], vec![0.0; n]);
    for i in 1..n - 1 {
        let ([(t0, y0), (t1, y1), (t2, y2)], h) = (
            [points[i - 1], points[i], points[i + 1]],
            (points[i + 1].0 - points[i - 1].0) as f64,
        );
        let share = (t1 - t0) as f64 / h;
        let pivot = share * upper[i - 1] + 2.0;
        upper[i] = (share - 1.0) / pivot;
        let bend = (y2 - y1) / (t2 - t1) as f64 - (y1 - y0) / (t1 - t0) as f64;
        right[i] = (6.0 * bend / h - share * right[i - 1]) / pivot;
    }
    let mut found = vec![0.0; n];
    for i in (1..n - 1).rev() {
        found[i] = upper[i] * found[i + 1] + right[i];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(smooth: Smooth) -> Vec<f64> {
        let points = [(1, 1.0), (2, f64::NAN), (3, 3.0), (4, 4.0)];
        let points = smooth.prepare(points.into_iter());
        points.map(|point| point.1).collect()
    }

    #[test]
    fn sums_and_shares() {
        assert_eq!(prepared(Smooth::Unique), [1.0, 3.0, 4.0]);
        assert_eq!(prepared(Smooth::Sums), [1.0, 4.0, 8.0]);
        assert_eq!(prepared(Smooth::Shares), [0.125, 0.375, 0.5]);
        assert_eq!(prepared(Smooth::SharesOfSums), [0.125, 0.5, 1.0]);
    }

    #[test]
    fn splines_go_through_points() {
        let columns = Columns {
            start_ms: 0,
            end_ms: 300,
            count: 300,
        };
        let points = vec![(0, 0.0), (100, 1.0), (200, 0.0), (300, 5.0)];
        let curve = Smooth::Splines.finish(points.clone(), columns);
        assert_eq!(curve.len(), 301);
        for (time, value) in points {
            let found = curve.iter().find(|point| point.0 == time).unwrap();
            assert!((found.1 - value).abs() < 1e-9, "{time}: {}", found.1);
        }
        // A straight line stays one.
        let line = Smooth::Splines.finish(vec![(0, 0.0), (60, 60.0), (300, 300.0)], columns);
        assert!(
            line.iter()
                .all(|(time, value)| (*time as f64 - value).abs() < 1e-9)
        );
        let two = vec![(0, 1.0), (300, 2.0)];
        assert_eq!(Smooth::Splines.finish(two.clone(), columns), two);
    }
}
