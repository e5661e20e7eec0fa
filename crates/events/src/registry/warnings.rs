//! What is allowed in a registry and most likely not meant.

use icecore_model::event::EventWindow;
use icecore_settings::duration;

use super::{EventType, Mask, Metric, Registry, Service};

impl Registry {
    /// For people to read, in order of services and events.
    pub fn warnings(&self) -> Vec<String> {
        let services = self.services.iter();
        services
            .flat_map(|(name, service)| warnings_of(name, service))
            .collect()
    }

    /// Whether something is hashed, so that a key is needed.
    pub fn needs_masking_key(&self) -> bool {
        let mut rules = self.event_types().flat_map(|t| &t.masking);
        rules.any(|rule| rule.mask == Mask::Hash)
    }
}

fn warnings_of(name: &str, service: &Service) -> Vec<String> {
    let mut warnings = Vec::new();
    for event_type in service.types.values() {
        let mut own = event_type.metrics.iter().filter(|m| !m.built_in).peekable();
        let event = &event_type.name;
        if own.peek().is_none() {
            warnings.push(format!("{name}/{event}: has no metrics"));
        }
        for metric in own {
            let about = format!("{name}/{event}: metric {:?}", metric.name);
            let found = warnings_of_metric(event_type, metric);
            warnings.extend(found.into_iter().map(|found| format!("{about} {found}")));
        }
    }
    for extractor in &service.states {
        let event = &extractor.event_type;
        if !service.types.contains_key(event) {
            warnings.push(format!(
                "{name}: states of {:?} are unused, because there is no event {event:?}",
                extractor.object_type
            ));
        }
    }
    warnings
}

fn warnings_of_metric(event_type: &EventType, metric: &Metric) -> Vec<String> {
    let mut warnings = Vec::new();
    if metric.dimensions.is_empty() {
        warnings.push("has no dimensions".into());
    }
    let made = metric.fold.as_ref().map(|fold| fold.target.as_str());
    let paths = metric.dimensions.iter().map(|dimension| &dimension.path);
    let filtered = metric.filters.iter().map(|filter| &filter.path);
    for path in paths.clone().chain(filtered) {
        if event_type.field(path).is_none() && made != Some(path) {
            warnings.push(format!("uses {path:?}, which is not declared"));
        }
    }
    if let Some(made) = made {
        let is_used = paths.clone().any(|path| path == made)
            || metric.filters.iter().any(|filter| filter.path == made);
        if !is_used {
            warnings.push(format!("makes {made:?}, which is unused"));
        }
    }
    let windows = EventWindow::ALL;
    for (fine, coarse) in windows.into_iter().zip(windows.into_iter().skip(1)) {
        let of = |window| metric.retention.of(window);
        if of(fine) > of(coarse) {
            warnings.push(format!(
                "keeps {} for {}, longer than {} with {}",
                fine.code(),
                duration::show(&of(fine)),
                coarse.code(),
                duration::show(&of(coarse))
            ));
        }
    }
    warnings
}
