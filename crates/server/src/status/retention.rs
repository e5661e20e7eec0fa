//! `/api/v1/status/retention`: what is kept how long.
//!
//! Holds always: the shape is the same from a server and from `icecore policy show --config`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use icecore_model::format_duration_ms;
use icecore_model::retention::{Level, Retention, RetentionClass, RetentionPolicy};
use icecore_model::rollup::Resolution;
use serde_json::{Value, json};

use crate::app::{App, RetentionInEffect};
use crate::config::{column_word, late_data_word};
use crate::middleware::error::ApiError;
use crate::middleware::json::small_success;
use crate::retention;

pub(crate) async fn status(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    answer(&app)
}

/// `POST /api/v1/admin/retention/apply`: an operator confirms Prometheus' setting.
pub(crate) async fn apply(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.database()?;
    retention::confirm(&app).await.map_err(ApiError::internal)?;
    answer(&app)
}

fn answer(app: &App) -> Result<Response, ApiError> {
    let kept_since = app.database()?.kept_since();
    let RetentionInEffect { policy, pending } = app.retention();
    let mut status = retention_status(policy.as_ref());
    if let Some(pending) = pending {
        status["pending"] = json!({
            "retain": format_duration_ms(pending.retain_ms),
            "retainMs": pending.retain_ms,
            "oldestMs": pending.oldest_ms,
            "buckets": pending.buckets,
            "samples": pending.samples,
        });
    }
    for (resolution, since_ms) in kept_since {
        let levels = status.pointer_mut("/policy/levels");
        let levels = levels.and_then(Value::as_array_mut);
        let of_level = |level: &&mut Value| level["resolution"] == resolution.name();
        for level in levels.into_iter().flatten().filter(of_level) {
            level["keptSinceMs"] = since_ms.into();
        }
    }
    Ok(small_success(|out| {
        out.extend_from_slice(status.to_string().as_bytes());
    }))
}

/// A policy, or that there is none, as JSON. `docs/http-api.md` describes each field.
pub fn retention_status(policy: Option<&RetentionPolicy>) -> Value {
    let policy = policy.map(|policy| {
        let levels = policy.levels().iter().map(level_json);
        let classes = policy
            .classes()
            .filter(|class| *class != RetentionClass::DEFAULT);
        let overrides = std::iter::zip(policy.overrides(), classes).map(|(exception, class)| {
            let retain = |level: &Level| {
                let retain = policy.retain(class, level.resolution);
                retain_json(level.resolution, retain)
            };
            json!({
                "match": exception.to_string(),
                "levels": policy.levels().iter().map(retain).collect::<Vec<_>>(),
            })
        });
        json!({
            "levels": levels.collect::<Vec<_>>(),
            "rollupDelay": format_duration_ms(policy.rollup_delay_ms()),
            "lateData": late_data_word(policy.late_data()),
            "overrides": overrides.collect::<Vec<_>>(),
        })
    });
    json!({ "policy": policy })
}

fn level_json(level: &Level) -> Value {
    let mut json = retain_json(level.resolution, level.retain);
    if !level.resolution.is_raw() {
        json["columns"] = column_word(level.columns).into();
    }
    json
}

fn retain_json(resolution: Resolution, retain: Retention) -> Value {
    json!({
        "resolution": resolution.name(),
        "retain": retain.to_string(),
        "retainMs": retain.ms(),
    })
}

#[cfg(test)]
mod tests {
    use icecore_model::Matcher;
    use icecore_model::retention::{LateData, Override};

    use super::*;

    #[test]
    fn json_has_every_field() {
        let default = RetentionPolicy::default_levels();
        let billing = Override {
            matchers: vec![Matcher::equal("team", "billing")],
            retain: vec![
                (Resolution::FIVE_MINUTES, Retention::NOT_KEPT),
                (Resolution::HOUR, Retention::Forever),
            ],
        };
        let levels = default.levels().to_vec();
        let policy = RetentionPolicy::new(levels, 1_800_000, LateData::Merge, vec![billing]);
        let day_ms = 86_400_000_i64;
        let expected = json!({"policy": {
            "levels": [
                {"resolution": "raw", "retain": "21d", "retainMs": 21 * day_ms},
                {"resolution": "5m", "retain": "90d", "retainMs": 90 * day_ms, "columns": "lean"},
                {"resolution": "1h", "retain": "365d", "retainMs": 365 * day_ms, "columns": "full"},
            ],
            "rollupDelay": "30m",
            "lateData": "merge",
            "overrides": [{
                "match": "{team=\"billing\"}",
                "levels": [
                    {"resolution": "raw", "retain": "21d", "retainMs": 21 * day_ms},
                    {"resolution": "5m", "retain": "0", "retainMs": 0},
                    {"resolution": "1h", "retain": "inf", "retainMs": null},
                ],
            }],
        }});
        assert_eq!(retention_status(policy.ok().as_ref()), expected);
        assert_eq!(retention_status(None), json!({"policy": null}));
    }
}
