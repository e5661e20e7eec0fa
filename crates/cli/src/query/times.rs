//! Times and durations as people write them.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{WrongUsage, utc};

/// Times relative to one moment: all of a command mean the same "now".
pub(crate) struct Times {
    now_ms: i64,
}

impl Times {
    pub(crate) fn now() -> Self {
        // A clock before 1970 is told by the times that are shown.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        Self { now_ms }
    }

    pub(crate) fn of_now(&self) -> i64 {
        self.now_ms
    }

    #[cfg(test)]
    pub(crate) fn at(now_ms: i64) -> Self {
        Self { now_ms }
    }

    /// `now`, `-1h30m`, `now-1h`, RFC 3339 or UNIX seconds.
    pub(crate) fn parse(&self, text: &str) -> Result<i64, String> {
        let relative = text.strip_prefix("now").unwrap_or(text);
        if relative.is_empty() && !text.is_empty() {
            return Ok(self.now_ms);
        }
        for (sign, factor) in [('-', -1), ('+', 1)] {
            if let Some(offset) = relative.strip_prefix(sign)
                && let Ok(offset_ms) = parse_duration_ms(offset)
            {
                return Ok(self.now_ms.saturating_add(factor * offset_ms));
            }
        }
        utc::parse_ms(text).map_err(|_| {
            format!(
                "{text:?} is no time: expected now, -1h30m, 2023-11-14T22:13:20Z or UNIX seconds"
            )
        })
    }

    fn of_flag(&self, flag: &str, text: &str) -> Result<i64, WrongUsage> {
        let parsed = self.parse(text);
        parsed.map_err(|problem| WrongUsage(format!("{flag}: {problem}")))
    }

    /// The time of a flag as a parameter.
    pub(crate) fn param(&self, flag: &str, text: &str) -> Result<String, WrongUsage> {
        self.of_flag(flag, text).map(seconds)
    }

    pub(crate) fn range(&self, start: &str, end: &str) -> Result<(i64, i64), WrongUsage> {
        let start_ms = self.of_flag("--start", start)?;
        let end_ms = self.of_flag("--end", end)?;
        if start_ms > end_ms {
            return Err(WrongUsage(format!(
                "--start {start} is after --end {end}: exchange them"
            )));
        }
        Ok((start_ms, end_ms))
    }
}

/// `15s`, `1h30m`, `500ms`, or seconds.
pub(crate) fn parse_duration_ms(text: &str) -> Result<i64, String> {
    let ms = match text.parse::<f64>() {
        Ok(seconds) => {
            let ms = (seconds * 1000.0).round();
            (0.0..1e15).contains(&ms).then_some(ms as i64)
        }
        Err(_) => icecore_model::parse_duration_ms(text).ok(),
    };
    ms.ok_or_else(|| format!("{text:?} is no duration: expected 15s, 1h30m or seconds"))
}

/// A time or a duration as parameters have it.
pub(crate) fn seconds(ms: i64) -> String {
    let sign = if ms < 0 { "-" } else { "" };
    let (whole, millis) = (ms.unsigned_abs() / 1000, ms.unsigned_abs() % 1000);
    match millis {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{millis:03}"),
    }
}

/// The shortest round step with which a range has no more points than these, beside the first.
pub(crate) fn round_step_ms(range_ms: i64, points: usize) -> i64 {
    const ROUND: [i64; 24] = [
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
        86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000,
    ];
    let points = i64::try_from(points).unwrap_or(i64::MAX).max(1);
    let least = range_ms / points;
    let found = ROUND.iter().map(|s| s * 1000).find(|step| *step >= least);
    found.unwrap_or(least).max(1000)
}
