//! Windows, and how they are made: of samples, or of finer windows.

use super::aggregate::Accumulator;
use super::{Aggregate, Resolution};
use crate::is_stale_nan;

/// The sample at exactly the start of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Edge {
    #[default]
    None,
    Sample(f64),
    Stale,
}

/// What is kept of the samples of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    pub start_ms: i64,
    pub edge: Edge,
    /// The samples after the start.
    pub interior: Option<Aggregate>,
    /// A stale marker is the last thing inside, after the start.
    pub ends_stale: bool,
    /// Samples were merged into it after its own samples had gone, so their order is not known.
    pub has_late: bool,
}

impl Window {
    fn at(start_ms: i64) -> Self {
        Self {
            start_ms,
            edge: Edge::None,
            interior: None,
            ends_stale: false,
            has_late: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.edge == Edge::None && self.interior.is_none() && !self.ends_stale
    }

    /// Everything in it, edge included; the window `[w, w+ρ)`.
    pub fn all(&self) -> Option<Aggregate> {
        let Edge::Sample(value) = self.edge else {
            return self.interior;
        };
        let mut all = Aggregate::of(self.start_ms, value);
        if let Some(interior) = &self.interior {
            all.merge(interior);
        }
        Some(all)
    }
}

/// The windows of samples in time order.
pub fn roll_up(
    resolution: Resolution,
    samples: impl IntoIterator<Item = (i64, f64)>,
) -> Vec<Window> {
    let mut builder = WindowBuilder::new(resolution);
    for (timestamp_ms, value) in samples {
        builder.sample(timestamp_ms, value);
    }
    builder.finish()
}

/// The windows of finer windows in time order.
pub fn roll_up_windows<'a>(
    resolution: Resolution,
    windows: impl IntoIterator<Item = &'a Window>,
) -> Vec<Window> {
    let mut builder = WindowBuilder::new(resolution);
    for window in windows {
        builder.window(window);
    }
    builder.finish()
}

/// Makes windows of what is given in time order.
#[derive(Debug)]
pub struct WindowBuilder {
    resolution: Resolution,
    finished: Vec<Window>,
    open: Option<Window>,
    /// The interior of the open window.
    interior: Accumulator,
}

impl WindowBuilder {
    /// # Panics
    /// When the resolution is that of raw samples.
    pub fn new(resolution: Resolution) -> Self {
        assert!(!resolution.is_raw(), "raw samples have no windows");
        Self {
            resolution,
            finished: Vec::new(),
            open: None,
            interior: Accumulator::default(),
        }
    }

    pub fn sample(&mut self, timestamp_ms: i64, value: f64) {
        let is_stale = is_stale_nan(value);
        let open = self.open_at(timestamp_ms);
        if timestamp_ms == open.start_ms {
            open.edge = if is_stale {
                Edge::Stale
            } else {
                Edge::Sample(value)
            };
            return;
        }
        open.ends_stale = is_stale;
        if !is_stale {
            self.interior.push(timestamp_ms, value);
        }
    }

    /// A window of the next finer level.
    pub fn window(&mut self, finer: &Window) {
        match finer.edge {
            Edge::None => {}
            Edge::Sample(value) => self.sample(finer.start_ms, value),
            Edge::Stale => self.stale(finer.start_ms),
        }
        let open = self.open_at(finer.start_ms);
        open.has_late |= finer.has_late;
        if finer.interior.is_some() || finer.ends_stale {
            open.ends_stale = finer.ends_stale;
        }
        if let Some(interior) = &finer.interior {
            self.interior.append(interior);
        }
    }

    fn stale(&mut self, timestamp_ms: i64) {
        self.sample(timestamp_ms, f64::from_bits(crate::STALE_NAN_BITS));
    }

    pub fn finish(mut self) -> Vec<Window> {
        self.close();
        self.finished
    }

    fn open_at(&mut self, timestamp_ms: i64) -> &mut Window {
        let start_ms = self.resolution.floor(timestamp_ms);
        if self.open.is_none_or(|open| open.start_ms != start_ms) {
            self.close();
        }
        self.open.get_or_insert_with(|| Window::at(start_ms))
    }

    fn close(&mut self) {
        let interior = self.interior.take();
        if let Some(open) = self.open.take() {
            let window = Window { interior, ..open };
            if !window.is_empty() {
                self.finished.push(window);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HOUR_MS, STALE_NAN_BITS};

    const STALE: f64 = f64::from_bits(STALE_NAN_BITS);

    #[test]
    fn the_sample_at_the_start_is_kept_apart() {
        let samples = (0..=360).map(|i| (i * 10_000, i as f64));
        let windows = roll_up(Resolution::HOUR, samples);
        let [first, second] = windows[..] else {
            panic!("{windows:?}");
        };
        assert_eq!(first.edge, Edge::Sample(0.0));
        let interior = first.interior.unwrap();
        assert_eq!((interior.numbers, interior.sum), (359, 64_620.0));
        assert_eq!((interior.first_ms, interior.first), (10_000, 1.0));
        assert_eq!((interior.last_ms, interior.last), (3_590_000, 359.0));
        assert_eq!((interior.min, interior.max), (1.0, 359.0));
        assert!((interior.m2 - 3_855_660.0).abs() < 1e-6);
        assert_eq!(
            (second.start_ms, second.edge),
            (HOUR_MS, Edge::Sample(360.0))
        );
        assert_eq!(second.interior, None);
        let all = first.all().unwrap();
        assert_eq!((all.numbers, all.sum, all.min), (360, 64_620.0, 0.0));
    }

    #[test]
    fn coarser_windows_equal_those_of_the_samples() {
        let values = [
            100, 130, 160, 10, 40, 70, 100, 130, 160, 190, 5, 35, 65, 95, 125,
        ];
        let samples = values.iter().enumerate();
        let samples: Vec<_> = samples
            .map(|(i, value)| (30_000 + i as i64 * 60_000, f64::from(*value)))
            .collect();
        let fine = roll_up(Resolution::FIVE_MINUTES, samples.iter().copied());
        let parts = |f: fn(&Aggregate) -> f64| -> Vec<f64> {
            fine.iter()
                .filter_map(|w| w.interior.as_ref().map(f))
                .collect()
        };
        assert_eq!(parts(|a| a.correction), [160.0, 0.0, 0.0]);
        assert_eq!(parts(|a| a.resets as f64), [1.0, 0.0, 0.0]);
        assert_eq!(parts(|a| a.sum), [440.0, 650.0, 325.0]);
        let quarter = Resolution::from_name("15m").unwrap();
        let coarse = roll_up_windows(quarter, &fine);
        let interior = coarse[0].interior.unwrap();
        assert_eq!((interior.numbers, interior.sum), (15, 1415.0));
        assert_eq!((interior.correction, interior.resets), (350.0, 2));
        assert_eq!((interior.min, interior.max), (5.0, 190.0));
        assert!((interior.m2 - 44_343.333_333).abs() < 1e-3);
    }

    #[test]
    fn stale_markers_are_not_samples() {
        let minute = 60_000;
        let samples = [
            (0, STALE),
            (minute, 1.0),
            (2 * minute, STALE),
            (5 * minute, 2.0),
            (6 * minute, STALE),
            (7 * minute, 3.0),
            (11 * minute, STALE),
            (15 * minute, STALE),
        ];
        let windows = roll_up(Resolution::FIVE_MINUTES, samples);
        let seen = |w: &Window| (w.edge, w.interior.map(|a| a.samples()), w.ends_stale);
        let seen: Vec<_> = windows.iter().map(seen).collect();
        assert_eq!(
            seen,
            [
                (Edge::Stale, Some(1), true),
                (Edge::Sample(2.0), Some(1), false),
                (Edge::None, None, true),
                (Edge::Stale, None, false),
            ]
        );
        let coarse = roll_up_windows(Resolution::HOUR, &windows);
        assert_eq!(coarse, roll_up(Resolution::HOUR, samples));
        assert!(coarse[0].ends_stale && coarse[0].edge == Edge::Stale);
    }
}
