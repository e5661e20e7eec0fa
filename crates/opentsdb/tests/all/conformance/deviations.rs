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
    (
        "put",
        "put point validation",
        &[20],
        "this test sends the tags in the order of their names, the recorder did not",
    ),
];

/// Why a step may differ.
pub(super) fn reason(area: &str, group: &str, step: usize) -> Option<&'static str> {
    let is_listed =
        |d: &&(&str, &str, &[usize], &str)| d.0 == area && d.1 == group && d.2.contains(&step);
    DEVIATIONS.iter().find(is_listed).map(|found| found.3)
}
