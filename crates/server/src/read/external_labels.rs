//! `global.external_labels`: added to series that other servers read, to identify their origin.
//! They are not stored.

use icecore_model::{Labels, LabelsBuilder, MatchOp, Matcher};

use crate::app::App;

/// Name and value; as the configuration in force has them.
pub(crate) type ExternalLabels = Vec<(String, String)>;

pub(crate) fn external_labels(app: &App) -> ExternalLabels {
    let state = app.scraping().map(|scraping| scraping.load_state());
    state.map(|state| state.external_labels).unwrap_or_default()
}

/// The labels, and external ones whose names they do not have.
pub(crate) fn with_external(labels: &Labels, external: &[(String, String)]) -> Labels {
    let mut built = LabelsBuilder::from_labels(labels);
    for (name, value) in external {
        if labels.get(name).is_none() {
            built.set(name, value);
        }
    }
    built.build()
}

/// What a matcher of another server means for what is stored: an external label that is asked for
/// is one that is not there. As in Prometheus, where that holds for `=` alone.
pub(crate) fn without_external(matcher: Matcher, external: &[(String, String)]) -> Matcher {
    let named = |(name, value): &(String, String)| {
        matcher.op() == MatchOp::Equal && matcher.name() == name && matcher.value() == value
    };
    if external.iter().any(named) {
        Matcher::equal(matcher.name(), "")
    } else {
        matcher
    }
}
