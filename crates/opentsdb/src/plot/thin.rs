//! Points become as many as can be told apart: of each column of pixels, the first, the lowest, the
//! highest and the last.

/// Values beyond this are drawn as if they were there, so that differences are finite.
const VALUE_MAX: f64 = 1e300;

/// A point: milliseconds and a value.
pub(super) type Point = (i64, f64);

/// The columns of a window, whose ends are included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    pub(super) count: usize,
}

/// The points of a column.
struct Extremes {
    column: i64,
    first: Point,
    lowest: Point,
    highest: Point,
    last: Point,
}

impl Columns {
    fn column_of(&self, time: i64) -> i64 {
        let length = i128::from(self.end_ms) - i128::from(self.start_ms) + 1;
        let since = i128::from(time) - i128::from(self.start_ms);
        (since * self.count as i128 / length) as i64
    }

    /// At most four points of each column, besides one before and one behind the window: lines
    /// lead there. Points are in time order; NaN is no point.
    pub(super) fn thin(&self, points: impl Iterator<Item = Point>) -> Vec<Point> {
        let mut thinned = Vec::new();
        let mut before = None;
        let mut open: Option<Extremes> = None;
        let points = points.filter(|(_, value)| !value.is_nan());
        for (time, value) in points {
            let point = (time, value.clamp(-VALUE_MAX, VALUE_MAX));
            if time < self.start_ms {
                before = Some(point);
                continue;
            }
            thinned.extend(before.take());
            if time > self.end_ms {
                thinned.extend(open.take().into_iter().flat_map(Extremes::points));
                thinned.push(point);
                break;
            }
            let column = self.column_of(time);
            match &mut open {
                Some(extremes) if extremes.column == column => extremes.add(point),
                _ => {
                    let closed = open.replace(Extremes::new(column, point));
                    thinned.extend(closed.into_iter().flat_map(Extremes::points));
                }
            }
        }
        thinned.extend(open.into_iter().flat_map(Extremes::points));
        thinned
    }
}

impl Extremes {
    fn new(column: i64, point: Point) -> Self {
        Self {
            column,
            first: point,
            lowest: point,
            highest: point,
            last: point,
        }
    }

    fn add(&mut self, point: Point) {
        if point.1 < self.lowest.1 {
            self.lowest = point;
        }
        if point.1 > self.highest.1 {
            self.highest = point;
        }
        self.last = point;
    }

    fn points(self) -> impl Iterator<Item = Point> {
        let mut points = vec![self.first, self.lowest, self.highest, self.last];
        points.sort_by_key(|point| point.0);
        points.dedup_by_key(|point| point.0);
        points.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: Columns = Columns {
        start_ms: 1_000,
        end_ms: 1_999,
        count: 10,
    };

    #[test]
    fn peaks_stay() {
        let value = |time: i64| {
            if time == 1_555 {
                1e6
            } else {
                (time % 7) as f64
            }
        };
        let points = (0..3_000).map(|time| (time, value(time)));
        let thinned = COLUMNS.thin(points);
        assert!(thinned.len() <= 4 * 10 + 2);
        assert!(thinned.contains(&(1_555, 1e6)));
        assert_eq!(thinned.first(), Some(&(999, 5.0)));
        assert_eq!(thinned.last(), Some(&(2_000, 5.0)));
        assert!(thinned.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(COLUMNS.thin([(5, 1.0)].into_iter()), []);
        assert_eq!(COLUMNS.thin([(5, 1.0), (9_000, 2.0)].into_iter()).len(), 2);
        assert_eq!(COLUMNS.thin([(1_000, f64::NAN)].into_iter()), []);
        let huge = COLUMNS.thin([(1_000, f64::MAX), (1_001, -f64::MAX)].into_iter());
        assert_eq!(huge, [(1_000, 1e300), (1_001, -1e300)]);
    }

    proptest! {
        /// Few points are all kept, and thinning twice is the same as thinning once.
        #[test]
        fn thinning_is_stable(times in prop::collection::btree_set(0i64..3_000, 0..200)) {
            let value = |time: i64| ((time * 7919) % 1_000) as f64;
            let points: Vec<Point> = times.iter().map(|time| (*time, value(*time))).collect();
            let thinned = COLUMNS.thin(points.iter().copied());
            prop_assert_eq!(COLUMNS.thin(thinned.iter().copied()), thinned.clone());
            let inside = |points: &[Point]| -> Vec<f64> {
                let within = points.iter().filter(|p| (1_000..2_000).contains(&p.0));
                within.map(|p| p.1).collect()
            };
            let (all, kept) = (inside(&points), inside(&thinned));
            let least = |values: &[f64]| values.iter().copied().fold(f64::MAX, f64::min);
            let most = |values: &[f64]| values.iter().copied().fold(f64::MIN, f64::max);
            prop_assert_eq!(least(&all), least(&kept));
            prop_assert_eq!(most(&all), most(&kept));
        }
    }
}
