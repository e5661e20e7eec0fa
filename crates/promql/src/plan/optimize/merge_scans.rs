//! Selectors of the same series read them once.
//!
//! A scan may serve another one with narrower matchers, which are then checked series by series.
//! Time ranges are united if that reads no more than the selectors would on their own: if they
//! overlap, and, if the other one selects fewer series, the range hardly grows.
//!
//! Of rolled-up time they read the finer of the levels that they would choose, which serves both.

use std::cmp::Reverse;

use icecore_model::{MatchOp, Matcher};

use crate::plan::visit::{NodeMut, each_node};
use crate::plan::{Plan, Scan};

/// Merges scans and reports how many are left.
pub(super) fn apply(plan: &mut Plan) -> Option<String> {
    // For each scan the one that replaces it, and the matchers left to check.
    let mut kept: Vec<Scan> = Vec::new();
    let mut moved: Vec<(usize, Vec<Matcher>)> = vec![(0, Vec::new()); plan.scans.len()];
    // Wider selections first, so that narrower ones find them; of equal ones the longer range
    // first.
    let mut order: Vec<usize> = (0..plan.scans.len()).collect();
    order.sort_by_key(|index| {
        let scan = &plan.scans[*index];
        let is_exact = |m: &&Matcher| m.op() == MatchOp::Equal;
        let exact = scan.matchers.iter().filter(is_exact).count();
        (scan.matchers.len(), exact, Reverse(length(scan)))
    });
    for index in order {
        let scan = &plan.scans[index];
        let serving = kept.iter().position(|wide| serves(wide, scan));
        moved[index] = match serving {
            Some(place) => {
                let wide = &mut kept[place];
                (wide.start_ms, wide.end_ms) = united(wide, scan);
                wide.reads_edge |= scan.reads_edge;
                wide.fields |= scan.fields;
                if wide.choice.prefers_all_of(&scan.choice) {
                    wide.choice = scan.choice;
                }
                wide.evaluations = wide.evaluations.and(&scan.evaluations);
                wide.consumers += scan.consumers;
                (place, rest(&scan.matchers, &wide.matchers))
            }
            None => {
                kept.push(scan.clone());
                (kept.len() - 1, Vec::new())
            }
        };
    }
    // Numbered in the order of the query, for EXPLAIN.
    let before = plan.scans.len();
    let mut numbers: Vec<usize> = vec![usize::MAX; kept.len()];
    plan.scans.clear();
    for (place, _) in &moved {
        if numbers[*place] == usize::MAX {
            numbers[*place] = plan.scans.len();
            plan.scans.push(kept[*place].clone());
        }
    }
    each_node(plan, &mut |node| {
        if let NodeMut::Scan(from) = node {
            let (scan, filter) = &moved[from.scan];
            from.scan = numbers[*scan];
            from.filter.extend(filter.iter().cloned());
        }
    });
    let merged = plan.scans.len() < before;
    merged.then(|| match plan.scans.len() {
        1 => format!("{before} selectors share 1 scan"),
        scans => format!("{before} selectors share {scans} scans"),
    })
}

/// Whether `wide` selects everything that `narrow` does, at times that are worth uniting.
fn serves(wide: &Scan, narrow: &Scan) -> bool {
    let overlap = wide.start_ms <= narrow.end_ms && narrow.start_ms <= wide.end_ms;
    let one_is_finer =
        wide.choice.prefers_all_of(&narrow.choice) || narrow.choice.prefers_all_of(&wide.choice);
    if !overlap
        || !one_is_finer
        || !wide
            .matchers
            .iter()
            .all(|m| is_implied(m, &narrow.matchers))
    {
        return false;
    }
    if rest(&narrow.matchers, &wide.matchers).is_empty() {
        return true;
    }
    let (start_ms, end_ms) = united(wide, narrow);
    let grown = end_ms.saturating_sub(start_ms).saturating_sub(length(wide));
    names_metric(&wide.matchers) && grown <= length(wide) / 4
}

/// Whether values that satisfy all of `matchers` satisfy `matcher`.
fn is_implied(matcher: &Matcher, matchers: &[Matcher]) -> bool {
    matchers.iter().any(|m| {
        let names_value = m.op() == MatchOp::Equal && m.name() == matcher.name();
        m == matcher || (names_value && matcher.matches(m.value()))
    })
}

/// A selection without a metric name may be far larger than one that narrows it.
fn names_metric(matchers: &[Matcher]) -> bool {
    matchers
        .iter()
        .any(|m| m.name() == icecore_model::METRIC_NAME && m.op() == MatchOp::Equal)
}

fn rest(narrow: &[Matcher], wide: &[Matcher]) -> Vec<Matcher> {
    narrow
        .iter()
        .filter(|m| !wide.contains(m))
        .cloned()
        .collect()
}

fn length(scan: &Scan) -> i64 {
    scan.end_ms.saturating_sub(scan.start_ms)
}

fn united(a: &Scan, b: &Scan) -> (i64, i64) {
    (a.start_ms.min(b.start_ms), a.end_ms.max(b.end_ms))
}
