//! Selectors of the same series read them once.
//!
//! A scan may serve another one whose matchers are its own and more: the rest is checked series by
//! series. Times are united when the ranges overlap; reading what nobody asked for is not worth it.

use icecore_model::Matcher;

use crate::plan::visit::{Place, each_place};
use crate::plan::{Plan, Scan};

pub(super) fn apply(plan: &mut Plan) {
    // For each scan the one that takes its place, and what is left to check.
    let mut kept: Vec<Scan> = Vec::new();
    let mut moved: Vec<(usize, Vec<Matcher>)> = vec![(0, Vec::new()); plan.scans.len()];
    // Wider selections first, so that narrower ones find them.
    let mut order: Vec<usize> = (0..plan.scans.len()).collect();
    order.sort_by_key(|index| plan.scans[*index].matchers.len());
    for index in order {
        let scan = &plan.scans[index];
        let serving = kept.iter().position(|wide| serves(wide, scan));
        moved[index] = match serving {
            Some(place) => {
                let wide = &mut kept[place];
                wide.start_ms = wide.start_ms.min(scan.start_ms);
                wide.end_ms = wide.end_ms.max(scan.end_ms);
                wide.consumers += scan.consumers;
                (place, rest(&scan.matchers, &wide.matchers))
            }
            None => {
                kept.push(scan.clone());
                (kept.len() - 1, Vec::new())
            }
        };
    }
    plan.scans = kept;
    each_place(plan, &mut |place| {
        if let Place::Scan(from) = place {
            let (scan, filter) = &moved[from.scan];
            from.scan = *scan;
            from.filter.extend(filter.iter().cloned());
        }
    });
}

/// Whether everything that `narrow` selects is in `wide`, at times that are worth uniting.
fn serves(wide: &Scan, narrow: &Scan) -> bool {
    let overlap = wide.start_ms <= narrow.end_ms && narrow.start_ms <= wide.end_ms;
    overlap
        && names_metric(&wide.matchers)
        && wide.matchers.iter().all(|m| narrow.matchers.contains(m))
}

/// A selection without a metric name may be far larger than one that narrows it.
fn names_metric(matchers: &[Matcher]) -> bool {
    matchers
        .iter()
        .any(|m| m.name() == icecore_model::METRIC_NAME && m.op() == icecore_model::MatchOp::Equal)
}

fn rest(narrow: &[Matcher], wide: &[Matcher]) -> Vec<Matcher> {
    narrow
        .iter()
        .filter(|m| !wide.contains(m))
        .cloned()
        .collect()
}
