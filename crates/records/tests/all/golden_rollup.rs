//! Golden bytes of rollup and retention; `golden` checks them together with the others.

use icecore_records::{SeriesId, key};

use crate::samples::*;

pub(crate) fn table() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        (
            "key RollupSeries, 16 h",
            key::rollup_series(sixteen_hours(), SeriesId(713)).into(),
            "016501b051c0000002c9",
        ),
        (
            "key RollupSeries histograms, 16 h",
            key::rollup_histograms(sixteen_hours(), SeriesId(713)).into(),
            "016501b051c0000002c901",
        ),
    ]
}
