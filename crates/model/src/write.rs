//! What became of a request that was written.

use std::fmt::Write as _;

/// Reasons that an answer spells out.
const REASONS_SHOWN: usize = 4;

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOutcome {
    pub samples: u64,
    pub histograms: u64,
    pub exemplars: u64,
    /// Delta points that had been added before, and so were not added again.
    pub duplicates: u64,
    /// What was not stored, and why.
    pub rejected: Vec<Rejection>,
}

/// Something of a request that was not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub reason: String,
    /// Samples, histograms or exemplars refused for this reason.
    pub count: u64,
    /// Whether sending it again may succeed.
    pub retryable: bool,
}

impl WriteOutcome {
    /// Samples, histograms and exemplars that were not stored.
    pub fn rejected_count(&self) -> u64 {
        count(&self.rejected)
    }

    /// The first reasons with how often each applies, and how often others do, in one line.
    pub fn rejection_reasons(&self) -> String {
        let shown = self.rejected.len().min(REASONS_SHOWN);
        let (shown, further) = self.rejected.split_at(shown);
        let mut text = String::new();
        for (i, rejection) in shown.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            let Rejection { reason, count, .. } = rejection;
            let _ = write!(text, "{separator}{reason} (×{count})");
        }
        if !further.is_empty() {
            let _ = write!(text, "; other reasons (×{})", count(further));
        }
        text
    }
}

fn count(rejected: &[Rejection]) -> u64 {
    rejected.iter().map(|rejection| rejection.count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(reasons: usize) -> WriteOutcome {
        let rejection = |i| Rejection {
            reason: format!("r{i}"),
            count: 2,
            retryable: false,
        };
        WriteOutcome {
            rejected: (0..reasons).map(rejection).collect(),
            ..WriteOutcome::default()
        }
    }

    #[test]
    fn reasons_are_cut_but_counted() {
        assert_eq!(refused(0).rejection_reasons(), "");
        assert_eq!(refused(1).rejection_reasons(), "r0 (×2)");
        let four = "r0 (×2); r1 (×2); r2 (×2); r3 (×2)";
        assert_eq!(refused(4).rejection_reasons(), four);
        let six = format!("{four}; other reasons (×4)");
        assert_eq!(refused(6).rejection_reasons(), six);
        assert_eq!(refused(6).rejected_count(), 12);
    }
}
