//! Quantiles of histograms.

use icecore_model::event::{HistogramCell, SketchCounts};

/// The value that a share `q` of all samples does not exceed; `None` without samples. From the
/// sketch if there is one, because its error is bounded.
pub(crate) fn quantile(cell: &HistogramCell, bounds: &[f64], q: f64) -> Option<f64> {
    if cell.samples == 0 {
        return None;
    }
    match &cell.sketch {
        Some(sketch) => of_sketch(sketch, q),
        None => of_bounds(&cell.counts, bounds, q),
    }
}

/// As PromQL's `histogram_quantile`: linear within the bucket that has the rank.
fn of_bounds(counts: &[u64], bounds: &[f64], q: f64) -> Option<f64> {
    let samples: u64 = counts.iter().sum();
    let rank = q * samples as f64;
    let mut below = 0u64;
    let mut holds_rank = |count: &u64| {
        if (below + count) as f64 >= rank {
            return true;
        }
        below += count;
        false
    };
    let bucket = counts.iter().position(&mut holds_rank)?;
    let Some(upper) = bounds.get(bucket).copied() else {
        return bounds.last().copied();
    };
    if bucket == 0 && upper <= 0.0 {
        return Some(upper);
    }
    let lower = match bucket.checked_sub(1) {
        Some(before) => bounds[before],
        None => 0.0,
    };
    let count = counts[bucket];
    if count == 0 {
        return Some(lower);
    }
    let share = (rank - below as f64) / count as f64;
    Some(lower + (upper - lower) * share)
}

/// What stands for the bucket that has the sample of rank floor(q (n - 1)).
fn of_sketch(sketch: &SketchCounts, q: f64) -> Option<f64> {
    let gamma = (1.0 + sketch.relative_accuracy) / (1.0 - sketch.relative_accuracy);
    // Off by the same factor from both ends of the bucket.
    let middle = |index: i32| 2.0 * gamma.powi(index) / (gamma + 1.0);
    let negative = sketch.negative.iter().rev();
    let negative = negative.map(|(index, count)| (-middle(*index), *count));
    let positive = sketch.positive.iter();
    let positive = positive.map(|(index, count)| (middle(*index), *count));
    let buckets = || {
        let zero = std::iter::once((0.0, sketch.zero));
        negative.clone().chain(zero).chain(positive.clone())
    };
    let samples: u64 = buckets().map(|(_, count)| count).sum();
    let rank = (q * samples.checked_sub(1)? as f64).floor() as u64;
    let mut below = 0u64;
    let holds_rank = |(_, count): &(f64, u64)| {
        below += count;
        below > rank
    };
    let found = buckets().find(holds_rank);
    found.map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: &[u64], sketch: Option<SketchCounts>) -> HistogramCell {
        HistogramCell {
            first_s: 0,
            counts: counts.to_vec(),
            samples: counts.iter().sum(),
            sum: 0.0,
            min: 0.0,
            max: 0.0,
            sketch,
            exemplars: Vec::new(),
        }
    }

    #[test]
    fn bounds() {
        let bounds = [10.0, 20.0, 50.0];
        let of = |counts: &[u64], q| quantile(&histogram(counts, None), &bounds, q);
        // Ten values of 5, and ten of 15.
        for (q, expected) in [(0.5, 10.0), (0.75, 15.0), (0.95, 19.0), (1.0, 20.0)] {
            assert_eq!(of(&[10, 10, 0, 0], q), Some(expected), "{q}");
        }
        assert_eq!(of(&[0, 0, 0, 0], 0.5), None);
        assert_eq!(of(&[0, 0, 0, 4], 0.5), Some(50.0));
        assert_eq!(of(&[0, 4, 0, 0], 0.0), Some(0.0));
        assert_eq!(of(&[0, 4, 0, 0], 0.5), Some(15.0));
        let negative = quantile(&histogram(&[3, 1], None), &[-5.0], 0.5);
        assert_eq!(negative, Some(-5.0));
    }

    #[test]
    fn sketches_are_as_good_as_they_say() {
        let accuracy = 0.01;
        let gamma: f64 = (1.0 + accuracy) / (1.0 - accuracy);
        let mut values: Vec<f64> = (1..=500).map(|i| f64::from(i) * 0.37).collect();
        values.extend((1..=200).map(|i| f64::from(i) * -1.7));
        values.extend([0.0; 50]);
        let mut sketch = SketchCounts {
            relative_accuracy: accuracy,
            zero: 0,
            positive: Vec::new(),
            negative: Vec::new(),
        };
        for value in &values {
            let one = |index: i32| vec![(index, 1)];
            let index = (value.abs().ln() / gamma.ln()).ceil() as i32;
            let (zero, positive, negative) = match value {
                v if *v > 0.0 => (0, one(index), Vec::new()),
                v if *v < 0.0 => (0, Vec::new(), one(index)),
                _ => (1, Vec::new(), Vec::new()),
            };
            let single = SketchCounts {
                relative_accuracy: accuracy,
                zero,
                positive,
                negative,
            };
            sketch.merge(&single).unwrap();
        }
        values.sort_by(f64::total_cmp);
        let cell = histogram(&[values.len() as u64], Some(sketch));
        for q in [0.0, 0.01, 0.2, 0.26, 0.3, 0.33, 0.5, 0.9, 0.99, 1.0] {
            let rank = (q * (values.len() - 1) as f64).floor() as usize;
            let (exact, found) = (values[rank], quantile(&cell, &[], q).unwrap());
            let error = (found - exact).abs();
            assert!(
                error <= accuracy * exact.abs() + 1e-9,
                "{q}: {found} for {exact}"
            );
        }
    }
}
