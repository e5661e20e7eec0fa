//! A way out of OpenTSDB's query languages: PromQL that gives the same numbers over the same data.
//!
//! ```text
//! m=, gexp, query body, exp body, Grafana dashboard
//!     └─► SubQuery ─► selector ─► downsampling ─► rate ─► aggregation ─► Translation
//!                                                                      └► or why there is none
//! ```
//!
//! An interval of OpenTSDB begins with its first moment and is stamped with it; a range of PromQL
//! ends with its last moment and is stamped with it. Times are milliseconds, so that at a step `t`
//! the range `[1m] offset -59s999ms` holds exactly the points from `t` up to and without `t` + 1m.
//!
//! Holds always:
//! - A translation without conditions gives the numbers that OpenTSDB gives, at the same times.
//! - With conditions it does so for data that meets them; each says what differs otherwise.
//! - Whatever cannot be said in PromQL is refused with the reason. Nothing is approximated.

mod aggregation;
mod body;
mod bridge;
mod condition;
mod dashboard;
mod downsampling;
mod exp;
mod gexp;
mod interval;
mod matchers;
mod options;
mod promql;
mod rate;
mod refusal;
mod steps;
mod sub_query;
mod translation;
mod variables;

pub use body::{TranslatedPart, translate_body};
pub use condition::{Condition, Counted};
pub use dashboard::{DashboardOptions, ReportLine, TranslatedDashboard, translate_dashboard};
pub use options::TranslateOptions;
pub use refusal::Refusal;
pub use steps::Steps;
pub use translation::{Translation, translate_text};
