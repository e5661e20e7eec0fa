//! A database that the first version with OpenTSDB wrote: it opens, answers, and is gone on with.
//!
//! `testdata/databases/opentsdb` was stopped in order, so that UIDs, meta data, annotations, a tree
//! and forms of numbers are records of the catalog; then it was started again, got more of each and
//! was killed, so that these lie in the journal. `testdata/opentsdb/stored.json` has questions, in
//! the form of recordings, with what was answered then.

use std::path::Path;

use opentsdb_recordings::groups_in;

use super::recorded::{replayed_at, start};
use super::repository;
use crate::served::{Workplace, check_is_clean};

#[test]
fn a_database_of_the_first_version_answers() {
    let workplace = Workplace::new();
    copy(
        &repository("testdata/databases/opentsdb"),
        &workplace.path("data"),
    );
    check_is_clean(workplace.path("data"), &[]);
    let groups = groups_in(&repository("testdata/opentsdb/stored.json"));
    for (life, group) in groups.iter().enumerate() {
        let served = start(&workplace, &group.settings);
        if life == 0 {
            // Otherwise there is nothing of the journal in it.
            let log = served.log();
            let replayed = log.lines().find(|line| line.contains("journal replayed"));
            assert!(
                replayed.is_some_and(|line| !line.contains(" records=0 ")),
                "{log}"
            );
        }
        let tally = replayed_at(served.opentsdb_address(), group);
        assert!(tally.differ.is_empty(), "{}", tally.differ.join("\n"));
        assert_eq!(tally.agree, group.steps.len());
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
