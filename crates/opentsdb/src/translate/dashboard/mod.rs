//! Dashboards of Grafana: queries of its OpenTSDB data source become queries of Prometheus'.
//!
//! ```text
//! panels[], rows[].panels[] ─► targets[] ─► SubQuery ─► Translation ─► expr, legendFormat
//! templating.list[]         ─► tag_values(m, host)   ─► label_values({"m"}, host)
//! annotations.list[]        ─► stay: annotations of OpenTSDB are no series
//! ```
//!
//! Holds always:
//! - What is not translated stays as it is, with its data source.
//! - Everything else of the document stays, in its order.

mod document;
mod panel;
mod target;
mod template;

use document::{Object, object, pretty};
use panel::translate_panel;
use template::translate_variable;

use super::condition::Condition;
use super::options::TranslateOptions;
use super::refusal::Refusal;
use crate::json::Json;

/// Most bytes of a dashboard; Grafana's own are much smaller.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Panels within panels: rows are the only ones that have some.
const PANEL_DEPTH_MAX: usize = 4;

/// What a dashboard is to become.
#[derive(Clone, Debug)]
pub struct DashboardOptions {
    pub options: TranslateOptions,
    /// The UID of the data source of Prometheus' kind.
    pub datasource_uid: String,
}

/// What became of a query, a variable or an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportLine {
    /// Where it stands.
    pub place: String,
    /// What has to be true and what is good to know; or why it was left as it is.
    pub outcome: Result<(Vec<Condition>, Vec<String>), Refusal>,
}

/// A dashboard, and what became of its parts.
#[derive(Clone, Debug)]
pub struct TranslatedDashboard {
    pub json: String,
    pub report: Vec<ReportLine>,
}

/// Translates a dashboard.
pub fn translate_dashboard(
    text: &str,
    options: &DashboardOptions,
) -> Result<TranslatedDashboard, Refusal> {
    if text.len() > DOCUMENT_BYTES_MAX {
        let reason = format!("it has more than {DOCUMENT_BYTES_MAX} bytes");
        return Err(Refusal(reason));
    }
    let mut document = Json::parse(text)?;
    let mut report = Vec::new();
    {
        let root = object(&mut document);
        let mut root = root.ok_or_else(|| Refusal::new("it is no dashboard: not an object"))?;
        // What Grafana's API answers has the dashboard within.
        let dashboard = match root.get_mut("dashboard").and_then(object) {
            Some(inner) => inner,
            None => Object(root.0),
        };
        translate_parts(dashboard, options, &mut report)?;
    }
    Ok(TranslatedDashboard {
        json: pretty(&document),
        report,
    })
}

fn translate_parts(
    mut dashboard: Object<'_, '_>,
    options: &DashboardOptions,
    report: &mut Vec<ReportLine>,
) -> Result<(), Refusal> {
    if dashboard.get("panels").is_none() && dashboard.get("rows").is_none() {
        return Err(Refusal::new(
            "it is no dashboard: it has neither panels nor rows",
        ));
    }
    for row in dashboard.elements("rows") {
        if let Some(mut row) = object(row) {
            translate_panels(&mut row, options, report, PANEL_DEPTH_MAX);
        }
    }
    translate_panels(&mut dashboard, options, report, PANEL_DEPTH_MAX);
    if let Some(mut templating) = dashboard.get_mut("templating").and_then(object) {
        for variable in templating.elements("list") {
            if let Some(mut variable) = object(variable) {
                report.extend(translate_variable(&mut variable, &options.datasource_uid));
            }
        }
    }
    if let Some(mut annotations) = dashboard.get_mut("annotations").and_then(object) {
        for annotation in annotations.elements("list") {
            if let Some(annotation) = object(annotation) {
                report.extend(annotation_line(&annotation));
            }
        }
    }
    Ok(())
}

fn translate_panels(
    parent: &mut Object<'_, '_>,
    options: &DashboardOptions,
    report: &mut Vec<ReportLine>,
    depth: usize,
) {
    if depth == 0 {
        return;
    }
    for panel in parent.elements("panels") {
        if let Some(mut panel) = object(panel) {
            translate_panel(&mut panel, options, report);
            translate_panels(&mut panel, options, report, depth - 1);
        }
    }
}

/// Queries for annotations stay.
fn annotation_line(annotation: &Object<'_, '_>) -> Option<ReportLine> {
    let is_opentsdb = annotation.is_of_opentsdb() || annotation.text("target").is_some();
    is_opentsdb.then(|| {
        let name = annotation.text("name").unwrap_or_default();
        ReportLine {
            place: format!("annotation {name:?}"),
            outcome: Err(Refusal::new(
                "annotations of OpenTSDB are no series, PromQL has none: leave it with the data \
                 source of OpenTSDB's kind",
            )),
        }
    })
}
