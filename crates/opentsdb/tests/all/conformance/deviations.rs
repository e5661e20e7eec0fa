//! Where answers differ from the original's on purpose, each with its reason.

/// `(area, group, steps, reason)`.
const DEVIATIONS: &[(&str, &str, &[usize], &str)] = &[
    (
        "admin",
        "admin endpoints rollup",
        &[31],
        "the version names another build; the recording forgot to say that it may",
    ),
    (
        "histogram",
        "histogram write validation",
        &[7, 8, 22],
        "buckets that end before they begin, and negative counts, are refused and not stored",
    ),
    (&str, &str, &[usize], &str),
] = &[(
    "downsampling",
    "downsample specifications",
    &[66, 67],
    "an interval of 3 000 years makes the original look for rows whose time has more than 32 bits",
)];

/// Why a step may differ.
pub(super) fn reason(area: &str, group: &str, step: usize) -> Option<&'static str> {
    let is_listed =
        |d: &&(&str, &str, &[usize], &str)| d.0 == area && d.1 == group && d.2.contains(&step);
    DEVIATIONS.iter().find(is_listed).map(|found| found.3)
}
