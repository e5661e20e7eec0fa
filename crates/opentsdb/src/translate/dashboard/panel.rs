//! A panel and its queries.

use std::borrow::Cow;

use super::document::{Object, datasource, object};
use super::target::{is_opentsdb_target, translate_target};
use super::{DashboardOptions, ReportLine};
use crate::json::Json;

/// So many points that Grafana never takes a longer step than that of the query; Prometheus answers
/// with no more.
const POINTS_MAX: &str = "11000";

/// Translates the queries of a panel.
pub(super) fn translate_panel(
    panel: &mut Object<'_, '_>,
    options: &DashboardOptions,
    report: &mut Vec<ReportLine>,
) {
    let panel_datasource = panel.get("datasource").cloned();
    let panel_is_opentsdb = panel.is_of_opentsdb();
    let panel_type = panel.datasource_type().map(String::from);
    let title = panel.text("title").unwrap_or_default().to_owned();
    let id = panel.get("id").and_then(Json::text).map(String::from);
    let place = match id {
        Some(id) => format!("panel {title:?} ({id})"),
        None => format!("panel {title:?}"),
    };
    let (mut translated, mut left, mut is_fixed) = (0, 0, false);
    for target in panel.elements("targets") {
        let Some(mut target) = object(target) else {
            continue;
        };
        let is_ours = match target.datasource_type() {
            Some(kind) => kind == "opentsdb",
            None if panel_is_opentsdb => true,
            // Older dashboards name a data source without its kind, or take the default.
            None => {
                panel_type
                    .as_deref()
                    .is_none_or(|kind| kind == "datasource")
                    && is_opentsdb_target(&target)
            }
        };
        if !is_ours {
            left += usize::from(target.datasource_type() != Some("__expr__"));
            continue;
        }
        let name = target.text("refId").unwrap_or("?").to_owned();
        let outcome = translate_target(&mut target, options);
        match &outcome {
            Ok((_, has_step)) => {
                translated += 1;
                is_fixed |= has_step;
            }
            Err(_) => left += 1,
        }
        report.push(ReportLine {
            place: format!("{place}, query {name}"),
            outcome: outcome.map(|(translation, _)| (translation.conditions, translation.notes)),
        });
    }
    if translated == 0 {
        return;
    }
    if left > 0 {
        keep_datasource(panel, panel_datasource);
        panel.set("datasource", datasource("datasource", "-- Mixed --"));
        return;
    }
    panel.set(
        "datasource",
        datasource("prometheus", &options.datasource_uid),
    );
    if is_fixed {
        let points = Json::Number(Cow::Borrowed(POINTS_MAX));
        panel.set("maxDataPoints", points);
    }
}

/// Queries that are left have the panel's data source, which is another one from now on.
fn keep_datasource<'d>(panel: &mut Object<'_, 'd>, known: Option<Json<'d>>) {
    let Some(known) = known else {
        return;
    };
    for target in panel.elements("targets") {
        if let Some(mut target) = object(target)
            && target.get("datasource").is_none()
        {
            target.set("datasource", known.clone());
        }
    }
}
