//! Where answers differ from the original's on purpose, each with its reason.

/// Where answers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The API over stores in memory.
    Memory,
    /// A server.
    Process,
}

/// `(area, group, steps, reason)`.
type Deviation = (&'static str, &'static str, &'static [usize], &'static str);

/// Deviations of a server that the API alone has not.
const OF_PROCESSES: &[Deviation] = &[
    (
        "put",
        "put point validation",
        &[38],
        "points of the year 2286 are refused: limits.future_max is a hundred years at most",
    ),
    (
        "telnet",
        "telnet put errors",
        &[35],
        "points of the year 2286 are refused: limits.future_max is a hundred years at most",
    ),
    (
        "telnet",
        "telnet put errors",
        &[42],
        "what begins as a request of HTTP does is answered as one; the original closes in silence",
    ),
];

const DEVIATIONS: &[Deviation] = &[
    (
        "admin",
        "admin endpoints rollup",
        &[31],
        "the version names another build; the recording forgot to say that it may",
    ),
    (
        "downsampling",
        "downsample specifications",
        &[66, 67],
        "an interval of 3 000 years makes the original look for rows whose time has more than 32 bits",
    ),
    (
        "filters",
        "tag filters",
        &[98],
        "what is wrong with a regular expression is said in the words of another engine",
    ),
    (
        "gexp",
        "gexp functions",
        &[26, 27, 28, 29, 30, 31, 34, 47],
        "points of two series are paired by time; the original pairs them by position",
    ),
    (
        "gexp",
        "gexp series arithmetic",
        &[8, 9, 17, 18, 26, 27, 35, 36, 44, 45, 53, 54, 62, 63, 71, 72],
        "points of two series are paired by time; the original pairs them by position",
    ),
    (
        "gexp",
        "gexp functions",
        &[35, 36, 37, 39],
        "timeShift works; the original understands none of its units",
    ),
    (
        "gexp",
        "gexp series arithmetic",
        &[88, 89],
        "timeShift works; the original understands none of its units",
    ),
    (
        "gexp",
        "gexp functions",
        &[63],
        "an expression is made of its own series; the original takes those of m for them",
    ),
    (
        "histogram",
        "histogram write validation",
        &[7, 8, 22],
        "buckets that end before they begin, and negative counts, are refused and not stored",
    ),
    (
        "histogram",
        "histogram write validation",
        &[49, 50],
        "a histogram without buckets is refused; in the original it hides the one of its time",
    ),
    (
        "last",
        "last data point meta",
        &[6, 8, 10, 12, 13, 15, 16, 18, 22, 24, 72],
        "the original looks into the hour of the last write alone, and misses a point that came late",
    ),
    (
        "put",
        "put point validation",
        &[47],
        "names with letters beyond ISO-8859-1 are kept as they are; the original cannot read them",
    ),
    (
        "put",
        "duplicate timestamps without fix_duplicates",
        &[5, 8, 11, 19, 20],
        "of two points at one time the last counts, however they were encoded",
    ),
    (
        "tree",
        "tree branches",
        &[18],
        "of branches whose names differ in case alone, the original hides all but one",
    ),
    (
        "tree",
        "tree formats",
        &[10],
        "of branches whose names differ in case alone, the original hides all but one",
    ),
    (
        "tree",
        "tree branches",
        &[37, 38],
        "the original shows the branch of the last series for all series of a test",
    ),
    (
        "tree",
        "tree branches strict",
        &[37, 38],
        "the original shows the branch of the last series for all series of a test",
    ),
    (
        "tree",
        "tree disabled",
        &[37, 38],
        "the original shows the branch of the last series for all series of a test",
    ),
    (
        "tree",
        "tree branches",
        &[44, 46, 47],
        "the original forgets the collisions that it should store",
    ),
    (
        "tree",
        "tree branches strict",
        &[44, 46, 47, 51, 52, 54],
        "the original forgets the collisions and series without a match that it should store",
    ),
];

/// The steps of the lists, by their groups.
pub(crate) fn listed_steps() -> impl Iterator<Item = (&'static str, &'static str, &'static [usize])>
{
    let all = DEVIATIONS.iter().chain(OF_PROCESSES);
    all.map(|listed| (listed.0, listed.1, listed.2))
}

/// Why a step may differ there.
pub(crate) fn reason(place: Place, area: &str, group: &str, step: usize) -> Option<&'static str> {
    let is_listed = |d: &&Deviation| d.0 == area && d.1 == group && d.2.contains(&step);
    let of_processes = OF_PROCESSES.iter().filter(|_| place == Place::Process);
    let found = DEVIATIONS.iter().chain(of_processes).find(is_listed);
    found.map(|found| found.3)
}
